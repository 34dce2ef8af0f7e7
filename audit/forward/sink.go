package forward

import (
	"context"
	"errors"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/tree"
)

// Checkpoint is a checkpoint to be sent, its signature verified.
type Checkpoint struct {
	Signed []byte
	Head   tree.Checkpoint
	Log    note.Verifier
	// Prove returns the proof that Head's tree continues its tree of this size.
	Prove func(old int64) ([]tlog.Hash, error)
}

// Sink is a place that checkpoints are sent to. One goroutine uses it at a time.
type Sink interface {
	// Name names the place in messages.
	Name() string
	// Keys returns the keys of which Send returns cosignatures, if any.
	Keys() []*tree.Witness
	// Send sends a checkpoint, and returns when the place has it, with the
	// signature lines of cosignatures that it gave, which are verified. It
	// returns soon after ctx has ended.
	Send(ctx context.Context, c Checkpoint) (cosignatures []byte, err error)
}

// What a place can know of a log that the log can't explain.
var (
	// ErrSetBack says that the place has a checkpoint of a larger tree: the log
	// was set back to an earlier state, or the place follows another copy of it.
	ErrSetBack = errors.New("the place has a checkpoint of a larger tree: the log was set back, or something else sends there")
	// ErrFork says that the log doesn't continue the checkpoint that the place
	// has: the log was rewritten.
	ErrFork = errors.New("the log does not continue the checkpoint that the place has: it was rewritten")
)
