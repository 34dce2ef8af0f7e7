package tree_test

import (
	"crypto/sha256"
	"encoding/binary"
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

// The leaves and roots that the reference implementation of Certificate
// Transparency tests with.
var (
	ctLeaves = []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"}
	ctRoots  = []string{
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	}
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newTree(t testing.TB, dir string) *tree.Tree {
	t.Helper()
	tr, err := tree.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

func load(t *testing.T, dir string, c tree.Checkpoint) *tree.Tree {
	t.Helper()
	tr, err := tree.Load(dir, c)
	if err != nil {
		t.Fatalf("size %d: %v", c.Size, err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

func flush(t *testing.T, tr *tree.Tree) {
	t.Helper()
	if err := tr.Flush(); err != nil {
		t.Fatal(err)
	}
}

// leaf returns the hash of leaf i of the trees that tests grow.
func leaf(i int64) tlog.Hash {
	return sha256.Sum256(binary.BigEndian.AppendUint64([]byte{0}, uint64(i)))
}

// grow appends leaves until the tree has this size.
func grow(tr *tree.Tree, size int64) {
	for tr.Size() < size {
		tr.Append(leaf(tr.Size()))
	}
}

// mth is the Merkle Tree Hash as RFC 6962, section 2.1, defines it, over the
// hashes of leaves.
func mth(leaves []tlog.Hash) tlog.Hash {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	left, right := mth(leaves[:k]), mth(leaves[k:])
	return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
}

func leaves(size int64) []tlog.Hash {
	all := make([]tlog.Hash, size)
	for i := range all {
		all[i] = leaf(int64(i))
	}
	return all
}

func checkpoint(tr *tree.Tree) tree.Checkpoint {
	return tree.Checkpoint{Origin: "log.example/1", Size: tr.Size(), Root: tr.Root()}
}

func TestRootsOfCertificateTransparency(t *testing.T) {
	tr := newTree(t, t.TempDir())
	for i, want := range ctRoots {
		if got := tr.Root(); hex.EncodeToString(got[:]) != want {
			t.Errorf("size %d: root %x, want %s", i, got[:], want)
		}
		if i < len(ctLeaves) {
			tr.Append(tree.LeafHash(unhex(t, ctLeaves[i])))
		}
	}
}

func TestRootIsRFC6962(t *testing.T) {
	tr := newTree(t, t.TempDir())
	all := leaves(70000)
	for _, size := range []int64{0, 1, 2, 3, 5, 8, 127, 128, 255, 256, 257, 511, 512, 513, 768, 1000, 65535, 65536, 65537, 65792, 70000} {
		grow(tr, size)
		if got, want := tr.Root(), mth(all[:size]); got != want {
			t.Errorf("size %d: root %v, want %v", size, got, want)
		}
	}
}

// files lists the tiles under dir by their paths.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(filepath.Join(dir, tree.Dir), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		paths = append(paths, filepath.ToSlash(rel))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	slices.Sort(paths)
	return paths
}

// TestTilesOfSpecification has the example of C2SP tlog-tiles: which tiles a
// tree of size 70,000 has; and what is in them, by its definition.
func TestTilesOfSpecification(t *testing.T) {
	dir := t.TempDir()
	tr := newTree(t, dir)
	grow(tr, 70000)
	flush(t, tr)
	got := files(t, dir)
	full0, full1 := 0, 0
	var partial []string
	for _, p := range got {
		switch {
		case strings.Contains(p, ".p/"):
			partial = append(partial, p)
		case strings.HasPrefix(p, "tile/0/"):
			full0++
		case strings.HasPrefix(p, "tile/1/"):
			full1++
		default:
			t.Errorf("there is %s", p)
		}
	}
	if full0 != 273 || full1 != 1 {
		t.Errorf("%d and %d full tiles, want 273 and 1", full0, full1)
	}
	if want := []string{"tile/0/273.p/112", "tile/1/001.p/17", "tile/2/000.p/1"}; !slices.Equal(partial, want) {
		t.Errorf("partial tiles %q, want %q", partial, want)
	}
	all := leaves(70000)
	for _, path := range got {
		tile, err := tree.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		span := int64(1)
		for range tile.Level {
			span *= 256
		}
		for i := range int64(tile.Width) {
			from := (tile.Index*256 + i) * span
			h := mth(all[from : from+span])
			want = append(want, h[:]...)
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != string(want) {
			t.Errorf("%s: is not the hashes of RFC 6962", path)
		}
	}
}

// TestFlushes has a tree grow in steps: partial tiles stay until their full
// tile is there, and full ones are written once.
func TestFlushes(t *testing.T) {
	dir := t.TempDir()
	tr := newTree(t, dir)
	var first os.FileInfo
	for _, step := range []struct {
		size int64
		want []string
	}{
		{0, nil},
		{3, []string{"tile/0/000.p/3"}},
		{3, []string{"tile/0/000.p/3"}},
		{255, []string{"tile/0/000.p/255", "tile/0/000.p/3"}},
		{256, []string{"tile/0/000", "tile/1/000.p/1"}},
		{300, []string{"tile/0/000", "tile/0/001.p/44", "tile/1/000.p/1"}},
		{512, []string{"tile/0/000", "tile/0/001", "tile/1/000.p/1", "tile/1/000.p/2"}},
		{1025, []string{"tile/0/000", "tile/0/001", "tile/0/002", "tile/0/003", "tile/0/004.p/1", "tile/1/000.p/1", "tile/1/000.p/2", "tile/1/000.p/4"}},
	} {
		grow(tr, step.size)
		flush(t, tr)
		if got := files(t, dir); !slices.Equal(got, step.want) {
			t.Errorf("size %d: %q, want %q", step.size, got, step.want)
		}
		if step.size < 256 {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, "tile/0/000"))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = info
		}
		if !os.SameFile(first, info) || info.Size() != 8192 {
			t.Errorf("size %d: a full tile was written again, or has %d bytes", step.size, info.Size())
		}
	}
}

func TestLoad(t *testing.T) {
	for _, size := range []int64{0, 1, 255, 256, 300, 65536, 66000} {
		dir := t.TempDir()
		tr := newTree(t, dir)
		grow(tr, size)
		flush(t, tr)
		loaded := load(t, dir, checkpoint(tr))
		for _, more := range []int64{0, 1, 300} {
			grow(tr, size+more)
			grow(loaded, size+more)
			if loaded.Size() != tr.Size() || loaded.Root() != tr.Root() {
				t.Errorf("size %d and %d more: another tree", size, more)
			}
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	tr := newTree(t, dir)
	grow(tr, 300)
	flush(t, tr)
	good := checkpoint(tr)
	const path = "tile/0/001.p/44"
	name := filepath.Join(dir, path)
	tile, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	other := good
	other.Root[0]++
	flipped := slices.Clone(tile)
	flipped[77]++
	for _, test := range []struct {
		name       string
		checkpoint tree.Checkpoint
		tile       []byte
		wrong      string // path in the error
		missing    bool
	}{
		{"another root", other, tile, "", false},
		{"a changed tile", good, flipped, "", false},
		{"a short tile", good, tile[:len(tile)-1], path, false},
		{"a long tile", good, append(slices.Clone(tile), 0), path, false},
		{"an empty tile", good, nil, path, false},
		{"no tile", good, nil, path, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(name, test.tile, 0o600); err != nil {
				t.Fatal(err)
			}
			if test.missing {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			loaded, err := tree.Load(dir, test.checkpoint)
			if err == nil {
				loaded.Close()
				t.Fatal("loaded")
			}
			tileErr, ok := errors.AsType[*tree.TileError](err)
			if ok != (test.wrong != "") || ok && tileErr.Path != test.wrong {
				t.Errorf("%v: want the tile %q named", err, test.wrong)
			}
			if errors.Is(err, fs.ErrNotExist) != test.missing {
				t.Errorf("%v: want missing %t", err, test.missing)
			}
		})
	}
}

// TestCrashBeforeCheckpoint has tiles of a size on the disk whose checkpoint
// was never written, and other records from there on.
func TestCrashBeforeCheckpoint(t *testing.T) {
	for _, lost := range []int64{300, 301, 511, 512, 513, 800, 66000} {
		dir := t.TempDir()
		tr := newTree(t, dir)
		grow(tr, 300)
		flush(t, tr)
		good := checkpoint(tr)
		for tr.Size() < lost {
			tr.Append(tree.LeafHash([]byte("never confirmed")))
		}
		flush(t, tr)
		again := load(t, dir, good)
		flush(t, again)
		if got, want := files(t, dir), []string{"tile/0/000", "tile/0/001.p/44", "tile/1/000.p/1"}; !slices.Equal(got, want) {
			t.Errorf("%d: after the first flush %q, want %q", lost, got, want)
		}
		grow(again, 1000)
		flush(t, again)
		load(t, dir, checkpoint(again))
	}
}

// TestWriteGoesOn has a flush fail in the middle: the next one writes what is
// left.
func TestWriteGoesOn(t *testing.T) {
	dir := t.TempDir()
	tr := newTree(t, dir)
	flush(t, tr)
	grow(tr, 1000)
	// A directory where a file must go.
	obstacle := filepath.Join(dir, "tile/0/002")
	if err := os.MkdirAll(filepath.Join(obstacle, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tr.Flush(); err == nil {
			t.Fatal("a flush over an obstacle succeeded")
		}
	}
	grow(tr, 1100)
	if err := os.RemoveAll(obstacle); err != nil {
		t.Fatal(err)
	}
	flush(t, tr)
	want := []string{"tile/0/000", "tile/0/001", "tile/0/002", "tile/0/003", "tile/0/004.p/76", "tile/1/000.p/4"}
	got := slices.DeleteFunc(files(t, dir), func(p string) bool { return strings.HasSuffix(p, ".new") })
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	load(t, dir, checkpoint(tr))
}

// TestBatchStaysAsItIs appends while a batch is being written.
func TestBatchStaysAsItIs(t *testing.T) {
	dir := t.TempDir()
	tr := newTree(t, dir)
	for size := int64(100); size < 3000; size += 100 {
		grow(tr, size)
		batch := tr.Cut()
		want := checkpoint(tr)
		written := make(chan error, 1)
		go func() { written <- batch.Write() }()
		grow(tr, size+70)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		if batch.Size() != want.Size || batch.Root() != want.Root {
			t.Fatalf("the batch is of size %d and root %v, want %d and %v", batch.Size(), batch.Root(), want.Size, want.Root)
		}
		load(t, dir, want)
	}
}

func TestAppendIsCheap(t *testing.T) {
	tr := newTree(t, t.TempDir())
	h := leaf(1)
	// One buffer of a tile for 256 leaves, and growing the list of full tiles.
	if allocs := testing.AllocsPerRun(10, func() {
		for range 256 * 100 {
			tr.Append(h)
		}
	}); allocs > 256 {
		t.Errorf("%v allocations for 25,600 leaves", allocs)
	}
}
