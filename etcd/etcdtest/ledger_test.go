package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/grant/ledgertest"
)

var _ grant.Ledger = (*etcd.Ledger)(nil)

// openLedger opens the ledger under a prefix as one more replica.
func openLedger(t testing.TB, cfg etcd.Config, settings etcd.LedgerConfig) *etcd.Ledger {
	t.Helper()
	c, err := etcd.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	l, err := etcd.OpenLedger(ctx, c, settings)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// openLog opens the revocation log under a prefix, and returns what adds an
// entry and its sequence.
func openLog(t testing.TB, cfg etcd.Config) func(ctx context.Context) (uint64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	source, err := etcd.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context) (uint64, error) {
		added, err := source.Append(ctx, slicesOf(intent("i")))
		if err != nil {
			return 0, err
		}
		return added[0].Sequence, nil
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	var n atomic.Int64
	ledgertest.Test(t, func(t *testing.T) *ledgertest.Opened {
		cfg := config(c)
		cfg.Prefix = fmt.Sprintf("/ledger-%d/", n.Add(1))
		o := &ledgertest.Opened{}
		for range 3 {
			o.Replicas = append(o.Replicas, openLedger(t, cfg, etcd.LedgerConfig{}))
		}
		revoke := openLog(t, cfg)
		o.Revoke = func() uint64 {
			sequence, err := revoke(t.Context())
			if err != nil {
				t.Error(err)
			}
			return sequence
		}
		return o
	})
}

func claims(t *testing.T, l grant.Ledger, c grant.Claim, want grant.Standing) {
	t.Helper()
	if got, err := l.Claim(t.Context(), c); err != nil || got != want {
		t.Errorf("claim %s: %v, %v; want %v", c.ID, got, err, want)
	}
}

// refuses fails unless a claim is denied with an error that says why.
func refuses(t *testing.T, l grant.Ledger, c grant.Claim, why string) {
	t.Helper()
	got, err := l.Claim(t.Context(), c)
	if got != grant.Unknown {
		t.Errorf("claim %s: %v", c.ID, got)
	}
	mustFail(t, err, why)
}

// Leases that are revoked early make nothing forgotten, and neither does a clock
// that is ahead; what is due by both is.
func TestLedgerForgets(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	l, raw := openLedger(t, config(c), etcd.LedgerConfig{Retention: time.Hour}), c.Raw()
	one := ledgertest.NewClaim(1)
	claims(t, l, one, grant.Claimed)
	e := ledgertest.NewEffect(1)
	if got, err := l.Settle(t.Context(), e); got != grant.Claimed || err != nil {
		t.Fatal(got, err)
	}
	sweep := func(now time.Time, want int) {
		t.Helper()
		if n, err := l.Sweep(t.Context(), now); n != want || err != nil {
			t.Errorf("removed %d, %v; want %d", n, err, want)
		}
	}
	late := one.Now.Add(3 * time.Hour)
	sweep(late, 0) // the timer runs

	leases, err := raw.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("%d leases, %v; want one for all that is due within an hour", len(leases.Leases), err)
	}
	if left, err := raw.TimeToLive(t.Context(), leases.Leases[0].ID); err != nil || left.TTL < 3600-60 {
		t.Errorf("%d s are left, %v", left.TTL, err)
	}
	if _, err := raw.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	other := one
	other.Attempt = ledgertest.Attempt(2)
	claims(t, l, other, grant.AlreadyClaimed)
	claims(t, l, one, grant.Repeated)
	sweep(one.Now.Add(time.Hour), 0) // the clock is not there yet
	claims(t, l, other, grant.AlreadyClaimed)
	claims(t, l, ledgertest.NewClaim(2), grant.Claimed) // and sets the timer again
	sweep(late, 0)

	leases, err = raw.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatal(leases, err)
	}
	if _, err := raw.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	sweep(late, 4) // two redemptions, a settlement, and its idempotency key
	got, err := raw.Get(t.Context(), "/writ/ledger/", clientPrefix)
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Key) != "/writ/ledger/instance" {
		t.Errorf("%v, %v is left", got.Kvs, err)
	}
	next := ledgertest.NewClaim(1)
	next.Now, next.Expires = late, late.Add(time.Minute)
	claims(t, l, next, grant.Claimed)
	sweep(late, 0)
}

// That an effect was verified is remembered for as long as any attempt that was
// claimed under its key before.
func TestLedgerKeepsDone(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	l, raw := openLedger(t, config(c), etcd.LedgerConfig{Retention: time.Hour}), c.Raw()
	attempt := func(n int, after time.Duration) grant.Claim {
		c := ledgertest.NewClaim(n)
		c.Plan.IdempotencyKey = "K1"
		c.Now, c.Expires = c.Now.Add(after), c.Expires.Add(after)
		return c
	}
	sweep := func(after time.Duration, want int) {
		t.Helper()
		if _, err := raw.Delete(t.Context(), "/writ/ledger/timers/", clientPrefix); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Sweep(t.Context(), attempt(0, after).Now); n != want || err != nil {
			t.Errorf("%v later: removed %d, %v; want %d", after, n, err, want)
		}
	}
	claims(t, l, attempt(1, 0), grant.Claimed)
	claims(t, l, attempt(2, 2*time.Hour), grant.Claimed)
	e := ledgertest.NewEffect(1)
	e.Now = attempt(2, 2*time.Hour).Now
	if got, err := l.Settle(t.Context(), e); got != grant.Claimed || err != nil {
		t.Fatal(got, err)
	}
	sweep(3*time.Hour-10*time.Minute, 2) // the first attempt, and what settled it
	claims(t, l, attempt(3, 3*time.Hour-10*time.Minute), grant.AlreadyClaimed)
	if found, err := l.Attempt(t.Context(), attempt(2, 0).Proposal); err != nil || !found.DoneElsewhere {
		t.Errorf("%+v, %v", found, err)
	}
	sweep(4*time.Hour, 2) // the second, and the key
	claims(t, l, attempt(3, 4*time.Hour), grant.Claimed)
}

