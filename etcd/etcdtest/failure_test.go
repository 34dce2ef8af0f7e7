package etcdtest_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
)

// advance pushes and revokes, and waits until all have it.
func advance(t *testing.T, p pusher, by *replica, all []*replica) {
	t.Helper()
	at := by.at()
	out := p.push(version(int(at.Generation) + 1000))
	added := by.append(intent(fmt.Sprintf("i%d", at.Sequence+1)))
	for _, r := range all {
		r.await(out.Generation.Number, added[0].Sequence)
	}
}

func TestMembersLost(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	replicas := startReplicas(t, c, 3)
	p := newPusher(t, c)
	advance(t, p, replicas[0], replicas)

	leader := c.Leader()
	follower := c.Other(leader)
	c.Stop(follower)
	advance(t, p, replicas[1], replicas)
	c.Restart(follower)
	for _, r := range replicas {
		r.awaitHeard()
	}

	leader = c.Leader()
	c.Stop(leader)
	advance(t, p, replicas[2], replicas)
	c.Restart(leader)
	advance(t, p, replicas[0], replicas)
	for _, r := range replicas {
		r.awaitHeard()
		if err := r.Status().Fault; err != nil {
			t.Error(err)
		}
	}
}

func TestAllMembersRestarted(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	replicas := startReplicas(t, c, 2)
	p := newPusher(t, c)
	advance(t, p, replicas[0], replicas)
	held := replicas[0].holder.Load()
	c.RestartAll(func() {
		if replicas[0].holder.Load() != held {
			t.Error("the last world is gone with etcd")
		}
		eventually(t, func() error {
			if replicas[0].Status().Fault == nil {
				return fmt.Errorf("etcd is gone and nobody says so")
			}
			return nil
		})
	})
	for _, r := range replicas {
		r.awaitHeard()
	}
	advance(t, p, replicas[1], replicas)
}

// A replica whose only member has lost the others hears nothing more, although
// that member answers; and comes back.
func TestPartitionedMember(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	w := &worlds{}
	leader := c.Leader()
	alone := startReplica(t, w, config(c, leader))
	replicas := []*replica{alone, startReplica(t, w, config(c, c.Other(leader)))}
	p := newPusher(t, c)
	advance(t, p, replicas[1], replicas)

	c.Isolate(leader, true)
	cut := time.Now()
	c.Leader()
	others := replicas[1:]
	advance(t, p, replicas[1], others)
	eventually(t, func() error {
		if alone.Status().Fault == nil {
			return fmt.Errorf("a replica of a member that is cut off says that it follows etcd")
		}
		return nil
	})
	// A read that began before the cut may have been answered then.
	if heard := alone.holder.HeardAt(); heard.After(cut.Add(time.Second)) {
		t.Errorf("a member that was cut off at %v was heard at %v", cut, heard)
	}
	if at := alone.at(); at.Generation != 1 {
		t.Errorf("a replica that is cut off went to %v", at)
	}
	c.Isolate(leader, false)
	alone.await(2, 2)
	alone.awaitHeard()
	advance(t, p, alone, replicas)
}

// Packets between a replica and the member that it watches are lost: it goes on
// with another.
func TestSilentMember(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	replicas := startReplicas(t, c, 3)
	p := newPusher(t, c)
	advance(t, p, replicas[0], replicas)
	for i, m := range c.Members[:2] {
		m.Client.Silence(true)
		advance(t, p, replicas[i], replicas)
		for _, r := range replicas {
			r.awaitHeard()
		}
		m.Client.Silence(false)
	}
	advance(t, p, replicas[0], replicas)
}

func TestSlow(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	replicas := startReplicas(t, c, 2)
	p := newPusher(t, c)
	for _, m := range c.Members {
		m.Client.SetDelay(100 * time.Millisecond)
	}
	advance(t, p, replicas[0], replicas)
	for _, r := range replicas {
		r.awaitHeard()
	}
}

