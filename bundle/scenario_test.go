package bundle_test

import (
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/snapshot"
)

// scenarios builds the base with the given further files, as txtar, and
// returns its scenarios by name.
func scenarios(t *testing.T, text string) (*bundle.Bundle, map[string]bundle.Scenario) {
	t.Helper()
	files := base(t)
	for _, f := range txtar.Parse([]byte(text)).Files {
		files[f.Name] = f.Data
	}
	b, faults := bundle.Build(list(files), nil)
	if b == nil {
		t.Fatalf("faults:\n%v", faults)
	}
	out := map[string]bundle.Scenario{}
	for _, s := range b.Scenarios {
		out[s.Name] = s
	}
	return b, out
}

func TestScenarioNumbersAreExact(t *testing.T) {
	_, got := scenarios(t, `
-- scenarios/s.yaml --
defaults: {principal: User::"dana", tool: notes/read_note, arguments: {title: a, n: 125.00}, expect: INVALID_ARGUMENTS}
cases:
- {name: inherited}
- {name: pence, arguments: {n: 10000.01}}
- {name: five places, arguments: {n: 1.00001}}
- {name: large, arguments: {n: 9007199254740993}}
- {name: larger, arguments: {n: 123456789012345678901234567890}}
- {name: exponent, arguments: {n: -1.5e300}}
- {name: nested, arguments: {n: [1.10, {m: 0.30}, null, true, "1.10"], title: "a\tb\"é"}}
- {name: dates and words are text, arguments: {n: [2026-01-01, yes, off, 1:30, v1.0, 2026-01-01T00:00:00Z]}}
- {name: removed, arguments: {n: ~}}
- {name: own tool, tool: notes/read_note, arguments: {x: 1}}
- {name: exact text, arguments_json: '{"title": "a", "title": 1.0}'}
- {name: own tool without arguments, tool: notes/read_note}
`)
	for name, want := range map[string]string{
		"inherited":                  `{"title":"a","n":125.00}`,
		"pence":                      `{"title":"a","n":10000.01}`,
		"five places":                `{"title":"a","n":1.00001}`,
		"large":                      `{"title":"a","n":9007199254740993}`,
		"larger":                     `{"title":"a","n":123456789012345678901234567890}`,
		"exponent":                   `{"title":"a","n":-1.5e300}`,
		"nested":                     `{"n":[1.10,{"m":0.30},null,true,"1.10"],"title":"a\tb\"é"}`,
		"dates and words are text":   `{"title":"a","n":["2026-01-01","yes","off","1:30","v1.0","2026-01-01T00:00:00Z"]}`,
		"removed":                    `{"title":"a"}`,
		"own tool":                   `{"x":1}`,
		"exact text":                 `{"title": "a", "title": 1.0}`,
		"own tool without arguments": ``,
	} {
		if s, ok := got[name]; !ok || string(s.Proposal.ArgumentsJSON) != want {
			t.Errorf("%s: %s, want %s", name, s.Proposal.ArgumentsJSON, want)
		}
	}
}

const login = `
-- issuers.yaml --
issuers:
- {issuer: https://login.example, principal: 'User::"{preferred_username}"', actor: 'Agent::"{client_id}"', tenant: acme}
-- servers/notes.yaml --
id: notes
endpoint: https://notes.example/mcp
audience: https://notes.example
version: "1.0"
tools:
  read_note: {effect: read, scope: "notes:read"}
-- callers.yaml --
callers:
- {name: gateway, role: host, mtls: "spiffe://acme.example/gateway", vouches_for: [user, document]}
- {name: desktop, roles: [host, server], local: true}
`

