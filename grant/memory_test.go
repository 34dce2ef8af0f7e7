package grant_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/grant/ledgertest"
)

func memory(t testing.TB, cfg grant.MemoryConfig) *grant.Memory {
	t.Helper()
	if cfg.Revocations == nil {
		cfg.Revocations = func() uint64 { return 0 }
	}
	m, err := grant.NewMemory(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemory(t *testing.T) {
	ledgertest.Test(t, func(t *testing.T) *ledgertest.Opened {
		var log atomic.Uint64
		m := memory(t, grant.MemoryConfig{Revocations: log.Load})
		return &ledgertest.Opened{Replicas: []grant.Ledger{m}, Revoke: func() uint64 { return log.Add(1) }}
	})
}

func TestMemoryConfig(t *testing.T) {
	none := func() uint64 { return 0 }
	for name, cfg := range map[string]grant.MemoryConfig{
		"no revocations":     {},
		"negative entries":   {Revocations: none, MaxEntries: -1},
		"negative retention": {Revocations: none, Retention: -1},
		"long retention":     {Revocations: none, Retention: grant.MaxRetention + 1},
	} {
		if m, err := grant.NewMemory(cfg); m != nil || err == nil {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if a, b := memory(t, grant.MemoryConfig{}), memory(t, grant.MemoryConfig{}); a.Instance() == b.Instance() {
		t.Error("two ledgers have one instance")
	}
}

// want fails unless a claim ends so.
func want(t *testing.T, m *grant.Memory, c grant.Claim, standing grant.Standing, fault error) {
	t.Helper()
	if got, err := m.Claim(t.Context(), c); got != standing || !errors.Is(err, fault) || (err == nil) != (fault == nil) {
		t.Fatalf("claim %s: %v, %v; want %v, %v", c.ID, got, err, standing, fault)
	}
}

// later is NewClaim(n) so much later.
func later(n int, d time.Duration) grant.Claim {
	c := ledgertest.NewClaim(n)
	c.Now, c.Expires = c.Now.Add(d), c.Expires.Add(d)
	return c
}

func TestMemoryFull(t *testing.T) {
	m := memory(t, grant.MemoryConfig{MaxEntries: 3, Retention: time.Hour})
	for i := range 3 {
		want(t, m, later(i, time.Duration(i)*time.Minute), grant.Claimed, nil)
	}
	want(t, m, later(3, 3*time.Minute), grant.Unknown, grant.ErrFull)
	if _, err := m.Redemption(t.Context(), "D3"); !errors.Is(err, grant.ErrNotFound) {
		t.Errorf("what did not fit is found: %v", err)
	}
	// Who has claimed is still answered.
	want(t, m, later(2, 3*time.Minute), grant.Repeated, nil)
	// An hour after the first, there is room for one.
	want(t, m, later(3, time.Hour-time.Nanosecond), grant.Unknown, grant.ErrFull)
	want(t, m, later(3, time.Hour), grant.Claimed, nil)
	want(t, m, later(4, time.Hour), grant.Unknown, grant.ErrFull)
	if m.Len() != 3 {
		t.Errorf("%d entries", m.Len())
	}
}

// That an effect was verified is remembered for as long as any attempt that was
// claimed under its key before.
func TestMemoryKeepsDone(t *testing.T) {
	m := memory(t, grant.MemoryConfig{Retention: time.Hour})
	attempt := func(n int, after time.Duration) grant.Claim {
		c := later(n, after)
		c.Plan.IdempotencyKey = "K1"
		return c
	}
	want(t, m, attempt(1, 0), grant.Claimed, nil)
	want(t, m, attempt(2, 59*time.Minute), grant.Claimed, nil)
	e := ledgertest.NewEffect(1)
	e.Now = attempt(2, 59*time.Minute).Now
	if got, err := m.Settle(t.Context(), e); got != grant.Claimed || err != nil {
		t.Fatal(got, err)
	}
	want(t, m, attempt(3, 119*time.Minute-time.Nanosecond), grant.AlreadyClaimed, nil)
	if c, err := m.Attempt(t.Context(), attempt(2, 0).Proposal); err != nil || !c.DoneElsewhere {
		t.Errorf("%+v, %v", c, err)
	}
	want(t, m, attempt(3, 119*time.Minute), grant.Claimed, nil)
	if m.Len() != 1 {
		t.Errorf("%d entries", m.Len())
	}
}

// An entry is forgotten at the end of its retention, which begins anew with the
// effect, all of it, but not before MaxSkew after the grant's end; and the latest
// time counts.
func TestMemoryForgets(t *testing.T) {
	long := ledgertest.NewClaim(1)
	long.Expires = long.Now.Add(3 * time.Hour)
	for name, test := range map[string]struct {
		claim grant.Claim
		after time.Duration
	}{
		"retention": {ledgertest.NewClaim(1), time.Hour + time.Second},
		"grant":     {long, 3*time.Hour + grant.MaxSkew},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory(t, grant.MemoryConfig{Retention: time.Hour})
			want(t, m, test.claim, grant.Claimed, nil)
			if got, err := m.Settle(t.Context(), ledgertest.NewEffect(1)); got != grant.Claimed || err != nil {
				t.Fatal(got, err)
			}
			want(t, m, later(2, test.after-time.Nanosecond), grant.Claimed, nil)
			if _, err := m.Redemption(t.Context(), "D1"); err != nil {
				t.Errorf("forgotten too early: %v", err)
			}
			want(t, m, later(3, test.after), grant.Claimed, nil)
			want(t, m, later(4, test.after-time.Minute), grant.Claimed, nil)
			for _, err := range []error{
				second(m.Redemption(t.Context(), "D1")), second(m.Attempt(t.Context(), test.claim.Proposal)), second(m.Settle(t.Context(), ledgertest.NewEffect(1))),
			} {
				if !errors.Is(err, grant.ErrNotFound) {
					t.Errorf("not forgotten: %v", err)
				}
			}
			// Its effect may settle another.
			e := ledgertest.NewEffect(2)
			e.ID = ledgertest.NewEffect(1).ID
			if got, err := m.Settle(t.Context(), e); got != grant.Claimed || err != nil {
				t.Error(got, err)
			}
			// The grant is not claimed again, though nothing is known of it.
			again := test.claim
			again.Now = again.Expires.Add(-time.Second)
			want(t, m, again, grant.Unknown, grant.ErrForgotten)
		})
	}
}

func second[T any](_ T, err error) error { return err }

func TestMemorySeed(t *testing.T) {
	bare := grant.Claim{Proposal: "hmac-sha256:bare", Now: ledgertest.NewClaim(0).Now, Expires: ledgertest.NewClaim(0).Now}
	full := ledgertest.NewClaim(1)
	same := ledgertest.NewClaim(2) // as full's, recorded again
	same.ID = full.ID
	old := later(3, -2*time.Hour)
	failed := ledgertest.NewEffect(1)
	failed.Outcome = writ.CodePostconditionFailed
	m := memory(t, grant.MemoryConfig{Retention: time.Hour})
	if err := m.Seed([]grant.Claim{old, bare, full, same}, []grant.Effect{failed, ledgertest.NewEffect(1), ledgertest.NewEffect(9)}); err != nil {
		t.Fatal(err)
	}
	if m.Len() != 2 {
		t.Errorf("%d entries", m.Len())
	}
	// Other grants for the same proposals.
	c := ledgertest.NewClaim(4)
	c.Proposal = bare.Proposal
	want(t, m, c, grant.AlreadyClaimed, nil)
	c.Proposal, c.Attempt = full.Proposal, full.Attempt
	want(t, m, c, grant.AlreadyClaimed, nil)
	full.Outcome = failed.Outcome
	if got, err := m.Redemption(t.Context(), full.ID); err != nil || !reflect.DeepEqual(got, full) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := m.Attempt(t.Context(), bare.Proposal); err != nil || !reflect.DeepEqual(got, bare) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := m.Redemption(t.Context(), ""); !errors.Is(err, grant.ErrNotFound) {
		t.Errorf("a redemption without a name: %v", err)
	}
	if got, err := m.Settle(t.Context(), failed); got != grant.Repeated || err != nil {
		t.Error(got, err)
	}
	// What is old enough is forgotten, and retention counts from each claim.
	want(t, m, later(3, 0), grant.Claimed, nil)
	want(t, m, later(5, time.Hour), grant.Claimed, nil)
	if _, err := m.Attempt(t.Context(), bare.Proposal); !errors.Is(err, grant.ErrNotFound) {
		t.Errorf("not forgotten: %v", err)
	}
	if err := m.Seed([]grant.Claim{later(8, 0)}, nil); err == nil {
		t.Error("seeded while in use")
	}
}

func TestMemorySeedRefused(t *testing.T) {
	nameless, timeless := ledgertest.NewClaim(1), ledgertest.NewClaim(1)
	nameless.Proposal, timeless.Now = "", time.Time{}
	for name, claims := range map[string][]grant.Claim{
		"no proposal": {nameless}, "no time": {timeless}, "too many": {ledgertest.NewClaim(1), ledgertest.NewClaim(2), ledgertest.NewClaim(3)},
	} {
		err := memory(t, grant.MemoryConfig{MaxEntries: 2}).Seed(claims, nil)
		if err == nil || (name == "too many") != errors.Is(err, grant.ErrFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := memory(t, grant.MemoryConfig{}).Seed(nil, []grant.Effect{{Receipt: canon.Digest{1}}}); err == nil {
		t.Error("an effect that is none")
	}
}

// What a million entries leave behind does not grow with how often they came
// and went.
func TestMemoryChurn(t *testing.T) {
	m := memory(t, grant.MemoryConfig{MaxEntries: 200, Retention: 10 * time.Minute})
	for i := range 20_000 {
		c := later(i, time.Duration(i)*6*time.Second)
		c.Caller = fmt.Sprint("caller ", i%3)
		if got, err := m.Claim(context.Background(), c); got != grant.Claimed || err != nil {
			t.Fatal(i, got, err)
		}
		if i >= 200 && m.Len() != 100 {
			t.Fatalf("%d entries after %d claims, want those of ten minutes", m.Len(), i)
		}
	}
}

// The texts of the standings are for logs and for people.
func TestStanding(t *testing.T) {
	if fmt.Sprint(grant.Standing(0), grant.Claimed, grant.Repeated, grant.AlreadyClaimed, grant.Overtaken, grant.Standing(9)) !=
		"unknown claimed repeated already claimed overtaken unknown" {
		t.Error("a standing has another text")
	}
}
