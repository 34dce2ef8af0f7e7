package tree

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// ProveEarlierInclusion is [ProveInclusion] in the tree that the first size
// records of the checkpoint's tree make: the partial tiles of an earlier tree
// have gone, and the later ones hold all of its hashes.
func ProveEarlierInclusion(dir string, checkpoint Checkpoint, size, index int64) (Inclusion, error) {
	if err := checkpoint.check(); err != nil {
		return Inclusion{}, err
	}
	if size > checkpoint.Size || index < 0 || index >= size {
		return Inclusion{}, fmt.Errorf("tree: there is no record %d in a tree of size %d, where the checkpoint's is of size %d", index, size, checkpoint.Size)
	}
	p := Inclusion{Index: index}
	err := prove(dir, checkpoint, func(r tlog.HashReader) (err error) {
		// The leaf is read together with the path: its tile is needed anyway.
		leaf := tlog.StoredHashIndex(0, index)
		read := func(indexes []int64) ([]tlog.Hash, error) {
			hashes, err := r.ReadHashes(append(indexes, leaf))
			if err != nil {
				return nil, err
			}
			p.Leaf = hashes[len(indexes)]
			return hashes[:len(indexes)], nil
		}
		if size == 1 { // the path is empty, and tlog reads nothing
			_, err = read(nil)
			return err
		}
		p.Path, err = tlog.ProveRecord(size, index, tlog.HashReaderFunc(read))
		return err
	})
	if err != nil {
		return Inclusion{}, fmt.Errorf("tree: %s: proving that record %d is in the tree of size %d: %w", dir, index, size, err)
	}
	return p, nil
}

// ProveEarlierConsistency is [ProveConsistency] with the tree that the first
// size records of the checkpoint's tree make.
func ProveEarlierConsistency(dir string, old int64, checkpoint Checkpoint, size int64) ([]tlog.Hash, error) {
	if err := checkpoint.check(); err != nil {
		return nil, err
	}
	switch {
	case size > checkpoint.Size || old < 0 || old > size:
		return nil, fmt.Errorf("tree: trees of sizes %d and %d do not come in this order before one of size %d", old, size, checkpoint.Size)
	case old == 0 || old == size:
		return nil, nil
	}
	var proof []tlog.Hash
	err := prove(dir, checkpoint, func(r tlog.HashReader) (err error) {
		proof, err = tlog.ProveTree(size, old, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tree: %s: proving that the tree of size %d starts with that of size %d: %w", dir, size, old, err)
	}
	return proof, nil
}
