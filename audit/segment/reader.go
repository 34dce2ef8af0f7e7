package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Reader reads records in order, over all segments of a log, also while a
// server writes it. It is not safe for concurrent use. The zero Reader is not
// usable: see [OpenReader].
type Reader struct {
	dir  string
	next uint64 // index of the record that Next returns
	last uint64 // first index of the newest segment seen
	file *File  // the segment that has next, or nil before it exists
}

// OpenReader returns a reader of the segments in dir, the directory segments/
// of a log, which starts at the record with index from. That may be one that is
// still to come. The caller closes the reader.
func OpenReader(dir string, from uint64) (*Reader, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	return &Reader{dir: dir, next: from}, nil
}

// Next returns the next record and its index. The record is valid until the
// next call. At the end of what is whole it returns io.EOF, and may be called
// again when more has been written. Any other error says what is damaged, and
// where; the reader stays at that place.
func (r *Reader) Next() (index uint64, leaf []byte, err error) {
	for {
		if r.file == nil {
			if err := r.open(); err != nil {
				return 0, nil, err
			}
		}
		leaf, err := r.file.Next()
		if err == nil {
			r.next++
			return r.next - 1, leaf, nil
		}
		if !errors.Is(err, io.EOF) {
			return 0, nil, err
		}
		if rotated, err := r.rotate(); err != nil {
			return 0, nil, err
		} else if !rotated {
			return 0, nil, io.EOF
		}
	}
}

// open opens the segment that has the next record and goes to it; io.EOF if
// that is still to come.
func (r *Reader) open() error {
	list, err := List(r.dir)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return io.EOF
	}
	r.last = list[len(list)-1].First
	s, ok := holder(list, r.next)
	if !ok {
		return fmt.Errorf("segment: %s: the segment of record %d is missing: the first one is %s", r.dir, r.next, list[0].Name())
	}
	f, err := Open(r.dir, s.First)
	if err != nil {
		return err
	}
	err = f.Seek(r.next)
	if err == nil {
		r.file = f
		return nil
	}
	err = errors.Join(err, f.Close())
	if errors.Is(err, io.EOF) {
		if s.First == r.last {
			return io.EOF
		}
		return fmt.Errorf("segment: %s: record %d is missing: %s ends before it", r.dir, r.next, s.Name())
	}
	return err
}

// holder returns the segment that has a record, if any has.
func holder(list []Segment, index uint64) (Segment, bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].First <= index {
			return list[i], true
		}
	}
	return Segment{}, false
}

// rotate goes on to the segment that starts with the next record, if it is
// there, and reports whether Next should try again.
func (r *Reader) rotate() (bool, error) {
	if r.file.First() == r.next {
		return false, nil // this segment is still empty
	}
	_, err := os.Stat(filepath.Join(r.dir, Name(r.next)))
	if errors.Is(err, fs.ErrNotExist) {
		if r.file.First() < r.last {
			return false, fmt.Errorf("segment: %s: record %d is missing: %s ends before it, and there are later segments", r.dir, r.next, Name(r.file.First()))
		}
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("segment: %w", err)
	}
	// The writer may have ended this segment after we looked: the new one was
	// there first, so that nothing more comes now.
	if leaf, err := r.file.Next(); err == nil {
		return false, fmt.Errorf("segment: %s: two records have the index %d: one of %d bytes in %s, and the first of %s", r.dir, r.next, len(leaf), Name(r.file.First()), Name(r.next))
	} else if !errors.Is(err, io.EOF) {
		return false, err
	}
	if torn := r.file.Unfinished(); torn > 0 {
		return false, fmt.Errorf("segment: %s: %s ends with %d bytes that are no whole record, and there are later segments", r.dir, Name(r.file.First()), torn)
	}
	next, err := Open(r.dir, r.next)
	if err != nil {
		return false, err
	}
	err = r.file.Close()
	r.file, r.last = next, max(r.last, r.next)
	return true, err
}

// Index returns the index of the record that Next returns next.
func (r *Reader) Index() uint64 { return r.next }

// Unfinished returns how many bytes of an unfinished record there were at the end
// when Next last returned io.EOF: a crash left them there, or they were just
// being written.
func (r *Reader) Unfinished() int64 {
	if r.file == nil {
		return 0
	}
	return r.file.Unfinished()
}

// Close closes the open file.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// ReadRecord returns the record with this index from the segments in dir. If it
// is not there, the error is io.EOF where it may be still to come.
func ReadRecord(dir string, index uint64) ([]byte, error) {
	r, err := OpenReader(dir, index)
	if err != nil {
		return nil, err
	}
	_, leaf, err := r.Next()
	return leaf, errors.Join(err, r.Close())
}
