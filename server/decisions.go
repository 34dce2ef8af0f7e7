package server

import (
	"context"
	"errors"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
)

// Decider is what the server asks: [pdp.PDP]. An error means that nothing
// could be decided.
type Decider interface {
	// Decide answers one proposal that caller brings.
	Decide(ctx context.Context, caller *writ.Caller, proposal *writ.Proposal, ask pdp.Ask) (pdp.Answer, error)
	// Refuse answers MALFORMED_PROPOSAL to a proposal that could not be read:
	// field names the part, why says what is wrong with it in one sentence,
	// and proposal holds what could be read, for the record.
	Refuse(ctx context.Context, caller *writ.Caller, proposal *writ.Proposal, field, why string) (pdp.Answer, error)
	// DecideBatch answers proposals in their order, from one snapshot.
	DecideBatch(ctx context.Context, caller *writ.Caller, items []pdp.Item, ask pdp.Ask) ([]pdp.Answer, error)
	// Explain says why a proposal is answered as it is, in the place of the
	// caller named as; empty: the bundle's host on this machine.
	Explain(ctx context.Context, caller *writ.Caller, as string, proposal *writ.Proposal, demand string) (writ.Explanation, error)
}

// decisions is the DecisionService.
type decisions struct {
	writv1.UnimplementedDecisionServiceServer
	decider Decider
}

// Decide answers one proposal.
func (d *decisions) Decide(ctx context.Context, req *writv1.DecideRequest) (*writv1.DecideResponse, error) {
	// The deadline may have passed while the request was read.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answer, err := d.answer(ctx, req)
	if err != nil {
		return nil, err
	}
	return answerToProto(&answer), nil
}

func (d *decisions) answer(ctx context.Context, req *writv1.DecideRequest) (pdp.Answer, error) {
	proposal, err := ProposalFromProto(req.GetProposal())
	if fault, ok := errors.AsType[*FieldError](err); ok {
		return d.decider.Refuse(ctx, callerOf(ctx), proposal, fault.Field, fault.Reason)
	}
	if err != nil {
		return pdp.Answer{}, err
	}
	return d.decider.Decide(ctx, callerOf(ctx), proposal, pdp.Ask{AtLeastAsFresh: req.GetAtLeastAsFresh(), Grant: req.GetGrant()})
}
