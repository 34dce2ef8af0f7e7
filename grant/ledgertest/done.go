package ledgertest

import (
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/grant"
)

// What has had its effect under an idempotency key is not claimed under it again,
// by whichever attempt it had it; and whoever claimed under it before is told.
func testDone(t *testing.T, o *Opened) {
	attempt := func(n int) grant.Claim {
		c := NewClaim(n)
		c.Plan.IdempotencyKey = "K1"
		return c
	}
	stands := func(n int, outcome writ.Code, elsewhere bool) {
		t.Helper()
		want := attempt(n)
		want.Outcome = outcome
		for i := range o.Replicas {
			if got, err := o.any(i).Redemption(t.Context(), want.ID); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("redemption %d: %+v, %v", n, got, err)
			}
		}
		want.DoneElsewhere = elsewhere
		for i := range o.Replicas {
			if got, err := o.any(i).Attempt(t.Context(), want.Proposal); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("attempt %d: outcome %q, done elsewhere: %t, %v; want %q, %t", n, got.Outcome, got.DoneElsewhere, err, outcome, elsewhere)
			}
		}
	}
	for i := range 4 {
		claim(t, o.any(i), attempt(i+1), grant.Claimed)
	}
	failed := NewEffect(1)
	failed.Outcome = writ.CodePostconditionFailed
	settle(t, o.any(0), failed, grant.Claimed) // what failed may be tried again
	stands(2, "", false)
	claim(t, o.any(1), attempt(2), grant.Repeated)

	settle(t, o.any(1), NewEffect(3), grant.Claimed)
	stands(1, writ.CodePostconditionFailed, true)
	stands(2, "", true)
	stands(3, writ.CodeEffectVerified, false)
	for i := range o.Replicas {
		claim(t, o.any(i), attempt(1), grant.AlreadyClaimed)
		claim(t, o.any(i), attempt(2), grant.AlreadyClaimed)
		claim(t, o.any(i), attempt(3), grant.Repeated) // which had it
		claim(t, o.any(i), attempt(5), grant.AlreadyClaimed)
		notFound(t, o.any(i), attempt(5))
	}
	// Its effect seen once more, by another attempt: the first has had it.
	settle(t, o.any(0), NewEffect(2), grant.Claimed)
	stands(2, writ.CodeEffectVerified, true)
	stands(3, writ.CodeEffectVerified, false)
	stands(4, "", true)
	// Another key is another matter, and no key at all is nobody's.
	claim(t, o.any(1), NewClaim(5), grant.Claimed)
	for i := range 2 {
		bare := NewClaim(i + 6)
		bare.Plan.IdempotencyKey = ""
		claim(t, o.any(i), bare, grant.Claimed)
		settle(t, o.any(i), NewEffect(i+6), grant.Claimed)
		claim(t, o.any(i), bare, grant.Repeated)
	}
}

// Of an effect and a claim under one key, either comes first: nothing is claimed
// once it is acknowledged that there is nothing left to do.
func testRaceDone(t *testing.T, o *Opened) {
	for round := range races {
		at := 1000 * (round + 1)
		first := NewClaim(at)
		claim(t, o.any(round), first, grant.Claimed)
		var done atomic.Bool
		race(o, racers, func(l grant.Ledger, i int) {
			if i == racers/2 {
				if got, err := l.Settle(t.Context(), NewEffect(at)); err != nil || got != grant.Claimed {
					t.Errorf("settled: %v, %v", got, err)
				}
				done.Store(true)
				return
			}
			c := NewClaim(at + i + 1)
			c.Plan.IdempotencyKey = first.Plan.IdempotencyKey
			before := done.Load()
			switch got, err := l.Claim(t.Context(), c); {
			case err != nil || got != grant.Claimed && got != grant.AlreadyClaimed:
				t.Errorf("%v, %v", got, err)
			case got == grant.Claimed && before:
				t.Error("claimed though its effect was verified before")
			}
		})
		claim(t, o.any(round), NewClaim(at+racers+1), grant.Claimed)
		last := NewClaim(at + racers + 2)
		last.Plan.IdempotencyKey = first.Plan.IdempotencyKey
		claim(t, o.any(round+1), last, grant.AlreadyClaimed)
	}
}
