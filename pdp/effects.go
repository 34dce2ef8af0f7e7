package pdp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/revocation"
)

// Receipt is what an observer says it saw after a redemption.
type Receipt struct {
	Redemption     string // ID of the Redeemed
	ProposalDigest canon.Digest
	Observer       string // server id
	Status         effect.Status
	EffectID       string
	ObservedJSON   []byte
	ObservedAt     time.Time // by the observer's clock: for people
}

// Verified is one recorded answer to a Receipt. Its zero value verifies
// nothing.
type Verified struct {
	id       string
	decision writ.Decision
	results  []effect.Checked
	retry    Retry
}

// ID names the answer in the log.
func (v Verified) ID() string { return v.id }

// Decision is ALLOW with EFFECT_VERIFIED, or a denial.
func (v Verified) Decision() writ.Decision { return v.decision }

// Results are what became of each postcondition, in the contract's order; nil
// where the receipt was not compared.
func (v Verified) Results() []effect.Checked { return v.results }

// Retry is what a proposal must carry that tries again, where the outcome is
// unknown; otherwise zero.
func (v Verified) Retry() Retry { return v.retry }

// Retry says how to try again without doing twice.
type Retry struct {
	Retries        canon.Digest // of the new proposal
	IdempotencyKey string       // that its grant will have
}

// VerifyEffect compares what an observer saw with what was authorised. Only
// the observer that the contract names counts, while it is registered and not
// revoked, for a redemption that exists, and one effect counts for one
// redemption. What is unknown may yet be told; what is verified, or failed,
// stays so. A denial is an answer, an error as in Decide.
func (p *PDP) VerifyEffect(ctx context.Context, caller *writ.Caller, r *Receipt) (Verified, error) {
	if err := ctx.Err(); err != nil {
		return Verified{}, fmt.Errorf("pdp: nothing was verified: %w", err)
	}
	if caller == nil || r == nil {
		return Verified{}, errors.New("pdp: nothing was verified: there is no caller or no receipt")
	}
	s, err := p.setting(ctx, "")
	if err != nil {
		return Verified{}, err
	}
	v := &verifying{p: p, s: s, caller: caller, r: r}
	return v.run(ctx), nil
}

// verifying is a receipt that is being judged.
type verifying struct {
	p      *PDP
	s      setting
	caller *writ.Caller
	r      *Receipt

	claim  grant.Claim // of the redemption
	result effect.Result
}

func (v *verifying) run(ctx context.Context) Verified {
	if f := v.check(ctx); f.code != "" {
		return v.answer(ctx, f)
	}
	v.result = effect.Compare(v.claim.Plan, effect.Receipt{
		ProposalDigest: v.r.ProposalDigest, Observer: v.r.Observer, Status: v.r.Status, EffectID: v.r.EffectID, Observed: v.r.ObservedJSON, Received: v.s.now,
	})
	switch v.result.Code {
	case writ.CodeEffectVerified, writ.CodePostconditionFailed:
		if f := v.settle(ctx); f.code != "" {
			v.result.Checks = nil
			return v.answer(ctx, f)
		}
	case writ.CodeUnknownOutcome:
		if settled := v.claim.Outcome; settled != "" {
			return v.answer(ctx, failure{writ.CodeReceiptMismatch, "The outcome is known already: " + string(settled) + ".", "redemption"})
		}
	}
	return v.answer(ctx, failure{code: v.result.Code, why: v.result.Why})
}

// check asks who observes, and of which redemption.
func (v *verifying) check(ctx context.Context) failure {
	s := &v.s
	switch {
	case s.world == nil:
		return failure{writ.CodeSnapshotStale, "No bundle is loaded.", ""}
	case s.stale:
		return failure{writ.CodeSnapshotStale, "The source of bundles and revocations has been silent for longer than this server acts on what it last said: send the receipt again.", ""}
	case !s.world.MayFor(v.caller.Name, methodVerifyEffect, v.r.Observer) || s.withdrawn(v.caller):
		return failure{writ.CodeReceiptMismatch, "This caller does not speak for the observer.", "observer"}
	case !s.observes(v.r.Observer):
		return failure{writ.CodeReceiptMismatch, "The observer is revoked, or no longer a registered server.", "observer"}
	}
	var err error
	if v.claim, err = v.p.ledger.Redemption(ctx, v.r.Redemption); errors.Is(err, grant.ErrNotFound) {
		return failure{writ.CodeReceiptMismatch, "There is no such redemption.", "redemption"}
	}
	if err != nil {
		return failure{writ.CodeAuditUnavailable, "The ledger of redemptions could not be asked: send the receipt again.", ""}
	}
	if v.claim.Attempt.IsZero() && v.claim.Outcome != "" {
		return failure{writ.CodeReceiptMismatch, "The outcome is known already: " + string(v.claim.Outcome) + ".", "redemption"}
	}
	if v.claim.Attempt.IsZero() {
		return failure{writ.CodeUnknownOutcome, "The server was restarted since, and what was to be verified is forgotten: see for yourself what came of it.", "redemption"}
	}
	if v.claim.Plan.Observer == "" {
		return failure{writ.CodeReceiptMismatch, "The contract has no postconditions: there is nothing to verify.", "redemption"}
	}
	return passed
}

