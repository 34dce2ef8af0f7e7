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

// absent is true while a key isn't there.
func absent(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
}

// unchanged is true while a key is as it was at that ModRevision; 0: absent.
func unchanged(key string, at int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", at)
}

// attempts is how often a request is sent that may happen more than once, while
// answers are lost: each goes to another member than the one before.
const attempts = 5

// get reads in a linearizable way.
func (c *Client) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	for n := 1; ; n++ {
		once, done := context.WithTimeout(ctx, c.cfg.RequestTimeout)
		got, err := c.etcd.Get(once, key, opts...)
		done()
		if err == nil || !lost(err) || ctx.Err() != nil || n == attempts {
			return got, c.contact.because(err, &c.cfg)
		}
		pause(ctx, leastPause)
	}
}

// try sends a transaction once. When its error is [lost], nobody knows what
// became of it.
func (c *Client) try(ctx context.Context, when []clientv3.Cmp, then []clientv3.Op, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	got, err := c.etcd.Txn(ctx).If(when...).Then(then...).Else(otherwise...).Commit()
	return got, c.contact.because(err, &c.cfg)
}

// insist sends a transaction that may happen more than once.
func (c *Client) insist(ctx context.Context, when []clientv3.Cmp, then []clientv3.Op) (*clientv3.TxnResponse, error) {
	for n := 1; ; n++ {
		got, err := c.try(ctx, when, then)
		if err == nil || !lost(err) || ctx.Err() != nil || n == attempts {
			return got, explain(err)
		}
		pause(ctx, leastPause)
	}
}

// errUnknown says that a request may or may not have been carried out.
var errUnknown = errors.New("etcd: it is unknown whether this was recorded: look before you try again")

// write is a transaction that writes value under key, which was absent before
// and which nobody else writes with this value.
type write struct {
	key, value string
	with       []clientv3.OpOption // of the put
	when       []clientv3.Cmp
	also       []clientv3.Op // what else it does
	ask        []clientv3.Op // what is to be read where it can't be carried out
}

// commit carries out w, at most once: it is sent again when an answer is lost.
// Not done: the answers to what w asks.
func (c *Client) commit(ctx context.Context, w write) (done bool, revision int64, answers [][]*mvccpb.KeyValue, err error) {
	when := append([]clientv3.Cmp{absent(w.key)}, w.when...)
	then := append([]clientv3.Op{clientv3.OpPut(w.key, w.value, w.with...)}, w.also...)
	otherwise := append([]clientv3.Op{clientv3.OpGet(w.key)}, w.ask...)
	for open := false; ; open = true {
		got, err := c.try(ctx, when, then, otherwise...)
		switch {
		case err == nil && got.Succeeded:
			return true, got.Header.Revision, nil, nil
		case err == nil:
			answers = answersOf(got)
			if mine := answers[0]; len(mine) == 1 && string(mine[0].Value) == w.value {
				return true, mine[0].ModRevision, nil, nil // an answer was lost
			}
			return false, 0, answers[1:], nil
		case !lost(err) && !open:
			return false, 0, nil, explain(err)
		case !lost(err) || ctx.Err() != nil:
			return false, 0, nil, fmt.Errorf("%w: %w", errUnknown, explain(err))
		}
		pause(ctx, leastPause)
	}
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// pageSize is how many keys are read at once: each holds at most pieceSize.
const pageSize = 200

// scan reads all keys that begin with prefix at one revision of etcd, in order.
func (c *Client) scan(ctx context.Context, prefix string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	for {
		all, err := c.scanOnce(ctx, prefix, opts)
		// The revision of the first page may be compacted away before the last.
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return all, err
		}
	}
}

func (c *Client) scanOnce(ctx context.Context, prefix string, opts []clientv3.OpOption) (*clientv3.GetResponse, error) {
	var all *clientv3.GetResponse
	for key := prefix; ; {
		page := append([]clientv3.OpOption{
			clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(pageSize),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend),
		}, opts...)
		if all != nil {
			page = append(page, clientv3.WithRev(all.Header.Revision))
		}
		got, err := c.get(ctx, key, page...)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = got
		} else {
			all.Kvs = append(all.Kvs, got.Kvs...)
		}
		if !got.More || len(got.Kvs) == 0 {
			return all, nil
		}
		key = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// read reads state/ at the present revision.
func (c *Client) read(ctx context.Context) (*state, []parsedBatch, error) {
	got, err := c.scan(ctx, c.keys.state())
	if err != nil {
		return nil, nil, fmt.Errorf("etcd: reading %s: %w", c.keys.state(), explain(err))
	}
	s := &state{keys: c.keys, cluster: got.Header.ClusterId}
	batches, err := s.load(got.Header.Revision, got.Kvs)
	return s, batches, err
}

// value returns the one value of a get; nil: the key is not there.
func value(kvs []*mvccpb.KeyValue) []byte {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0].Value
}

// modified returns the ModRevision of the one key of a get; 0: it is not there.
func modified(kvs []*mvccpb.KeyValue) int64 {
	if len(kvs) == 0 {
		return 0
	}
	return kvs[0].ModRevision
}
