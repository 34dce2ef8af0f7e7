package pdp

import (
	"context"
	"errors"
	"slices"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/revocation"
)

// judge returns the proposal with what its token and its approvals are worth:
// both are verified here.
func (p *PDP) judge(ctx context.Context, s *setting, as *writ.Caller, proposal *writ.Proposal) *writ.Proposal {
	judged := p.tokens.Judge(ctx, s.world, as, proposal, s.now)
	if judged == nil || len(judged.SignedApprovals) == 0 || len(judged.SignedApprovals) > decide.MaxApprovals {
		return judged // too many are malformed
	}
	with := *judged
	with.Approvals = slices.Clip(judged.Approvals)
	for _, text := range judged.SignedApprovals {
		a := p.opened(ctx, s, text)
		if a.Forged || !p.rejected(ctx, &a) {
			with.Approvals = append(with.Approvals, a)
		}
	}
	return &with
}

// rejected reports whether somebody has rejected the review that an approval is
// of: then it is nobody's agreement any more, whoever brings it. Where the
// reviews can't be asked, it counts as rejected.
func (p *PDP) rejected(ctx context.Context, a *writ.Approval) bool {
	r, err := p.reviews.Get(ctx, approval.ID(a.ReviewDigest))
	if errors.Is(err, approval.ErrNotFound) {
		return false // it is over, or was opened elsewhere
	}
	return err != nil || r.Rejection != nil
}

// opened is what a signed approval says; whatever is wrong with it, it is
// forged. What a revoked key has signed is nobody's word.
func (p *PDP) opened(ctx context.Context, s *setting, text string) writ.Approval {
	read := func() writ.Approval { return approval.Read(p.keys, text, s.now, p.issuer, p.ledger.Instance()) }
	a := read()
	if a.Forged && p.learns(ctx, s, text) {
		a = read()
	}
	a.Forged = a.Forged || p.keyRevoked(s, &a)
	return a
}

// learns has the keys known that others sign with, if that of an approval is
// not, and reports whether it has. One call asks for them once, whatever it
// brings. Where they can't be asked for, the approval stays forged, and what
// brings it is told why: see [setting.check].
func (p *PDP) learns(ctx context.Context, s *setting, text string) bool {
	if p.learn == nil || s.learnt {
		return false
	}
	_, _, err := p.keys.Open(keyring.TypeApproval, text, approval.MaxStatement, s.now)
	if !keyring.IsKind(err, keyring.UnknownKey) {
		return false
	}
	s.learnt = true
	s.unlearnt = p.learn(ctx) != nil
	return !s.unlearnt
}

func (p *PDP) keyRevoked(s *setting, a *writ.Approval) bool {
	if s.world == nil {
		return false
	}
	_, revoked := s.world.Revocations.Revoked(revocation.Key, p.issuer, a.KeyID, a.IssuedAt, s.now)
	return revoked
}

// rejudged returns a proposal that was judged before, with approvals as they
// count in another world: their keys may have been revoked since.
func (p *PDP) rejudged(s *setting, proposal *writ.Proposal) *writ.Proposal {
	if !slices.ContainsFunc(proposal.Approvals, func(a writ.Approval) bool { return p.keyRevoked(s, &a) }) {
		return proposal
	}
	with := *proposal
	with.Approvals = slices.Clone(proposal.Approvals)
	for i := range with.Approvals {
		a := &with.Approvals[i]
		a.Forged = a.Forged || p.keyRevoked(s, a)
	}
	return &with
}

