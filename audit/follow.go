package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/writ-pdp/writ/audit/segment"
)

// ErrBeyondEnd is what a cursor says that starts beyond the end of the log: it
// belongs to another log, or to one that has lost records.
var ErrBeyondEnd = errors.New("audit: the cursor is beyond the end of the log")

// Cursor reads the records of a log in order, each once it is on the disk. It
// reads them from the files, so that a slow reader costs the log nothing. It is
// not safe for concurrent use. See [Log.Follow].
type Cursor struct {
	log    *Log
	next   uint64
	synced uint64          // so many records were on the disk when we last asked
	reader *segment.Reader // nil: not open yet
}

// Follow returns a cursor whose first record has the index from: 0 for all
// there are, or where an earlier one stopped. The caller closes it.
func (l *Log) Follow(from uint64) *Cursor { return &Cursor{log: l, next: from} }

// Next returns the next record, a line of JSON without its line feed, as soon as
// it is on the disk; the leaf is valid until the next call. It fails with
// [ErrBeyondEnd] where the log ends before the cursor, with the cause of ctx,
// when the log is closed and there is no more, or when the files are not as
// they were written; then it may be called again.
func (c *Cursor) Next(ctx context.Context) (index uint64, leaf []byte, err error) {
	if c.next >= c.synced {
		if _, c.synced = c.log.Size(); c.next > c.synced {
			return 0, nil, fmt.Errorf("%w: record %d is wanted, and %d are there", ErrBeyondEnd, c.next, c.synced)
		}
		if err := c.log.Wait(ctx, c.next); err != nil {
			return 0, nil, err
		}
	}
	if c.reader == nil {
		if c.reader, err = segment.OpenReader(filepath.Join(c.log.dir, segment.Dir), c.next); err != nil {
			return 0, nil, fmt.Errorf("audit: %w", err)
		}
	}
	index, leaf, err = c.reader.Next()
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("record %d was on the disk, and its segment ends before it", c.next)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("audit: %w", err)
	}
	c.next++
	return index, leaf, nil
}

// Index returns the index of the record that Next returns next.
func (c *Cursor) Index() uint64 { return c.next }

// Close lets go of the cursor's file.
func (c *Cursor) Close() error {
	if c.reader == nil {
		return nil
	}
	return c.reader.Close()
}
