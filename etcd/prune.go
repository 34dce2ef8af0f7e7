package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// prune removes generations that are neither among the newest keep nor were
// current within grace, and contents that no generation has any more. While
// the lock is held nobody else begins to rely on a content.
func (c *Client) prune(ctx context.Context, l *lock, keep int, grace time.Duration) ([]uint64, error) {
	all, err := c.generations(ctx)
	if err != nil {
		return nil, err
	}
	var old, kept []Generation
	for i, g := range all {
		// It was current until the next one was pushed.
		if len(all)-i > keep && time.Since(all[i+1].PushedAt) > grace {
			old = append(old, g)
		} else {
			kept = append(kept, g)
		}
	}
	var numbers []uint64
	var ops []clientv3.Op
	for _, g := range old {
		numbers, ops = append(numbers, g.Number), append(ops, clientv3.OpDelete(c.keys.generation(g.Number)))
	}
	if err := c.remove(ctx, l, ops); err != nil {
		return nil, fmt.Errorf("etcd: removing old generations: %w", err)
	}
	unused, err := c.unused(ctx, kept)
	if err != nil {
		return numbers, fmt.Errorf("etcd: looking for files that no generation has: %w", err)
	}
	if err := c.remove(ctx, l, unused); err != nil {
		return numbers, fmt.Errorf("etcd: removing files that no generation has: %w", err)
	}
	return numbers, nil
}

// unused deletes what no generation has.
func (c *Client) unused(ctx context.Context, kept []Generation) ([]clientv3.Op, error) {
	used := map[digest]bool{}
	for _, g := range kept {
		have := contents{}
		if err := c.download(ctx, []blob{g.Manifest}, have); err != nil {
			return nil, err
		}
		m, err := parseManifest(have[g.Manifest.Digest])
		if err != nil {
			return nil, err
		}
		used[g.Manifest.Digest] = true
		for _, f := range m.Files {
			used[f.Digest] = true
		}
	}
	got, err := c.scan(ctx, c.keys.files(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, explain(err)
	}
	var ops []clientv3.Op
	for _, kv := range got.Kvs {
		d, ok := c.keys.parsePiece(string(kv.Key))
		if !ok {
			return nil, errors.New("the key " + string(kv.Key) + " is not one that Writ writes: remove it")
		}
		if !used[d] {
			ops = append(ops, clientv3.OpDelete(string(kv.Key)))
		}
	}
	return ops, nil
}

// remove deletes, a few at a time.
func (c *Client) remove(ctx context.Context, l *lock, ops []clientv3.Op) error {
	for len(ops) > 0 {
		some := ops[:min(maxOps, len(ops))]
		ops = ops[len(some):]
		got, err := c.insist(ctx, []clientv3.Cmp{l.held}, some)
		if err != nil {
			return err
		}
		if !got.Succeeded {
			return errors.New("this push took too long and lost its lock: the next one removes them")
		}
	}
	return nil
}
