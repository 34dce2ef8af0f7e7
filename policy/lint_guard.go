package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/writ-pdp/writ"
)

// A forbid that applies only to calls which have an optional argument lets
// the others through:
//
//	forbid (…) when { context.arguments has private && context.arguments.private == false };
//
// To find such forbids, take the forbid's conditions as a Boolean formula over
// `context.arguments has x`, for one x, and other atoms, each of which may be
// true or false whatever the rest is. For a member x.y, x is there. If the formula can be true where x is
// there and can't be where it is not, then the guard is positive. What the
// types settle (`resource is Path`, a guard on an argument that this tool
// always or never has) is settled for one environment at a time.

// possible are the values that a formula may have.
type possible struct{ yes, no bool }

var free = possible{true, true}

func (p possible) not() possible { return possible{p.no, p.yes} }

func (p possible) and(q possible) possible {
	return possible{p.yes && q.yes, p.no || p.yes && q.no}
}

func (p possible) or(q possible) possible { return p.not().and(q.not()).not() }

// equal is p == q.
func (p possible) equal(q possible) possible {
	return possible{p.yes && q.yes || p.no && q.no, p.yes && q.no || p.no && q.yes}
}

// branch is if p then a else b.
func (p possible) branch(a, b possible) possible {
	return possible{p.yes && a.yes || p.no && b.yes, p.yes && a.no || p.no && b.no}
}

func settled(b bool) possible { return possible{b, !b} }

// formula evaluates conditions with one argument being there, or not.
type formula struct {
	path []string // of the argument, from context; nil: of none
	has  bool
	// atom returns what is possible of anything else.
	atom func(*expr) possible
}

// holds returns what is possible of all conditions together.
func (f *formula) holds(conditions []condition) possible {
	out := settled(true)
	for _, c := range conditions {
		p := f.of(c.body)
		if c.unless {
			p = p.not()
		}
		out = out.and(p)
	}
	return out
}

func (f *formula) of(e *expr) possible {
	switch n := e.node.(type) {
	case ast.NodeTypeAnd:
		return f.of(e.args[0]).and(f.of(e.args[1]))
	case ast.NodeTypeOr:
		return f.of(e.args[0]).or(f.of(e.args[1]))
	case ast.NodeTypeNot:
		return f.of(e.args[0]).not()
	case ast.NodeTypeIfThenElse:
		return f.of(e.args[0]).branch(f.of(e.args[1]), f.of(e.args[2]))
	case ast.NodeTypeEquals:
		if isFormula(e.args[0]) || isFormula(e.args[1]) {
			return f.of(e.args[0]).equal(f.of(e.args[1]))
		}
	case ast.NodeTypeNotEquals:
		if isFormula(e.args[0]) || isFormula(e.args[1]) {
			return f.of(e.args[0]).equal(f.of(e.args[1])).not()
		}
	case ast.NodeValue:
		if b, ok := n.Value.(types.Boolean); ok {
			return settled(bool(b))
		}
	case ast.NodeTypeHas:
		path := contextPath(e)
		switch n := len(path); {
		case n == 0 || n > len(f.path) || !slices.Equal(path, f.path[:n]):
		case n < len(f.path):
			return settled(true) // without what holds it, the argument is another's concern
		default:
			return settled(f.has)
		}
	}
	return f.atom(e)
}

// isFormula reports whether e is made of guards, so that comparing it with a
// Bool is one more connective.
func isFormula(e *expr) bool {
	switch e.node.(type) {
	case ast.NodeTypeAnd, ast.NodeTypeOr, ast.NodeTypeNot, ast.NodeTypeHas:
		return true
	case ast.NodeTypeIfThenElse:
		return isFormula(e.args[1]) || isFormula(e.args[2])
	}
	return false
}

// positive reports whether the conditions can be true if the argument at path
// is there, and can't if it isn't.
func positive(conditions []condition, path []string, atom func(*expr) possible) bool {
	with := formula{path: path, has: true, atom: atom}
	without := formula{path: path, has: false, atom: atom}
	return with.holds(conditions).yes && !without.holds(conditions).yes
}