// What comes next has been compacted away while a replica was disconnected: it
// reads everything anew.
func TestCompacted(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	w := &worlds{}
	away := startReplica(t, w, config(c, c.Members[0]))
	there := startReplica(t, w, config(c, c.Members[1:]...))
	p := newPusher(t, c)
	advance(t, p, away, []*replica{away, there})

	c.Members[0].Client.Refuse(true)
	for range 3 {
		advance(t, p, there, []*replica{there})
	}
	there.append(lift("i1"))
	raw := c.Raw()
	got, err := raw.Get(t.Context(), "/writ/state/source")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Compact(t.Context(), got.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if at := away.at(); at.Generation != 1 {
		t.Errorf("a replica that is away went to %v", at)
	}
	c.Members[0].Client.Refuse(false)
	away.await(4, 5)
	if away.revokes(intent("i1")) || !away.revokes(intent("i2")) {
		t.Error("the log is not as it was written")
	}
	away.awaitHeard()
	advance(t, p, away, []*replica{away, there})
}

func TestFull(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1, Quota: 16 << 20})
	replicas := startReplicas(t, c, 1)
	r, p := replicas[0], newPusher(t, c)
	advance(t, p, r, replicas)
	raw := c.Raw()
	filler := string(make([]byte, 1<<20))
	for i := 0; ; i++ {
		if _, err := raw.Put(t.Context(), fmt.Sprintf("filler/%d", i), filler); err != nil {
			break
		}
		if i == 100 {
			t.Fatal("etcd does not become full")
		}
	}
	_, err := r.Append(t.Context(), slicesOf(intent("i2")))
	mustFail(t, err, "alarm disarm")
	_, err = p.Push(t.Context(), version(2), etcd.PushOptions{})
	mustFail(t, err, "NOSPACE")
	if at := r.at(); at.Generation != 1 || at.Sequence != 1 {
		t.Errorf("at %v", at)
	}
	r.awaitHeard()

	got, err := raw.Delete(t.Context(), "filler/", clientPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Compact(t.Context(), got.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Defragment(t.Context(), c.Members[0].Client.Addr()); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	advance(t, p, r, replicas)
}

// etcd is brought back from a copy that is older than what a replica has shown:
// it shows nothing older, and says so.
func TestBackup(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	replicas := startReplicas(t, c, 1)
	r, p := replicas[0], newPusher(t, c)
	advance(t, p, r, replicas)
	backup := filepath.Join(t.TempDir(), "backup")
	c.RestartAll(func() { etcdtest.Copy(t, c.Members[0].Dir, backup) })
	r.awaitHeard()
	advance(t, p, r, replicas)
	c.RestartAll(func() { etcdtest.Copy(t, backup, c.Members[0].Dir) })
	eventually(t, func() error {
		if err := r.follower.Status().Fault; err == nil {
			return fmt.Errorf("etcd went back and nobody says so: %+v", r.Status())
		}
		return nil
	})
	mustFail(t, r.follower.Status().Fault, "backup")
	if at := r.at(); at.Generation != 2 || at.Sequence != 2 {
		t.Errorf("at %v", at)
	}
	heard := r.holder.HeardAt()
	time.Sleep(500 * time.Millisecond)
	if r.holder.HeardAt() != heard {
		t.Error("an older etcd counts as heard of")
	}
}

// The same while the replica can't see it, and etcd has gone on since: what it
// says then does not fit onto what the replica has shown.
func TestBackupUnseen(t *testing.T) {
	t.Parallel()
	t.Run("Further", func(t *testing.T) { backupUnseen(t, true) })
	t.Run("Elsewhere", func(t *testing.T) { backupUnseen(t, false) })
}

func backupUnseen(t *testing.T, further bool) {
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	p := newPusher(t, c)
	way := etcdtest.NewProxy(t, c.Members[0].Client.Addr())
	cfg := config(c)
	cfg.Endpoints = []string{way.Addr()}
	r := startReplica(t, &worlds{}, cfg)
	advance(t, p, r, []*replica{r})
	backup := filepath.Join(t.TempDir(), "backup")
	c.RestartAll(func() { etcdtest.Copy(t, c.Members[0].Dir, backup) })
	r.awaitHeard()
	advance(t, p, r, []*replica{r})

	way.Refuse(true)
	c.RestartAll(func() { etcdtest.Copy(t, backup, c.Members[0].Dir) })
	if further {
		other := startReplica(t, &worlds{}, config(c))
		for range 5 {
			advance(t, p, other, []*replica{other})
		}
	} else { // others' keys move etcd's revision on
		raw := c.Raw()
		for range 20 {
			if _, err := raw.Put(t.Context(), "others", "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	way.Refuse(false)
	eventually(t, func() error {
		if err := r.follower.Status().Fault; err == nil {
			return fmt.Errorf("etcd has another history and nobody says so: %+v", r.Status())
		}
		return nil
	})
	if at := r.at(); at.Generation != 2 || at.Sequence != 2 {
		t.Errorf("at %v", at)
	}
	heard := r.holder.HeardAt()
	time.Sleep(300 * time.Millisecond)
	if r.holder.HeardAt() != heard {
		t.Error("another history counts as heard of")
	}
}

// The replica of one cluster meets another.
func TestAnotherCluster(t *testing.T) {
	t.Parallel()
	one, other := etcdtest.Start(t, etcdtest.Config{Members: 1}), etcdtest.Start(t, etcdtest.Config{Members: 1})
	replicas := startReplicas(t, one, 1)
	r := replicas[0]
	advance(t, newPusher(t, one), r, replicas)
	p := newPusher(t, other)
	for i := range 10 {
		p.push(version(i))
	}
	one.Members[0].Client.Redirect(other.Members[0].Client.Addr())
	eventually(t, func() error {
		if err := r.follower.Status().Fault; err == nil {
			return fmt.Errorf("another cluster answers and nobody says so: %+v", r.Status())
		}
		return nil
	})
	mustFail(t, r.follower.Status().Fault, "another cluster")
	if at := r.at(); at.Generation != 1 {
		t.Errorf("at %v", at)
	}
	if _, err := r.Append(t.Context(), slicesOf(intent("x"))); err == nil {
		t.Error("a revocation went to another cluster")
	}
}

// A server that starts while etcd can't be reached fails, and says what to do.
// Somebody is there, and silent.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = etcd.Open(ctx, etcd.Config{Endpoints: []string{silent.Addr().String()}, RequestTimeout: 100 * time.Millisecond})
	mustFail(t, err, "endpoints or certificates are wrong")
}
