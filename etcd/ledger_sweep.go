package etcd

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// bucket holds what is due within an hour: it counts the hours from 1970 to its
// end.
type bucket uint64

const bucketSize = time.Hour

// bucketOf returns the bucket that ends at t or after it.
func bucketOf(t time.Time) bucket {
	return bucket((t.Unix() + int64(bucketSize/time.Second)) / int64(bucketSize/time.Second))
}

func (b bucket) end() time.Time { return time.Unix(int64(b)*int64(bucketSize/time.Second), 0).UTC() }

// setTimer gives a bucket a timer, unless it has one. A lease that nobody uses
// then runs out by itself.
func (l *Ledger) setTimer(ctx context.Context, b bucket, now time.Time) error {
	once, cancel := context.WithTimeout(ctx, l.client.cfg.RequestTimeout)
	defer cancel()
	lease, err := l.client.etcd.Grant(once, max(1, int64(b.end().Sub(now)/time.Second)))
	if err != nil {
		return err
	}
	key := l.client.keys.timer(b)
	got, err := l.ask(ctx, []clientv3.Cmp{absent(key)}, []clientv3.Op{
		clientv3.OpPut(key, b.end().Format(time.RFC3339), clientv3.WithLease(lease.ID)),
	})
	if err == nil && !got.Succeeded {
		_, _ = l.client.etcd.Revoke(once, lease.ID) // somebody was faster; it runs out anyway
	}
	return err
}

// Sweeping.
const (
	sweepEvery = time.Minute // and up to as much again, by chance
	sweepPage  = 24          // redemptions in one transaction, which deletes maxNames keys for each at most
	maxNames   = 4
)

// Run forgets what is due until ctx ends, and returns nil then. Each replica runs
// it; what one does is not done again. Nothing depends on it but etcd's size.
func (l *Ledger) Run(ctx context.Context) error {
	for {
		pause(ctx, sweepEvery+mathrand.N(sweepEvery))
		if ctx.Err() != nil {
			return nil
		}
		if _, err := l.Sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			l.client.cfg.Log.Warn("etcd: what is due was not removed from the ledger; it is tried again", "error", err)
		}
	}
}

// Sweep forgets what is due at a time, and returns how many entries it removed.
// It finds out, too, whether etcd has gone back while nothing was redeemed.
func (l *Ledger) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	if _, err := l.read(ctx); err != nil {
		return 0, err
	}
	from := l.client.keys.dues()
	for {
		b, next, err := l.nextDue(ctx, from, now)
		if err != nil || next == "" {
			return removed, err
		}
		n, err := l.sweep(ctx, b)
		removed += n
		if err != nil {
			return removed, err
		}
		from = l.client.keys.dueIn(b + 1)
	}
}

// nextDue returns the first bucket from a key on that has ended, and its key;
// empty: there is none.
func (l *Ledger) nextDue(ctx context.Context, from string, now time.Time) (bucket, string, error) {
	k := l.client.keys
	got, err := l.client.get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(k.dues())), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend), clientv3.WithKeysOnly())
	if err != nil {
		return 0, "", fmt.Errorf("etcd: looking for what is due: %w", explain(err))
	}
	if len(got.Kvs) == 0 {
		return 0, "", nil
	}
	key := string(got.Kvs[0].Key)
	hour, _, _ := strings.Cut(strings.TrimPrefix(key, k.dues()), "/")
	n, ok := parseNumber(hour)
	if !ok {
		return 0, "", damaged(key, "it is no place in the ledger")
	}
	if b := bucket(n); !now.Before(b.end()) {
		return b, key, nil
	}
	return 0, "", nil
}

// sweep forgets a bucket, if its timer has run out. Each transaction compares
// that, and that what it removes is still due: so one that comes late removes
// nothing that was claimed since.
func (l *Ledger) sweep(ctx context.Context, b bucket) (removed int, err error) {
	k := l.client.keys
	for {
		got, err := l.client.get(ctx, k.dueIn(b), clientv3.WithPrefix(), clientv3.WithLimit(sweepPage))
		if err != nil {
			return removed, fmt.Errorf("etcd: reading what is due: %w", explain(err))
		}
		if len(got.Kvs) == 0 {
			return removed, nil
		}
		when := []clientv3.Cmp{l.same(), absent(k.timer(b))}
		var then []clientv3.Op
		for _, kv := range got.Kvs {
			names, err := k.parseNames(kv.Value)
			if err != nil {
				return removed, damaged(string(kv.Key), "%v", err)
			}
			when = append(when, unchanged(string(kv.Key), kv.ModRevision))
			then = append(then, clientv3.OpDelete(string(kv.Key)))
			for _, name := range names {
				then = append(then, clientv3.OpDelete(name))
			}
		}
		done, err := l.client.insist(ctx, when, then)
		switch {
		case err != nil:
			return removed, fmt.Errorf("etcd: removing what is due: %w", err)
		case !done.Succeeded:
			return removed, nil // the timer runs, or another replica is at it
		}
		removed += len(got.Kvs)
	}
}
