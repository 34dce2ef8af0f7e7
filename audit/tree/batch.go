package tree

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"
)

// Batch is what must be on the disk before the tree of its size may have a
// checkpoint. It stays as it is while the tree grows.
type Batch struct {
	tree *Tree // what doesn't change, and sweep and repair
	size int64
	root tlog.Hash

	full, partial []hashes // not yet written, in order
	made          []Tile   // full tiles written, whose partial ones may go
	dirs          map[string]bool
	done          bool
}

// Cut returns what must be written for the tree as it is now. It does nothing
// slow: the caller's next step, [Batch.Write], may run in another goroutine,
// while this one goes on to append. Cut must not be called before that has
// ended. What a failed Write left over is part of the next batch.
func (t *Tree) Cut() *Batch {
	b := &Batch{tree: t, size: t.size, root: t.Root(), full: t.full, dirs: map[string]bool{}}
	t.full = nil
	before := int64(0) // size up to which partial tiles are there
	switch {
	case t.last == nil:
		before = t.loaded
	case t.last.done:
		before = t.last.size
	default:
		b.full = append(slices.Clip(t.last.full), b.full...)
		b.made, b.dirs = t.last.made, t.last.dirs
	}
	for _, tile := range Edge(t.size) {
		if before>>(Height*tile.Level) == t.size>>(Height*tile.Level) {
			continue // it is there
		}
		// Append writes behind these hashes, never over them.
		b.partial = append(b.partial, hashes{tile, t.edge[tile.Level]})
	}
	t.last = b
	return b
}

// Flush writes what the tree as it is now needs on the disk: Cut, then Write.
func (t *Tree) Flush() error { return t.Cut().Write() }

// Size returns the size of the batch's tree.
func (b *Batch) Size() int64 { return b.size }

// Root returns the root of the batch's tree.
func (b *Batch) Root() tlog.Hash { return b.root }

// Write writes the tiles, each under its name only when it is whole, and
// returns when they are on the disk (fsync). Full tiles are written once.
// Then it removes the partial tiles that full ones have replaced. After an
// error it may be called again, and goes on where it stopped.
func (b *Batch) Write() error {
	if b.done {
		return nil
	}
	log := b.tree.log
	if b.tree.sweep {
		if err := b.tree.clean(); err != nil {
			return err
		}
		b.tree.sweep = false
	}
	for _, list := range []*[]hashes{&b.full, &b.partial} {
		for len(*list) > 0 {
			some := (*list)[:min(len(*list), together)]
			if err := writeTiles(log, some, b.dirs); err != nil {
				return err
			}
			for _, tile := range some {
				if tile.Width == Width {
					b.made = append(b.made, tile.Tile)
				}
			}
			*list = (*list)[len(some):]
		}
	}
	if err := syncDirs(log, b.dirs); err != nil {
		return err
	}
	for ; len(b.made) > 0; b.made = b.made[1:] {
		if err := log.RemoveAll(b.made[0].partials()); err != nil {
			return err
		}
	}
	b.done = true
	return nil
}

// together is how many tiles are written at once: their syncs share the work of
// the file system.
const together = 16

// clean removes the tiles beyond the tree that was loaded. A writer makes tiles
// in order, but for those that it writes at once: where so many are missing in
// a row, there are none behind.
func (t *Tree) clean() error {
	dirs := map[string]bool{}
	if err := writeTiles(t.log, t.repair, dirs); err != nil {
		return err
	}
	for level := range maxLevels {
		whole := t.loaded >> (Height * level)
		for index, missing := whole/Width, 0; missing <= together; index++ {
			keep := 0 // the width that belongs to the tree
			if index == whole/Width {
				keep = int(whole % Width)
			}
			found, err := t.cleanTile(Tile{level, index, Width}, keep)
			if err != nil {
				return err
			}
			if missing++; found {
				missing = 0
			}
		}
	}
	return syncDirs(t.log, dirs)
}

// cleanTile removes a tile that is full, or wider than keep, and reports
// whether there was anything of it.
func (t *Tree) cleanTile(tile Tile, keep int) (found bool, err error) {
	switch err := t.log.Remove(tile.Path()); {
	case err == nil:
		found = true
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	widths, err := Partials(t.log, tile)
	if err != nil {
		return false, err
	}
	for _, width := range widths {
		found = true
		if width > keep {
			if err := t.log.Remove(Tile{tile.Level, tile.Index, width}.Path()); err != nil {
				return false, err
			}
		}
	}
	return found, nil
}

// Partials returns, in order, the widths of the partial forms of a tile that
// are in the directory of a log.
func Partials(log *os.Root, tile Tile) ([]int, error) {
	dir, err := log.Open(tile.partials())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a writer has removed it since
	} else if err != nil {
		return nil, err
	}
	var widths []int
	for _, name := range names {
		if w, err := strconv.Atoi(name); err == nil && w > 0 && w < Width && strconv.Itoa(w) == name {
			widths = append(widths, w)
		}
	}
	slices.Sort(widths)
	return widths, nil
}
