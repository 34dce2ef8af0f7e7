package revocation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/revocation"
)

func journalFile(dir string) string { return filepath.Join(dir, "revocations.jsonl") }

func mustOpen(t testing.TB, dir string) *revocation.Journal {
	t.Helper()
	j, err := revocation.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func mustClose(t testing.TB, j *revocation.Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustAppend(t testing.TB, j *revocation.Journal, entries ...revocation.Entry) []revocation.Entry {
	t.Helper()
	added, err := j.Append(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

func server(id string) revocation.Entry {
	return revocation.Entry{Kind: revocation.Server, ID: id, Reason: "test"}
}

func revoked(v *revocation.View, id string) bool {
	_, is := v.Revoked(revocation.Server, "", id, time.Time{}, time.Now())
	return is
}

func all(v *revocation.View) []revocation.Entry { return slices.Collect(v.Entries(0)) }

// What is appended is there after a restart, to the last field.
func TestJournalKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b") // made where it is missing
	j := mustOpen(t, dir)
	log := entries(500)
	log = append(log, revocation.Entry{
		Kind: revocation.Tool, ID: "s/ü \"\\\u2028", IssuedBefore: at(1).Add(1), From: at(2).In(time.FixedZone("x", 3600)), Until: at(3), Reason: "line\nfeed", Author: "me",
	}, revocation.Entry{Kind: revocation.Tool, ID: "s/ü \"\\\u2028", Lift: true})
	before := time.Now()
	var added []revocation.Entry
	for len(log) > 0 {
		n := min(7, len(log))
		added = append(added, mustAppend(t, j, log[:n]...)...)
		log = log[n:]
	}
	for i, e := range added {
		if e.Sequence != uint64(i+1) || e.RecordedAt.Before(before.Round(0)) || e.RecordedAt.After(time.Now()) || e.Imported {
			t.Fatalf("entry %d: %+v", i, e)
		}
	}
	if got := all(j.View()); !slices.Equal(got, added) {
		t.Error("the view has other entries than Append returned")
	}
	mustClose(t, j)
	j = mustOpen(t, dir)
	if got := all(j.View()); !slices.Equal(got, added) || j.Recovered() != 0 {
		t.Errorf("after a restart there are %d entries, want %d", len(got), len(added))
	}
	if next := mustAppend(t, j, server("next")); next[0].Sequence != uint64(len(added)+1) {
		t.Errorf("the next entry is %d", next[0].Sequence)
	}
	info, err := os.Stat(journalFile(dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}

func TestJournalRefusesEntries(t *testing.T) {
	j := mustOpen(t, t.TempDir())
	told := 0
	j.OnChange(func(*revocation.View) { told++ })
	for _, bad := range []revocation.Entry{{Kind: "x", ID: "y"}, {Kind: revocation.Server}, {Sequence: 1, Kind: revocation.Server, ID: "a"}} {
		_, err := j.Append(t.Context(), []revocation.Entry{server("fine"), bad})
		if errs, ok := errors.AsType[revocation.Errors](err); !ok || errs[0].Index != 1 {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if added, err := j.Append(t.Context(), nil); added != nil || err != nil {
		t.Errorf("nothing appended: %v, %v", added, err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := j.Append(late, []revocation.Entry{server("late")}); !errors.Is(err, context.Canceled) {
		t.Errorf("late: %v", err)
	}
	if j.View().Len() != 0 || told != 0 {
		t.Errorf("%d entries, told %d times of nothing", j.View().Len(), told)
	}
	mustClose(t, j)
	if _, err := j.Append(t.Context(), []revocation.Entry{server("a")}); err == nil {
		t.Error("a closed log takes entries")
	}
	if _, err := j.Import([]revocation.Entry{server("a")}); err == nil {
		t.Error("a closed log imports")
	}
	mustClose(t, j)
}

// Whoever is told of a view is told before Append returns, of each state at
// most once, and never of an older one.
func TestJournalTells(t *testing.T) {
	j := mustOpen(t, t.TempDir())
	var mu sync.Mutex
	var last uint64
	j.OnChange(func(v *revocation.View) {
		mu.Lock()
		defer mu.Unlock()
		if v.Sequence() <= last {
			t.Errorf("told of %d after %d", v.Sequence(), last)
		}
		last = v.Sequence()
	})
	var callers sync.WaitGroup
	for g := range 8 {
		callers.Go(func() {
			for i := range 25 {
				added, err := j.Append(t.Context(), []revocation.Entry{server(fmt.Sprintf("%d-%d", g, i))})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				told := last
				mu.Unlock()
				if told < added[0].Sequence || j.View().Sequence() < added[0].Sequence {
					t.Errorf("entry %d was confirmed when %d had been told", added[0].Sequence, told)
				}
			}
		})
	}
	callers.Wait()
	if j.View().Len() != 200 || last != 200 {
		t.Errorf("%d entries, told of %d", j.View().Len(), last)
	}
}

func TestJournalOneServerOnly(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	if second, err := revocation.OpenJournal(dir); err == nil {
		mustClose(t, second)
		t.Fatal("the log was opened twice")
	} else if !strings.Contains(err.Error(), "another process has this log open") || !strings.Contains(err.Error(), journalFile(dir)) {
		t.Errorf("the error is not clear: %v", err)
	}
	mustAppend(t, j, server("still mine"))
	mustClose(t, j)
	mustClose(t, mustOpen(t, dir))
}

// A journal whose file was put away, replaced, cut or written to by somebody
// else takes nothing: it would go where nobody looks for it.
func TestJournalInPlace(t *testing.T) {
	for name, meddle := range map[string]func(path string) error{
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"removed": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 10) },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
		"linked": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.Symlink(path+".old", path))
		},
		"appended": func(path string) error {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("x")
			return errors.Join(err, f.Close())
		},
	} {
		dir := t.TempDir()
		j := mustOpen(t, dir)
		mustAppend(t, j, server("before"))
		if err := meddle(journalFile(dir)); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Append(t.Context(), []revocation.Entry{server("after")}); err == nil || !strings.Contains(err.Error(), journalFile(dir)) {
			t.Errorf("%s: %v", name, err)
		}
		if !revoked(j.View(), "before") || revoked(j.View(), "after") {
			t.Errorf("%s: what is in force has changed", name)
		}
	}
}

// While the disk is full or fails nothing is in force that isn't durable, and
// when it is well again the next call works.
func TestJournalOnAFaultyDisk(t *testing.T) {
	for _, c := range []struct {
		name      string
		room      int
		sync, cut bool
	}{
		{"full at once", 0, false, false},
		{"full in the middle of a line", 30, false, false},
		{"full, and the torn line stays", 30, false, true},
		{"it can't be made durable", -1, true, false},
		{"nothing works", 5, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			j := mustOpen(t, dir)
			faulty := revocation.OnFaulty(j)
			told := 0
			j.OnChange(func(*revocation.View) { told++ })
			mustAppend(t, j, server("before"))
			for range 3 {
				faulty.Fail(c.room, c.sync, c.cut)
				if added, err := j.Append(t.Context(), []revocation.Entry{server("lost")}); err == nil || added != nil || !errors.Is(err, revocation.ErrFaulty) {
					t.Fatalf("%v, %v", added, err)
				}
				if _, err := j.Import([]revocation.Entry{server("lost")}); err == nil {
					t.Fatal("an import succeeds")
				}
				if revoked(j.View(), "lost") || j.View().Sequence() != 1 || told != 1 {
					t.Fatal("what isn't durable is in force")
				}
			}
			faulty.Fail(-1, false, false)
			if added := mustAppend(t, j, server("after")); added[0].Sequence != 2 || told != 2 {
				t.Fatalf("%+v, told %d times", added, told)
			}
			if v, err := j.Import([]revocation.Entry{server("file")}); err != nil || !revoked(v, "file") {
				t.Fatalf("an import after it: %v", err)
			}
			mustClose(t, j)
			j = mustOpen(t, dir)
			if got := j.View(); j.Recovered() != 0 || got.Len() != 3 || !revoked(got, "before") || !revoked(got, "after") || revoked(got, "lost") {
				t.Errorf("after a restart: %+v", all(got))
			}
		})
	}
}

// A crash while the disk failed leaves a torn line at most, which is cut.
func TestJournalCrashOnAFaultyDisk(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	mustAppend(t, j, server("before"))
	revocation.OnFaulty(j).Fail(30, true, true)
	if _, err := j.Append(t.Context(), []revocation.Entry{server("lost")}); err == nil {
		t.Fatal("appended")
	}
	mustClose(t, j)
	j = mustOpen(t, dir)
	if j.Recovered() != 30 || j.View().Len() != 1 {
		t.Errorf("cut %d bytes, %d entries", j.Recovered(), j.View().Len())
	}
	mustAppend(t, j, server("after"))
}

// RecordedAt never runs backwards, whatever the clock does between two starts.
func TestJournalTimesNeverRunBackwards(t *testing.T) {
	dir := t.TempDir()
	future := time.Now().Add(time.Hour).UTC().Round(0)
	line := revocation.AppendLine(nil, []revocation.Entry{{Sequence: 1, Kind: revocation.Server, ID: "a", RecordedAt: future}}, nil)
	if err := os.WriteFile(journalFile(dir), line, 0o600); err != nil {
		t.Fatal(err)
	}
	j := mustOpen(t, dir)
	if added := mustAppend(t, j, server("b")); !added[0].RecordedAt.Equal(future) {
		t.Errorf("recorded at %v, after %v", added[0].RecordedAt, future)
	}
}

// What waits in a journal that closes is answered, one way or the other.
func TestJournalCloseAnswers(t *testing.T) {
	j := mustOpen(t, t.TempDir())
	var callers sync.WaitGroup
	var mu sync.Mutex
	confirmed := map[string]bool{}
	for g := range 16 {
		callers.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", g, i)
				if _, err := j.Append(t.Context(), []revocation.Entry{server(id)}); err != nil {
					return
				}
				mu.Lock()
				confirmed[id] = true
				mu.Unlock()
			}
		})
	}
	for {
		mu.Lock()
		n := len(confirmed)
		mu.Unlock()
		if n > 50 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	mustClose(t, j)
	callers.Wait()
	for id := range confirmed {
		if !revoked(j.View(), id) {
			t.Errorf("%s was confirmed and is not in force", id)
		}
	}
}

func BenchmarkJournal(b *testing.B) {
	dir := b.TempDir()
	line := []byte(nil)
	log, err := revocation.New(entries(100_000))
	if err != nil {
		b.Fatal(err)
	}
	for e := range log.Entries(0) {
		e.RecordedAt = at(1)
		line = revocation.AppendLine(line, []revocation.Entry{e}, nil)
	}
	if err := os.WriteFile(journalFile(dir), line, 0o600); err != nil {
		b.Fatal(err)
	}
	b.Run("Open100000", func(b *testing.B) {
		for b.Loop() {
			j, err := revocation.OpenJournal(dir)
			if err != nil {
				b.Fatal(err)
			}
			if err := j.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	j := mustOpen(b, dir)
	b.Run("Append", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i++
			mustAppend(b, j, server(fmt.Sprint("bench-", i)))
		}
	})
}
