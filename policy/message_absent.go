package policy

import (
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
)

// What an absent value means, Cedar doesn't know, and in a forbid there are two
// answers: calls without it pass, or they are stopped like those with a bad
// value. A message says how to write either.

// absentInForbid is about an attribute, at e, that a forbid reads and that may
// be absent. path is that of an argument from context, or nil.
func (c *checker) absentInForbid(e *expr, path []string) string {
	name := attributeName(e)
	if path != nil {
		name = strings.Join(path[1:], ".")
	}
	return fmt.Sprintf("`%s` may be absent. %s. If they should not, %s", name, c.letThrough(e, path != nil), c.stop(e, path))
}

// letThrough says how calls without the attribute at e pass a forbid.
func (c *checker) letThrough(e *expr, argument bool) string {
	written := "…"
	if atom, applies, ok := c.part(e, true); ok {
		written = whereText(atom, applies)
	}
	out := fmt.Sprintf("If calls without it should pass this forbid, write `%s && %s`", guardText(e), written)
	if argument {
		out += " and add @absent(\"allowed\")"
	}
	return out
}

// stop says how a forbid stops calls without the attribute at e too. path is
// that of an argument, or nil.
func (c *checker) stop(e *expr, path []string) string {
	must, absent := "…", "…"
	if atom, applies, ok := c.part(e, false); ok {
		must = whereText(atom, !applies)
	}
	if c.readsBool(e) {
		absent = "false"
		switch bad, ok := c.badValue(e); {
		case ok && bad:
			must = "!" + e.text()
		case ok:
			must = e.text()
		}
	}
	out := fmt.Sprintf("write `unless { %s && %s }` instead", guardText(e), must)
	if atom, applies, ok := c.part(e, true); must == "…" && ok {
		out = fmt.Sprintf("write `!(%s && %s)` instead", guardText(e), whereText(atom, !applies))
	} else if must == "…" {
		out += ", with what must hold"
	}
	if len(path) == 0 || path[0] != "arguments" {
		return out
	}
	return fmt.Sprintf("%s, or say in the contract what absence means: `when_absent: {%s: %s}`", out, strings.Join(path[1:], "."), absent)
}

// whereText writes that an expression is true, or false.
func whereText(e *expr, holds bool) string {
	text := e.text()
	if !holds {
		text = negatedText(e)
	}
	if len(text) > maxQuoted {
		return "…"
	}
	return text
}

// remedy is stop for the argument at path, which the conditions read at use, if
// they do.
func (c *checker) remedy(path []string, use *expr) string {
	if use != nil {
		return c.stop(use, path)
	}
	var owner ast.IsNode = ast.NodeTypeVariable{Name: "context"}
	e := &expr{node: owner}
	for _, name := range path {
		e = &expr{node: ast.NodeTypeAccess{StrOpNode: ast.StrOpNode{Value: types.String(name)}}, args: []*expr{e}}
	}
	return c.stop(e, path)
}

// guardText asks for the attribute that e reads.
func guardText(e *expr) string {
	var b strings.Builder
	e.args[0].operand(&b)
	return b.String() + " has " + nameText(types.String(attributeName(e)))
}

// part returns the part of a condition that e decides, and whether the `when`
// that it stands in applies where the part is true or where it is false. ok is
// false where that depends on other parts; those that are joined by || count
// only unless alternatives are allowed.
func (c *checker) part(e *expr, alternatives bool) (atom *expr, applies, ok bool) {
	for atom = e; ; atom = c.parents[atom] {
		if parent := c.parents[atom]; parent == nil || isConnective(parent) {
			break
		}
	}
	applies = true
	joined := false
	at := atom
	for parent := c.parents[at]; parent != nil; parent = c.parents[at] {
		switch parent.node.(type) {
		case ast.NodeTypeAnd:
			joined = true
		case ast.NodeTypeOr:
			if joined = true; !alternatives {
				return atom, false, false
			}
		case ast.NodeTypeNot:
			if joined {
				return atom, false, false
			}
			applies = !applies
		default:
			return atom, false, false
		}
		at = parent
	}
	for _, condition := range c.located.conditions {
		if condition.body == at {
			return atom, applies, !condition.unless
		}
	}
	return atom, false, false
}

func isConnective(e *expr) bool {
	switch e.node.(type) {
	case ast.NodeTypeAnd, ast.NodeTypeOr, ast.NodeTypeNot, ast.NodeTypeIfThenElse:
		return true
	}
	return false
}

// readsBool reports whether e is an argument that is true or false.
func (c *checker) readsBool(e *expr) bool {
	for class := range c.inside[e] {
		t, ok := typeAt(class.applies.Context, contextPath(e))
		if _, isBool := t.(resolved.BoolType); !ok || !isBool {
			return false
		}
	}
	return len(c.inside[e]) > 0
}

// badValue returns the value of a Bool argument that a condition forbids,
// where e reads it in a `when` joined by && alone. ok is false elsewhere.
func (c *checker) badValue(e *expr) (bad, ok bool) {
	bad = true
	joined := false
	for {
		parent := c.parents[e]
		if parent == nil {
			break
		}
		switch parent.node.(type) {
		case ast.NodeTypeAnd:
			joined = true
		case ast.NodeTypeNot:
			if joined {
				return false, false
			}
			bad = !bad
		case ast.NodeTypeEquals, ast.NodeTypeNotEquals:
			other := parent.args[0]
			if other == e {
				other = parent.args[1]
			}
			v, literal := other.node.(ast.NodeValue)
			b, isBool := v.Value.(types.Boolean)
			if !literal || !isBool {
				return false, false
			}
			if _, equals := parent.node.(ast.NodeTypeEquals); equals != bool(b) {
				bad = !bad
			}
		default:
			return false, false
		}
		e = parent
	}
	for _, condition := range c.located.conditions {
		if condition.body == e {
			return bad, !condition.unless
		}
	}
	return false, false
}
