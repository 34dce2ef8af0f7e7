package pdp_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/snapshot"
)

// TestBatch: the answers are those of the single calls, in order, and a
// poison item denies itself alone.
func TestBatch(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, holding(b.Snapshot))
	host := b.Snapshot.LocalHost
	var proposals []pdp.Item
	var want []writ.Code
	for i, s := range b.Scenarios {
		s := s.At(time.Now())
		proposals, want = append(proposals, pdp.Item{Proposal: &s.Proposal}), append(want, s.Expect.Code)
		switch i {
		case 1:
			proposals, want = append(proposals, pdp.Item{}), append(want, writ.CodeMalformedProposal)
		case 3:
			proposals, want = append(proposals, pdp.Item{Proposal: &writ.Proposal{}, Unreadable: "It is not a valid time.", Field: "token.expires_at"}), append(want, writ.CodeMalformedProposal)
		}
	}
	answers, err := p.DecideBatch(t.Context(), host, proposals, pdp.Ask{})
	if err != nil || len(answers) != len(want) {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	var times []time.Time
	for i, a := range answers {
		if a.Decision().Code != want[i] {
			t.Errorf("item %d: %s, want %s", i, a.Decision().Code, want[i])
		}
		k := slices.IndexFunc(log.records, func(r audit.Record) bool { return r.ID == a.ID() })
		if k < 0 || log.records[k].Code != want[i] {
			t.Fatalf("item %d is not in the log", i)
		}
		times = append(times, log.records[k].Time)
	}
	if len(slices.Compact(times)) != 1 {
		t.Error("a batch was decided at several instants")
	}
}

func TestBatchRefused(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, holding(b.Snapshot))
	late, cancel := context.WithCancel(t.Context())
	cancel()
	one := make([]pdp.Item, 1)
	for name, try := range map[string]func() ([]pdp.Answer, error){
		"none": func() ([]pdp.Answer, error) { return p.DecideBatch(t.Context(), b.Snapshot.LocalHost, nil, pdp.Ask{}) },
		"257": func() ([]pdp.Answer, error) {
			return p.DecideBatch(t.Context(), b.Snapshot.LocalHost, make([]pdp.Item, 257), pdp.Ask{})
		},
		"no caller": func() ([]pdp.Answer, error) { return p.DecideBatch(t.Context(), nil, one, pdp.Ask{}) },
		"late":      func() ([]pdp.Answer, error) { return p.DecideBatch(late, b.Snapshot.LocalHost, one, pdp.Ask{}) },
	} {
		if answers, err := try(); err == nil || answers != nil {
			t.Errorf("%s: %v, %v", name, answers, err)
		}
	}
	if len(log.records) != 0 {
		t.Error("something was recorded of nothing")
	}
	if answers, err := p.DecideBatch(t.Context(), b.Snapshot.LocalHost, make([]pdp.Item, 256), pdp.Ask{}); err != nil || len(answers) != 256 {
		t.Errorf("256: %v", err)
	}
}

// panicking is a log that takes the process along, if it is let.
type panicking struct{}

func (panicking) Append(context.Context, audit.Record, bool) error { panic("the log") }

// TestBatchPanics: what goes wrong while an answer is settled is heard of by
// whoever asked, as of a single proposal, once all are settled; and it says where
// it was, but nothing of the panic's own text.
func TestBatchPanics(t *testing.T) {
	b := lab(t)
	p := newPDP(t, panicking{}, holding(b.Snapshot))
	s := b.Scenarios[0].At(time.Now())
	var answers []pdp.Answer
	var heard any
	func() {
		defer func() { heard = recover() }()
		answers, _ = p.DecideBatch(t.Context(), b.Snapshot.LocalHost, []pdp.Item{{Proposal: &s.Proposal}, {Proposal: &s.Proposal}}, pdp.Ask{})
	}()
	if answers != nil {
		t.Errorf("%v", answers)
	}
	fault, ok := heard.(runtime.Error)
	if !ok || !strings.Contains(fault.Error(), "string") || !strings.Contains(fault.Error(), "panicking") || strings.Contains(fault.Error(), "the log") {
		t.Errorf("heard of %v", heard)
	}
}

// TestExplainRecorded: an explanation is recorded, and what can't be recorded
// is not explained.
func TestExplainRecorded(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, holding(b.Snapshot))
	for i, s := range b.Scenarios {
		s := s.At(time.Now())
		e, err := p.Explain(t.Context(), b.Snapshot.LocalOperator, "", &s.Proposal, "")
		if err != nil || e.Decision.Code != s.Expect.Code || len(e.Controls) == 0 {
			t.Errorf("%s: %s after %d controls, %v", s.Name, e.Decision.Code, len(e.Controls), err)
		}
		if r := log.records[i]; r.Kind != audit.KindExplanation || r.Code != s.Expect.Code || log.durable[i] {
			t.Errorf("%s: recorded %s %s", s.Name, r.Kind, r.Code)
		}
	}
	s := b.Scenarios[0].At(time.Now())
	dead := newPDP(t, &memory{fail: errors.New("disk full")}, holding(b.Snapshot))
	if e, err := dead.Explain(t.Context(), b.Snapshot.LocalOperator, "", &s.Proposal, ""); err != nil || e.Decision.Code != writ.CodeAuditUnavailable || len(e.Controls) > 0 {
		t.Errorf("unrecorded: %+v, %v", e, err)
	}
	if e, err := newPDP(t, log, &snapshot.Holder{}).Explain(t.Context(), b.Snapshot.LocalOperator, "", &s.Proposal, ""); err != nil || e.Decision.Code != writ.CodeSnapshotStale {
		t.Errorf("no bundle: %+v, %v", e, err)
	}
	if e, err := p.Explain(t.Context(), b.Snapshot.LocalOperator, "operator", &s.Proposal, ""); err != nil || e.Decision.Outcome != writ.Deny {
		t.Errorf("in the place of who may not propose: %+v, %v", e, err)
	}
	if e, err := p.Explain(t.Context(), b.Snapshot.LocalOperator, "nobody", &s.Proposal, ""); err != nil || e.Decision.Outcome != writ.Deny {
		t.Errorf("in the place of nobody: %+v, %v", e, err)
	}
	if _, err := p.Explain(t.Context(), nil, "", nil, ""); err == nil {
		t.Error("nothing is explained to nobody")
	}
}
