package pdp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/snapshot"
)

// memory is a log that tests look into, and that can fail.
type memory struct {
	mu      sync.Mutex
	records []audit.Record
	durable []bool
	fail    error
}

func (m *memory) Append(_ context.Context, r audit.Record, durable bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.records, m.durable = append(m.records, r), append(m.durable, durable)
	return nil
}

func lab(t testing.TB) *bundle.Bundle {
	t.Helper()
	files, err := bundle.ReadDir("../examples/lab")
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	return b
}

func holding(world *snapshot.Snapshot) *snapshot.Holder {
	h := &snapshot.Holder{}
	h.Store(world)
	return h
}

func newPDP(t testing.TB, log pdp.Log, h *snapshot.Holder) *pdp.PDP {
	t.Helper()
	p, err := pdp.New(pdp.Config{Snapshots: h, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewRefuses(t *testing.T) {
	if _, err := pdp.New(pdp.Config{Snapshots: &snapshot.Holder{}}); err == nil {
		t.Error("a PDP without a log")
	}
	if _, err := pdp.New(pdp.Config{Log: &memory{}}); err == nil {
		t.Error("a PDP without a holder")
	}
}

func TestZeroAnswerDenies(t *testing.T) {
	var a pdp.Answer
	if a.Allowed() || a.Decision().Outcome != writ.Deny {
		t.Errorf("the zero answer: %+v", a.Decision())
	}
}

// TestRecorded: each answer is in the log before it is given, with what was
// decided; an ALLOW of a write is durable, the rest need not be.
func TestRecorded(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, holding(b.Snapshot))
	for i, s := range b.Scenarios {
		s := s.At(time.Now())
		a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		d := a.Decision()
		if d.Code != s.Expect.Code {
			t.Errorf("%s: %s, want %s", s.Name, d.Code, s.Expect.Code)
		}
		if len(log.records) != i+1 {
			t.Fatalf("%s: %d records after %d answers", s.Name, len(log.records), i+1)
		}
		r := log.records[i]
		if r.ID != a.ID() || r.Code != d.Code || r.Outcome != d.Outcome || r.Revision != b.Snapshot.Revision || r.RequestID != s.Proposal.RequestID ||
			r.Subject != s.Proposal.Principal.Subject || r.Caller != s.Caller || r.Tool != s.Proposal.Tool {
			t.Errorf("%s: answered %+v, recorded %+v", s.Name, d, r)
		}
		if want := d.Outcome == writ.Allow && s.Proposal.Tool == "create_payment"; log.durable[i] != want {
			t.Errorf("%s: durable %t, want %t", s.Name, log.durable[i], want)
		}
		if bytes.Contains(mustJSON(t, r), []byte("Synthetic invoice")) {
			t.Errorf("%s: an argument's value is in the record", s.Name)
		}
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestUnrecorded: what can't be recorded is not answered, whatever it was.
func TestUnrecorded(t *testing.T) {
	b := lab(t)
	p := newPDP(t, &memory{fail: errors.New("disk full")}, holding(b.Snapshot))
	for _, s := range b.Scenarios {
		s := s.At(time.Now())
		a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		if d := a.Decision(); a.Allowed() || d.Code != writ.CodeAuditUnavailable || d.Control != writ.ControlAudit || len(d.Policies) > 0 {
			t.Errorf("%s: %+v", s.Name, d)
		}
	}
}

// TestUnrecordedOnDisk is TestUnrecorded over the real log, closed.
func TestUnrecordedOnDisk(t *testing.T) {
	b := lab(t)
	log, err := audit.Open(audit.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	p := newPDP(t, log, holding(b.Snapshot))
	s := b.Scenarios[0].At(time.Now())
	if a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{}); err != nil || a.Decision().Code != writ.CodeAuditUnavailable {
		t.Errorf("%v, %v", a.Decision(), err)
	}
}

// TestOnDisk: the answered ALLOW of a write is in the file when it is given.
func TestOnDisk(t *testing.T) {
	b := lab(t)
	dir := t.TempDir()
	log, err := audit.Open(audit.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := newPDP(t, log, holding(b.Snapshot))
	for _, s := range b.Scenarios {
		if s.Name != "small allowlisted payment" {
			continue
		}
		s = s.At(time.Now())
		a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{})
		if err != nil || !a.Allowed() {
			t.Fatalf("%+v, %v", a.Decision(), err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "segments", "00000000000000000000.jsonl"))
		if err != nil || !bytes.Contains(data, []byte(a.ID())) {
			t.Errorf("the file doesn't hold %s: %v", a.ID(), err)
		}
		return
	}
	t.Error("the scenario is gone")
}

// TestNoSnapshot: before a bundle is loaded everything is denied, and recorded.
func TestNoSnapshot(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, &snapshot.Holder{})
	s := b.Scenarios[0].At(time.Now())
	a, err := p.Decide(t.Context(), &writ.Caller{Name: "host"}, &s.Proposal, pdp.Ask{})
	if err != nil || a.Decision().Code != writ.CodeSnapshotStale || a.Decision().Control != writ.ControlFreshness || a.Allowed() || len(log.records) != 1 {
		t.Errorf("%+v, %v, %d records", a.Decision(), err, len(log.records))
	}
}

// TestNothingDecided: without time, caller or proposal there is no decision.
func TestNothingDecided(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, holding(b.Snapshot))
	s := b.Scenarios[0].At(time.Now())
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for name, decide := range map[string]func() (pdp.Answer, error){
		"late":            func() (pdp.Answer, error) { return p.Decide(late, &writ.Caller{Name: "host"}, &s.Proposal, pdp.Ask{}) },
		"no caller":       func() (pdp.Answer, error) { return p.Decide(t.Context(), nil, &s.Proposal, pdp.Ask{}) },
		"no proposal":     func() (pdp.Answer, error) { return p.Decide(t.Context(), &writ.Caller{Name: "host"}, nil, pdp.Ask{}) },
		"late refusal":    func() (pdp.Answer, error) { return p.Refuse(late, &writ.Caller{}, &s.Proposal, "x", "y") },
		"refuse nobody's": func() (pdp.Answer, error) { return p.Refuse(t.Context(), nil, nil, "x", "y") },
	} {
		if a, err := decide(); err == nil || a.Allowed() {
			t.Errorf("%s: %+v, %v", name, a.Decision(), err)
		}
	}
	if len(log.records) != 0 {
		t.Errorf("%d records of nothing", len(log.records))
	}
}

// TestRefuse: what could not be read is recorded as it was read, within bounds.
func TestRefuse(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, holding(b.Snapshot))
	long := string(bytes.Repeat([]byte("é"), 4000))
	a, err := p.Refuse(t.Context(), &writ.Caller{Name: "host"}, &writ.Proposal{RequestID: long, Principal: writ.Principal{Subject: "a\xff"}}, "token.expires_at", "It is not a valid time.")
	d := a.Decision()
	if err != nil || a.Allowed() || d.Code != writ.CodeMalformedProposal || d.Field != "token.expires_at" || d.Revision != b.Snapshot.Revision {
		t.Errorf("%+v, %v", d, err)
	}
	if r := log.records[0]; len(r.RequestID) > 1030 || r.Subject != "a\uFFFD" {
		t.Errorf("recorded a request id of %d bytes, subject %q", len(r.RequestID), r.Subject)
	}
}

// TestClock: the clock is read once a call, and an expiry bites to the second.
func TestClock(t *testing.T) {
	b := lab(t)
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		p := newPDP(t, log, holding(b.Snapshot))
		s := b.Scenarios[0].At(time.Now())
		s.Proposal.Token.ExpiresAt = time.Now().Add(30 * time.Second)
		caller := b.Snapshot.Callers[s.Caller]
		decide := func() writ.Code {
			a, err := p.Decide(t.Context(), caller, &s.Proposal, pdp.Ask{})
			if err != nil {
				t.Fatal(err)
			}
			return a.Decision().Code
		}
		time.Sleep(30*time.Second - 1)
		if code := decide(); code != writ.CodeAllow {
			t.Errorf("a nanosecond before: %s", code)
		}
		time.Sleep(time.Nanosecond)
		if code := decide(); code != writ.CodeTokenExpired {
			t.Errorf("on time: %s", code)
		}
		if !log.records[1].Time.After(log.records[0].Time) {
			t.Error("time runs backwards")
		}
	})
}

// TestConcurrent: many callers, one log, no race, an id each.
func TestConcurrent(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, holding(b.Snapshot))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, s := range b.Scenarios {
				s := s.At(time.Now())
				if a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{}); err != nil || a.Decision().Code != s.Expect.Code {
					t.Errorf("%s: %s, %v", s.Name, a.Decision().Code, err)
				}
			}
		})
	}
	all.Wait()
	ids := map[string]bool{}
	for _, r := range log.records {
		ids[r.ID] = true
	}
	if len(ids) != 8*len(b.Scenarios) {
		t.Errorf("%d ids for %d answers", len(ids), 8*len(b.Scenarios))
	}
}
