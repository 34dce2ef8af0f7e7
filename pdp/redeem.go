package pdp

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// Redemption is a grant, and the call as the server that is about to act sees
// it.
type Redemption struct {
	Grant           string // compact JWS, as it came; empty: there is none
	Server, Tool    string
	ArgumentsJSON   []byte // empty: {}
	ExtraParamsJSON []byte // empty: none
	Principal       writ.Principal
	Attempt         string // redemption_id: 16 random bytes in base64url without padding
	AtLeastAsFresh  string // as in Ask
}

// redeeming is a redemption under way. Each step fills in what it learns.
type redeeming struct {
	p      *PDP
	s      setting
	caller *writ.Caller
	r      *Redemption

	arguments map[string]any
	extra     map[string]any
	claims    grant.Claims
	minted    *open // nil: it is not remembered here
	contract  *contract.Contract
	call      canon.Digest
	opened    bool // claims are the grant's
}

// Redeem spends a grant. Its steps are in the order in which their codes
// answer: it can be read; its signature; for this server; its time; this call;
// the contract and the policies, or else decided again; nothing withdrawn; not
// spent, and no effect yet under its idempotency key; recorded. A denial is an
// answer, an error as in Decide.
//
// At most one attempt ever succeeds for a grant, and for a proposal. The same
// attempt may come again for as long as the grant lives and stands.
func (p *PDP) Redeem(ctx context.Context, caller *writ.Caller, r *Redemption) (Redeemed, error) {
	if err := ctx.Err(); err != nil {
		return Redeemed{}, fmt.Errorf("pdp: nothing was redeemed: %w", err)
	}
	if caller == nil || r == nil {
		return Redeemed{}, errors.New("pdp: nothing was redeemed: there is no caller or no request")
	}
	demand := r.AtLeastAsFresh
	for judged := 1; ; judged++ {
		s, err := p.setting(ctx, demand)
		if err != nil {
			return Redeemed{}, err
		}
		c := &redeeming{p: p, s: s, caller: caller, r: r}
		out, overtaken := c.run(ctx)
		switch {
		case !overtaken:
			return out, nil
		case judged == maxOvertaken:
			return c.refuse(ctx, failure{writ.CodeSnapshotStale, "Something was revoked that has not arrived here yet: try again with the same redemption_id.", ""}), nil
		}
		p.newer(ctx, s.world)
	}
}

// maxOvertaken is how often a redemption is judged again because something was
// revoked meanwhile, and waiting how long each time for it to arrive here.
const (
	maxOvertaken = 4
	waiting      = 250 * time.Millisecond
)

// newer waits, but not for long, for another world than this one.
func (p *PDP) newer(ctx context.Context, than *snapshot.Snapshot) {
	changed := p.snapshots.Changed()
	if p.snapshots.Load() != than {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, waiting)
	defer cancel()
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

// run judges, claims, records and answers. overtaken: something was revoked
// that the world it was judged in doesn't have yet, and there is no answer.
func (c *redeeming) run(ctx context.Context) (_ Redeemed, overtaken bool) {
	for _, check := range [...]func(context.Context) failure{
		c.checkFreshness, c.checkRequest, c.checkGrant, c.checkAudience, c.checkTime, c.checkCall, c.checkStands, c.checkRejected,
	} {
		if f := check(ctx); f.code != "" {
			return c.refuse(ctx, f), false
		}
	}
	claim := c.claim()
	standing, err := c.p.ledger.Claim(ctx, claim)
	if err != nil {
		standing = grant.Unknown // an error says that nothing is known
	}
	switch standing {
	case grant.Claimed:
	case grant.Repeated:
		first, err := c.p.ledger.Attempt(ctx, claim.Proposal)
		if err != nil {
			return c.refuse(ctx, unasked), false
		}
		claim.ID = first.ID
	case grant.AlreadyClaimed:
		return c.refuse(ctx, failure{writ.CodeGrantAlreadyUsed, "The grant, or another one for the same proposal, has been redeemed, or what it retries has had its effect.", "grant"}), false
	case grant.Overtaken:
		return Redeemed{}, true
	default:
		if errors.Is(err, grant.ErrFull) {
			return c.refuse(ctx, failure{writ.CodeAuditUnavailable, "The ledger of redemptions is full, or this caller has its share of it.", ""}), false
		}
		if errors.Is(err, grant.ErrForgotten) {
			return c.refuse(ctx, failure{writ.CodeGrantExpired, "The grant expired long ago.", "grant"}), false
		}
		return c.refuse(ctx, unasked), false
	}
	// Somebody may have rejected the review while the ledger was asked.
	if f := c.checkRejected(ctx); f.code != "" {
		return c.refuse(ctx, f), false
	}
	return c.release(ctx, claim, standing == grant.Repeated), false
}

// unasked is what is answered where the ledger has not.
var unasked = failure{writ.CodeAuditUnavailable, "The ledger of redemptions could not be asked: try again with the same redemption_id, while the grant lives.", ""}

// failure is why a redemption, or an effect, is refused; an empty code means
// that a step passed.
type failure struct {
	code  writ.Code
	why   string // one sentence, without values
	field string // of the request
}

var passed failure

// checkFreshness is FRESHNESS: a redemption has consequences.
func (c *redeeming) checkFreshness(context.Context) failure {
	switch s := &c.s; {
	case s.malformed:
		return failure{writ.CodeMalformedProposal, "It is not a revision: take it from an answer as it is.", FieldAtLeastAsFresh}
	case s.missing:
		return failure{writ.CodeRevisionUnavailable, "The demanded revision has not arrived here: ask again, or demand one of this server's source.", ""}
	case s.world == nil:
		return failure{writ.CodeSnapshotStale, "No bundle is loaded.", ""}
	case s.stale:
		return failure{writ.CodeSnapshotStale, "The source of bundles and revocations has been silent for longer than this server acts on what it last said.", ""}
	}
	return passed
}

// checkRequest reads the server's own view of the call.
func (c *redeeming) checkRequest(context.Context) failure {
	r := c.r
	if r.Server == "" || r.Tool == "" || r.Principal.Subject == "" {
		return failure{writ.CodeMalformedProposal, "The server, the tool or the principal is missing.", "server"}
	}
	if !isAttempt(r.Attempt) {
		return failure{writ.CodeMalformedProposal, "redemption_id is not 16 random bytes in base64url without padding.", "redemption_id"}
	}
	var err error
	if c.arguments, err = object(r.ArgumentsJSON); err != nil {
		return failure{writ.CodeMalformedProposal, "The arguments cannot be read in exactly one way.", "arguments_json"}
	}
	if c.extra, err = object(r.ExtraParamsJSON); err != nil {
		return failure{writ.CodeMalformedProposal, "The extra parameters cannot be read in exactly one way.", "extra_params_json"}
	}
	return passed
}

// isAttempt reports whether id is 16 bytes in base64url, in its one form. The
// length is that of the text, too, since the decoder passes over line ends.
func isAttempt(id string) bool {
	const size, characters = 16, 22
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id)
	return err == nil && len(raw) == size && len(id) == characters
}

