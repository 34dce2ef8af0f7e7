package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/writ-pdp/writ/definition"
)

// Limits of what $refs may expand to, so that a small schema cannot make a
// large type.
const (
	maxTypes = 4096
	maxDepth = 32
)

// deriver reads one tool's input schema into types. It never fails: what has no
// exact type is unsettled, and says why.
type deriver struct {
	root map[string]any
	// opaque, long and defaulted answer for names of arguments.
	opaque, long, defaulted func(name string) bool
	catalog                 *catalog
	nodes                   int
	// lonelyRefs: in dialects before 2019-09 everything beside $ref is ignored.
	lonelyRefs bool
}

// scope is where the deriver is.
type scope struct {
	inSet bool
	depth int
	refs  []string // being inlined
}

func newDeriver(tool *definition.Tool) *deriver {
	never := func(string) bool { return false }
	dialect, _ := tool.InputSchema["$schema"].(string)
	return &deriver{
		root: tool.InputSchema, opaque: never, long: never, defaulted: never, catalog: newCatalog(),
		lonelyRefs: strings.Contains(dialect, "/draft-0"),
	}
}

// Unsettled returns the arguments of tool that have no exact Cedar type, as a
// review names them, in order: a review that calls them opaque is complete in
// this respect.
func Unsettled(tool *definition.Tool) []string {
	d := newDeriver(tool)
	d.arguments()
	var names []string
	for _, a := range d.catalog.order {
		if a.unsettled != "" && !a.lost() {
			names = append(names, a.name)
		}
	}
	return names
}

// arguments returns the record of all arguments. At the root, keywords beside
// properties only narrow what properties declares, so they unsettle nothing.
// missing lists names that are required and not declared.
func (d *deriver) arguments() (record *Type, missing []string) {
	schema, why, s := d.inline(d.root, scope{})
	if why != "" {
		schema = d.root
	}
	properties, _ := schema["properties"].(map[string]any)
	required := stringSet(schema["required"])
	for name := range required {
		if _, ok := properties[name]; !ok {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return d.members(properties, required, nil, s), missing
}

// members returns the record of properties.
func (d *deriver) members(properties map[string]any, required map[string]bool, parent *argument, s scope) *Type {
	record := &Type{Kind: Record}
	s.depth++
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		a := &argument{name: name, parent: parent, optional: !required[name]}
		if parent != nil {
			a.name = parent.name + "." + name
			a.steps = slices.Clone(parent.steps)
		}
		a.steps = append(a.steps, step{member: name})
		d.argument(a, properties[name], s)
		record.Fields = append(record.Fields, Field{
			Name: name, Type: a.typ, Optional: a.optional && !d.defaulted(a.name),
		})
	}
	return record
}

// argument settles a.
func (d *deriver) argument(a *argument, schema any, s scope) {
	d.catalog.add(a)
	if !d.opaque(a.name) {
		a.typ, a.unsettled = d.settle(a, schema, s)
	}
	if a.typ == nil {
		a.typ = &Type{Kind: Opaque}
	}
}

// compositions are the keywords that can give a value several shapes.
var compositions = [...]string{
	"oneOf", "anyOf", "allOf", "not", "if", "dependentSchemas", "$dynamicRef", "$recursiveRef", "$id",
}

// settle returns the type of a, or why it has none.
func (d *deriver) settle(a *argument, value any, s scope) (*Type, string) {
	if d.nodes++; d.nodes > maxTypes {
		return nil, fmt.Sprintf("$ref: the schema expands to more than %d types", maxTypes)
	}
	if s.depth > maxDepth {
		return nil, fmt.Sprintf("it nests deeper than %d", maxDepth)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, "its schema is a boolean and has no type"
	}
	schema, why, s := d.inline(object, s)
	if why != "" {
		return nil, why
	}
	for _, k := range compositions {
		if _, ok := schema[k]; ok {
			return nil, k
		}
	}
	for _, dep := range asObject(schema["dependencies"]) {
		if _, list := dep.([]any); !list {
			return nil, "dependencies"
		}
	}
	word, values, why := typeWord(schema)
	if why != "" {
		return nil, why
	}
	switch word {
	case "string":
		t := &Type{Kind: String}
		for _, v := range values {
			t.allowed = append(t.allowed, v.(string))
		}
		t.Enum = t.allowed
		return t, ""
	case "integer":
		return &Type{Kind: Long}, ""
	case "number":
		if d.long(a.name) {
			return &Type{Kind: Long}, ""
		}
		return &Type{Kind: Decimal}, ""
	case "boolean":
		return &Type{Kind: Bool}, ""
	case "object":
		return d.object(a, schema, s)
	case "array":
		return d.array(a, schema, s)
	}
	return nil, fmt.Sprintf("type %q", word)
}

func (d *deriver) object(a *argument, schema map[string]any, s scope) (*Type, string) {
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return nil, "it is an object without properties"
	}
	required := stringSet(schema["required"])
	for _, name := range slices.Sorted(maps.Keys(required)) {
		if _, ok := properties[name]; !ok {
			return nil, fmt.Sprintf("required names %q, which properties lacks", name)
		}
	}
	record := d.members(properties, required, a, s)
	if s.inSet {
		for _, f := range record.Fields {
			if f.Optional && f.Type.Kind != Opaque {
				return nil, fmt.Sprintf("a set holds records of one shape and member %q is optional (call that member opaque, "+
					"or say what it means when_absent, and it settles)", f.Name)
			}
		}
	}
	return record, ""
}

