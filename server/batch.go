package server

import (
	"context"
	"errors"
	"fmt"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
)

// DecideBatch answers several proposals from one snapshot, in their order.
func (d *decisions) DecideBatch(ctx context.Context, req *writv1.DecideBatchRequest) (*writv1.DecideBatchResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := len(req.GetProposals())
	if n == 0 || n > pdp.MaxBatch {
		return nil, refuse(ReasonBatchSize, fmt.Sprintf("a batch has 1 to %d proposals: split it", pdp.MaxBatch))
	}
	if err := afford(ctx, n-1); err != nil {
		return nil, err
	}
	items := make([]pdp.Item, n)
	for i, p := range req.GetProposals() {
		var err error
		if items[i].Proposal, err = ProposalFromProto(p); err != nil {
			fault, ok := errors.AsType[*FieldError](err)
			if !ok {
				return nil, err
			}
			items[i].Field, items[i].Unreadable = fault.Field, fault.Reason
		}
	}
	answers, err := d.decider.DecideBatch(ctx, callerOf(ctx), items, pdp.Ask{AtLeastAsFresh: req.GetAtLeastAsFresh(), Grant: req.GetGrant()})
	if err != nil {
		return nil, err
	}
	out := &writv1.DecideBatchResponse{Answers: make([]*writv1.DecideResponse, len(answers))}
	questions := 0
	for i, a := range answers {
		// An item with many targets and actors costs what it asks of the policies.
		d := a.Decision()
		questions += max(1, len(d.Resources)*(1+len(d.Actors))) - 1
		out.Answers[i] = answerToProto(&a)
	}
	charge(ctx, questions)
	return out, nil
}
