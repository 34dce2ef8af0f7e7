package definition

import (
	"maps"
	"slices"

	"github.com/writ-pdp/writ/canon"
)

// Members that MCP gives a meaning, in a Tool object and in its annotations.
var (
	toolMembers       = [...]string{"name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta"}
	annotationMembers = [...]string{"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
)

// reader takes the typed members out of a Tool object. It keeps the first
// fault; what it returns after that is not to be used.
type reader struct {
	name   string // of the tool, once known
	offset int    // of the tool, in the text
	fault  *Error
}

func (r *reader) fail(pointer, reason string) {
	if r.fault == nil {
		r.fault = &Error{Tool: r.name, Offset: r.offset, Pointer: pointer, Reason: reason}
	}
}

func (r *reader) tool(object map[string]any, pointer string) *Tool {
	r.name = r.toolName(object, pointer)
	r.noLookAlikes(object, toolMembers[:], pointer)
	return &Tool{
		Name:         r.name,
		Title:        r.text(object, "title", pointer),
		Description:  r.text(object, "description", pointer),
		InputSchema:  r.inputSchema(object, pointer),
		OutputSchema: r.object(object, "outputSchema", pointer),
		Annotations:  r.annotations(object, pointer),
		Object:       object,
	}
}

// MaxNameBytes limits a tool's name.
const MaxNameBytes = 128

func (r *reader) toolName(object map[string]any, pointer string) string {
	name, ok := object["name"].(string)
	if !ok {
		r.fail(at(pointer, "name"), "a tool needs a name, which is a string")
		return ""
	}
	if !validName(name) {
		r.fail(at(pointer, "name"), "a tool's name is 1 to 128 ASCII letters, digits and _-./ (SEP-986): have the server rename the tool")
		return "" // anybody's text: not fit for messages
	}
	return name
}

func validName(name string) bool {
	if name == "" || len(name) > MaxNameBytes {
		return false
	}
	for i := 0; i < len(name); i++ {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '_', b == '-', b == '.', b == '/':
		default:
			return false
		}
	}
	return true
}

func (r *reader) inputSchema(object map[string]any, pointer string) map[string]any {
	const noArguments = `for a tool without arguments the server must send {"type":"object","additionalProperties":false}`
	pointer = at(pointer, "inputSchema")
	v, present := object["inputSchema"]
	schema, ok := v.(map[string]any)
	switch {
	case !present:
		r.fail(pointer, "inputSchema is missing, but MCP requires it: "+noArguments)
	case v == nil:
		r.fail(pointer, "inputSchema is null, but MCP requires a JSON Schema object: "+noArguments)
	case !ok:
		r.fail(pointer, "inputSchema is not an object, but MCP requires a JSON Schema object: "+noArguments)
	case schema["type"] != "object":
		r.fail(at(pointer, "type"), `inputSchema's type is not "object", but MCP requires it: arguments are always an object`)
	}
	return schema
}

func (r *reader) annotations(object map[string]any, pointer string) Annotations {
	m := r.object(object, "annotations", pointer)
	pointer = at(pointer, "annotations")
	r.noLookAlikes(m, annotationMembers[:], pointer)
	return Annotations{
		Title:           r.text(m, "title", pointer),
		ReadOnlyHint:    r.hint(m, "readOnlyHint", pointer),
		DestructiveHint: r.hint(m, "destructiveHint", pointer),
		IdempotentHint:  r.hint(m, "idempotentHint", pointer),
		OpenWorldHint:   r.hint(m, "openWorldHint", pointer),
	}
}

func (r *reader) text(m map[string]any, name, pointer string) string {
	v, present := m[name]
	s, ok := v.(string)
	if present && !ok {
		r.fail(at(pointer, name), name+" is not a string: have the server send a string or leave it out")
	}
	return s
}

func (r *reader) object(m map[string]any, name, pointer string) map[string]any {
	v, present := m[name]
	o, ok := v.(map[string]any)
	if present && !ok {
		r.fail(at(pointer, name), name+" is not an object: have the server send an object or leave it out")
	}
	return o
}

func (r *reader) hint(m map[string]any, name, pointer string) *bool {
	v, present := m[name]
	if !present {
		return nil
	}
	b, ok := v.(bool)
	if !ok {
		r.fail(at(pointer, name), name+" is not a boolean: have the server send true or false, or leave it out")
		return nil
	}
	return &b
}

// noLookAlikes refuses members that a lenient decoder would take for one of
// the known ones.
func (r *reader) noLookAlikes(m map[string]any, known []string, pointer string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if looksLike(name, known) {
			r.fail(at(pointer, name), reasonLookAlike)
		}
	}
}

const reasonLookAlike = "this name differs from one that MCP defines only in case or Unicode form, so that some decoders would read it as that: have the server rename it"

// looksLike reports whether name could be taken for a known one, but is none.
func looksLike(name string, known []string) bool {
	if slices.Contains(known, name) {
		return false
	}
	folded := canon.Fold(name)
	return slices.ContainsFunc(known, func(k string) bool { return canon.Fold(k) == folded })
}