// positiveGuards reports the arguments without which a forbid can't apply.
func (c *checker) positiveGuards() writ.Faults {
	if c.in.policy.Effect != ast.EffectForbid || c.in.annotations[noteAbsent] != "" {
		return nil
	}
	var out writ.Faults
	var reported [][]string
	for _, guard := range c.argumentGuards() {
		path := contextPath(guard)
		below := func(outer []string) bool {
			return len(outer) <= len(path) && slices.Equal(outer, path[:len(outer)])
		}
		if slices.ContainsFunc(reported, below) {
			continue
		}
		found := map[*class]bool{}
		for env := range c.environments() {
			if !optionalAt(env.class.applies.Context, path) {
				continue
			}
			c.env = env
			if positive(c.located.conditions, path, c.settledByTypes) {
				found[env.class] = true
			}
		}
		if len(found) == 0 {
			continue
		}
		reported = append(reported, path)
		name := "`" + path[0] + "`"
		if len(path) > 1 {
			name = "`" + strings.Join(path[1:], ".") + "`"
		}
		where := ""
		if tools := toolsOf(found); len(tools) < len(c.allTools()) {
			where = fmt.Sprintf(" in %d of %d tools (%s)", len(tools), len(c.allTools()), c.someTools(tools))
		}
		out = append(out, c.located.fault(guard.at, fmt.Sprintf(
			"this forbid lets calls without %s through%s. If that is meant, add @absent(\"allowed\"). If not, %s",
			name, where, c.remedy(path, c.conditionOf(path)))))
	}
	return out
}

// argumentGuards lists the `has` of the conditions that ask for arguments, or
// for members of them, in the order of the text.
func (c *checker) argumentGuards() []*expr {
	var out []*expr
	var visit func(e *expr)
	visit = func(e *expr) {
		for _, arg := range e.args {
			visit(arg)
		}
		if _, ok := e.node.(ast.NodeTypeHas); ok {
			if path := contextPath(e); askable(path) {
				out = append(out, e)
			}
		}
	}
	for _, condition := range c.located.conditions {
		visit(condition.body)
	}
	return out
}

// askable reports whether a path below context leads to what a caller can
// leave out: an argument, or what the proposal says of intent and token.
func askable(path []string) bool {
	switch {
	case len(path) > 1:
		return path[0] == "arguments" || path[0] == "element"
	case len(path) == 1:
		return path[0] == "intent" || path[0] == "purpose" || path[0] == "token"
	}
	return false
}

// settledByTypes returns what the types leave possible of e in the environment
// at hand.
func (c *checker) settledByTypes(e *expr) possible {
	c.silent = true
	defer func() { c.silent = false }()
	t, _ := c.typeOf(e, nil)
	switch t.truth {
	case alwaysTrue:
		return settled(true)
	case alwaysFalse:
		return settled(false)
	case either:
	}
	return free
}

// optionalAt reports whether the last member of a path below context may be
// absent while everything before it is there.
func optionalAt(context resolved.RecordType, path []string) bool {
	record := context
	for i, name := range path {
		attribute, ok := record[types.String(name)]
		if !ok {
			return false
		}
		if i == len(path)-1 {
			return attribute.Optional
		}
		if record, ok = attribute.Type.(resolved.RecordType); !ok {
			return false
		}
	}
	return false
}

// conditionOf returns the first expression that reads the argument at path.
func (c *checker) conditionOf(path []string) *expr {
	var found *expr
	var visit func(e *expr)
	visit = func(e *expr) {
		if _, ok := e.node.(ast.NodeTypeAccess); ok && found == nil && slices.Equal(contextPath(e), path) {
			found = e
		}
		for _, arg := range e.args {
			visit(arg)
		}
	}
	for _, condition := range c.located.conditions {
		visit(condition.body)
	}
	return found
}

// typeAt returns the type at a path below context.
func typeAt(context resolved.RecordType, path []string) (resolved.IsType, bool) {
	var t resolved.IsType = context
	for _, name := range path {
		record, ok := t.(resolved.RecordType)
		if !ok {
			return nil, false
		}
		attribute, ok := record[types.String(name)]
		if !ok {
			return nil, false
		}
		t = attribute.Type
	}
	return t, true
}
