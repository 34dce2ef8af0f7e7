package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/decide"
)

// TestExplainAgrees: an explanation's decision is the decision, for every
// scenario; its last control is the one that answered; and what policies are
// said to say adds up to the verdict.
func TestExplainAgrees(t *testing.T) {
	for _, name := range archives(t) {
		b := loadCase(t, name)
		for _, s := range b.Scenarios {
			s := s.At(s.Now)
			caller := b.Snapshot.Callers[s.Caller]
			d := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
			e := decide.Explain(b.Snapshot, caller, &s.Proposal, s.Now)
			if e.Decision.Code != d.Code || e.Decision.ProposalDigest != d.ProposalDigest {
				t.Errorf("%s/%s: explains %s, decides %s", name, s.Name, e.Decision.Code, d.Code)
			}
			if len(e.Controls) == 0 {
				t.Errorf("%s/%s: no control", name, s.Name)
				continue
			}
			last := e.Controls[len(e.Controls)-1]
			if d.Code == writ.CodeAllow && last.Code != "" || d.Code != writ.CodeAllow && (last.Code != d.Code || last.Code.Control() != d.Control) {
				t.Errorf("%s/%s: the last control says %q, the decision %s", name, s.Name, last.Code, d.Code)
			}
			if d.Code == writ.CodeAllow == (len(e.ToAllow) > 0) {
				t.Errorf("%s/%s: %s, to allow: %v", name, s.Name, d.Code, e.ToAllow)
			}
			for _, party := range e.Parties {
				permitted := slices.ContainsFunc(party.Policies, func(p writ.PolicyExplained) bool {
					return p.Permit && p.Verdict == writ.PolicySatisfied
				})
				if d.Code == writ.CodeAllow && !permitted {
					t.Errorf("%s/%s: allowed without a permit for %s", name, s.Name, party.Who)
				}
			}
			if text := fmt.Sprint(e); strings.Contains(text, "reason:x") || strings.Contains(text, `"reason":"x"`) {
				t.Errorf("%s/%s: an argument's value is in the explanation", name, s.Name)
			}
		}
	}
}

// TestExplainSays: what a person needs to know is there.
func TestExplainSays(t *testing.T) {
	for _, c := range []struct{ archive, scenario, want string }{
		{"policy", "nobody permits it", `put User::"gus" in Group::"staff"`},
		{"policy", "elsewhere", `put Path::"/srv/home/a" in Path::"/srv/work"`},
		{"token", "without the scope", "scope repo"},
		{"approval", "needs two", "six-eyes needs 2"},
		{"policy", "a forbid beats no permit", "secrets"},
		{"policy", "a forbid that errs denies", "overflow"},
		{"registration", "a changed definition", "differs"},
	} {
		b := loadCase(t, c.archive)
		s := scenarioOf(t, b, c.scenario)
		e := decide.Explain(b.Snapshot, b.Snapshot.Callers[s.Caller], &s.Proposal, s.Now)
		if text := strings.Join(e.ToAllow, "\n"); !strings.Contains(text, c.want) {
			t.Errorf("%s/%s: to allow:\n%s\nwithout %q", c.archive, c.scenario, text, c.want)
		}
	}
	if e := decide.Explain(nil, nil, nil, scenarioOf(t, loadCase(t, "policy"), "elsewhere").Now); e.Decision.Outcome != writ.Deny {
		t.Error("nothing is allowed")
	}
}
