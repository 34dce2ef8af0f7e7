package server

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/effect"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
)

// Enforcer is where grants are redeemed and effects verified: [pdp.PDP]. An
// error means that nothing could be answered.
type Enforcer interface {
	// Redeem spends a grant.
	Redeem(ctx context.Context, caller *writ.Caller, r *pdp.Redemption) (pdp.Redeemed, error)
	// VerifyEffect compares what an observer saw with what was authorised.
	VerifyEffect(ctx context.Context, caller *writ.Caller, r *pdp.Receipt) (pdp.Verified, error)
	// Keys returns the public keys, and the iss and the instance of what they
	// sign.
	Keys() (jwks []byte, issuer, instance string)
}

// enforcement is the EnforcementService.
type enforcement struct {
	writv1.UnimplementedEnforcementServiceServer
	enforcer Enforcer // nil: there is none
}

var errNoGrants = refuse(ReasonNoGrants, "this server mints and redeems no grants")

// Redeem spends a grant.
func (e *enforcement) Redeem(ctx context.Context, req *writv1.RedeemRequest) (*writv1.RedeemResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.enforcer == nil {
		return nil, errNoGrants
	}
	a, err := e.enforcer.Redeem(ctx, callerOf(ctx), &pdp.Redemption{
		Grant: req.GetGrant(), Server: req.GetServer(), Tool: req.GetTool(),
		ArgumentsJSON: []byte(req.GetArgumentsJson()), ExtraParamsJSON: []byte(req.GetExtraParamsJson()),
		Principal: principalFromProto(req.GetPrincipal()), Attempt: req.GetRedemptionId(), AtLeastAsFresh: req.GetAtLeastAsFresh(),
	})
	if err != nil {
		return nil, err
	}
	out := &writv1.RedeemResponse{DecisionId: a.ID(), Decision: DecisionToProto(a.Decision())}
	if a.MayAct() {
		out.ActBefore, out.IdempotencyKey, out.Repeated = timeToProto(a.ActBefore()), a.IdempotencyKey(), a.Repeated()
		out.EvidencePlan = planToProto(a.Postconditions())
	}
	return out, nil
}

// VerifyEffect compares what an observer saw with what was authorised.
func (e *enforcement) VerifyEffect(ctx context.Context, req *writv1.VerifyEffectRequest) (*writv1.VerifyEffectResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.enforcer == nil {
		return nil, errNoGrants
	}
	// What can't be read is no receipt for any proposal: the digest stays zero.
	proposal, _ := canon.ParseDigest(req.GetProposalDigest())
	r := reader{}
	observed := r.time("observed_at", req.GetObservedAt())
	if r.fault != nil {
		return nil, refuse(ReasonMalformedRequest, "observed_at is not a valid time")
	}
	a, err := e.enforcer.VerifyEffect(ctx, callerOf(ctx), &pdp.Receipt{
		Redemption: req.GetRedemption(), ProposalDigest: proposal, Observer: req.GetObserver(), Status: statusFromProto(req.GetStatus()),
		EffectID: req.GetEffectId(), ObservedJSON: []byte(req.GetObservedJson()), ObservedAt: observed,
	})
	if err != nil {
		return nil, err
	}
	out := &writv1.VerifyEffectResponse{DecisionId: a.ID(), Decision: DecisionToProto(a.Decision())}
	for _, c := range a.Results() {
		out.Results = append(out.Results, &writv1.PostconditionResult{At: c.At, Status: standingToProto(c.Standing), Explanation: c.Why})
	}
	if retry := a.Retry(); !retry.Retries.IsZero() {
		out.Retry = &writv1.Retry{Retries: retry.Retries.String(), IdempotencyKey: retry.IdempotencyKey}
	}
	return out, nil
}

// GetKeys returns the public keys.
func (e *enforcement) GetKeys(context.Context, *writv1.GetKeysRequest) (*writv1.GetKeysResponse, error) {
	if e.enforcer == nil {
		return nil, errNoGrants
	}
	jwks, issuer, instance := e.enforcer.Keys()
	return &writv1.GetKeysResponse{JwksJson: string(jwks), Issuer: issuer, Instance: instance}, nil
}

// statusFromProto reads whatever it does not know as unknown.
func statusFromProto(s writv1.EffectStatus) effect.Status {
	switch s {
	case writv1.EffectStatus_EFFECT_STATUS_OBSERVED:
		return effect.StatusObserved
	case writv1.EffectStatus_EFFECT_STATUS_ABSENT:
		return effect.StatusAbsent
	default:
		return effect.StatusUnknown
	}
}

func standingToProto(s effect.Standing) writv1.PostconditionStatus {
	switch s {
	case effect.Verified:
		return writv1.PostconditionStatus_POSTCONDITION_STATUS_VERIFIED
	case effect.Failed:
		return writv1.PostconditionStatus_POSTCONDITION_STATUS_FAILED
	default:
		return writv1.PostconditionStatus_POSTCONDITION_STATUS_UNKNOWN
	}
}

// answerToProto writes an answer for the wire.
func answerToProto(a *pdp.Answer) *writv1.DecideResponse {
	out := &writv1.DecideResponse{DecisionId: a.ID(), Decision: DecisionToProto(a.Decision())}
	if g := a.Grant(); g.Token != "" {
		out.Grant = &writv1.Grant{
			Token: g.Token, Id: g.ID, ExpiresAt: timeToProto(g.ExpiresAt), IdempotencyKey: g.IdempotencyKey, EvidencePlan: planToProto(g.Postconditions),
		}
	}
	if t := a.Review(); t.ID != "" {
		out.Review = &writv1.ReviewTicket{Id: t.ID, ExpiresAt: timeToProto(t.ExpiresAt)}
	}
	return out
}

// planToProto writes postconditions as their reviewer declared them.
func planToProto(p *contract.Postconditions) *writv1.EvidencePlan {
	if p == nil {
		return nil
	}
	out := &writv1.EvidencePlan{Observer: p.Observer, Tool: p.Tool, Within: durationpb.New(p.Within)}
	for i := range p.Checks {
		c := &p.Checks[i]
		condition := &writv1.Postcondition{At: c.At, Equals: c.Equals, Tolerance: c.Tolerance, Present: c.Present}
		for _, v := range c.In {
			condition.OneOf = append(condition.OneOf, string(canon.Append(nil, v)))
		}
		out.Postconditions = append(out.Postconditions, condition)
	}
	return out
}
