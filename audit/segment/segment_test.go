package segment_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/audit/segment"
)

func TestNames(t *testing.T) {
	for _, test := range []struct {
		first uint64
		name  string
	}{
		{0, "00000000000000000000.jsonl"},
		{81920, "00000000000000081920.jsonl"},
		{math.MaxUint64, "18446744073709551615.jsonl"},
	} {
		if got := segment.Name(test.first); got != test.name {
			t.Errorf("%d: %s, want %s", test.first, got, test.name)
		}
		if got, ok := segment.ParseName(test.name); !ok || got != test.first {
			t.Errorf("%s: %d and %t, want %d", test.name, got, ok, test.first)
		}
	}
	for _, name := range []string{
		"", ".jsonl", "0.jsonl", "00000000000000000000", "00000000000000000000.json", "00000000000000000000.jsonl.gz", "0000000000000000000.jsonl",
		"000000000000000000000.jsonl", "+0000000000000000000.jsonl", "-0000000000000000001.jsonl", "18446744073709551616.jsonl", "0000000000000000000a.jsonl",
		"0000000000000000_000.jsonl", " 0000000000000000000.jsonl",
	} {
		if first, ok := segment.ParseName(name); ok {
			t.Errorf("%q is %d", name, first)
		}
	}
}

func TestIndex(t *testing.T) {
	for leaf, want := range map[string]uint64{
		`{"v":1,"index":0,"time":"x"}`:          0,
		`{"v":1,"index":17,`:                    17,
		`{"v":1,"index":18446744073709551615,}`: math.MaxUint64,
	} {
		if got, err := segment.Index([]byte(leaf)); err != nil || got != want {
			t.Errorf("%s: %d and %v", leaf, got, err)
		}
	}
	for _, leaf := range []string{
		"", "{", `{"v":1,"index":`, `{"v":1,"index":,`, `{"v":1,"index":1`, `{"v":1,"index":1}`, `{"v":1,"index":01,`, `{"v":1,"index":00,`, `{"v":1,"index":-1,`,
		`{"v":1,"index":+1,`, `{"v":1,"index":1.0,`, `{"v":1,"index":1e3,`, `{"v":1,"index": 1,`, `{"v":1,"index":"1",`, `{"v":1, "index":1,`, `{"v":2,"index":1,`,
		`{"index":1,"v":1,`, ` {"v":1,"index":1,`, `{"v":1,"index":18446744073709551616,`, `{"v":1,"index":99999999999999999999,`, `{"v":1,"index":184467440737095516150,`,
		`{"V":1,"index":1,`, `{"v":1,"index":1 ,`,
	} {
		if got, err := segment.Index([]byte(leaf)); err == nil {
			t.Errorf("%s: %d", leaf, got)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add(`{"v":1,"index":17,"time":"x"}`)
	f.Add(`{"v":1,"index":18446744073709551615,`)
	f.Add(`{"v":1,"index":01,`)
	f.Fuzz(func(t *testing.T, leaf string) {
		index, err := segment.Index([]byte(leaf))
		if err != nil {
			return
		}
		if want := string(segment.AppendPrefix(nil, index)) + ","; !strings.HasPrefix(leaf, want) {
			t.Errorf("%q is %d, which starts with %q", leaf, index, want)
		}
	})
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := segment.List(dir); err != nil || len(list) != 0 {
		t.Errorf("%v and %v", list, err)
	}
	for _, first := range []uint64{1000, 0, 7, math.MaxUint64} {
		write(segment.Name(first), strings.Repeat("x", int(first%100)))
	}
	check := func(want error) {
		t.Helper()
		list, err := segment.List(dir)
		if foreign, ok := errors.AsType[*segment.ForeignError](err); ok != (want != nil) || ok && *foreign != *want.(*segment.ForeignError) {
			t.Errorf("%v, want %v", err, want)
		}
		if len(list) != 4 || list[0].First != 0 || list[1].First != 7 || list[1].Size != 7 || list[2].First != 1000 || list[3].First != math.MaxUint64 {
			t.Errorf("%v", list)
		}
	}
	check(nil)
	write("notes.txt", "")
	check(&segment.ForeignError{Dir: dir, Name: "notes.txt"})
	if err := os.Remove(filepath.Join(dir, "notes.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, segment.Name(5)), 0o700); err != nil {
		t.Fatal(err)
	}
	check(&segment.ForeignError{Dir: dir, Name: segment.Name(5)})
	if _, err := segment.List(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}