// Many are forgotten in several transactions.
func TestLedgerForgetsMany(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	l, raw := openLedger(t, config(c), etcd.LedgerConfig{Retention: time.Hour}), c.Raw()
	const n = 60
	for i := range n {
		ago := -time.Duration(2-i*3/n) * time.Hour
		at := ledgertest.NewClaim(i)
		at.Now, at.Expires = at.Now.Add(ago), at.Expires.Add(ago)
		claims(t, l, at, grant.Claimed)
		e := ledgertest.NewEffect(i)
		e.Now = at.Now
		if got, err := l.Settle(t.Context(), e); got != grant.Claimed || err != nil {
			t.Fatal(got, err)
		}
	}
	if _, err := raw.Delete(t.Context(), "/writ/ledger/timers/", clientPrefix); err != nil {
		t.Fatal(err)
	}
	total := 0
	for h := range 3 {
		removed, err := l.Sweep(t.Context(), ledgertest.NewClaim(0).Now.Add(time.Duration(h)*time.Hour))
		if err != nil || removed != 3*n/3 {
			t.Errorf("hour %d: removed %d, %v", h, removed, err)
		}
		total += removed
	}
	if total != 3*n {
		t.Errorf("removed %d", total)
	}
}

// Answers are lost: what was claimed is the attempt's, and nobody is told twice
// that it is theirs.
func TestLedgerLostAnswers(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	way := etcdtest.NewProxy(t, c.Members[0].Client.Addr())
	cfg := config(c)
	cfg.Endpoints, cfg.RequestTimeout = []string{way.Addr()}, 200*time.Millisecond
	l, sure := openLedger(t, cfg, etcd.LedgerConfig{}), openLedger(t, config(c), etcd.LedgerConfig{})
	claims(t, l, ledgertest.NewClaim(0), grant.Claimed)

	// The connection passes one request on, and breaks with its answer.
	way.Mute(true)
	answer := make(chan grant.Standing, 1)
	two := ledgertest.NewClaim(2)
	go func() {
		got, err := l.Claim(t.Context(), two)
		if err != nil {
			t.Error(err)
		}
		answer <- got
	}()
	eventually(t, func() error {
		_, err := sure.Redemption(t.Context(), two.ID)
		return err
	})
	stranger := two
	stranger.Attempt, stranger.ID = ledgertest.Attempt(9), "D9"
	claims(t, sure, stranger, grant.AlreadyClaimed)
	claims(t, sure, two, grant.Repeated)
	way.Mute(false)
	if got := <-answer; got != grant.Claimed {
		t.Errorf("whose answer was lost is told %v", got)
	}

	one := ledgertest.NewClaim(1)
	way.Mute(true)
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	got, err := l.Claim(short, one)
	if got != grant.Unknown {
		t.Errorf("no answer: %v, %v", got, err)
	}
	mustFail(t, err, "unknown whether")
	way.Mute(false)
	claims(t, l, one, grant.Repeated) // it has reached etcd
	// Judged before a revocation, claimed before it, and told after it.
	revoke := openLog(t, config(c))
	three := ledgertest.NewClaim(3)
	way.Mute(true)
	go func() {
		got, err := l.Claim(t.Context(), three)
		if err != nil {
			t.Error(err)
		}
		answer <- got
	}()
	eventually(t, func() error {
		_, err := sure.Redemption(t.Context(), three.ID)
		return err
	})
	if _, err := revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	way.Mute(false)
	if got := <-answer; got != grant.Overtaken {
		t.Errorf("who has not heard of a revocation is told %v", got)
	}
	three.Revocations = 1
	claims(t, l, three, grant.Repeated)
}

func TestLedgerNoSpace(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1, Quota: 16 << 20})
	l, raw := openLedger(t, config(c), etcd.LedgerConfig{}), c.Raw()
	claims(t, l, ledgertest.NewClaim(1), grant.Claimed)
	for i := 0; ; i++ {
		if _, err := raw.Put(t.Context(), fmt.Sprintf("filler/%d", i), string(make([]byte, 1<<20))); err != nil {
			break
		}
		if i == 100 {
			t.Fatal("etcd does not become full")
		}
	}
	got, err := l.Claim(t.Context(), ledgertest.NewClaim(2))
	if got != grant.Unknown || !errors.Is(err, grant.ErrFull) {
		t.Errorf("%v, %v", got, err)
	}
	got, err = l.Settle(t.Context(), ledgertest.NewEffect(1))
	if got != grant.Unknown || !errors.Is(err, grant.ErrFull) {
		t.Errorf("%v, %v", got, err)
	}
	if c, err := l.Redemption(t.Context(), "D1"); err != nil || c.ID != "D1" {
		t.Errorf("%v, %v", c, err)
	}
}

func TestLedgerConfig(t *testing.T) {
	t.Parallel()
	c, err := etcd.Dial(etcd.Config{Endpoints: []string{"127.0.0.1:1"}, RequestTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, d := range []time.Duration{-1, time.Second, grant.MaxRetention + 1} {
		if l, err := etcd.OpenLedger(t.Context(), c, etcd.LedgerConfig{Retention: d}); l != nil || err == nil {
			t.Errorf("retention %v: %v", d, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = etcd.OpenLedger(ctx, c, etcd.LedgerConfig{})
	mustFail(t, err, "opening the ledger")
}
