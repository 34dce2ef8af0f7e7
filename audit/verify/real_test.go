package verify_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/tree/treetest"
	"github.com/writ-pdp/writ/audit/verify"
)

// real is a log that the server's own writer keeps.
func real(t *testing.T) (*audit.Log, *treetest.Log) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	log, err := audit.Open(audit.Config{Dir: dir, Origin: treetest.Origin, SegmentBytes: 32 << 10, Checkpoint: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	v, err := tree.ReadVerifier(filepath.Join(dir, tree.VerifierFile))
	if err != nil {
		t.Fatal(err)
	}
	return log, &treetest.Log{Dir: dir, Verifier: v}
}

func start(i int) audit.Record {
	return audit.Record{Kind: audit.KindStart, Time: time.Date(2026, 11, 30, 10, 0, i%60, 0, time.UTC), Revision: strings.Repeat("r", i%200) + strconv.Itoa(i)}
}

// TestRealLog verifies a log while the server's writer appends to it and
// rotates, and when it has closed it; then some bytes of it are changed.
func TestRealLog(t *testing.T) {
	log, l := real(t)
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for i := range 400 {
				if err := log.Append(t.Context(), start(w*1000+i), i%40 == 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer writers.Wait()
	written := make(chan struct{})
	go func() { writers.Wait(); close(written) }()
	var middle *tree.Checkpoint
	for running := true; running; {
		select {
		case <-written:
			running = false
		default:
		}
		r := run(t, l, verify.Options{})
		if !r.OK {
			t.Fatalf("while it is written: %+v", r)
		}
		if middle == nil && r.Size > 0 {
			middle = opened(t, l)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	r := run(t, l, verify.Options{From: middle, Whole: true})
	if !r.OK || r.Size != 1200 || r.AfterCheckpoint != 0 || r.TornBytes != 0 {
		t.Fatalf("%+v", r)
	}
	segments, err := filepath.Glob(filepath.Join(l.Dir, "segments", "*"))
	if err != nil || len(segments) < 3 {
		t.Fatalf("segments %q and %v", segments, err)
	}
	for _, name := range segments {
		file := filepath.Join("segments", filepath.Base(name))
		for _, at := range []int{0, 200, 1001, -1} {
			edit(t, l, file, flip(at))
			if r := run(t, l, verify.Options{}); r.OK {
				t.Errorf("%s: a change at %d is not found", file, at)
			}
			edit(t, l, file, flip(at))
		}
	}
	if r := run(t, l, verify.Options{}); !r.OK {
		t.Errorf("after all was put back: %+v", r)
	}
}

// opened returns the newest checkpoint of a log.
func opened(t *testing.T, l *treetest.Log) *tree.Checkpoint {
	t.Helper()
	b := readFile(t, filepath.Join(l.Dir, tree.CheckpointFile))
	s, err := tree.Open(b, l.Verifier)
	if err != nil {
		t.Fatal(err)
	}
	return &s.Checkpoint
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
