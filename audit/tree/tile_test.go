package tree_test

import (
	"testing"

	"github.com/writ-pdp/writ/audit/tree"
)

// paths are those that C2SP tlog-tiles gives or implies.
var paths = []struct {
	path string
	tile tree.Tile
}{
	{"tile/0/000", tree.Tile{Level: 0, Index: 0, Width: 256}},
	{"tile/0/x001/x234/067", tree.Tile{Level: 0, Index: 1234067, Width: 256}},
	{"tile/0/x001/x234/067.p/1", tree.Tile{Level: 0, Index: 1234067, Width: 1}},
	{"tile/0/273.p/112", tree.Tile{Level: 0, Index: 273, Width: 112}},
	{"tile/1/999", tree.Tile{Level: 1, Index: 999, Width: 256}},
	{"tile/1/x001/000", tree.Tile{Level: 1, Index: 1000, Width: 256}},
	{"tile/7/x001/x000/000.p/255", tree.Tile{Level: 7, Index: 1000000, Width: 255}},
}

func TestPaths(t *testing.T) {
	for _, test := range paths {
		if got := test.tile.Path(); got != test.path {
			t.Errorf("%+v: path %s, want %s", test.tile, got, test.path)
		}
		if got, err := tree.ParsePath(test.path); err != nil || got != test.tile {
			t.Errorf("%s: tile %+v and %v, want %+v", test.path, got, err, test.tile)
		}
	}
}

func TestNoPaths(t *testing.T) {
	for _, path := range []string{
		"", "tile", "tile/", "tile/0", "tile/0/", "tile/0/0", "tile/0/0000", "tile/0/00a", "tile/00/000", "tile/-1/000", "tile/8/000",
		"tile/0/x000/000", "tile/0/001/000", "tile/0/x001", "tile/0/X001/000", "tile/0/x001/x000", "tile/0/xx01/000", "tile/0/1000",
		"tile/0/000.p", "tile/0/000.p/", "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01", "tile/0/000.p/-1", "tile/0/000.p/1/",
		"tile/0/000/", "/tile/0/000", "tile/0/+00", "tile/0/ 00", "tile/0/000.p/+1", "tile/data/000", "tile/entries/000",
		"tile/0/x999/x999/x999/x999/x999/x999/x999/999",
	} {
		if tile, err := tree.ParsePath(path); err == nil {
			t.Errorf("%q is %+v", path, tile)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, test := range paths {
		f.Add(test.path)
	}
	f.Add("tile/0/x000/000")
	f.Fuzz(func(t *testing.T, path string) {
		tile, err := tree.ParsePath(path)
		if err != nil {
			return
		}
		if tile.Path() != path {
			t.Errorf("%q is %+v, whose path is %q", path, tile, tile.Path())
		}
		if tile.Level < 0 || tile.Level > 7 || tile.Width < 1 || tile.Width > 256 || tile.Index < 0 {
			t.Errorf("%q is %+v", path, tile)
		}
	})
}

func TestEdge(t *testing.T) {
	for size := range int64(70000) {
		at := map[int]tree.Tile{}
		for _, tile := range tree.Edge(size) {
			at[tile.Level] = tile
		}
		span := int64(1)
		for level := range 4 {
			// C2SP tlog-tiles: floor(s / 256**l) mod 256 entries.
			width := int(size / span % 256)
			want := tree.Tile{Level: level, Index: size / span / 256, Width: width}
			if got, ok := at[level]; ok != (width > 0) || ok && got != want {
				t.Fatalf("size %d, level %d: %+v, want %+v", size, level, got, want)
			}
			span *= 256
		}
	}
}
