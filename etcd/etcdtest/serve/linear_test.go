package serve_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd/etcdtest"
	"github.com/writ-pdp/writ/etcd/etcdtest/history"
)

// calls is how many grants are minted and redemptions sent: as many as there is time
// for, which is short, or what WRIT_LINEARIZABLE_CALLS says, however long it
// takes; one test after the other then.
func calls(t *testing.T, most time.Duration) (int, time.Duration) {
	text := os.Getenv("WRIT_LINEARIZABLE_CALLS")
	if text == "" {
		t.Parallel()
		return 1_000_000, most
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n, 24 * time.Hour
}

// TestLinearizableReplicas: callers propose at, redeem from and revoke with
// three replicas on three members of etcd, while all of them are killed, paused
// and cut off, answers are lost, and bundles are pushed. What they were told could have
// happened one thing after another, and is in the logs.
func TestLinearizableReplicas(t *testing.T) {
	enough, most := calls(t, 12*time.Second)
	c := newCluster(t, etcdtest.Config{Processes: true, Quota: 8 << 30})
	replicas, proxies := c.replicas(3)
	s := &system{t: t, replicas: replicas}
	x := &troubles{s: s, c: c, proxies: proxies, done: map[string]int{}}
	s.run(t, 32, enough, most, x.make, x.push)
	t.Logf("troubles: %v; %d bundles were pushed", x.done, x.pushed)
}

// TestLinearizableServer: the same with one server, whose ledger is in its
// memory, and which is killed again and again.
func TestLinearizableServer(t *testing.T) {
	enough, most := calls(t, 6*time.Second)
	r := newReplica(t, "server", "--bundle", write(t, version(1)))
	r.mustStart()
	s := &system{t: t, replicas: []*replica{r}, alone: true}
	kills := 0
	s.run(t, 12, enough, most, func(stop <-chan struct{}) {
		for wait(stop, rand.N(1500*time.Millisecond)) {
			if rand.IntN(5) == 0 {
				r.pause(true)
				wait(stop, rand.N(500*time.Millisecond))
				r.pause(false)
				continue
			}
			r.kill()
			kills++
			r.mustStart()
		}
	})
	t.Logf("killed %d times", kills)
}

// run has callers call while troubles make trouble, and checks what they were
// told. Afterwards the replicas are stopped.
func (s *system) run(t *testing.T, callers, enough int, most time.Duration, troubles ...func(stop <-chan struct{})) {
	s.recorder, s.minted, s.codes = history.NewRecorder(), map[string]string{}, map[string]int{}
	began := time.Now()
	stop := make(chan struct{})
	var calling, beside sync.WaitGroup
	for id := range revokers {
		beside.Go(func() { s.revoker(id, stop) })
	}
	for _, trouble := range troubles {
		beside.Go(func() { trouble(stop) })
	}
	for id := range callers {
		calling.Go(func() { s.caller(id, enough, began.Add(most)) })
	}
	calling.Wait()
	close(stop)
	beside.Wait()
	took := time.Since(began).Round(time.Millisecond)
	for _, r := range s.replicas {
		if r.ended() {
			t.Errorf("%s has ended by itself", r.name)
		}
		r.stop()
	}
	checking := time.Now()
	all := s.recorder.Operations()
	if err := history.Check(all, 0); err != nil {
		t.Error(err)
	}
	records := s.checkLogs()
	t.Logf("%s in %v; %d answers let somebody act, %d records say so; checked in %v", history.Counts(all), took, len(s.acts), records, time.Since(checking).Round(time.Millisecond))
	t.Logf("answers: %v", s.codes)
	for _, must := range []string{"mint ALLOW", "redeem REDEEMED", "redeem GRANT_ALREADY_USED", "redeem GRANT_REVOKED"} {
		if s.codes[must] == 0 {
			t.Error(fmt.Sprint("there was no ", must))
		}
	}
}
