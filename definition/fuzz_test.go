package definition_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/definition"
)

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		full, toolA, "", "null", "[]", `{"name":"t"}`, `{"name":"t","inputSchema":null}`, `{"name":"t","inputSchema":{"type":["object"]}}`,
		`{"name":"a#b","inputSchema":{"type":"object"}}`, `{"name":"t","name":"t","inputSchema":{"type":"object"}}`,
		`{"name":"t","inputSchema":{"type":"object"},"Icons":1}`, `{"name":"t","inputSchema":{"type":"object"},"icons":1}`,
		`{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":null}}`, `{"name":"t","inputSchema":{"type":"object","x":1e400}}`,
		`{"name":"t","inputSchema":{"type":"object","x":-0.0}} `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tool, err := definition.Parse(data)
		if err != nil {
			checkError(t, data, err)
			if tool != nil {
				t.Fatalf("refused, but gave %+v", tool)
			}
			return
		}
		checkTool(t, tool)
		// A list of it gives the same tool.
		list, err := definition.ParseList(append(append([]byte("["), data...), ']'))
		if err != nil || len(list) != 1 || list[0].Digest != tool.Digest {
			t.Fatalf("as a list: %v, %v", list, err)
		}
	})
}

func FuzzParseList(f *testing.F) {
	for _, seed := range []string{
		`{"tools":[` + toolA + `,` + toolB + `]}`, `[` + toolA + `]`, `[]`, `{}`, ``, `null`, `{"tools":[],"nextCursor":"x"}`, `{"tools":[],"nextCursor":""}`,
		`{"tools":[],"tools":[]}`, `{"tools":[],"Tools":[]}`, `{"tools":{}}`, `{"tools":[` + toolA + `,` + toolA + `]}`, `{"result":{"tools":[]}}`, `[] []`,
		`{"tools":[` + toolA, `{"tools":[],"x":{"a":1,"a":2}}`, "{\"\xff\":1}", `{"\ud800":1}`, `[[[[`, `{"resultType":"complete","tools":[` + full + `]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tools, err := definition.ParseList(data)
		if err != nil {
			checkError(t, data, err)
			if tools != nil {
				t.Fatalf("refused, but gave %d tools", len(tools))
			}
			return
		}
		names := map[string]bool{}
		for _, tool := range tools {
			checkTool(t, tool)
			if names[tool.Name] {
				t.Fatalf("two tools are named %q", tool.Name)
			}
			names[tool.Name] = true
		}
		if !json.Valid(data) {
			t.Fatal("accepted what is no JSON")
		}
		// Small enough for canon as a whole, it is strict JSON as a whole.
		if _, err := canon.Parse(data); err != nil {
			if strict, ok := errors.AsType[*canon.Error](err); !ok || strict.Reason != canon.ReasonSize && strict.Reason != canon.ReasonDepth {
				t.Fatalf("accepted, but canon says %v", err)
			}
		}
	})
}

// checkTool holds a tool to what is documented of it.
func checkTool(t *testing.T, tool *definition.Tool) {
	t.Helper()
	if tool.Name != tool.Object["name"] || len(tool.Name) < 1 || len(tool.Name) > definition.MaxNameBytes {
		t.Fatalf("name %q", tool.Name)
	}
	if tool.InputSchema["type"] != "object" || tool.Digest.IsZero() {
		t.Fatalf("%+v", tool)
	}
	again, err := definition.Parse(canon.Append(nil, tool.Object))
	if err != nil || again.Digest != tool.Digest {
		t.Fatalf("%s in canonical form: %v, %v", tool.Name, again, err)
	}
}

// checkError holds an error to what is documented of it.
func checkError(t *testing.T, data []byte, err error) {
	t.Helper()
	fault, ok := errors.AsType[*definition.Error](err)
	if !ok {
		t.Fatalf("error %T: %v", err, err)
	}
	if fault.Reason == "" || fault.Offset < 0 || fault.Offset > len(data) || len(fault.Pointer) > 0 && fault.Pointer[0] != '/' {
		t.Fatalf("%+v", fault)
	}
}
