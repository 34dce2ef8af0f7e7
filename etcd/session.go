package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// session reads what there is, unless it goes on where the last one ended, and
// watches until something fails. It was healthy if it was up to date once.
func (s *Source) session(ctx context.Context, f Follower) (healthy bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	from, reread := s.state, s.reread
	s.mu.Unlock()
	if from == nil || reread {
		if from, err = s.reload(ctx, f); err != nil {
			return false, err
		}
	}
	// A stream of its own: the client would otherwise go on with that of the
	// last session, to the same member. The server ends it when its member has
	// lost the others.
	watching := clientv3.WithRequireLeader(metadata.AppendToOutgoingContext(ctx, "writ-session", rand.Text()))
	opened := make(chan clientv3.WatchChan, 1)
	go func() {
		opened <- s.client.etcd.Watch(watching, s.client.keys.state(), clientv3.WithPrefix(), clientv3.WithRev(from.revision+1),
			clientv3.WithFragment(), clientv3.WithProgressNotify())
	}()
	probes := make(chan probe)
	go s.probe(watching, probes)

	w := watch{source: s, follower: f, cluster: from.cluster, reached: from.revision, before: from.revision}
	var answers clientv3.WatchChan
	for {
		select {
		case answers = <-opened:
			opened = nil
		case answer, ok := <-answers:
			if !ok {
				return w.healthy, errors.New("etcd: the watch has ended")
			}
			if err := w.take(answer); err != nil {
				return w.healthy, err
			}
		case p := <-probes:
			if err := w.probed(p); err != nil {
				return w.healthy, err
			}
		case <-ctx.Done():
			return w.healthy, ctx.Err()
		}
	}
}

// reload reads everything, compares it with what was there before, and takes
// what is newer.
func (s *Source) reload(ctx context.Context, f Follower) (*state, error) {
	read, batches, err := s.client.read(ctx)
	if err != nil {
		return nil, err
	}
	s.showing.Lock()
	defer s.showing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := read.follows(s.state); err != nil {
		return nil, err
	}
	if read.source != s.id {
		return nil, damaged(s.client.keys.source(), "the source is %q and was %q: where the store was made anew, restart this server", read.source, s.id)
	}
	log := newHistory(s.log.generation)
	for _, b := range batches {
		if err := log.add(b); err != nil {
			return nil, damaged(s.client.keys.entries(b.entries[0].Sequence), "%v", err)
		}
	}
	if !s.log.begins(log.all) {
		return nil, damaged(s.client.keys.log(), "entries are other than they were")
	}
	s.state, s.log, s.reread = read, log, false
	s.show(f)
	return read, nil
}

// apply takes the events of one revision, all or none.
func (s *Source) apply(revision int64, events []*mvccpb.Event, f Follower) error {
	s.showing.Lock()
	defer s.showing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	next, log := *s.state, *s.log
	batches, err := next.apply(revision, events)
	for _, b := range batches {
		if err == nil && log.add(b) != nil {
			err = damaged(s.client.keys.entries(b.entries[0].Sequence), "%v", errEntry)
		}
	}
	if err != nil {
		s.reread = true
		return err
	}
	s.state, s.log = &next, &log
	s.show(f)
	return nil
}

// show puts what was read to use: first what is revoked, then the bundle. The
// caller holds showing and mu.
func (s *Source) show(f Follower) {
	f.Revoke(s.log.shown)
	if s.state.current != nil && (s.wanted == nil || s.wanted.Number < s.state.current.Number) {
		s.wanted = s.state.current
		if s.stale != nil {
			s.stale()
		}
	}
	s.tell()
}

// hear tells the follower that at t there was nothing newer than what was
// offered; if that is so.
func (s *Source) hear(t time.Time, f Follower) {
	s.mu.Lock()
	offered := s.wanted == nil || s.given >= s.wanted.Number
	s.mu.Unlock()
	if offered {
		f.Heard(t)
	}
}
