package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
)

// reader reads the records, in order, and makes jobs of those that the
// checkpoint covers. One goroutine uses it.
type reader struct {
	v       *verification
	ctx     context.Context
	work    chan<- *job
	ordered chan<- *job
	spare   <-chan *job

	next  int64 // the record that comes next
	begun bool  // some segment has been read
	job   *job  // being filled, or nil

	// The segment that is being read.
	file    *segment.File
	name    string
	last    bool   // it is the newest
	then    int64  // where the segment behind it begins; -1 if it is the newest
	held    []byte // the line after the current one, if that was looked at
	have    bool   // held is valid
	heldErr error
}

// run reads all segments.
func (r *reader) run() error {
	segments := r.v.segments
	for i, s := range segments {
		r.last, r.then = i == len(segments)-1, -1
		if !r.last {
			r.then = int64(segments[i+1].First)
			if !r.begun && r.then <= r.next {
				continue // all of it comes before the first record to be read
			}
		}
		if err := r.segment(s); err != nil {
			return err
		}
		r.begun = true
	}
	if size := r.v.head.Size; r.next < size {
		r.v.found.records(TailMissing, r.v.fileOf(r.next), r.next, size-1, "the checkpoint covers %d records, and the log ends after %d", size, r.next)
		if err := r.missing(size); err != nil {
			return err
		}
	}
	r.v.report.AfterCheckpoint = r.next - r.v.head.Size
	return nil
}

// segment reads one segment.
func (r *reader) segment(s segment.Segment) (err error) {
	first := int64(s.First)
	r.name, r.have = segment.Dir+"/"+s.Name(), false
	r.file, err = segment.Open(filepath.Join(r.v.dir, segment.Dir), s.First)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was there a moment ago; the next one tells that it is missing
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.file.Close()) }()
	switch {
	case first > r.next:
		r.v.found.records(SegmentMissing, segment.Dir+"/"+segment.Name(uint64(r.next)), r.next, first-1,
			"no segment begins with record %d, and %s begins with record %d: a file is missing, or the end of the one before", r.next, r.name, first)
		if err := r.missing(first); err != nil {
			return err
		}
	case first < r.next && r.begun:
		r.v.found.add(RecordOutOfPlace, r.name, "begins with record %d, which the segment before it has as well", first)
		if err := r.skipTo(r.next); err != nil {
			return err
		}
	case first < r.next:
		// Where to begin is found by the indexes of lines. If they are damaged, it
		// is found the long way.
		if err := r.file.Seek(uint64(r.next)); err != nil {
			err := r.file.Close()
			if err == nil {
				r.file, err = segment.Open(filepath.Join(r.v.dir, segment.Dir), s.First)
			}
			if err != nil {
				return err
			}
			if err := r.skipTo(r.next); err != nil {
				return err
			}
		}
	}
	if err := r.lines(); err != nil {
		return err
	}
	return r.end()
}

// skipTo skips the lines before the one with this index, or the first behind.
func (r *reader) skipTo(index int64) error {
	for {
		line, err := r.peek()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if n, ok := indexOf(line); ok && n >= index {
			return nil
		}
		r.have = false
	}
}

// lines reads the lines of the segment.
func (r *reader) lines() error {
	for {
		line, err := r.line()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if n, ok := indexOf(line); ok && n == r.next {
			if err := r.add(line); err != nil {
				return err
			}
			continue
		}
		if err := r.odd(slices.Clone(line)); err != nil {
			return err
		}
	}
}

// line returns the next line. One that is too long comes back as empty: it is
// no record.
func (r *reader) line() ([]byte, error) {
	if r.have {
		r.have = false
		return r.held, r.heldErr
	}
	line, err := r.file.Line()
	if errors.Is(err, segment.ErrTooLong) {
		return nil, r.file.Skip()
	}
	return line, err
}

