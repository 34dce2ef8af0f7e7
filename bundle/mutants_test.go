package bundle_test

import (
	"strings"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
)

// TestCeremony: a computation needs no authority, and what asks for some is
// warned of.
func TestCeremony(t *testing.T) {
	const (
		tools = `{"tools":[{"name":"sum","inputSchema":{"type":"object","properties":{"a":{"type":"integer"}}}},
{"name":"put","inputSchema":{"type":"object","properties":{"a":{"type":"integer"}}}}]}`
		permit = `@id("p") permit (principal, action, resource);` + "\n"
		put    = `put: {effect: write, no_evidence: "a test"}`
	)
	for _, tt := range []struct{ name, sum, policies, want string }{
		{"nothing", "{effect: pure}", permit, ""},
		{"a read", "{effect: read, intent: required}", permit, ""},
		{"evidence", "{effect: pure, evidence: {a: {from: [user]}}}", permit, "somebody must vouch"},
		{"intent", "{effect: pure, intent: required}", permit, "needs the user's intent"},
		{"decide_at", "{effect: pure, decide_at: server}", permit, "decides by itself"},
		{"review", "{effect: pure}", permit + `@id("r") @review("1") forbid (principal, action == Action::"s/sum", resource);`, `the review "r" covers s/sum`},
		{"a review of everything", "{effect: pure}", permit + `@id("r") @review("1") forbid (principal, action, resource);`, `the review "r" covers s/sum`},
		{"a review of the write", "{effect: pure}", permit + `@id("r") @review("1") forbid (principal, action == Action::"s/put", resource);`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, faults := bundle.Build([]bundle.File{
				{Name: "servers/s.yaml", Data: []byte("id: s\nendpoint: https://s.example\ntools:\n  sum: " + tt.sum + "\n  " + put + "\n")},
				{Name: "servers/s.tools.json", Data: []byte(tools)},
				{Name: "policies/p.cedar", Data: []byte(tt.policies)},
			}, nil)
			var got []string
			for _, f := range faults {
				if f.Severity == writ.Error {
					t.Error(f)
				}
				if strings.Contains(f.Message, "pure") {
					got = append(got, f.Error())
				}
			}
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want) || !strings.Contains(got[0], ":")) {
				t.Errorf("want %q, got %q (of %v)", tt.want, got, faults)
			}
		})
	}
}
