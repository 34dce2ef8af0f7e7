package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/approval"
)

// reviewTotal is how many reviews are kept, and their bytes.
type reviewTotal struct{ count, bytes int }

func (t reviewTotal) String() string { return fmt.Sprintf("%d %d", t.count, t.bytes) }

func (s *Reviews) parseTotal(kvs []*mvccpb.KeyValue) (reviewTotal, error) {
	if len(kvs) == 0 {
		return reviewTotal{}, nil
	}
	text := string(kvs[0].Value)
	count, bytes, _ := strings.Cut(text, " ")
	var t reviewTotal
	var errs [2]error
	t.count, errs[0] = strconv.Atoi(count)
	t.bytes, errs[1] = strconv.Atoi(bytes)
	if errors.Join(errs[:]...) != nil || t.count < 0 || t.bytes < 0 || t.String() != text {
		return reviewTotal{}, damaged(string(kvs[0].Key), "it is no count of reviews")
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
