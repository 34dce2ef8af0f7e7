package server_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// An explanation costs what twenty calls do.
func TestExplanationsCostMore(t *testing.T) {
	h := open(t, &decider{}, func(c *server.Config) { c.Limits.Rate, c.Limits.Burst = 1, 20 })
	client := writv1.NewDecisionServiceClient(h.conn)
	ask := &writv1.ExplainRequest{Proposal: &writv1.Proposal{}}
	if _, err := client.Explain(as(t, h.operator), ask); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Explain(as(t, h.operator), ask); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the second with a burst of 20: %v", err)
	}
	h.alive(t) // the host has its own
}

// So does a page of a list: it may be a thousand entries long.
func TestPagesCostMore(t *testing.T) {
	h := open(t, &decider{}, func(c *server.Config) { c.Limits.Rate, c.Limits.Burst = 1, 20 })
	ctx := as(t, h.operator)
	// Neither is offered here, and each is charged all the same.
	if _, err := writv1.NewRevocationServiceClient(h.conn).ListRevocations(ctx, &writv1.ListRevocationsRequest{}); status.Code(err) == codes.ResourceExhausted {
		t.Fatal(err)
	}
	if _, err := writv1.NewApprovalServiceClient(h.conn).ListReviews(ctx, &writv1.ListReviewsRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the second with a burst of 20: %v", err)
	}
	h.alive(t)
}
