package server_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// TestCallsStartApart has calls come at once: a millisecond's worth of them
// starts at once, the others one after the other, and what costs more keeps the
// next waiting longer.
func TestCallsStartApart(t *testing.T) {
	const apart = 400 * time.Microsecond
	calls := []struct {
		At   time.Duration
		Cost int
	}{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 20}, {0, 1}, {time.Second, 1}}
	wait := []time.Duration{0, 0, 0, 200 * time.Microsecond, 600 * time.Microsecond, 8600 * time.Microsecond, 0}
	for i, got := range server.Waits(apart, calls) {
		if max(got, 0) != wait[i] {
			t.Errorf("call %d waits %v, want %v", i, got, wait[i])
		}
	}
}

// TestStartComesTooLate has a call whose start comes after its deadline: nothing
// is decided, and who keeps another caller's calls waiting keeps nobody else.
func TestStartComesTooLate(t *testing.T) {
	d := &decider{}
	h := open(t, d, func(c *server.Config) { c.Limits.Deadline = 100 * time.Millisecond })
	h.Server.StartApart(time.Hour)
	if _, err := h.decide(t, nil); err != nil {
		t.Fatal(err)
	}
	asked := len(d.questions())
	if _, err := h.decide(t, nil); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the second at once: %v", err)
	}
	ctx, cancel := context.WithTimeout(as(t, h.host), 20*time.Millisecond)
	defer cancel()
	if _, err := writv1.NewDecisionServiceClient(h.conn).DecideBatch(ctx, &writv1.DecideBatchRequest{Proposals: []*writv1.Proposal{{}}}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a batch: %v", err)
	}
	if n := len(d.questions()); n != asked {
		t.Errorf("asked %d times, want %d", n, asked)
	}
	if _, err := writv1.NewDecisionServiceClient(h.conn).Explain(as(t, h.operator), &writv1.ExplainRequest{Proposal: &writv1.Proposal{}}); err != nil {
		t.Errorf("another caller: %v", err)
	}
}
