package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/revocation"
)

// approvalFaults are the codes of a review that is not lifted. Among several
// faults the first of this list answers.
var approvalFaults = [...]writ.Code{
	writ.CodeApprovalRequired, writ.CodeStaleApproval, writ.CodeSelfApproval, writ.CodeApproverDenied,
	writ.CodeApprovalExpired, writ.CodeApprovalRevoked,
}

// checkApproval lifts satisfied forbids with @review("n"): each needs n valid
// approvals by n distinct people, none of them principal, actor or caller,
// each of whom the current snapshot permits to approve for that policy.
//
// An approval matters only where one is needed, but a forged one always
// denies.
func (c *call) checkApproval() failure {
	if f := c.forged(); f.code != "" {
		return f
	}
	if !c.reviewed() {
		return passed
	}
	c.nameApprovers()
	review := c.render()
	c.decision.ReviewDigest = review.Digest
	counts := c.count(review)
	worst := len(approvalFaults)
	var open []*policy.Policy
	for _, n := range counts {
		if n.lifted() {
			continue
		}
		worst = min(worst, slices.Index(approvalFaults[:], n.fault))
		open = union(open, []*policy.Policy{n.review})
	}
	if len(open) == 0 {
		return passed
	}
	c.decision.Policies = merge(nil, open)
	c.decision.Review = review
	code := approvalFaults[worst]
	info, _ := code.Info()
	needs := make([]string, len(open))
	for i, p := range open {
		needs[i] = fmt.Sprintf("%s needs %d", p.ID, p.Review)
	}
	return failure{code, info.Doc + " " + strings.Join(needs, ", ") + ".", ""}
}

func (c *call) forged() failure {
	for i := range c.proposal.Approvals {
		if c.proposal.Approvals[i].Forged {
			return failure{writ.CodeApprovalInvalid, "An approval is forged.", index("approvals", i, "id")}
		}
	}
	return passed
}

func (c *call) reviewed() bool {
	return slices.ContainsFunc(c.verdicts, func(v targetVerdict) bool { return len(v.reviews) > 0 })
}

// nameApprovers gives each approver the Cedar entity that the issuer's
// template makes of them; whom it cannot name stays zero and is nobody.
func (c *call) nameApprovers() {
	c.approvers = make([]types.EntityUID, len(c.proposal.Approvals))
	for i := range c.proposal.Approvals {
		a := &c.proposal.Approvals[i]
		if issuer := c.world.Issuers[a.Approver.Issuer]; issuer != nil {
			if uid, err := issuer.Principal.Entity(a.Approver.Subject, a.Claims); err == nil {
				c.approvers[i] = uid
			}
		}
	}
}

// counted is what the proposal's approvals are worth for one target under one
// review policy.
type counted struct {
	review *policy.Policy
	agreed int       // distinct people whose approvals count
	worst  writ.Code // what is wrong with an approval; empty: nothing
	fault  writ.Code // why not enough of them do
}

func (n *counted) lifted() bool { return n.review.Review > 0 && n.agreed >= n.review.Review }

// count holds the approvals against each review policy of each target, and
// tells review how many people agree with all that a policy asks.
func (c *call) count(review *writ.Review) []counted {
	var out []counted
	for i := range review.Policies {
		asks := &review.Policies[i]
		asks.Agreed = len(c.proposal.Approvals)
		for k := range c.verdicts {
			v := &c.verdicts[k]
			for _, p := range v.reviews {
				if p.ID == asks.ID {
					n := c.worth(v, p)
					asks.Agreed = min(asks.Agreed, n.agreed)
					out = append(out, n)
				}
			}
		}
	}
	return out
}

// worth counts the proposal's approvals of review for one target.
func (c *call) worth(v *targetVerdict, review *policy.Policy) counted {
	var given, valid []int  // approvals by distinct people
	if c.approvers == nil { // explained, though a forged one has answered
		c.nameApprovers()
	}
	asking := c.asking(v, review)
	worst := len(approvalFaults)
	for i := range c.proposal.Approvals {
		given = c.another(given, i)
		if fault := c.approvalFault(i, v, asking); fault != "" {
			worst = min(worst, slices.Index(approvalFaults[:], fault))
		} else {
			valid = c.another(valid, i)
		}
	}
	n := counted{review: review, agreed: len(valid), fault: writ.CodeApprovalRequired}
	if worst < len(approvalFaults) {
		n.worst = approvalFaults[worst]
		if len(given) >= review.Review {
			n.fault = n.worst
		}
	}
	return n
}

