package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/server"
)

// recorded is the log as the server tells of it. What it proves it reads from
// the files, and holds against the newest checkpoint.
type recorded struct {
	*audit.Log
	verifier note.Verifier
}

func newRecorded(log *audit.Log) (*recorded, error) {
	verifier, err := note.NewVerifier(log.Verifier())
	if err != nil {
		return nil, fmt.Errorf("the verifier key of the log: %w", err)
	}
	return &recorded{log, verifier}, nil
}

// Follow returns the records from an index on.
func (r *recorded) Follow(from uint64) server.AuditCursor { return r.Log.Follow(from) }

// ProveInclusion proves that a record is in the tree of a size.
func (r *recorded) ProveInclusion(ctx context.Context, index, size uint64) (server.AuditProof, error) {
	var leaf tlog.Hash
	proof, err := r.prove(ctx, size, func(head tree.Checkpoint, size int64) ([]tlog.Hash, error) {
		if index >= uint64(size) {
			return nil, server.ErrNotInTree
		}
		p, err := tree.ProveEarlierInclusion(r.Dir(), head, size, int64(index))
		leaf = p.Leaf
		return p.Path, err
	})
	if err != nil {
		return server.AuditProof{}, err
	}
	if proof.Record, err = segment.ReadRecord(filepath.Join(r.Dir(), segment.Dir), index); err != nil {
		return server.AuditProof{}, fmt.Errorf("record %d: %w", index, err)
	}
	if tree.LeafHash(proof.Record) != leaf {
		return server.AuditProof{}, fmt.Errorf("record %d is not the one in the log's tree: verify the log", index)
	}
	return proof, nil
}

// ProveConsistency proves that the tree of a size begins with an older one.
func (r *recorded) ProveConsistency(ctx context.Context, old, size uint64) (server.AuditProof, error) {
	return r.prove(ctx, size, func(head tree.Checkpoint, size int64) ([]tlog.Hash, error) {
		if old > uint64(size) {
			return nil, server.ErrNotInTree
		}
		return tree.ProveEarlierConsistency(r.Dir(), int64(old), head, size)
	})
}

// prove makes a proof in the tree of a size, 0 for the newest. The tiles of a
// checkpoint may be replaced by those of the next while they are read: then it
// looks again.
func (r *recorded) prove(ctx context.Context, size uint64, path func(head tree.Checkpoint, size int64) ([]tlog.Hash, error)) (server.AuditProof, error) {
	const pause = 20 * time.Millisecond
	for {
		signed := r.Checkpoint()
		head, err := tree.Open(signed, r.verifier)
		if err != nil {
			return server.AuditProof{}, err
		}
		proof := server.AuditProof{Size: size}
		if size == 0 {
			proof.Size = uint64(head.Size)
		}
		if proof.Size > uint64(head.Size) || proof.Size > math.MaxInt64 {
			return server.AuditProof{}, server.ErrNotInTree
		}
		hashes, err := path(head.Checkpoint, int64(proof.Size))
		switch {
		case err == nil:
			for _, h := range hashes {
				proof.Hashes = append(proof.Hashes, h[:])
			}
			if proof.Size == uint64(head.Size) {
				proof.Checkpoint = signed
			}
			return proof, nil
		case !errors.Is(err, fs.ErrNotExist):
			return server.AuditProof{}, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return server.AuditProof{}, errors.Join(context.Cause(ctx), err)
		}
	}
}
