package pdp

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/revocation"
)

// Lifetimes of grants.
const (
	DefaultGrantLifetime = 30 * time.Second
	MaxGrantLifetime     = 5 * time.Minute
)

// mint makes the grant of an ALLOW that needs one, whose proposer asks for one,
// or that retries a write. Where none can be made, the call is not allowed after
// all.
//
// A grant lives no longer than what it stands on: the token, the intent and the
// approvals.
func (p *PDP) mint(ctx context.Context, s *setting, q asked, d writ.Decision) (writ.Decision, *open) {
	held := s.world.Contract(d.Server, d.Tool)
	if held == nil || q.as == nil || q.proposal == nil {
		return deny(d, writ.CodeGrantInvalid, "There is no contract to mint a grant under."), nil
	}
	// Nothing but a grant carries the key under which a retry is done once.
	retry := !q.proposal.Retries.IsZero() && !harmless(d.Effect)
	if !held.GrantRequired(contract.MethodRule{Effect: d.Effect}) && !q.grant && !retry {
		return d, nil
	}
	signing := p.signing(s)
	if signing == nil {
		return deny(d, writ.CodeGrantInvalid, unsigned), nil
	}
	expires := p.expiry(s, q.proposal).Truncate(time.Second)
	if !expires.After(s.now) {
		return deny(d, writ.CodeGrantExpired, "What the grant would stand on ends within this second."), nil
	}
	key, f := p.idempotencyKey(ctx, q.proposal, d.CallDigest, d.ProposalDigest)
	if f.code != "" {
		return deny(d, f.code, f.why), nil
	}
	o := &open{
		principal: d.Principal, actors: d.Actors,
		caller: q.as.Name, proposal: bare(q.proposal), trust: trusted(s, q), revision: s.world.Revision, decided: s.now, read: s.read, postconditions: held.Postconditions,
		claims: grant.Claims{
			Issuer: p.issuer, Instance: p.ledger.Instance(), Audience: d.Server, ID: rand.Text(),
			Principal: q.proposal.Principal, Actors: chain(q.proposal),
			IssuedAt: s.now.Truncate(time.Second), ExpiresAt: expires,
			Revision: d.Revision, IdempotencyKey: key, Locations: locations(held.Server), Actions: []string{d.Action},
			CallDigest: d.CallDigest, ContractDigest: d.ContractDigest, ProposalDigest: d.ProposalDigest, PolicyDigest: d.PolicyDigest,
		},
	}
	defer func() {
		if o.token == "" {
			p.minted.release(o)
		}
	}()
	if !p.minted.reserve(o) || p.shared {
		o.claims.Basis = p.basis(s, q)
	}
	if t := q.proposal.Token; t != nil {
		o.claims.KeyThumbprint, o.claims.CertificateThumbprint = t.KeyThumbprint, t.CertificateThumbprint
	}
	o.claims.KeyID = signing.ID()
	var err error
	if o.token, err = grant.Mint(signing, &o.claims); err != nil {
		return deny(d, writ.CodeGrantInvalid, "The grant would be too long: shorten the names of those who act, or let fewer act."), nil
	}
	return d, o
}

// unsigned is why nothing is signed.
const unsigned = "The key of this decision point, or of this replica of it, is revoked or no longer certified, so that it signs nothing."

// signing is the key to sign with; nil: there is none that may be used. Where
// keys are made here, a revoked one is replaced at once.
func (p *PDP) signing(s *setting) *keyring.Key {
	if p.maySign != nil && !p.maySign(s.now) {
		return nil
	}
	key := p.keys.Current(s.now)
	for range 2 {
		if key == nil {
			return nil
		}
		if _, revoked := s.world.Revocations.Revoked(revocation.Key, p.issuer, key.ID(), s.now, s.now); !revoked {
			return key
		}
		key = p.keys.Renew(key.ID(), s.now)
	}
	return nil
}

