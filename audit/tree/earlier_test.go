package tree_test

import (
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/tree"
)

// TestEarlierTrees: proofs in every earlier tree of a log, whose own partial
// tiles have gone, are those of RFC 6962 and verify against roots that the test
// makes by itself.
func TestEarlierTrees(t *testing.T) {
	const newest = 600
	dir := t.TempDir()
	tr := newTree(t, dir)
	for size := int64(50); size <= newest; size += 50 {
		grow(tr, size)
		flush(t, tr)
	}
	head := checkpoint(tr)
	at := func(size int64) tree.Checkpoint {
		return tree.Checkpoint{Origin: head.Origin, Size: size, Root: mth(leaves(size))}
	}
	for _, size := range []int64{1, 2, 3, 17, 255, 256, 257, 300, 511, 512, 513, 599, 600} {
		for _, index := range []int64{0, 1, size / 2, 255, 256, size - 2, size - 1} {
			if index < 0 || index >= size {
				continue
			}
			got, err := tree.ProveEarlierInclusion(dir, head, size, index)
			if err != nil || got.Leaf != leaf(index) {
				t.Fatalf("record %d of %d: %v, %v", index, size, got.Leaf, err)
			}
			if err := tree.VerifyInclusion(at(size), got); err != nil {
				t.Error(err)
			}
		}
		for _, old := range []int64{0, 1, size / 2, 256, size - 1, size} {
			if old < 0 || old > size {
				continue
			}
			got, err := tree.ProveEarlierConsistency(dir, old, head, size)
			if err != nil {
				t.Fatalf("%d in %d: %v", old, size, err)
			}
			earlier := at(old)
			if old == 0 {
				earlier.Root, _ = tlog.TreeHash(0, nil)
			}
			if err := tree.VerifyConsistency(earlier, at(size), got); err != nil {
				t.Error(err)
			}
		}
	}
	for _, bad := range [][2]int64{{601, 0}, {600, 600}, {600, -1}, {0, 0}, {-1, 0}} {
		if _, err := tree.ProveEarlierInclusion(dir, head, bad[0], bad[1]); err == nil {
			t.Errorf("a proof of record %d of %d", bad[1], bad[0])
		}
		if _, err := tree.ProveEarlierConsistency(dir, bad[0]+1, head, bad[0]); err == nil {
			t.Errorf("a proof of %d in %d", bad[0]+1, bad[0])
		}
	}
}

func TestEarlierTreesOfCertificateTransparency(t *testing.T) {
	dir, at := ctLog(t)
	got, err := tree.ProveEarlierInclusion(dir, at(8), 5, 1)
	if want := proof(t, ct0+ct2+ct4); err != nil || !slices.Equal(got.Path, want) {
		t.Errorf("record 1 of 5: %v, want %v, %v", got.Path, want, err)
	}
}
