package forward

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/writ-pdp/writ/audit/tree"
)

// File is a file that holds the newest checkpoint. It is replaced as a whole,
// and only by a checkpoint that continues the one it holds.
type File struct {
	path string
	busy chan struct{} // holds a token while the file is worked on
}

// NewFile returns the sink of a file. Its directory must exist, and should be on
// another machine's disk, where the log's server may only add and replace.
func NewFile(path string) (*File, error) {
	if path == "" {
		return nil, errors.New("forward: a file for checkpoints must have a path")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	return &File{abs, make(chan struct{}, 1)}, nil
}

// Name returns the path.
func (f *File) Name() string { return f.path }

// Keys returns nothing: a file cosigns nothing.
func (f *File) Keys() []*tree.Witness { return nil }

// Send replaces the file. If its disk hangs, Send returns when ctx ends, and
// fails until the disk has answered.
func (f *File) Send(ctx context.Context, c Checkpoint) ([]byte, error) {
	select {
	case f.busy <- struct{}{}:
	default:
		return nil, fmt.Errorf("forward: %s: its disk has not answered yet to what was sent before", f.path)
	}
	done := make(chan error, 1)
	go func() {
		err := f.replace(c)
		<-f.busy
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return nil, fmt.Errorf("forward: %s: %w", f.path, err)
		}
		return nil, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("forward: %s: its disk does not answer: %w", f.path, context.Cause(ctx))
	}
}

func (f *File) replace(c Checkpoint) error {
	dir, err := os.OpenRoot(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(f.path)
	switch signed, err := tree.ReadFile(dir, name, tree.MaxSigned); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		had, err := tree.Open(signed, c.Log)
		if err != nil {
			return fmt.Errorf("holds something that is no checkpoint of this log, and is left as it is: %w", err)
		}
		if err := continues(had.Checkpoint, c); err != nil {
			return err
		}
		if had.Equal(c.Head) {
			return nil
		}
	}
	return tree.ReplaceFile(dir, name, c.Signed, 0o644)
}

// continues returns nil only if a checkpoint continues the one that was had.
func continues(had tree.Checkpoint, c Checkpoint) error {
	if had.Size > c.Head.Size {
		return fmt.Errorf("%w: sizes %d and %d", ErrSetBack, had.Size, c.Head.Size)
	}
	proof, err := c.Prove(had.Size)
	if err != nil {
		return err
	}
	if err := tree.VerifyConsistency(had, c.Head, proof); errors.Is(err, tree.ErrInconsistent) {
		return fmt.Errorf("%w: sizes %d and %d", ErrFork, had.Size, c.Head.Size)
	} else if err != nil {
		return err
	}
	return nil
}
