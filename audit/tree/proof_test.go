package tree_test

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/tree"
)

func proof(t *testing.T, hashes string) []tlog.Hash {
	t.Helper()
	var p []tlog.Hash
	for _, h := range strings.Fields(hashes) {
		p = append(p, tlog.Hash(unhex(t, h)))
	}
	return p
}

// The proofs of the reference implementation of Certificate Transparency, over
// the leaves and roots above.
const (
	ct0 = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d "
	ct1 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7 "
	ct2 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e "
	ct4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b "
	ct5 = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4 "
	ct6 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a "
	ct7 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0 "
	ct8 = "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7 "
	ct9 = "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125 "
)

// ctLog is the log of the reference implementation's leaves in a directory,
// with a flush for each size.
func ctLog(t *testing.T) (string, func(size int64) tree.Checkpoint) {
	t.Helper()
	dir := t.TempDir()
	tr := newTree(t, dir)
	for _, l := range ctLeaves {
		tr.Append(tree.LeafHash(unhex(t, l)))
		if err := tr.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func(size int64) tree.Checkpoint {
		return tree.Checkpoint{Origin: "ct.example", Size: size, Root: tlog.Hash(unhex(t, ctRoots[size]))}
	}
}

func TestInclusionOfCertificateTransparency(t *testing.T) {
	dir, at := ctLog(t)
	for _, test := range []struct {
		index, size int64
		want        string
	}{
		{0, 1, ""},
		{0, 8, ct1 + ct2 + ct5},
		{5, 8, ct4 + ct7 + ct8},
		{2, 3, ct9},
		{1, 5, ct0 + ct2 + ct4},
	} {
		got, err := tree.ProveInclusion(dir, at(test.size), test.index)
		if err != nil {
			t.Fatal(err)
		}
		if want := proof(t, test.want); !slices.Equal(got.Path, want) {
			t.Errorf("record %d of %d: %v, want %v", test.index, test.size, got.Path, want)
		}
		if want := tree.LeafHash(unhex(t, ctLeaves[test.index])); got.Leaf != want {
			t.Errorf("record %d of %d: leaf %v, want %v", test.index, test.size, got.Leaf, want)
		}
		if err := tree.VerifyInclusion(at(test.size), got); err != nil {
			t.Error(err)
		}
	}
}

func TestConsistencyOfCertificateTransparency(t *testing.T) {
	dir, at := ctLog(t)
	for _, test := range []struct {
		from, to int64
		want     string
	}{
		{0, 0, ""}, {0, 5, ""}, {1, 1, ""}, {8, 8, ""},
		{1, 8, ct1 + ct2 + ct5},
		{6, 8, ct6 + ct7 + ct8},
		{2, 5, ct2 + ct4},
	} {
		got, err := tree.ProveConsistency(dir, test.from, at(test.to))
		if err != nil {
			t.Fatal(err)
		}
		if want := proof(t, test.want); !slices.Equal(got, want) {
			t.Errorf("%d to %d: %v, want %v", test.from, test.to, got, want)
		}
		if err := tree.VerifyConsistency(at(test.from), at(test.to), got); err != nil {
			t.Error(err)
		}
	}
}

// TestProofs proves records and sizes of a tree with several levels of tiles,
// and has each proof fail where it must.
func TestProofs(t *testing.T) {
	dir := t.TempDir()
	tr := newTree(t, dir)
	var heads []tree.Checkpoint
	for _, size := range []int64{1, 200, 256, 300, 512, 65536, 65537, 70000} {
		grow(tr, size)
		if err := tr.Flush(); err != nil {
			t.Fatal(err)
		}
		heads = append(heads, checkpoint(tr))
	}
	for _, head := range heads {
		for _, index := range []int64{0, 1, 199, 255, 256, 299, 511, 65535, 65536, 69999} {
			p, err := tree.ProveInclusion(dir, head, index)
			if (err == nil) != (index < head.Size) {
				t.Fatalf("record %d of %d: %v", index, head.Size, err)
			}
			if err != nil {
				continue
			}
			if p.Leaf != leaf(index) {
				t.Errorf("record %d of %d: another leaf", index, head.Size)
			}
			if err := tree.VerifyInclusion(head, p); err != nil {
				t.Error(err)
			}
			wrong := p
			wrong.Leaf[31]++
			if tree.VerifyInclusion(head, wrong) == nil {
				t.Errorf("record %d of %d: another leaf is proved", index, head.Size)
			}
			wrong = p
			wrong.Index ^= 1
			if tree.VerifyInclusion(head, wrong) == nil {
				t.Errorf("record %d of %d: another index is proved", index, head.Size)
			}
			if len(p.Path) > 0 {
				wrong = p
				wrong.Path = wrong.Path[1:]
				if tree.VerifyInclusion(head, wrong) == nil {
					t.Errorf("record %d of %d: a shorter path proves it", index, head.Size)
				}
			}
		}
		for _, earlier := range heads {
			p, err := tree.ProveConsistency(dir, earlier.Size, head)
			if (err == nil) != (earlier.Size <= head.Size) {
				t.Fatalf("%d to %d: %v", earlier.Size, head.Size, err)
			}
			if err != nil {
				continue
			}
			if err := tree.VerifyConsistency(earlier, head, p); err != nil {
				t.Error(err)
			}
			wrong := earlier
			wrong.Root[0]++
			if err := tree.VerifyConsistency(wrong, head, p); !errors.Is(err, tree.ErrInconsistent) {
				t.Errorf("%d to %d: another root: %v", earlier.Size, head.Size, err)
			}
			if err := tree.VerifyConsistency(earlier, head, append(slices.Clone(p), head.Root)); !errors.Is(err, tree.ErrInconsistent) {
				t.Errorf("%d to %d: a longer proof: %v", earlier.Size, head.Size, err)
			}
		}
	}
}

func TestConsistencyRefuses(t *testing.T) {
	_, at := ctLog(t)
	other := at(8)
	other.Origin = "other.example"
	if err := tree.VerifyConsistency(at(8), other, nil); !errors.Is(err, tree.ErrInconsistent) {
		t.Errorf("two logs: %v", err)
	}
	if err := tree.VerifyConsistency(at(8), at(6), nil); !errors.Is(err, tree.ErrInconsistent) {
		t.Errorf("backwards: %v", err)
	}
	if err := tree.VerifyConsistency(at(0), at(6), []tlog.Hash{{}}); !errors.Is(err, tree.ErrInconsistent) {
		t.Errorf("a proof from nothing: %v", err)
	}
	if err := tree.VerifyConsistency(tree.Checkpoint{}, at(6), nil); err == nil {
		t.Error("the zero checkpoint is consistent with another")
	}
	if err := tree.VerifyInclusion(tree.Checkpoint{}, tree.Inclusion{}); err == nil {
		t.Error("the zero proof proves")
	}
}

// TestProofsOfDamagedTiles changes bytes of the tiles that a proof needs: at
// least one of each hash.
func TestProofsOfDamagedTiles(t *testing.T) {
	dir := t.TempDir()
	tr := newTree(t, dir)
	grow(tr, 600)
	if err := tr.Flush(); err != nil {
		t.Fatal(err)
	}
	head := checkpoint(tr)
	for _, path := range []string{"tile/0/000", "tile/0/002.p/88", "tile/1/000.p/2"} {
		name := filepath.Join(dir, path)
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(good); i += 31 {
			bad := slices.Clone(good)
			bad[i] ^= 0x40
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := tree.ProveInclusion(dir, head, 17); !errors.Is(err, tree.ErrTiles) {
				t.Fatalf("%s with another byte %d: %v", path, i, err)
			}
		}
		for _, size := range []int{0, 1, len(good) - 1} {
			if err := os.WriteFile(name, good[:size], 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := tree.ProveInclusion(dir, head, 17)
			if tileErr, ok := errors.AsType[*tree.TileError](err); !ok || tileErr.Path != path {
				t.Errorf("%s of %d bytes: %v", path, size, err)
			}
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if _, err := tree.ProveInclusion(dir, head, 17); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is missing: %v", path, err)
		}
		if err := os.WriteFile(name, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A tile that the proof doesn't need.
	if err := os.Remove(filepath.Join(dir, "tile/0/001")); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.ProveInclusion(dir, head, 17); err != nil {
		t.Error(err)
	}
}

func TestRootsInHex(t *testing.T) {
	// Guards the table itself: the last proof above holds a root of the table.
	if strings.TrimSpace(ct8) != ctRoots[4] || strings.TrimSpace(ct9) != ctRoots[2] || strings.TrimSpace(ct0) != ctRoots[1] {
		t.Error("the tables differ")
	}
	if got := tree.LeafHash(nil); hex.EncodeToString(got[:]) != ctRoots[1] {
		t.Errorf("%x", got)
	}
}