// asking returns what policies see of an approval, made once and only if it is
// asked for.
func (c *call) asking(v *targetVerdict, review *policy.Policy) func() types.Record {
	var context *types.Record
	return func() types.Record {
		if context == nil {
			made := c.approvalContext(v, review)
			context = &made
		}
		return *context
	}
}

// another adds approval i to a list unless somebody of the list gave it: one
// person is known by the entity or by issuer and subject, whichever shows it.
func (c *call) another(list []int, i int) []int {
	who := c.proposal.Approvals[i].Approver
	for _, j := range list {
		other := c.proposal.Approvals[j].Approver
		if c.approvers[i] == c.approvers[j] || who.Issuer == other.Issuer && who.Subject == other.Subject {
			return list
		}
	}
	return append(list, i)
}

// approvalFault says what is wrong with approval i of one target under one
// review policy, or nothing.
func (c *call) approvalFault(i int, v *targetVerdict, asking func() types.Record) writ.Code {
	a := &c.proposal.Approvals[i]
	switch {
	case a.ProposalDigest.IsZero() || a.ProposalDigest != c.decision.ProposalDigest || a.ReviewDigest != c.decision.ReviewDigest:
		return writ.CodeStaleApproval
	case c.acts(i):
		return writ.CodeSelfApproval
	case !c.mayApprove(c.approvers[i], v, asking):
		return writ.CodeApproverDenied
	case !c.now.Before(a.ExpiresAt):
		return writ.CodeApprovalExpired
	case c.approvalRevoked(a):
		return writ.CodeApprovalRevoked
	}
	return ""
}

// acts reports whether approver i is the principal, an actor or the caller.
func (c *call) acts(i int) bool {
	who, p := c.proposal.Approvals[i].Approver, c.proposal.Principal
	if c.approvers[i] == c.principal || who.Issuer == p.Issuer && who.Subject == p.Subject || who.Subject == c.caller.Name {
		return true
	}
	for k := range c.chain {
		if c.approvers[i] == c.actors[k] || who.Issuer == c.issuerOf(k) && who.Subject == c.chain[k].Subject {
			return true
		}
	}
	return false
}

// mayApprove asks the current policies whether the approver may approve this
// call for this review. An error in a forbid is a no.
func (c *call) mayApprove(who types.EntityUID, v *targetVerdict, asking func() types.Record) bool {
	if who == (types.EntityUID{}) || c.lapsed(who) {
		return false
	}
	verdict := c.ask(policy.Query{
		Principal: who, Action: c.approving(), Resource: v.target.Entity.UID, Context: asking(), Entities: &c.view,
	})
	return len(verdict.Permits) > 0 && len(verdict.Forbids) == 0 && len(verdict.Reviews) == 0 && len(verdict.ForbidErrors) == 0
}

// approving is the action of approving this tool's calls.
func (c *call) approving() types.EntityUID {
	return types.NewEntityUID("Action", types.String("approve:"+c.contract.ID()))
}

// approvalContext is what policies see of an approval: the call's own context
// and the review policy that is to be lifted.
func (c *call) approvalContext(v *targetVerdict, review *policy.Policy) types.Record {
	in := c.contextInput(v.element)
	in.Review = types.NewEntityUID("Policy", types.String(review.ID))
	return c.world.Policies.Context(c.approving(), in)
}

// approvalRevoked asks whether the approval, or the person behind it, has
// been withdrawn.
func (c *call) approvalRevoked(a *writ.Approval) bool {
	return c.revoked(revocation.Principal, a.Approver.Issuer, a.Approver.Subject, a.IssuedAt) ||
		c.revoked(revocation.Issuer, "", a.Approver.Issuer, a.IssuedAt) ||
		a.ID != "" && c.revoked(revocation.Approval, "", a.ID, a.IssuedAt)
}
