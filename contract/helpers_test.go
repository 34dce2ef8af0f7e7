package contract_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
)

// define returns a definition with an input schema, and further members of the
// Tool object in more, each with a leading comma.
func define(t testing.TB, name, schema string, more ...string) *definition.Tool {
	t.Helper()
	tool, err := definition.Parse([]byte(`{"name":"` + name + `","inputSchema":` + schema + strings.Join(more, "") + `}`))
	if err != nil {
		t.Fatalf("definition of %s: %v", name, err)
	}
	return tool
}

// remote returns a declaration of a remote server with one tool.
func remote(tool string, r contract.Review) contract.Declaration {
	return contract.Declaration{
		ID: "s", Endpoint: "https://mcp.example/mcp", Tools: map[string]contract.Review{tool: r},
	}
}

// make1 makes the contract of one tool with one schema, and fails on faults.
func make1(t testing.TB, schema string, r contract.Review, resources ...contract.Resource) *contract.Contract {
	t.Helper()
	d := remote("t", r)
	d.Resources = resources
	return makeAll(t, d, define(t, "t", schema))["t"]
}

// makeAll makes contracts, by the name of their tool, and fails on faults.
func makeAll(t testing.TB, d contract.Declaration, tools ...*definition.Tool) map[string]*contract.Contract {
	t.Helper()
	made, faults, _ := contract.New(d, tools)
	if faults != nil {
		t.Fatalf("faults:\n%v", faults)
	}
	byName := map[string]*contract.Contract{}
	for _, c := range made {
		byName[c.Tool.Name] = c
	}
	return byName
}

// args parses arguments as decide does.
func args(t testing.TB, text string) map[string]any {
	t.Helper()
	a, err := canon.ParseObject([]byte(text))
	if err != nil {
		t.Fatalf("arguments %s: %v", text, err)
	}
	return a
}

func ptr[T any](v T) *T { return &v }

// has reports a fault with a field and a piece of its message.
func has(faults []contract.FieldError, field, message string) bool {
	for _, f := range faults {
		if f.Field == field && strings.Contains(f.Message, message) {
			return true
		}
	}
	return false
}

const paymentSchema = `{"type":"object","properties":{
	"invoice":{"type":"string"},"supplier":{"type":"string"},
	"amount_gbp":{"type":"number","exclusiveMinimum":0},
	"currency":{"type":"string","enum":["GBP","EUR"]},
	"reason":{"type":"string","maxLength":140},
	"urgent":{"type":"boolean"}},
	"required":["invoice","supplier","amount_gbp","currency","reason"],"additionalProperties":false}`

func toolList(tools ...*definition.Tool) []*definition.Tool { return tools }

func number(text string) json.Number { return json.Number(text) }
