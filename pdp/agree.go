package pdp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/revocation"
)

// DefaultApprovalLifetime is how long an approval counts.
const DefaultApprovalLifetime = time.Hour

// maxReason is how long the reason of a rejection may be, in bytes.
const maxReason = 1024

// Statement is what a person says to a review.
type Statement struct {
	Review string // its id
	// Shown is the digest of the review that the person was shown.
	Shown canon.Digest
	// Approver is who says so; Token and AccessToken as in a proposal.
	Approver    writ.Principal
	Token       *writ.Token
	AccessToken []byte
	Reason      string // of a rejection, for people
}

// Reviewed is one recorded answer to a Statement. Its zero value denies.
type Reviewed struct {
	id       string
	decision writ.Decision
	approval string
	review   approval.Review
}

// ID names the answer in the log.
func (r Reviewed) ID() string { return r.id }

// Decision is ALLOW with ALLOW where the statement stands; otherwise why not.
func (r Reviewed) Decision() writ.Decision { return r.decision }

// Approval is the signed approval; empty: there is none.
func (r Reviewed) Approval() string { return r.approval }

// Review is the review as it is now; zero: there is none.
func (r Reviewed) Review() approval.Review { return r.review }

// Approve signs one person's agreement to one review. The proposal is decided
// afresh first: whoever may not approve it now, or was shown another review
// than there would be now, is told so, and nothing is signed. The error is
// [approval.ErrNotFound], or as in Decide.
func (p *PDP) Approve(ctx context.Context, caller *writ.Caller, st *Statement) (Reviewed, error) {
	return p.state(ctx, caller, methodApprove, st, (*stating).approve)
}

// Reject closes a review, on behalf of a person who could approve it. The error
// is as that of Approve.
func (p *PDP) Reject(ctx context.Context, caller *writ.Caller, st *Statement) (Reviewed, error) {
	return p.state(ctx, caller, methodReject, st, (*stating).reject)
}

func (p *PDP) state(ctx context.Context, caller *writ.Caller, method string, st *Statement, say func(*stating, context.Context) (failure, error)) (Reviewed, error) {
	if err := ctx.Err(); err != nil {
		return Reviewed{}, fmt.Errorf("pdp: nothing was approved or rejected: %w", err)
	}
	if caller == nil || st == nil {
		return Reviewed{}, errors.New("pdp: nothing was approved or rejected: there is no caller or no statement")
	}
	s, err := p.setting(ctx, "")
	if err != nil {
		return Reviewed{}, err
	}
	c := &stating{p: p, s: s, caller: caller, method: method, st: st}
	if c.review, err = p.reviews.Get(ctx, st.Review); err != nil {
		return Reviewed{}, err
	}
	f, err := c.check(ctx)
	if err == nil && f.code == "" {
		f, err = say(c, ctx)
	}
	if err != nil {
		return Reviewed{}, err
	}
	return c.answer(ctx, f)
}

// stating is a statement that is being judged.
type stating struct {
	p      *PDP
	s      setting
	caller *writ.Caller
	is     *writ.Caller // the same, as the world says
	method string       // that was called
	st     *Statement
	review approval.Review

	approval writ.Approval // as it would be signed
	standing decide.Standing
	signed   string // compact JWS
	keep     func(context.Context) (approval.Review, error)
}

