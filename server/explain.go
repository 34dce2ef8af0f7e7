package server

import (
	"context"
	"errors"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// Explain says why a proposal is answered as it is.
func (d *decisions) Explain(ctx context.Context, req *writv1.ExplainRequest) (*writv1.ExplainResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	proposal, err := ProposalFromProto(req.GetProposal())
	if fault, ok := errors.AsType[*FieldError](err); ok {
		return nil, refuse(ReasonMalformedRequest, "proposal."+fault.Field+": "+fault.Reason)
	}
	if err != nil {
		return nil, err
	}
	e, err := d.decider.Explain(ctx, callerOf(ctx), req.GetCaller(), proposal, req.GetAtLeastAsFresh())
	if err != nil {
		return nil, err
	}
	return ExplanationToProto(e), nil
}

// ExplanationToProto writes an explanation for the wire.
func ExplanationToProto(e writ.Explanation) *writv1.ExplainResponse {
	out := &writv1.ExplainResponse{Decision: DecisionToProto(e.Decision), ToAllow: e.ToAllow}
	for _, c := range e.Controls {
		out.Controls = append(out.Controls, &writv1.ControlExplained{Control: string(c.Control), Code: string(c.Code), Saw: c.Saw})
	}
	for _, p := range e.Parties {
		party := &writv1.PartyExplained{Who: p.Who, Actor: p.Actor, Resource: p.Resource, Others: toInt32(p.Others)}
		for _, x := range p.Policies {
			party.Policies = append(party.Policies, &writv1.PolicyExplained{
				Policy: policiesToProto([]writ.PolicyRef{x.PolicyRef})[0], Permit: x.Permit, Verdict: verdictToProto(x.Verdict),
				Principal: x.Principal, Resource: x.Resource, Condition: x.Condition,
				WantsPrincipal: x.WantsPrincipal, WantsResource: x.WantsResource,
			})
		}
		out.Parties = append(out.Parties, party)
	}
	return out
}

// verdictToProto writes an unknown verdict as unspecified, which counts as
// failed.
func verdictToProto(v writ.PolicyVerdict) writv1.PolicyVerdict {
	switch v {
	case writ.PolicySatisfied:
		return writv1.PolicyVerdict_POLICY_VERDICT_SATISFIED
	case writ.PolicyNot:
		return writv1.PolicyVerdict_POLICY_VERDICT_NOT_SATISFIED
	case writ.PolicyFailed:
		return writv1.PolicyVerdict_POLICY_VERDICT_FAILED
	}
	return writv1.PolicyVerdict_POLICY_VERDICT_UNSPECIFIED
}
