package pdp_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// windows is a bundle in which everything that can end, ends at one minute
// past the beginning of a bubble's time, and what can begin begins then.
var windows = []bundle.File{
	{Name: "servers/files.yaml", Data: []byte(`
id: files
package_hash: "sha256:1111111111111111111111111111111111111111111111111111111111111111"
token: none
tools:
  read: {effect: read}
  purposeful: {effect: read, intent: required}
  ending: {effect: read, valid: {until: "2000-01-01T00:01:00Z"}}
  beginning: {effect: read, valid: {from: "2000-01-01T00:01:00Z"}}
`)},
	{Name: "servers/files.tools.json", Data: []byte(`{"tools":[
{"name":"read","inputSchema":{"type":"object","properties":{}}},
{"name":"purposeful","inputSchema":{"type":"object","properties":{}}},
{"name":"ending","inputSchema":{"type":"object","properties":{}}},
{"name":"beginning","inputSchema":{"type":"object","properties":{}}}
]}`)},
	{Name: "servers/old.yaml", Data: []byte(`
id: old
package_hash: "sha256:2222222222222222222222222222222222222222222222222222222222222222"
token: none
valid: {until: "2000-01-01T00:01:00Z"}
tools: {read: {effect: read}}
`)},
	{Name: "servers/old.tools.json", Data: []byte(`{"tools":[{"name":"read","inputSchema":{"type":"object","properties":{}}}]}`)},
	{Name: "entities/people.json", Data: []byte(`[
{"uid":{"type":"Group","id":"staff"},"attrs":{},"parents":[]},
{"uid":{"type":"User","id":"ann"},"attrs":{},"parents":[{"type":"Group","id":"staff"}]},
{"uid":{"type":"User","id":"leaving"},"attrs":{},"parents":[{"type":"Group","id":"staff"}],"valid":{"until":"2000-01-01T00:01:00Z"}},
{"uid":{"type":"User","id":"moving"},"attrs":{},"parents":[{"type":"Group","id":"staff","valid":{"until":"2000-01-01T00:01:00Z"}}]},
{"uid":{"type":"User","id":"joining"},"attrs":{},"parents":[{"type":"Group","id":"staff","valid":{"from":"2000-01-01T00:01:00Z"}}]},
{"uid":{"type":"Group","id":"late"},"attrs":{},"parents":[{"type":"Group","id":"staff","valid":{"until":"2000-01-01T00:01:00Z"}}]},
{"uid":{"type":"User","id":"indirect"},"attrs":{},"parents":[{"type":"Group","id":"late"}]}
]`)},
	{Name: "policies/all.cedar", Data: []byte(`
@id("staff")
permit (principal in Group::"staff", action in [Action::"files", Action::"old"], resource);
`)},
	{Name: "scenarios/all.yaml", Data: []byte(`
defaults: {principal: User::"ann", arguments: {}, expect: ALLOW}
cases:
- {name: read, tool: files/read}
- {name: purposeful, tool: files/purposeful, purpose: x}
- {name: ending, tool: files/ending}
- {name: beginning, tool: files/beginning}
- {name: old, tool: old/read}
- {name: leaving, tool: files/read, principal: User::"leaving"}
- {name: moving, tool: files/read, principal: User::"moving"}
- {name: joining, tool: files/read, principal: User::"joining"}
- {name: indirect, tool: files/read, principal: User::"indirect"}
`)},
}

// TestWindowsFireOnTime: with no event at all, and nothing reloaded, each
// window ends and begins to the second, and to the nanosecond.
func TestWindowsFireOnTime(t *testing.T) {
	b, faults := bundle.Build(windows, nil)
	if b == nil {
		t.Fatal(faults)
	}
	for _, c := range []struct {
		name, scenario string
		change         func(p *writ.Proposal, at time.Time)
		revocations    func(at time.Time) []revocation.Entry
		before, then   writ.Code
	}{
		{name: "nothing ends", scenario: "read", before: writ.CodeAllow, then: writ.CodeAllow},
		{name: "an entity", scenario: "leaving", before: writ.CodeAllow, then: writ.CodeNoPermit},
		{name: "a membership", scenario: "moving", before: writ.CodeAllow, then: writ.CodeNoPermit},
		{name: "a membership of a group", scenario: "indirect", before: writ.CodeAllow, then: writ.CodeNoPermit},
		{name: "a membership that begins", scenario: "joining", before: writ.CodeNoPermit, then: writ.CodeAllow},
		{name: "a tool's review", scenario: "ending", before: writ.CodeAllow, then: writ.CodeToolUnregistered},
		{name: "a tool's review that begins", scenario: "beginning", before: writ.CodeToolUnregistered, then: writ.CodeAllow},
		{name: "a server's registration", scenario: "old", before: writ.CodeAllow, then: writ.CodeServerIdentity},
		{
			name: "an intent", scenario: "purposeful", before: writ.CodeAllow, then: writ.CodeIntentExpired,
			change: func(p *writ.Proposal, at time.Time) { p.Intent.ExpiresAt = at },
		},
		{
			name: "a revocation that begins", scenario: "read", before: writ.CodeAllow, then: writ.CodePrincipalRevoked,
			revocations: func(at time.Time) []revocation.Entry {
				return []revocation.Entry{{Kind: revocation.Principal, Issuer: "local", ID: "ann", From: at}}
			},
		},
		{
			name: "a revocation that ends", scenario: "read", before: writ.CodeToolRevoked, then: writ.CodeAllow,
			revocations: func(at time.Time) []revocation.Entry {
				return []revocation.Entry{{Kind: revocation.Tool, ID: "files/read", Until: at}}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC)
				var entries []revocation.Entry
				if c.revocations != nil {
					entries = c.revocations(at)
				}
				view, err := revocation.New(entries)
				if err != nil {
					t.Fatal(err)
				}
				p := newPDP(t, &memory{}, holding(b.Snapshot.At("test", 1, view)))
				s := named(t, b, c.scenario)
				if c.change != nil {
					c.change(&s.Proposal, at)
				}
				for _, instant := range []struct {
					at   time.Time
					want writ.Code
				}{{at.Add(-time.Second), c.before}, {at.Add(-1), c.before}, {at, c.then}, {at.Add(time.Second), c.then}} {
					time.Sleep(time.Until(instant.at))
					a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{})
					if err != nil || a.Decision().Code != instant.want {
						t.Errorf("at %v: %s, want %s (%s)", instant.at, a.Decision().Code, instant.want, a.Decision().Explanation)
					}
				}
			})
		})
	}
}
