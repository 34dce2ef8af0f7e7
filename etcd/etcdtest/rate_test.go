package etcdtest_test

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/grant/ledgertest"
)

// TestRedemptionRate measures, with three members that are processes and sync
// their logs, and three replicas, how many grants are redeemed in a second and
// how long each takes. It asserts nothing about times: make bench-etcd prints
// them.
func TestRedemptionRate(t *testing.T) {
	if os.Getenv("WRIT_ETCD_LATENCY") == "" {
		t.Skip("make bench-etcd")
	}
	c := etcdtest.Start(t, etcdtest.Config{Sync: true, Processes: true})
	cfg := config(c)
	cfg.RequestTimeout = 0 // as in earnest
	var replicas []*etcd.Ledger
	for range 3 {
		replicas = append(replicas, openLedger(t, cfg, etcd.LedgerConfig{}))
	}
	var serial atomic.Int64
	for _, callers := range []int{1, 8, 64, 256} {
		const most = 5 * time.Second
		var mu sync.Mutex
		var all []time.Duration
		began := time.Now()
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				var mine []time.Duration
				for time.Since(began) < most {
					claim := ledgertest.NewClaim(int(serial.Add(1)))
					asked := time.Now()
					if got, err := replicas[i%3].Claim(t.Context(), claim); got != grant.Claimed {
						t.Errorf("%v, %v", got, err)
						return
					}
					mine = append(mine, time.Since(asked))
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, mine...)
			})
		}
		group.Wait()
		took := time.Since(began)
		report(t, fmt.Sprintf("redeem: %d callers, %.0f a second", callers, float64(len(all))/took.Seconds()), all)
	}
}
