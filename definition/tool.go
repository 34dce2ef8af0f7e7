package definition

import (
	"maps"

	"github.com/writ-pdp/writ/canon"
)

// Tool is one MCP Tool object (MCP 2026-07-28, server/tools, "Tool"). Its maps
// are trees as [canon.Parse] makes them, and parts of Object: read them only.
type Tool struct {
	Name        string // see [Parse]
	Title       string // empty: none
	Description string // empty: none
	// InputSchema is the JSON Schema of the arguments. Its "type" is "object".
	InputSchema map[string]any
	// OutputSchema is the JSON Schema of the structured result; nil: none.
	OutputSchema map[string]any
	Annotations  Annotations
	// Object is the whole Tool object, unknown members and icons too.
	Object map[string]any
	// Offset is where the object stands in the text that it was read from, in
	// bytes.
	Offset int
	// Digest is over {"type":"writ.definition.v1","definition":Object} in
	// canonical form (RFC 8785), Object's icons left out.
	Digest canon.Digest
}

// Annotations are what a server claims about its tool's behaviour. Nobody has
// checked them: they are hints for a reviewer, never grounds for a decision. A
// nil hint is absent.
type Annotations struct {
	Title           string
	ReadOnlyHint    *bool
	DestructiveHint *bool
	IdempotentHint  *bool
	OpenWorldHint   *bool
}

// Parse reads one Tool object of at most [canon.MaxSize] bytes.
//
// The name must be 1 to 128 ASCII letters, digits, "_", "-", "." and "/": what
// MCP says it should be (2026-07-28, server/tools, "Tool Names") and the slash
// of the proposal it came from (SEP-986). MCP only recommends this; here it is
// a rule, since names become parts of action ids, in which "#", ":" and white
// space mean something.
//
// inputSchema must be an object whose type is "object"; title and description
// strings, outputSchema and annotations objects, hints booleans, where
// present, and null is not absence. A member whose name differs from a known
// one only in case or Unicode form is refused, because a lenient decoder would
// read it as that one. An error is an [*Error].
func Parse(data []byte) (*Tool, error) {
	tool, err := parse(data, 0, "")
	if err != nil {
		return nil, err
	}
	return tool, nil
}

// parse is Parse for a part of a text, which starts at offset and has the
// pointer.
func parse(data []byte, offset int, pointer string) (*Tool, *Error) {
	v, err := canon.Parse(data)
	if err != nil {
		return nil, refused(err, data, offset, pointer)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, &Error{Offset: offset, Pointer: pointer, Reason: "a Tool object is a JSON object"}
	}
	r := reader{offset: offset}
	tool := r.tool(object, pointer)
	if r.fault != nil {
		return nil, r.fault
	}
	tool.Digest, tool.Offset = digest(object), offset
	return tool, nil
}

// digest is over an object with two members, written in canonical order.
func digest(object map[string]any) canon.Digest {
	if _, ok := object["icons"]; ok {
		object = maps.Clone(object)
		delete(object, "icons")
	}
	b := append(make([]byte, 0, 4096), `{"definition":`...)
	b = canon.Append(b, object)
	b = append(b, `,"type":"writ.definition.v1"}`...)
	return canon.Sum(b)
}
