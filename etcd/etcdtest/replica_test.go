package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// soon is how long anything may take on a busy machine.
const soon = 60 * time.Second

// config is for clients of a cluster; without members, of all of them.
func config(c *etcdtest.Cluster, members ...*etcdtest.Member) etcd.Config {
	return etcd.Config{Endpoints: c.Endpoints(members...), Probe: 50 * time.Millisecond, RequestTimeout: time.Second}
}

// replica is a server that follows the cluster. It fails the test when a world
// comes that is older than one before, or other than an equal one anywhere.
type replica struct {
	*etcd.Source
	t        testing.TB
	holder   *snapshot.Holder
	follower *bundle.Follower
	worlds   *worlds
	stop     func()

	mu    sync.Mutex
	gate  chan struct{}            // guarded by mu: Offer waits until it is closed; nil: it doesn't
	last  snapshot.Revision        // guarded by mu
	check func(*snapshot.Snapshot) // guarded by mu: is shown each world; may be nil
}

// worlds are all that any replica has shown, by revision: which entries stand in
// each.
type worlds struct {
	mu  sync.Mutex
	all map[string]standing // guarded by mu
}

// standing is how many entries stand, and a sum of which.
type standing struct{ n, sum uint64 }

func startReplica(t testing.TB, w *worlds, cfg etcd.Config) *replica {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	source, err := etcd.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{Source: source, t: t, holder: &snapshot.Holder{}, worlds: w}
	r.follower, err = bundle.NewFollower(bundle.FollowerConfig{Holder: r.holder, Source: source.ID(), Import: source.Import})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- source.Run(running, r) }()
	r.stop = sync.OnceFunc(func() {
		stop()
		r.hold(false)
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(soon):
			t.Error("Run does not end")
		}
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// Offer, Unreadable, Revoke and Heard implement etcd.Follower.
func (r *replica) Offer(generation uint64, files []bundle.File) error {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	if gate != nil {
		<-gate
	}
	err := r.follower.Offer(generation, files)
	r.look()
	return err
}

func (r *replica) Unreadable(err error) { r.follower.Unreadable(err) }
func (r *replica) Heard(t time.Time)    { r.follower.Heard(t) }
func (r *replica) Revoke(view *revocation.View) {
	r.follower.Revoke(view)
	r.look()
}

// hold makes Offer wait, as if the bundle took long to build; or lets it go on.
func (r *replica) hold(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate != nil {
		close(r.gate)
		r.gate = nil
	}
	if on {
		r.gate = make(chan struct{})
	}
}

// look checks the world in force against those before.
func (r *replica) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	world := r.holder.Load()
	if world == nil {
		return
	}
	at, err := snapshot.ParseRevision(world.Revision)
	if err != nil {
		r.t.Error(err)
		return
	}
	if at.Generation < r.last.Generation || at.Sequence < r.last.Sequence {
		r.t.Errorf("a replica went back from %s to %s", r.last, at)
	}
	r.last = at
	var now standing
	for e := range world.Revocations.Entries(0) {
		if world.Revocations.Stands(&e) {
			now.n, now.sum = now.n+1, now.sum*1_000_003+e.Sequence
		}
	}
	r.worlds.mu.Lock()
	if before, ok := r.worlds.all[world.Revision]; ok && before != now {
		r.t.Errorf("two worlds are called %s, but other revocations stand in them: %v, %v", world.Revision, before, now)
	}
	if r.worlds.all == nil {
		r.worlds.all = map[string]standing{}
	}
	r.worlds.all[world.Revision] = now
	r.worlds.mu.Unlock()
	if r.check != nil {
		r.check(world)
	}
}

// at returns the revision in force; zero: there is none.
func (r *replica) at() snapshot.Revision {
	world := r.holder.Load()
	if world == nil {
		return snapshot.Revision{}
	}
	at, err := snapshot.ParseRevision(world.Revision)
	if err != nil {
		r.t.Fatal(err)
	}
	return at
}

// await waits until the replica has come as far.
func (r *replica) await(generation, sequence uint64) {
	r.t.Helper()
	eventually(r.t, func() error {
		if at := r.at(); at.Generation < generation || at.Sequence < sequence {
			return fmt.Errorf("a replica is at %v, wanted generation %d and sequence %d; source %+v, follower %+v", at, generation, sequence, r.Source.Status(), r.follower.Status())
		}
		return nil
	})
}

// awaitHeard waits until the replica has heard from etcd since now.
func (r *replica) awaitHeard() {
	r.t.Helper()
	now := time.Now()
	eventually(r.t, func() error {
		if !r.holder.HeardAt().After(now) {
			return fmt.Errorf("nothing was heard of etcd for %v; source %+v", time.Since(now), r.Source.Status())
		}
		return nil
	})
}

func (r *replica) revokes(e revocation.Entry) bool {
	world := r.holder.Load()
	if world == nil {
		return true
	}
	_, revoked := world.Revocations.Revoked(e.Kind, e.Issuer, e.ID, time.Time{}, time.Now())
	return revoked
}

func (r *replica) append(entries ...revocation.Entry) []revocation.Entry {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), soon)
	defer cancel()
	added, err := r.Append(ctx, entries)
	if err != nil {
		r.t.Fatal(err)
	}
	return added
}

func startReplicas(t testing.TB, c *etcdtest.Cluster, n int) []*replica {
	t.Helper()
	var all []*replica
	w := &worlds{}
	for range n {
		all = append(all, startReplica(t, w, config(c)))
	}
	return all
}

// eventually waits until f finds nothing wrong.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// pusher pushes versions of a bundle.
type pusher struct {
	*etcd.Client
	t testing.TB
}

func newPusher(t testing.TB, c *etcdtest.Cluster) pusher {
	t.Helper()
	client, err := etcd.Dial(config(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return pusher{client, t}
}

// push pushes, and returns what was done.
func (p pusher) push(files []bundle.File) etcd.Pushed {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), soon)
	defer cancel()
	out, err := p.Push(ctx, files, etcd.PushOptions{By: "test"})
	for errors.Is(err, etcd.ErrConcurrent) { // etcd was lost while the last push gave its lock back
		time.Sleep(100 * time.Millisecond)
		out, err = p.Push(ctx, files, etcd.PushOptions{By: "test"})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if out.PruneFault != nil {
		p.t.Error(out.PruneFault)
	}
	return out
}

// version is a small bundle, other than every other version, and more files.
func version(n int, more ...bundle.File) []bundle.File {
	return append([]bundle.File{
		{Name: "servers/files.yaml", Data: []byte("id: files\npackage_hash: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n" +
			"token: none\nresources:\n- {path: path}\ntools:\n  read: {effect: read}\n")},
		{Name: "servers/files.tools.json", Data: []byte(`{"tools": [{"name": "read", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}]}`)},
		{Name: "policies/read.cedar", Data: fmt.Appendf(nil, "@id(\"v%d\")\npermit (principal, action in Action::\"files:read\", resource in Path::\"/srv/v%d\");\n", n, n)},
	}, more...)
}

// lines is a revocations.yaml.
func lines(text string) bundle.File {
	return bundle.File{Name: "revocations.yaml", Data: []byte("revocations:\n" + text)}
}

// intent revokes, or lifts, an intent.
func intent(id string) revocation.Entry {
	return revocation.Entry{Kind: revocation.Intent, ID: id, Reason: "test"}
}

func lift(id string) revocation.Entry {
	e := intent(id)
	e.Lift = true
	return e
}

func mustFail(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got the error %v, want one that says %q", err, want)
	}
}