// checkRejected asks whether somebody has rejected the call's review since the
// grant was minted: that takes back what others have agreed to. Who minted it
// knows whether it rests on approvals; elsewhere it may where policies ask for
// any.
func (c *redeeming) checkRejected(ctx context.Context) failure {
	if c.minted != nil {
		if len(c.minted.proposal.Approvals) == 0 {
			return passed
		}
	} else if action, _ := c.contract.Action(c.arguments); !c.s.world.Policies.AnyReview(action) {
		return passed
	}
	reviews, err := c.p.reviews.ByProposal(ctx, c.claims.ProposalDigest)
	if err != nil {
		return failure{writ.CodeSnapshotStale, "Whether somebody has rejected the call's review could not be asked: try again with the same redemption_id.", ""}
	}
	// What was rejected before, in another world, the mint has known. Where there
	// are replicas, a rejection may be of another clock.
	since := c.claims.IssuedAt.Add(-ahead)
	if c.minted != nil && !c.p.shared {
		since = c.minted.decided
	}
	for i := range reviews {
		if by := reviews[i].Rejection; by != nil && !by.Given.Before(since) {
			return withdrawn("Somebody has rejected the call's review.")
		}
	}
	return passed
}

// answer decides a proposal; where people must agree, once more with what they
// have agreed to here. It returns the proposal as it was decided.
func (p *PDP) answer(ctx context.Context, s *setting, as *writ.Caller, proposal *writ.Proposal, o decide.Observer) (*writ.Proposal, writ.Decision) {
	d := s.decide(as, proposal, o)
	if d.Outcome == writ.ReviewRequired {
		if with := p.agreed(ctx, s, proposal, &d); with != nil {
			proposal, d = with, s.decide(as, with, o)
		}
	}
	return proposal, d
}

// agreed returns the proposal with the approvals that are kept here for it,
// those of the review that is asked for first; nil: there are none but those
// that it has.
func (p *PDP) agreed(ctx context.Context, s *setting, proposal *writ.Proposal, d *writ.Decision) *writ.Proposal {
	reviews, err := p.reviews.ByProposal(ctx, d.ProposalDigest)
	if err != nil {
		return nil // nobody is known to have agreed
	}
	current := approval.ID(d.ReviewDigest)
	slices.SortStableFunc(reviews, func(a, b approval.Review) int {
		switch current {
		case a.ID:
			return -1
		case b.ID:
			return 1
		}
		return 0
	})
	var with *writ.Proposal
	for i := range reviews {
		if reviews[i].Rejection != nil {
			continue
		}
		for k := range reviews[i].Agreements {
			a := p.opened(ctx, s, reviews[i].Agreements[k].Approval)
			if a.Forged || slices.ContainsFunc(proposal.Approvals, func(have writ.Approval) bool { return have.ID == a.ID }) {
				continue
			}
			if with == nil {
				copied := *proposal
				copied.Approvals = slices.Clip(proposal.Approvals)
				with = &copied
			}
			if len(with.Approvals) >= decide.MaxApprovals {
				return with
			}
			with.Approvals = append(with.Approvals, a)
		}
	}
	return with
}

// review opens the review that a decision asks for, and returns where people
// are asked. Where it can't be kept, the decision says so: nothing is allowed
// either way.
func (p *PDP) review(ctx context.Context, s *setting, q asked, d writ.Decision) (writ.Decision, Ticket) {
	if d.Review == nil || q.as == nil {
		return d, Ticket{}
	}
	proposal := bare(q.proposal)
	proposal.Approvals = nil
	r, err := p.reviews.Open(ctx, approval.Review{Shown: *d.Review, Proposal: *proposal, Caller: *q.as, Opened: s.now})
	switch {
	case err == nil:
		return d, Ticket{ID: r.ID, ExpiresAt: r.Expires}
	case errors.Is(err, approval.ErrRejected):
		d.Explanation += " Somebody has rejected this review: it is not opened again."
		return d, Ticket{ID: r.ID, ExpiresAt: r.Expires}
	default:
		d.Explanation += " The review could not be kept, so nobody is asked: propose again later."
		return d, Ticket{}
	}
}

// bare returns a proposal without what is secret, and without what was judged
// of it.
func bare(p *writ.Proposal) *writ.Proposal {
	out := *p
	out.AccessToken, out.DPoPProof, out.SignedApprovals = nil, nil, nil
	return &out
}
