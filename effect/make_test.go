package effect_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
	"github.com/writ-pdp/writ/effect"
)

// payments is the contract of a tool that pays, or with method get looks.
func payments(t testing.TB) *contract.Contract {
	t.Helper()
	tool, err := definition.Parse([]byte(`{"name":"create_payment","inputSchema":{"type":"object","properties":{
		"method":{"type":"string","enum":["pay","get"]},"supplier":{"type":"string"},"amount":{"type":"number"},
		"currency":{"type":"string"},"note":{"type":"string"},"meta":{"type":"object"},
		"to":{"type":"object","properties":{"iban":{"type":"string"}}}},
		"required":["method","supplier","amount"],"additionalProperties":false}}`))
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	made, faults, _ := contract.New(contract.Declaration{
		ID: "payments", Endpoint: "https://pay.example/mcp",
		Tools: map[string]contract.Review{"create_payment": {
			Effect: "write", NoEvidence: "a test", Opaque: []string{"meta"}, WhenAbsent: map[string]any{"currency": "GBP"},
			Methods: map[string]contract.Method{"get": {Effect: "read"}},
			Postconditions: &contract.Postconditions{
				Observer: "ledger", Tool: "get_payment", Within: 30 * time.Second,
				Checks: []contract.Check{
					{At: "/supplier", Equals: "/arguments/supplier"},
					{At: "/amount", Equals: "/arguments/amount", Tolerance: "0.01"},
					{At: "/currency", Equals: "/arguments/currency"},
					{At: "/memo", Equals: "/arguments/note"},
					{At: "/iban", Equals: "/arguments/to/iban"},
					{At: "/meta", Equals: "/arguments/meta"},
					{At: "/tag", Equals: "/arguments/meta/tag"},
					{At: "/state", In: []any{"queued", json.Number("2"), true}},
					{At: "/id", Present: &yes},
				},
			},
		}},
	}, []*definition.Tool{tool})
	if faults != nil {
		t.Fatal(faults)
	}
	return made[0]
}

func arguments(t testing.TB, text string) map[string]any {
	t.Helper()
	args, err := canon.ParseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return args
}

func TestMakePlan(t *testing.T) {
	c := payments(t)
	yes := true
	rest := []effect.Expectation{{At: "/state", In: []string{`"queued"`, `2`, `true`}}, {At: "/id", Present: &yes}}
	for _, tc := range []struct {
		name, args string
		want       []effect.Expectation
	}{
		{
			"everything is there", `{"method":"pay","supplier":"ACME","amount":900.0,"currency":"EUR","note":"x","to":{"iban":"DE1"},"meta":{"tag":null,"a":[1.50]}}`,
			[]effect.Expectation{
				{At: "/supplier", Equals: `"ACME"`}, {At: "/amount", Equals: `900`, Tolerance: "0.01"}, {At: "/currency", Equals: `"EUR"`},
				{At: "/memo", Equals: `"x"`}, {At: "/iban", Equals: `"DE1"`}, {At: "/meta", Equals: `{"a":[1.5],"tag":null}`}, {At: "/tag", Absent: true},
			},
		},
		{
			"only what must be there", `{"method":"pay","supplier":"ACME","amount":900}`,
			[]effect.Expectation{
				{At: "/supplier", Equals: `"ACME"`}, {At: "/amount", Equals: `900`, Tolerance: "0.01"}, {At: "/currency", Equals: `"GBP"`},
				{At: "/memo", Absent: true}, {At: "/iban", Absent: true}, {At: "/meta", Absent: true}, {At: "/tag", Absent: true},
			},
		},
	} {
		p := effect.MakePlan(c, arguments(t, tc.args), start)
		if want := append(tc.want, rest...); !reflect.DeepEqual(p.Checks, want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", tc.name, p.Checks, want)
		}
		if p.Server != "payments" || p.Tool != "create_payment" || p.Observer != "ledger" || p.ObserverTool != "get_payment" || !p.Until.Equal(until) {
			t.Errorf("%s: %+v", tc.name, p)
		}
	}
	if p := effect.MakePlan(c, arguments(t, `{"method":"get","supplier":"ACME","amount":900}`), start); p.Observer != "" || p.Checks != nil {
		t.Errorf("a read is verified: %+v", p)
	}
	if p := effect.MakePlan(c, arguments(t, `{"method":"other","supplier":"ACME","amount":900}`), start); p.Observer == "" {
		t.Error("what may write is not verified")
	}
}

// TestPlanHolds: what was authorised, observed as it was, verifies; with any
// one value changed it fails.
func TestPlanHolds(t *testing.T) {
	c := payments(t)
	p := effect.MakePlan(c, arguments(t, `{"method":"pay","supplier":"ACME","amount":900,"note":"x"}`), start)
	p.ProposalDigest = paid
	for _, tc := range []struct{ observed, want string }{
		{`{"supplier":"ACME","amount":900,"currency":"GBP","memo":"x","state":"queued","id":"1"}`, "EFFECT_VERIFIED"},
		{`{"supplier":"ACME","amount":900.01,"currency":"GBP","memo":"x","state":true,"id":"1"}`, "EFFECT_VERIFIED"},
		{`{"supplier":"ACMF","amount":900,"currency":"GBP","memo":"x","state":"queued","id":"1"}`, "POSTCONDITION_FAILED"},
		{`{"supplier":"ACME","amount":9000,"currency":"GBP","memo":"x","state":"queued","id":"1"}`, "POSTCONDITION_FAILED"},
		{`{"supplier":"ACME","amount":900,"currency":"EUR","memo":"x","state":"queued","id":"1"}`, "POSTCONDITION_FAILED"},
		{`{"supplier":"ACME","amount":900,"memo":"x","state":"queued","id":"1"}`, "POSTCONDITION_FAILED"},
		{`{"supplier":"ACME","amount":900,"currency":"GBP","memo":"x","iban":"DE1","state":"queued","id":"1"}`, "POSTCONDITION_FAILED"},
		{`{"supplier":"ACME","amount":900,"currency":"GBP","memo":"x","state":"refused","id":"1"}`, "POSTCONDITION_FAILED"},
		{`{"supplier":"ACME","amount":900,"currency":"GBP","memo":"x","state":"queued"}`, "POSTCONDITION_FAILED"},
	} {
		if r := effect.Compare(p, seen(tc.observed)); string(r.Code) != tc.want {
			t.Errorf("%s: %s", tc.observed, r.Code)
		}
	}
}
