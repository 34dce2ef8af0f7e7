package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// patience is how many probes in a row may fail, or find that the watch is
// behind and has not moved, before another watch is opened.
const patience = 4

// probe is a linearizable read that found a revision of etcd, and what stood
// then.
type probe struct {
	began    time.Time
	known    int64 // the revision that had been taken when it began
	revision int64
	cluster  uint64
	at       position
	err      error
}

// probe asks etcd for its revision again and again, and how far the watch is.
func (s *Source) probe(ctx context.Context, out chan<- probe) {
	c := s.client
	ticker := time.NewTicker(c.cfg.Probe)
	defer ticker.Stop()
	for {
		s.mu.Lock()
		p := probe{began: time.Now(), known: s.state.revision}
		s.mu.Unlock()
		got, err := c.try(ctx, nil, c.keys.asking())
		if p.err = err; err == nil {
			p.revision, p.cluster = got.Header.Revision, got.Header.ClusterId
			p.at, p.err = c.keys.parsePosition(answersOf(got))
		}
		select {
		case out <- p:
		case <-ctx.Done():
			return
		}
		if err == nil {
			asking, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
			_ = c.etcd.RequestProgress(asking) // where it fails, the watch stays behind, and that is noticed
			cancel()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// watch is the watch of one session.
type watch struct {
	source   *Source
	follower Follower
	cluster  uint64
	reached  int64   // everything up to this revision of etcd has been taken
	before   int64   // reached, as of the last probe
	pending  []probe // whose revision has not been reached, in order
	failed   int     // probes in a row
	stuck    int     // probes in a row that found the watch behind and where it was
	healthy  bool
}

// take takes what the watch says.
func (w *watch) take(answer clientv3.WatchResponse) error {
	switch err := answer.Err(); {
	case errors.Is(err, rpctypes.ErrCompacted):
		w.reread()
		return errors.New("etcd: what came next has been compacted away: everything is read anew")
	case err != nil:
		return fmt.Errorf("etcd: watching: %w", explain(err))
	case answer.Header.ClusterId != w.cluster:
		w.reread() // which says what is wrong
		return fmt.Errorf("etcd: cluster %x answers, where %x did", answer.Header.ClusterId, w.cluster)
	case answer.IsProgressNotify():
		return w.reach(answer.Header.Revision)
	}
	// A response holds whole revisions. Its header may be ahead of them.
	for events := answer.Events; len(events) > 0; {
		revision := events[0].Kv.ModRevision
		var one []*mvccpb.Event
		for len(events) > 0 && events[0].Kv.ModRevision == revision {
			one, events = append(one, (*mvccpb.Event)(events[0])), events[1:]
		}
		if err := w.source.apply(revision, one, w.follower); err != nil {
			return err
		}
		if err := w.reach(revision); err != nil {
			return err
		}
	}
	return nil
}

// reread has the next session read everything.
func (w *watch) reread() {
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	w.source.reread = true
}

// probed takes a probe's answer.
func (w *watch) probed(p probe) error {
	if p.err != nil {
		// The watch may be well; but nothing is heard.
		if w.failed++; w.failed > patience {
			return fmt.Errorf("etcd: it has not answered several times: %w", explain(p.err))
		}
		return nil
	}
	w.failed = 0
	if p.cluster != w.cluster || p.revision < p.known {
		w.reread() // which says what is wrong
		return fmt.Errorf("etcd: cluster %x is at revision %d, where %x was at %d", p.cluster, p.revision, w.cluster, p.known)
	}
	w.pending = append(w.pending, p)
	if err := w.reach(w.reached); err != nil {
		return err
	}
	if w.stuck++; len(w.pending) == 0 || w.reached != w.before {
		w.stuck, w.before = 0, w.reached
	}
	if w.stuck > patience {
		return errors.New("etcd: the watch stays behind what others say: its member has fallen behind, or cannot be reached")
	}
	return nil
}

// reach notes how far the watch has come, and which probes that answers.
func (w *watch) reach(revision int64) error {
	w.reached = max(w.reached, revision)
	for len(w.pending) > 0 && w.pending[0].revision <= w.reached {
		p := w.pending[0]
		w.pending = w.pending[1:]
		w.source.mu.Lock()
		has := w.source.state.position()
		w.source.mu.Unlock()
		if !has.agrees(p.at, p.revision) {
			w.reread() // which says what is wrong
			return errors.New("etcd: what was followed is not what is there: everything is read anew")
		}
		w.source.hear(p.began, w.follower)
		if !w.healthy {
			w.healthy = true
			w.source.found()
		}
	}
	return nil
}

// agrees reports whether p, which may have gone on since, was read at a
// revision.
func (p position) agrees(read position, revision int64) bool {
	return p.source == read.source &&
		(p.currentAt > revision || p.currentAt == read.currentAt && p.generation == read.generation) &&
		(p.sequenceAt > revision || p.sequenceAt == read.sequenceAt && p.tail == read.tail)
}
