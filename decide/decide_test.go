package decide_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/decide"
)

// scenarioOf returns the scenario of an archive by name, with its times.
func scenarioOf(t testing.TB, b *bundle.Bundle, name string) bundle.Scenario {
	t.Helper()
	i := slices.IndexFunc(b.Scenarios, func(s bundle.Scenario) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no scenario %q", name)
	}
	return b.Scenarios[i].At(b.Scenarios[i].Now)
}

// TestZeroDenies: nothing and nobody is never allowed.
func TestZeroDenies(t *testing.T) {
	b := loadCase(t, "policy")
	s := scenarioOf(t, b, "permitted")
	caller := b.Snapshot.Callers[s.Caller]
	for name, d := range map[string]writ.Decision{
		"zero decision": {},
		"no world":      decide.Decide(nil, caller, &s.Proposal, s.Now, nil),
		"no caller":     decide.Decide(b.Snapshot, nil, &s.Proposal, s.Now, nil),
		"no proposal":   decide.Decide(b.Snapshot, caller, nil, s.Now, nil),
		"zero proposal": decide.Decide(b.Snapshot, caller, &writ.Proposal{}, s.Now, nil),
		"zero caller's": decide.Decide(b.Snapshot, &writ.Caller{}, &writ.Proposal{}, s.Now, nil),
	} {
		if d.Outcome != writ.Deny {
			t.Errorf("%s: %s", name, d.Outcome)
		}
	}
}