// observes reports whether a server's word on what it sees counts: what it
// settles stays settled.
func (s *setting) observes(id string) bool {
	server := s.world.Servers[id]
	_, revoked := s.world.Revocations.Revoked(revocation.Server, "", id, time.Time{}, s.now)
	return server != nil && server.Valid.Holds(s.now) && !revoked
}

// settle claims the effect for the redemption.
func (v *verifying) settle(ctx context.Context) failure {
	standing, err := v.p.ledger.Settle(ctx, grant.Effect{
		Redemption: v.claim.ID, Observer: v.r.Observer, ID: v.r.EffectID, Receipt: v.digest(), Outcome: v.result.Code, Now: v.s.now,
	})
	if err != nil {
		standing = grant.Unknown // an error says that nothing is known
	}
	switch standing {
	case grant.Claimed, grant.Repeated:
		return passed
	case grant.AlreadyClaimed:
		return failure{writ.CodeReceiptMismatch, "The effect counts for another redemption, or the outcome of this one is known already.", "effect_id"}
	default:
		return failure{writ.CodeAuditUnavailable, "The ledger of redemptions could not be asked: send the receipt again.", ""}
	}
}

// digest names the receipt, so that the same one may come again. What was seen
// has been read, so it is JSON.
func (v *verifying) digest() canon.Digest {
	observed, err := canon.ParseObject(v.r.ObservedJSON)
	if err != nil {
		return canon.Digest{}
	}
	return canon.Sum(canon.Append(nil, map[string]any{
		"type": "writ.receipt.v1", "redemption": v.r.Redemption, "observer": v.r.Observer, "effect_id": v.r.EffectID, "observed": observed,
	}))
}

// answer records what came of the receipt, then answers. An effect that could
// not be recorded is not verified: the same receipt may come again.
func (v *verifying) answer(ctx context.Context, f failure) Verified {
	plan := &v.claim.Plan
	d := writ.Decision{Code: f.code, Control: f.code.Control(), Explanation: f.why, Field: f.field, Server: plan.Server, Tool: plan.Tool, Effect: writ.Write}
	if v.s.world != nil {
		d.Revision = v.s.world.Revision
		if held := v.s.world.Contract(plan.Server, plan.Tool); held != nil {
			d.Effect = held.Effect
		}
	}
	if f.code == writ.CodeEffectVerified {
		d.Outcome = writ.Allow
	}
	if v.claim.ID != "" && plan.ProposalDigest == v.r.ProposalDigest {
		d.ProposalDigest = plan.ProposalDigest
	}
	out := Verified{id: rand.Text(), decision: d, results: v.result.Checks}
	if f.code == writ.CodeUnknownOutcome {
		out.retry = Retry{plan.ProposalDigest, plan.IdempotencyKey}
	}
	r := audit.Record{
		Kind: audit.KindEffect, Time: v.s.now, ID: out.id, TraceID: traceID(ctx), Caller: v.caller.Name,
		Server: d.Server, Tool: d.Tool, Effect: d.Effect, Outcome: d.Outcome, Code: d.Code, Control: d.Control, Explanation: d.Explanation, Revision: d.Revision,
		ProposalDigest: d.ProposalDigest.String(), Grant: v.claim.Grant, Redemption: clip(v.r.Redemption, maxName),
		EffectID: clip(v.r.EffectID, maxName), Observer: clip(v.r.Observer, maxName),
	}
	settled := f.code == writ.CodeEffectVerified || f.code == writ.CodePostconditionFailed
	if err := v.p.log.Append(ctx, r, settled); err != nil {
		out = Verified{id: out.id, decision: unrecorded(&d)}
	}
	describe(ctx, out.id, &out.decision)
	return out
}
