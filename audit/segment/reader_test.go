package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/audit/segment"
)

// record returns a record of some length that depends on its index.
func record(index uint64) string {
	return fmt.Sprintf(`{"v":1,"index":%d,"fill":"%s"}`, index, strings.Repeat("x", int(index*7919%977)))
}

// writer writes segments as a server does.
type writer struct {
	t    testing.TB
	dir  string
	next uint64
	file *os.File
}

func newWriter(t testing.TB) *writer {
	w := &writer{t: t, dir: t.TempDir()}
	t.Cleanup(func() {
		if w.file != nil {
			w.file.Close()
		}
	})
	return w
}

func (w *writer) rotate() {
	w.t.Helper()
	if w.file != nil {
		w.file.Close()
	}
	var err error
	if w.file, err = os.OpenFile(filepath.Join(w.dir, segment.Name(w.next)), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600); err != nil {
		w.t.Error(err)
	}
}

func (w *writer) raw(text string) {
	w.t.Helper()
	if _, err := w.file.WriteString(text); err != nil {
		w.t.Error(err)
	}
}

func (w *writer) append(n int) {
	w.t.Helper()
	if w.file == nil {
		w.rotate()
	}
	for range n {
		w.raw(record(w.next) + "\n")
		w.next++
	}
}

func open(t testing.TB, dir string, from uint64) *segment.Reader {
	t.Helper()
	r, err := segment.OpenReader(dir, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// expect reads the records up to this index, and then io.EOF.
func expect(t testing.TB, r *segment.Reader, from, to uint64) {
	t.Helper()
	for i := from; i < to; i++ {
		index, leaf, err := r.Next()
		if err != nil || index != i || string(leaf) != record(i) {
			t.Fatalf("record %d: %d, %q and %v", i, index, leaf, err)
		}
	}
	if index, leaf, err := r.Next(); !errors.Is(err, io.EOF) || err.Error() != io.EOF.Error() {
		t.Fatalf("behind record %d: %d, %q and %v", to, index, leaf, err)
	}
	if r.Index() != to {
		t.Fatalf("next is %d, want %d", r.Index(), to)
	}
}

func TestReader(t *testing.T) {
	w := newWriter(t)
	r := open(t, w.dir, 0)
	expect(t, r, 0, 0)
	w.rotate()
	expect(t, r, 0, 0)
	w.append(1000)
	expect(t, r, 0, 1000)
	w.rotate()
	expect(t, r, 1000, 1000)
	w.append(3)
	w.rotate()
	w.append(500)
	w.rotate()
	expect(t, r, 1000, 1503)
	// A record that comes in parts.
	next := record(1503) + "\n"
	for i := range len(next) {
		expect(t, r, 1503, 1503)
		if got := r.Unfinished(); i > 0 && got != int64(i) {
			t.Errorf("%d bytes unfinished, want %d", got, i)
		}
		w.raw(next[i : i+1])
	}
	w.next++
	expect(t, r, 1503, 1504)
}

// TestReaderFrom begins at each record, and behind the last.
func TestReaderFrom(t *testing.T) {
	w := newWriter(t)
	w.append(700)
	w.rotate()
	w.append(1)
	w.rotate()
	w.append(99)
	w.raw(`{"v":1,"index":800,`)
	for from := range uint64(801) {
		r := open(t, w.dir, from)
		if index, leaf, err := r.Next(); from < 800 && (err != nil || index != from || string(leaf) != record(from)) || from == 800 && err != io.EOF {
			t.Fatalf("record %d: %d, %q and %v", from, index, leaf, err)
		}
		r.Close()
	}
	for _, from := range []uint64{801, 1 << 40, 1<<64 - 1} {
		r := open(t, w.dir, from)
		if index, leaf, err := r.Next(); err != io.EOF {
			t.Errorf("record %d: %d, %q and %v", from, index, leaf, err)
		}
	}
	if leaf, err := segment.ReadRecord(w.dir, 123); err != nil || string(leaf) != record(123) {
		t.Errorf("%q and %v", leaf, err)
	}
	if leaf, err := segment.ReadRecord(w.dir, 800); !errors.Is(err, io.EOF) {
		t.Errorf("%q and %v", leaf, err)
	}
	// It waits for a record that is still to come.
	r := open(t, w.dir, 805)
	for range 3 {
		if _, _, err := r.Next(); err != io.EOF {
			t.Fatal(err)
		}
	}
	w.raw(strings.TrimPrefix(record(800), `{"v":1,"index":800,`) + "\n")
	w.next++
	w.append(20)
	expect(t, r, 805, 821)
}

// TestCutTail has a crash's beginning of a record cut off, and others written
// in its place, while a reader waits.
func TestCutTail(t *testing.T) {
	w := newWriter(t)
	w.append(3)
	info, err := w.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	w.raw(`{"v":1,"index":3,"fill":"of a record that was never confirmed`)
	r := open(t, w.dir, 0)
	expect(t, r, 0, 3)
	if err := w.file.Truncate(info.Size()); err != nil {
		t.Fatal(err)
	}
	w.append(5)
	expect(t, r, 3, 8)
}

func TestLongLines(t *testing.T) {
	w := newWriter(t)
	w.append(1)
	long := `{"v":1,"index":1,"fill":"`
	long += strings.Repeat("y", segment.MaxLeaf-len(long)-2) + `"}`
	w.raw(long + "\n" + strings.Replace(long, ":1,\"f", ":2,\"f", 1) + "\n" + strings.Replace(long, ":1,\"f", ":3,\"f", 1) + "z\n")
	r := open(t, w.dir, 1)
	for i := range 2 {
		index, leaf, err := r.Next()
		if err != nil || index != uint64(i+1) || len(leaf) != 65535 {
			t.Fatalf("%d, %d bytes and %v", index, len(leaf), err)
		}
	}
	for range 2 {
		if _, _, err := r.Next(); !errors.Is(err, segment.ErrTooLong) {
			t.Fatalf("a line of 65,536 bytes: %v", err)
		}
	}
}

// TestDamage has what the reader must not pass over.
func TestDamage(t *testing.T) {
	change := func(first uint64, f func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			name := filepath.Join(dir, segment.Name(first))
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, f(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	line := func(i int, to string) func([]byte) []byte {
		return func(b []byte) []byte {
			lines := bytes.SplitAfter(b, []byte("\n"))
			lines[i] = []byte(to)
			return bytes.Join(lines, nil)
		}
	}
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		at     uint64 // the record that can't be read
	}{
		{"a line that is no record", change(100, line(20, "hello\n")), 120},
		{"an empty line", change(100, line(20, "\n")), 120},
		{"a record missing", change(100, line(20, "")), 120},
		{"a record twice", change(100, line(20, record(119)+"\n")), 120},
		{"another index", change(100, line(20, record(121)+"\n")), 120},
		{"the end of a segment missing", change(100, line(199, "")), 299},
		{"torn in the middle", change(100, line(199, `{"v":1,"index":299,`)), 299},
		{"bytes behind the end of a segment", change(100, line(199, record(299)+"\nhello")), 300},
		{"a record behind the end of a segment", change(100, line(199, record(299)+"\n"+record(300)+"\n")), 301},
		{"a segment missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, segment.Name(100))); err != nil {
				t.Fatal(err)
			}
		}, 100},
		{"the first segment missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, segment.Name(0))); err != nil {
				t.Fatal(err)
			}
		}, 0},
		{"a foreign file", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWriter(t)
			w.append(100)
			w.rotate()
			w.append(200)
			w.rotate()
			w.append(50)
			test.damage(t, w.dir)
			r := open(t, w.dir, 0)
			for {
				index, _, err := r.Next()
				if err == nil {
					continue
				}
				if err == io.EOF || r.Index() != test.at {
					t.Errorf("record %d: %v, want an error at %d", r.Index(), err, test.at)
				}
				if _, _, again := r.Next(); again == nil || again == io.EOF {
					t.Errorf("the next call at %d: %v", index, again)
				}
				return
			}
		})
	}
}

