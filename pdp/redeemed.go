package pdp

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/grant"
)

// Redeemed is one recorded answer to a Redemption. Its zero value denies.
type Redeemed struct {
	id             string
	decision       writ.Decision
	actBefore      time.Time
	idempotencyKey string
	postconditions *contract.Postconditions
	repeated       bool
}

// ID names the answer in the log, and the redemption in a [Receipt]. That of a
// repeated answer is that of the first one.
func (r Redeemed) ID() string { return r.id }

// Decision is ALLOW with REDEEMED, or a denial.
func (r Redeemed) Decision() writ.Decision { return r.decision }

// MayAct reports whether the server may act, before ActBefore.
func (r Redeemed) MayAct() bool {
	return r.decision.Outcome == writ.Allow && r.decision.Code == writ.CodeRedeemed
}

// ActBefore is until when the server may begin to act.
func (r Redeemed) ActBefore() time.Time { return r.actBefore }

// IdempotencyKey is what the server gives to whatever it changes.
func (r Redeemed) IdempotencyKey() string { return r.idempotencyKey }

// Postconditions are what must be read back; nil: nothing.
func (r Redeemed) Postconditions() *contract.Postconditions { return r.postconditions }

// Repeated says that this repeats an answer to the same attempt.
func (r Redeemed) Repeated() bool { return r.repeated }

// release records the redemption, then answers. What is claimed and could not
// be recorded is not redeemed: the same attempt may come again, and then it is
// recorded again.
func (c *redeeming) release(ctx context.Context, claim grant.Claim, repeated bool) Redeemed {
	d := c.decision()
	d.Outcome, d.Code, d.Explanation = writ.Allow, writ.CodeRedeemed, "The grant is spent: act once, now."
	id := claim.ID
	r := c.record(ctx, &d)
	r.ID = id
	if repeated {
		r.ID, r.Redemption = rand.Text(), id
	}
	if err := c.p.log.Append(ctx, r, true); err != nil {
		d = unrecorded(&d)
		describe(ctx, id, &d)
		return Redeemed{id: id, decision: d}
	}
	if c.minted != nil {
		c.p.minted.spend(c.minted)
	}
	describe(ctx, id, &d)
	return Redeemed{
		id: id, decision: d, actBefore: c.claims.ExpiresAt, idempotencyKey: c.claims.IdempotencyKey,
		postconditions: c.contract.Postconditions, repeated: repeated,
	}
}

// refuse records a denial, then answers.
func (c *redeeming) refuse(ctx context.Context, f failure) Redeemed {
	d := deny(c.decision(), f.code, f.why)
	d.Field = f.field
	r := c.record(ctx, &d)
	r.ID = rand.Text()
	if err := c.p.log.Append(ctx, r, false); err != nil {
		d = unrecorded(&d)
	}
	describe(ctx, r.ID, &d)
	return Redeemed{id: r.ID, decision: d}
}

// decision is what is known of the call.
func (c *redeeming) decision() writ.Decision {
	d := writ.Decision{Server: c.r.Server, Tool: c.r.Tool}
	if c.s.world != nil {
		d.Revision = c.s.world.Revision
	}
	if c.opened {
		d.ContractDigest, d.ProposalDigest, d.PolicyDigest = c.claims.ContractDigest, c.claims.ProposalDigest, c.claims.PolicyDigest
	}
	d.CallDigest = c.call
	if c.contract != nil {
		d.Action, _ = c.contract.Action(c.arguments)
		_, rule := c.contract.Action(c.arguments)
		d.Effect = rule.Effect
	}
	return d
}

// record is what the log keeps of the answer, but for its ID.
func (c *redeeming) record(ctx context.Context, d *writ.Decision) audit.Record {
	p := c.r.Principal
	r := audit.Record{
		Kind: audit.KindRedemption, Time: c.s.now, TraceID: traceID(ctx), Caller: c.caller.Name,
		Issuer: clip(p.Issuer, maxClaim), Subject: clip(p.Subject, maxClaim), Tenant: clip(p.Tenant, maxClaim),
		Server: clip(d.Server, maxClaim), Tool: clip(d.Tool, maxClaim), Action: d.Action, Effect: d.Effect,
		Outcome: d.Outcome, Code: d.Code, Control: d.Control, Explanation: d.Explanation, Revision: d.Revision,
		ContractDigest: d.ContractDigest.String(), CallDigest: d.CallDigest.String(), ProposalDigest: d.ProposalDigest.String(),
		PolicyDigest: d.PolicyDigest.String(), Took: audit.Stages{Wait: c.s.wait, Decide: time.Since(c.s.read)},
	}
	if c.opened {
		r.Grant = c.claims.ID
	}
	if c.minted != nil {
		r.Principal, r.Actors, r.RequestID = c.minted.principal, c.minted.actors, clip(c.minted.proposal.RequestID, maxClaim)
		if !c.minted.proposal.Retries.IsZero() {
			r.RetriesDigest = c.minted.proposal.Retries.String()
		}
	}
	return r
}
