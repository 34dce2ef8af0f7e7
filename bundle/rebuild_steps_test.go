package bundle_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/bundle"
)

// Each step changes one file of the bundle that was good last, and says what
// must be said then: a text in the faults, or nothing.
func TestRebuildSteps(t *testing.T) {
	const (
		tools = `{"tools":[{"name":"put","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}]}`
		other = `{"tools":[{"name":"set","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}]}`
		rules = `@id("all") permit (principal in Group::"staff", action in Action::"s", resource);
@id("second") @review("1") forbid (principal, action == Action::"s/put", resource);
@id("boss") permit (principal in Group::"bosses", action in Action::"approve", resource);
`
		people = `[{"uid":{"type":"Group","id":"staff"},"attrs":{},"parents":[]},{"uid":{"type":"Group","id":"bosses"},"attrs":{},"parents":[]},
{"uid":{"type":"User","id":"ann"},"attrs":{},"parents":[{"type":"Group","id":"bosses"}]}]`
		nobody = `[{"uid":{"type":"Group","id":"staff"},"attrs":{},"parents":[]},{"uid":{"type":"Group","id":"bosses"},"attrs":{},"parents":[]},
{"uid":{"type":"User","id":"ann"},"attrs":{},"parents":[{"type":"Group","id":"staff"}]}]`
		accepted = "accepted_mutants: [{policy: all, mutation: m, reason: known}]\n"
		scenario = "cases: [{name: a, principal: 'User::\"ann\"', tool: s/put, arguments: {n: 1}, expect: {code: NO_PERMIT, policies: [POLICY]}}]\n"
		keySet   = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	)
	server := func(id, tool string) []byte {
		return []byte("id: " + id + "\nendpoint: https://" + id + ".example\ntools:\n  " + tool + ": {effect: write, reversible: true, scope: s}\n")
	}
	files := map[string][]byte{
		"servers/s.yaml": server("s", "put"), "servers/s.tools.json": []byte(tools), "policies/a.cedar": []byte(rules), "entities/a.json": []byte(people),
		"bundle.yaml": []byte(accepted),
	}
	previous, faults := bundle.Build(list(files), nil)
	if previous == nil || len(faults) > 0 {
		t.Fatal(faults)
	}
	for i, step := range []struct{ file, text, want string }{
		{"revocations.yaml", "revocations: [{kind: tool, id: s/putt, reason: r}]\n", `no tool "s/putt"`},
		{"policies/b.cedar", `@id("b") permit (principal, action == Action::"s/put", resource);`, `no tool "s/putt"`}, // said again
		{"revocations.yaml", "revocations: [{kind: principal, issuer: 'https://x.example', id: p, reason: r}]\n", `no issuer "https://x.example"`},
		{"issuers.yaml", "issuers: [{issuer: 'https://x.example', principal: 'User::\"{sub}\"'}]\n", ""},
		{"issuers.yaml", "", `no issuer "https://x.example"`},
		{"revocations.yaml", "", ""},
		// Who may lift a review.
		{"entities/a.json", nobody, `no entity in the bundle is permitted`},
		{"callers.yaml", "callers: [{name: h, role: host, local: true}]\n", `no entity in the bundle is permitted`}, // said again
		{"entities/a.json", people, ""},
		{"issuers.yaml", "issuers: [{issuer: local, principal: 'User::\"x|{sub}\"'}]\n", `no entity in the bundle is permitted`},
		{"issuers.yaml", "", ""},
		// What a policy names.
		{"policies/b.cedar", `@id("b") permit (principal in Group::"temps", action == Action::"s/put", resource);`, `there is no Group::"temps"`},
		{"entities/b.json", `[{"uid":{"type":"Group","id":"temps"},"attrs":{},"parents":[]}]`, ""},
		{"policies/b.cedar", `@id("b") permit (principal in Group::"temps", action == Action::"s/put", resource);`, ""},
		{"entities/b.json", `[]`, `there is no Group::"temps"`},
		{"policies/c.cedar", `@id("b") permit (principal, action == Action::"s/put", resource);`, `the id "b" is taken by the policy at policies/b.cedar:1`},
		{"policies/c.cedar", `@id("c") permit (principal, action == Action::"approve:s/put", resource) when { context.review == Policy::"b" };`, ""},
		{"policies/b.cedar", "", `there is no Policy::"b"`},
		// What a schema knows.
		{"schema.cedarschema", "entity Group in [Group] = { since: Long };\n", `missing required attribute "since"`},
		{"schema.cedarschema", "entity Group in [Group] = { since?: Long };\n", ""},
		{"schema.cedarschema", "", ""},
		// What bundle.yaml names: it is said as often as it is so.
		{"policies/a.cedar", strings.Replace(rules, `"all"`, `"most"`, 1), `there is no policy "all"`},
		{"policies/a.cedar", strings.Replace(rules, `"all"`, `"some"`, 1), `there is no policy "all"`},
		// What scenarios name.
		{"scenarios/a.yaml", strings.Replace(scenario, "POLICY", "all", 1), ""},
		{"scenarios/a.yaml", strings.Replace(scenario, "POLICY", "b", 1), ""},
		{"policies/d.cedar", `@id("d") permit (principal, action == Action::"s/put", resource);`, ""},
		{"scenarios/a.yaml", strings.Replace(scenario, "POLICY", "d", 1), ""},
		{"policies/d.cedar", "", `there is no policy "d"`},
		{"policies/d.cedar", "", `there is no policy "d"`},
		{"callers.yaml", "callers: [{name: h, role: operator, local: true}, {name: host, role: server, mtls: x}]\n", "no host on this machine"},
		// Keys of issuers.
		{"issuers.yaml", "issuers: [{issuer: local, jwks: jwks/a.json}]\n", `no file "jwks/a.json"`},
		{"jwks/a.json", keySet, `no issuer of issuers.yaml has these keys`},
		{"issuers.yaml", "issuers: [{issuer: local, jwks: jwks/a.json}]\n", ""},
		{"jwks/a.json", strings.Replace(keySet, `"a"`, `"b"`, 1), ""},
		{"jwks/b.json", keySet, `no issuer of issuers.yaml has these keys`},
		{"policies/e.cedar", `@id("e") permit (principal, action == Action::"s/put", resource);`, `no issuer of issuers.yaml has these keys`}, // said again
		// Groups that issuers supply.
		{"issuers.yaml", "issuers: [{issuer: local, jwks: jwks/a.json, groups: {claim: groups, parent: 'Group::\"x|{group}\"'}}]\n", `no issuer of issuers.yaml has these keys`},
		{"schema.cedarschema", "entity User;\n", `a User can't be in Group`},
		{"schema.cedarschema", "", `no issuer of issuers.yaml has these keys`},
		{"policies/f.cedar", `@id("f") permit (principal in Group::"x|y", action == Action::"s/put", resource);`, `though an issuer may supply it`},
		{"issuers.yaml", "issuers: [{issuer: local, jwks: jwks/a.json}]\n", `there is no Group::"x|y"`},
		{"policies/f.cedar", "", `no issuer of issuers.yaml has these keys`},
		{"issuers.yaml", "issuers: [{issuer: local, jwks: jwks/a.json}]\n", `no issuer of issuers.yaml has these keys`},
		{"jwks/a.json", "", `no file "jwks/a.json"`},
		{"jwks/b.json", "", ""},
		// What nobody can prove.
		{"servers/s.yaml", string(server("s", "put")) + "proof_of_possession: true\n", ""},
		{"issuers.yaml", "issuers: [{issuer: local}]\n", `no keys of local`},
		{"policies/f.cedar", `@id("f") permit (principal, action == Action::"s/put", resource);`, `no keys of local`}, // said again
		{"servers/s.yaml", string(server("s", "put")), `no issuer of issuers.yaml has these keys`},
		{"policies/f.cedar", "", `no issuer of issuers.yaml has these keys`},
		{"issuers.yaml", "issuers: [{issuer: local, jwks: jwks/a.json}]\n", ""},
		// What servers name.
		{"servers/t.yaml", string(server("t", "set")), "servers/t.tools.json is missing"},
		{"servers/s.tools.json", other, `put`},
		{"callers.yaml", "callers: [{name: h, rol: host}]\n", `"rol"`},
	} {
		changed := maps.Clone(files)
		changed[step.file] = []byte(step.text)
		if step.text == "" {
			delete(changed, step.file)
		}
		want, wanted := bundle.Build(list(changed), nil)
		got, faults := bundle.Build(list(changed), previous)
		if !reflect.DeepEqual(faults, wanted) || (got == nil) != (want == nil) {
			t.Fatalf("step %d, %s: got\n%v\nwant\n%v", i, step.file, faults, wanted)
		}
		if step.want == "" && len(faults) > 0 || !strings.Contains(faults.Error(), step.want) {
			t.Errorf("step %d, %s: got %v, want %q", i, step.file, faults, step.want)
		}
		if got != nil {
			if says(got) != says(want) {
				t.Fatalf("step %d, %s: got\n%s\nwant\n%s", i, step.file, says(got), says(want))
			}
			previous, files = got, changed
		}
	}
}
