package tree

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/tlog"
)

// Inclusion is the proof that a record is in a tree (RFC 6962, section 2.1.1).
type Inclusion struct {
	Index int64       // of the record
	Leaf  tlog.Hash   // its hash
	Path  []tlog.Hash // from the leaf up
}

// ProveInclusion returns the proof that the record with this index is in the
// checkpoint's tree, from the tiles of the log in dir. It reads only the tiles
// it needs, and makes sure that they belong to the checkpoint's tree: the proof
// holds. If a tile is missing or of the wrong size, the error holds a
// *TileError.
func ProveInclusion(dir string, checkpoint Checkpoint, index int64) (Inclusion, error) {
	return ProveEarlierInclusion(dir, checkpoint, checkpoint.Size, index)
}

// VerifyInclusion returns nil only if the path proves that the record with this
// index and leaf hash is in the checkpoint's tree.
func VerifyInclusion(checkpoint Checkpoint, proof Inclusion) error {
	if err := checkpoint.check(); err != nil {
		return err
	}
	if err := tlog.CheckRecord(proof.Path, checkpoint.Size, checkpoint.Root, proof.Index, proof.Leaf); err != nil {
		return fmt.Errorf("tree: the proof doesn't show that record %d is in the tree of size %d", proof.Index, checkpoint.Size)
	}
	return nil
}

// ProveConsistency returns the proof that the checkpoint's tree starts with all
// of its tree of size old (RFC 6962, section 2.1.2), from the tiles of the log
// in dir, as [ProveInclusion] does. It is empty if old is 0 or the
// checkpoint's size.
func ProveConsistency(dir string, old int64, checkpoint Checkpoint) ([]tlog.Hash, error) {
	return ProveEarlierConsistency(dir, old, checkpoint, checkpoint.Size)
}

// ErrInconsistent says that one of two checkpoints doesn't continue the other.
var ErrInconsistent = errors.New("the later tree does not continue the earlier one")

// VerifyConsistency returns nil only if the proof shows that the tree of later
// starts with all of that of earlier, and both are of one log. If the proof
// does not fit, or the trees differ, the error wraps [ErrInconsistent].
func VerifyConsistency(earlier, later Checkpoint, proof []tlog.Hash) error {
	if err := errors.Join(earlier.check(), later.check()); err != nil {
		return err
	}
	if earlier.Origin != later.Origin {
		return fmt.Errorf("tree: checkpoints of two logs, %q and %q: %w", earlier.Origin, later.Origin, ErrInconsistent)
	}
	var err error
	switch {
	case earlier.Size > later.Size:
		return fmt.Errorf("tree: the tree of size %d can't continue one of size %d: %w", later.Size, earlier.Size, ErrInconsistent)
	case earlier.Size == 0:
		if len(proof) > 0 {
			err = errors.New("a proof for an empty tree is empty")
		}
	default:
		err = tlog.CheckTree(proof, later.Size, later.Root, earlier.Size, earlier.Root)
	}
	if err != nil {
		return fmt.Errorf("tree: sizes %d and %d: %w", earlier.Size, later.Size, ErrInconsistent)
	}
	return nil
}

// ErrTiles says that tiles, each of the right size, are not those of the
// checkpoint's tree. `pdp audit verify` finds out which.
var ErrTiles = errors.New("the tiles are not those of the checkpoint's tree: verify the log to find which are damaged")

// prove calls f with the hashes of the checkpoint's tree, each checked against
// its root.
func prove(dir string, checkpoint Checkpoint, f func(tlog.HashReader) error) error {
	log, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	reader := &tileReader{log: log}
	err = f(tlog.TileHashReader(tlog.Tree{N: checkpoint.Size, Hash: checkpoint.Root}, reader))
	if err != nil && reader.err == nil {
		return ErrTiles
	}
	return err
}

// tileReader gives tlog the tiles of a log.
type tileReader struct {
	log *os.Root
	err error // of reading a tile
}

func (r *tileReader) Height() int { return Height }

func (r *tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, t := range tiles {
		if data[i], r.err = ReadTile(r.log, Tile{t.L, t.N, t.W}); r.err != nil {
			return nil, r.err
		}
	}
	return data, nil
}

func (r *tileReader) SaveTiles([]tlog.Tile, [][]byte) {}
