package policy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

// CheckBound says which arguments of c are bound to an attribute that could
// never name a principal. Faults are located as those of [NewSchema].
func (s *Schema) CheckBound(c *contract.Contract) writ.Faults {
	b := &boundCheck{schema: s, contract: c}
	b.walk(c.Arguments, "")
	return b.faults
}

type boundCheck struct {
	schema   *Schema
	contract *contract.Contract
	faults   writ.Faults
}

// walk checks t, whose place below the arguments is path.
func (b *boundCheck) walk(t *contract.Type, path string) {
	if t == nil {
		return
	}
	b.walk(t.Elem, path+"[]")
	for i := range t.Fields {
		b.walk(t.Fields[i].Type, join(path, t.Fields[i].Name))
	}
	if t.Kind != contract.Entity || t.BoundTo == "" {
		return
	}
	if why := b.schema.unbound(t.Entity, types.String(t.BoundTo)); why != "" {
		b.faults = append(b.faults, writ.Fault{
			File: serverFile(b.contract), Field: member(member("tools", b.contract.Tool.Name)+".arguments", path),
			Message: fmt.Sprintf("argument %s of %s %s", path, b.contract.ID(), why),
		})
	}
}

// unbound says why an attribute of an entity type names no principal, or
// nothing where it may.
func (s *Schema) unbound(t types.EntityType, name types.String) string {
	shape := s.whole.Entities[t].Shape
	attribute, there := shape[name]
	if !there {
		names := make([]string, 0, len(shape))
		for n := range maps.Keys(shape) {
			names = append(names, string(n))
		}
		slices.Sort(names)
		near := didYouMean(string(name), names)
		if near == "" {
			near = fmt.Sprintf(": declare it in schema.cedarschema, such as %s: User", name)
		}
		return fmt.Sprintf("is bound to %q, which no %s has%s", name, t, near)
	}
	of := attribute.Type
	if set, ok := of.(resolved.SetType); ok {
		of = set.Element
	}
	if owner, ok := of.(resolved.EntityType); ok && s.principals[types.EntityType(owner)] {
		return ""
	}
	return fmt.Sprintf("is bound to %q, which names nobody for whom calls are made: it must be an entity, or a set of entities, that an issuer's template for principals makes", name)
}

// MayBeIn says why entities of a type can't be in one that an issuer makes for
// its groups, or nothing where they can.
func (s *Schema) MayBeIn(child, group types.EntityType) string {
	if _, enum := s.whole.Enums[group]; enum {
		return fmt.Sprintf("%s is an enumerated type, whose entities the schema alone names: write another type", group)
	}
	if slices.Contains(s.whole.Entities[child].ParentTypes, group) {
		return ""
	}
	return fmt.Sprintf("a %s can't be in %s: declare `entity %s in [%s]` in schema.cedarschema, or write another type", child, group, child, group)
}
