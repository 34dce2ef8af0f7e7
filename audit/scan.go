package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
)

// checkSegments makes sure that each segment ends where the next one begins.
func (o *opening) checkSegments() error {
	if len(o.segments) == 0 {
		if o.at.Size > 0 {
			return fmt.Errorf("%s holds no segment, and the checkpoint is over %d records: put back the segments", o.disk.path(segment.Dir), o.at.Size)
		}
		return nil
	}
	if first := o.segments[0]; first.First != 0 {
		return fmt.Errorf("the log begins with %s: the segments of the records before %d are missing: put them back", o.path(first), first.First)
	}
	for i, s := range o.segments[:len(o.segments)-1] {
		next := o.segments[i+1].First
		f, err := segment.Open(o.disk.path(segment.Dir), s.First)
		if err != nil {
			return err
		}
		if err := errors.Join(checkEnds(f, s, next), f.Close()); err != nil {
			return fmt.Errorf("%s: %w: put back the segments as they were", o.path(s), err)
		}
	}
	return nil
}

// checkEnds makes sure that a segment that others follow has its first record,
// and ends with the one before the next segment's.
func checkEnds(f *segment.File, s segment.Segment, next uint64) error {
	if next <= s.First {
		return fmt.Errorf("has no record, and the next segment begins with record %d", next)
	}
	if _, err := f.Next(); err != nil {
		return fmt.Errorf("record %d: %w", s.First, missing(err))
	}
	if err := f.Seek(next - 1); err != nil {
		return fmt.Errorf("record %d: %w", next-1, missing(err))
	}
	if _, err := f.Next(); err != nil {
		return fmt.Errorf("record %d, the last before the next segment: %w", next-1, missing(err))
	}
	if torn, err := f.Torn(); err != nil {
		return err
	} else if torn > 0 {
		return fmt.Errorf("%d bytes follow record %d, the last before the next segment", torn, next-1)
	}
	return nil
}

// missing says it where a record should be and the file ends.
func missing(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("is missing")
	}
	return err
}

// readOn reads the last records that the checkpoint covers, whose leaves must
// be those of the tiles, and all that are beyond: these go into the tree.
func (o *opening) readOn() error {
	from, known, err := o.lastLeaves()
	if err != nil {
		return err
	}
	o.next = from
	for i, s := range o.segments {
		newest := i == len(o.segments)-1
		if !newest && o.segments[i+1].First <= from {
			continue // the checkpoint covers it
		}
		sc := scan{opening: o, segment: s, newest: newest, from: from, known: known}
		end, err := sc.run()
		if err != nil {
			return err
		}
		if end < s.Size {
			o.recovery.Cut, o.recovery.File = s.Size-end, segment.Dir+"/"+s.Name()
			o.segments[i].Size = end
		} else if s.Size == 0 && s.First > 0 {
			o.recovery.Leftovers = append(o.recovery.Leftovers, segment.Dir+"/"+s.Name())
		}
	}
	if o.next < uint64(o.at.Size) {
		return fmt.Errorf("record %d is missing: the log ends before it, and its checkpoint is over %d records: records were cut off or lost; put back the segments as they were", o.next, o.at.Size)
	}
	return nil
}

// lastLeaves returns the leaves of the last tile that the checkpoint covers, and
// the index of the first of them.
func (o *opening) lastLeaves() (first uint64, leaves []byte, err error) {
	if o.at.Size == 0 || o.recovery.Tiles { // all records were read to make them
		return uint64(o.at.Size), nil, nil
	}
	index := (o.at.Size - 1) / tree.Width
	leaves, err = tree.ReadTile(o.disk.dir, tree.Tile{Level: 0, Index: index, Width: int(o.at.Size - index*tree.Width)})
	return uint64(index * tree.Width), leaves, err
}

// scan reads one segment when the log is opened.
type scan struct {
	*opening
	segment segment.Segment
	newest  bool
	from    uint64 // index of the first record to look at
	known   []byte // leaves of the records from there on
}

// run reads the segment to its end, and returns where its last whole record
// ends.
func (s scan) run() (end int64, err error) {
	f, err := segment.Open(s.disk.path(segment.Dir), s.segment.First)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if s.next > s.segment.First {
		switch err := f.Seek(s.next); {
		case errors.Is(err, io.EOF):
			return s.segment.Size, nil // the log is too short, which is seen
		case err != nil:
			// It may have met what a crash left behind.
			if f, err = s.walk(f); err != nil {
				return 0, err
			}
			defer f.Close()
		}
	}
	for {
		offset := f.Offset()
		record, err := f.Next()
		if errors.Is(err, io.EOF) {
			return offset, nil // what follows is no whole line
		}
		if err == nil {
			err = s.add(record)
		}
		if err == nil {
			continue
		}
		if s.newest && s.next >= uint64(s.at.Size) {
			if hole, readErr := s.hole(offset); readErr != nil {
				return 0, readErr
			} else if hole {
				return offset, nil
			}
		}
		return 0, fmt.Errorf("%s: record %d (at byte %d): %w: the log was changed, or its disk is at fault; put back the segment as it was", s.path(s.segment), s.next, offset, err)
	}
}

// walk goes to the next record line by line.
func (s scan) walk(f *segment.File) (*segment.File, error) {
	if err := f.Close(); err != nil {
		return nil, err
	}
	f, err := segment.Open(s.disk.path(segment.Dir), s.segment.First)
	if err != nil {
		return nil, err
	}
	for index := s.segment.First; index < s.next; index++ {
		offset := f.Offset()
		if _, err := f.Next(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: record %d (at byte %d): %w: the log was changed, or its disk is at fault; put back the segment as it was", s.path(s.segment), index, offset, missing(err)), f.Close())
		}
	}
	return f, nil
}

// add takes the next record: its leaf is known, or new to the tree.
func (s scan) add(record []byte) error {
	leaf := tree.LeafHash(record)
	switch {
	case s.next < uint64(s.at.Size):
		at := int(s.next-s.from) * tlog.HashSize
		if !bytes.Equal(leaf[:], s.known[at:at+tlog.HashSize]) {
			return errors.New("is not the record that the checkpoint covers")
		}
	case !json.Valid(record):
		return errors.New("is no JSON")
	default:
		s.tree.Append(leaf)
	}
	s.next++
	return nil
}

// hole reports whether the line at offset has zero bytes. Records have none; a
// file system that was cut off may show them where something was to be
// written, even if it shows what was to follow. No fsync can have confirmed
// what is behind them.
func (s scan) hole(offset int64) (bool, error) {
	f, err := s.disk.dir.Open(segment.Dir + "/" + s.segment.Name())
	if err != nil {
		return false, err
	}
	defer f.Close()
	line := make([]byte, segment.MaxLeaf+1)
	n, err := f.ReadAt(line, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	line, _, _ = bytes.Cut(line[:n], []byte{'\n'})
	return bytes.IndexByte(line, 0) >= 0, nil
}