// TestMalformed spoils one field at a time of a proposal that is allowed.
func TestMalformed(t *testing.T) {
	b := loadCase(t, "dataflow")
	whole := scenarioOf(t, b, "supported")
	caller := b.Snapshot.Callers[whole.Caller]
	long := strings.Repeat("x", 5000)
	tests := []struct {
		field string
		spoil func(*writ.Proposal)
	}{
		{"request_id", func(p *writ.Proposal) { p.RequestID = "" }},
		{"request_id", func(p *writ.Proposal) { p.RequestID = long }},
		{"request_id", func(p *writ.Proposal) { p.RequestID = "a\x00b" }},
		{"request_id", func(p *writ.Proposal) { p.RequestID = "\xff" }},
		{"principal.issuer", func(p *writ.Proposal) { p.Principal.Issuer = "" }},
		{"principal.subject", func(p *writ.Proposal) { p.Principal.Subject = "" }},
		{"principal.tenant", func(p *writ.Proposal) { p.Principal.Tenant = "a\nb" }},
		{"server.id", func(p *writ.Proposal) { p.Server.ID = "" }},
		{"server.endpoint", func(p *writ.Proposal) { p.Server.Endpoint = long }},
		{"tool", func(p *writ.Proposal) { p.Tool = "" }},
		{"token.subject", func(p *writ.Proposal) { p.Token.Subject = "" }},
		{"token.scopes", func(p *writ.Proposal) { p.Token.Scopes = []string{""} }},
		{"token", func(p *writ.Proposal) { p.Token.Scopes = slices.Repeat([]string{"s"}, 10_000) }},
		{"token.claims", func(p *writ.Proposal) { p.Token.Claims = map[string]string{"": "x"} }},
		{"token.actors[0].subject", func(p *writ.Proposal) { p.Token.Actors = []writ.Actor{{}} }},
		{"actors[0].subject", func(p *writ.Proposal) { p.Actors = []writ.Actor{{}} }},
		{"actors", func(p *writ.Proposal) { p.Actors = slices.Repeat([]writ.Actor{{Subject: "x"}}, decide.MaxActors+1) }},
		{"actors", func(p *writ.Proposal) {
			p.Actors = slices.Repeat([]writ.Actor{{Subject: "x"}}, decide.MaxActors)
			p.Token.Actors = []writ.Actor{{Subject: "y"}}
		}},
		{"definition_digest", func(p *writ.Proposal) { p.DefinitionDigest = canon.Digest{} }},
		{"definition_json", func(p *writ.Proposal) { p.DefinitionJSON = []byte(`{"name":"create","inputSchema":{"type":"object"}}`) }},
		{"definition_json", func(p *writ.Proposal) {
			p.DefinitionDigest, p.DefinitionJSON = canon.Digest{}, []byte(`{"name":"create"}`)
		}},
		{"definition_json", func(p *writ.Proposal) {
			p.DefinitionDigest, p.DefinitionJSON = canon.Digest{}, []byte(`{"name":"other","inputSchema":{"type":"object"}}`)
		}},
		{"arguments_json", func(p *writ.Proposal) { p.ArgumentsJSON = []byte("null") }},
		{"arguments_json", func(p *writ.Proposal) { p.ArgumentsJSON = []byte(strings.Repeat("[", 100_000)) }},
		{"arguments_json", func(p *writ.Proposal) { p.ArgumentsJSON = []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`) }},
		{"extra_params_json", func(p *writ.Proposal) { p.ExtraParamsJSON = []byte(`{"arguments":{}}`) }},
		{"extra_params_json", func(p *writ.Proposal) { p.ExtraParamsJSON = []byte(`{"_meta":{}}`) }},
		{"extra_params_json", func(p *writ.Proposal) { p.ExtraParamsJSON = []byte(`{"x":1,"x":2}`) }},
		{"evidence", func(p *writ.Proposal) { p.Evidence = slices.Repeat(p.Evidence, 40) }},
		{"evidence[0].argument", func(p *writ.Proposal) { p.Evidence[0].Argument = "supplier" }},
		{"evidence[0].argument", func(p *writ.Proposal) { p.Evidence[0].Argument = "/a~2" }},
		{"evidence[0].kind", func(p *writ.Proposal) { p.Evidence[0].Kind = "" }},
		{"evidence[0].reference", func(p *writ.Proposal) { p.Evidence[0].Reference = "" }},
		{"evidence[0].value_json", func(p *writ.Proposal) { p.Evidence[0].ValueJSON = nil }},
		{"evidence[0].value_json", func(p *writ.Proposal) { p.Evidence[0].ValueJSON = []byte("9007199254740993") }},
		{"evidence[0].confidence", func(p *writ.Proposal) { p.Evidence[0].Confidence = math.NaN() }},
		{"evidence[0].confidence", func(p *writ.Proposal) { p.Evidence[0].Confidence = 1.5 }},
		{"intent.id", func(p *writ.Proposal) { p.Intent.ID = "" }},
		{"intent.expires_at", func(p *writ.Proposal) { p.Intent.ExpiresAt = time.Time{} }},
		{"approvals[0].approver", func(p *writ.Proposal) { p.Approvals = []writ.Approval{{}} }},
		{"approvals", func(p *writ.Proposal) {
			p.Approvals = slices.Repeat([]writ.Approval{{Approver: writ.Principal{Subject: "x"}}}, decide.MaxApprovals+1)
		}},
	}
	for _, test := range tests {
		s := whole.At(whole.Now)
		token, intent := *s.Proposal.Token, *s.Proposal.Intent
		s.Proposal.Token, s.Proposal.Intent = &token, &intent
		if d := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil); d.Code != writ.CodeAllow {
			t.Fatalf("unspoilt: %s: %s", d.Code, d.Explanation)
		}
		test.spoil(&s.Proposal)
		// Whatever else is wrong, MALFORMED_PROPOSAL comes first.
		s.Proposal.Server.Endpoint += "x"
		d := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
		if d.Code != writ.CodeMalformedProposal || !strings.HasPrefix(d.Field, test.field) {
			t.Errorf("%s: got %s at %q: %s", test.field, d.Code, d.Field, d.Explanation)
		}
		checkDecision(t, d)
	}
}

// TestUnregistered: servers and tools that nobody reviewed.
func TestUnregistered(t *testing.T) {
	b := loadCase(t, "policy")
	s := scenarioOf(t, b, "permitted")
	caller := b.Snapshot.Callers[s.Caller]
	for want, change := range map[writ.Code]func(*writ.Proposal){
		writ.CodeServerIdentity:    func(p *writ.Proposal) { p.Server.ID = "fi1es" },
		writ.CodeToolUnregistered:  func(p *writ.Proposal) { p.Tool = "write" },
		writ.CodeDefinitionChanged: func(p *writ.Proposal) { p.DefinitionDigest[0] ^= 1 },
		writ.CodeTokenInvalid:      func(p *writ.Proposal) { p.Principal.Issuer = "https://evil.example" },
	} {
		s := s.At(s.Now)
		change(&s.Proposal)
		d := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
		if d.Code != want {
			t.Errorf("got %s, want %s", d.Code, want)
		}
		checkDecision(t, d)
	}
}

// TestTokenActors: the token's chain counts, even at a server that takes no
// token, and comes before what the proposal appends.
func TestTokenActors(t *testing.T) {
	b := loadCase(t, "policy")
	s := scenarioOf(t, b, "permitted")
	caller := b.Snapshot.Callers[s.Caller]
	p := s.Proposal
	p.Token = &writ.Token{
		Verified: true,
		Issuer:   p.Principal.Issuer, Subject: p.Principal.Subject, Tenant: p.Principal.Tenant, ExpiresAt: s.Now.Add(time.Hour),
		Actors: []writ.Actor{{Subject: "bot", Claims: map[string]string{"client_id": "bot"}}},
	}
	if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeAllow || !slices.Equal(d.Actors, []string{`Agent::"bot"`}) {
		t.Errorf("%s for %v", d.Code, d.Actors)
	}
	p.Token.Actors[0].Claims = map[string]string{"client_id": "stranger"}
	if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeNoPermit {
		t.Errorf("a stranger in the token's chain: %s", d.Code)
	}
	p.Token.Actors[0].Claims = nil
	if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeTokenInvalid {
		t.Errorf("an actor that the template cannot name: %s", d.Code)
	}
}

// TestApprovalFaults spoils an approval that lifts a review, one part at a
// time, and holds the order among several faults.
func TestApprovalFaults(t *testing.T) {
	b := loadCase(t, "approval", "approval-revoked")
	s := scenarioOf(t, b, "needs one")
	caller := b.Snapshot.Callers[s.Caller]
	asked := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
	if asked.Code != writ.CodeApprovalRequired {
		t.Fatalf("%s: %s", asked.Code, asked.Explanation)
	}
	valid := writ.Approval{
		ID: "a-1", Approver: writ.Principal{Issuer: s.Proposal.Principal.Issuer, Subject: "sam"},
		ProposalDigest: asked.ProposalDigest, ReviewDigest: asked.ReviewDigest, IssuedAt: s.Now, ExpiresAt: s.Now.Add(time.Second),
	}
	tests := []struct {
		name  string
		spoil func(*writ.Approval)
		want  writ.Code
	}{
		{"valid", func(*writ.Approval) {}, writ.CodeAllow},
		{"forged", func(a *writ.Approval) { a.Forged = true }, writ.CodeApprovalInvalid},
		{"another proposal", func(a *writ.Approval) { a.ProposalDigest[5] ^= 1 }, writ.CodeStaleApproval},
		{"another review", func(a *writ.Approval) { a.ReviewDigest[5] ^= 1 }, writ.CodeStaleApproval},
		{"no digests", func(a *writ.Approval) { a.ProposalDigest, a.ReviewDigest = canon.Digest{}, canon.Digest{} }, writ.CodeStaleApproval},
		{"by the principal", func(a *writ.Approval) { a.Approver.Subject = "ria" }, writ.CodeSelfApproval},
		{"by the actor", func(a *writ.Approval) { a.Approver.Subject = "bot" }, writ.CodeSelfApproval},
		{"by the caller", func(a *writ.Approval) { a.Approver.Subject = "desk" }, writ.CodeSelfApproval},
		{"by who may not", func(a *writ.Approval) { a.Approver.Subject = "gus" }, writ.CodeApproverDenied},
		{"by another issuer's sam", func(a *writ.Approval) { a.Approver.Issuer = "https://evil.example" }, writ.CodeApproverDenied},
		{"expired now", func(a *writ.Approval) { a.ExpiresAt = s.Now }, writ.CodeApprovalExpired},
		{"without an expiry", func(a *writ.Approval) { a.ExpiresAt = time.Time{} }, writ.CodeApprovalExpired},
		{"revoked", func(a *writ.Approval) { a.ID = "a-9" }, writ.CodeApprovalRevoked},
		{"by who is revoked", func(a *writ.Approval) { a.Approver.Subject = "tom" }, writ.CodeApprovalRevoked},
		{"stale before own", func(a *writ.Approval) { a.ProposalDigest[0] ^= 1; a.Approver.Subject = "ria" }, writ.CodeStaleApproval},
		{"own before denied", func(a *writ.Approval) { a.Approver.Subject = "desk"; a.ExpiresAt = s.Now }, writ.CodeSelfApproval},
		{"denied before expired", func(a *writ.Approval) { a.Approver.Subject = "gus"; a.ExpiresAt = s.Now }, writ.CodeApproverDenied},
		{"expired before revoked", func(a *writ.Approval) { a.ID = "a-9"; a.ExpiresAt = s.Now }, writ.CodeApprovalExpired},
	}
	for _, test := range tests {
		p := s.Proposal
		a := valid
		test.spoil(&a)
		p.Approvals = []writ.Approval{a}
		d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil)
		if d.Code != test.want {
			t.Errorf("%s: got %s, want %s: %s", test.name, d.Code, test.want, d.Explanation)
		}
		checkDecision(t, d)
	}
	forged := valid
	forged.Forged = true
	p := s.Proposal
	p.Approvals = []writ.Approval{valid, forged}
	if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeApprovalInvalid {
		t.Errorf("a forged approval beside a valid one: %s", d.Code)
	}
}

// TestApprovalIsStale: what the approver was shown has changed.
func TestApprovalIsStale(t *testing.T) {
	before := loadCase(t, "approval")
	after := loadCase(t, "approval", "approval-changed")
	s := scenarioOf(t, before, "needs one")
	caller := before.Snapshot.Callers[s.Caller]
	asked := decide.Decide(before.Snapshot, caller, &s.Proposal, s.Now, nil)
	p := s.Proposal
	p.Approvals = []writ.Approval{{
		Approver:       writ.Principal{Issuer: p.Principal.Issuer, Subject: "sam"},
		ProposalDigest: asked.ProposalDigest, ReviewDigest: asked.ReviewDigest, IssuedAt: s.Now, ExpiresAt: s.Now.Add(time.Hour),
	}}
	if d := decide.Decide(before.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeAllow {
		t.Fatalf("unchanged: %s: %s", d.Code, d.Explanation)
	}
	if d := decide.Decide(after.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeStaleApproval {
		t.Errorf("the supplier's owner changed: %s: %s", d.Code, d.Explanation)
	}
	for name, change := range map[string]func(*writ.Proposal){
		"request": func(p *writ.Proposal) { p.RequestID += "x" },
		"amount": func(p *writ.Proposal) {
			p.ArgumentsJSON = []byte(`{"supplier":"ACME","amount":600.01,"reason":"x"}`)
			p.Evidence = amounts(p.Evidence, "600.01")
		},
		"purpose":  func(p *writ.Proposal) { in := *p.Intent; in.ID += "x"; p.Intent = &in },
		"evidence": func(p *writ.Proposal) { p.Evidence = amounts(p.Evidence, ""); p.Evidence[0].Reference += "x" },
	} {
		changed := p
		change(&changed)
		if d := decide.Decide(before.Snapshot, caller, &changed, s.Now, nil); d.Code != writ.CodeStaleApproval {
			t.Errorf("%s changed: %s: %s", name, d.Code, d.Explanation)
		}
	}
}

// amounts copies evidence, with another observed amount if there is one.
func amounts(evidence []writ.Evidence, value string) []writ.Evidence {
	out := slices.Clone(evidence)
	for i := range out {
		if value != "" && out[i].Argument == "/amount" {
			out[i].ValueJSON = []byte(value)
		}
	}
	return out
}

// observed collects what an Observer sees.
type observed []struct {
	control writ.Control
	failed  writ.Code
}

func (o *observed) Control(c writ.Control, failed writ.Code) {
	*o = append(*o, struct {
		control writ.Control
		failed  writ.Code
	}{c, failed})
}

// TestOrder: controls run in the order of writ.Controls, and stop at the
// first that fails.
func TestOrder(t *testing.T) {
	b := loadCase(t, "approval")
	for name, last := range map[string]writ.Control{"has one": writ.ControlApproval, "needs nobody": writ.ControlApproval, "who may not ask is not reviewed": writ.ControlPolicy} {
		s := scenarioOf(t, b, name)
		var o observed
		decide.Decide(b.Snapshot, b.Snapshot.Callers[s.Caller], &s.Proposal, s.Now, &o)
		i := 0
		for _, c := range writ.Controls {
			if c == writ.ControlFreshness || c == writ.ControlAudit { // pdp's
				continue
			}
			if i == len(o) {
				break
			}
			if o[i].control != c {
				t.Fatalf("%s: control %d is %s, want %s", name, i, o[i].control, c)
			}
			if i++; c == last && i != len(o) {
				t.Errorf("%s: controls run after %s", name, c)
			}
		}
	}
}

// TestPure: a decision changes neither the proposal nor the world.
func TestPure(t *testing.T) {
	b := loadCase(t, "approval")
	s := scenarioOf(t, b, "needs one")
	caller := b.Snapshot.Callers[s.Caller]
	first := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
	for range 50 {
		again := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
		if again.Code != first.Code || again.ProposalDigest != first.ProposalDigest || again.ReviewDigest != first.ReviewDigest || again.Explanation != first.Explanation {
			t.Fatalf("%+v, then %+v", first, again)
		}
	}
}
