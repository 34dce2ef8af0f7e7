package definition_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/definition"
)

const (
	toolA = `{"name":"a","inputSchema":{"type":"object"}}`
	toolB = `{"name":"b","inputSchema":{"type":"object"}}`
)

func TestParseList(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"result", `{"tools":[` + toolA + `,` + toolB + `]}`, "a b"},
		{"order of the text", `{"tools":[` + toolB + `,` + toolA + `]}`, "b a"},
		{"bare array", ` [ ` + toolA + ` , ` + toolB + ` ] `, "a b"},
		{"empty result", `{"tools":[]}`, ""},
		{"empty array", `[]`, ""},
		{"empty cursor", `{"tools":[` + toolA + `],"nextCursor":""}`, "a"},
		{"escaped member name", `{"t\u006fols":[` + toolA + `]}`, "a"},
		{"MCP 2026-07-28", `{"resultType":"complete","tools":[` + toolA + `],"ttlMs":300000,"cacheScope":"public","_meta":{"x":1}}`, "a"},
		{"members of servers' own", `{"x":{"nextCursor":"y"},"tools":[` + toolA + `]}`, "a"},
		{"names in different case", `[` + toolA + `,{"name":"A","inputSchema":{"type":"object"}}]`, "a A"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tools, err := definition.ParseList([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if tools == nil {
				t.Error("an accepted list is nil")
			}
			var names []string
			for _, tool := range tools {
				names = append(names, tool.Name)
				alone, err := definition.Parse(canon.Append(nil, tool.Object))
				if err != nil || alone.Digest != tool.Digest || tool.Digest.IsZero() {
					t.Errorf("%s: digest %s in the list, %v alone (%v)", tool.Name, tool.Digest, alone, err)
				}
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("tools %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseListRefuses(t *testing.T) {
	tests := []struct{ name, in, tool, pointer, reason string }{
		{"empty", "", "", "", "no JSON value"},
		{"white space", " \n", "", "", "no JSON value"},
		{"null", "null", "", "", "tools/list"},
		{"text", `"tools"`, "", "", "tools/list"},
		{"broken literal", "nul", "", "", "not JSON"},
		{"no tools", `{}`, "", "", "tools is missing"},
		{"JSON-RPC response", `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`, "", "", "JSON-RPC"},
		{"one tool", toolA, "", "", "single Tool object"},
		{"null tools", `{"tools":null}`, "", "/tools", "not an array"},
		{"tools by name", `{"tools":{"a":{}}}`, "", "/tools", "not an array"},
		{"tools in upper case", `{"Tools":[]}`, "", "/Tools", "MCP defines"},
		{"truncated array", `[` + toolA, "", "", "this is not JSON: the text ends, and the [ of line 1 is not closed"},
		{"truncated result", `{"tools":[]`, "", "", "not JSON"},
		{"trailing comma", `[` + toolA + `,]`, "", "", "this is not JSON: a comma stands before ]: remove it"},
		{"trailing comma in a tool", `[{"name":"a","inputSchema":{"type":"object",}}]`, "", "/0/inputSchema", "this is not JSON: a comma stands before }: remove it"},
		{"byte order mark", "\ufeff[]", "", "", "byte order mark (U+FEFF) stands here: save the file as UTF-8 without one"},
		{"second value", `[]{}`, "", "", "after the JSON value"},
		{"second list", `{"tools":[]} []`, "", "", "after the JSON value"},
		{"trailing text", `[]x`, "", "", "after the JSON value"},
		{"unquoted name", `{tools:[]}`, "", "", "not JSON"},

		{"one page", `{"tools":[` + toolA + `],"nextCursor":"x"}`, "", "/nextCursor", "fetch all pages"},
		{"one page, cursor first", `{"nextCursor":"x","tools":[` + toolA + `]}`, "", "/nextCursor", "fetch all pages"},
		{"null cursor", `{"tools":[],"nextCursor":null}`, "", "/nextCursor", "without nextCursor"},
		{"numeric cursor", `{"tools":[],"nextCursor":0}`, "", "/nextCursor", "without nextCursor"},
		{"cursor in another case", `{"tools":[],"nextcursor":"x"}`, "", "/nextcursor", "MCP defines"},
		{"input required", `{"tools":[],"resultType":"input_required"}`, "", "/resultType", "not given its list"},

		{"duplicate member", `{"tools":[],"tools":[]}`, "", "/tools", "same name twice"},
		{"duplicate member, escaped", `{"tools":[],"t\u006fols":[]}`, "", "/tools", "same name twice"},
		{"duplicate foreign member", `{"x":1,"tools":[],"x":1}`, "", "/x", "same name twice"},
		{"look-alike foreign members", `{"x":1,"tools":[],"X":1}`, "", "/X", "differ only in case"},
		{"look-alike tools", `{"tools":[],"TOOLS":[]}`, "", "/TOOLS", "differ only in case"},
		{"duplicate in a foreign member", `{"tools":[],"x":[{"b":1,"b":2}]}`, "", "/x/0/b", "same name twice"},
		{"inexact number in a foreign member", `{"tools":[],"x":1e400}`, "", "/x", "double"},
		{"lone surrogate in a member name", `{"tools":[],"\ud800":1}`, "", "", "surrogate"},
		{"invalid UTF-8 in a member name", "{\"tools\":[],\"\xff\":1}", "", "", "UTF-8"},

		{"tool that is null", `{"tools":[` + toolA + `,null]}`, "", "/tools/1", "JSON object"},
		{"tool that is a name", `["a"]`, "", "/0", "JSON object"},
		{"nested list", `[[` + toolA + `]]`, "", "/0", "JSON object"},
		{"tool without a schema", `{"tools":[` + toolA + `,{"name":"b","inputSchema":null}]}`, "b", "/tools/1/inputSchema", "is null"},
		{"tool without a schema, bare", `[` + toolA + `,{"name":"b"}]`, "b", "/1/inputSchema", "missing"},
		{"tool with a bad name", `[{"name":"a#b","inputSchema":{"type":"object"}}]`, "", "/0/name", "1 to 128"},
		{"duplicate inside a tool", `{"tools":[{"name":"a","inputSchema":{"type":"object","type":"object"}}]}`, "", "/tools/0/inputSchema/type", "same name twice"},
		{"broken tool", `{"tools":[` + toolA + `,{"name":}]}`, "", "/tools/1", "not JSON"},
		{"deep tool", `{"tools":[{"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}]}`, "", "/tools/0/x" + strings.Repeat("/0", 63), "deeper than 64"},
		{"large tool", `[{"x":"` + strings.Repeat("x", canon.MaxSize) + `"}]`, "", "/0", "262144 bytes"},
		{"same name twice", `{"tools":[` + toolA + `,` + toolB + `,` + toolA + `]}`, "a", "/tools/2/name", "/tools/0"},
		{"same name twice, bare", `[` + toolA + `,` + toolA + `]`, "a", "/1/name", "/0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tools, err := definition.ParseList([]byte(tt.in))
			if tools != nil {
				t.Errorf("refused, but gave %d tools", len(tools))
			}
			holds(t, err, tt.tool, tt.pointer, tt.reason)
		})
	}
}

func TestParseListErrorIsBounded(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, in := range []string{
		`{"` + long + `":1,"` + long + `":2}`,
		`{"` + long + `":1,"` + strings.ToUpper(long) + `":2}`,
		`{"` + long + `":{"y":1,"y":2}}`,
	} {
		_, err := definition.ParseList([]byte(in))
		holds(t, err, "", "", "the JSON cannot be read")
		if n := len(err.Error()); n > 1000 {
			t.Errorf("message of %d bytes", n)
		}
	}
}

// TestParseListOffsets: whoever shows the error in a file needs the place in
// the whole text, from canon's errors too.
func TestParseListOffsets(t *testing.T) {
	const (
		before = `{"tools": [` + toolA + `, `
		after  = `]}`
	)
	for _, tt := range []struct {
		name, tool string
		offset     int // from the start of the tool
		strict     bool
	}{
		{"schema", `{"name":"b"}`, 0, false},
		{"duplicate", `{"name":"b","x":1,"x":2}`, len(`{"name":"b","x":1,`), true},
		{"number", `{"name":"b","x":1e400}`, len(`{"name":"b","x":`), true},
	} {
		_, err := definition.ParseList([]byte(before + tt.tool + after))
		fault, ok := errors.AsType[*definition.Error](err)
		if !ok {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		// A fault may be placed shortly after its start, but inside the tool.
		if low, high := len(before)+tt.offset, len(before)+len(tt.tool); fault.Offset < low || fault.Offset > high {
			t.Errorf("%s: offset %d, want %d to %d", tt.name, fault.Offset, low, high)
		}
		strict, ok := errors.AsType[*canon.Error](err)
		if ok != tt.strict {
			t.Errorf("%s: wraps a *canon.Error: %v, want %v", tt.name, ok, tt.strict)
		}
		if ok && (strict.Offset != fault.Offset || strict.Pointer != fault.Pointer) {
			t.Errorf("%s: *canon.Error %+v, *Error %+v", tt.name, strict, fault)
		}
	}

	const head = `{"tools":[],"x":`
	_, err := definition.ParseList([]byte(head + `{"y":1,"y":2}}`))
	fault, ok := errors.AsType[*definition.Error](err)
	if low := len(head) + len(`{"y":1,`); !ok || fault.Offset < low || fault.Offset > low+len(`"y":2`) {
		t.Errorf("a foreign member: %+v", err)
	}
}

func TestParseListLimits(t *testing.T) {
	list := func(n int) []byte {
		b := []byte(`[`)
		for i := range n {
			if i > 0 {
				b = append(b, ',')
			}
			b = fmt.Appendf(b, `{"name":"t%d","inputSchema":{"type":"object"}}`, i)
		}
		return append(b, ']')
	}
	tools, err := definition.ParseList(list(definition.MaxTools))
	if err != nil || len(tools) != 10_000 {
		t.Errorf("10,000 tools: %d, %v", len(tools), err)
	}
	_, err = definition.ParseList(list(definition.MaxTools + 1))
	holds(t, err, "", "/10000", "10,000")

	// More in all than one text of canon's, but no tool of it is too large.
	text := strings.Repeat("x", canon.MaxSize-100)
	many := []byte(`{"tools":[`)
	for i := range 8 {
		if i > 0 {
			many = append(many, ',')
		}
		many = fmt.Appendf(many, `{"name":"t%d","description":"%s","inputSchema":{"type":"object"}}`, i, text)
	}
	many = append(many, "]}"...)
	if tools, err := definition.ParseList(many); err != nil || len(tools) != 8 {
		t.Errorf("a list of %d bytes: %d tools, %v", len(many), len(tools), err)
	}

	padded := append(list(1), strings.Repeat(" ", definition.MaxListSize)...)
	_, err = definition.ParseList(padded)
	holds(t, err, "", "", "16 MiB")
	if _, err := definition.ParseList(padded[:definition.MaxListSize]); err != nil {
		t.Errorf("a list of 16 MiB: %v", err)
	}
}

// TestOffset: a tool knows where it stands in its list.
func TestOffset(t *testing.T) {
	const text = ` {"tools": [` + toolA + ` ,
   ` + toolB + `]}`
	tools, err := definition.ParseList([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{toolA, toolB} {
		if !strings.HasPrefix(text[tools[i].Offset:], want) {
			t.Errorf("tool %d at %d", i, tools[i].Offset)
		}
	}
	if tool, err := definition.Parse([]byte(toolA)); err != nil || tool.Offset != 0 {
		t.Errorf("alone: %+v, %v", tool, err)
	}
}