func TestScenarioProposal(t *testing.T) {
	b, got := scenarios(t, login+`
-- scenarios/s.yaml --
defaults: {principal: User::"dana", actors: [Agent::"copilot"], tool: notes/read_note, arguments: {title: a}, expect: ALLOW}
cases:
- {name: plain}
- name: full
  about: everything stated
  now: 2026-11-30T10:00:00Z
  caller: gateway
  purpose: reading
  evidence:
    title: [{kind: user, ref: "chat:1"}, {kind: document, ref: "doc:2", value: 1.50, classification: secret, observed_at: 2026-11-30T09:00:00Z, derived_from: [a, b]}]
  approvals: [User::"ann", User::"bob"]
  expect: {code: DIARY_DENIED, policies: [no-diaries], control: POLICY}
- {name: token, token: {audience: [a, b], subject: erin, scopes: [], expired: true, issuer: x, tenant: other, id: j, key_id: k}}
- {name: no token, token: {absent: true}}
- {name: no audience, token: {audience: []}}
- {name: one scope, token: {scopes: other}}
- {name: intent, purpose: reading, intent: {id: i, expired: true}}
- {name: no intent, purpose: reading, intent: {absent: true}}
- {name: elsewhere, server: {endpoint: "https://evil.example/mcp"}}
- {name: another definition, definition_digest: "sha256:00000000000000000000000000000000000000000000000000000000000000ff"}
- {name: sent definition, definition: {name: read_note, inputSchema: {type: object}}}
- {name: unregistered, tool: notes/none, expect: TOOL_UNREGISTERED}
`)
	clock := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(name string) bundle.Scenario {
		t.Helper()
		s, ok := got[name]
		if !ok {
			t.Fatalf("no scenario %q", name)
		}
		return s.At(clock)
	}
	contract := b.Snapshot.Contract("notes", "read_note")

	s := at("plain")
	p := s.Proposal
	if !s.Now.Equal(clock) || s.Caller != "desktop" || s.File != "scenarios/s.yaml" || s.Line != 3 || s.Expect.Code != writ.CodeAllow {
		t.Errorf("plain: %+v", s)
	}
	if p.RequestID == "" || p.Intent != nil || p.Principal.Issuer != "https://login.example" || p.Principal.Subject == "" || p.Principal.Tenant != "acme" {
		t.Errorf("plain: %+v", p)
	}
	if p.Server.ID != "notes" || p.Server.Endpoint != "https://notes.example/mcp" || p.Tool != "read_note" || p.DefinitionDigest != contract.Tool.Digest || p.DefinitionJSON != nil {
		t.Errorf("plain: %+v", p)
	}
	if len(p.Actors) != 1 || p.Actors[0].Claims["client_id"] != "copilot" || p.Actors[0].Subject == "" {
		t.Errorf("actors: %+v", p.Actors)
	}
	k := p.Token
	if k == nil || k.Issuer != p.Principal.Issuer || k.Subject != p.Principal.Subject || k.Tenant != "acme" || k.Claims["preferred_username"] != "dana" ||
		len(k.Audience) != 1 || k.Audience[0] != "https://notes.example" || len(k.Scopes) != 1 || k.Scopes[0] != "notes:read" ||
		!k.IssuedAt.Before(clock) || !k.ExpiresAt.After(clock) {
		t.Errorf("token: %+v", k)
	}

	s = at("full")
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	if !s.Now.Equal(now) || s.Caller != "gateway" || s.About != "everything stated" || len(s.Approvers) != 2 || s.Approvers[1].String() != `User::"bob"` {
		t.Errorf("full: %+v", s)
	}
	if e := s.Expect; e.Code != "DIARY_DENIED" || e.Control != writ.ControlPolicy || len(e.Policies) != 1 || e.Policies[0] != "no-diaries" || e.Line != 12 {
		t.Errorf("expect: %+v", e)
	}
	if i := s.Proposal.Intent; i == nil || i.ID == "" || i.Purpose != "reading" || !i.DeclaredAt.Before(now) || !i.ExpiresAt.After(now) || i.ExpiresAt.After(now.Add(24*time.Hour)) {
		t.Errorf("intent: %+v", i)
	}
	if len(s.Proposal.Evidence) != 2 {
		t.Fatalf("evidence: %+v", s.Proposal.Evidence)
	}
	one, two := s.Proposal.Evidence[0], s.Proposal.Evidence[1]
	if one.Argument != "/title" || string(one.ValueJSON) != `"a"` || one.Kind != writ.SourceUser || one.Reference != "chat:1" || !one.ObservedAt.Equal(now) {
		t.Errorf("evidence: %+v", one)
	}
	if string(two.ValueJSON) != `1.50` || two.Classification != "secret" || !two.ObservedAt.Equal(now.Add(-time.Hour)) || len(two.DerivedFrom) != 2 {
		t.Errorf("evidence: %+v", two)
	}
	if again := got["full"]; !again.Proposal.Evidence[0].ObservedAt.IsZero() || !again.Proposal.Intent.ExpiresAt.IsZero() {
		t.Error("At writes into the scenario that it is called on")
	}

	k = at("token").Proposal.Token
	if k.Issuer != "x" || k.Subject != "erin" || k.Tenant != "other" || len(k.Audience) != 2 || len(k.Scopes) != 0 || !k.ExpiresAt.Before(clock) || k.ID != "j" || k.KeyID != "k" {
		t.Errorf("token: %+v", k)
	}
	if k := at("no token").Proposal.Token; k != nil {
		t.Errorf("no token: %+v", k)
	}
	if k := at("no audience").Proposal.Token; len(k.Audience) != 0 || len(k.Scopes) != 1 {
		t.Errorf("no audience: %+v", k)
	}
	if k := at("one scope").Proposal.Token; len(k.Scopes) != 1 || k.Scopes[0] != "other" {
		t.Errorf("one scope: %+v", k)
	}
	if i := at("intent").Proposal.Intent; i.ID != "i" || i.Purpose != "reading" || !i.ExpiresAt.Before(clock) {
		t.Errorf("intent: %+v", i)
	}
	if i := at("no intent").Proposal.Intent; i != nil {
		t.Errorf("no intent: %+v", i)
	}
	if e := at("elsewhere").Proposal.Server; e.ID != "notes" || e.Endpoint != "https://evil.example/mcp" {
		t.Errorf("elsewhere: %+v", e)
	}
	if d := at("another definition").Proposal.DefinitionDigest; d[31] != 0xff {
		t.Errorf("another definition: %v", d)
	}
	if p := at("sent definition").Proposal; string(p.DefinitionJSON) != `{"name":"read_note","inputSchema":{"type":"object"}}` || !p.DefinitionDigest.IsZero() {
		t.Errorf("sent definition: %s %v", p.DefinitionJSON, p.DefinitionDigest)
	}
	if p := at("unregistered").Proposal; p.Tool != "none" || p.DefinitionDigest.IsZero() || p.Server.Endpoint == "" {
		t.Errorf("unregistered: %+v", p)
	}
}