// deny makes another answer of a decision, in place of what was decided.
func deny(d writ.Decision, code writ.Code, why string) writ.Decision {
	d.Outcome, d.Code, d.Control, d.Explanation = writ.Deny, code, code.Control(), why
	return d
}

// expiry is when a grant for the proposal ends, at the latest.
func (p *PDP) expiry(s *setting, proposal *writ.Proposal) time.Time {
	ends := s.now.Add(p.lifetime)
	sooner := func(t time.Time) {
		if t.Before(ends) {
			ends = t
		}
	}
	if t := proposal.Token; t != nil && !t.ExpiresAt.IsZero() {
		leeway := time.Duration(0)
		if issuer := s.world.Issuers[t.Issuer]; issuer != nil {
			leeway = issuer.Leeway
		}
		sooner(t.ExpiresAt.Add(leeway))
	}
	if proposal.Intent != nil && !proposal.Intent.ExpiresAt.IsZero() {
		sooner(proposal.Intent.ExpiresAt)
	}
	for i := range proposal.Approvals {
		if t := proposal.Approvals[i].ExpiresAt; t.After(s.now) {
			sooner(t)
		}
	}
	return ends
}

// idempotencyKey is that of the proposal, or, of a retry, that of the first
// attempt: which was of the same call, and of which nobody knows yet that it, or
// another retry of it, had its effect. The ledger asks that once more of each
// claim, at whichever replica.
func (p *PDP) idempotencyKey(ctx context.Context, proposal *writ.Proposal, call, digest canon.Digest) (string, failure) {
	if proposal.Retries.IsZero() {
		return grant.IdempotencyKey(digest), passed
	}
	first, err := p.ledger.Attempt(ctx, p.name(proposal.Retries))
	switch {
	case errors.Is(err, grant.ErrNotFound):
		return "", failure{writ.CodeGrantMismatch, "No redemption of the proposal that this one retries is known: see what came of it before you propose anew.", ""}
	case err != nil:
		return "", failure{writ.CodeAuditUnavailable, "The ledger could not be asked about the proposal that this one retries.", ""}
	case first.Call != p.name(call):
		return "", failure{writ.CodeGrantMismatch, "It retries another call than it proposes.", ""}
	case first.Outcome == writ.CodeEffectVerified || first.DoneElsewhere:
		return "", failure{writ.CodeGrantAlreadyUsed, "What it retries has had its effect, by itself or by another retry.", ""}
	}
	if first.Plan.IdempotencyKey == "" { // known from the log alone: it was no retry, or its call would not be known
		return grant.IdempotencyKey(proposal.Retries), passed
	}
	return first.Plan.IdempotencyKey, passed
}

// chain is who acts, who acts now first (RFC 8693, section 4.1): the last that
// was appended, then those before, then the token's.
func chain(p *writ.Proposal) []writ.Actor {
	out := slices.Clone(p.Actors)
	slices.Reverse(out)
	if p.Token != nil {
		out = append(out, p.Token.Actors...)
	}
	return out
}

func locations(s *contract.Server) []string {
	if s.Endpoint != "" {
		return []string{s.Endpoint}
	}
	return []string{s.PackageHash}
}

// name is how the ledger and the log name a digest over values that could be
// guessed.
func (p *PDP) name(d canon.Digest) string { return p.named(d.String()) }

// basis is what a grant says of what it rests on, for those who can't decide it
// again: a replica that has not minted it, or had no room to remember.
func (p *PDP) basis(s *setting, q asked) []string {
	names := decide.RestsOn(s.world, q.as, q.proposal, s.now)
	for i := range q.proposal.Approvals {
		if kid := q.proposal.Approvals[i].KeyID; kid != "" {
			names = append(names, decide.Name{Kind: revocation.Key, Issuer: p.issuer, ID: kid})
		}
	}
	basis := make([]string, len(names))
	for i, n := range names {
		basis[i] = grant.Basis(string(n.Kind), n.Issuer, n.ID)
	}
	slices.Sort(basis)
	return slices.Compact(basis)
}
