package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/server"
)

// TestRecordedProves: what the server proves of a real log holds against the
// log's signed checkpoints, for the newest tree and for earlier ones.
func TestRecordedProves(t *testing.T) {
	log, err := audit.Open(audit.Config{Dir: t.TempDir(), Checkpoint: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r, err := newRecorded(log)
	if err != nil {
		t.Fatal(err)
	}
	heads := map[int64]tree.Checkpoint{}
	wait := func(size int64) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			head, err := tree.Open(log.Checkpoint(), r.verifier)
			if err != nil {
				t.Fatal(err)
			}
			if head.Size == size {
				heads[size] = head.Checkpoint
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the checkpoint stays at %d", head.Size)
			}
		}
	}
	if _, err := r.ProveInclusion(t.Context(), 0, 0); !errors.Is(err, server.ErrNotInTree) {
		t.Errorf("of an empty log: %v", err)
	}
	sizes := []int64{1, 7, 256, 300, 523}
	for _, size := range sizes {
		for accepted, _ := log.Size(); accepted < uint64(size); accepted, _ = log.Size() {
			record := audit.Record{Kind: audit.KindReload, Time: time.Unix(int64(accepted), 0), Revision: fmt.Sprint(accepted)}
			if err := log.Append(t.Context(), record, accepted == uint64(size)-1); err != nil {
				t.Fatal(err)
			}
		}
		wait(size)
	}
	for _, size := range append(sizes, 0) {
		want := max(size, 0)
		if size == 0 {
			want = 523
		}
		for _, index := range []int64{0, want / 2, want - 1} {
			p, err := r.ProveInclusion(t.Context(), uint64(index), uint64(size))
			if err != nil || int64(p.Size) != want || (p.Checkpoint != nil) != (want == 523) {
				t.Fatalf("record %d of %d: %+v, %v", index, size, p, err)
			}
			if err := tlog.CheckRecord(hashes(p), want, heads[want].Root, index, tlog.RecordHash(p.Record)); err != nil {
				t.Errorf("record %d of %d: %v", index, size, err)
			}
		}
		for _, old := range sizes {
			if old > want {
				continue
			}
			p, err := r.ProveConsistency(t.Context(), uint64(old), uint64(size))
			if err != nil || int64(p.Size) != want {
				t.Fatalf("%d in %d: %+v, %v", old, size, p, err)
			}
			if err := tlog.CheckTree(hashes(p), want, heads[want].Root, old, heads[old].Root); old < want && err != nil {
				t.Errorf("%d in %d: %v", old, size, err)
			}
		}
	}
	for _, bad := range [][2]uint64{{523, 0}, {0, 524}, {1 << 63, 0}, {0, 1 << 63}, {1 << 63, 1<<63 + 1}} {
		if _, err := r.ProveInclusion(t.Context(), bad[0], bad[1]); !errors.Is(err, server.ErrNotInTree) {
			t.Errorf("record %d of %d: %v", bad[0], bad[1], err)
		}
		if _, err := r.ProveConsistency(t.Context(), bad[0]+1, bad[1]); !errors.Is(err, server.ErrNotInTree) {
			t.Errorf("%d in %d: %v", bad[0]+1, bad[1], err)
		}
	}
}

func hashes(p server.AuditProof) []tlog.Hash {
	var out []tlog.Hash
	for _, h := range p.Hashes {
		out = append(out, tlog.Hash(h))
	}
	return out
}

// TestRecordedFollows: the log's cursor serves a watcher.
func TestRecordedFollows(t *testing.T) {
	log, err := audit.Open(audit.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r, err := newRecorded(log)
	if err != nil {
		t.Fatal(err)
	}
	cursor := r.Follow(0)
	defer cursor.Close()
	if err := log.Append(t.Context(), audit.Record{Kind: audit.KindStart, Time: time.Unix(0, 0)}, true); err != nil {
		t.Fatal(err)
	}
	index, line, err := cursor.Next(t.Context())
	if want := `{"v":1,"index":0,"time":"1970-01-01T00:00:00Z","kind":"start"}`; err != nil || index != 0 || string(line) != want {
		t.Errorf("%d %s, %v", index, line, err)
	}
}
