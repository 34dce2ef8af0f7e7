package etcdtest_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
)

// Three replicas share a ledger in three members of etcd, each a process. Members
// are killed, paused and cut off, answers are lost, replicas are killed, clocks
// step, and leases are revoked early.
func TestLinearizableEtcd(t *testing.T) {
	t.Parallel()
	enough, most := operations(t, 1_000_000, 20*time.Second)
	c := etcdtest.Start(t, etcdtest.Config{Processes: true, Quota: 8 << 30})
	cfg := config(c)
	cfg.RequestTimeout = 500 * time.Millisecond
	raw := c.Raw()
	revoke := openLog(t, cfg)
	s := &system{revoke: revoke, head: func(ctx context.Context) (uint64, error) {
		got, err := raw.Get(ctx, "/writ/state/sequence")
		if err != nil || len(got.Kvs) == 0 {
			return 0, err
		}
		digits, _, _ := strings.Cut(string(got.Kvs[0].Value), " ")
		return strconv.ParseUint(digits, 10, 64)
	}}
	start := func(n *node) {
		for {
			l := &life{}
			l.ctx, l.end = context.WithCancel(context.Background())
			client, err := etcd.Dial(cfg)
			if err != nil {
				t.Error(err)
				return
			}
			opening, cancel := context.WithTimeout(l.ctx, soon)
			ledger, err := etcd.OpenLedger(opening, client, etcd.LedgerConfig{Retention: retention})
			cancel()
			end := l.end
			l.end = func() {
				end()
				_ = client.Close() // as if killed
			}
			if err == nil {
				l.ledger = ledger
				n.life.Store(l)
				return
			}
			l.end()
		}
	}
	for range 3 {
		n := &node{}
		start(n)
		s.nodes = append(s.nodes, n)
	}
	x := &troubles{t: t, c: c, s: s, raw: raw, start: start}
	s.run(t, 48, enough, most, x.make, x.heal)
	for _, n := range s.nodes {
		n.life.Load().end()
	}
	t.Logf("troubles: %v; %d entries were forgotten", x.done, x.swept.Load())
	if err := s.nodes[0].life.Load().ctx.Err(); err == nil {
		t.Error("a replica goes on")
	}
}

// troubles are what goes wrong.
type troubles struct {
	t     *testing.T
	c     *etcdtest.Cluster
	s     *system
	raw   *clientv3.Client
	start func(*node)
	done  map[string]int
	swept atomic.Int64
}

// make makes trouble until it is told to stop, one after another, with some calm
// between.
func (x *troubles) make(stop <-chan struct{}) {
	x.done = map[string]int{}
	sweeping, end := context.WithCancel(context.Background())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for wait(stop, 300*time.Millisecond) {
			n := x.s.nodes[rand.IntN(len(x.s.nodes))]
			ledger := n.life.Load().ledger.(*etcd.Ledger)
			ctx, cancel := context.WithTimeout(sweeping, 5*time.Second)
			removed, _ := ledger.Sweep(ctx, x.s.now().Add(time.Duration(n.skew.Load())))
			cancel()
			x.swept.Add(int64(removed))
		}
	}()
	for wait(stop, rand.N(600*time.Millisecond)) {
		m := x.c.Members[rand.IntN(len(x.c.Members))]
		n := x.s.nodes[rand.IntN(len(x.s.nodes))]
		last := 300*time.Millisecond + rand.N(1500*time.Millisecond)
		n.step()
		name := ""
		switch rand.IntN(10) {
		case 0:
			name = "member killed"
			x.c.Stop(m)
			wait(stop, last)
			x.c.Restart(m)
		case 1:
			name = "member paused"
			x.c.Pause(m, true)
			wait(stop, last)
			x.c.Pause(m, false)
		case 2:
			name = "member cut off"
			x.c.Isolate(m, true)
			wait(stop, last)
			x.c.Isolate(m, false)
		case 3:
			name = "answers lost"
			m.Client.Mute(true)
			wait(stop, last)
			m.Client.Mute(false)
		case 4:
			name = "packets lost"
			m.Client.Silence(true)
			wait(stop, last)
			m.Client.Silence(false)
		case 5, 6:
			name = "replica killed"
			n.life.Load().end()
			x.start(n)
		case 7, 8:
			name = "leases revoked"
			x.revokeLeases()
		case 9:
			if rand.IntN(3) > 0 {
				continue
			}
			name = "all members killed"
			x.c.RestartAll(func() {})
		}
		x.done[name]++
	}
	end()
	<-finished
}

func (x *troubles) revokeLeases() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	all, err := x.raw.Leases(ctx)
	if err != nil {
		return
	}
	for _, lease := range all.Leases {
		_, _ = x.raw.Revoke(ctx, lease.ID)
	}
}

// heal waits until etcd answers again, and sets the clocks right.
func (x *troubles) heal() {
	for _, n := range x.s.nodes {
		n.skew.Store(0)
	}
	eventually(x.t, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := x.s.head(ctx)
		return err
	})
}
