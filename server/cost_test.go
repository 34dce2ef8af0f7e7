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
