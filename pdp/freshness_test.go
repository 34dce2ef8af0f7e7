package pdp_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// named returns the scenario of a name, at the time it is.
func named(t testing.TB, b *bundle.Bundle, name string) bundle.Scenario {
	t.Helper()
	for _, s := range b.Scenarios {
		if s.Name == name {
			return s.At(time.Now())
		}
	}
	t.Fatalf("the scenario %q is gone", name)
	return bundle.Scenario{}
}

// at is the lab's world as a source gives it.
func at(b *bundle.Bundle, generation uint64, entries ...revocation.Entry) *snapshot.Snapshot {
	view, err := revocation.New(entries)
	if err != nil {
		panic(err)
	}
	return b.Snapshot.At("test", generation, view)
}

// TestDemanded: a demanded revision is waited for, for a short while; then the
// answer is REVISION_UNAVAILABLE. What is no revision is malformed.
func TestDemanded(t *testing.T) {
	b := lab(t)
	bundleOnly := b.Snapshot.Revision
	first, second := at(b, 1), at(b, 2)
	revoked := at(b, 1, revocation.Entry{Kind: revocation.Server, ID: "elsewhere"})
	for _, c := range []struct {
		name   string
		demand string
		later  *snapshot.Snapshot // arrives after
		after  time.Duration
		want   writ.Code // empty: as without a demand
		waits  time.Duration
	}{
		{name: "nothing"},
		{name: "what is there", demand: first.Revision},
		{name: "a later bundle, in time", demand: second.Revision, later: second, after: 150 * time.Millisecond, waits: 150 * time.Millisecond},
		{name: "a later revocation, in time", demand: revoked.Revision, later: revoked, after: time.Millisecond, waits: time.Millisecond},
		{name: "a later bundle, too late", demand: second.Revision, later: second, after: 201 * time.Millisecond, want: writ.CodeRevisionUnavailable, waits: 200 * time.Millisecond},
		{name: "a revocation that doesn't come", demand: revoked.Revision, want: writ.CodeRevisionUnavailable, waits: 200 * time.Millisecond},
		{name: "another source", demand: strings.Replace(first.Revision, "@test.", "@other.", 1), want: writ.CodeRevisionUnavailable, waits: 200 * time.Millisecond},
		{name: "a bundle without a source", demand: bundleOnly, want: writ.CodeRevisionUnavailable, waits: 200 * time.Millisecond},
		{name: "no revision", demand: "latest", want: writ.CodeMalformedProposal},
		{name: "a revision with a space", demand: first.Revision + " ", want: writ.CodeMalformedProposal},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &memory{}
				h := holding(first)
				p := newPDP(t, log, h)
				if c.later != nil {
					time.AfterFunc(c.after, func() { h.Store(c.later) })
				}
				s := named(t, b, "small allowlisted payment")
				caller := b.Snapshot.Callers[s.Caller]
				begun := time.Now()
				a, err := p.Decide(t.Context(), caller, &s.Proposal, pdp.Ask{AtLeastAsFresh: c.demand})
				if err != nil {
					t.Fatal(err)
				}
				d, want := a.Decision(), c.want
				if want == "" {
					want = s.Expect.Code
				}
				if d.Code != want || a.Allowed() != (want == writ.CodeAllow) || time.Since(begun) != c.waits {
					t.Errorf("%s after %v, want %s after %v", d.Code, time.Since(begun), want, c.waits)
				}
				switch want {
				case writ.CodeRevisionUnavailable:
					if d.Control != writ.ControlFreshness || d.Revision != first.Revision {
						t.Errorf("%+v", d)
					}
				case writ.CodeMalformedProposal:
					if d.Field != "at_least_as_fresh" || d.Control != writ.ControlProposal {
						t.Errorf("%+v", d)
					}
				}
				if len(log.records) != 1 || log.records[0].Code != want {
					t.Errorf("recorded %+v", log.records)
				}
				if c.later != nil && c.want == "" && d.Revision != c.later.Revision {
					t.Errorf("decided in %s", d.Revision)
				}
				time.Sleep(time.Second) // for what comes later

				// The same at the other doors. All of a batch wait once, in one world.
				h.Store(first)
				begun = time.Now()
				answers, err := p.DecideBatch(t.Context(), caller, []pdp.Item{{Proposal: &s.Proposal}, {Proposal: &s.Proposal}, {Unreadable: "It is bad.", Field: "x"}}, pdp.Ask{AtLeastAsFresh: c.demand})
				if err != nil || len(answers) != 3 || answers[2].Decision().Code != writ.CodeMalformedProposal {
					t.Fatalf("%v, %v", answers, err)
				}
				e, err := p.Explain(t.Context(), b.Snapshot.LocalOperator, s.Caller, &s.Proposal, c.demand)
				if err != nil {
					t.Fatal(err)
				}
				if c.later == nil {
					for _, got := range []writ.Code{answers[0].Decision().Code, answers[1].Decision().Code, e.Decision.Code} {
						if got != want {
							t.Errorf("%s, want %s", got, want)
						}
					}
					if since := time.Since(begun); since != 2*c.waits {
						t.Errorf("a batch and an explanation took %v", since)
					}
				}
				if e.Decision.Code == writ.CodeRevisionUnavailable && (len(e.Controls) != 1 || e.Controls[0].Control != writ.ControlFreshness || len(e.Controls[0].Saw) == 0) {
					t.Errorf("explained as %+v", e.Controls)
				}
			})
		})
	}
}

