package verify

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/writ-pdp/writ/audit/tree"
)

// job is the records of one tile of level 0, on their way from the goroutine
// that reads to one that hashes, and to the one that builds the tree.
type job struct {
	tile   tree.Tile
	text   []byte // the records, one behind the other
	ends   []int  // where each of them ends; a missing one has none: -1
	hashes []byte // of all; zero for a missing one
	root   tlog.Hash
	whole  bool // no record is missing
	differ []difference
	err    error
	done   chan struct{} // closed when hashes, root, differ and err are there
}

// difference is a tile on the disk that isn't what the records give.
type difference struct {
	tree.Tile
	computed []byte // from the records; nil if none of them is there
	err      error  // a *tree.TileError, or nil if the contents differ
}

// scan reads and hashes the records that the checkpoint covers, and builds the
// tree over them.
func (v *verification) scan(ctx context.Context, b *builder) error {
	g, ctx := errgroup.WithContext(ctx)
	work := make(chan *job)
	ordered := make(chan *job, 4*v.Workers)
	spare := make(chan *job, 6*v.Workers)
	g.Go(func() error {
		defer close(work)
		defer close(ordered)
		r := &reader{v: v, ctx: ctx, work: work, ordered: ordered, spare: spare, next: b.start}
		return r.run()
	})
	for range v.Workers {
		g.Go(func() error {
			for j := range work {
				v.hash(j)
				close(j.done)
			}
			return nil
		})
	}
	g.Go(func() error {
		for j := range ordered {
			select {
			case <-j.done:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if j.err != nil {
				return j.err
			}
			if err := b.add(j); err != nil {
				return err
			}
			if v.Progress != nil && (b.size == v.head.Size || b.size/tree.Width%64 == 0) {
				v.Progress(b.size-b.start, v.head.Size-b.start)
			}
			select {
			case spare <- j:
			default:
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return b.finish()
}

// hash hashes a job's records and compares them with their tile.
func (v *verification) hash(j *job) {
	j.hashes = j.hashes[:0]
	j.whole, j.differ, j.err = true, nil, nil
	start, some := 0, false
	for _, end := range j.ends {
		if end < 0 {
			j.whole = false
			j.hashes = append(j.hashes, make([]byte, tlog.HashSize)...)
			continue
		}
		some = true
		h := tree.LeafHash(j.text[start:end])
		j.hashes = append(j.hashes, h[:]...)
		start = end
	}
	computed := j.hashes
	if !some {
		computed = nil
	}
	j.differ, j.err = v.compare(j.tile, computed)
	if j.tile.Width == tree.Width {
		j.root = tree.TileRoot(j.hashes)
	}
}

// compare compares a tile on the disk, and what partial forms of it there still
// are, with what the records give.
func (v *verification) compare(t tree.Tile, computed []byte) ([]difference, error) {
	var differ []difference
	check := func(t tree.Tile) error {
		data, err := tree.ReadTile(v.log, t)
		tileErr, ok := errors.AsType[*tree.TileError](err)
		if err != nil && !ok {
			return err
		}
		if err == nil && computed != nil && string(data) == string(computed[:len(data)]) {
			return nil
		}
		d := difference{Tile: t}
		if computed != nil {
			d.computed = slices.Clone(computed[:t.Width*tlog.HashSize])
		}
		if tileErr != nil {
			d.err = tileErr
		}
		differ = append(differ, d)
		return nil
	}
	if err := check(t); err != nil {
		return nil, err
	}
	widths, err := tree.Partials(v.log, t)
	if err != nil {
		return nil, err
	}
	for _, w := range widths {
		if w < t.Width {
			if err := check(tree.Tile{Level: t.Level, Index: t.Index, Width: w}); err != nil {
				return nil, err
			}
		}
	}
	return differ, nil
}

// builder builds the tree from the roots of its tiles. One goroutine uses it.
type builder struct {
	v     *verification
	start int64 // records that were in the tree before
	size  int64
	edge  [8][]byte // as in tree.Tree
	whole bool      // no record is missing
}

// add adds the next tile of level 0.
func (b *builder) add(j *job) error {
	v := b.v
	v.report.Tiles++
	for _, end := range j.ends {
		if end >= 0 {
			v.report.Records++
		}
	}
	v.keep(j.differ)
	b.whole = b.whole && j.whole
	b.size += int64(len(j.ends))
	if j.tile.Width < tree.Width {
		b.edge[0] = slices.Clone(j.hashes)
		return nil
	}
	h := j.root
	for level := 1; ; level++ {
		e := append(b.edge[level], h[:]...)
		if len(e) < tree.Width*tlog.HashSize {
			b.edge[level] = e
			return nil
		}
		b.edge[level] = nil
		n := b.size>>(tree.Height*(level+1)) - 1
		if err := b.compare(tree.Tile{Level: level, Index: n, Width: tree.Width}, e); err != nil {
			return err
		}
		h = tree.TileRoot(e)
	}
}

// finish compares the tiles at the edge, above level 0.
func (b *builder) finish() error {
	for _, t := range tree.Edge(b.v.head.Size) {
		if t.Level > 0 {
			if err := b.compare(t, b.edge[t.Level]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) compare(t tree.Tile, computed []byte) error {
	b.v.report.Tiles++
	differ, err := b.v.compare(t, computed)
	b.v.keep(differ)
	return err
}

// maxDiffer bounds the tiles of level 0 whose records are compared one by one.
const maxDiffer = 1000

// keep keeps differences until all records have been read.
func (v *verification) keep(differ []difference) {
	for _, d := range differ {
		if d.Level == 0 && d.computed != nil {
			if v.level0++; v.level0 > maxDiffer {
				v.found.leftOut()
				continue
			}
		}
		v.differ = append(v.differ, d)
	}
}
