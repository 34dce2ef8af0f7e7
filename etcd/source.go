package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/revocation"
)

// Follower is told what the source has; see bundle.Follower.
type Follower interface {
	Offer(generation uint64, files []bundle.File) error
	Unreadable(err error)
	Revoke(view *revocation.View)
	Heard(t time.Time)
}

// Source is the bundle and the revocation log under one prefix, as one replica
// follows them. Make one with [Open]. Whatever happens to etcd, the follower
// keeps the last good world, and no decision waits for it.
type Source struct {
	client *Client
	id     string

	// showing is held while the follower is told of revocations, and from the
	// moment at which a generation's revocations are settled until it is in
	// force. It is taken before mu.
	showing sync.Mutex

	mu       sync.Mutex    // guards the rest
	running  bool          // Run was called
	state    *state        // as far as was followed; nil: nothing has been read
	reread   bool          // state/ is to be read anew, whole
	log      *history      // what state says of revocations
	wanted   *Generation   // the newest that was read; nil: nothing was pushed
	given    uint64        // the newest generation that was offered
	offering *offer        // nil: Offer is not running
	stale    func()        // ends the fetching of what is no longer wanted; nil: nothing is fetched
	fault    error         // damage that keeps newer things from being read; nil: none
	lost     error         // why etcd is not followed; nil: it is
	since    time.Time     // since when; zero: it is
	changed  chan struct{} // closed when any of these changes
}

// Open connects to the cluster and learns the source's id; where nobody has
// used the prefix yet, it makes one. It fails when ctx ends first: a server
// that can't reach etcd when it starts has nothing to decide by.
func Open(ctx context.Context, cfg Config) (*Source, error) {
	c, err := Dial(cfg)
	if err != nil {
		return nil, err
	}
	id, err := c.identify(ctx)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Source{client: c, id: id, log: newHistory(0), changed: make(chan struct{})}, nil
}

// ID names the source in revisions: 4 to 32 of a-z and 0-9.
func (s *Source) ID() string { return s.id }

// Close ends the connections. Run must have returned.
func (s *Source) Close() error { return s.client.Close() }

// Status is how a source stands with etcd.
type Status struct {
	Revision int64 // of etcd, as far as was followed; 0: not yet
	// Fault says why etcd isn't followed right now; nil: it is.
	Fault error
	Since time.Time // since when; zero without a Fault
}

// Status returns how the source stands with etcd. What is wrong with a bundle
// is the follower's to tell.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Status{Fault: s.lost, Since: s.since}
	if s.state != nil {
		out.Revision = s.state.revision
	}
	return out
}

// identify returns the source's id, and makes one where there is none.
func (c *Client) identify(ctx context.Context) (string, error) {
	key, id := c.keys.source(), strings.ToLower(rand.Text())
	for {
		found, err := c.identifyOnce(ctx, key, id)
		switch {
		case err == nil && isSource(found):
			return found, nil
		case err == nil:
			return "", damaged(key, "it names no source")
		case !lost(err) || ctx.Err() != nil:
			return "", fmt.Errorf("etcd: asking %s for the source under %s: %w", strings.Join(c.cfg.Endpoints, ", "), c.cfg.Prefix, explain(err))
		}
		pause(ctx, leastPause)
	}
}

func (c *Client) identifyOnce(ctx context.Context, key, id string) (string, error) {
	got, err := c.get(ctx, key)
	if err != nil {
		return "", err
	}
	if len(got.Kvs) > 0 {
		return string(value(got.Kvs)), nil
	}
	made, err := c.try(ctx, []clientv3.Cmp{absent(key)}, []clientv3.Op{clientv3.OpPut(key, id)}, clientv3.OpGet(key))
	if err != nil || made.Succeeded {
		return id, err
	}
	return string(value(made.Responses[0].GetResponseRange().Kvs)), nil
}

// Run follows etcd until ctx ends, and tells f, of whose configuration Import
// must be the source's. Nothing that happens to etcd ends it: it tries again.
// It returns nil when ctx ends, and runs once.
func (s *Source) Run(ctx context.Context, f Follower) error {
	s.mu.Lock()
	again := s.running
	s.running = true
	s.mu.Unlock()
	if again {
		return errors.New("etcd: a source runs once: open another")
	}
	group, following := errgroup.WithContext(ctx)
	group.Go(func() error { return s.follow(following, f) })
	group.Go(func() error { return s.build(following, f) })
	if err := group.Wait(); ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return nil
}

// Waiting between attempts: doubled from least to most, and up to half of it
// left out by chance, so that replicas don't come all at once.
const (
	leastPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

// follow reads and watches, and begins again whenever that ends.
func (s *Source) follow(ctx context.Context, f Follower) error {
	wait := leastPause
	for {
		healthy, err := s.session(ctx, f)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.lose(err)
		if healthy {
			wait = leastPause
		}
		pause(ctx, wait/2+mathrand.N(wait/2))
		wait = min(2*wait, mostPause)
	}
}

// lose notes why a session ended, and says so once for each reason. Damage is
// the follower's to tell, too.
func (s *Source) lose(err error) {
	s.mu.Lock()
	told := s.lost != nil && s.lost.Error() == err.Error()
	if s.lost == nil {
		s.since = time.Now().UTC()
	}
	s.lost = err
	if _, ok := errors.AsType[damage](err); ok && !told {
		s.fault = err
		s.tell()
	}
	s.mu.Unlock()
	if !told {
		s.client.cfg.Log.Warn("etcd cannot be followed; the last world stays, and it is tried again", "error", err)
	}
}

// found notes that a session follows etcd.
func (s *Source) found() {
	s.mu.Lock()
	was, since := s.lost, s.since
	s.lost, s.since = nil, time.Time{}
	if s.fault != nil {
		s.fault = nil
		s.tell()
	}
	s.mu.Unlock()
	if was != nil {
		s.client.cfg.Log.Info("etcd is followed again", "after", time.Since(since).Round(time.Millisecond).String())
	}
}

// tell wakes whoever waits for a change. The caller holds mu.
func (s *Source) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}
