package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Dir is the directory of the segments within that of the log.
const Dir = "segments"

// MaxLeaf bounds a record, in bytes without its "\n": what an entry bundle of
// C2SP tlog-tiles can hold.
const MaxLeaf = 65535

const (
	extension = ".jsonl"
	digits    = 20
)

// prefix is how each record starts, before its index.
const prefix = `{"v":1,"index":`

// maxPrefix bounds the beginning of a record up to the comma behind its index.
const maxPrefix = len(prefix) + digits + 1

// Name returns the name of the segment whose first record has this index.
func Name(first uint64) string { return fmt.Sprintf("%0*d%s", digits, first, extension) }

// ParseName returns the index of the first record of the segment with this
// name. There is one name for each index: anything else is false.
func ParseName(name string) (uint64, bool) {
	number, ok := strings.CutSuffix(name, extension)
	if !ok || len(number) != digits {
		return 0, false
	}
	first, err := strconv.ParseUint(number, 10, 64)
	return first, err == nil && Name(first) == name
}

// AppendPrefix appends the beginning of the record with this index, up to and
// without the comma behind it.
func AppendPrefix(b []byte, index uint64) []byte {
	return strconv.AppendUint(append(b, prefix...), index, 10)
}

var errPrefix = errors.New(`the line doesn't start like a record, with {"v":1,"index":N,`)

// Index returns the index of a record by its beginning, which must be exactly
// as AppendPrefix writes it, with a comma behind.
func Index(leaf []byte) (uint64, error) {
	rest, ok := bytes.CutPrefix(leaf, []byte(prefix))
	if !ok {
		return 0, errPrefix
	}
	n := uint64(0)
	for i, c := range rest {
		switch {
		case c == ',' && i > 0:
			return n, nil
		case c < '0' || c > '9' || i == 1 && n == 0 || n > (1<<64-1-uint64(c-'0'))/10:
			return 0, errPrefix
		}
		n = n*10 + uint64(c-'0')
	}
	return 0, errPrefix
}

// Segment is one file of a log.
type Segment struct {
	First uint64 // index of its first record
	Size  int64  // in bytes, when it was listed
}

// Name returns the file's name.
func (s Segment) Name() string { return Name(s.First) }

// List returns the segments in dir, the directory segments/ of a log, in
// order. A file with another name, or that is no regular file, is an error, a
// *ForeignError: it may be one that was renamed to hide it. The list is that of
// the others then. If dir isn't there, the error is fs.ErrNotExist.
func List(dir string) ([]Segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	list := make([]Segment, 0, len(entries))
	var foreign error
	for _, e := range entries {
		first, ok := ParseName(e.Name())
		if !ok || !e.Type().IsRegular() {
			foreign = &ForeignError{dir, e.Name()}
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("segment: %w", err)
		}
		list = append(list, Segment{first, info.Size()})
	}
	slices.SortFunc(list, func(a, b Segment) int {
		if a.First < b.First {
			return -1
		}
		return 1
	})
	return list, foreign
}

// ForeignError says that something among the segments is none.
type ForeignError struct{ Dir, Name string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("segment: %s holds %q, which is no segment of a log: see what it is, and move it away", e.Dir, e.Name)
}
