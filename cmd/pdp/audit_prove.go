package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
)

type auditProveCmd struct {
	logFlags `embed:""`
	keyFlags `embed:""`

	Index      *int64 `arg:"" optional:"" help:"The record." placeholder:"INDEX"`
	OldSize    int64  `help:"In place of INDEX: prove that the tree begins with that of this size." placeholder:"N"`
	Size       int64  `help:"The size of the tree. Default: that of the checkpoint." placeholder:"N"`
	Checkpoint string `help:"Prove it in the tree of this checkpoint, kept elsewhere. Default: the log's newest." type:"path" placeholder:"FILE"`
	JSON       bool   `help:"Print the proof as JSON."`
}

func (*auditProveCmd) Help() string {
	return `A proof is a list of hashes (RFC 6962, section 2.1) that lead from the record to
the root that the log's key has signed. With it, the record and the checkpoint,
anybody can check that the record is in the log, without the log. With --old-size
it shows that a tree whose root you know is the beginning of this one: nothing
in it was changed since. Proofs are checked before they are printed.

  pdp audit prove 17 --json > proof.json
  pdp audit prove 17 --checkpoint kept/checkpoint
  pdp audit prove --old-size 100`
}

// proof is what prove prints as JSON.
type proof struct {
	Index      *int64   `json:"index,omitempty"`
	OldSize    int64    `json:"old_size,omitempty"`
	TreeSize   int64    `json:"tree_size"`
	Record     string   `json:"record,omitempty"`    // exactly as it is hashed
	LeafHash   []byte   `json:"leaf_hash,omitempty"` // in base64, like the others
	Hashes     [][]byte `json:"hashes"`
	Checkpoint string   `json:"checkpoint,omitempty"` // signed; of a tree of this size
}

func (k *auditProveCmd) Run(c *console) error {
	if (k.Index == nil) == (k.OldSize == 0) {
		return usage("give the INDEX of a record, or --old-size")
	}
	if k.Index != nil && *k.Index < 0 || k.OldSize < 0 || k.Size < 0 {
		return usage("indexes and sizes are not negative")
	}
	dir, err := k.dir()
	if err != nil {
		return err
	}
	log, witnesses, _, err := k.keys(dir)
	if err != nil {
		return err
	}
	// A server may replace tiles of the newest tree while they are read: then
	// there is a newer one.
	const tries, pause = 50, 20 * time.Millisecond
	var p *proof
	for range tries {
		p, err = k.prove(dir, log, witnesses)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if !wait(c.ctx, pause) {
			return errors.New("interrupted")
		}
	}
	if _, damaged := errors.AsType[*tree.TileError](err); damaged || errors.Is(err, tree.ErrTiles) {
		return fmt.Errorf("the tree can't be read: run pdp audit verify: %w", err)
	}
	if err != nil {
		return err
	}
	if k.JSON {
		return printJSON(c.out, p)
	}
	return p.print(c)
}

// wait waits, and reports whether that was not interrupted.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (k *auditProveCmd) prove(dir string, log note.Verifier, witnesses []*tree.Witness) (*proof, error) {
	signed, newest, err := checkpoint(dir, "", log, witnesses)
	if err != nil {
		return nil, err
	}
	head := newest.Checkpoint
	if k.Checkpoint != "" {
		var kept tree.Signed
		if signed, kept, err = checkpoint(dir, k.Checkpoint, log, witnesses); err != nil {
			return nil, err
		}
		head = kept.Checkpoint
		// The tiles are those of the newest tree: it must be the same log's.
		if err := continues(dir, head, newest.Checkpoint); err != nil {
			return nil, err
		}
	}
	p := &proof{Index: k.Index, OldSize: k.OldSize, TreeSize: k.Size, Hashes: [][]byte{}}
	if p.TreeSize == 0 {
		p.TreeSize = head.Size
	}
	if p.TreeSize > head.Size {
		return nil, fmt.Errorf("the checkpoint is of %d records, and says nothing of a tree of %d: a server signs a newer one within a second or two", head.Size, p.TreeSize)
	}
	if p.TreeSize == head.Size {
		p.Checkpoint = string(signed)
	}
	if k.Index != nil {
		return p, p.include(dir, newest.Checkpoint)
	}
	return p, p.begins(dir, newest.Checkpoint)
}

// continues makes sure that the tree of a kept checkpoint is the beginning of
// the newest.
func continues(dir string, kept, newest tree.Checkpoint) error {
	if kept.Size > newest.Size {
		return fmt.Errorf("the log has %d records, and the checkpoint %d: it was set back; run pdp audit verify --from with that checkpoint", newest.Size, kept.Size)
	}
	path, err := tree.ProveConsistency(dir, kept.Size, newest)
	if err == nil {
		err = tree.VerifyConsistency(kept, newest, path)
	}
	if errors.Is(err, tree.ErrInconsistent) {
		return fmt.Errorf("the log does not continue the checkpoint, it was rewritten: run pdp audit verify --from with that checkpoint: %w", err)
	}
	return err
}

// include proves that the record is in the tree, and that it is the record
// that the segments hold.
func (p *proof) include(dir string, newest tree.Checkpoint) error {
	if *p.Index >= p.TreeSize {
		return fmt.Errorf("record %d is not in a tree of %d: its checkpoint follows it within a second or two while a server runs", *p.Index, p.TreeSize)
	}
	in, err := tree.ProveEarlierInclusion(dir, newest, p.TreeSize, *p.Index)
	if err != nil {
		return err
	}
	record, err := segment.ReadRecord(filepath.Join(dir, segment.Dir), uint64(*p.Index))
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("record %d is signed for, and is not in the segments any more: run pdp audit verify", *p.Index)
	}
	if err != nil {
		return fmt.Errorf("record %d: run pdp audit verify: %w", *p.Index, err)
	}
	if tree.LeafHash(record) != in.Leaf {
		return fmt.Errorf("record %d is not the one that was signed: run pdp audit verify", *p.Index)
	}
	p.Record, p.LeafHash = string(record), in.Leaf[:]
	p.hashes(in.Path)
	return nil
}

// begins proves that the tree begins with an older one.
func (p *proof) begins(dir string, newest tree.Checkpoint) error {
	if p.OldSize > p.TreeSize {
		return fmt.Errorf("a tree of %d does not begin with one of %d: give the smaller as --old-size", p.TreeSize, p.OldSize)
	}
	hashes, err := tree.ProveEarlierConsistency(dir, p.OldSize, newest, p.TreeSize)
	p.hashes(hashes)
	return err
}

func (p *proof) hashes(list []tlog.Hash) {
	for _, h := range list {
		p.Hashes = append(p.Hashes, h[:])
	}
}

func (p *proof) print(c *console) error {
	if p.Index != nil {
		fmt.Fprintf(c.out, "record %d is in the tree of %s\n\n%s\n\nleaf  %s\n", *p.Index, count(int(p.TreeSize), "record"), p.Record, base64.StdEncoding.EncodeToString(p.LeafHash))
	} else {
		fmt.Fprintf(c.out, "the tree of %s begins with that of %d\n\n", count(int(p.TreeSize), "record"), p.OldSize)
	}
	for _, h := range p.Hashes {
		fmt.Fprintf(c.out, "      %s\n", base64.StdEncoding.EncodeToString(h))
	}
	if p.Checkpoint != "" {
		fmt.Fprintf(c.out, "\n%s", p.Checkpoint)
	}
	return nil
}
