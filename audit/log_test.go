package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ/audit"
)

func TestOrderAndIndex(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for session := range 3 {
		l := mustOpen(t, audit.Config{Dir: dir})
		if r := l.Recovered(); r.Cut != 0 || r.Leftovers != nil || r.Tiles {
			t.Errorf("recovered %+v of a log that was closed in good order", r)
		}
		for i := range 50 {
			id := fmt.Sprintf("%d-%d", session, i)
			mustAppend(t, l, decision(id), i%7 == 0)
			want = append(want, id)
		}
		mustClose(t, l)
		if accepted, synced := l.Size(); accepted != uint64(len(want)) || synced != accepted {
			t.Errorf("size %d, %d on the disk; want %d", accepted, synced, len(want))
		}
	}
	if got := ids(readLog(t, dir)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestManyCallers(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, audit.Config{Dir: dir})
	var wg sync.WaitGroup
	for g := range 100 {
		wg.Go(func() {
			for i := range 20 {
				if err := l.Append(t.Context(), decision(fmt.Sprintf("%d-%d", g, i)), i%2 == 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, l)
	lines := readLog(t, dir)
	if len(lines) != 2000 {
		t.Fatalf("%d records, want 2000", len(lines))
	}
	next := map[int]int{}
	for _, l := range lines {
		var g, i int
		if _, err := fmt.Sscanf(l.ID, "%d-%d", &g, &i); err != nil || next[g] != i {
			t.Fatalf("record %s: want number %d of its caller", l.ID, next[g])
		}
		next[g]++
	}
}

// stuckSync makes each fsync of a segment wait until it may go on.
func stuckSync(release <-chan struct{}, syncs *atomic.Int32) func(op, name string) error {
	return func(op, _ string) error {
		if op == "sync" {
			syncs.Add(1)
			<-release
		}
		return nil
	}
}

// While one fsync runs, all who come share the next one.
func TestGroupCommit(t *testing.T) {
	const callers = 100
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{}
		l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
		var syncs, confirmed atomic.Int32
		release := make(chan struct{})
		d.set(stuckSync(release, &syncs))
		var wg sync.WaitGroup
		add := func(id string) {
			wg.Go(func() {
				if err := l.Append(t.Context(), decision(id), true); err != nil {
					t.Error(err)
				}
				confirmed.Add(1)
			})
		}
		add("first")
		synctest.Wait()
		for i := range callers - 1 {
			add(fmt.Sprint(i))
		}
		synctest.Wait()
		if got := l.Queued(); got != callers-1 || confirmed.Load() != 0 {
			t.Errorf("%d wait and %d are confirmed while the disk is busy; want %d and 0", got, confirmed.Load(), callers-1)
		}
		close(release)
		wg.Wait()
		if n := syncs.Load(); n != 2 {
			t.Errorf("%d fsyncs for %d records, want 2", n, callers)
		}
		d.set(nil)
		mustClose(t, l)
	})
}

// Who doesn't wait for the disk is never held up by an fsync.
func TestAcceptedWhileTheDiskIsBusy(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{}
		l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
		var syncs atomic.Int32
		release := make(chan struct{})
		d.set(stuckSync(release, &syncs))
		var wg sync.WaitGroup
		wg.Go(func() { mustAppend(t, l, decision("durable"), true) })
		synctest.Wait()
		begin := time.Now()
		for i := range 1000 {
			mustAppend(t, l, decision(fmt.Sprint(i)), false)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("1000 records took %v", took)
		}
		close(release)
		wg.Wait()
		mustClose(t, l)
	})
	if n := len(readLog(t, dir)); n != 1001 {
		t.Errorf("%d records", n)
	}
}

// Records that nobody waits for gather, but not for long, and not where
// somebody waits.
func TestGathering(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{}
		var mu sync.Mutex
		var written []int // lines of each write; guarded by mu
		d.write = func(f audit.File, b []byte) (int, error) {
			mu.Lock()
			written = append(written, strings.Count(string(b), "\n"))
			mu.Unlock()
			return f.Write(b)
		}
		l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
		add := func(n int) {
			for i := range n {
				mustAppend(t, l, decision(fmt.Sprint(i)), false)
			}
			synctest.Wait()
		}
		want := func(lines ...int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(written, lines) {
				t.Fatalf("wrote %v, want %v", written, lines)
			}
		}
		add(20)
		want()
		time.Sleep(time.Millisecond / 2)
		add(20)
		want()
		time.Sleep(time.Millisecond / 2)
		synctest.Wait()
		want(40)
		add(3)
		mustAppend(t, l, decision("durable"), true)
		want(40, 4)
		add(1)
		for range 5 { // 300,000 bytes are enough
			mustAppend(t, l, big("big"), false)
		}
		synctest.Wait()
		want(40, 4, 6)
		add(5)
		mustClose(t, l)
		want(40, 4, 6, 5)
	})
}

