package canon_test

import (
	"strings"
	"testing"

	"github.com/writ-pdp/writ/canon"
)

func TestLocate(t *testing.T) {
	const text = `
{
  "name": "a",
  "inputSchema": {"type" : "object",
    "properties": {"a/b": {"type": "numbr", "enum": [1, {"x": 2}, 3]}, "a": {"type": "string"}},
    "\u0072equired": ["a"]}
}`
	for _, tt := range []struct{ pointer, name, value string }{
		{"", "{\n  \"name\"", "{\n  \"name\""},
		{"/name", `"name": `, `"a",`},
		{"/inputSchema", `"inputSchema": `, `{"type" `},
		{"/inputSchema/type", `"type" :`, `"object",`},
		{"/inputSchema/properties/a~1b", `"a/b": `, `{"type": "numbr"`},
		{"/inputSchema/properties/a~1b/type", `"type": "numbr"`, `"numbr"`},
		{"/inputSchema/properties/a~1b/enum/2", `3]`, `3]`},
		{"/inputSchema/properties/a~1b/enum/1", `{"x": 2}`, `{"x": 2}`},
		{"/inputSchema/properties/a~1b/enum/1/x", `"x": 2}`, `2}`},
		{"/inputSchema/properties/a/type", `"type": "string"}}`, `"string"}}`},
		{"/inputSchema/required/0", `"a"]}`, `"a"]}`},
		// What isn't there: the nearest thing on the way.
		{"/inputSchema/properties/c/type", `"properties": `, `{"a/b"`},
		{"/inputSchema/properties/a~1b/enum/3", `"enum": `, `[1, `},
		{"/inputSchema/type/x", `"type" :`, `"object",`},
		{"/none", "{\n  \"name\"", "{\n  \"name\""},
	} {
		name, value := canon.Locate([]byte(text), tt.pointer)
		if !strings.HasPrefix(text[name:], tt.name) || !strings.HasPrefix(text[value:], tt.value) {
			t.Errorf("%s: at %.30q and %.30q, want %q and %q", tt.pointer, text[name:], text[value:], tt.name, tt.value)
		}
	}
	for _, broken := range []string{"", "  ", "{", `{"a"`, `{"a":`, `{"a":[`, "[1,", "nul", "]"} {
		if name, value := canon.Locate([]byte(broken), "/a/0/b"); name < 0 || value < name || value > len(broken) {
			t.Errorf("%q: %d, %d", broken, name, value)
		}
	}
}
