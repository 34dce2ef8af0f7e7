package etcdtest_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/etcd/etcdtest"
	"github.com/writ-pdp/writ/snapshot"
)

// rounds is how often a race is run: few, or what WRIT_ETCD_ROUNDS says.
func rounds(t *testing.T, few int) int {
	text := os.Getenv("WRIT_ETCD_ROUNDS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The "new enemy": somebody is revoked, and then a bundle grants something. No
// replica shows the bundle without the revocation. Neither is waited for.
func TestNewEnemy(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	replicas := startReplicas(t, c, 3)
	p := newPusher(t, c)
	p.push(version(0))
	before := make([]uint64, 2, 1000) // by generation: the entries that came before it
	for _, r := range replicas {
		r.await(1, 0)
	}
	n := rounds(t, 30)
	for i := range n {
		by := replicas[i%3]
		sequence := by.append(intent(fmt.Sprintf("enemy-%d", i)))[0].Sequence
		generation := p.push(version(i + 1)).Generation.Number
		if before = append(before, sequence); generation != uint64(len(before))-1 {
			t.Fatalf("generation %d", generation)
		}
	}
	for _, r := range replicas {
		r.await(uint64(n)+1, uint64(n))
	}
	shown := replicas[0].worlds
	shown.mu.Lock()
	defer shown.mu.Unlock()
	for text, standing := range shown.all {
		at, err := snapshot.ParseRevision(text)
		if err != nil {
			t.Fatal(err)
		}
		if standing.n < before[at.Generation] || at.Sequence < before[at.Generation] {
			t.Errorf("%s shows generation %d without entry %d", text, at.Generation, before[at.Generation])
		}
	}
	t.Logf("%d rounds, %d worlds were shown", n, len(shown.all))
}

// The other way round: a bundle takes something away, and then somebody is let
// back in. No replica shows the lift without the bundle.
func TestLiftAfterBundle(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	replicas := startReplicas(t, c, 3)
	p := newPusher(t, c)
	p.push(version(0))
	for _, r := range replicas {
		r.await(1, 0)
	}
	n := rounds(t, 20)
	for _, r := range replicas {
		r.mu.Lock()
		r.check = func(world *snapshot.Snapshot) {
			at, _ := snapshot.ParseRevision(world.Revision)
			for e := range world.Revocations.Entries(0) {
				var round uint64
				if _, err := fmt.Sscanf(e.ID, "back-%d", &round); err == nil && e.Lift && at.Generation < round+2 {
					t.Errorf("%s shows the lift of round %d", at, round)
				}
			}
		}
		r.mu.Unlock()
	}
	for i := range n {
		id := fmt.Sprintf("back-%d", i)
		replicas[i%3].append(intent(id))
		p.push(version(i + 1))
		replicas[(i+1)%3].append(lift(id))
	}
	for _, r := range replicas {
		r.await(uint64(n)+1, uint64(2*n))
		for i := range n {
			if r.revokes(intent(fmt.Sprintf("back-%d", i))) {
				t.Errorf("round %d is not lifted", i)
			}
		}
	}
}

// While a bundle is being built, what is revoked is in force at once, and what
// is lifted waits for it.
func TestRevokedWhileBuilding(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	replicas := startReplicas(t, c, 2)
	slow, fast := replicas[0], replicas[1]
	p := newPusher(t, c)
	p.push(version(1))
	fast.append(intent("a"))
	slow.await(1, 1)

	slow.hold(true)
	p.push(version(2))
	fast.await(2, 1)
	fast.append(intent("b"))
	fast.append(lift("a"))
	fast.append(intent("c"))
	slow.await(1, 4)
	if at := slow.at(); at.Generation != 1 {
		t.Fatalf("at %v", at)
	}
	if !slow.revokes(intent("b")) || !slow.revokes(intent("c")) {
		t.Error("a revocation waits for a bundle")
	}
	if !slow.revokes(intent("a")) {
		t.Error("a lift does not wait for the bundle before it")
	}
	if fast.revokes(intent("a")) {
		t.Error("not lifted where the bundle is in force")
	}
	// A further bundle and lift while the first is still being built.
	p.push(version(3))
	fast.append(lift("b"))
	slow.hold(false)
	slow.await(3, 5)
	if slow.revokes(intent("a")) || slow.revokes(intent("b")) || !slow.revokes(intent("c")) {
		t.Error("a lift still waits, though its bundle is in force")
	}
	slow.awaitHeard()
}

// A bundle that is refused keeps back what was lifted after it.
func TestLiftAfterRefusedBundle(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	replicas := startReplicas(t, c, 1)
	r, p := replicas[0], newPusher(t, c)
	group := bundle.File{Name: "entities/groups.json", Data: []byte(`[{"uid": {"type": "Group", "id": "g"}, "attrs": {}, "parents": []}]`)}
	p.push(version(1, group))
	r.append(intent("a"))
	r.await(1, 1)
	out := p.push(version(2)) // suddenly without any entity, which a server refuses
	eventually(t, func() error {
		if r.follower.Status().Fault == nil {
			return fmt.Errorf("generation %d is not refused", out.Generation.Number)
		}
		return nil
	})
	r.append(lift("a"))
	r.append(intent("b"))
	r.await(1, 3)
	if !r.revokes(intent("a")) || !r.revokes(intent("b")) {
		t.Error("lifted before the bundle that came before")
	}
	r.awaitHeard()
	p.push(version(3, group))
	r.await(3, 3)
	if r.revokes(intent("a")) {
		t.Error("still not lifted")
	}
}

// Bundles are pushed while every replica revokes and lifts: all come to the same
// end, by worlds that are the same wherever they have the same name.
func TestPushAndRevokeAtOnce(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	replicas := startReplicas(t, c, 3)
	p := newPusher(t, c)
	p.push(version(0))
	n := rounds(t, 20)
	var group sync.WaitGroup
	pushed := make(chan struct{})
	for i, r := range replicas {
		group.Go(func() {
			for j := 0; ; j++ {
				select {
				case <-pushed:
					return
				default:
				}
				time.Sleep(3 * time.Millisecond) // else entries, not races, take the time
				e := intent(fmt.Sprintf("%d-%d", i, j/2))
				e.Lift = j%2 == 1
				if _, err := r.Append(t.Context(), slicesOf(e)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	line := "- {kind: intent, id: line-%d, reason: r}\n"
	all := ""
	for i := range n {
		all += fmt.Sprintf(line, i)
		p.push(version(i+1, lines(all)))
	}
	close(pushed)
	group.Wait()
	last := replicas[0].append(intent("last"))[0].Sequence
	for _, r := range replicas {
		r.await(uint64(n)+1, last)
		r.awaitHeard()
		if r.holder.Load().Revision != replicas[0].holder.Load().Revision || r.follower.Status().Refusals > 0 {
			t.Errorf("%+v", r.follower.Status())
		}
		for i := range n {
			if !r.revokes(intent(fmt.Sprintf("line-%d", i))) {
				t.Errorf("line %d does not revoke", i)
			}
		}
	}
	t.Logf("%d pushes, %d entries", n, last)
}

// Replicas that revoke at once give each entry one number of its own.
func TestConcurrentRevocations(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	replicas := startReplicas(t, c, 3)
	newPusher(t, c).push(version(1))
	const each = 40
	numbers := make(chan []uint64)
	for i, r := range replicas {
		go func() {
			var mine []uint64
			for j := range each {
				added, err := r.Append(t.Context(), slicesOf(intent(fmt.Sprintf("%d-%d", i, j)), intent("both")))
				if err != nil || len(added) != 2 || added[1].Sequence != added[0].Sequence+1 || added[0].RecordedAt.IsZero() {
					t.Errorf("%+v %v", added, err)
					break
				}
				if !r.revokes(added[0]) {
					t.Error("not in force where it was accepted")
				}
				mine = append(mine, added[0].Sequence, added[1].Sequence)
			}
			numbers <- mine
		}()
	}
	seen := map[uint64]bool{}
	for range replicas {
		last := uint64(0)
		for _, n := range <-numbers {
			if n <= last || seen[n] || n > 3*each*2 {
				t.Errorf("number %d after %d", n, last)
			}
			last, seen[n] = n, true
		}
	}
	for _, r := range replicas {
		r.await(1, 3*each*2)
	}
}

// The answer to a revocation is lost, though etcd took it: it is asked for
// again, and recorded once.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	way := etcdtest.NewProxy(t, c.Members[0].Client.Addr())
	cfg := config(c)
	cfg.Endpoints = []string{way.Addr()}
	r := startReplica(t, &worlds{}, cfg)
	newPusher(t, c).push(version(1))
	r.await(1, 0)
	raw := c.Raw()
	for round := range uint64(5) {
		r.awaitHeard()
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			if added := r.append(intent(fmt.Sprint(round))); added[0].Sequence != round+1 {
				t.Errorf("entry %d is recorded as %d", round+1, added[0].Sequence)
			}
		}()
		way.Mute(true)
		eventually(t, func() error {
			got, err := raw.Get(t.Context(), "/writ/state/sequence")
			if err == nil && (len(got.Kvs) == 0 || got.Kvs[0].Version <= int64(round)) {
				err = fmt.Errorf("nothing is recorded")
				way.Mute(false) // it was closed before it had asked: let it ask again
				time.Sleep(20 * time.Millisecond)
				way.Mute(true)
			}
			return err
		})
		way.Mute(false)
		<-asked
	}
	r.await(1, 5)
	if at := r.at(); at.Sequence != 5 {
		t.Errorf("5 revocations are %d entries", at.Sequence)
	}
}
