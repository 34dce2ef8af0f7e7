package verify_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/audit/tree/treetest"
	"github.com/writ-pdp/writ/audit/verify"
)

// TestEachByte changes bytes of the records, the tiles and the checkpoint of a
// log, one at a time: each change must be found, and be put at the right place.
// With WRIT_TAMPER=all it changes each byte there is, to two other values;
// without, some of them.
func TestEachByte(t *testing.T) {
	stride := 211
	if os.Getenv("WRIT_TAMPER") == "all" {
		stride = 1
	}
	l := treetest.New(t)
	l.Append(100, 0)
	l.Rotate()
	l.Append(190, 0)
	l.Checkpoint()
	l.Append(110, 0)
	l.Rotate()
	l.Append(200, 0)
	l.Checkpoint()
	l.Close()

	counts := map[string]int{}
	err := filepath.WalkDir(l.Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(l.Dir, name)
		if err != nil {
			return err
		}
		what, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		if what == "key" || what == "verifier" {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		step := stride
		if what == "checkpoint" {
			step = 1
		}
		for i := 0; i < len(b); i += step {
			for _, bit := range []byte{1 << (i % 8), 1 << ((i + 3) % 8)} {
				if _, err := f.WriteAt([]byte{b[i] ^ bit}, int64(i)); err != nil {
					return err
				}
				r := run(t, l, verify.Options{Workers: 1})
				if r.OK {
					t.Errorf("%s: byte %d changed from %q to %q: not found", rel, i, b[i], b[i]^bit)
				}
				if !about(r, filepath.ToSlash(rel)) {
					t.Errorf("%s: byte %d changed from %q to %q: %v", rel, i, b[i], b[i]^bit, r.Findings)
				}
				counts[what]++
			}
			if _, err := f.WriteAt(b[i:i+1], int64(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := run(t, l, verify.Options{}); !r.OK {
		t.Errorf("after all was put back: %v", r.Findings)
	}
	for _, what := range []string{"segments", "tile", "checkpoint"} {
		if counts[what] == 0 {
			t.Errorf("nothing was changed in %s", what)
		}
	}
	t.Logf("changes made and found: %v", counts)
}

// about reports whether each finding is about this file. The end of a segment
// that is cut off is told of the one that should begin there.
func about(r verify.Report, file string) bool {
	for _, f := range r.Findings {
		if f.File != file && f.Kind != verify.SegmentMissing {
			return false
		}
	}
	return true
}
