package contract_test

import (
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

// TestGrantRequired holds the rule of grants against each kind of call.
func TestGrantRequired(t *testing.T) {
	const schema = `{"type":"object","properties":{"method":{"type":"string","enum":["get","put","sum"]}},"required":["method"]}`
	for _, tc := range []struct {
		name              string
		decideAt, grant   string
		pure, read, write bool
	}{
		{"by default", "", "", false, false, true},
		{"always", "", "always", false, true, true},
		{"the server decides", "server", "", false, false, false},
	} {
		c := make1(t, schema, contract.Review{
			Effect: "write", DecideAt: tc.decideAt, Grant: tc.grant, MethodArgument: "method", NoEvidence: "a test",
			Methods: map[string]contract.Method{"get": {Effect: "read"}, "sum": {Effect: "pure"}},
		})
		for method, want := range map[string]bool{"sum": tc.pure, "get": tc.read, "put": tc.write, "unheard of": tc.write} {
			_, rule := c.Action(map[string]any{"method": method})
			if got := c.GrantRequired(rule); got != want {
				t.Errorf("%s: %s: %v", tc.name, method, got)
			}
		}
		if got := c.GrantRequired(contract.MethodRule{Effect: writ.Effect("new")}); got != tc.write {
			t.Errorf("%s: an unknown effect: %v", tc.name, got)
		}
	}
	// What the defaults ask for is for the tools that it fits.
	d := remote("t", contract.Review{Effect: "pure"})
	d.Defaults.Grant = "always"
	c := makeAll(t, d, define(t, "t", `{"type":"object"}`))["t"]
	if _, rule := c.Action(nil); c.GrantRequired(rule) {
		t.Error("a computation needs a grant")
	}
	if !new(contract.Contract).GrantRequired(contract.MethodRule{}) {
		t.Error("the zero contract lets calls through without a grant")
	}
}

// TestValue follows pointers through arguments and what their absence means.
func TestValue(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"currency":{"type":"string"},"note":{"type":"string"},"a/b":{"type":"string"},
		"to":{"type":"object","properties":{"iban":{"type":"string"},"bank":{"type":"string"}}},
		"lines":{"type":"array","items":{"type":"string"}}}}`
	c := make1(t, schema, contract.Review{
		Effect: "write", NoEvidence: "a test", WhenAbsent: map[string]any{"currency": "GBP", "to.bank": "own", "lines": []any{"x"}},
	})
	for _, tc := range []struct {
		args, pointer string
		value, meant  any // nil: none
	}{
		{`{"currency":"EUR"}`, "/currency", "EUR", nil},
		{`{}`, "/currency", "GBP", "GBP"},
		{`{}`, "/note", nil, nil},
		{`{}`, "/unheard", nil, nil},
		{`{"a/b":"c"}`, "/a~1b", "c", nil},
		{`{"to":{"iban":"1"}}`, "/to/iban", "1", nil},
		{`{"to":{"iban":"1"}}`, "/to/bank", "own", "own"},
		{`{"to":{"bank":"2"}}`, "/to/bank", "2", nil},
		{`{}`, "/to/bank", nil, nil}, // without "to" nothing is said of its members
		{`{}`, "/lines/0", "x", "x"},
		{`{}`, "/lines/1", nil, nil},
		{`{"lines":["y","z"]}`, "/lines/1", "z", nil},
		{`{"lines":["y"]}`, "/lines/01", nil, nil},
		{`{"lines":["y"]}`, "/lines/-", nil, nil},
		{`{"lines":["y"]}`, "/lines/+0", nil, nil},
		{`{"currency":"EUR"}`, "currency", nil, nil},
		{`{"currency":"EUR"}`, "/currency/0", nil, nil},
	} {
		a := args(t, tc.args)
		if got, ok := c.Value(a, tc.pointer); got != tc.value || ok != (tc.value != nil) {
			t.Errorf("%s of %s: %v %v", tc.pointer, tc.args, got, ok)
		}
		if got, ok := c.Meant(a, tc.pointer); got != tc.meant || ok != (tc.meant != nil) {
			t.Errorf("absent %s of %s: %v %v", tc.pointer, tc.args, got, ok)
		}
	}
}
