package etcdtest_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd/etcdtest"
)

// TestLatency measures, with three members that sync their logs and three
// replicas, how long it takes from an accepted revocation until the last
// replica denies, and from a push until the last replica has its bundle. It
// asserts nothing about times: make bench-etcd prints them.
func TestLatency(t *testing.T) {
	if os.Getenv("WRIT_ETCD_LATENCY") == "" {
		t.Skip("make bench-etcd")
	}
	c := etcdtest.Start(t, etcdtest.Config{Sync: true})
	var replicas []*replica
	w := &worlds{}
	for range 3 {
		cfg := config(c)
		cfg.Probe, cfg.RequestTimeout = 0, 0 // as in earnest
		replicas = append(replicas, startReplica(t, w, cfg))
	}
	p := newPusher(t, c)
	p.push(version(0))
	for _, r := range replicas {
		r.await(1, 0)
	}
	last := func(began time.Time, there func(*replica) bool) time.Duration {
		for _, r := range replicas {
			for changed := r.holder.Changed(); !there(r); changed = r.holder.Changed() {
				select {
				case <-changed:
				case <-time.After(time.Millisecond): // it may have changed before
				}
			}
		}
		return time.Since(began)
	}
	const n = 500
	var calls, all []time.Duration
	for i := range n {
		e := intent(fmt.Sprintf("i%d", i))
		asked := time.Now()
		replicas[i%3].append(e)
		calls = append(calls, time.Since(asked))
		all = append(all, last(asked, func(r *replica) bool { return r.revokes(e) }))
	}
	report(t, "revoke: from the call until it returns (durable, in force at that replica)", calls)
	report(t, "revoke: from the call until all three replicas deny", all)
	var pushes []time.Duration
	for i := range 50 {
		began := time.Now()
		g := p.push(version(i + 1)).Generation.Number
		pushes = append(pushes, last(began, func(r *replica) bool { return r.at().Generation >= g }))
	}
	report(t, "push: from the call until all three replicas have it", pushes)
}

func report(t *testing.T, what string, all []time.Duration) {
	slices.Sort(all)
	at := func(q float64) time.Duration {
		return all[min(len(all)-1, int(q*float64(len(all))))].Round(10 * time.Microsecond)
	}
	t.Logf("%s: n=%d p50=%v p90=%v p99=%v max=%v", what, len(all), at(.5), at(.9), at(.99), all[len(all)-1].Round(10*time.Microsecond))
}
