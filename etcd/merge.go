package etcd

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/writ-pdp/writ/revocation"
)

// readLog reads state/ and makes a view of the log.
func (c *Client) readLog(ctx context.Context) (*state, *revocation.View, error) {
	s, batches, err := c.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	var entries []revocation.Entry
	for _, b := range batches {
		entries = append(entries, b.entries...)
	}
	log, err := revocation.New(entries)
	if err != nil {
		return nil, nil, damaged(c.keys.log(), "%v", errEntry)
	}
	return s, log, nil
}

// merged is what a push adds to the log.
type merged struct {
	add  []revocation.Entry
	gone []uint64 // sequences of imported entries whose lines have gone
}

// merge compares revocations.yaml with the log.
func (p *push) merge(ctx context.Context, log *revocation.View) (merged, error) {
	if !p.imports {
		return merged{}, nil
	}
	c := p.client
	got, err := c.scan(ctx, c.keys.gone())
	if err != nil {
		return merged{}, fmt.Errorf("etcd: reading %s: %w", c.keys.gone(), explain(err))
	}
	left := map[uint64]bool{}
	for _, kv := range got.Kvs {
		var sequences []uint64
		if err := decode(kv.Value, &sequences); err != nil {
			return merged{}, damaged(string(kv.Key), "%v", err)
		}
		for _, n := range sequences {
			left[n] = true
		}
	}
	var m merged
	m.add, m.gone = revocation.Merge(log, left, p.revocations)
	if m.add, err = prepared(m.add, true); err != nil {
		return merged{}, fmt.Errorf("etcd: the revocations of revocations.yaml: %w", err)
	}
	return m, nil
}

// lighten sees to it that what m adds fits into one transaction with the
// pointer: what is revoked before anything is lifted may be added earlier,
// since to revoke sooner takes no protection away. more: that was done, so
// read the log anew.
func (p *push) lighten(ctx context.Context, l *lock, at position, m *merged) (more bool, err error) {
	early, size := 0, 0
	for i := range m.add {
		one, err := encodeBatch("", "", 0, m.add[i:i+1])
		if err != nil {
			return false, fmt.Errorf("etcd: writing revocations: %w", err)
		}
		if size += len(one); size < maxBatch && early == i && !m.add[i].Lift {
			early++
		}
	}
	if size < maxBatch {
		return false, nil
	}
	if early == 0 {
		return false, fmt.Errorf("etcd: what is new in revocations.yaml from its first new lift on takes %d bytes, and at most %d go into one push: "+
			"push it in several steps", size, maxBatch)
	}
	for {
		done, next, err := p.client.append(ctx, at, m.add[:early], l.held)
		if err != nil {
			return false, err
		}
		if done {
			p.out.Revocations = append(p.out.Revocations, m.add[:early]...)
			return true, nil
		}
		if err := p.client.holds(ctx, l); err != nil {
			return false, err
		}
		if next == at {
			return false, damaged(p.client.keys.entries(at.tail.sequence+1), "it is there, but the log ends before it")
		}
		at = next
	}
}

// holds returns an error once the lock is lost.
func (c *Client) holds(ctx context.Context, l *lock) error {
	got, err := c.insist(ctx, []clientv3.Cmp{l.held}, nil)
	if err == nil && !got.Succeeded {
		return errLockLost
	}
	return err
}

// write writes m with a generation, where the log ends at a position.
func (m *merged) write(k keys, at position, generation uint64) (write, error) {
	var w write
	if len(m.add) > 0 {
		text, ends, err := at.extend(generation, m.add)
		if err != nil {
			return w, err
		}
		first := k.entries(m.add[0].Sequence)
		w.when = append(w.when, unchanged(k.sequence(), at.sequenceAt), absent(first))
		w.also = append(w.also, clientv3.OpPut(first, text), clientv3.OpPut(k.sequence(), ends.String()))
	}
	if len(m.gone) > 0 {
		text, err := json.Marshal(m.gone)
		if err == nil && len(text) > maxGone {
			err = fmt.Errorf("%d lines have gone from revocations.yaml, too many for one push: take them out in several steps", len(m.gone))
		}
		if err != nil {
			return w, fmt.Errorf("etcd: noting what has gone: %w", err)
		}
		w.also = append(w.also, clientv3.OpPut(k.goneWith(generation), string(text)))
	}
	return w, nil
}
