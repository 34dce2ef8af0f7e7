package verifytest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
)

// Hash is a SHA-256 hash of a node.
type Hash [sha256.Size]byte

// LeafHash is MTH({record}): RFC 6962, section 2.1.
func LeafHash(record []byte) Hash {
	return sha256.Sum256(append([]byte{0x00}, record...))
}

func nodeHash(left, right Hash) Hash {
	return sha256.Sum256(append(append([]byte{0x01}, left[:]...), right[:]...))
}

// split is k: the largest power of two smaller than n, which is at least 2.
func split(n uint64) uint64 {
	k := uint64(1)
	for k*2 < n {
		k *= 2
	}
	return k
}

// Root is MTH of the records that have these leaf hashes.
func Root(leaves []Hash) Hash {
	switch n := uint64(len(leaves)); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	default:
		k := split(n)
		return nodeHash(Root(leaves[:k]), Root(leaves[k:]))
	}
}

// Tree holds the hashes of all complete subtrees over some leaves, so that the
// root and the proofs of each size take a few steps.
type Tree struct {
	// At height h, hash i is MTH(D[i*2^h : (i+1)*2^h]).
	heights [][]Hash
}

// NewTree returns the tree over these leaves.
func NewTree(leaves []Hash) *Tree {
	t := &Tree{heights: [][]Hash{leaves}}
	for below := leaves; len(below) >= 2; {
		var above []Hash
		for ; len(below) >= 2; below = below[2:] {
			above = append(above, nodeHash(below[0], below[1]))
		}
		t.heights = append(t.heights, above)
		below = above
	}
	return t
}

// Size is how many leaves there are.
func (t *Tree) Size() uint64 { return uint64(len(t.heights[0])) }

// mth is MTH(D[from:to]), for ranges as RFC 6962 makes them: if to-from is a
// power of two, it divides from.
func (t *Tree) mth(from, to uint64) Hash {
	n := to - from
	if n == 0 {
		return sha256.Sum256(nil)
	}
	if n&(n-1) == 0 {
		h := bits.TrailingZeros64(n)
		return t.heights[h][from>>h]
	}
	k := split(n)
	return nodeHash(t.mth(from, from+k), t.mth(from+k, to))
}

// Root is MTH(D[n]).
func (t *Tree) Root(n uint64) Hash { return t.mth(0, n) }

// Inclusion is PATH(m, D[n]) of section 2.1.1.
func (t *Tree) Inclusion(m, n uint64) ([]Hash, error) {
	if m >= n || n > t.Size() {
		return nil, fmt.Errorf("record %d is not among %d of %d", m, n, t.Size())
	}
	return t.path(m, 0, n), nil
}

// path is PATH(m, D[from:to]).
func (t *Tree) path(m, from, to uint64) []Hash {
	if to-from == 1 {
		return nil
	}
	k := split(to - from)
	if m < k {
		return append(t.path(m, from, from+k), t.mth(from+k, to))
	}
	return append(t.path(m-k, from+k, to), t.mth(from, from+k))
}

// Consistency is PROOF(m, D[n]) of section 2.1.2, for 0 < m <= n.
func (t *Tree) Consistency(m, n uint64) ([]Hash, error) {
	if m == 0 || m > n || n > t.Size() {
		return nil, fmt.Errorf("there is no proof from a tree of %d to one of %d, of %d", m, n, t.Size())
	}
	return t.subproof(m, 0, n, true), nil
}

// subproof is SUBPROOF(m, D[from:to], known).
func (t *Tree) subproof(m, from, to uint64, known bool) []Hash {
	if m == to-from {
		if known {
			return nil
		}
		return []Hash{t.mth(from, to)}
	}
	k := split(to - from)
	if m <= k {
		return append(t.subproof(m, from, from+k, known), t.mth(from+k, to))
	}
	return append(t.subproof(m-k, from+k, to, false), t.mth(from, from+k))
}

var errLength = errors.New("the proof has another length than it must have")

// CheckInclusion says what is wrong with the proof that leaf is record m of
// the tree of n records with this root; nil: nothing.
func CheckInclusion(leaf Hash, m, n uint64, root Hash, proof []Hash) error {
	if m >= n {
		return fmt.Errorf("record %d is not among %d", m, n)
	}
	got, err := climb(leaf, m, n, proof)
	if err == nil && got != root {
		err = errors.New("the proof leads to another root")
	}
	return err
}

// climb takes PATH apart in the order in which section 2.1.1 puts it together:
// the last hash is the other side's, at the top.
func climb(leaf Hash, m, n uint64, proof []Hash) (Hash, error) {
	if n == 1 {
		if len(proof) > 0 {
			return Hash{}, errLength
		}
		return leaf, nil
	}
	if len(proof) == 0 {
		return Hash{}, errLength
	}
	last, rest := proof[len(proof)-1], proof[:len(proof)-1]
	k := split(n)
	if m < k {
		left, err := climb(leaf, m, k, rest)
		return nodeHash(left, last), err
	}
	right, err := climb(leaf, m-k, n-k, rest)
	return nodeHash(last, right), err
}

// CheckConsistency says what is wrong with the proof that the tree of m
// records with root older is the beginning of the tree of n records with root
// newer, 0 < m <= n; nil: nothing.
func CheckConsistency(m uint64, older Hash, n uint64, newer Hash, proof []Hash) error {
	if m == 0 || m > n {
		return fmt.Errorf("there is no proof from a tree of %d to one of %d", m, n)
	}
	gotOlder, gotNewer, err := rebuild(m, n, older, true, proof)
	switch {
	case err != nil:
		return err
	case gotOlder != older:
		return errors.New("the proof leads to another older root")
	case gotNewer != newer:
		return errors.New("the proof leads to another newer root")
	}
	return nil
}

// rebuild takes SUBPROOF apart and returns both roots that it leads to.
func rebuild(m, n uint64, older Hash, known bool, proof []Hash) (Hash, Hash, error) {
	if m == n {
		switch {
		case known && len(proof) == 0:
			return older, older, nil
		case !known && len(proof) == 1:
			return proof[0], proof[0], nil
		}
		return Hash{}, Hash{}, errLength
	}
	if len(proof) == 0 {
		return Hash{}, Hash{}, errLength
	}
	last, rest := proof[len(proof)-1], proof[:len(proof)-1]
	k := split(n)
	if m <= k {
		old, all, err := rebuild(m, k, older, known, rest)
		return old, nodeHash(all, last), err
	}
	old, all, err := rebuild(m-k, n-k, older, false, rest)
	return nodeHash(last, old), nodeHash(last, all), err
}