func object(text []byte) (map[string]any, error) {
	if len(text) == 0 {
		return nil, nil
	}
	return canon.ParseObject(text)
}

// checkGrant opens the grant. What was minted here is known by its text.
func (c *redeeming) checkGrant(ctx context.Context) failure {
	if c.r.Grant == "" {
		return failure{writ.CodeGrantRequired, "There is no grant: the host gets one with the decision on the call.", "grant"}
	}
	if c.minted = c.p.minted.find(c.r.Grant); c.minted != nil {
		c.claims, c.opened = c.minted.claims, true
		return passed
	}
	if c.p.learn != nil {
		_, _, err := c.p.keys.Open(keyring.TypeGrant, c.r.Grant, grant.MaxSize, c.s.now)
		if keyring.IsKind(err, keyring.UnknownKey) && c.p.learn(ctx) != nil {
			return failure{writ.CodeSnapshotStale, "The grant's key is not known here, and which keys there are could not be asked: try again with the same redemption_id.", ""}
		}
	}
	claims, err := grant.Open(c.p.keys, c.r.Grant, c.s.now, c.p.issuer, c.p.ledger.Instance())
	if fault, ok := errors.AsType[grant.Fault](err); ok {
		return failure{fault.Code, "The grant is refused: " + fault.Why + ".", "grant"}
	}
	if err != nil {
		return failure{writ.CodeGrantInvalid, "The grant cannot be read.", "grant"}
	}
	c.claims, c.opened = claims, true
	return passed
}

// checkAudience asks whether the grant is for the server, and whether the
// caller is who redeems for it.
func (c *redeeming) checkAudience(context.Context) failure {
	if c.claims.Audience != c.r.Server {
		return failure{writ.CodeGrantAudience, "The grant is for another server.", "grant"}
	}
	if !c.s.world.MayFor(c.caller.Name, methodRedeem, c.r.Server) || c.s.withdrawn(c.caller) {
		return failure{writ.CodeGrantAudience, "This caller does not redeem for the server.", "server"}
	}
	return passed
}

func (c *redeeming) checkTime(context.Context) failure {
	if !c.s.now.Before(c.claims.ExpiresAt) || c.minted != nil && c.minted.outlived(c.s.read) {
		return failure{writ.CodeGrantExpired, "The grant has expired.", "grant"}
	}
	return passed
}

// checkCall holds the server's own view of the call against the grant's.
func (c *redeeming) checkCall(context.Context) failure {
	c.call = writ.CallDigest(c.claims.ContractDigest, c.r.Principal, c.r.Tool, c.arguments, c.extra)
	if c.call.IsZero() || c.call != c.claims.CallDigest {
		return failure{writ.CodeGrantMismatch, "The grant is for another call: the tool, the arguments, the extra parameters or the principal differ.", "arguments_json"}
	}
	return passed
}