// TestTail reads while a writer appends and rotates.
func TestTail(t *testing.T) {
	const records = 20000
	w := newWriter(t)
	w.rotate()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for w.next < records {
			w.append(1 + int(w.next%13))
			if w.next%5 == 0 {
				w.rotate()
			}
		}
	}()
	defer func() { <-ended }()
	r := open(t, w.dir, 0)
	deadline := time.Now().Add(60 * time.Second)
	for want := uint64(0); want < records; {
		index, leaf, err := r.Next()
		switch {
		case err == io.EOF:
			if time.Now().After(deadline) {
				t.Fatalf("record %d does not come", want)
			}
			time.Sleep(100 * time.Microsecond)
		case err != nil || index != want || string(leaf) != record(want):
			t.Fatalf("record %d: %d, %q and %v", want, index, leaf, err)
		default:
			want++
		}
	}
}

// FuzzSegment reads any file as a segment: whatever comes out is a record of
// the file, in order, and Seek finds the same.
func FuzzSegment(f *testing.F) {
	f.Add([]byte(record(0)+"\n"+record(1)+"\n"), uint64(1))
	f.Add([]byte(record(0)+"\n"+record(1)), uint64(1))
	f.Add([]byte(strings.Repeat(record(0)+"\n", 100)), uint64(50))
	var many strings.Builder
	for i := range uint64(200) {
		many.WriteString(record(i) + "\n")
	}
	f.Add([]byte(many.String()), uint64(133))
	f.Fuzz(func(t *testing.T, b []byte, at uint64) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, segment.Name(0)), b, 0o600); err != nil {
			t.Fatal(err)
		}
		r := open(t, dir, 0)
		var whole []byte
		leaves := map[uint64]string{}
		for {
			index, leaf, err := r.Next()
			if err != nil {
				break
			}
			if index != uint64(len(leaves)) {
				t.Fatalf("record %d where %d should be", index, len(leaves))
			}
			leaves[index] = string(leaf)
			whole = append(append(whole, leaf...), '\n')
		}
		if !bytes.HasPrefix(b, whole) {
			t.Fatalf("what was read is not in the file")
		}
		if leaf, err := segment.ReadRecord(dir, at); err == nil && at < uint64(len(leaves)) && string(leaf) != leaves[at] {
			t.Errorf("record %d is %q, and %q in order", at, leaf, leaves[at])
		}
	})
}