// check asks who says so, and whether that counts.
func (c *stating) check(ctx context.Context) (failure, error) {
	s := &c.s
	switch {
	case s.world == nil:
		return failure{writ.CodeSnapshotStale, "No bundle is loaded.", ""}, nil
	case s.stale:
		return failure{writ.CodeSnapshotStale, "The source of bundles and revocations has been silent for longer than this server acts on what it last said.", ""}, nil
	case len(c.st.Reason) > maxReason:
		return failure{writ.CodeMalformedProposal, "The reason is too long.", "reason"}, nil
	case s.withdrawn(c.caller):
		return failure{writ.CodeCallerRevoked, "The caller is revoked.", ""}, nil
	case c.review.Rejection != nil:
		return isRejected, nil
	}
	// What let the caller in may have been another world.
	if c.is = s.world.Callers[c.caller.Name]; !s.world.May(c.is, c.method) {
		return failure{writ.CodeApproverDenied, "The caller may not answer reviews any more.", ""}, nil
	}
	claims, f := c.person(ctx)
	if f.code != "" {
		return f, nil
	}
	c.approval = writ.Approval{
		ID: rand.Text(), Approver: c.st.Approver, Claims: claims,
		ProposalDigest: c.review.Shown.ProposalDigest, ReviewDigest: c.review.Shown.Digest,
		IssuedAt: s.now.Truncate(time.Second), ExpiresAt: s.now.Add(c.p.approvals).Truncate(time.Second),
	}
	as := s.world.Callers[c.review.Caller.Name]
	if as == nil || !s.world.May(as, methodDecide) {
		return failure{writ.CodeStaleApproval, "Who proposed may no longer propose.", ""}, nil
	}
	c.standing = decide.CheckApproval(s.world, as, c.p.refreshed(s, &c.review.Proposal), &c.approval, s.now)
	if !c.standing.Counts {
		return failure{c.standing.Code, c.standing.Why, ""}, nil
	}
	return passed, nil
}

// person establishes who approves, like TOKEN does for a proposal: by a token
// for this decision point where the bundle has their issuer's keys, and
// otherwise by the word of the caller.
func (c *stating) person(ctx context.Context) (map[string]string, failure) {
	s, who := &c.s, c.st.Approver
	issuer := s.world.Issuers[who.Issuer]
	if issuer == nil || who.Subject == "" {
		return nil, failure{writ.CodeTokenInvalid, "The approver's issuer is not one of the bundle's, or there is no subject.", "approver"}
	}
	if issuer.Tenant != "" && who.Tenant != issuer.Tenant {
		return nil, failure{writ.CodeSubjectMismatch, "The approver's issuer is another tenant's.", "approver.tenant"}
	}
	judged := c.p.tokens.Judge(ctx, s.world, c.is, &writ.Proposal{Principal: who, Token: c.st.Token, AccessToken: c.st.AccessToken}, s.now)
	t := judged.Token
	if s.disowned(who, t) {
		return nil, failure{writ.CodeApprovalRevoked, "The approver, their issuer, their token or its key is revoked.", "approver"}
	}
	switch {
	case t == nil && s.world.TokenVouched(c.is, who.Issuer):
		return nil, passed
	case t == nil:
		return nil, failure{writ.CodeTokenInvalid, "The approver's token is needed: the bundle has the keys of their issuer.", "access_token"}
	case t.Invalid != "" || !t.Verified:
		return nil, failure{writ.CodeTokenInvalid, "The approver's token could not be verified.", "access_token"}
	case t.Issuer != who.Issuer || t.Subject != who.Subject || t.Tenant != "" && t.Tenant != who.Tenant || issuer.TenantClaim != "" && t.Tenant == "":
		return nil, failure{writ.CodeSubjectMismatch, "The approver's token is somebody else's.", "access_token"}
	case len(t.Audience) != 1 || t.Audience[0] != c.p.issuer:
		return nil, failure{writ.CodeAudienceMismatch, "The approver's token is not for this decision point alone: its audience must be what GetKeys returns as issuer.", "access_token"}
	case t.ExpiresAt.IsZero() || !s.now.Before(t.ExpiresAt.Add(issuer.Leeway)) || s.now.Add(issuer.Leeway).Before(t.NotBefore):
		return nil, failure{writ.CodeTokenExpired, "The approver's token has expired, or is not valid yet.", "access_token"}
	case len(t.Actors) > 0:
		return nil, failure{writ.CodeTokenInvalid, "Somebody acts for the approver: a person approves in person.", "access_token"}
	}
	return t.Claims, passed
}

// disowned reports whether a person, or what shows who they are, is revoked: as
// decisions ask it of a principal (package decide), by when the token was
// issued. An approval itself is always of now.
func (s *setting) disowned(who writ.Principal, t *writ.Token) bool {
	var issued time.Time // unknown: before any "issued before"
	if t != nil && !t.IssuedAt.After(s.now.Add(ahead)) {
		issued = t.IssuedAt
	}
	revoked := func(k revocation.Kind, issuer, id string) bool {
		_, yes := s.world.Revocations.Revoked(k, issuer, id, issued, s.now)
		return yes
	}
	return revoked(revocation.Principal, who.Issuer, who.Subject) || revoked(revocation.Issuer, "", who.Issuer) ||
		t != nil && (t.ID != "" && revoked(revocation.Token, t.Issuer, t.ID) || t.KeyID != "" && revoked(revocation.Key, t.Issuer, t.KeyID))
}

