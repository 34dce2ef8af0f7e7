package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// scanBytes is how much of a file is read through rather than halved again.
const scanBytes = 32 << 10

// probeBytes is how much a probe reads at first.
const probeBytes = 4 << 10

// Seek makes the record with this index the next one. If it is behind the last
// whole line, Seek returns io.EOF, and the next record is the one that comes
// first then. It reads a few places of the file, and trusts the indexes there
// to be in order: Next checks them.
func (f *File) Seek(index uint64) error {
	if index < f.first {
		return fmt.Errorf("segment: %s: record %d comes before this segment", f.name, index)
	}
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("segment: %w", err)
	}
	// The line at low has an index of at most the one sought. No line that starts
	// at or behind high does.
	f.set(0, f.first)
	low, high := int64(0), info.Size()
	for high-low > scanBytes {
		middle := low + (high-low)/2
		start, at, err := f.probe(middle, high)
		switch {
		case errors.Is(err, io.EOF):
			high = middle
		case err != nil:
			return err
		case at > index:
			high = middle
		default:
			low = start
			f.set(start, at)
		}
	}
	for f.next < index {
		if _, err := f.Next(); err != nil {
			return err
		}
	}
	return nil
}

// set makes the line at offset, with this index, the next one.
func (f *File) set(offset int64, index uint64) {
	f.offset, f.next = offset, index
	f.start, f.end = 0, 0
}

// probe finds the first line that starts behind from, and returns where it
// starts and its index; io.EOF if there is none that starts before limit.
func (f *File) probe(from, limit int64) (start int64, index uint64, err error) {
	for size := probeBytes; ; size *= 4 {
		b := make([]byte, size)
		n, err := f.file.ReadAt(b, from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, fmt.Errorf("segment: %w", err)
		}
		atEnd := n < size
		i := bytes.IndexByte(b[:n], '\n') + 1
		start := from + int64(i)
		switch line := b[i:n]; {
		case i == 0 && size > MaxLeaf+1:
			return 0, 0, fmt.Errorf("segment: %s: the line around byte %d is longer than %d bytes", f.name, from, MaxLeaf)
		case i > 0 && start >= limit:
			return 0, 0, io.EOF
		case i > 0 && bytes.IndexByte(line[:min(len(line), maxPrefix)], ',') >= 0 || len(line) >= maxPrefix && i > 0:
			index, err := Index(line)
			if err != nil {
				return 0, 0, fmt.Errorf("segment: %s: at byte %d: %w", f.name, start, err)
			}
			return start, index, nil
		case atEnd:
			return 0, 0, io.EOF
		}
	}
}
