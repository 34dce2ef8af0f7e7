package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/bundle"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// onTheWire is a scenario of a bundle by its tool, for the caller that the
// tests' host is, now.
func onTheWire(t *testing.T, b *bundle.Bundle, name string) *writv1.Proposal {
	t.Helper()
	i := slices.IndexFunc(b.Scenarios, func(s bundle.Scenario) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no scenario %q", name)
	}
	s := b.Scenarios[i]
	s.Now = time.Time{} // whatever time it states
	s = s.At(time.Now())
	p, err := server.ProposalToProto(&s.Proposal)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What is missing is said in fields, for a program that steps up or sends
// another agent.
func TestWhatIsMissingIsNamed(t *testing.T) {
	b, _, cfg := world(t, "../examples/accounts-payable")
	h := around(t, cfg)
	for name, test := range map[string]struct {
		change             func(*writv1.Proposal)
		code, scope, party string
	}{
		"nothing":       {func(*writv1.Proposal) {}, "ALLOW", "", ""},
		"the scope":     {func(p *writv1.Proposal) { p.Token.Scopes = []string{"payments:create"} }, "SCOPE_MISSING", "payments:read", ""},
		"every scope":   {func(p *writv1.Proposal) { p.Token.Scopes = nil }, "SCOPE_MISSING", "payments:read", ""},
		"a sub-agent's": {func(p *writv1.Proposal) { p.Actors = append(p.Actors, agent("invoice-reader")) }, "NO_PERMIT", "", `Agent::"invoice-reader"`},
		"its parent's":  {func(p *writv1.Proposal) { p.Token.Actors = []*writv1.Actor{agent("invoice-reader")} }, "NO_PERMIT", "", `Agent::"invoice-reader"`},
		"the user's":    {func(p *writv1.Proposal) { p.Principal.Subject, p.Token.Subject = "eve", "eve" }, "NO_PERMIT", "", `User::"eve"`},
	} {
		p := onTheWire(t, b, "a clerk simulates")
		test.change(p)
		r, err := h.decide(t, p)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d := r.GetDecision()
		if d.GetCode() != test.code || d.GetMissingScope() != test.scope || d.GetParty() != test.party {
			t.Errorf("%s: %s, scope %q, party %q: %s", name, d.GetCode(), d.GetMissingScope(), d.GetParty(), d.GetExplanation())
		}
		if !strings.Contains(d.GetExplanation(), test.party) || !strings.Contains(d.GetExplanation(), test.scope) {
			t.Errorf("%s: the explanation doesn't say what: %s", name, d.GetExplanation())
		}
	}
}

func agent(name string) *writv1.Actor {
	return &writv1.Actor{Subject: name, Claims: map[string]string{"client_id": name}}
}

// A host that vouches for no tokens names no groups, whatever it sends.
func TestGroupsOfTheWire(t *testing.T) {
	b, _, cfg := world(t, "../examples/shop")
	h := around(t, cfg)
	for _, groups := range [][]string{nil, {"customers"}} {
		p := onTheWire(t, b, "a customer")
		p.Token.Groups = groups
		p.Token.Claims = map[string]string{"groups": "customers"}
		r, err := h.decide(t, p)
		if err != nil {
			t.Fatal(err)
		}
		if d := r.GetDecision(); d.GetCode() != "TOKEN_INVALID" {
			t.Errorf("groups %v: %s", groups, d.GetCode())
		}
	}
}
