package policy

import (
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
)

// located is a policy together with the place of everything in it. Cedar-go
// says only where a policy starts.
type located struct {
	src    Source
	offset int // of the policy in the source

	principal, action, resource locatedScope
	conditions                  []condition
	// annotations holds where each annotation's value stands, or its name if
	// it has none.
	annotations map[string]int
	// exact says that the places are right. They are for every policy that
	// cedar-go parsed from the text; otherwise all places are its start.
	exact bool
}

// locatedScope says where the parts of a scope stand, as offsets in the
// policy's text.
type locatedScope struct {
	variable int
	name     int   // of the type after `is`
	entities []int // in order
}

// condition is one when or unless.
type condition struct {
	unless bool
	at     int
	body   *expr
}

// expr is one node of a condition and the place of the token that stands for
// it: an operator, the name of a member, method or function, the first
// token of a literal.
type expr struct {
	node ast.IsNode
	at   int // offset in the policy's text
	name int // of the type in `is`, of the pattern in `like`
	args []*expr
}

// locate finds every part of a policy in its own text, from the first
// annotation to the semicolon. A syntax tree, read from left to right, has
// the same words, literals and operators as the text that it was parsed from:
// the two are walked together.
func locate(p *ast.Policy, src Source, text []byte, offset int) *located {
	tokens, broken := scan(text, policyLanguage)
	a := aligner{text: text, tokens: tokens, failed: broken != nil}
	l := &located{src: src, offset: offset, annotations: map[string]int{}}
	for a.peek() == "@" {
		a.take("@")
		name := a.peek()
		l.annotations[name] = a.take(name)
		if a.i < len(tokens) && a.raw(a.i) == "(" {
			l.annotations[name] = a.takeString()
		}
	}
	a.take(a.peek()) // permit or forbid
	l.principal = a.scope("principal", p.Principal)
	l.action = a.scope("action", p.Action)
	l.resource = a.scope("resource", p.Resource)
	for _, c := range p.Conditions {
		word := "when"
		if c.Condition == ast.ConditionUnless {
			word = "unless"
		}
		at := a.take(word)
		a.takeRaw("{")
		l.conditions = append(l.conditions, condition{word == "unless", at, a.expr(c.Body)})
	}
	a.take(";")
	l.exact = !a.failed && a.peek() == ""
	return l
}

// fault returns an error at an offset of the policy's text.
func (l *located) fault(at int, message string) writ.Fault {
	return faultAt(l.src, l.offsetOf(at), message)
}

// offsetOf is the offset in the file of an offset of the policy's text.
func (l *located) offsetOf(at int) int {
	if !l.exact {
		at = 0
	}
	return l.offset + at
}

// aligner walks a text's tokens along a syntax tree.
type aligner struct {
	text   []byte
	tokens []token
	i      int
	failed bool
}

func (a *aligner) raw(i int) string { return a.tokens[i].text(a.text) }

// peek skips brackets and commas, which the tree doesn't have, and returns
// the next token; "" at the end.
func (a *aligner) peek() string {
	for a.i < len(a.tokens) {
		switch text := a.raw(a.i); text {
		case "(", ")", "[", "]", "{", "}", ",":
			a.i++
		default:
			return text
		}
	}
	return ""
}

// take takes the next token, which must be want, and returns its offset.
func (a *aligner) take(want string) int {
	if want == "" || a.peek() != want {
		a.failed = true
		return 0
	}
	a.i++
	return int(a.tokens[a.i-1].start)
}

// takeString takes the next token, which must be a string.
func (a *aligner) takeString() int {
	text := a.peek()
	if text == "" || text[0] != '"' {
		a.failed = true
		return 0
	}
	return a.take(text)
}

// takeRaw takes everything up to the next bracket of a kind and returns its
// offset. Nothing but other brackets and commas may be left out.
func (a *aligner) takeRaw(bracket string) int {
	for ; a.i < len(a.tokens); a.i++ {
		switch a.raw(a.i) {
		case bracket:
			a.i++
			return int(a.tokens[a.i-1].start)
		case "(", ")", "[", "]", "{", "}", ",":
			continue
		}
		break
	}
	a.failed = true
	return 0
}

// path takes a name such as A::B and returns where it starts.
func (a *aligner) path(name string) int {
	first, rest, more := strings.Cut(name, "::")
	at := a.take(first)
	for more {
		first, rest, more = strings.Cut(rest, "::")
		a.take("::")
		a.take(first)
	}
	return at
}

// entity takes an entity literal and returns where it starts.
func (a *aligner) entity(uid types.EntityUID) int {
	at := a.path(string(uid.Type))
	a.take("::")
	a.takeString()
	return at
}

func (a *aligner) scope(variable string, scope ast.IsScopeNode) locatedScope {
	out := locatedScope{variable: a.take(variable)}
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		a.take("==")
		out.entities = []int{a.entity(s.Entity)}
	case ast.ScopeTypeIn:
		a.take("in")
		out.entities = []int{a.entity(s.Entity)}
	case ast.ScopeTypeInSet:
		a.take("in")
		for _, uid := range s.Entities {
			out.entities = append(out.entities, a.entity(uid))
		}
	case ast.ScopeTypeIs:
		a.take("is")
		out.name = a.path(string(s.Type))
	case ast.ScopeTypeIsIn:
		a.take("is")
		out.name = a.path(string(s.Type))
		a.take("in")
		out.entities = []int{a.entity(s.Entity)}
	}
	return out
}