// peek returns the line after the current one, and leaves it there.
func (r *reader) peek() ([]byte, error) {
	if !r.have {
		line, err := r.line()
		r.held, r.heldErr, r.have = slices.Clone(line), err, true
	}
	return r.held, r.heldErr
}

// indexOf returns the index of a line, if it is like a record's.
func indexOf(line []byte) (int64, bool) {
	n, err := segment.Index(line)
	return int64(n), err == nil && n < tree.MaxSize
}

// odd judges a line that isn't the record that should be there, by the line
// behind it.
func (r *reader) odd(line []byte) error {
	n, ok := indexOf(line)
	following, err := r.peek()
	after, known := indexOf(following)
	if errors.Is(err, io.EOF) {
		after, known = r.then, r.then >= 0
	} else if err != nil {
		return err
	}
	eof := err != nil && !known // nothing more is there to judge by
	switch {
	case known && after == r.next: // this line is too many
		if ok {
			r.v.found.add(RecordOutOfPlace, r.name, "record %d stands before record %d", n, r.next)
		} else {
			r.v.found.add(RecordBroken, r.name, "before record %d there is a line that is no record", r.next)
		}
		return nil
	case ok && n > r.next && (known && after == n+1 || eof && (n < r.v.head.Size || r.next >= r.v.head.Size)):
		r.v.found.records(RecordsMissing, r.name, r.next, n-1, "the line behind record %d is record %d", r.next-1, n)
		if err := r.missing(n); err != nil {
			return err
		}
		return r.add(line)
	case ok && n < r.next && r.v.found.moved(n, r.name, fmt.Sprintf("stands behind record %d", r.next-1)):
		return nil
	case !ok:
		r.v.found.records(RecordBroken, r.name, r.next, r.next, "the line is no record: it doesn't start with its index, or is too long")
	default:
		r.v.found.records(RecordOutOfPlace, r.name, r.next, r.next, "in its place is record %d", n)
	}
	return r.missing(r.next + 1)
}

// end looks at what there is behind the last whole line.
func (r *reader) end() error {
	torn := r.file.Unfinished()
	if torn == 0 {
		return nil
	}
	if !r.last {
		r.v.found.add(RecordTorn, r.name, "ends with %d bytes that are no whole record, and there are later segments", torn)
		return nil
	}
	r.v.report.TornBytes = torn
	return nil
}

// add makes a line the next record.
func (r *reader) add(line []byte) error {
	if r.next < r.v.head.Size {
		j, err := r.current()
		if err != nil {
			return err
		}
		j.text = append(j.text, line...)
		j.ends = append(j.ends, len(j.text))
	}
	return r.step()
}

// missing goes on to the record with this index without those before.
func (r *reader) missing(index int64) error {
	for r.next < index {
		if r.next >= r.v.head.Size {
			r.next = index
			return nil
		}
		j, err := r.current()
		if err != nil {
			return err
		}
		j.ends = append(j.ends, -1)
		if err := r.step(); err != nil {
			return err
		}
	}
	return nil
}

// current returns the job that the next record belongs to.
func (r *reader) current() (*job, error) {
	if r.job != nil {
		return r.job, nil
	}
	if r.ctx.Err() != nil {
		return nil, context.Cause(r.ctx)
	}
	select {
	case r.job = <-r.spare:
		r.job.text, r.job.ends = r.job.text[:0], r.job.ends[:0]
	default:
		r.job = &job{hashes: make([]byte, 0, 1<<13), ends: make([]int, 0, tree.Width)}
	}
	r.job.tile = r.v.tileAt(0, r.next/tree.Width)
	r.job.done = make(chan struct{})
	return r.job, nil
}

// step goes on to the next record, and hands over a tile that is complete.
func (r *reader) step() error {
	r.next++
	if r.job == nil || len(r.job.ends) < r.job.tile.Width {
		return nil
	}
	j := r.job
	r.job = nil
	for _, c := range []chan<- *job{r.ordered, r.work} {
		select {
		case c <- j:
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
	return nil
}