// ahead is how far in the future a token may have been issued: clocks differ.
const ahead = time.Minute

// isRejected is why a rejected review takes no statement.
var isRejected = failure{writ.CodeApprovalRevoked, "Somebody has rejected this review.", ""}

// refreshed returns a proposal of a review as if its token had been issued just
// now: people take their time. What the token rests on, and the intent, are
// judged as they are.
func (p *PDP) refreshed(s *setting, proposal *writ.Proposal) *writ.Proposal {
	if proposal.Token == nil {
		return proposal
	}
	out := *proposal
	t := *proposal.Token
	t.NotBefore, t.ExpiresAt = time.Time{}, s.now.Add(time.Minute)
	out.Token = &t
	return &out
}

// approve signs.
func (c *stating) approve(context.Context) (failure, error) {
	if c.st.Shown.IsZero() || c.st.Shown != c.review.Shown.Digest {
		return failure{writ.CodeStaleApproval, "The review is not the one that was shown: show it again.", "review_digest"}, nil
	}
	a := &c.approval
	if c.review.Expires.Before(a.ExpiresAt) {
		a.ExpiresAt = c.review.Expires.Truncate(time.Second)
	}
	if !a.ExpiresAt.After(a.IssuedAt) {
		return failure{writ.CodeApprovalExpired, "The time of this review is over: propose the call again.", ""}, nil
	}
	signing := c.p.signing(&c.s)
	if signing == nil {
		return failure{writ.CodeGrantInvalid, unsigned, ""}, nil
	}
	var err error
	if c.signed, err = approval.Sign(signing, &approval.Statement{
		Issuer: c.p.issuer, Instance: c.p.ledger.Instance(), ID: a.ID, Review: c.review.ID, Approver: a.Approver, Claims: a.Claims,
		ProposalDigest: a.ProposalDigest, ReviewDigest: a.ReviewDigest, IssuedAt: a.IssuedAt, ExpiresAt: a.ExpiresAt,
	}); err != nil {
		return failure{writ.CodeMalformedProposal, "What names the approver is too long, or no text.", "approver"}, nil
	}
	c.keep = func(ctx context.Context) (approval.Review, error) {
		return c.p.reviews.Agree(ctx, c.review.ID, approval.Agreement{
			ID: a.ID, Approver: a.Approver, Entity: c.standing.Approver, Policies: c.standing.Policies, Caller: c.caller.Name,
			Given: a.IssuedAt, Expires: a.ExpiresAt, Approval: c.signed,
		})
	}
	return passed, nil
}

// reject closes.
func (c *stating) reject(context.Context) (failure, error) {
	c.keep = func(ctx context.Context) (approval.Review, error) {
		return c.p.reviews.Reject(ctx, c.review.ID, approval.Rejection{
			Approver: c.st.Approver, Caller: c.caller.Name, Given: c.s.now, Reason: c.st.Reason,
		})
	}
	return passed, nil
}