// What nobody waits for is on the disk 200 ms after it was written, or as soon
// as there are 4 MiB of it.
func TestSyncOfWhatNobodyWaitsFor(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{}
		l := mustOpenWith(t, audit.Config{Dir: dir, Checkpoint: time.Hour}, d.over)
		var syncs atomic.Int32
		d.set(func(op, _ string) error {
			if op == "sync" {
				syncs.Add(1)
			}
			return nil
		})
		mustAppend(t, l, decision("one"), false)
		time.Sleep(190 * time.Millisecond)
		synctest.Wait()
		if _, synced := l.Size(); synced != 0 || syncs.Load() != 0 {
			t.Errorf("%d records on the disk after 190ms", synced)
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if _, synced := l.Size(); synced != 1 || syncs.Load() != 1 {
			t.Errorf("%d records on the disk after 210ms, by %d fsyncs", synced, syncs.Load())
		}
		n := 0
		for ; n*60_000 < audit.SyncBytes+1<<20; n++ {
			mustAppend(t, l, big(fmt.Sprint(n)), false)
			synctest.Wait()
		}
		if _, synced := l.Size(); synced < 2 || syncs.Load() != 2 {
			t.Errorf("%d records on the disk, by %d fsyncs, after %d large ones", synced, syncs.Load(), n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := syncs.Load(); n > 3 {
			t.Errorf("%d fsyncs of a log at rest", n-3)
		}
		mustClose(t, l)
	})
}

// A durable record is confirmed after it was written and synced, never before.
func TestDurable(t *testing.T) {
	dir := t.TempDir()
	var written, synced atomic.Int64
	d := &faulty{}
	d.write = func(f audit.File, b []byte) (int, error) {
		n, err := f.Write(b)
		written.Add(int64(strings.Count(string(b[:n]), "\n")))
		return n, err
	}
	d.before = func(op, _ string) error {
		if op == "sync" {
			synced.Store(written.Load())
		}
		return nil
	}
	l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
	for i := range int64(10) {
		mustAppend(t, l, decision(fmt.Sprint("queued-", i)), false)
		mustAppend(t, l, decision(fmt.Sprint(i)), true)
		if synced.Load() != 2*(i+1) {
			t.Fatalf("record %d was confirmed when %d were on the disk", 2*i+1, synced.Load())
		}
	}
	mustAppend(t, l, decision("tail"), false)
	mustClose(t, l)
	if synced.Load() != 21 {
		t.Errorf("Close left %d of 21 records on the disk", synced.Load())
	}
}

func TestDeadlineWhileTheDiskIsStuck(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{}
		l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
		var syncs atomic.Int32
		stuck := make(chan struct{})
		d.set(stuckSync(stuck, &syncs))
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		err := l.Append(ctx, decision("first"), true)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 2*time.Second {
			t.Errorf("after %v: %v; want its deadline's error after 2s", time.Since(begin), err)
		}
		// An ended context is an error, even when there would be room.
		if err := l.Append(ctx, decision("refused"), false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an ended context gave %v", err)
		}
		reason := errors.New("caller went away")
		gone, cancelCause := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(time.Second)
			cancelCause(reason)
		}()
		if err := l.Append(gone, decision("withdrawn"), true); !errors.Is(err, reason) {
			t.Errorf("a cancelled caller gets %v", err)
		}
		mustAppend(t, l, decision("second"), false) // the queue has room

		closed := make(chan error, 1)
		go func() { closed <- l.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("Close returned (%v) while the disk was busy", err)
		default:
		}
		if err := l.Append(t.Context(), decision("late"), false); !errors.Is(err, audit.ErrClosed) {
			t.Errorf("a closing log accepted a record: %v", err)
		}
		close(stuck)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
	// What the writer had is recorded though nobody waited for it any longer;
	// what it had not is not.
	if got := ids(readLog(t, dir)); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("got %v", got)
	}
}

