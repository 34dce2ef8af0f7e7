package decide

import (
	"fmt"
	"slices"

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
	for i := range c.proposal.Approvals {
		if c.proposal.Approvals[i].Forged {
			return failure{writ.CodeApprovalInvalid, "An approval is forged.", index("approvals", i, "id")}
		}
	}
	if !c.reviewed() {
		return passed
	}
	c.nameApprovers()
	c.decision.ReviewDigest = c.reviewDigest()
	worst := len(approvalFaults)
	var open []*policy.Policy
	for i := range c.verdicts {
		v := &c.verdicts[i]
		for _, review := range v.reviews {
			fault, lifted := c.lift(v, review)
			if lifted {
				continue
			}
			worst = min(worst, slices.Index(approvalFaults[:], fault))
			open = union(open, []*policy.Policy{review})
		}
	}
	if len(open) == 0 {
		return passed
	}
	c.decision.Policies = merge(nil, open)
	code := approvalFaults[worst]
	info, _ := code.Info()
	need := 0
	for _, p := range open {
		need = max(need, p.Review)
	}
	return failure{code, fmt.Sprintf("%s %s needs %d.", info.Doc, open[0].ID, need), ""}
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

// lift reports whether the proposal's approvals lift review for one target;
// if not, why.
func (c *call) lift(v *targetVerdict, review *policy.Policy) (writ.Code, bool) {
	var given, valid []types.EntityUID
	worst := len(approvalFaults)
	for i := range c.proposal.Approvals {
		who := c.approvers[i]
		if !slices.Contains(given, who) {
			given = append(given, who)
		}
		if fault := c.approvalFault(i, v, review); fault != "" {
			worst = min(worst, slices.Index(approvalFaults[:], fault))
		} else if !slices.Contains(valid, who) {
			valid = append(valid, who)
		}
	}
	switch {
	case review.Review > 0 && len(valid) >= review.Review:
		return "", true
	case len(given) < review.Review || worst == len(approvalFaults):
		return writ.CodeApprovalRequired, false
	}
	return approvalFaults[worst], false
}

// approvalFault says what is wrong with approval i of one target under one
// review policy, or nothing.
func (c *call) approvalFault(i int, v *targetVerdict, review *policy.Policy) writ.Code {
	a := &c.proposal.Approvals[i]
	switch {
	case a.ProposalDigest.IsZero() || a.ProposalDigest != c.decision.ProposalDigest || a.ReviewDigest != c.decision.ReviewDigest:
		return writ.CodeStaleApproval
	case c.acts(i):
		return writ.CodeSelfApproval
	case !c.mayApprove(c.approvers[i], v, review):
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
func (c *call) mayApprove(who types.EntityUID, v *targetVerdict, review *policy.Policy) bool {
	if who == (types.EntityUID{}) {
		return false
	}
	in := c.contextInput(nil)
	if v.target.Element != nil {
		element, f := policy.Project(c.contract.Element, v.target.Element)
		if f != nil {
			return false
		}
		in.Element = &element.Record
	}
	in.Review = types.NewEntityUID("Policy", types.String(review.ID))
	action := types.NewEntityUID("Action", types.String("approve:"+c.contract.ID()))
	verdict := c.world.Policies.Judge(policy.Query{
		Principal: who, Action: action, Resource: v.target.Entity.UID, Context: c.world.Policies.Context(action, in), Entities: &c.view,
	})
	return len(verdict.Permits) > 0 && len(verdict.Forbids) == 0 && len(verdict.Reviews) == 0 && len(verdict.ForbidErrors) == 0
}

// approvalRevoked asks whether the approval, or the person behind it, has
// been withdrawn.
func (c *call) approvalRevoked(a *writ.Approval) bool {
	r := c.world.Revocations
	if _, yes := r.Revoked(revocation.Principal, a.Approver.Issuer, a.Approver.Subject, a.IssuedAt, c.now); yes {
		return true
	}
	if _, yes := r.Revoked(revocation.Issuer, "", a.Approver.Issuer, a.IssuedAt, c.now); yes {
		return true
	}
	if a.ID == "" {
		return false
	}
	_, yes := r.Revoked(revocation.Approval, "", a.ID, a.IssuedAt, c.now)
	return yes
}