// A caller whose deadline ends while it waits gets no decision, and is not
// recorded as one.
func TestDemandEndsWithTheCall(t *testing.T) {
	b := lab(t)
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		p := newPDP(t, log, holding(at(b, 1)))
		s := named(t, b, "small allowlisted payment")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if a, err := p.Decide(ctx, b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{AtLeastAsFresh: at(b, 2).Revision}); !errors.Is(err, context.DeadlineExceeded) || a.Allowed() {
			t.Errorf("%v, %v", a.Decision(), err)
		}
		if len(log.records) != 0 {
			t.Errorf("recorded %+v", log.records)
		}
	})
}

// TestStale: once the source has been silent for longer than the limit, what
// has consequences is denied, and the rest goes on and says since when.
func TestStale(t *testing.T) {
	b := lab(t)
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		h := &snapshot.Holder{}
		world := at(b, 1)
		world.LoadedAt = time.Now().UTC()
		h.Store(world)
		p, err := pdp.New(pdp.Config{Snapshots: h, Log: log, MaxStaleness: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		pay, read := named(t, b, "small allowlisted payment"), named(t, b, reading(t, b))
		unknown := pay
		unknown.Proposal.Tool = "nobody_has_reviewed_this"
		malformed := pay
		malformed.Proposal.ArgumentsJSON = []byte("{")
		ask := func(s bundle.Scenario) writ.Decision {
			t.Helper()
			s = s.At(time.Now())
			a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{})
			if err != nil {
				t.Fatal(err)
			}
			d := a.Decision()
			batch, err := p.DecideBatch(t.Context(), b.Snapshot.Callers[s.Caller], []pdp.Item{{Proposal: &s.Proposal}}, pdp.Ask{})
			if err != nil || batch[0].Decision().Code != d.Code || !batch[0].Decision().HeardAt.Equal(d.HeardAt) {
				t.Errorf("the batch says %v, %v", batch, err)
			}
			e, err := p.Explain(t.Context(), b.Snapshot.LocalOperator, s.Caller, &s.Proposal, "")
			if err != nil || e.Decision.Code != d.Code || !e.Decision.HeardAt.Equal(d.HeardAt) {
				t.Errorf("the explanation says %v, %v", e, err)
			}
			return d
		}
		fresh := func() {
			t.Helper()
			for _, s := range []bundle.Scenario{pay, read} {
				if d := ask(s); d.Code != writ.CodeAllow || !d.HeardAt.IsZero() {
					t.Errorf("%s: %s, heard at %v", s.Name, d.Code, d.HeardAt)
				}
			}
			if d := ask(unknown); d.Code != writ.CodeToolUnregistered {
				t.Errorf("an unknown tool: %s", d.Code)
			}
		}
		stale := func(since time.Time) {
			t.Helper()
			if d := ask(malformed); d.Code != writ.CodeMalformedProposal {
				t.Errorf("what cannot be read: %s", d.Code)
			}
			for _, s := range []bundle.Scenario{pay, unknown} {
				if d := ask(s); d.Code != writ.CodeSnapshotStale || d.Control != writ.ControlFreshness || !d.HeardAt.Equal(since) || d.Revision != world.Revision || d.Tool != s.Proposal.Tool {
					t.Errorf("%s: %+v", s.Name, d)
				}
			}
			if d := ask(read); d.Code != writ.CodeAllow || !d.HeardAt.Equal(since) {
				t.Errorf("a read: %s, heard at %v, want %v", d.Code, d.HeardAt, since)
			}
		}
		loaded := time.Now()
		fresh() // nobody has been heard, but the world was the newest when it came
		time.Sleep(10 * time.Second)
		fresh()
		time.Sleep(time.Nanosecond)
		stale(loaded)
		h.Heard(time.Now())
		heard := time.Now()
		fresh()
		time.Sleep(10*time.Second + time.Nanosecond)
		stale(heard)
		h.Heard(heard.Add(-time.Hour)) // what was said before says nothing new
		stale(heard)
		h.Store(at(b, 1)) // a revocation's world is no word from the source of bundles
		stale(heard)
	})
}

