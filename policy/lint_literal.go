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

// names checks every entity that the policy names: that it exists, and that
// the text of a Path, Host, Url or Email is in normal form. It leaves out the
// places where something else is wrong with the name.
func (c *checker) names(except map[int]bool) writ.Faults {
	var out writ.Faults
	scope := func(s ast.IsScopeNode, l locatedScope) {
		if parts := partsOf(s); len(l.entities) == 1 && (parts.equals || parts.in) && !except[l.entities[0]] {
			out = append(out, c.name(parts.uid, l.entities[0])...)
		}
	}
	scope(c.in.policy.Principal, c.located.principal)
	scope(c.in.policy.Resource, c.located.resource)
	var visit func(e *expr)
	visit = func(e *expr) {
		if v, ok := e.node.(ast.NodeValue); ok {
			if uid, ok := v.Value.(types.EntityUID); ok && !except[e.at] {
				out = append(out, c.name(uid, e.at)...)
			}
		}
		for _, arg := range e.args {
			visit(arg)
		}
	}
	for _, condition := range c.located.conditions {
		visit(condition.body)
	}
	return out
}

// name checks one entity literal.
func (c *checker) name(uid types.EntityUID, at int) writ.Faults {
	s := c.in.schema
	if uid.Type == typeAction || !s.declaredType(uid.Type) {
		return nil // typing it says so
	}
	if isTargetType(uid.Type) {
		if message := notNormal(uid); message != "" {
			return writ.Faults{c.located.fault(at, message)}
		}
		return nil
	}
	if c.in.known.Has(uid) {
		return nil
	}
	if _, ok := s.Static(uid); ok {
		return nil
	}
	ids, complete := c.ids(uid.Type)
	if !complete || slices.Contains(ids, string(uid.ID)) {
		return nil
	}
	supplied := c.in.supplied[uid.Type]
	f := c.located.fault(at, fmt.Sprintf("there is no %s", uid))
	if enum, ok := s.whole.Enums[uid.Type]; ok {
		f.Message = fmt.Sprintf("%s is not one of %s", uid, enumValues(enum))
	} else if supplied {
		f.Severity = writ.Warning
		f.Message = fmt.Sprintf("the bundle holds no %s, though an issuer may supply it", uid)
	}
	if near := c.nearest(uid, ids); near != "" {
		f.Message += fmt.Sprintf("; did you mean %s?", types.NewEntityUID(uid.Type, types.String(near)))
	} else if uid.Type == typePolicy {
		f.Message += ": no policy has this @id"
	} else if !supplied && !reservedEntity(uid.Type) {
		f.Message += ": add it to entities/, or name one that the bundle holds"
	}
	return writ.Faults{f}
}

// maxComparisons bounds how many names are compared for suggestions while one
// bundle loads: a bundle that lost its entities must not take minutes to say so.
const maxComparisons = 2_000_000

// nearest suggests one of ids, which are all of uid's type.
func (c *checker) nearest(uid types.EntityUID, ids []string) string {
	return remember(&c.in, "nearest "+uid.String(), func() string {
		spent := remember(&c.in, "comparisons", func() *int { return new(int) })
		if *spent += len(ids); *spent > maxComparisons {
			return ""
		}
		return nearest(string(uid.ID), ids)
	})
}

// ids lists the ids of all entities of a type. complete is false when others
// may exist.
func (c *checker) ids(t types.EntityType) (ids []string, complete bool) {
	s := c.in.schema
	switch t {
	case typePolicy:
		if c.in.incomplete {
			return nil, false
		}
		for id := range c.in.policies {
			ids = append(ids, id)
		}
	case "Source":
		for _, kind := range writ.SourceKinds {
			ids = append(ids, string(kind))
		}
	case typeTool, typeServer:
		for uid := range s.static {
			if uid.Type == t {
				ids = append(ids, string(uid.ID))
			}
		}
	case "Caller":
		ids = c.in.known.IDs(t)
		return ids, len(ids) > 0
	default:
		if enum, ok := s.whole.Enums[t]; ok {
			for _, uid := range enum.Values {
				ids = append(ids, string(uid.ID))
			}
			break
		}
		return c.in.known.IDs(t), true
	}
	slices.Sort(ids)
	return ids, true
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
