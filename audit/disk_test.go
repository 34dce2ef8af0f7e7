package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/writ-pdp/writ/audit"
)

// fiveRecords makes a closed log and returns its bytes.
func fiveRecords(t *testing.T, dir string) []byte {
	t.Helper()
	l := mustOpen(t, dir)
	for i := range 5 {
		mustAppend(t, l, decision(fmt.Sprint("d-", i)), i == 4)
	}
	mustClose(t, l)
	data, err := os.ReadFile(logFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeLog(t *testing.T, data []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(logFile(dir), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mustRefuse opens a damaged log, which must fail and leave it as it is.
func mustRefuse(t *testing.T, name string, data []byte) {
	t.Helper()
	dir := writeLog(t, data)
	l, err := audit.Open(dir)
	if err == nil {
		mustClose(t, l)
		t.Errorf("%s: was opened", name)
		return
	}
	if !strings.Contains(err.Error(), logFile(dir)) || !strings.Contains(err.Error(), "line ") {
		t.Errorf("%s: the error does not say where: %v", name, err)
	}
	after, readErr := os.ReadFile(logFile(dir))
	if readErr != nil || !bytes.Equal(after, data) {
		t.Errorf("%s: a refused log was changed", name)
	}
}

func TestDamageIsRefused(t *testing.T) {
	data := fiveRecords(t, t.TempDir())
	lines := slices.Collect(bytes.Lines(data))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	last := len(data) - 1 // its line feed: without it the line is an unfinished one
	for i := 0; i < last; i += 11 {
		for _, flip := range []byte{0x01, 0x20} {
			changed := bytes.Clone(data)
			changed[i] ^= flip
			mustRefuse(t, fmt.Sprintf("byte %d changed by %#x", i, flip), changed)
		}
	}
	for name, changed := range map[string][]byte{
		"first line missing":        join(lines[1:]...),
		"middle line missing":       join(lines[0], lines[1], lines[3], lines[4]),
		"line repeated":             join(lines[0], lines[1], lines[1], lines[2], lines[3], lines[4]),
		"last line repeated":        join(data, lines[4]),
		"lines swapped":             join(lines[0], lines[2], lines[1], lines[3], lines[4]),
		"empty line":                join(lines[0], []byte("\n"), lines[1], lines[2], lines[3], lines[4]),
		"empty line at the end":     join(data, []byte("\n")),
		"carriage returns":          bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")),
		"line in the middle torn":   join(lines[0], lines[1][:50], lines[2], lines[3], lines[4]),
		"zeros in the middle":       join(lines[0], make([]byte, len(lines[1])), lines[2], lines[3], lines[4]),
		"byte order mark":           join([]byte("\ufeff"), data),
		"other text":                []byte("hello\n"),
		"a record without its ends": []byte("{\"sequence\":0,\"time\":\"2031-04-01T12:00:00Z\",\"kind\":\"stop\"}\n"),
		"endless line":              join(data, bytes.Repeat([]byte("x"), 8<<20)),
		"another log's line":        join(data, bytes.Replace(lines[0], []byte(`"sequence":0`), []byte(`"sequence":5`), 1)),
	} {
		mustRefuse(t, name, changed)
	}
}

// TestDamageIsPlaced: whoever opens the file in an editor must find the line.
func TestDamageIsPlaced(t *testing.T) {
	data := fiveRecords(t, t.TempDir())
	lines := slices.Collect(bytes.Lines(data))
	third := len(lines[0]) + len(lines[1]) // bytes before the third line
	for name, change := range map[string]struct {
		with, want string
	}{
		"its text":     {"d-2", " does not match its chain"},
		"its sequence": {`{"sequence":2,`, " is not record 2"},
	} {
		changed := bytes.Clone(data)
		i := third + bytes.Index(lines[2], []byte(change.with))
		changed[i+len(change.with)-2] = '9'
		want := fmt.Sprintf("line 3 (at byte %d)%s", third, change.want)
		if _, err := audit.Open(writeLog(t, changed)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

func TestTornTailIsCut(t *testing.T) {
	data := fiveRecords(t, t.TempDir())
	lines := slices.Collect(bytes.Lines(data))
	start := len(data) - len(lines[4])
	type torn struct {
		data  []byte
		whole int // records that stay
	}
	cases := map[string]torn{
		"zeros at the end":       {append(bytes.Clone(data), make([]byte, 5000)...), 5},
		"only an unfinished one": {[]byte(`{"sequence":0,"ti`), 0},
		"one byte":               {[]byte("{"), 0},
	}
	for i := start + 1; i < len(data); i += 13 {
		cases[fmt.Sprint("cut at byte ", i)] = torn{data[:i], 4}
	}
	cases["only the line feed missing"] = torn{data[:len(data)-1], 4}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := writeLog(t, c.data)
			l := mustOpen(t, dir)
			kept := bytes.Join(lines[:c.whole], nil)
			if got, want := l.Recovered(), int64(len(c.data)-len(kept)); got != want {
				t.Errorf("recovered %d bytes, want %d", got, want)
			}
			mustAppend(t, l, decision("next"), true)
			mustClose(t, l)
			if got := readLog(t, dir); len(got) != c.whole+1 || got[c.whole].ID != "next" {
				t.Errorf("got %v", ids(got))
			}
			again := mustOpen(t, dir)
			if again.Recovered() != 0 {
				t.Error("the cut was not for good")
			}
		})
	}
	// Whole lines cut off leave a shorter log that is whole: this the chain
	// alone cannot see.
	l := mustOpen(t, writeLog(t, data[:start]))
	if l.Recovered() != 0 {
		t.Errorf("recovered %d bytes", l.Recovered())
	}
}

func TestModesAndPlaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "data")
	mustClose(t, mustOpen(t, dir))
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Dir(dir): 0o700, logFile(dir): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
	}

	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for name, prepare := range map[string]func(dir string) error{
		"symbolic link": func(dir string) error { return os.Symlink(elsewhere, logFile(dir)) },
		"symbolic link inside": func(dir string) error {
			return os.Symlink("other.jsonl", logFile(dir))
		},
		"named pipe": func(dir string) error { return syscall.Mkfifo(logFile(dir), 0o600) },
		"directory":  func(dir string) error { return os.Mkdir(logFile(dir), 0o700) },
		"file in place of the directory": func(dir string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		},
	} {
		dir := t.TempDir()
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		if l, err := audit.Open(dir); err == nil {
			mustClose(t, l)
			t.Errorf("%s: was opened", name)
		}
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a symbolic link out of the directory was followed")
	}
}

// Hands off: when anything else touches the file, nothing more is recorded,
// and so nothing more is answered.
func TestMeddling(t *testing.T) {
	for name, meddle := range map[string]func(path string) error{
		"moved away": func(path string) error { return os.Rename(path, path+".1") },
		"removed":    os.Remove,
		"replaced": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.WriteFile(path, data, 0o600)
		},
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"written to": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString("x")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := mustOpen(t, dir)
			mustAppend(t, l, decision("before"), true)
			if err := meddle(logFile(dir)); err != nil {
				t.Fatal(err)
			}
			if err := l.Append(t.Context(), decision("after"), true); err == nil {
				t.Error("a record was confirmed that is not in the log")
			}
			if l.Err() == nil {
				t.Error("the log goes on")
			}
		})
	}
}
