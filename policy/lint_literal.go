package policy

import (
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/target"
)

// allowed notes a literal that a value of type t, to which it is compared,
// can never be: it is outside the value's enum or in the wrong case.
func (c *checker) allowed(literal *expr, t typ) {
	v, ok := literal.node.(ast.NodeValue)
	if !ok {
		c.parts(literal, t)
		return
	}
	text, isText := v.Value.(types.String)
	if _, want := t.t.(resolved.StringType); isText && want {
		if normal := t.fold.normal(string(text)); normal != string(text) {
			c.note(topicCase, literal, "").words[string(types.String(normal).MarshalCedar())] = true
			return
		}
	}
	if uid, isEntity := v.Value.(types.EntityUID); isEntity {
		if c.spelling(literal, t) {
			return
		}
		if message := c.beyond(literal, t, false); message != "" {
			c.note(topicNever, literal, message)
			return
		}
		text, isText = uid.ID, true
	}
	c.outside(literal, t)
	if !isText || t.c == nil || t.c.Enum == nil || slices.Contains(t.c.Enum, string(text)) {
		return
	}
	n := c.note(topicEnum, literal, "")
	for _, value := range t.c.Enum {
		n.words[value] = true
	}
}

// spelling notes, and reports, an entity literal in a case that entities of
// type t never have.
func (c *checker) spelling(literal *expr, t typ) bool {
	v, ok := literal.node.(ast.NodeValue)
	if !ok {
		return false
	}
	uid, ok := v.Value.(types.EntityUID)
	if !ok {
		return false
	}
	normal := t.fold.normal(string(uid.ID))
	if normal == string(uid.ID) {
		return false
	}
	c.note(topicCase, literal, "").words[types.NewEntityUID(uid.Type, types.String(normal)).String()] = true
	return true
}

// scopeSpelling checks the case of the entity that the resource scope names.
func (c *checker) scopeSpelling() writ.Faults {
	parts := partsOf(c.in.policy.Resource)
	if len(c.located.resource.entities) == 0 {
		return nil
	}
	folded, want := false, ""
	for env := range c.environments() {
		c.env = env
		normal := c.resourceFold(parts.uid.Type).normal(string(parts.uid.ID))
		if normal == string(parts.uid.ID) {
			return nil
		}
		folded, want = true, types.NewEntityUID(parts.uid.Type, types.String(normal)).String()
	}
	if !folded {
		return nil
	}
	return writ.Faults{c.located.fault(c.located.resource.entities[0], wrongCase(want))}
}

func wrongCase(want string) string {
	return "policies see this in lower case, so that what stands here never matches: write " + want
}

// names lists every entity that the policy names, and reports the text of a
// Path, Host, Url or Email that isn't in normal form. It leaves out the places
// where something else is wrong with the name. Whether the entities are there
// is for [compiler.absent].
func (c *checker) names(except map[int]bool) (named []namedEntity, faults writ.Faults) {
	name := func(uid types.EntityUID, at int) {
		s := c.in.schema
		if except[at] || uid.Type == typeAction || !s.declaredType(uid.Type) {
			return // something else says so
		}
		if isTargetType(uid.Type) {
			if message := notNormal(uid); message != "" {
				faults = append(faults, c.located.fault(at, message))
			}
			return
		}
		if _, ok := s.Static(uid); !ok {
			named = append(named, namedEntity{uid, c.located.offsetOf(at)})
		}
	}
	scope := func(s ast.IsScopeNode, l locatedScope) {
		if parts := partsOf(s); len(l.entities) == 1 && (parts.equals || parts.in) {
			name(parts.uid, l.entities[0])
		}
	}
	scope(c.in.policy.Principal, c.located.principal)
	scope(c.in.policy.Resource, c.located.resource)
	var visit func(e *expr)
	visit = func(e *expr) {
		if v, ok := e.node.(ast.NodeValue); ok {
			if uid, ok := v.Value.(types.EntityUID); ok {
				name(uid, e.at)
			}
		}
		for _, arg := range e.args {
			visit(arg)
		}
	}
	for _, condition := range c.located.conditions {
		visit(condition.body)
	}
	return named, faults
}

// notNormal says what is wrong with the text of a Path, Host, Url or Email.
func notNormal(uid types.EntityUID) string {
	var normal string
	var err error
	switch text := string(uid.ID); uid.Type {
	case typePath:
		var p target.Path
		p, err = target.NewPath(text, target.PathOptions{})
		normal = p.Text
	case typeHost:
		var h target.Host
		h, err = target.NewHost(text)
		normal = h.Text
	case typeURL:
		var u target.URL
		u, err = target.NewURL(text)
		normal = u.Text
	case typeEmail:
		var m target.Email
		m, err = target.NewEmail(text)
		normal = m.Text
	}
	switch {
	case err != nil:
		return fmt.Sprintf("%s never matches: %s", uid, err)
	case normal != string(uid.ID):
		return fmt.Sprintf("%s never matches: write it in normal form, %s", uid, types.NewEntityUID(uid.Type, types.String(normal)))
	}
	return ""
}
