package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// unfit says why v is no value of type t, or nothing.
func unfit(t *Type, v any) string {
	mismatch := fmt.Sprintf("it is a %s, and the argument is a %s", jsonType(v), t.Kind)
	switch v := v.(type) {
	case string:
		switch t.Kind {
		case Entity:
			if _, failure := t.NewEntity(v); failure != nil {
				return failure.Message
			}
		case String:
		default:
			return mismatch
		}
		if t.allowed != nil && !slices.Contains(t.allowed, v) {
			return fmt.Sprintf("%q is not one of %s", v, quoteAll(t.allowed))
		}
		return ""
	case bool:
		if t.Kind == Bool {
			return ""
		}
	case json.Number:
		switch {
		case t.Kind == Long && isInteger(v) && len(v) <= 16: // within what a double holds exactly
			return ""
		case t.Kind == Decimal && plainDecimal(strings.TrimPrefix(string(v), "-")):
			return ""
		case t.Kind == Long || t.Kind == Decimal:
			return fmt.Sprintf("%s is no %s", v, t.Kind)
		}
	case []any:
		if t.Kind == Set {
			if len(v) > MaxSet {
				return fmt.Sprintf("it has more than %d elements", MaxSet)
			}
			for _, e := range v {
				if why := unfit(t.Elem, e); why != "" {
					return why
				}
			}
			return ""
		}
	case map[string]any:
		if t.Kind == Record {
			return unfitRecord(t, v)
		}
	}
	return mismatch
}

func unfitRecord(t *Type, object map[string]any) string {
	for _, name := range sortedKeys(object) {
		f := t.Field(name)
		if f == nil {
			return fmt.Sprintf("the schema declares no member %q", name)
		}
		if f.Type.Kind == Opaque {
			continue
		}
		if why := unfit(f.Type, object[name]); why != "" {
			return name + ": " + why
		}
	}
	for _, f := range t.Fields {
		if _, there := object[f.Name]; !there && !f.Optional && f.Default == nil && f.Type.Kind != Opaque {
			return fmt.Sprintf("member %q is missing", f.Name)
		}
	}
	return ""
}