// TestStaleByEitherClock: a source is silent for as long as time passes, also
// while the machine's clock, which was ahead when it was heard, has yet to catch
// up; and for as long as the clock says, also where that went on while the
// machine slept. Outside of a bubble, whose clock is the only one in it.
func TestStaleByEitherClock(t *testing.T) {
	b := lab(t)
	const limit = time.Hour
	for _, c := range []struct {
		name  string
		ago   time.Duration // that the source was heard
		ahead time.Duration // of the clock then
		want  writ.Code
	}{
		{"just now", 0, 0, writ.CodeAllow},
		{"long ago", 2 * limit, 0, writ.CodeSnapshotStale},
		{"long ago, and the clock was put back since", 2 * limit, 24 * time.Hour, writ.CodeSnapshotStale},
		{"just now, and the clock was put back since", 0, 24 * time.Hour, writ.CodeAllow},
		{"before the machine slept", 0, -2 * limit, writ.CodeSnapshotStale},
	} {
		h := holding(at(b, 1))
		p, err := pdp.New(pdp.Config{Snapshots: h, Log: &memory{}, MaxStaleness: limit})
		if err != nil {
			t.Fatal(err)
		}
		heard := clock(time.Now().Add(-c.ago), c.ahead)
		if d := time.Since(heard) - c.ago; d < 0 || d > limit/2 {
			t.Fatalf("%s: the test's own clock is off by %v", c.name, d)
		}
		h.Heard(heard)
		s := named(t, b, "small allowlisted payment")
		a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{})
		if err != nil || a.Decision().Code != c.want {
			t.Errorf("%s: %+v, %v, want %s", c.name, a.Decision(), err, c.want)
		}
	}
}

// clock is t as the machine's clock shows it where it is ahead by that much,
// with the monotonic reading of t: see the comments of time.Time's fields.
func clock(t time.Time, ahead time.Duration) time.Time {
	const seconds = 30 // the bits below them are nanoseconds
	*(*uint64)(unsafe.Pointer(&t)) += uint64(ahead/time.Second) << seconds
	return t
}

// reading is a scenario of the lab that is allowed and only reads.
func reading(t *testing.T, b *bundle.Bundle) string {
	t.Helper()
	p := newPDP(t, &memory{}, holding(b.Snapshot))
	for _, s := range b.Scenarios {
		s = s.At(time.Now())
		a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{})
		if d := a.Decision(); err == nil && a.Allowed() && (d.Effect == writ.Read || d.Effect == writ.Pure) {
			return s.Name
		}
	}
	t.Fatal("no scenario is an allowed read")
	return ""
}

// Without a limit nothing ever becomes stale, and nothing is said of it.
func TestNeverStale(t *testing.T) {
	b := lab(t)
	synctest.Test(t, func(t *testing.T) {
		h := holding(at(b, 1))
		h.Heard(time.Now())
		p := newPDP(t, &memory{}, h)
		time.Sleep(1000 * time.Hour)
		s := named(t, b, "small allowlisted payment")
		a, err := p.Decide(t.Context(), b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{})
		if err != nil || !a.Allowed() || !a.Decision().HeardAt.IsZero() {
			t.Errorf("%+v, %v", a.Decision(), err)
		}
	})
	if _, err := pdp.New(pdp.Config{Snapshots: &snapshot.Holder{}, Log: &memory{}, MaxStaleness: -1}); err == nil {
		t.Error("a negative limit")
	}
}
