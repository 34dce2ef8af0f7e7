package etcdtest_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ/grant"
)

// The ledger of one replica, which is killed and started again and again: what
// its log has is told to the next, and what was claimed and not recorded is gone.
func TestLinearizableMemory(t *testing.T) {
	t.Parallel()
	enough, most := operations(t, 60_000, 10*time.Second)
	var revoked atomic.Uint64
	var recording sync.RWMutex // recorders have it shared, and whoever kills has it alone
	var log []grant.Claim
	var adding sync.Mutex // guards log
	s := &system{
		nodes:  []*node{{}},
		revoke: func(context.Context) (uint64, error) { return revoked.Add(1), nil },
		head:   func(context.Context) (uint64, error) { return revoked.Load(), nil },
	}
	start := func() {
		m, err := grant.NewMemory(grant.MemoryConfig{Retention: retention, Revocations: revoked.Load})
		if err != nil {
			t.Error(err)
			return
		}
		adding.Lock()
		defer adding.Unlock()
		if err := m.Seed(log, nil); err != nil {
			t.Error(err)
			return
		}
		l := &life{ledger: m}
		l.ctx, l.end = context.WithCancel(context.Background())
		l.known.Store(revoked.Load())
		l.record = func(c *grant.Claim) bool {
			recording.RLock()
			defer recording.RUnlock()
			if l.ctx.Err() != nil {
				return false
			}
			adding.Lock()
			defer adding.Unlock()
			log = append(log, *c)
			return true
		}
		s.nodes[0].life.Store(l)
	}
	start()
	kill := func() {
		recording.Lock()
		s.nodes[0].life.Load().end()
		recording.Unlock()
		start()
	}
	kills := 0
	s.run(t, 8, enough, most, func(stop <-chan struct{}) {
		for wait(stop, rand.N(40*time.Millisecond)) {
			s.nodes[0].step()
			if rand.IntN(4) == 0 {
				kill()
				kills++
			}
			adding.Lock()
			// The log is read up to the retention, as at a start in earnest.
			for len(log) > 0 && log[0].Now.Before(s.now().Add(-2*retention)) {
				log = log[1:]
			}
			adding.Unlock()
		}
	}, func() { s.nodes[0].skew.Store(0) })
	s.nodes[0].life.Load().end()
	t.Logf("killed %d times", kills)
}