// A full queue makes all callers wait, as long as they like, and none longer.
func TestFullQueue(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{}
		l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
		var syncs atomic.Int32
		stuck := make(chan struct{})
		d.set(stuckSync(stuck, &syncs))
		var wg sync.WaitGroup
		wg.Go(func() { mustAppend(t, l, decision("durable"), true) })
		synctest.Wait()
		accepted := 0
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			err := l.Append(ctx, big("big"), false)
			cancel()
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				break
			}
			accepted++
		}
		if held := l.Held(); held > audit.MaxHeld || held < audit.MaxHeld-70_000 {
			t.Errorf("%d bytes are held, want just under %d", held, audit.MaxHeld)
		}
		var waited atomic.Bool
		wg.Go(func() {
			mustAppend(t, l, big("waiting"), false)
			waited.Store(true)
		})
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if waited.Load() {
			t.Error("a record was accepted above the bound")
		}
		close(stuck)
		wg.Wait()
		mustClose(t, l)
		if n := len(readLines(t, dir)); n != accepted+2 {
			t.Errorf("%d records, want %d", n, accepted+2)
		}
	})
}

// Who gives up while the disk is stuck leaves the room to others.
func TestWithdrawnRecordsMakeRoom(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{}
		l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
		var syncs atomic.Int32
		stuck := make(chan struct{})
		d.set(stuckSync(stuck, &syncs))
		var wg sync.WaitGroup
		for i := range 600 { // 36 MB
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := l.Append(ctx, big(fmt.Sprint(i)), true); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if l.Queued() != 0 {
			t.Errorf("%d records of nobody wait", l.Queued())
		}
		mustAppend(t, l, decision("read"), false)
		close(stuck)
		mustClose(t, l)
	})
	lines := readLog(t, dir)
	if lines[len(lines)-1].ID != "read" {
		t.Error("the read is not recorded")
	}
}

func TestClosed(t *testing.T) {
	l := mustOpen(t, audit.Config{Dir: t.TempDir()})
	mustClose(t, l)
	mustClose(t, l)
	for _, durable := range []bool{true, false} {
		if err := l.Append(t.Context(), decision("late"), durable); !errors.Is(err, audit.ErrClosed) {
			t.Errorf("a closed log says %v", err)
		}
	}
	if s := l.State(); s.Condition != audit.OK {
		t.Errorf("closing is no failure: %v", s)
	}
	if err := l.Wait(t.Context(), 0); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("waiting for what will never come: %v", err)
	}
}

// Appending and closing at once: what was accepted is there.
func TestCloseWhileAppending(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, audit.Config{Dir: dir})
	var wg sync.WaitGroup
	var accepted atomic.Int64
	for g := range 16 {
		wg.Go(func() {
			for i := range 1000 {
				if l.Append(t.Context(), decision(fmt.Sprint(g, "-", i)), i%3 == 0) != nil {
					return
				}
				accepted.Add(1)
			}
		})
	}
	until(t, "some records", func() bool { return accepted.Load() > 100 })
	mustClose(t, l)
	wg.Wait()
	if n := int64(len(readLog(t, dir))); n != accepted.Load() {
		t.Errorf("%d records, but %d were accepted", n, accepted.Load())
	}
}

func TestRefusedRecords(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, audit.Config{Dir: dir})
	for name, edit := range map[string]func(*audit.Record){
		"no kind":      func(r *audit.Record) { r.Kind = "" },
		"unknown kind": func(r *audit.Record) { r.Kind = "Decision" },
		"no time":      func(r *audit.Record) { r.Time = time.Time{} },
		"no id":        func(r *audit.Record) { r.ID = "" },
		"no code":      func(r *audit.Record) { r.Code = "" },
	} {
		r := decision("d")
		edit(&r)
		if err := l.Append(t.Context(), r, true); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
	// They are the caller's mistakes; the log is as good as before.
	if s := l.State(); s.Condition != audit.OK {
		t.Error(s)
	}
	mustClose(t, l)
	if n := len(readLog(t, dir)); n != 0 {
		t.Errorf("%d records, want 0", n)
	}
}

// Checkpoints follow within a second, and cover what is on the disk.
func TestCheckpoints(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, audit.Config{Dir: dir})
		if v := verify(t, dir); v.Size != 0 {
			t.Errorf("a new log has a checkpoint over %d records", v.Size)
		}
		total := 0
		for round := range 5 {
			for range 1 + 300*round {
				mustAppend(t, l, decision("d"), false)
				total++
			}
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			if v := verify(t, dir); v.Size != uint64(total) {
				t.Errorf("the checkpoint is over %d of %d records", v.Size, total)
			}
			if !strings.Contains(string(l.Checkpoint()), fmt.Sprintf("\n%d\n", total)) {
				t.Errorf("the log's checkpoint is %s", l.Checkpoint())
			}
		}
		mustClose(t, l)
	})
}
