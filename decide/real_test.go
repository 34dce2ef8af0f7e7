package decide_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/definition"
)

// TestRealDefinitions makes a contract of every version of every tool of
// GitHub's server in the data: parsed, digested, its JSON Schema compiled, its
// Cedar schema generated and valid. Then it decides a call with arguments that
// fit the schema, and one for each way in which they can be made not to.
func TestRealDefinitions(t *testing.T) {
	const data = "../../shared/data/github-tool-definition-changes.jsonl"
	file, err := os.Open(data)
	if err != nil {
		t.Skip("THE REAL DEFINITIONS ARE ABSENT: this test did not run: ", err)
	}
	defer file.Close()
	versions := map[string]string{} // definition text by digest or, where it is refused, by itself
	refused := 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var change struct{ Before, After json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &change); err != nil {
			t.Fatal(err)
		}
		for _, text := range []json.RawMessage{change.Before, change.After} {
			tool, err := definition.Parse(text)
			if err != nil {
				if !bytes.Contains(text, []byte(`"inputSchema": null`)) && !bytes.Contains(text, []byte(`"inputSchema":null`)) {
					t.Errorf("refused for another reason than a null inputSchema: %v: %s", err, text)
				}
				refused++
				continue
			}
			versions[tool.Digest.String()] = string(text)
		}
	}
	if refused != 2 {
		t.Errorf("%d definitions are refused, want the two whose inputSchema is null", refused)
	}
	if len(versions) < 100 {
		t.Fatalf("only %d definitions", len(versions))
	}
	allowed, denied := 0, 0
	for _, digest := range slices.Sorted(maps.Keys(versions)) {
		a, d := decideReal(t, versions[digest])
		allowed, denied = allowed+a, denied+d
	}
	t.Logf("%d definitions: %d valid calls allowed, %d invalid ones denied", len(versions), allowed, denied)
}

func decideReal(t *testing.T, text string) (allowed, denied int) {
	t.Helper()
	tool, err := definition.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	opaque, err := json.Marshal(append([]string{}, contract.Unsettled(tool)...))
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build([]bundle.File{
		{Name: "servers/github.yaml", Data: fmt.Appendf(nil, "id: github\nendpoint: https://github.example/mcp\ntools:\n  %s: {effect: read, scope: repo, opaque: %s}\n", tool.Name, opaque)},
		{Name: "servers/github.tools.json", Data: []byte(`{"tools":[` + text + `]}`)},
		{Name: "policies/all.cedar", Data: []byte("@id(\"all\")\npermit (principal, action, resource);\n")},
		{Name: "scenarios/a.yaml", Data: fmt.Appendf(nil, "cases:\n- {name: call, principal: 'User::\"me\"', tool: github/%s, expect: ALLOW}\n", tool.Name)},
	}, nil)
	if b == nil {
		t.Fatalf("%s:\n%v", tool.Name, faults)
	}
	world := b.Snapshot
	if len(world.Schema.Cedar()) == 0 {
		t.Errorf("%s has no Cedar schema", tool.Name)
	}
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	s := b.Scenarios[0].At(now)
	caller := world.Callers[s.Caller]
	ask := func(arguments map[string]any) writ.Decision {
		p := s.Proposal
		if p.ArgumentsJSON, err = json.Marshal(arguments); err != nil {
			t.Fatal(err)
		}
		return decide.Decide(world, caller, &p, now, nil)
	}
	valid := sample(tool.InputSchema).(map[string]any)
	if d := ask(valid); d.Code != writ.CodeAllow {
		t.Errorf("%s with %v: %s at %s: %s", tool.Name, valid, d.Code, d.Field, d.Explanation)
	}
	allowed++
	wrong := func(what string, arguments map[string]any) {
		if d := ask(arguments); d.Code != writ.CodeInvalidArguments {
			t.Errorf("%s with %s: %s", tool.Name, what, d.Code)
		}
		denied++
	}
	with := func(name string, value any) map[string]any {
		out := maps.Clone(valid)
		out[name] = value
		return out
	}
	wrong("an undeclared argument", with("__undeclared", 1))
	properties, _ := tool.InputSchema["properties"].(map[string]any)
	for name, schema := range properties {
		wrong("null for "+name, with(name, nil))
		switch schema.(map[string]any)["type"] {
		case "string":
			wrong("a number for "+name, with(name, 7))
		case "number", "integer":
			wrong("text for "+name, with(name, "7"))
		case "boolean", "array":
			wrong("text for "+name, with(name, "true"))
		}
		if schema.(map[string]any)["enum"] != nil {
			wrong("a value outside of the enum of "+name, with(name, "__none"))
		}
		if name != strings.ToUpper(name) {
			wrong("a look-alike of "+name, func() map[string]any {
				out := maps.Clone(valid)
				delete(out, name)
				out[strings.ToUpper(name)] = "x"
				return out
			}())
		}
	}
	required, _ := tool.InputSchema["required"].([]any)
	for _, name := range required {
		out := maps.Clone(valid)
		delete(out, name.(string))
		wrong("no "+name.(string), out)
	}
	return allowed, denied
}

// sample makes a value that fits a schema of the kind that GitHub's tools use.
func sample(schema map[string]any) any {
	if enum, ok := schema["enum"].([]any); ok {
		return enum[0]
	}
	switch schema["type"] {
	case "string":
		return "x"
	case "boolean":
		return true
	case "number", "integer":
		if least, ok := schema["minimum"]; ok {
			return least
		}
		return 1
	case "array":
		items, _ := schema["items"].(map[string]any)
		return []any{sample(items)}
	case "object":
		out := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for name, s := range properties {
			out[name] = sample(s.(map[string]any))
		}
		return out
	}
	return "x"
}
