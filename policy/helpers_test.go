package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/types"
	cedarschema "github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
	"github.com/writ-pdp/writ/policy"
)

// contracts makes the contracts of one server from a tools/list result.
func contracts(t testing.TB, d contract.Declaration, toolsJSON string) []*contract.Contract {
	t.Helper()
	tools, err := definition.ParseList([]byte(toolsJSON))
	if err != nil {
		t.Fatal(err)
	}
	made, errs, _ := contract.New(d, tools)
	if errs != nil {
		t.Fatal(errs)
	}
	return made
}

const paymentsTools = `{"tools":[
{"name":"create_payment","inputSchema":{"type":"object","additionalProperties":false,
 "required":["invoice","supplier","amount_gbp","currency","reason"],
 "properties":{"invoice":{"type":"string"},"supplier":{"type":"string"},"amount_gbp":{"type":"number","exclusiveMinimum":0},
 "currency":{"type":"string","enum":["GBP","EUR"]},"reason":{"type":"string"},"urgent":{"type":"boolean"}}}},
{"name":"get_payment","inputSchema":{"type":"object","properties":{"payment_id":{"type":"string"},"limit":{"type":"integer"}}}}]}`

func payments(t testing.TB) []*contract.Contract {
	return contracts(t, contract.Declaration{
		ID: "payments", Endpoint: "https://mcp.payments.acme.example", Owner: "treasury@acme.example", Version: "2.1",
		Resources: []contract.Resource{{Entity: "Supplier", ID: "{supplier}"}},
		Tools: map[string]contract.Review{
			"get_payment": {Effect: "read"},
			"create_payment": {
				Effect: "write", Scope: new("payments:create"), Opaque: []string{"reason"},
				Arguments:  map[string]contract.Argument{"invoice": {Entity: "Invoice"}},
				WhenAbsent: map[string]any{"urgent": false},
				NoEvidence: "a test",
			},
		},
	}, paymentsTools)
}

const filesTools = `{"tools":[
{"name":"read_file","inputSchema":{"type":"object","required":["path"],"properties":{"path":{"type":"string"},"head":{"type":"integer"}}}},
{"name":"move_file","inputSchema":{"type":"object","required":["source","destination"],
 "properties":{"source":{"type":"string"},"destination":{"type":"string"}}}},
{"name":"delete_many","inputSchema":{"type":"object","required":["items"],"properties":{"items":{"type":"array","items":
 {"type":"object","required":["path","force"],"properties":{"path":{"type":"string"},"force":{"type":"boolean"}}}}}}},
{"name":"list_roots","inputSchema":{"type":"object"}},
{"name":"search","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"query":{"type":"string"}}}}]}`

func files(t testing.TB) []*contract.Contract {
	write := contract.Review{Effect: "write", NoEvidence: "a test"}
	return contracts(t, contract.Declaration{
		ID: "files", PackageHash: "sha256:" + strings.Repeat("ab", 32), Token: "none",
		Resources: []contract.Resource{
			{Path: []string{"path"}}, {Path: []string{"source", "destination"}}, {Path: []string{"items[].path"}},
		},
		Tools: map[string]contract.Review{
			"read_file": {Effect: "read"}, "list_roots": {Effect: "read"}, "search": {Effect: "read"},
			"move_file": write, "delete_many": write,
		},
	}, filesTools)
}

const labelTools = `{"tools":[
{"name":"label_write","inputSchema":{"type":"object","required":["method","owner","repo","name"],"properties":{
 "method":{"type":"string","enum":["create","update","delete"]},"owner":{"type":"string"},"repo":{"type":"string"},"name":{"type":"string"}}}},
{"name":"get_me","inputSchema":{"type":"object"}}]}`

func github(t testing.TB) []*contract.Contract {
	return contracts(t, contract.Declaration{
		ID: "github", Endpoint: "https://api.githubcopilot.com/mcp/",
		Resources: []contract.Resource{{
			Entity: "Repository", ID: "{owner}/{repo}", In: map[string]string{"Org": "{owner}"}, Fold: "ascii", MayBeNew: true,
		}},
		Tools: map[string]contract.Review{
			"get_me": {Effect: "read"},
			"label_write": {
				Effect: "write", Reversible: new(true), NoEvidence: "a test",
				Methods: map[string]contract.Method{"delete": {Reversible: new(false)}},
			},
		},
	}, labelTools)
}

const ownSchema = `// The bundle's own types.
type Money = { amount: decimal, currency: String };
entity Supplier = { status: String, currency: String, limit_gbp: decimal, onboarded_by: User };
entity Invoice = { supplier: Supplier, state: State, total?: Money };
entity State enum ["open", "paid"];
entity Org;
entity Repository in [Org];
`

// testTypes is what the schema of the three servers is made from.
func testTypes(t testing.TB) policy.Types {
	return policy.Types{
		Contracts:  slices.Concat(payments(t), files(t), github(t)),
		Schema:     policy.Source{File: "schema.cedarschema", Text: []byte(ownSchema)},
		Principals: []types.EntityType{"User"},
		Actors:     []types.EntityType{"Agent"},
	}
}

func testSchema(t testing.TB) *policy.Schema {
	t.Helper()
	return mustSchema(t, testTypes(t))
}

func mustSchema(t testing.TB, in policy.Types) *policy.Schema {
	t.Helper()
	s, faults := policy.NewSchema(in)
	if faults != nil {
		t.Fatal(faults)
	}
	return s
}

// reparsed is the schema as its text says, in Cedar's own reading.
func reparsed(t testing.TB, s *policy.Schema) *resolved.Schema {
	t.Helper()
	var parsed cedarschema.Schema
	if err := parsed.UnmarshalCedar(s.Cedar()); err != nil {
		t.Fatalf("%v\n%s", err, s.Cedar())
	}
	out, err := parsed.Resolve()
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Cedar())
	}
	return out
}

func validator(t testing.TB, s *policy.Schema) *validate.Validator {
	t.Helper()
	return validate.New(reparsed(t, s))
}

// file makes one source.
func file(name, text string) policy.Source { return policy.Source{File: name, Text: []byte(text)} }

func mustCompile(t testing.TB, s *policy.Schema, sources ...policy.Source) *policy.Set {
	t.Helper()
	set, faults := policy.Compile(s, nil, sources)
	if len(faults.Errors()) > 0 {
		t.Fatal(faults)
	}
	return set
}

// lines are faults, one a line.
func lines(faults writ.Faults) []string {
	var out []string
	for _, f := range faults {
		out = append(out, f.Error())
	}
	return out
}

func action(id string) types.EntityUID { return types.NewEntityUID("Action", types.String(id)) }
