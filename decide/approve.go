package decide

import (
	"slices"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/snapshot"
)

// Standing is what one approval is worth now. The zero Standing counts for
// nothing.
type Standing struct {
	Counts bool
	Code   writ.Code // why it does not count; empty where it does
	Why    string    // one sentence for people, without values
	// Approver is the Cedar entity of who approves, as text; empty: nobody could
	// name it.
	Approver string
	// Policies are the ids of the review policies that it counts for, at every
	// target that they ask about. It may count at some targets only: then there
	// are none.
	Policies []string
}

// CheckApproval says whether one approval of p counts now for at least one of
// the policies that ask for people: every control before APPROVAL passes, and
// this approval, whatever others there are, stands up to the rest. p is judged
// as if caller proposed it now; approvals that it brings play no part. So are
// its token's times: whoever knows that the token was good when people were
// asked says so in p. Neither world, p nor approval is changed.
func CheckApproval(world *snapshot.Snapshot, caller *writ.Caller, p *writ.Proposal, approval *writ.Approval, now time.Time) Standing {
	if world == nil || caller == nil || p == nil || approval == nil {
		return Standing{Code: writ.CodeMalformedProposal, Why: "There is no proposal, no caller, no approval or no snapshot."}
	}
	alone := *p
	alone.Approvals = []writ.Approval{*approval}
	c := newCall(world, caller, &alone, now)
	if failed := c.before(); failed.code != "" {
		return Standing{Code: failed.code, Why: failed.why}
	}
	if approval.Forged {
		return Standing{Code: writ.CodeApprovalInvalid, Why: doc(writ.CodeApprovalInvalid)}
	}
	if !c.reviewed() {
		return Standing{Code: writ.CodeStaleApproval, Why: "No policy asks for people to agree to this any more."}
	}
	c.nameApprovers()
	review := c.render()
	c.decision.ReviewDigest = review.Digest
	var s Standing
	if c.approvers[0] != (types.EntityUID{}) {
		s.Approver = entityText(c.approvers[0])
	}
	worst := len(approvalFaults)
	for _, n := range c.count(review) {
		if n.agreed > 0 {
			s.Counts = true
		} else {
			worst = min(worst, slices.Index(approvalFaults[:], n.worst))
		}
	}
	for i := range review.Policies {
		if review.Policies[i].Agreed > 0 {
			s.Policies = append(s.Policies, review.Policies[i].ID)
		}
	}
	if !s.Counts {
		s.Code = approvalFaults[worst]
		s.Why = doc(s.Code)
	}
	return s
}

// Agreed says how many distinct people agree to p, by the approvals that it
// brings, with each policy that asks: what a REVIEW_REQUIRED would show, and an
// ALLOW doesn't. A code says which control before APPROVAL, or which forged
// approval, keeps the call from getting that far; then there are no policies.
// Without a code and without policies nobody is asked. See [CheckApproval] for
// the rest.
func Agreed(world *snapshot.Snapshot, caller *writ.Caller, p *writ.Proposal, now time.Time) (policies []writ.ReviewPolicy, code writ.Code, why string) {
	if world == nil || caller == nil || p == nil {
		return nil, writ.CodeMalformedProposal, "There is no proposal, no caller or no snapshot."
	}
	c := newCall(world, caller, p, now)
	if failed := c.before(); failed.code != "" {
		return nil, failed.code, failed.why
	}
	if failed := c.forged(); failed.code != "" {
		return nil, failed.code, failed.why
	}
	if !c.reviewed() {
		return nil, "", ""
	}
	c.nameApprovers()
	review := c.render()
	c.decision.ReviewDigest = review.Digest
	c.count(review)
	return review.Policies, "", ""
}

// before applies the controls that come before APPROVAL.
func (c *call) before() failure {
	for i := range controls {
		if controls[i].name == writ.ControlApproval {
			return passed
		}
		if failed := controls[i].run(c); failed.code != "" {
			return failed
		}
	}
	return failure{code: writ.CodeApprovalInvalid, why: "There is no APPROVAL control."}
}

func doc(code writ.Code) string {
	info, _ := code.Info()
	return info.Doc
}
