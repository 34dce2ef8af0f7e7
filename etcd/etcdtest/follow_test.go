package etcdtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
)

func TestPushAndFollow(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	replicas := startReplicas(t, c, 3)
	p := newPusher(t, c)
	for _, r := range replicas {
		r.awaitHeard()
		if r.holder.Load() != nil {
			t.Error("there is a world before anything was pushed")
		}
	}
	first := p.push(version(1, lines("- {kind: intent, id: i1, reason: r}\n")))
	if first.Generation.Number != 1 || len(first.Revocations) != 1 || len(first.Added) != 4 {
		t.Errorf("%+v", first)
	}
	for _, r := range replicas {
		r.await(1, 1)
		if !r.revokes(intent("i1")) {
			t.Error("a line of revocations.yaml does not revoke")
		}
		if r.holder.Load().Revision != replicas[0].holder.Load().Revision {
			t.Error("replicas call one world by two names")
		}
	}
	if again := p.push(version(1, lines("- {kind: intent, id: i1, reason: r}\n"))); !again.Unchanged || again.Generation.Number != 1 {
		t.Errorf("pushed again: %+v", again)
	}
	second := p.push(version(2))
	if second.Generation.Number != 2 || second.Uploaded != 2 || len(second.Changed) != 1 || len(second.Removed) != 1 || second.Gone != 1 {
		t.Errorf("%+v", second)
	}
	for _, r := range replicas {
		r.await(2, 1)
		if !r.revokes(intent("i1")) {
			t.Error("taking a line out of revocations.yaml lifts")
		}
	}
	if third := p.push(version(3, lines("- {kind: intent, id: i1, reason: r}\n"))); len(third.Revocations) != 1 {
		t.Errorf("a line that comes back does not revoke again: %+v", third)
	}
	replicas[0].await(3, 2)
	for _, r := range replicas {
		r.awaitHeard()
	}
	late := startReplica(t, replicas[0].worlds, config(c))
	late.await(3, 2)
}

func TestFaultyBundleIsNotPushed(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	p := newPusher(t, c)
	files := version(1)
	files[2].Data = []byte("permit (principal, action, resource) when { context.nothing };")
	_, err := p.Push(t.Context(), files, etcd.PushOptions{})
	if faults, ok := errors.AsType[writ.Faults](err); !ok || len(faults.Errors()) == 0 {
		t.Fatalf("%v", err)
	}
	dry, err := p.Push(t.Context(), version(1, lines("- {kind: intent, id: i1, reason: r}\n")), etcd.PushOptions{DryRun: true})
	if err != nil || dry.Generation.Number != 1 || len(dry.Revocations) != 1 || dry.Uploaded != 5 {
		t.Errorf("%+v %v", dry, err)
	}
	got, err := c.Raw().Get(t.Context(), "", clientPrefix)
	if err != nil || len(got.Kvs) != 0 {
		t.Errorf("a faulty push and a dry run wrote %v, %v", got.Kvs, err)
	}
}

// A bundle of many pieces comes whole, and what has not changed is neither sent
// nor fetched again.
func TestLargeBundle(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	replicas := startReplicas(t, c, 1)
	p := newPusher(t, c)
	entities := bytes.NewBufferString("[")
	for i := range 60_000 {
		fmt.Fprintf(entities, "{\"uid\": {\"type\": \"Group\", \"id\": \"group-%d\"}, \"attrs\": {}, \"parents\": []},\n", i)
	}
	entities.WriteString(`{"uid": {"type": "Group", "id": "last"}, "attrs": {}, "parents": []}]`)
	large := bundle.File{Name: "entities/groups.json", Data: entities.Bytes()}
	if len(large.Data) < 3<<20 {
		t.Fatal(len(large.Data))
	}
	if out := p.push(version(1, large)); out.UploadedBytes < len(large.Data) {
		t.Errorf("%+v", out)
	}
	replicas[0].await(1, 0)
	if got := replicas[0].holder.Load().Entities.Len(); got < 60_001 {
		t.Errorf("%d entities", got)
	}
	sent := func() (n int64) {
		for _, m := range c.Members {
			n += m.Client.Sent()
		}
		return n
	}
	before := sent()
	if out := p.push(version(2, large)); out.UploadedBytes > 10_000 {
		t.Errorf("%+v", out)
	}
	replicas[0].await(2, 0)
	if n := sent() - before; n > 1<<20 {
		t.Errorf("%d bytes were fetched for a file of some 100", n)
	}
}

// A revocations.yaml that does not fit into one request becomes part of the log,
// and leaves it for no push.
func TestManyRevocations(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	replicas := startReplicas(t, c, 1)
	p := newPusher(t, c)
	const n = 12_000
	text := strings.Builder{}
	for i := range n {
		fmt.Fprintf(&text, "- {kind: intent, id: i%d}\n", i)
	}
	out := p.push(version(1, lines(text.String())))
	if len(out.Revocations) != n {
		t.Fatalf("%d entries were added", len(out.Revocations))
	}
	for i, e := range out.Revocations {
		if e.Sequence != uint64(i)+1 || e.ID != fmt.Sprintf("i%d", i) {
			t.Fatalf("entry %d is %+v", i, e)
		}
	}
	replicas[0].await(1, n)
	if out := p.push(version(2)); out.Gone != n || len(out.Revocations) != 0 {
		t.Errorf("%d lines have gone, %d entries were added", out.Gone, len(out.Revocations))
	}
	// Everything again, but after a lift: in one step or not at all.
	_, err := p.Push(t.Context(), version(3, lines("- {kind: intent, id: i1, lift: true}\n"+text.String())), etcd.PushOptions{})
	mustFail(t, err, "push it in several steps")
	replicas[0].await(2, n)
	late := startReplica(t, &worlds{}, config(c))
	late.await(2, n)
	if at := late.at(); at.Sequence != n {
		t.Errorf("at %v", at)
	}
}

