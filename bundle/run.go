package bundle

import (
	"fmt"
	"slices"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/snapshot"
)

// Decider answers one proposal at one instant. It is decide.Decide over a
// snapshot, or a server.
type Decider func(caller *writ.Caller, p *writ.Proposal, now time.Time) writ.Decision

// Run decides the scenario in world, at its own time or else at clock. Where
// people agreed, it first asks for the review and then signs it for them, so
// that each approval is over what would have been shown.
func (s Scenario) Run(world *snapshot.Snapshot, clock time.Time, decide Decider) writ.Decision {
	s = s.At(clock)
	caller := world.Callers[s.Caller]
	d := decide(caller, &s.Proposal, s.Now)
	if len(s.Approvers) == 0 {
		return d
	}
	for i, who := range s.Approvers {
		a := writ.Approval{
			ID: fmt.Sprintf("approval-%d", i+1), ProposalDigest: d.ProposalDigest, ReviewDigest: d.ReviewDigest,
			IssuedAt: s.Now, ExpiresAt: s.Now.Add(scenarioLife),
		}
		// Build has checked that some issuer names this person.
		a.Approver, a.Claims, _ = world.PrincipalOf(who)
		s.Proposal.Approvals = append(s.Proposal.Approvals, a)
	}
	return decide(caller, &s.Proposal, s.Now)
}

// Check says how a decision differs from what the scenario expects, or
// nothing.
func (e Expectation) Check(d writ.Decision) string {
	if d.Code != e.Code {
		where := ""
		if d.Field != "" {
			where = " at " + d.Field
		}
		return fmt.Sprintf("expected %s, got %s%s: %s", e.Code, d.Code, where, d.Explanation)
	}
	if e.Control != "" && d.Control != e.Control {
		return fmt.Sprintf("expected control %s, got %s", e.Control, d.Control)
	}
	for _, id := range e.Policies {
		if !slices.ContainsFunc(d.Policies, func(p writ.PolicyRef) bool { return p.ID == id }) {
			return fmt.Sprintf("expected policy %s among those that determine %s", id, d.Code)
		}
	}
	return ""
}
