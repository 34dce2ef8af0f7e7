package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Dir is the directory, within that of the log, under which the tiles are.
const Dir = "tile"

// Tile names a tile: Width hashes (1 to 256) at a level (0 to 7), of which the
// first is number 256*Index there.
type Tile struct {
	Level int
	Index int64
	Width int
}

// Path returns the tile's path in the directory of its log, with slashes (C2SP
// tlog-tiles): tile/<level>/<index>[.p/<width>].
func (t Tile) Path() string {
	b := make([]byte, 0, 48)
	b = append(b, Dir+"/"...)
	b = strconv.AppendInt(b, int64(t.Level), 10)
	b = append(b, '/')
	b = appendIndex(b, t.Index)
	if t.Width < Width {
		b = append(b, ".p/"...)
		b = strconv.AppendInt(b, int64(t.Width), 10)
	}
	return string(b)
}

// appendIndex appends a tile's index as path elements of three digits, all but
// the last with an x in front.
func appendIndex(b []byte, index int64) []byte {
	if above := index / 1000; above > 0 {
		b = appendAbove(b, above)
	}
	return appendThree(b, index%1000)
}

func appendAbove(b []byte, index int64) []byte {
	if above := index / 1000; above > 0 {
		b = appendAbove(b, above)
	}
	b = append(b, 'x')
	return append(appendThree(b, index%1000), '/')
}

func appendThree(b []byte, n int64) []byte {
	return append(b, byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10))
}

// ParsePath returns the tile with this path. There is one path for each tile:
// anything else is an error.
func ParsePath(path string) (Tile, error) {
	bad := fmt.Errorf("tree: %q is no path of a tile", path)
	rest, ok := strings.CutPrefix(path, Dir+"/")
	if !ok || len(path) > 64 {
		return Tile{}, bad
	}
	level, rest, _ := strings.Cut(rest, "/")
	t := Tile{Width: Width}
	var err error
	if t.Level, err = strconv.Atoi(level); err != nil || t.Level < 0 || t.Level >= maxLevels {
		return Tile{}, bad
	}
	if index, width, partial := strings.Cut(rest, ".p/"); partial {
		if t.Width, err = strconv.Atoi(width); err != nil || t.Width < 1 || t.Width >= Width {
			return Tile{}, bad
		}
		rest = index
	}
	for element := range strings.SplitSeq(rest, "/") {
		n, err := strconv.ParseUint(strings.TrimPrefix(element, "x"), 10, 16)
		if err != nil || n > 999 || t.Index > MaxSize/1000 {
			return Tile{}, bad
		}
		t.Index = t.Index*1000 + int64(n)
	}
	if t.Path() != path {
		return Tile{}, bad
	}
	return t, nil
}

// full returns the tile that replaces a partial one in the end.
func (t Tile) full() Tile { return Tile{t.Level, t.Index, Width} }

// partials returns the directory of a tile's partial forms.
func (t Tile) partials() string { return t.full().Path() + ".p" }

// Edge returns the partial tiles of a tree of this size, from level 0 up:
// those, with all full tiles before them, are the tiles of the tree.
func Edge(size int64) []Tile {
	var edge []Tile
	for level := 0; size>>(Height*level) > 0; level++ {
		n := size >> (Height * level)
		if width := int(n % Width); width > 0 {
			edge = append(edge, Tile{level, n / Width, width})
		}
	}
	return edge
}

// TileError says what is wrong with a tile on the disk. Err is fs.ErrNotExist,
// possibly wrapped, if the tile isn't there.
type TileError struct {
	Path string // in the directory of the log
	Err  error
}

func (e *TileError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *TileError) Unwrap() error { return e.Err }

// ReadTile reads a tile in the directory of a log; of a partial tile that has
// gone, because its full one is there, the beginning of that. It checks the
// size and not the hashes. An error is a *TileError.
func ReadTile(log *os.Root, t Tile) ([]byte, error) {
	data, err := readExactly(log, t)
	if err == nil || t.Width == Width || !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if full, fullErr := readExactly(log, t.full()); fullErr == nil {
		return full[:t.Width*tlog.HashSize], nil
	} else if !errors.Is(fullErr, fs.ErrNotExist) {
		return nil, fullErr
	}
	return nil, err
}

func readExactly(log *os.Root, t Tile) ([]byte, error) {
	path := t.Path()
	f, err := openRegular(log, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &TileError{path, fmt.Errorf("the tile is missing: %w", fs.ErrNotExist)}
	} else if err != nil {
		return nil, &TileError{path, err}
	}
	defer f.Close()
	want := t.Width * tlog.HashSize
	data := make([]byte, want+1)
	n, err := io.ReadFull(f, data)
	switch {
	case n > want:
		return nil, &TileError{path, fmt.Errorf("the tile is longer than its %d bytes", want)}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		if n < want {
			return nil, &TileError{path, fmt.Errorf("the tile has %d bytes where it should have %d", n, want)}
		}
		return data[:want], nil
	default:
		return nil, &TileError{path, err}
	}
}
