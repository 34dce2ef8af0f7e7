package definition_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/definition"
)

const full = `{
	"name": "read_file", "title": "Read file", "description": "Read a file.",
	"inputSchema": {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer", "maximum": 1e3}},
		"required": ["path"], "additionalProperties": false},
	"outputSchema": {"type": "object"},
	"annotations": {"title": "Read", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false},
	"icons": [{"src": "https://a.example/i.png"}],
	"_meta": {"a/b": null},
	"x-vendor": [1, "\u00e9"]
}`

func TestParse(t *testing.T) {
	tool, err := definition.Parse([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	if tool.Name != "read_file" || tool.Title != "Read file" || tool.Description != "Read a file." {
		t.Errorf("name, title, description: %q, %q, %q", tool.Name, tool.Title, tool.Description)
	}
	yes, no := true, false
	if want := (definition.Annotations{Title: "Read", ReadOnlyHint: &yes, DestructiveHint: &no, IdempotentHint: &yes, OpenWorldHint: &no}); !reflect.DeepEqual(tool.Annotations, want) {
		t.Errorf("annotations: %+v", tool.Annotations)
	}
	if want := (map[string]any{"type": "object"}); !reflect.DeepEqual(tool.OutputSchema, want) {
		t.Errorf("outputSchema: %v", tool.OutputSchema)
	}
	want := map[string]any{
		"type":                 "object",
		"properties":           map[string]any{"path": map[string]any{"type": "string"}, "n": map[string]any{"type": "integer", "maximum": json.Number("1000")}},
		"required":             []any{"path"},
		"additionalProperties": false,
	}
	if !reflect.DeepEqual(tool.InputSchema, want) {
		t.Errorf("inputSchema: %v", tool.InputSchema)
	}
	for name, want := range map[string]any{
		"_meta":    map[string]any{"a/b": nil},
		"x-vendor": []any{json.Number("1"), "é"},
		"icons":    []any{map[string]any{"src": "https://a.example/i.png"}},
	} {
		if !reflect.DeepEqual(tool.Object[name], want) {
			t.Errorf("Object[%q] = %v, want %v", name, tool.Object[name], want)
		}
	}
	if len(tool.Object) != 9 {
		t.Errorf("Object has %d members, want 9", len(tool.Object))
	}
}

func TestParseSmallest(t *testing.T) {
	tool, err := definition.Parse([]byte(`{"name":"ping","inputSchema":{"type":"object"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if tool.Title != "" || tool.Description != "" || tool.OutputSchema != nil || tool.Annotations != (definition.Annotations{}) {
		t.Errorf("absent members: %+v", tool)
	}
}

// TestDigest holds digests to SHA-256 sums over the canonical text, computed
// apart from this code.
func TestDigest(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"name":"ping","inputSchema":{"type":"object"}}`, "363f498e8210d7f6290b2f416e8ffb0eebc0fd729a8a32b9e6c020d93c57a0b3"},
		{full, "f8c9ea89ea72c896851d73011be5466fdd46d60c60d6bbc5939d1c7b339b9dfa"},
	} {
		tool, err := definition.Parse([]byte(tt.in))
		if err != nil {
			t.Fatal(err)
		}
		if got := tool.Digest.String(); got != "sha256:"+tt.want {
			t.Errorf("digest of %s = %s, want %s", tool.Name, got, tt.want)
		}
		object := map[string]any{}
		for name, v := range tool.Object {
			if name != "icons" {
				object[name] = v
			}
		}
		generic := canon.Sum(canon.Append(nil, map[string]any{"type": "writ.definition.v1", "definition": object}))
		if tool.Digest != generic {
			t.Errorf("digest of %s = %s, by the generic writer %s", tool.Name, tool.Digest, generic)
		}
	}
}

func TestParseNames(t *testing.T) {
	parse := func(name string) error {
		text := canon.Append(nil, map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}})
		_, err := definition.Parse(text)
		return err
	}
	for _, name := range []string{"a", "getUser", "DATA_EXPORT_v2", "admin.tools.list", "user-profile/update", "0", "/", strings.Repeat("a", 128)} {
		if err := parse(name); err != nil {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", strings.Repeat("a", 129), "a b", " a", "a\n", "a#b", "a:b", "a,b", "a\\b", "a@b", "a\x00", "é", "a\u200b", "аdmin", "a*", "a?", `a"b`, "a+b", "a~b", "a%20b", "a(b)",
	} {
		err := parse(name)
		fault, ok := errors.AsType[*definition.Error](err)
		if !ok {
			t.Errorf("name %q: %v, want a refusal", name, err)
			continue
		}
		if fault.Pointer != "/name" || fault.Tool != "" || !strings.Contains(fault.Reason, "1 to 128") {
			t.Errorf("name %q: %+v", name, fault)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	with := func(member string) string { return `{"name":"t","inputSchema":{"type":"object"},` + member + `}` }
	tests := []struct{ name, in, tool, pointer, reason string }{
		{"empty", "", "", "", "no JSON value"},
		{"array", "[]", "", "", "JSON object"},
		{"null", "null", "", "", "JSON object"},
		{"two values", `{"name":"t","inputSchema":{"type":"object"}}{}`, "", "", "after the JSON value"},
		{"truncated", `{"name":"t"`, "", "", "not JSON"},
		{"comment", "{}// x", "", "", "after the JSON value"},
		{"byte order mark", "\ufeff{}", "", "", "not JSON"},

		{"no name", `{"inputSchema":{"type":"object"}}`, "", "/name", "needs a name"},
		{"null name", `{"name":null,"inputSchema":{"type":"object"}}`, "", "/name", "needs a name"},
		{"numeric name", `{"name":1,"inputSchema":{"type":"object"}}`, "", "/name", "needs a name"},
		{"name in upper case", `{"Name":"t","inputSchema":{"type":"object"}}`, "", "/name", "needs a name"},

		{"no inputSchema", `{"name":"t"}`, "t", "/inputSchema", "missing"},
		{"null inputSchema", `{"name":"t","inputSchema":null}`, "t", "/inputSchema", `is null, but MCP requires a JSON Schema object: for a tool without arguments the server must send {"type":"object","additionalProperties":false}`},
		{"boolean inputSchema", `{"name":"t","inputSchema":true}`, "t", "/inputSchema", "not an object"},
		{"array inputSchema", `{"name":"t","inputSchema":[]}`, "t", "/inputSchema", "not an object"},
		{"string inputSchema", `{"name":"t","inputSchema":"{}"}`, "t", "/inputSchema", "not an object"},
		{"inputSchema without type", `{"name":"t","inputSchema":{}}`, "t", "/inputSchema/type", `not "object"`},
		{"inputSchema of an array", `{"name":"t","inputSchema":{"type":"array"}}`, "t", "/inputSchema/type", `not "object"`},
		{"inputSchema of several types", `{"name":"t","inputSchema":{"type":["object"]}}`, "t", "/inputSchema/type", `not "object"`},
		{"inputSchema of another case", `{"name":"t","inputSchema":{"type":"Object"}}`, "t", "/inputSchema/type", `not "object"`},

		{"null title", with(`"title":null`), "t", "/title", "not a string"},
		{"numeric title", with(`"title":1`), "t", "/title", "not a string"},
		{"null description", with(`"description":null`), "t", "/description", "not a string"},
		{"description list", with(`"description":["a"]`), "t", "/description", "not a string"},
		{"null outputSchema", with(`"outputSchema":null`), "t", "/outputSchema", "not an object"},
		{"boolean outputSchema", with(`"outputSchema":true`), "t", "/outputSchema", "not an object"},
		{"null annotations", with(`"annotations":null`), "t", "/annotations", "not an object"},
		{"annotations list", with(`"annotations":[]`), "t", "/annotations", "not an object"},
		{"annotations title", with(`"annotations":{"title":1}`), "t", "/annotations/title", "not a string"},
		{"readOnlyHint text", with(`"annotations":{"readOnlyHint":"true"}`), "t", "/annotations/readOnlyHint", "not a boolean"},
		{"destructiveHint null", with(`"annotations":{"destructiveHint":null}`), "t", "/annotations/destructiveHint", "not a boolean"},
		{"idempotentHint number", with(`"annotations":{"idempotentHint":1}`), "t", "/annotations/idempotentHint", "not a boolean"},
		{"openWorldHint object", with(`"annotations":{"openWorldHint":{}}`), "t", "/annotations/openWorldHint", "not a boolean"},

		{"duplicate name", `{"name":"t","name":"u","inputSchema":{"type":"object"}}`, "", "/name", "same name twice"},
		{"duplicate deep inside", with(`"_meta":{"a":[{"b":1,"b":2}]}`), "", "/_meta/a/0/b", "same name twice"},
		{"duplicate in icons", with(`"icons":[{"src":"a","src":"b"}]`), "", "/icons/0/src", "same name twice"},
		{"look-alikes", with(`"description":"a","Description":"b"`), "", "/Description", "differ only in case"},
		{"look-alike of an absent member", with(`"Annotations":{"readOnlyHint":true}`), "t", "/Annotations", "MCP defines"},
		{"look-alike of icons", with(`"ICONS":[]`), "t", "/ICONS", "MCP defines"},
		{"look-alike of a hint", with(`"annotations":{"readonlyhint":true}`), "t", "/annotations/readonlyhint", "MCP defines"},
		{"inexact number", with(`"x":9007199254740993`), "", "/x", "double"},
		{"lone surrogate", with(`"x":"\ud800"`), "", "/x", "surrogate"},
		{"invalid UTF-8", with("\"x\":\"\xff\""), "", "/x", "UTF-8"},
		{"too deep", with(`"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64)), "", "/x" + strings.Repeat("/0", 63), "deeper than 64"},
		{"too large", with(`"x":"` + strings.Repeat("x", canon.MaxSize) + `"`), "", "", "262144 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tool, err := definition.Parse([]byte(tt.in))
			if tool != nil {
				t.Errorf("refused, but gave %+v", tool)
			}
			holds(t, err, tt.tool, tt.pointer, tt.reason)
		})
	}
}

// holds fails unless err is an *Error with these parts.
func holds(t *testing.T, err error, tool, pointer, reason string) {
	t.Helper()
	fault, ok := errors.AsType[*definition.Error](err)
	if !ok {
		t.Fatalf("error %v, want a *definition.Error with %q", err, reason)
	}
	if fault.Tool != tool {
		t.Errorf("Tool = %q, want %q (%v)", fault.Tool, tool, err)
	}
	if fault.Pointer != pointer {
		t.Errorf("Pointer = %q, want %q (%v)", fault.Pointer, pointer, err)
	}
	if !strings.Contains(fault.Reason, reason) {
		t.Errorf("Reason = %q, want one with %q", fault.Reason, reason)
	}
	for _, part := range []string{fault.Tool, fault.Pointer, fault.Reason} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("message %q lacks %q", err, part)
		}
	}
}

func TestParseErrorIsBounded(t *testing.T) {
	long := strings.Repeat("x", 5000)
	_, err := definition.Parse([]byte(`{"name":"t","inputSchema":{"type":"object"},"annotations":{"` + long + `":1,"` + long + `":2}}`))
	holds(t, err, "", "/annotations", "same name twice")
	if n := len(err.Error()); n > 1000 {
		t.Errorf("message of %d bytes", n)
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := definition.Parse([]byte(full)); err != nil {
			b.Fatal(err)
		}
	}
}
