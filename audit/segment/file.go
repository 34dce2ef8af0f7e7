package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// bufferBytes is how much is read at once by who reads on and on; the longest
// line fits well. Who reads one record reads less.
const (
	bufferBytes      = 256 << 10
	firstBufferBytes = 16 << 10
)

// File reads one segment. It is not safe for concurrent use.
type File struct {
	file  *os.File
	name  string // for messages
	first uint64
	next  uint64 // index of the record at offset
	// The line to be read next starts at offset of the file, and buf[start:end]
	// holds what has been read from there.
	offset     int64
	buf        []byte
	start, end int
	torn       int // bytes of an unfinished line at offset, when the end was last seen
}

// Open opens the segment in dir whose first record has this index, at that
// record. The caller closes it.
func Open(dir string, first uint64) (*File, error) {
	name := filepath.Join(dir, Name(first))
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("segment: %s is no regular file", name), err, f.Close())
	}
	return &File{file: f, name: name, first: first, next: first}, nil
}

// Index returns the index of the record that Next returns next.
func (f *File) Index() uint64 { return f.next }

// First returns the index of the segment's first record.
func (f *File) First() uint64 { return f.first }

// Offset returns where in the file the line starts that Next returns next.
func (f *File) Offset() int64 { return f.offset }

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// Line returns the next line without its "\n", whatever it holds. It is valid
// until the next call. At the end of whole lines it returns io.EOF and may be
// called again. A line longer than MaxLeaf is an error.
func (f *File) Line() ([]byte, error) {
	searched := 0
	for {
		have := f.buf[f.start:f.end]
		if i := bytes.IndexByte(have[searched:], '\n'); i >= 0 {
			i += searched
			if i > MaxLeaf {
				return nil, f.tooLong()
			}
			f.torn = 0
			f.start += i + 1
			f.offset += int64(i) + 1
			return have[:i], nil
		}
		searched = len(have)
		if searched > MaxLeaf {
			return nil, f.tooLong()
		}
		if err := f.fill(); err != nil {
			// The beginning of a line is read again: whoever cuts it off and goes on
			// writing there changes it.
			f.torn = f.end - f.start
			f.start, f.end = 0, 0
			return nil, err
		}
	}
}

// ErrTooLong says that a line is longer than MaxLeaf.
var ErrTooLong = fmt.Errorf("the line is longer than %d bytes", MaxLeaf)

func (f *File) tooLong() error {
	return fmt.Errorf("segment: %s: at byte %d, where record %d should be: %w", f.name, f.offset, f.next, ErrTooLong)
}

// fill reads more of the file into the buffer.
func (f *File) fill() error {
	have := f.buf[f.start:f.end]
	switch {
	case f.buf == nil:
		f.buf = make([]byte, firstBufferBytes)
	case f.end == len(f.buf) && len(f.buf) < bufferBytes:
		f.buf = make([]byte, 4*len(f.buf))
	}
	f.start, f.end = 0, copy(f.buf, have)
	n, err := f.file.ReadAt(f.buf[f.end:], f.offset+int64(f.end))
	f.end += n
	switch {
	case n > 0:
		return nil
	case errors.Is(err, io.EOF):
		return io.EOF
	default:
		return fmt.Errorf("segment: %w", err)
	}
}

// Next returns the next record, which must have the next index. It is valid
// until the next call. At the end of whole lines it returns io.EOF and may be
// called again.
func (f *File) Next() ([]byte, error) {
	offset := f.offset
	leaf, err := f.Line()
	if err != nil {
		return nil, err
	}
	index, err := Index(leaf)
	if err == nil && index != f.next {
		err = fmt.Errorf("the line is record %d", index)
	}
	if err != nil {
		f.start, f.end, f.offset = 0, 0, offset
		return nil, fmt.Errorf("segment: %s: at byte %d, where record %d should be: %w", f.name, offset, f.next, err)
	}
	f.next++
	return leaf, nil
}

// Skip goes to the line after the next one, however long that is. It returns
// io.EOF if the next line has no end.
func (f *File) Skip() error {
	b := make([]byte, bufferBytes)
	for at := f.offset; ; {
		n, err := f.file.ReadAt(b, at)
		if i := bytes.IndexByte(b[:n], '\n'); i >= 0 {
			f.set(at+int64(i)+1, f.next)
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("segment: %w", err)
		}
		if n == 0 {
			return io.EOF
		}
		at += int64(n)
	}
}

// Torn returns how many bytes there are now behind the last whole line that
// was read. While a server writes, they may be whole lines: see Unfinished.
func (f *File) Torn() (int64, error) {
	info, err := f.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("segment: %w", err)
	}
	return max(0, info.Size()-f.offset), nil
}

// Unfinished returns how many bytes of an unfinished line there were behind the
// last whole one, when Line or Next last returned io.EOF.
func (f *File) Unfinished() int64 { return int64(f.torn) }