// checkStands asks whether what the grant stands on still does.
func (c *redeeming) checkStands(ctx context.Context) failure {
	s := &c.s
	if _, yes := s.world.Revocations.Revoked(revocation.Grant, "", c.claims.ID, c.claims.IssuedAt, s.now); yes {
		return withdrawn("The grant is revoked.")
	}
	if _, yes := s.world.Revocations.Revoked(revocation.Key, c.p.issuer, c.claims.KeyID, c.claims.IssuedAt, s.now); yes {
		return withdrawn("The key that the grant is signed with is revoked.")
	}
	c.contract = s.world.Contract(c.r.Server, c.r.Tool)
	if c.contract == nil || !c.contract.Valid.Holds(s.now) || !c.contract.Server.Valid.Holds(s.now) {
		return withdrawn("The tool, or its server, is no longer a reviewed one.")
	}
	if c.contract.Digest != c.claims.ContractDigest {
		return withdrawn("The tool's contract has changed: propose the call again.")
	}
	if c.minted == nil {
		return c.checkForeign()
	}
	m := c.minted
	if m.revision == s.world.Revision && !s.world.Entities.Changes(m.decided, s.now) && !s.world.Revocations.Begins(m.decided, s.now) {
		return passed
	}
	// The world is another one than the grant was minted in.
	as := s.world.Callers[m.caller]
	if as != nil && !s.world.May(as, methodDecide) {
		as = nil
	}
	d := s.decide(as, c.p.rejudged(s, m.proposal), nil)
	if !m.trust.holds(s.world, as, m.proposal.Token) {
		d = deny(d, writ.CodeTokenInvalid, "")
	}
	if d.Outcome != writ.Allow {
		return withdrawn("Decided again, the call is not allowed any more: " + string(d.Code) + ".")
	}
	if d.CallDigest != c.claims.CallDigest || d.ProposalDigest != c.claims.ProposalDigest {
		return withdrawn("Decided again, the call is another one.")
	}
	return passed
}

func withdrawn(why string) failure { return failure{writ.CodeGrantRevoked, why, "grant"} }

// checkForeign judges a grant that can't be decided again here, because another
// replica minted it, or this one had no room to remember: it stands only if
// nothing has changed since that could matter.
func (c *redeeming) checkForeign() failure {
	s := &c.s
	then, err := snapshot.ParseRevision(c.claims.Revision)
	if err != nil {
		return failure{writ.CodeGrantInvalid, "It names no revision.", "grant"}
	}
	now, err := snapshot.ParseRevision(s.world.Revision)
	switch {
	case err != nil || then.Bundle != now.Bundle || then.Source != now.Source:
		return withdrawn("The bundle has changed since, and the call cannot be decided again here: propose it again.")
	case then.Sequence > now.Sequence:
		return failure{writ.CodeSnapshotStale, "It was minted by what has not arrived here yet: try again with the same redemption_id.", ""}
	case s.world.Entities.Changes(c.claims.IssuedAt, s.now) || s.world.Revocations.Begins(c.claims.IssuedAt, s.now):
		return withdrawn("Something has begun or ended since, and the call cannot be decided again here: propose it again.")
	case len(c.claims.Basis) == 0 && then.Sequence != now.Sequence:
		return withdrawn("Something has been revoked since, and the call cannot be decided again here: propose it again.")
	}
	for e := range s.world.Revocations.Entries(then.Sequence) {
		if !e.Lift && slices.Contains(c.claims.Basis, grant.Basis(string(e.Kind), e.Issuer, e.ID)) {
			return withdrawn("Something that the grant rests on has been revoked since: the " + string(e.Kind) + ".")
		}
	}
	return passed
}

// claim is what the ledger is asked.
func (c *redeeming) claim() grant.Claim {
	plan := effect.MakePlan(c.contract, c.arguments, c.s.now)
	plan.ProposalDigest, plan.IdempotencyKey = c.claims.ProposalDigest, c.claims.IdempotencyKey
	return grant.Claim{
		ID: rand.Text(), Grant: c.claims.ID, Proposal: c.p.name(c.claims.ProposalDigest), Call: c.p.name(c.call),
		Attempt: attempt(c.caller.Name, c.r.Attempt, c.call), Caller: c.caller.Name,
		Revocations: c.s.world.Revocations.Sequence(), Now: c.s.now, Expires: c.spentUntil(), Plan: plan,
	}
}

// spentUntil is until when the redemption has to be remembered at least: people
// may have agreed to the proposal, and their word would make another grant.
func (c *redeeming) spentUntil() time.Time {
	if until := c.s.now.Add(c.p.approvals); until.After(c.claims.ExpiresAt) {
		return until
	}
	return c.claims.ExpiresAt
}

// attempt names who redeems for what.
func attempt(caller, id string, call canon.Digest) canon.Digest {
	b := call.AppendText(append(make([]byte, 0, 256), `{"call_digest":"`...))
	b = canon.AppendString(append(b, `","caller":`...), caller)
	b = canon.AppendString(append(b, `,"redemption_id":`...), id)
	return canon.Sum(append(b, `,"type":"writ.redemption.v1"}`...))
}