func TestConcurrentPushes(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	replicas := startReplicas(t, c, 1)
	pushers := []pusher{newPusher(t, c), newPusher(t, c), newPusher(t, c)}
	pushers[0].push(version(0))
	won := uint64(1)
	for round := range 5 {
		errs := make(chan error)
		for i, p := range pushers {
			go func() {
				_, err := p.Push(t.Context(), version(10*round+i+1), etcd.PushOptions{By: fmt.Sprintf("p%d", i)})
				errs <- err
			}()
		}
		for range pushers {
			switch err := <-errs; {
			case err == nil:
				won++
			case !errors.Is(err, etcd.ErrConcurrent):
				t.Error(err)
			}
		}
	}
	all, current, err := pushers[0].Generations(t.Context())
	if err != nil || current != won || uint64(len(all)) != won {
		t.Errorf("%d pushes won, %d generations, current %d, %v", won, len(all), current, err)
	}
	if won == 1 {
		t.Error("no push won")
	}
	replicas[0].await(won, 0)
}

// A push that began before another one ended does not undo it unseen.
func TestPushOverAnother(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	fast, err := etcd.Dial(config(c, c.Members[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	cfg := config(c, c.Members[0])
	cfg.RequestTimeout = soon
	slow, err := etcd.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	c.Members[0].Client.SetDelay(50 * time.Millisecond)
	won := uint64(0)
	for i := range 40 {
		slowly := make(chan error)
		go func() {
			_, err := slow.Push(t.Context(), version(2*i), etcd.PushOptions{By: "slow"})
			slowly <- err
		}()
		time.Sleep(time.Duration(450+50*(i%20)) * time.Millisecond) // somewhere between its first read and its lock
		if _, err := fast.Push(t.Context(), version(2*i+1), etcd.PushOptions{By: "fast"}); err == nil {
			won++
		} else if !errors.Is(err, etcd.ErrConcurrent) {
			t.Error(err)
		}
		err := <-slowly
		if err == nil {
			won++
			continue
		}
		if !errors.Is(err, etcd.ErrConcurrent) {
			t.Error(err)
		}
		if strings.Contains(err.Error(), `by "fast" is current: look at it`) {
			if _, current, err := fast.Generations(t.Context()); err != nil || current != won {
				t.Errorf("%d pushes won, but generation %d is current, %v", won, current, err)
			}
			return
		}
	}
	t.Error("no push came between")
}

func TestRollback(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	replicas := startReplicas(t, c, 2)
	p := newPusher(t, c)
	one := p.push(version(1, lines("- {kind: intent, id: i1, reason: r}\n")))
	p.push(version(2, lines("- {kind: intent, id: i1, reason: r}\n- {kind: intent, id: i1, reason: r, lift: true}\n- {kind: intent, id: i2, reason: r}\n")))
	replicas[0].append(intent("i3"))
	back, err := p.Rollback(t.Context(), 1, etcd.PushOptions{By: "test"})
	if err != nil || back.Generation.Number != 3 || back.Generation.RollbackTo != 1 || back.Generation.Bundle != one.Generation.Bundle || len(back.Revocations) != 0 || back.Uploaded != 0 {
		t.Fatalf("%+v %v", back, err)
	}
	for _, r := range replicas {
		r.await(3, 4)
		if r.at().Bundle != one.Generation.Bundle {
			t.Error("another bundle is in force")
		}
		if r.revokes(intent("i1")) || !r.revokes(intent("i2")) || !r.revokes(intent("i3")) {
			t.Error("a rollback touched revocations")
		}
	}
	_, err = p.Rollback(t.Context(), 9, etcd.PushOptions{})
	mustFail(t, err, "there is no generation 9")
	if out, err := p.Rollback(t.Context(), 1, etcd.PushOptions{}); err != nil || !out.Unchanged || out.Generation.Number != 3 {
		t.Errorf("rolled back to what is in force: %+v %v", out, err)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	p := newPusher(t, c)
	raw := c.Raw()
	for i := range 5 {
		if _, err := p.Push(t.Context(), version(i), etcd.PushOptions{Keep: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if all, _, err := p.Generations(t.Context()); err != nil || len(all) != 5 {
		t.Errorf("within the grace %d are kept, %v", len(all), err)
	}
	time.Sleep(1100 * time.Millisecond) // pushes are noted to the second
	out, err := p.Push(t.Context(), version(5), etcd.PushOptions{Keep: 2, Grace: time.Nanosecond})
	if err != nil || fmt.Sprint(out.Pruned) != "[1 2 3 4]" || out.PruneFault != nil {
		t.Fatalf("%+v %v", out, err)
	}
	// Two generations: two lists, two policies and the two files that all share.
	files, err := raw.Get(t.Context(), "/writ/files/", clientPrefix)
	if err != nil || len(files.Kvs) != 6 {
		t.Errorf("%d files are kept, %v", len(files.Kvs), err)
	}
	r := startReplica(t, &worlds{}, config(c))
	r.await(6, 0)
	if _, err := p.Rollback(t.Context(), 5, etcd.PushOptions{}); err != nil {
		t.Error(err)
	}
	_, err = p.Rollback(t.Context(), 4, etcd.PushOptions{})
	mustFail(t, err, "there is no generation 4")
	_, err = p.Push(context.Background(), version(7), etcd.PushOptions{Keep: 1})
	mustFail(t, err, "at least 2")
}
