package verifytest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// width is how many hashes a full tile has.
const width = 256

// unfinished is what the name of a file ends in while it is written, and after
// a crash.
const unfinished = ".new"

// tile names one tile: level L, index N, and how many hashes it has.
type tile struct {
	level, index uint64
	width        uint64
}

// path is the tile's place below tile/, as tlog-tiles has it.
func (t tile) path() string {
	name := fmt.Sprintf("%03d", t.index%1000)
	for n := t.index / 1000; n > 0; n /= 1000 {
		name = fmt.Sprintf("x%03d/%s", n%1000, name)
	}
	name = strconv.FormatUint(t.level, 10) + "/" + name
	if t.width != width {
		name += ".p/" + strconv.FormatUint(t.width, 10)
	}
	return name
}

// parseTile is the other way round. Only what path returns is a name.
func parseTile(name string) (tile, error) {
	bad := fmt.Errorf("tile/%s is no tile", name)
	t := tile{width: width}
	parts := strings.Split(name, "/")
	if last := len(parts) - 1; last >= 1 && strings.HasSuffix(parts[last-1], ".p") {
		w, err := strconv.ParseUint(parts[last], 10, 8)
		if err != nil || w == 0 {
			return tile{}, bad
		}
		t.width = w
		parts = parts[:last]
		parts[last-1] = strings.TrimSuffix(parts[last-1], ".p")
	}
	if len(parts) < 2 {
		return tile{}, bad
	}
	var err error
	if t.level, err = strconv.ParseUint(parts[0], 10, 8); err != nil || t.level > 63 {
		return tile{}, bad
	}
	for _, part := range parts[1:] {
		n, err := strconv.ParseUint(strings.TrimPrefix(part, "x"), 10, 64)
		if err != nil || n > 999 || t.index > 1<<52 {
			return tile{}, bad
		}
		t.index = t.index*1000 + n
	}
	if t.path() != name {
		return tile{}, bad
	}
	return t, nil
}

// levels returns the hashes of each level of tiles over leaves: those of the
// level above are the roots of the full tiles below.
func levels(leaves []Hash) [][]Hash {
	all := [][]Hash{leaves}
	for hashes := leaves; len(hashes) >= width; {
		var above []Hash
		for ; len(hashes) >= width; hashes = hashes[width:] {
			above = append(above, Root(hashes[:width]))
		}
		all = append(all, above)
		hashes = above
	}
	return all
}

// required lists the tiles of a tree of this size.
func required(size uint64) []tile {
	var all []tile
	for level, hashes := uint64(0), size; hashes > 0; level, hashes = level+1, hashes/width {
		for index := range hashes / width {
			all = append(all, tile{level, index, width})
		}
		if hashes%width > 0 {
			all = append(all, tile{level, hashes / width, hashes % width})
		}
	}
	return all
}

// checkTiles compares every tile of the directory with what the records hash
// to, and requires those of the checkpoint's tree.
func checkTiles(dir string, leaves []Hash, size uint64) error {
	hashes := levels(leaves)
	there := map[tile]bool{}
	root := filepath.Join(dir, "tile")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == root:
			return nil
		case err != nil || d.IsDir() || strings.HasSuffix(path, unfinished):
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		t, err := parseTile(filepath.ToSlash(name))
		if err != nil {
			return &Fault{Part: "tile", Index: size, Reason: err.Error()}
		}
		there[t] = true
		return checkTile(path, t, hashes)
	})
	if err != nil {
		return err
	}
	for _, t := range required(size) {
		// Once a tile is full, those with a part of it may go.
		if !there[t] && !there[tile{t.level, t.index, width}] {
			return &Fault{Part: "tile", Index: size, Reason: "tile/" + t.path() + " is missing"}
		}
	}
	return nil
}

func checkTile(path string, t tile, hashes [][]Hash) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fault := func(index uint64, reason string) error {
		return &Fault{Part: "tile", Index: index, Reason: "tile/" + t.path() + " " + reason}
	}
	first := t.index * width
	if uint64(len(data)) != t.width*uint64(len(Hash{})) {
		return fault(first<<(8*t.level), fmt.Sprintf("has %d bytes", len(data)))
	}
	for i := range t.width {
		span := uint64(1) << (8 * t.level) // records below one hash
		at := first + i
		if t.level >= uint64(len(hashes)) || at >= uint64(len(hashes[t.level])) {
			return fault(at*span, "has hashes of records that are not there")
		}
		if Hash(data[i*32:]) != hashes[t.level][at] {
			return fault(at*span, "has another hash than the records")
		}
	}
	return nil
}
