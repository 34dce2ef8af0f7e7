package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/target"
)

// typ is what is known about the values of an expression.
type typ struct {
	// t is the Cedar type; nil: not known, because something in the
	// expression is wrong, or its parts have different types.
	t resolved.IsType
	// c is how the contract describes the value, where it comes from a call's
	// arguments.
	c *contract.Type
	// closed is what else is known of the value, and bounds of a path.
	closed *closed
	bounds *bounds
	// truth is set where only one value is possible.
	truth truth
	fold  fold
	// root says that this is the context itself, tool that it is the Tool that
	// the call is to.
	root, tool bool
}

// truth is what is known about a Bool.
type truth uint8

const (
	either truth = iota
	alwaysTrue
	alwaysFalse
)

func (t truth) not() truth {
	switch t {
	case alwaysTrue:
		return alwaysFalse
	case alwaysFalse:
		return alwaysTrue
	case either:
	}
	return either
}

// truthOf returns a known value.
func truthOf(b bool) truth {
	if b {
		return alwaysTrue
	}
	return alwaysFalse
}

// fold says which spellings of a text policies never see, because it was
// brought into one case.
type fold uint8

const (
	noFold fold = iota
	foldASCII
	foldPath
)

// normal returns text as policies would see it.
func (f fold) normal(text string) string {
	switch f {
	case foldASCII:
		return lowerASCII(text)
	case foldPath:
		if p, err := target.NewPath(text, target.PathOptions{Fold: true}); err == nil {
			return p.Text
		}
		// A name or a part of a path: the last segment of one is folded alike.
		if p, err := target.NewPath("/"+text, target.PathOptions{Fold: true}); err == nil {
			return strings.TrimPrefix(p.Text, "/")
		}
	case noFold:
	}
	return text
}

// lower returns a pattern in the case that policies see its text in.
func (f fold) lower(pattern string) string {
	switch f {
	case foldASCII:
		return lowerASCII(pattern)
	case foldPath:
		return canon.Fold(pattern)
	case noFold:
	}
	return pattern
}

func boolType(t truth) typ { return typ{t: resolved.BoolType{}, truth: t} }

var (
	longType   = typ{t: resolved.LongType{}}
	stringType = typ{t: resolved.StringType{}}
)

func extensionType(name string) typ { return typ{t: resolved.ExtensionType(name)} }

func entityTyp(t types.EntityType) typ { return typ{t: resolved.EntityType(t)} }

func (t typ) known() bool { return t.t != nil }

func (t typ) isExtension(name string) bool {
	e, ok := t.t.(resolved.ExtensionType)
	return ok && string(e) == name
}

// entity returns the entity type, if it is one.
func (t typ) entity() (types.EntityType, bool) {
	e, ok := t.t.(resolved.EntityType)
	return types.EntityType(e), ok
}

// elem returns the type of a set's elements; ok is false for anything else.
func (t typ) elem() (typ, bool) {
	s, ok := t.t.(resolved.SetType)
	if !ok {
		return typ{}, false
	}
	out := typ{t: s.Element, fold: t.fold}
	if t.c != nil && t.c.Kind == contract.Set {
		out.c = t.c.Elem
		out.fold, out.bounds = foldOf(out.c), boundsOf(out.c)
	}
	if t.closed != nil {
		out.closed = t.closed.elem
	}
	return out, true
}

// foldOf returns how an argument's text is folded.
func foldOf(c *contract.Type) fold {
	switch {
	case c == nil:
	case c.Fold:
		return foldASCII
	case c.Role != nil && c.Role.Case == "insensitive":
		return foldPath
	}
	return noFold
}

// sameType reports whether values of the two types can be equal as far as
// Cedar's strict validator is concerned. Entities of any two types may be
// compared.
func sameType(a, b resolved.IsType) bool {
	switch x := a.(type) {
	case nil:
		return true
	case resolved.EntityType:
		_, ok := b.(resolved.EntityType)
		return ok || b == nil
	case resolved.SetType:
		y, ok := b.(resolved.SetType)
		return b == nil || ok && sameType(x.Element, y.Element)
	case resolved.RecordType:
		y, ok := b.(resolved.RecordType)
		if b == nil || !ok {
			return b == nil
		}
		for name, attribute := range x {
			other, there := y[name]
			if !there || attribute.Optional != other.Optional || !sameType(attribute.Type, other.Type) {
				return false
			}
		}
		return len(x) == len(y)
	}
	return b == nil || typeText(a) == typeText(b)
}

// describe names a type for people.
func describe(t resolved.IsType) string {
	switch t := t.(type) {
	case resolved.StringType:
		return "text"
	case resolved.LongType:
		return "a whole number"
	case resolved.BoolType:
		return "a Bool"
	case resolved.ExtensionType:
		if t == "ipaddr" {
			return "an IP address"
		}
		return "a " + string(t)
	case resolved.EntityType:
		return article(string(t))
	case resolved.SetType:
		return "a set"
	case resolved.RecordType:
		return "a record"
	}
	return "something else"
}

func article(name string) string {
	if name != "" && strings.ContainsRune("AEIOUaeiou", rune(name[0])) && !strings.HasPrefix(name, "Us") && !strings.HasPrefix(name, "Ur") {
		return "an " + name
	}
	return "a " + name
}

// attribute looks an attribute up in a record or entity type. ok is false when
// the type has no attributes at all.
func (s *Schema) attribute(t resolved.IsType, name types.String) (a resolved.Attribute, there, ok bool) {
	switch t := t.(type) {
	case resolved.RecordType:
		a, there = t[name]
		return a, there, true
	case resolved.EntityType:
		a, there = s.whole.Entities[types.EntityType(t)].Shape[name]
		return a, there, true
	}
	return resolved.Attribute{}, false, false
}

// attributeNames lists the attributes of a record or entity type, sorted.
func (s *Schema) attributeNames(t resolved.IsType) []string {
	var record resolved.RecordType
	switch t := t.(type) {
	case resolved.RecordType:
		record = t
	case resolved.EntityType:
		record = s.whole.Entities[types.EntityType(t)].Shape
	}
	names := make([]string, 0, len(record))
	for name := range record {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// declaredType reports whether the schema has an entity type.
func (s *Schema) declaredType(t types.EntityType) bool {
	_, entity := s.whole.Entities[t]
	_, enum := s.whole.Enums[t]
	return entity || enum || t == typeAction
}

// mayBeIn reports whether entities of type child can be in one of type
// ancestor, or be that entity.
func (s *Schema) mayBeIn(child, ancestor types.EntityType) bool {
	seen := map[types.EntityType]bool{child: true}
	for todo := []types.EntityType{child}; len(todo) > 0; {
		if todo[0] == ancestor {
			return true
		}
		for _, parent := range s.whole.Entities[todo[0]].ParentTypes {
			if !seen[parent] {
				seen[parent] = true
				todo = append(todo, parent)
			}
		}
		todo = todo[1:]
	}
	return false
}

// scopeAllows reports whether a principal or resource scope can be true of
// entities of type t.
func (s *Schema) scopeAllows(scope scopeParts, t types.EntityType) bool {
	if scope.is != "" && scope.is != t {
		return false
	}
	switch {
	case scope.equals:
		return scope.uid.Type == t
	case scope.in:
		return s.mayBeIn(t, scope.uid.Type)
	}
	return true
}
