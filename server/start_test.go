package server_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// TestCallsStartApart has calls come at once: a millisecond's worth of them
// starts at once, the others one after the other, and what costs more keeps the
// next waiting longer. One whose start is further off than a quarter of a second
// is refused, and keeps nobody waiting.
func TestCallsStartApart(t *testing.T) {
	const apart = 400 * time.Microsecond
	calls := []struct {
		At   time.Duration
		Cost int
	}{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 20}, {0, 1000}, {0, 1}, {300 * time.Millisecond, 1}, {time.Second, 1}}
	want := []time.Duration{0, 0, 0, 200 * time.Microsecond, 600 * time.Microsecond, 8600 * time.Microsecond, -1, 108600 * time.Microsecond, 0}
	if got := server.Waits(apart, calls); !slices.Equal(got, want) {
		t.Errorf("they wait %v, want %v", got, want)
	}
	if got := server.Waived(apart, 10_000); got != 0 {
		t.Errorf("after 10000 that have ended before their start, it waits %v", got)
	}
}

// TestStartIsWaitedFor has calls whose start is further off than their client
// waits: nothing is decided. Who is alone starts at once.
func TestStartIsWaitedFor(t *testing.T) {
	d := &decider{}
	h := open(t, d, func(c *server.Config) { c.Limits.Apart = 200 * time.Millisecond })
	decisions := writv1.NewDecisionServiceClient(h.conn)
	batch := &writv1.DecideBatchRequest{Proposals: []*writv1.Proposal{{}}}
	for range 3 {
		if _, err := h.decide(t, nil); err != nil {
			t.Fatalf("alone: %v", err)
		}
	}
	if _, err := decisions.Explain(as(t, h.operator), &writv1.ExplainRequest{Proposal: &writv1.Proposal{}}); err != nil {
		t.Fatalf("another caller: %v", err)
	}
	begun := time.Now()
	for range 3 {
		if _, err := h.decide(t, nil); err != nil {
			t.Fatalf("beside another: %v", err)
		}
	}
	if took := time.Since(begun); took < 390*time.Millisecond {
		t.Errorf("three that are 200 ms apart took %v", took)
	}
	asked := len(d.questions())
	ctx, cancel := context.WithTimeout(as(t, h.host), 20*time.Millisecond)
	defer cancel()
	if _, err := decisions.DecideBatch(ctx, batch); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("with 20 ms to wait: %v", err)
	}
	if n := len(d.questions()); n != asked {
		t.Errorf("asked %d times, want %d", n, asked)
	}
}
