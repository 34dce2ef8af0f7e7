package verify

import (
	"errors"
	"io/fs"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/tree"
)

// judge tells, for each tile that isn't what the records give, which of the two
// is damaged: what leads to the signed root is right.
func (v *verification) judge(b *builder) error {
	a := &authority{v: v, computed: b.edge[:], records: map[tree.Tile][]byte{}, known: map[tree.Tile][]byte{}, wrong: map[tree.Tile]bool{}}
	differs := map[tree.Tile]bool{}
	for _, d := range v.differ {
		differs[d.Tile] = true
		if d.computed != nil && d.Width == tree.Width {
			a.records[d.Tile] = d.computed
		}
	}
	right, before := tree.EdgeRoot(b.edge[:]) == v.head.Root, v.found.count()
	for _, d := range v.differ {
		if right {
			// The records are all there, and as they were signed.
			v.tile(d, d.computed, false)
			continue
		}
		truth := a.tile(d.Tile)
		v.tile(d, truth, a.wrong[d.Tile])
		if d.Level == 0 && d.Width == v.tileAt(0, d.Index).Width {
			v.records(d, truth)
		}
		v.below(d, truth, differs)
	}
	// Other findings don't explain another root, unless records are missing.
	if !right && b.whole && v.found.count() == before {
		v.found.add(RootMismatch, tree.CheckpointFile, "the records and the tiles agree with each other, and not with the root that was signed: both were rewritten, or come from another time")
	}
	return nil
}

// tile says what is wrong with a tile, if its contents should be truth; nil if
// that isn't known. Even then it may be known to be wrong.
func (v *verification) tile(d difference, truth []byte, wrong bool) {
	path := d.Path()
	if tileErr, ok := errors.AsType[*tree.TileError](d.err); ok {
		switch {
		case !errors.Is(d.err, fs.ErrNotExist):
			v.found.add(TileSize, tileErr.Path, "%v", tileErr.Err)
		case d.Width == v.tileAt(d.Level, d.Index).Width:
			v.found.add(TileMissing, path, "the tile is missing")
		}
		return
	}
	data, err := tree.ReadTile(v.log, d.Tile)
	if err != nil {
		v.found.add(TileChanged, path, "the tile changes while the log is verified: %v", err)
		return
	}
	switch {
	case truth != nil && string(data) != string(truth):
		v.found.add(TileChanged, path, "the tile is not that of the signed tree, from its hash number %d on", firstDifference(data, truth))
	case wrong:
		v.found.add(TileChanged, path, "the tile is not that of the signed tree")
	case truth == nil && d.Level > 0 && d.computed != nil:
		v.found.add(TileChanged, path, "the tile is not what the records give, and the damage above it keeps from telling which of them is right")
	}
}

// records says which records of a tile of level 0 are changed.
func (v *verification) records(d difference, truth []byte) {
	if d.computed == nil {
		return // they are missing, which has been said
	}
	reason := "the record is not the one that was signed"
	if truth == nil {
		data, err := tree.ReadTile(v.log, d.Tile)
		if err != nil {
			first := d.Index * tree.Width
			v.found.records(RecordChanged, v.fileOf(first), first, first+int64(d.Width)-1, "one of these is not the one that was signed; their tile is missing or damaged, so that it can't be told which")
			return
		}
		truth, reason = data, "the record and its tile disagree, and the damage of other tiles keeps from telling which of them is right"
	}
	for i := range d.Width {
		at := i * tlog.HashSize
		computed := d.computed[at : at+tlog.HashSize]
		if string(computed) == string(truth[at:at+tlog.HashSize]) || tlog.Hash(computed) == (tlog.Hash{}) {
			continue // or missing, which has been said
		}
		index := d.Index*tree.Width + int64(i)
		v.found.records(RecordChanged, v.fileOf(index), index, index, "%s", reason)
	}
}

// below looks for tiles below a tile that agree with the records, while both
// are not what the signed tree has there.
func (v *verification) below(d difference, truth []byte, differs map[tree.Tile]bool) {
	if d.Level == 0 || truth == nil || d.computed == nil || d.Width != v.tileAt(d.Level, d.Index).Width {
		return
	}
	for i := range d.Width {
		at := i * tlog.HashSize
		child := tree.Tile{Level: d.Level - 1, Index: d.Index*tree.Width + int64(i), Width: tree.Width}
		if string(d.computed[at:at+tlog.HashSize]) == string(truth[at:at+tlog.HashSize]) || differs[child] {
			continue
		}
		span := int64(1) << (tree.Height * (child.Level + 1))
		v.found.records(RecordChanged, child.Path(), child.Index*span, (child.Index+1)*span-1, "the tile agrees with these records, and both are not what was signed")
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i / tlog.HashSize
		}
	}
	return 0
}

// authority finds contents of tiles that lead to the signed root, on the disk
// or among what the records give.
type authority struct {
	v        *verification
	computed [][]byte             // the edge, as the records give it
	records  map[tree.Tile][]byte // full tiles, as the records give them
	known    map[tree.Tile][]byte // what has been found
	wrong    map[tree.Tile]bool   // what does not belong to the signed tree
	edge     [][]byte             // what leads to the root; nil if nothing does
	looked   bool                 // for edge
}

// tile returns the contents of a tile in the signed tree, or nil if nothing
// that is there leads to the root.
func (a *authority) tile(t tree.Tile) []byte {
	whole := a.v.tileAt(t.Level, t.Index)
	data := a.whole(whole)
	if data == nil {
		return nil
	}
	return data[:t.Width*tlog.HashSize]
}

func (a *authority) whole(t tree.Tile) []byte {
	if data, ok := a.known[t]; ok {
		return data
	}
	data := a.find(t)
	a.known[t] = data
	return data
}

func (a *authority) find(t tree.Tile) []byte {
	if t.Width < tree.Width {
		a.findEdge()
		if a.edge == nil {
			return nil
		}
		return a.edge[t.Level]
	}
	above := a.whole(a.v.tileAt(t.Level+1, t.Index/tree.Width))
	if above == nil {
		return nil
	}
	at := t.Index % tree.Width * tlog.HashSize
	want := tlog.Hash(above[at : at+tlog.HashSize])
	if data, err := tree.ReadTile(a.v.log, t); err == nil {
		if tree.TileRoot(data) == want {
			return data
		}
		a.wrong[t] = true
	}
	if data := a.records[t]; data != nil && tree.TileRoot(data) == want {
		return data
	}
	return nil
}

// findEdge looks for tiles at the edge that give the signed root: for each
// level, from the disk or from the records.
func (a *authority) findEdge() {
	if a.looked {
		return
	}
	a.looked = true
	tiles := tree.Edge(a.v.head.Size)
	choices := make([][][]byte, len(tiles))
	for i, t := range tiles {
		if data, err := tree.ReadTile(a.v.log, t); err == nil {
			choices[i] = append(choices[i], data)
		}
		if c := a.computed[t.Level]; len(c) == t.Width*tlog.HashSize {
			choices[i] = append(choices[i], c)
		}
	}
	edge := make([][]byte, len(a.computed))
	var try func(i int) bool
	try = func(i int) bool {
		if i == len(tiles) {
			return tree.EdgeRoot(edge) == a.v.head.Root
		}
		for _, data := range choices[i] {
			edge[tiles[i].Level] = data
			if try(i + 1) {
				return true
			}
		}
		return false
	}
	if try(0) {
		a.edge = edge
	}
}
