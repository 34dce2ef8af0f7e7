package etcd

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/canon"
)

// ReviewsConfig says how long [Reviews] keep what they keep, and how much. All
// replicas should have the same.
type ReviewsConfig struct {
	Limits approval.Limits
}

// Reviews is the approval.Store that replicas share in an etcd cluster.
//
// Each change is one transaction, which compares that the review and the total
// of all are what was read. So limits hold exactly, and reviews are changed one
// after the other: people are slower than that. No key is under a lease, since
// the total counts them; what has been kept for long enough is taken out by
// whoever opens the next review.
type Reviews struct {
	client *Client
	limits approval.Limits
}

// OpenReviews makes the store of reviews under the client's prefix. The client
// stays the caller's, and must not be closed before.
func OpenReviews(c *Client, cfg ReviewsConfig) (*Reviews, error) {
	if err := cfg.Limits.Check(); err != nil {
		return nil, err
	}
	return &Reviews{c, cfg.Limits.Filled()}, nil
}

// keptReview is one review as it was read, with the total; the zero review: there is
// none.
type keptReview struct {
	review  approval.Review
	size    int
	at      int64 // ModRevision of the review
	total   approval.Tally
	totalAt int64
}

func (f *keptReview) there() bool { return f.at != 0 }

// read reads the review of a valid id.
func (s *Reviews) read(ctx context.Context, id string) (keptReview, error) {
	k := s.client.keys
	var got *clientv3.TxnResponse
	var err error
	for {
		got, err = s.client.insist(ctx, nil, []clientv3.Op{clientv3.OpGet(k.keptReview(id)), clientv3.OpGet(k.reviewTotal())})
		if err == nil {
			break
		}
		if !again(ctx, err) {
			return keptReview{}, fmt.Errorf("etcd: reading a review: %w", err)
		}
		pause(ctx, leastPause)
	}
	answers := answersOf(got)
	f := keptReview{at: modified(answers[0]), size: len(value(answers[0])), totalAt: modified(answers[1])}
	if f.there() {
		if f.review, err = s.decode(answers[0][0]); err != nil {
			return keptReview{}, err
		}
	}
	f.total, err = s.parseTotal(answers[1])
	return f, err
}

func (s *Reviews) decode(kv *mvccpb.KeyValue) (approval.Review, error) {
	r, err := approval.Decode(kv.Value)
	if err != nil {
		return approval.Review{}, damaged(string(kv.Key), "%v", err)
	}
	if s.client.keys.keptReview(r.ID) != string(kv.Key) {
		return approval.Review{}, damaged(string(kv.Key), "it is another review's")
	}
	return r, nil
}

// commit puts r in place of what was read, or with no data takes it out, and
// counts that in was. Not done: something has changed meanwhile.
func (s *Reviews) commit(ctx context.Context, was *keptReview, r *approval.Review, data []byte) (done bool, err error) {
	k := s.client.keys
	key, name := k.keptReview(r.ID), proposalName(r)
	var then []clientv3.Op
	if was.there() {
		was.total.Remove(was.review.Caller.Name, was.size)
		if data == nil || s.due(&was.review) != s.due(r) {
			then = append(then, clientv3.OpDelete(s.due(&was.review)))
		}
	}
	if data == nil {
		then = append(then, clientv3.OpDelete(key), clientv3.OpDelete(k.reviewOf(name, r.ID)))
	} else {
		was.total.Add(r.Caller.Name, len(data))
		then = append(then, clientv3.OpPut(key, string(data)), clientv3.OpPut(k.reviewOf(name, r.ID), ""), clientv3.OpPut(s.due(r), ""))
	}
	then = append(then, clientv3.OpPut(k.reviewTotal(), totalText(&was.total)))
	got, err := s.client.try(ctx, []clientv3.Cmp{unchanged(key, was.at), unchanged(k.reviewTotal(), was.totalAt)}, then)
	if err != nil {
		return false, err
	}
	return got.Succeeded, nil
}

// due is the key that says when r can be forgotten.
func (s *Reviews) due(r *approval.Review) string {
	return s.client.keys.reviewsDue(seconds(r.Expires.Add(s.limits.Keep))) + r.ID
}

// seconds are those from 1970 to t, or to the end of the second that t is in.
func seconds(t time.Time) uint64 { return uint64(max(0, t.Add(time.Second-1).Unix())) }

func proposalName(r *approval.Review) string {
	return strings.TrimPrefix(r.Shown.ProposalDigest.String(), digestPrefix)
}

// again says whether to try once more after an error: where nobody knows what
// became of a change, reading tells.
func again(ctx context.Context, err error) bool { return lost(err) && ctx.Err() == nil }

// wait waits before try n+1: a little where somebody else was faster, and the
// longer the more often; longer where an answer was lost.
func wait(ctx context.Context, n int, err error) {
	if err != nil {
		n = 10
	}
	pause(ctx, mathrand.N(leastPause*time.Duration(min(n, 10))/10))
}

// failed is the error of a change.
func failed(ctx context.Context, what string, err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w", approval.ErrFull, explain(err))
	case lost(err):
		return fmt.Errorf("%w: %w", errUnknown, explain(err))
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("etcd: %s: %w", what, explain(err))
}

