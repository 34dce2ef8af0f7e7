package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/mod/sumdb/tlog"
)

// Tree is a growing tree: what of it may still change, in memory, and what is
// to be written. It is not safe for concurrent use, except that [Batch.Write]
// may run beside [Tree.Append]. There must be one for a directory at a time.
// The zero Tree is not usable: see [New] and [Load].
type Tree struct {
	log  *os.Root
	size int64
	edge [maxLevels][]byte // by level: the hashes of the tile that isn't full yet
	full []hashes          // tiles that have become full since the last batch
	last *Batch            // the batch before, or nil
	// sweep is set until the first batch is written: what is on the disk beyond
	// loaded was left behind by a writer whose checkpoint never came.
	sweep  bool
	loaded int64
	repair []hashes // partial tiles of loaded that were read from full ones beyond it
}

// hashes is a tile with its contents.
type hashes struct {
	Tile
	data []byte
}

// New returns the empty tree of the log in dir, which must exist. The first
// batch that is written removes all tiles in dir. The caller closes the tree.
func New(dir string) (*Tree, error) {
	log, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("tree: %w", err)
	}
	return &Tree{log: log, sweep: true}, nil
}

// Load returns the tree of the log in dir as the checkpoint has it, from the
// partial tiles at its edge, and makes sure that they give the checkpoint's
// root. It doesn't look at full tiles. If it fails, tiles are missing or
// damaged (a *TileError says which, where that is known): the tree can be made
// again from the records. The first batch that is written removes what tiles
// there are beyond the checkpoint. The caller closes the tree.
func Load(dir string, checkpoint Checkpoint) (*Tree, error) {
	t, err := New(dir)
	if err != nil {
		return nil, err
	}
	if err := t.load(checkpoint); err != nil {
		return nil, errors.Join(fmt.Errorf("tree: %s: %w", dir, err), t.Close())
	}
	return t, nil
}

func (t *Tree) load(checkpoint Checkpoint) error {
	if err := checkpoint.check(); err != nil {
		return err
	}
	t.size, t.loaded = checkpoint.Size, checkpoint.Size
	for _, tile := range Edge(t.size) {
		data, err := readExactly(t.log, tile)
		if errors.Is(err, fs.ErrNotExist) {
			if data, err = ReadTile(t.log, tile); err == nil {
				t.repair = append(t.repair, hashes{tile, data})
			}
		}
		if err != nil {
			return err
		}
		t.edge[tile.Level] = append(make([]byte, 0, tileBytes), data...)
	}
	if root := t.Root(); root != checkpoint.Root {
		return fmt.Errorf("the tiles at the edge of the tree of size %d give the root %v, and the checkpoint says %v", t.size, root, checkpoint.Root)
	}
	return nil
}

// Close lets go of the directory. It writes nothing.
func (t *Tree) Close() error { return t.log.Close() }

// Size returns how many leaves the tree has.
func (t *Tree) Size() int64 { return t.size }

// Append adds a leaf: see [LeafHash]. It only works in memory, at a cost of one
// hash on average; what it gathers until the next [Tree.Cut] is 32 bytes a leaf.
func (t *Tree) Append(leaf tlog.Hash) {
	h := leaf
	for level := range t.edge {
		e := t.edge[level]
		if e == nil {
			e = make([]byte, 0, tileBytes)
		}
		e = append(e, h[:]...)
		if len(e) < tileBytes {
			t.edge[level] = e
			break
		}
		// The tile is full, for good: its root goes one level up.
		t.full = append(t.full, hashes{Tile{level, t.size >> (Height * (level + 1)), Width}, e})
		t.edge[level] = nil
		h = TileRoot(e)
	}
	t.size++
}

// Root returns the root of the tree: Merkle Tree Hash of RFC 6962, section 2.1.
func (t *Tree) Root() tlog.Hash { return EdgeRoot(t.edge[:]) }

// EdgeRoot returns the root of the tree that has, at each level from 0 up, this
// unfinished tile at its edge, or none: the contents of the tiles of [Edge].
func EdgeRoot(edge [][]byte) tlog.Hash {
	var root tlog.Hash
	empty := true
	for _, data := range edge {
		// A tile that isn't full is a row of complete subtrees, each smaller than
		// the one before. The tree joins them from its right end.
		for n := len(data) / tlog.HashSize; n > 0; n &= n - 1 {
			smallest := n & -n
			h := TileRoot(data[(n-smallest)*tlog.HashSize : n*tlog.HashSize])
			if empty {
				root, empty = h, false
			} else {
				root = tlog.NodeHash(h, root)
			}
		}
	}
	if empty {
		return emptyRoot
	}
	return root
}

// emptyRoot is the root of the empty tree: SHA-256 of nothing.
var emptyRoot = tlog.Hash{
	0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
	0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
}

// LeafHash returns the hash of a record's leaf.
func LeafHash(record []byte) tlog.Hash { return tlog.RecordHash(record) }

// TileRoot returns the root over a full tile's contents, or over any power of
// two of hashes.
func TileRoot(data []byte) tlog.Hash {
	if len(data) == tlog.HashSize {
		return tlog.Hash(data)
	}
	half := len(data) / 2
	return tlog.NodeHash(TileRoot(data[:half]), TileRoot(data[half:]))
}
