package policy

import (
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

// The two functions below are one table: for each kind of argument its Cedar
// type and its Cedar value. What the one gives the other must accept.

// cedarType returns the Cedar type of values of t, or nil when policies do
// not see them. What has no type is reported, with its place below path.
func (y *typer) cedarType(t *contract.Type, path string, inSet bool) schemaast.IsType {
	switch t.Kind {
	case contract.String:
		return schemaast.String()
	case contract.Long:
		return schemaast.Long()
	case contract.Decimal:
		return schemaast.Decimal()
	case contract.Bool:
		return schemaast.Bool()
	case contract.Entity:
		return y.entityType(t.Entity, path)
	case contract.Record:
		record := make(schemaast.RecordType, len(t.Fields))
		for i := range t.Fields {
			f := &t.Fields[i]
			if typ := y.cedarType(f.Type, join(path, f.Name), inSet); typ != nil {
				record[types.String(f.Name)] = schemaast.Attribute{Type: typ, Optional: f.Optional && f.Default == nil}
			}
		}
		return record
	case contract.Set:
		if hidden(t) {
			return nil
		}
		if inSet {
			y.report(path, "a list inside a list can't be given to policies: mark it opaque")
			return nil
		}
		elem := y.cedarType(t.Elem, path+"[]", true)
		if elem == nil {
			return nil
		}
		return schemaast.Set(elem)
	case contract.Opaque:
		return nil
	}
	y.report(path, "has a kind that policies can't be given: mark it opaque")
	return nil
}

// value returns the Cedar value of v, which is of type t. It is nil, without
// a failure, when policies do not see values of t.
func (p *projector) value(t *contract.Type, v any, inSet bool) (types.Value, *contract.Failure) {
	if v == nil && !hidden(t) {
		return nil, p.invalid("null stands for no value that policies could see: leave it out")
	}
	switch t.Kind {
	case contract.String:
		s, ok := v.(string)
		if !ok {
			return nil, p.invalid("must be a string")
		}
		return types.String(folded(t, s)), nil
	case contract.Long:
		n, ok := number(v, 0)
		if !ok {
			return nil, p.invalid("must be a whole number from -2^63 to 2^63-1")
		}
		return types.Long(n), nil
	case contract.Decimal:
		n, ok := number(v, 4)
		if !ok {
			return nil, p.invalid("must be a number with at most four decimal places, from -922337203685477.5808 to 922337203685477.5807")
		}
		d, err := types.NewDecimal(n, -4)
		if err != nil {
			return nil, p.invalid("must be a number with at most four decimal places, from -922337203685477.5808 to 922337203685477.5807")
		}
		return d, nil
	case contract.Bool:
		b, ok := v.(bool)
		if !ok {
			return nil, p.invalid("must be true or false")
		}
		return types.Boolean(b), nil
	case contract.Entity:
		s, ok := v.(string)
		if !ok {
			return nil, p.invalid("must be a string")
		}
		return p.entity(t, folded(t, s))
	case contract.Record:
		m, ok := v.(map[string]any)
		if !ok {
			return nil, p.invalid("must be an object")
		}
		return p.record(t, m, inSet)
	case contract.Set:
		if hidden(t) {
			return nil, nil
		}
		list, ok := v.([]any)
		if !ok {
			return nil, p.invalid("must be an array")
		}
		if inSet {
			return nil, p.invalid("a list inside a list can't be given to policies")
		}
		return p.set(t, list)
	case contract.Opaque:
		return nil, nil
	}
	return nil, p.invalid("has a kind that policies can't be given")
}

// hidden reports whether policies do not see values of t.
func hidden(t *contract.Type) bool {
	return t.Kind == contract.Opaque || t.Kind == contract.Set && hidden(t.Elem)
}

// folded returns s in lower-case ASCII where t takes part in a resource
// whose names are case-insensitive.
func folded(t *contract.Type, s string) string {
	if !t.Fold {
		return s
	}
	return lowerASCII(s)
}

// lowerASCII lower-cases A to Z and leaves every other character alone.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}

// join appends a member's name to the dotted path of an argument.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// typer turns argument types into schema types.
type typer struct {
	declared func(types.EntityType) bool
	report   func(path, message string)
}

// entityType returns a reference to t if it is declared.
func (y *typer) entityType(t types.EntityType, path string) schemaast.IsType {
	if _, err := types.NewEntityType(string(t)); err != nil {
		y.report(path, strconv.Quote(string(t))+" is not the name of an entity type")
		return nil
	}
	if strings.Contains(string(t), "::") {
		y.report(path, "names entity type "+string(t)+": a bundle's types have no namespace")
		return nil
	}
	if !y.declared(t) {
		y.report(path, "names entity type "+string(t)+", which nothing declares: add `entity "+string(t)+";` to schema.cedarschema")
		return nil
	}
	return schemaast.EntityType(t)
}

// invalid returns a failure at the value that is being projected.
func (p *projector) invalid(message string) *contract.Failure {
	return &contract.Failure{Code: writ.CodeInvalidArguments, Pointer: p.pointer(), Message: message}
}