// answer records what came of it, keeps it, then answers: what is kept has been
// recorded.
func (c *stating) answer(ctx context.Context, f failure) (Reviewed, error) {
	shown := &c.review.Shown
	d := writ.Decision{
		Outcome: writ.Allow, Code: writ.CodeAllow, Explanation: "It is so.", Server: shown.Server, Tool: shown.Tool, Action: shown.Action, Effect: shown.Effect,
		ContractDigest: shown.ContractDigest, ProposalDigest: shown.ProposalDigest, ReviewDigest: shown.Digest,
		Principal: shown.PrincipalEntity, Actors: shown.Actors,
	}
	if c.s.world != nil {
		d.Revision = c.s.world.Revision
	}
	if f.code != "" {
		info, _ := f.code.Info()
		d.Outcome, d.Code, d.Control, d.Explanation, d.Field = info.Outcome, f.code, f.code.Control(), f.why, f.field
		if d.Outcome == writ.Allow {
			d.Outcome = writ.Deny // no failure allows
		}
	}
	out := Reviewed{id: rand.Text(), decision: d, review: c.review}
	who := c.st.Approver
	r := audit.Record{
		Kind: audit.KindApproval, Time: c.s.now, ID: out.id, TraceID: traceID(ctx), Caller: c.caller.Name,
		RequestID: shown.RequestID, Issuer: shown.Principal.Issuer, Subject: shown.Principal.Subject, Tenant: shown.Principal.Tenant,
		Principal: d.Principal, Actors: d.Actors, Server: d.Server, Tool: d.Tool, Action: d.Action, Effect: d.Effect,
		Outcome: d.Outcome, Code: d.Code, Control: d.Control, Explanation: d.Explanation, Revision: d.Revision,
		ContractDigest: d.ContractDigest.String(), ProposalDigest: d.ProposalDigest.String(), ReviewDigest: d.ReviewDigest.String(),
		Review:         c.review.ID,
		ApproverIssuer: clip(who.Issuer, maxClaim), ApproverSubject: clip(who.Subject, maxClaim), ApproverTenant: clip(who.Tenant, maxClaim),
	}
	if c.signed != "" {
		r.Approvals = []string{c.approval.ID}
	} else if c.keep != nil {
		r.Explanation = "Rejected."
	}
	if err := c.p.log.Append(ctx, r, c.keep != nil); err != nil {
		out.decision = unrecorded(&d)
		return out, nil
	}
	describe(ctx, out.id, &out.decision)
	if c.keep == nil {
		return out, nil
	}
	review, err := c.keep(ctx)
	switch {
	case err == nil:
		out.review, out.approval = review, c.signed
	case errors.Is(err, approval.ErrRejected):
		return c.late(ctx, review, r, deny(d, isRejected.code, isRejected.why)), nil
	case errors.Is(err, approval.ErrExpired):
		return c.late(ctx, review, r, deny(d, writ.CodeApprovalExpired, "The time of this review is over: propose the call again.")), nil
	default:
		return Reviewed{}, fmt.Errorf("pdp: the statement is recorded, and could not be kept: %w", err)
	}
	return out, nil
}

// late answers that a statement, recorded as r, came too late after all: the log
// has that, too.
func (c *stating) late(ctx context.Context, review approval.Review, r audit.Record, d writ.Decision) Reviewed {
	d.Outcome = writ.ReviewRequired
	out := Reviewed{id: rand.Text(), decision: d, review: review}
	r.ID, r.Outcome, r.Code, r.Control, r.Explanation, r.Approvals = out.id, d.Outcome, d.Code, d.Control, d.Explanation, nil
	if err := c.p.log.Append(ctx, r, false); err != nil {
		out.decision = unrecorded(&d)
	}
	describe(ctx, out.id, &out.decision)
	return out
}

// Reviews returns the reviews that people are asked in, and the instant at
// which they are judged.
func (p *PDP) Reviews(ctx context.Context, closed bool, limit int) (reviews []approval.Review, more bool, now time.Time, err error) {
	now = p.now()
	reviews, more, err = p.reviews.List(ctx, approval.Query{Now: now, Closed: closed, Limit: limit})
	return reviews, more, now, err
}

// Review returns one review. The error is [approval.ErrNotFound], or what kept
// the store from answering.
func (p *PDP) Review(ctx context.Context, id string) (review approval.Review, now time.Time, err error) {
	review, err = p.reviews.Get(ctx, id)
	return review, p.now(), err
}

// WatchReviews yields the reviews that are kept, then each that is opened or
// changes.
func (p *PDP) WatchReviews(ctx context.Context) iter.Seq2[approval.Review, error] {
	return p.reviews.Watch(ctx)
}

// Now is the instant at which a call that came now would be judged.
func (p *PDP) Now() time.Time { return p.now() }

// Keys returns the public keys under which grants and approvals are signed: a
// JWK set (RFC 7517), and the iss and the instance that they have.
func (p *PDP) Keys() (jwks []byte, issuer, instance string) {
	return p.keys.JWKS(p.now()), p.issuer, p.ledger.Instance()
}