func (d *deriver) array(a *argument, schema map[string]any, s scope) (*Type, string) {
	if s.inSet {
		return nil, "it is an array inside an array"
	}
	if _, ok := schema["prefixItems"]; ok {
		return nil, "prefixItems"
	}
	items, ok := schema["items"]
	if !ok {
		return nil, "it is an array without items"
	}
	if _, tuple := items.([]any); tuple {
		return nil, "items is a list"
	}
	s.inSet = true
	s.depth++
	e := &argument{name: a.name + "[]", parent: a, steps: append(slices.Clone(a.steps), step{each: true})}
	d.catalog.add(e)
	elem, why := d.settle(e, items, s)
	if why != "" {
		return nil, "items: " + why
	}
	e.typ = elem
	return &Type{Kind: Set, Elem: elem}, ""
}

// besideRef are the keywords that may stand beside $ref: they describe, or
// narrow without changing the shape.
var besideRef = map[string]bool{
	"$comment": true, "$schema": true, "$defs": true, "definitions": true, "title": true, "description": true,
	"default": true, "deprecated": true, "readOnly": true, "writeOnly": true, "examples": true, "format": true,
	"minLength": true, "maxLength": true, "pattern": true, "minimum": true, "maximum": true,
	"exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true, "minItems": true, "maxItems": true,
	"uniqueItems": true, "minProperties": true, "maxProperties": true, "required": true,
}

// inline follows $ref until it finds a schema of its own.
func (d *deriver) inline(schema map[string]any, s scope) (map[string]any, string, scope) {
	for {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema, "", s
		}
		if !d.lonelyRefs {
			for _, k := range slices.Sorted(maps.Keys(schema)) {
				if k != "$ref" && !besideRef[k] && !(s.depth == 0 && k == "type") {
					return nil, k + " beside $ref", s
				}
			}
		}
		if slices.Contains(s.refs, ref) {
			return nil, fmt.Sprintf("recursion through $ref %q", ref), s
		}
		target, ok := d.resolve(ref)
		if !ok {
			return nil, fmt.Sprintf("$ref %q does not lead into $defs or definitions of this schema", ref), s
		}
		s.refs = append(slices.Clone(s.refs), ref)
		schema = target
	}
}

// resolve returns the schema that ref points to inside this schema's $defs or
// definitions. A $id on the way gives pointers another meaning: not followed.
func (d *deriver) resolve(ref string) (map[string]any, bool) {
	pointer, local := strings.CutPrefix(ref, "#/")
	text, err := url.PathUnescape(pointer)
	if !local || err != nil {
		return nil, false
	}
	tokens := strings.Split(text, "/")
	if tokens[0] != "$defs" && tokens[0] != "definitions" || len(tokens) < 2 {
		return nil, false
	}
	var at any = d.root
	for _, token := range tokens {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		object, ok := at.(map[string]any)
		if !ok {
			return nil, false // also through lists: nothing that a schema needs
		}
		if at, ok = object[token]; !ok {
			return nil, false
		}
		if next, ok := at.(map[string]any); ok {
			if _, moved := next["$id"].(string); moved {
				return nil, false
			}
		}
	}
	target, ok := at.(map[string]any)
	return target, ok
}

// typeWord returns the one type of a schema, null aside, and the values that
// enum or const allow; or why there is no such type.
func typeWord(schema map[string]any) (word string, values []any, why string) {
	values, listed := schema["enum"].([]any)
	if c, ok := schema["const"]; ok {
		values, listed = []any{c}, true
	}
	// An explicit null is refused in any case, so it is no value of the enum.
	values = slices.DeleteFunc(slices.Clone(values), func(v any) bool { return v == nil })
	switch t := schema["type"].(type) {
	case string:
		word = t
	case []any:
		words := slices.DeleteFunc(slices.Clone(t), func(v any) bool { return v == "null" })
		if len(words) != 1 {
			return "", nil, "type lists several types"
		}
		word, _ = words[0].(string)
	case nil:
		if !listed || len(values) == 0 || jsonType(values[0]) != "string" {
			return "", nil, "it has no type"
		}
		word = "string"
	}
	if !listed {
		return word, nil, ""
	}
	if len(values) == 0 {
		return "", nil, "its enum is empty"
	}
	for _, v := range values {
		if t := jsonType(v); t != word && !(word == "integer" && t == "number") || t == "object" || t == "array" {
			return "", nil, "enum or const of mixed or composite types"
		}
	}
	return word, values, ""
}

func jsonType(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	}
	return "null"
}

func asObject(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func stringSet(v any) map[string]bool {
	list, _ := v.([]any)
	set := make(map[string]bool, len(list))
	for _, e := range list {
		if s, ok := e.(string); ok {
			set[s] = true
		}
	}
	return set
}
