package contract_test

import (
	"strings"
	"testing"

	"github.com/writ-pdp/writ/contract"
)

func TestWarnings(t *testing.T) {
	hints := func(text string) string { return `,"annotations":{` + text + `}` }
	for _, tc := range []struct {
		name          string
		review        contract.Review
		more          string // of the Tool object
		schema, other string // other: of a second tool
		change        func(*contract.Declaration)
		field, wanted string // wanted empty: no warning
	}{
		{name: "an irreversible write without evidence", review: contract.Review{Effect: "write"}, field: "tools.t", wanted: "say why there is none (no_evidence: REASON)"},
		{name: "with a reason", review: contract.Review{Effect: "write", NoEvidence: "a person types it"}},
		{name: "a default reason", review: contract.Review{Effect: "write"}, change: func(d *contract.Declaration) { d.Defaults.NoEvidence = "because" }},
		{name: "a reversible write", review: contract.Review{Effect: "write", Reversible: ptr(true)}},
		{name: "a read", review: contract.Review{Effect: "read"}},
		{name: "an irreversible method of a reversible write", field: "tools.t", wanted: "irreversible write without evidence",
			review: contract.Review{Effect: "write", Reversible: ptr(true), Methods: map[string]contract.Method{"a": {Reversible: ptr(false)}}}},
		{name: "a read that says it is none", review: contract.Review{Effect: "read"}, more: hints(`"readOnlyHint":false`), field: "tools.t", wanted: "readOnlyHint false"},
		{name: "a pure tool that destroys", review: contract.Review{Effect: "pure"}, more: hints(`"destructiveHint":true`), field: "tools.t", wanted: "destructiveHint true"},
		{name: "a destructive hint means nothing for a read-only tool", review: contract.Review{Effect: "read"}, more: hints(`"readOnlyHint":true,"destructiveHint":true`)},
		{name: "a pure tool of an open world", review: contract.Review{Effect: "pure"}, more: hints(`"openWorldHint":true`), field: "tools.t", wanted: "openWorldHint"},
		{name: "a write that says it only reads", review: contract.Review{Effect: "write", Reversible: ptr(true)}, more: hints(`"readOnlyHint":true`)},
		{name: "hints by default say nothing", review: contract.Review{Effect: "read"}, more: hints(``)},
		{name: "a definition nobody reviewed", review: contract.Review{Effect: "read"}, field: "tools", wanted: "never permitted (1): extra",
			change: func(d *contract.Declaration) { d.Tools["extra"] = contract.Review{} }},
		{name: "a remote server without tokens", review: contract.Review{Effect: "read"}, field: "token", wanted: "whoever the caller says",
			change: func(d *contract.Declaration) { d.Token = "none" }},
		{name: "a placeholder for a hash", review: contract.Review{Effect: "read"}, field: "package_hash", wanted: "every call will be refused",
			change: func(d *contract.Declaration) {
				d.Endpoint, d.PackageHash, d.Token = "", "sha256:REPLACED-BY-PIN", "none"
			}},
		{name: "a hash", review: contract.Review{Effect: "read"},
			change: func(d *contract.Declaration) {
				d.Endpoint, d.PackageHash, d.Token = "", "sha256:"+strings.Repeat("0a", 32), "none"
			}},
		{name: "an npm integrity", review: contract.Review{Effect: "read"},
			change: func(d *contract.Declaration) {
				d.Endpoint, d.PackageHash, d.Token = "", "sha512-"+strings.Repeat("A", 86)+"==", "none"
			}},
		{name: "defaults for nothing", review: contract.Review{Effect: "read"}, field: "defaults.opaque[1]", wanted: `no tool has an argument "bdy"`,
			change: func(d *contract.Declaration) { d.Defaults.Opaque = []string{"method", "bdy"} }},
		{name: "a resource line of arguments that no tool has together", review: contract.Review{Effect: "read"}, field: "resources[0]", other: `{"type":"object","properties":{"repo":{"type":"string"}}}`,
			wanted: `no tool without a resource of its own declares all of its arguments ("method", "repo")`,
			change: func(d *contract.Declaration) {
				d.Resources = []contract.Resource{{Entity: "R", ID: "{method}/{repo}"}, {Entity: "M", ID: "{method}"}}
				d.Tools["other"] = contract.Review{Effect: "read"}
			}},
		{name: "arguments beside properties", review: contract.Review{Effect: "read"}, field: "tools.t", wanted: `"b" only beside properties`,
			schema: `{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"properties":{"b":{"type":"string"}}}]}`},
		{name: "narrowing beside properties", review: contract.Review{Effect: "read"},
			schema: `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			schema := tc.schema
			if schema == "" {
				schema = `{"type":"object","required":["method"],"properties":{"method":{"enum":["a","b"]}}}`
			}
			d := remote("t", tc.review)
			tools := toolList(define(t, "t", schema, tc.more))
			if tc.other != "" {
				tools = append(tools, define(t, "other", tc.other))
			}
			if tc.change != nil {
				tc.change(&d)
			}
			if _, extra := d.Tools["extra"]; extra {
				delete(d.Tools, "extra")
				tools = append(tools, define(t, "extra", `{"type":"object"}`))
			}
			_, faults, warnings := contract.New(d, tools)
			if faults != nil {
				t.Fatal(faults)
			}
			switch {
			case tc.wanted == "" && len(warnings) > 0:
				t.Errorf("warnings %v, want none", warnings)
			case tc.wanted != "" && (len(warnings) != 1 || !has(warnings, tc.field, tc.wanted)):
				t.Errorf("warnings %v, want only %s: %s", warnings, tc.field, tc.wanted)
			}
		})
	}
}
