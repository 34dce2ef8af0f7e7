package server_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/bundle"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// records is a log that can fail.
type records struct {
	mu   sync.Mutex
	last audit.Record // guarded by mu
	fail bool         // guarded by mu
}

func (l *records) Append(_ context.Context, r audit.Record, _ bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail {
		return errors.New("disk full")
	}
	l.last = r
	return nil
}

func (l *records) latest() audit.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *records) breaks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = true
}

// world loads one of the example bundles and puts a real PDP before it.
func world(t testing.TB, dir string) (*bundle.Bundle, *records, server.Config) {
	t.Helper()
	files, err := bundle.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	holder, log := &snapshot.Holder{}, &records{}
	holder.Store(b.Snapshot)
	p, err := pdp.New(pdp.Config{Snapshots: holder, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return b, log, server.Config{
		Decider:       p,
		LocalHost:     func() *writ.Caller { return holder.Load().LocalHost },
		LocalServer:   func() *writ.Caller { return holder.Load().LocalServer },
		LocalOperator: func() *writ.Caller { return holder.Load().LocalOperator },
	}
}

func around(t *testing.T, cfg server.Config) *house {
	return open(t, nil, func(c *server.Config) {
		c.Decider, c.LocalHost, c.LocalOperator = cfg.Decider, cfg.LocalHost, cfg.LocalOperator
	})
}

// The examples' scenarios get the answer that they expect over the wire too.
func TestScenariosOverTheWire(t *testing.T) {
	allowed, denied := 0, 0
	for _, dir := range []string{"../examples/hello", "../examples/lab"} {
		b, log, cfg := world(t, dir)
		h := around(t, cfg)
		for _, s := range b.Scenarios {
			if len(s.Approvers) > 0 || !s.Now.IsZero() || b.Snapshot.Callers[s.Caller] != b.Snapshot.LocalHost {
				continue // not to be had over the wire, or not now
			}
			s = s.At(time.Now())
			p, err := server.ProposalToProto(&s.Proposal)
			if err != nil {
				t.Fatal(err)
			}
			r, err := h.decide(t, p)
			if err != nil {
				t.Errorf("%s, %s: %v", dir, s.Name, err)
				continue
			}
			d := r.GetDecision()
			want, known := s.Expect.Code.Info()
			if !known {
				want.Outcome = writ.Deny // a forbid's own code
			}
			if d.GetCode() != string(s.Expect.Code) || server.OutcomeFromProto(d.GetOutcome()) != want.Outcome {
				t.Errorf("%s, %s: got %v %s (%s), want %s", dir, s.Name, d.GetOutcome(), d.GetCode(), d.GetExplanation(), s.Expect.Code)
			}
			if r.GetDecisionId() == "" || r.GetDecisionId() != log.latest().ID {
				t.Errorf("%s, %s: decision %q is recorded as %q", dir, s.Name, r.GetDecisionId(), log.latest().ID)
			}
			if d.GetRevision() != b.Snapshot.Revision {
				t.Errorf("%s, %s: revision %q", dir, s.Name, d.GetRevision())
			}
			if want.Outcome == writ.Allow {
				allowed++
			} else {
				denied++
			}
		}
	}
	if allowed == 0 || denied == 0 {
		t.Errorf("%d calls were allowed and %d denied: this tests too little", allowed, denied)
	}
}

// What can't be read off the wire is MALFORMED_PROPOSAL, and recorded.
func TestUnreadableProposalIsRecorded(t *testing.T) {
	_, log, cfg := world(t, "../examples/hello")
	h := around(t, cfg)
	r, err := h.decide(t, &writv1.Proposal{RequestId: "r-7", Token: &writv1.Token{ExpiresAt: &timestamppb.Timestamp{Nanos: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	if d := r.GetDecision(); d.GetOutcome() != writv1.Outcome_OUTCOME_DENY || d.GetCode() != "MALFORMED_PROPOSAL" || d.GetField() != "token.expires_at" {
		t.Errorf("got %v", d)
	}
	if log.latest().RequestID != "r-7" || log.latest().Code != "MALFORMED_PROPOSAL" {
		t.Errorf("recorded %+v", log.latest())
	}
}

func TestUnrecordedAnswerIsDenied(t *testing.T) {
	_, log, cfg := world(t, "../examples/hello")
	h := around(t, cfg)
	log.breaks()
	r, err := h.decide(t, &writv1.Proposal{RequestId: "r"})
	if err != nil || r.GetDecision().GetOutcome() != writv1.Outcome_OUTCOME_DENY || r.GetDecision().GetCode() != "AUDIT_UNAVAILABLE" {
		t.Errorf("got %v, %v", r, err)
	}
}

// BenchmarkDecide asks over TCP on the loopback interface, from as many
// goroutines as there are processors.
func BenchmarkDecide(b *testing.B) {
	loaded, _, cfg := world(b, "../examples/hello")
	h := openTCP(b, nil, func(c *server.Config) {
		c.Decider, c.LocalHost, c.LocalOperator = cfg.Decider, cfg.LocalHost, cfg.LocalOperator
		c.Limits.Rate, c.Limits.Burst = 1<<20, 1<<20
		c.Log = nil
	})
	s := loaded.Scenarios[0].At(time.Now())
	p, err := server.ProposalToProto(&s.Proposal)
	if err != nil {
		b.Fatal(err)
	}
	ctx, req := as(b, h.host), &writv1.DecideRequest{Proposal: p}
	b.RunParallel(func(pb *testing.PB) {
		client := writv1.NewDecisionServiceClient(h.conn)
		for pb.Next() {
			if r, err := client.Decide(ctx, req, grpc.WaitForReady(true)); err != nil || r.GetDecision().GetCode() != string(s.Expect.Code) {
				b.Errorf("got %v, %v", r, err)
				return
			}
		}
	})
}
