package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
)

// Options says against what a log is verified.
type Options struct {
	// Verifier is the log's verifier key, required; its name is the log's
	// origin. It must come from a place that the log's keepers can't change.
	Verifier note.Verifier
	// Witnesses may have cosigned the checkpoint; at least MinWitnesses of them
	// must have.
	Witnesses    []*tree.Witness
	MinWitnesses int
	// From is a checkpoint of this log that was verified before, or nil. The
	// log must continue it, and only what came after it is hashed again; all of
	// it, if anything is wrong there.
	From *tree.Checkpoint
	// Whole has all records hashed again even if From is given.
	Whole bool
	// Progress is told how many of the records are done, from one goroutine. It
	// may be nil.
	Progress func(done, total int64)
	// Workers is how many goroutines hash; 0 is one for each processor.
	Workers int
}

// Verify verifies the log in dir. The report tells all that is wrong with the
// log; the error is about something else, such as a disk that can't be read, or
// ctx having ended, and then the report means nothing.
func Verify(ctx context.Context, dir string, o Options) (Report, error) {
	if o.Verifier == nil {
		return Report{}, errors.New("verify: the log's verifier key is missing: without one, nothing can be verified")
	}
	if o.MinWitnesses > len(o.Witnesses) {
		return Report{}, fmt.Errorf("verify: %d witnesses must have cosigned, and %d are known", o.MinWitnesses, len(o.Witnesses))
	}
	log, err := os.OpenRoot(dir)
	if err != nil {
		return Report{}, fmt.Errorf("verify: %w", err)
	}
	defer log.Close()
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	for {
		v := &verification{dir: dir, log: log, Options: o}
		if err := v.run(ctx); err != nil {
			return Report{}, fmt.Errorf("verify: %s: %w", dir, err)
		}
		if v.report.From > 0 && !v.found.none() {
			// What is wrong may lie before From: only the whole log tells.
			o.Whole = true
			continue
		}
		v.found.report(&v.report)
		return v.report, nil
	}
}

// verification is one run of Verify.
type verification struct {
	Options
	dir    string
	log    *os.Root
	head   tree.Checkpoint // what the log is verified against
	report Report
	found  findings

	segments []segment.Segment
	differ   []difference // tiles that aren't what the records give
	level0   int64        // how many differences of level 0 are kept
}

func (v *verification) run(ctx context.Context) error {
	if ok, err := v.checkpoint(); err != nil || !ok {
		return err
	}
	if err := v.known(); err != nil {
		return err
	}
	if err := v.list(); err != nil {
		return err
	}
	b, err := v.begin()
	if err != nil {
		return err
	}
	if err := v.scan(ctx, b); err != nil {
		return err
	}
	return v.judge(b)
}

// checkpoint reads the checkpoint, and reports whether the log can be verified
// against it.
func (v *verification) checkpoint() (bool, error) {
	signed, err := tree.ReadFile(v.log, tree.CheckpointFile, tree.MaxSigned)
	if errors.Is(err, fs.ErrNotExist) {
		v.found.add(CheckpointMissing, tree.CheckpointFile, "the signed checkpoint is missing: put it back, or take one that was kept elsewhere")
		return false, nil
	} else if err != nil {
		return false, err
	}
	s, err := tree.Open(signed, v.Verifier, v.Witnesses...)
	if err != nil {
		kind := CheckpointBroken
		for err2, k := range map[error]Kind{tree.ErrOrigin: OtherLog, tree.ErrForeignKey: ForeignKey, tree.ErrSignature: BadSignature} {
			if errors.Is(err, err2) {
				kind = k
			}
		}
		v.found.add(kind, tree.CheckpointFile, "%v", err)
		return false, nil
	}
	v.head = s.Checkpoint
	v.report.Origin, v.report.Size, v.report.Root, v.report.Cosignatures = s.Origin, s.Size, s.Root.String(), s.Cosignatures
	if len(s.Cosignatures) < v.MinWitnesses {
		v.found.add(FewCosignatures, tree.CheckpointFile, "%d of the known witnesses have cosigned it, and %d must have", len(s.Cosignatures), v.MinWitnesses)
	}
	return true, nil
}

// known compares the checkpoint with the one that is known.
func (v *verification) known() error {
	if v.From == nil {
		return nil
	}
	from := *v.From
	switch {
	case from.Origin != v.head.Origin:
		return fmt.Errorf("the known checkpoint is of the log %q, and this one is %q", from.Origin, v.head.Origin)
	case from.Size > v.head.Size:
		v.found.add(RolledBack, tree.CheckpointFile, "it covers %d records, and the known checkpoint %d: the log was set back", v.head.Size, from.Size)
		return nil
	}
	proof, err := tree.ProveConsistency(v.dir, from.Size, v.head)
	if err != nil {
		v.found.add(Unproven, "", "whether the log continues the known checkpoint can't be told: %v", err)
		return nil
	}
	if err := tree.VerifyConsistency(from, v.head, proof); errors.Is(err, tree.ErrInconsistent) {
		v.found.add(Inconsistent, tree.CheckpointFile, "the log does not continue the known checkpoint of size %d: it was rewritten", from.Size)
	} else if err != nil {
		return err
	}
	return nil
}

// list lists the segments.
func (v *verification) list() error {
	var err error
	v.segments, err = segment.List(filepath.Join(v.dir, segment.Dir))
	if foreign, ok := errors.AsType[*segment.ForeignError](err); ok {
		v.found.add(ForeignFile, segment.Dir+"/"+foreign.Name, "is no segment of a log: see what it is, and move it away")
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no segments: what that means is seen by their records
	}
	return err
}

// begin returns the tree as it is before the first record that is hashed again:
// empty, or up to the last full tile before the known checkpoint.
func (v *verification) begin() (*builder, error) {
	b := &builder{v: v, whole: true}
	if v.From == nil || v.Whole || v.From.Size > v.head.Size {
		return b, nil
	}
	start := v.From.Size / tree.Width * tree.Width
	for level := 1; start>>(tree.Height*level) > 0; level++ {
		n := start >> (tree.Height * level)
		if n%tree.Width == 0 {
			continue
		}
		data, err := tree.ReadTile(v.log, v.tileAt(level, n/tree.Width))
		if _, ok := errors.AsType[*tree.TileError](err); ok {
			return b, nil // from the records, then
		} else if err != nil {
			return nil, err
		}
		b.edge[level] = append(b.edge[level], data[:n%tree.Width*tlog.HashSize]...)
	}
	b.start, b.size = start, start
	v.report.From = start
	return b, nil
}

// tileAt returns the tile with this index as the checkpoint's tree has it.
func (v *verification) tileAt(level int, index int64) tree.Tile {
	width := min(tree.Width, v.head.Size>>(tree.Height*level)-index*tree.Width)
	return tree.Tile{Level: level, Index: index, Width: int(width)}
}

// fileOf returns the segment that a record should be in.
func (v *verification) fileOf(index int64) string {
	for i := len(v.segments) - 1; i >= 0; i-- {
		if v.segments[i].First <= uint64(index) {
			return segment.Dir + "/" + v.segments[i].Name()
		}
	}
	return segment.Dir + "/" + segment.Name(0)
}
