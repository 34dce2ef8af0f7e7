package contract_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
)

// realDefinitions returns real definitions of GitHub's server, which live
// beside the repository; without them the test is skipped, aloud.
func realDefinitions(t testing.TB) []*definition.Tool {
	t.Helper()
	name := filepath.Join("..", "..", "shared", "data", "github-tool-definition-changes.jsonl")
	f, err := os.Open(name)
	if err != nil {
		t.Skipf("SKIPPED, nothing was tested: no real definitions: %v", err)
	}
	defer f.Close()
	var tools []*definition.Tool
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var change struct {
			Before, After json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &change); err != nil {
			t.Fatal(err)
		}
		for _, text := range []json.RawMessage{change.Before, change.After} {
			v, err := canon.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if object, _ := v.(map[string]any); object == nil || object["inputSchema"] == nil {
				continue
			}
			tool, err := definition.Parse(text)
			if err != nil {
				t.Fatalf("%.60s: %v", text, err)
			}
			tools = append(tools, tool)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(tools) < 200 {
		t.Fatalf("only %d definitions", len(tools))
	}
	return tools
}

// sample returns a value that a schema of the real definitions allows: only
// what is required when least is set, else everything.
func sample(schema map[string]any, least bool) any {
	if enum, ok := schema["enum"].([]any); ok {
		return enum[0]
	}
	switch schema["type"] {
	case "string":
		return "text"
	case "boolean":
		return true
	case "number", "integer":
		if min, ok := schema["minimum"].(json.Number); ok {
			return min
		}
		return json.Number("1")
	case "array":
		items, _ := schema["items"].(map[string]any)
		return []any{sample(items, least)}
	case "object":
		object := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for name, s := range properties {
			if !least || slices.Contains(required, any(name)) {
				object[name] = sample(s.(map[string]any), least)
			}
		}
		return object
	}
	return map[string]any{}
}

// TestRealDefinitions: every real definition becomes a contract once what is
// unsettled is opaque; it accepts calls made after its schema, and refuses
// calls with one thing wrong.
func TestRealDefinitions(t *testing.T) {
	for i, tool := range realDefinitions(t) {
		t.Run(fmt.Sprintf("%d %s", i, tool.Name), func(t *testing.T) {
			d := remote(tool.Name, contract.Review{Effect: "read", Opaque: contract.Unsettled(tool)})
			c := makeAll(t, d, tool)[tool.Name]
			properties, _ := tool.InputSchema["properties"].(map[string]any)
			for _, least := range []bool{true, false} {
				valid := sample(tool.InputSchema, least).(map[string]any)
				if f := c.Validate(valid); f != nil {
					t.Fatalf("%v: %v", valid, f)
				}
				wrong := maps.Clone(valid)
				wrong["undeclared argument"] = "x"
				if c.Validate(wrong) == nil {
					t.Error("an undeclared argument passes")
				}
				required, _ := tool.InputSchema["required"].([]any)
				for _, name := range required {
					wrong := maps.Clone(valid)
					delete(wrong, name.(string))
					if c.Validate(wrong) == nil {
						t.Errorf("without %s it passes", name)
					}
				}
				for name := range valid {
					for what, v := range map[string]any{"null": nil, "of another type": otherType(valid[name])} {
						if s, _ := properties[name].(map[string]any); s["type"] == nil {
							continue // anything goes
						}
						wrong := maps.Clone(valid)
						wrong[name] = v
						if c.Validate(wrong) == nil {
							t.Errorf("with %s %s it passes", name, what)
						}
					}
				}
			}
		})
	}
}

func otherType(v any) any {
	if _, ok := v.(string); ok {
		return true
	}
	return "text"
}
