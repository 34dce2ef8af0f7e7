package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// fits reports whether a caller's review of so many bytes can take was's place.
func (s *Reviews) fits(was *keptReview, caller string, size int) bool {
	if was.there() {
		was.total.Remove(was.review.Caller.Name, was.size)
		defer was.total.Add(was.review.Caller.Name, was.size)
	}
	return s.limits.Room(&was.total, caller, size)
}

// forget takes out what has been kept for long enough, and to make room also
// what is over and was not rejected; but never the review that is about to be
// opened.
func (s *Reviews) forget(ctx context.Context, now time.Time, room bool, except string) error {
	until := now
	if room {
		until = now.Add(s.limits.Keep)
	}
	k := s.client.keys
	from, end := k.reviewDues(), k.reviewsDue(seconds(until)+1)
	for {
		got, err := s.client.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithKeysOnly(),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
		if err != nil {
			return fmt.Errorf("etcd: looking for reviews to forget: %w", explain(err))
		}
		for _, kv := range got.Kvs {
			_, id, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), k.reviewDues()), "/")
			if id == except {
				continue
			}
			if err := s.forgetOne(ctx, string(kv.Key), id, now, room); err != nil {
				return err
			}
		}
		if !got.More || len(got.Kvs) == 0 {
			return nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

func (s *Reviews) forgetOne(ctx context.Context, due, id string, now time.Time, room bool) error {
	if !validReview(id) {
		return damaged(due, "it names no review")
	}
	for n := 1; ; n++ {
		was, err := s.read(ctx, id)
		if err != nil {
			return err
		}
		over := was.there() && !now.Before(was.review.Expires)
		kept := was.there() && now.Before(was.review.Expires.Add(s.limits.Keep))
		if !over || kept && (!room || was.review.Rejection != nil) {
			return nil
		}
		done, err := s.commit(ctx, &was, &was.review, nil)
		if done {
			return nil
		}
		if err != nil && !again(ctx, err) {
			return failed(ctx, "forgetting a review", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		wait(ctx, n, err)
	}
}

// validReview reports whether id can be a review's.
func validReview(id string) bool {
	return len(id) == 26 && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
