package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/approval"
)

// totalText is how many reviews are kept, and their bytes, as one key holds them:
// of all, and then in a line for each caller of those that it has proposed.
func totalText(t *approval.Tally) string {
	b := fmt.Appendf(nil, "%d %d", t.All.Reviews, t.All.Bytes)
	for _, caller := range slices.Sorted(maps.Keys(t.Of)) {
		b = fmt.Appendf(b, "\n%d %d %q", t.Of[caller].Reviews, t.Of[caller].Bytes, caller)
	}
	return string(b)
}

// parseTotal reads what totalText wrote. Reviews that are in no caller's line
// were kept before callers were counted: they are in nobody's share.
func (s *Reviews) parseTotal(kvs []*mvccpb.KeyValue) (approval.Tally, error) {
	t := approval.Tally{Of: map[string]approval.Use{}}
	if len(kvs) == 0 {
		return t, nil
	}
	text, sound := string(kvs[0].Value), true
	for i, line := range strings.Split(text, "\n") {
		parts := append(strings.SplitN(line, " ", 3), "", "")
		reviews, err1 := strconv.Atoi(parts[0])
		bytes, err2 := strconv.Atoi(parts[1])
		use := approval.Use{Reviews: reviews, Bytes: bytes}
		sound = sound && err1 == nil && err2 == nil && reviews >= 0 && bytes >= 0
		if i == 0 {
			t.All = use
			continue
		}
		caller, err := strconv.Unquote(parts[2])
		sound = sound && err == nil
		t.Of[caller] = use
	}
	if !sound || totalText(&t) != text {
		return approval.Tally{}, damaged(string(kvs[0].Key), "it is no count of reviews")
	}
	return t, nil
}

// Watch implements approval.Store. It ends with an error when etcd has lost its
// leader, or what came next has been compacted away.
func (s *Reviews) Watch(ctx context.Context) iter.Seq2[approval.Review, error] {
	return func(yield func(approval.Review, error) bool) {
		all, revision, err := s.all(ctx)
		if err != nil {
			if ctx.Err() == nil {
				yield(approval.Review{}, err)
			}
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		slices.SortFunc(all, approval.Older)
		w := &reviewWatch{latest: map[string]approval.Review{}}
		for i := range all {
			w.take(all[i])
		}
		answers := s.client.etcd.Watch(clientv3.WithRequireLeader(ctx), s.client.keys.keptReviews(), clientv3.WithPrefix(),
			clientv3.WithRev(revision+1), clientv3.WithFilterDelete(), clientv3.WithFragment())
		out := make(chan approval.Review)
		ended := make(chan error, 1)
		go func() { ended <- s.follow(ctx, w, answers, out) }()
		for {
			select {
			case r := <-out:
				if !yield(r, nil) {
					cancel()
					<-ended
					return
				}
			case err := <-ended:
				if err != nil && ctx.Err() == nil {
					yield(approval.Review{}, err)
				}
				return
			}
		}
	}
}

// follow takes what the watch says as it comes, however slow the reader is.
func (s *Reviews) follow(ctx context.Context, w *reviewWatch, answers clientv3.WatchChan, out chan<- approval.Review) error {
	for {
		var to chan<- approval.Review
		var next approval.Review
		if len(w.waiting) > 0 {
			to, next = out, w.latest[w.waiting[0]]
		}
		select {
		case to <- next:
			delete(w.latest, next.ID)
			w.waiting = w.waiting[1:]
		case answer, ok := <-answers:
			if !ok {
				return errors.New("etcd: the watch of reviews has ended")
			}
			if err := answer.Err(); err != nil {
				return fmt.Errorf("etcd: watching reviews: %w", explain(err))
			}
			for _, e := range answer.Events {
				r, err := s.decode((*mvccpb.KeyValue)(e.Kv))
				if err != nil {
					return err
				}
				w.take(r)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// reviewWatch is what a reader has not seen: the latest of each review.
type reviewWatch struct {
	waiting []string
	latest  map[string]approval.Review // of waiting
}

func (w *reviewWatch) take(r approval.Review) {
	if _, there := w.latest[r.ID]; !there {
		w.waiting = append(w.waiting, r.ID)
	}
	w.latest[r.ID] = r
}