func TestCallersAndIssuers(t *testing.T) {
	b, _ := scenarios(t, login)
	s := b.Snapshot
	if s.LocalHost == nil || s.LocalHost.Name != "desktop" || s.Callers["host"] != nil {
		t.Errorf("local host: %+v; host: %+v", s.LocalHost, s.Callers["host"])
	}
	if s.LocalOperator == nil || s.LocalOperator.Name != "operator" {
		t.Errorf("local operator: %+v", s.LocalOperator)
	}
	if c := s.Identities[snapshot.Identity{Kind: snapshot.IdentityURI, Name: "spiffe://acme.example/gateway"}]; c == nil || c != s.Callers["gateway"] || !c.VouchesFor(writ.SourceDocument) || c.VouchesFor(writ.SourceModel) {
		t.Errorf("gateway: %+v", c)
	}
	if i := s.Issuers["https://login.example"]; i == nil || i.Tenant != "acme" || s.Issuers["local"] != nil {
		t.Errorf("issuers: %+v", s.Issuers)
	}
	// Every way of being known leads to the caller, and only in its own kind.
	b, _ = scenarios(t, `
-- callers.yaml --
callers:
- {name: a, role: host, mtls: AP.Acme.example, subject: "CN=a,O=Acme", unix: {uid: 0}}
- {name: b, role: operator, unix: {uid: 1000}}
`)
	for id, want := range map[snapshot.Identity]string{
		{Kind: snapshot.IdentityDNS, Name: "ap.acme.example"}: "a", {Kind: snapshot.IdentitySubject, Name: "CN=a,O=Acme"}: "a",
		{Kind: snapshot.IdentityUID, Name: "0"}: "a", {Kind: snapshot.IdentityUID, Name: "1000"}: "b",
	} {
		if c := b.Snapshot.Identities[id]; c == nil || c != b.Snapshot.Callers[want] {
			t.Errorf("%v is %+v, want %s", id, c, want)
		}
	}
	if n := len(b.Snapshot.Identities); n != 4 {
		t.Errorf("%d identities, want 4", n)
	}
	// A caller named host that is known by a certificate only is not given a secret.
	b, _ = scenarios(t, `
-- callers.yaml --
callers:
- {name: host, role: host, mtls: "spiffe://acme.example/host"}
- {name: desk, role: approver, local: true}
`)
	if s := b.Snapshot; s.LocalHost != nil || s.LocalOperator == nil || s.LocalOperator.Name != "desk" || s.Callers["operator"] != nil {
		t.Errorf("local host %+v, operator %+v", s.LocalHost, s.LocalOperator)
	}
}
