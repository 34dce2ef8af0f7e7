package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
)

// CheckEntity says why e, with its own parents as Parents, can't be an
// entity of the bundle: its type isn't declared or is Writ's own, or what it
// holds isn't what its type declares. It returns nil for a sound entity.
func (s *Schema) CheckEntity(e types.Entity) error {
	t := e.UID.Type
	if reservedEntity(t) {
		return fmt.Errorf("%s: a bundle holds no %s entities: Writ makes them", e.UID, t)
	}
	if enum, ok := s.whole.Enums[t]; ok {
		return checkEnumEntity(e, enum)
	}
	declared, ok := s.whole.Entities[t]
	if !ok {
		return fmt.Errorf("%s: entity type %s is not declared in schema.cedarschema%s", e.UID, t, didYouMean(string(t), s.checkedTypes()))
	}
	for parent := range e.Parents.All() {
		if !slices.Contains(declared.ParentTypes, parent.Type) {
			return fmt.Errorf("%s: a %s can't be in %s: declare `entity %s in [%s]` or drop the parent", e.UID, t, parent, t, parent.Type)
		}
	}
	if err := s.entities.Entity(e); err != nil {
		return fmt.Errorf("%s: %s", e.UID, plainMismatch(err.Error()))
	}
	for _, r := range []types.Record{e.Attributes, e.Tags} {
		for name, v := range r.All() {
			if err := s.checkEnums(v); err != nil {
				return fmt.Errorf("%s: %s: %w", e.UID, name, err)
			}
		}
	}
	return nil
}

// plainMismatch turns Go's names of Cedar's types, where the validator says
// what it expected and what it got, into Cedar's own.
func plainMismatch(message string) string {
	i := strings.LastIndex(message, "expected ")
	if i < 0 {
		return message
	}
	return message[:i] + plainTypes.Replace(message[i:])
}

var plainTypes = strings.NewReplacer(
	"types.EntityUID", "an entity", "EntityUID", "an entity",
	"types.Boolean", "Bool", "Boolean", "Bool",
	"types.Datetime", "datetime", "Datetime", "datetime",
	"types.Decimal", "decimal", "Decimal", "decimal",
	"types.Duration", "duration", "Duration", "duration",
	"types.IPAddr", "ipaddr", "IPAddr", "ipaddr",
	"types.", "",
)

func checkEnumEntity(e types.Entity, enum resolved.Enum) error {
	if !slices.Contains(enum.Values, e.UID) {
		return fmt.Errorf("%s: not one of the declared values: %s", e.UID, enumValues(enum))
	}
	if e.Attributes.Len() > 0 || e.Tags.Len() > 0 || e.Parents.Len() > 0 {
		return fmt.Errorf("%s: a value of an enumerated type has no attributes, tags or parents", e.UID)
	}
	return nil
}

// checkEnums checks that every entity of an enumerated type in v is one of
// the type's values, which Cedar's validator doesn't.
func (s *Schema) checkEnums(v types.Value) error {
	switch v := v.(type) {
	case types.EntityUID:
		if enum, ok := s.whole.Enums[v.Type]; ok && !slices.Contains(enum.Values, v) {
			return fmt.Errorf("%s is not one of the declared values: %s", v, enumValues(enum))
		}
	case types.Set:
		for elem := range v.All() {
			if err := s.checkEnums(elem); err != nil {
				return err
			}
		}
	case types.Record:
		for member := range v.Values() {
			if err := s.checkEnums(member); err != nil {
				return err
			}
		}
	}
	return nil
}

func enumValues(enum resolved.Enum) string {
	ids := make([]string, len(enum.Values))
	for i, uid := range enum.Values {
		ids[i] = string(uid.ID)
	}
	return strings.Join(ids, ", ")
}
