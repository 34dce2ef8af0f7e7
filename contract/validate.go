package contract

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// Validate checks the arguments of a call, as [canon.ParseObject] returns them:
// nothing undeclared, no look-alike names, no explicit nulls, no set of more
// than [MaxSet] elements, and the whole input schema within its budget. It
// returns nil when they pass, else a failure with INVALID_ARGUMENTS.
func (c *Contract) Validate(args map[string]any) *Failure {
	if c.schema == nil || c.Arguments == nil {
		return invalid("", "this contract was not made by contract.New")
	}
	w := walk{allow: c.allow}
	if f := w.record(c.Arguments, args); f != nil {
		// Once more in order, so that equal arguments fail equally.
		w = walk{allow: c.allow, sorted: true}
		return w.record(c.Arguments, args)
	}
	broken, exhausted := c.schema.check(args)
	switch {
	case exhausted:
		return invalid("", "checking the arguments against the tool's schema takes more than "+
			strconv.Itoa(MaxVisits)+" steps: send less, or smaller arguments")
	case broken != nil:
		return c.broken(broken)
	}
	return nil
}

// broken turns the library's failure into ours. The pointer ends before the
// first name that no schema declares: such names are data.
func (c *Contract) broken(e *jsonschema.ValidationError) *Failure {
	leaf := blame(e)
	location, keep := leaf.InstanceLocation, 0
	for keep < len(location) && (c.schema.declared[location[keep]] || indexToken(location[keep])) {
		keep++
	}
	return invalid(pointerOf(location[:keep]), refusal(leaf))
}

func indexToken(s string) bool { return len(s) <= 5 && digits(s) }

func invalid(pointer, message string) *Failure {
	return &Failure{writ.CodeInvalidArguments, pointer, message}
}

// walk goes through the part of the arguments that policies see. It refuses
// what JSON Schema would let through, and whatever is not of the type that
// policies are promised.
type walk struct {
	// allow holds the declared top-level names by their folded form, where
	// undeclared ones are let through; nil: they are refused.
	allow  map[string]string
	sorted bool
	path   []token
}

// token is one token of the way to the value that is looked at.
type token struct {
	name    string
	index   int
	isIndex bool
}

func (w *walk) record(t *Type, object map[string]any) *Failure {
	if w.sorted {
		for _, name := range sortedKeys(object) {
			if f := w.member(t, name, object[name]); f != nil {
				return f
			}
		}
		return nil
	}
	for name, value := range object {
		if f := w.member(t, name, value); f != nil {
			return f
		}
	}
	return nil
}

func (w *walk) member(t *Type, name string, value any) *Failure {
	field := t.Field(name)
	if field == nil {
		return w.undeclared(t, name)
	}
	if field.Type.Kind == Opaque {
		return nil
	}
	w.path = append(w.path, token{name: name})
	if f := w.value(field.Type, value); f != nil {
		return f
	}
	w.path = w.path[:len(w.path)-1]
	return nil
}

// undeclared judges a member that the schema does not declare.
func (w *walk) undeclared(t *Type, name string) *Failure {
	top, alike := len(w.path) == 0, ""
	folded := canon.Fold(name)
	if top && w.allow != nil {
		if alike = w.allow[folded]; alike == "" {
			return nil
		}
	} else {
		for _, f := range t.Fields {
			if canon.Fold(f.Name) == folded {
				alike = f.Name
			}
		}
	}
	pointer := w.pointer()
	if len(name) <= maxShown {
		pointer = string(canon.AppendPointer([]byte(pointer), escaped(name)))
	}
	if alike != "" {
		return invalid(pointer, "undeclared, and it could be taken for "+strconv.Quote(alike))
	}
	return invalid(pointer, "the tool's schema does not declare it"+nearest(name, t.names()))
}

// escaped returns a name that a call brings along, with what is not graphic
// escaped: it is on its way to people and logs.
func escaped(name string) string {
	if plainText(name) {
		return name
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

// names returns the names of a record's members, at most so many that
// comparing them all takes no time to speak of: calls come from strangers.
func (t *Type) names() []string {
	const most = 256
	names := make([]string, 0, min(len(t.Fields), most))
	for _, f := range t.Fields[:min(len(t.Fields), most)] {
		names = append(names, f.Name)
	}
	return names
}

func (w *walk) value(t *Type, v any) *Failure {
	switch v := v.(type) {
	case nil:
		return w.fail("null: leave it out instead")
	case string:
		if t.Kind != String && t.Kind != Entity {
			return w.wrongType(t)
		}
		if t.allowed != nil && !slices.Contains(t.allowed, v) {
			return w.fail(mustBeOneOf(anys(t.allowed)))
		}
	case json.Number:
		if t.Kind != Long && t.Kind != Decimal {
			return w.wrongType(t)
		}
	case bool:
		if t.Kind != Bool {
			return w.wrongType(t)
		}
	case map[string]any:
		if t.Kind != Record {
			return w.wrongType(t)
		}
		return w.record(t, v)
	case []any:
		if t.Kind != Set {
			return w.wrongType(t)
		}
		return w.set(t, v)
	default:
		return w.wrongType(t)
	}
	return nil
}

func (w *walk) set(t *Type, array []any) *Failure {
	if len(array) > MaxSet {
		return w.fail("it has more than " + strconv.Itoa(MaxSet) + " elements")
	}
	for i, e := range array {
		w.path = append(w.path, token{index: i, isIndex: true})
		if f := w.value(t.Elem, e); f != nil {
			return f
		}
		w.path = w.path[:len(w.path)-1]
	}
	return nil
}

func (w *walk) wrongType(t *Type) *Failure {
	word := "" // no kind: nothing is of this type
	switch t.Kind {
	case String, Entity:
		word = "string"
	case Long:
		word = "integer"
	case Decimal:
		word = "number"
	case Bool:
		word = "boolean"
	case Record:
		word = "object"
	case Set:
		word = "array"
	case Opaque: // policies don't look, and neither does walk
	}
	if word == "" {
		return w.fail("the tool's schema refuses it: type")
	}
	return w.fail("must be " + typeWords[word])
}

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

func (w *walk) fail(message string) *Failure { return invalid(w.pointer(), message) }

func (w *walk) pointer() string {
	var p []byte
	for _, at := range w.path {
		if at.isIndex {
			p = strconv.AppendInt(append(p, '/'), int64(at.index), 10)
		} else {
			p = canon.AppendPointer(p, at.name)
		}
	}
	return string(p)
}
