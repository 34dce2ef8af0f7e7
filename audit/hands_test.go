package audit_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ/audit"
)

// A record that nobody waits for is on the disk soon, also where it begins a
// segment and nothing comes behind it.
func TestFirstOfSegment(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, audit.Config{Dir: dir, SegmentBytes: 1})
		for i, id := range []string{"one", "two", "three"} {
			mustAppend(t, l, decision(id), false)
			ctx, cancel := timeout(t, 250*time.Millisecond)
			if err := l.Wait(ctx, uint64(i)); err != nil {
				t.Errorf("record %d, %q, is not on the disk: %v", i, id, err)
			}
			cancel()
		}
		mustClose(t, l)
	})
}

// A lock file that somebody has removed keeps nobody out. The directory's own
// lock does.
func TestLockRemoved(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, audit.Config{Dir: dir})
	mustAppend(t, l, decision("one"), true)
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if second, err := audit.Open(audit.Config{Dir: dir}); err == nil {
		_ = second.Close()
		t.Error("a log that is open was opened again")
	}
	mustAppend(t, l, decision("two"), true)
	mustClose(t, l)
	mustClose(t, mustOpen(t, audit.Config{Dir: dir}))
	if got := ids(readLog(t, dir)); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %v", got)
	}
}

// A segment that is taken away after a record was written to it, and before
// that is synced: the record is not confirmed, and not lost either.
func TestMeddlingBeforeSync(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, audit.Config{Dir: dir})
		mustAppend(t, l, decision("before"), true)
		mustAppend(t, l, decision("read"), false)
		time.Sleep(20 * time.Millisecond) // it is written, and not synced
		path := firstSegment(dir)
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, synced := l.Size(); synced != 1 {
			t.Errorf("%d records are said to be on the disk, and the file is gone", synced)
		}
		if s := l.State(); s.Condition != audit.Failed {
			t.Errorf("the state is %+v", s)
		}
		if err := os.Rename(path+".1", path); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, l, decision("mended"), true)
		mustClose(t, l)
		if got := ids(readLog(t, dir)); !slices.Equal(got, []string{"before", "read", "mended"}) {
			t.Errorf("got %v", got)
		}
	})
}

// The log's directory is moved while it is open: segments go with it.
func TestMovedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l := mustOpen(t, audit.Config{Dir: dir, SegmentBytes: 1})
	mustAppend(t, l, decision("one"), true)
	moved := dir + ".moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := timeout(t, 20*time.Second)
	defer cancel()
	if err := l.Append(ctx, decision("two"), true); err != nil {
		t.Error(err)
	}
	mustClose(t, l)
	if got := ids(readLog(t, moved)); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %v", got)
	}
}
