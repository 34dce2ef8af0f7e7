package contract_test

import (
	"testing"

	"github.com/writ-pdp/writ/contract"
)

// TestUnknownArgumentsOfLines: a line is judged by the arguments of all tools,
// reviewed or not, and not at all where a definition is missing.
func TestUnknownArgumentsOfLines(t *testing.T) {
	service := define(t, "get", `{"type":"object","properties":{"service":{"type":"string"}},"required":["service"]}`)
	region := define(t, "list", `{"type":"object","properties":{"region":{"type":"string"}}}`)
	d := remote("get", contract.Review{Effect: "read"})
	d.Resources = []contract.Resource{{Entity: "Service", ID: "{region}/{service}"}, {Entity: "Region", ID: "{regoin}"}}
	_, faults, warnings := contract.New(d, toolList(service, region))
	if len(faults) != 1 || !has(faults, "resources[1].id", `no tool of the server has an argument "regoin"; did you mean "region"?`) {
		t.Errorf("faults %v", faults)
	}
	if !has(warnings, "resources[0]", "no tool without a resource of its own") || has(warnings, "resources[1]", "") {
		t.Errorf("warnings %v", warnings)
	}
	d.Tools["gone"] = contract.Review{Effect: "read"}
	if _, faults, _ := contract.New(d, toolList(service, region)); has(faults, "resources[1].id", "") || !has(faults, "tools.gone", "no definition") {
		t.Errorf("without a definition: %v", faults)
	}
}

// TestResourceField: a target's contract says which line it comes from.
func TestResourceField(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}`
	d := remote("t", contract.Review{Effect: "read"})
	d.Tools["own.one"] = contract.Review{Effect: "read", Resource: &contract.Resource{Entity: "A", ID: "{a}"}}
	d.Tools["none"] = contract.Review{Effect: "read"}
	d.Resources = []contract.Resource{{Entity: "A", ID: "{a}-{c}"}, {Entity: "B", ID: "{b}"}}
	made := makeAll(t, d, define(t, "t", schema), define(t, "own.one", schema), define(t, "none", `{"type":"object","properties":{"c":{"type":"string"}}}`))
	for name, want := range map[string]string{"t": "resources[1]", "own.one": `tools["own.one"].resource`, "none": ""} {
		if got := made[name].ResourceField(); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