// Open implements approval.Store.
func (s *Reviews) Open(ctx context.Context, r approval.Review) (approval.Review, error) {
	fresh, err := approval.Prepare(r, s.limits)
	if err != nil {
		return approval.Review{}, err
	}
	data, err := approval.Encode(fresh)
	if err != nil {
		return approval.Review{}, err
	}
	if err := s.forget(ctx, fresh.Opened, false, fresh.ID); err != nil {
		return approval.Review{}, err
	}
	for swept, n := false, 1; ; n++ {
		was, err := s.read(ctx, fresh.ID)
		if err != nil {
			return approval.Review{}, err
		}
		if was.there() {
			if was.review.Rejection != nil {
				return was.review, approval.ErrRejected
			}
			if fresh.Opened.Before(was.review.Expires) {
				return was.review, nil
			}
		}
		if !s.fits(&was, fresh.Caller.Name, len(data)) {
			if swept {
				return approval.Review{}, approval.ErrFull
			}
			swept = true
			if err := s.forget(ctx, fresh.Opened, true, fresh.ID); err != nil {
				return approval.Review{}, err
			}
			continue
		}
		done, err := s.commit(ctx, &was, &fresh, data)
		if done {
			return fresh, nil
		}
		if err != nil && !again(ctx, err) {
			return approval.Review{}, failed(ctx, "opening a review", err)
		}
		if err := ctx.Err(); err != nil {
			return approval.Review{}, err
		}
		wait(ctx, n, err)
	}
}

// Get implements approval.Store.
func (s *Reviews) Get(ctx context.Context, id string) (approval.Review, error) {
	if !validReview(id) {
		return approval.Review{}, approval.ErrNotFound
	}
	f, err := s.read(ctx, id)
	if err == nil && !f.there() {
		err = approval.ErrNotFound
	}
	return f.review, err
}

// maxWorlds is how many reviews of one proposal are read: the newest count, and
// a proposal that the bundle changes under so often has no older approvals.
const maxWorlds = 64

// ByProposal implements approval.Store.
func (s *Reviews) ByProposal(ctx context.Context, proposal canon.Digest) ([]approval.Review, error) {
	if proposal.IsZero() {
		return nil, nil
	}
	k := s.client.keys
	prefix := k.reviewsOf(strings.TrimPrefix(proposal.String(), digestPrefix))
	named, err := s.client.get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(maxWorlds),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend))
	if err != nil {
		return nil, fmt.Errorf("etcd: looking for the reviews of a proposal: %w", explain(err))
	}
	if len(named.Kvs) == 0 {
		return nil, nil
	}
	var ops []clientv3.Op
	for _, kv := range named.Kvs {
		ops = append(ops, clientv3.OpGet(k.keptReview(strings.TrimPrefix(string(kv.Key), prefix))))
	}
	got, err := s.client.insist(ctx, nil, ops)
	if err != nil {
		return nil, fmt.Errorf("etcd: reading the reviews of a proposal: %w", err)
	}
	var out []approval.Review
	for _, kvs := range answersOf(got) {
		if len(kvs) == 0 { // forgotten meanwhile
			continue
		}
		r, err := s.decode(kvs[0])
		if err != nil {
			return nil, err
		}
		if r.Shown.ProposalDigest == proposal {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, approval.Older)
	return out, nil
}

// List implements approval.Store.
func (s *Reviews) List(ctx context.Context, q approval.Query) (reviews []approval.Review, more bool, err error) {
	all, _, err := s.all(ctx)
	if err != nil {
		return nil, false, err
	}
	reviews, more = q.Of(all)
	return reviews, more, nil
}

// all reads all reviews, as they are at one revision of etcd.
func (s *Reviews) all(ctx context.Context) ([]approval.Review, int64, error) {
	got, err := s.client.scan(ctx, s.client.keys.keptReviews())
	if err != nil {
		return nil, 0, fmt.Errorf("etcd: reading the reviews: %w", explain(err))
	}
	out := make([]approval.Review, len(got.Kvs))
	for i, kv := range got.Kvs {
		if out[i], err = s.decode(kv); err != nil {
			return nil, 0, err
		}
	}
	return out, got.Header.Revision, nil
}

// Agree implements approval.Store.
func (s *Reviews) Agree(ctx context.Context, id string, a approval.Agreement) (approval.Review, error) {
	return s.change(ctx, id, func(r approval.Review, _ bool) (approval.Review, error) { return r.WithAgreement(a) })
}

// Reject implements approval.Store.
func (s *Reviews) Reject(ctx context.Context, id string, by approval.Rejection) (approval.Review, error) {
	return s.change(ctx, id, func(r approval.Review, open bool) (approval.Review, error) {
		if have := r.Rejection; open && have != nil && have.Given.Equal(by.Given) && have.Approver == by.Approver && have.Caller == by.Caller && have.Reason == by.Reason {
			return r, errDone // an answer was lost
		}
		return r.WithRejection(by)
	})
}

// errDone says that a change is there already.
var errDone = errors.New("etcd: it is done")

// change changes one review. The change is told whether an earlier try may have
// been carried out.
func (s *Reviews) change(ctx context.Context, id string, change func(r approval.Review, open bool) (approval.Review, error)) (approval.Review, error) {
	if !validReview(id) {
		return approval.Review{}, approval.ErrNotFound
	}
	for open, n := false, 1; ; n++ {
		was, err := s.read(ctx, id)
		if err != nil {
			return approval.Review{}, err
		}
		if !was.there() {
			return approval.Review{}, approval.ErrNotFound
		}
		changed, err := change(was.review, open)
		if errors.Is(err, errDone) {
			return was.review, nil
		}
		if err != nil {
			return was.review, err
		}
		data, err := approval.Encode(changed)
		if err != nil {
			return was.review, err
		}
		if was.total.All.Bytes+len(data)-was.size > s.limits.MaxBytes {
			return was.review, approval.ErrFull
		}
		done, err := s.commit(ctx, &was, &changed, data)
		if done {
			return approval.Decode(data)
		}
		if err != nil && !again(ctx, err) {
			return approval.Review{}, failed(ctx, "changing a review", err)
		}
		open = open || err != nil
		if err := ctx.Err(); err != nil {
			return approval.Review{}, err
		}
		wait(ctx, n, err)
	}
}
