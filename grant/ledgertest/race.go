package ledgertest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writ-pdp/writ/grant"
)

// race runs n at once, at all replicas.
func race(o *Opened, n int, f func(l grant.Ledger, i int)) {
	var group sync.WaitGroup
	began := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-began
			f(o.any(i), i)
		})
	}
	close(began)
	group.Wait()
}

const (
	racers = 16
	races  = 10
)

// Of many who claim one grant, or one proposal, or one id, exactly one does.
func testRace(t *testing.T, o *Opened) {
	for round := range races {
		for which, mix := range []func(c *grant.Claim, shared *grant.Claim){
			func(c, shared *grant.Claim) { c.Grant = shared.Grant },
			func(c, shared *grant.Claim) { c.Proposal = shared.Proposal },
			func(c, shared *grant.Claim) { c.ID = shared.ID },
			func(c, shared *grant.Claim) { c.Grant, c.Proposal = shared.Grant, shared.Proposal },
		} {
			at := 1000 * (10*round + which + 1)
			shared := NewClaim(at)
			var won atomic.Int64
			race(o, racers, func(l grant.Ledger, i int) {
				c := NewClaim(at + i/2 + 1) // two of each attempt
				c.ID += fmt.Sprint("-", i)
				mix(&c, &shared)
				switch got, err := l.Claim(t.Context(), c); {
				case err != nil || got == grant.Unknown || got == grant.Overtaken:
					t.Errorf("%v, %v", got, err)
				case got == grant.Claimed:
					won.Add(1)
				}
			})
			if won.Load() != 1 {
				t.Fatalf("race %d.%d was won by %d", round, which, won.Load())
			}
		}
	}
}

// Once a revocation is acknowledged, nobody claims who does not know of it.
func testRaceRevoked(t *testing.T, o *Opened) {
	var known, told atomic.Uint64
	for round := range races {
		race(o, racers, func(l grant.Ledger, i int) {
			if i == racers/2 {
				next := o.Revoke()
				known.Store(next)
				told.Store(next)
				return
			}
			c := NewClaim(1000*(round+1) + i)
			c.Revocations = known.Load()
			before := told.Load()
			got, err := l.Claim(t.Context(), c)
			if err != nil || got != grant.Claimed && got != grant.Overtaken {
				t.Errorf("%v, %v", got, err)
			}
			if got == grant.Claimed && c.Revocations < before {
				t.Errorf("claimed with %d revocations, though %d were acknowledged before", c.Revocations, before)
			}
		})
	}
}

// Of many who settle with one effect, or settle one redemption, one does.
func testRaceEffect(t *testing.T, o *Opened) {
	for round := range races {
		at := 1000 * (round + 1)
		for i := range racers {
			claim(t, o.any(i), NewClaim(at+i), grant.Claimed)
		}
		for _, one := range []bool{true, false} {
			var won atomic.Int64
			race(o, racers, func(l grant.Ledger, i int) {
				e := NewEffect(at + i)
				if one {
					e.ID = fmt.Sprint("shared-", round)
				} else {
					e.Redemption, e.Observer = fmt.Sprintf("D%d", at+racers), fmt.Sprint("o", i)
				}
				switch got, err := l.Settle(t.Context(), e); {
				case err != nil || got == grant.Repeated:
					t.Errorf("%v, %v", got, err)
				case got == grant.Claimed:
					won.Add(1)
				}
			})
			if won.Load() != 1 {
				t.Fatalf("%d settled", won.Load())
			}
			if one {
				claim(t, o.any(0), NewClaim(at+racers), grant.Claimed)
			}
		}
	}
}
