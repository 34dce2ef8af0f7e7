package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// missing returns the blobs that etcd doesn't hold whole; all: every one.
func (c *Client) missing(ctx context.Context, blobs []blob, all bool) ([]blob, error) {
	var out []blob
	for len(blobs) > 0 {
		some := blobs[:min(maxOps, len(blobs))]
		blobs = blobs[len(some):]
		if all {
			out = append(out, some...)
			continue
		}
		ops := make([]clientv3.Op, len(some))
		for i, b := range some {
			ops[i] = clientv3.OpGet(c.keys.file(b.Digest), clientv3.WithPrefix(), clientv3.WithCountOnly())
		}
		got, err := c.insist(ctx, nil, ops)
		if err != nil {
			return nil, fmt.Errorf("etcd: looking which files it has: %w", err)
		}
		for i, b := range some {
			if int(got.Responses[i].GetResponseRange().Count) != b.pieces() {
				out = append(out, b)
			}
		}
	}
	return out, nil
}

// upload writes contents, in pieces, as many in a transaction as fit.
func (c *Client) upload(ctx context.Context, l *lock, blobs []blob, from contents) error {
	var ops []clientv3.Op
	size := 0
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		got, err := c.insist(ctx, []clientv3.Cmp{l.held}, ops)
		if err != nil {
			return fmt.Errorf("etcd: uploading: %w", err)
		}
		if !got.Succeeded {
			return errLockLost
		}
		ops, size = nil, 0
		return nil
	}
	for _, b := range blobs {
		data := from[b.Digest]
		for i := range b.pieces() {
			piece := data[i*pieceSize : min((i+1)*pieceSize, len(data))]
			if len(ops) == maxOps || size+len(piece) > pieceSize {
				if err := flush(); err != nil {
					return err
				}
			}
			ops, size = append(ops, clientv3.OpPut(c.keys.piece(b.Digest, i), string(piece))), size+len(piece)
		}
	}
	return flush()
}
