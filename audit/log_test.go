package audit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ/audit"
)

func TestOrderAndSequence(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for session := range 3 {
		l := mustOpen(t, dir)
		if l.Recovered() != 0 {
			t.Errorf("recovered %d bytes of a log that was closed in good order", l.Recovered())
		}
		for i := range 50 {
			id := fmt.Sprintf("%d-%d", session, i)
			mustAppend(t, l, decision(id), i%7 == 0)
			want = append(want, id)
		}
		mustClose(t, l)
	}
	if got := ids(readLog(t, dir)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestManyCallers(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
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

// While one fsync runs, all who come share the next one.
func TestGroupCommit(t *testing.T) {
	const callers = 100
	synctest.Test(t, func(t *testing.T) {
		var syncs atomic.Int32
		release := make(chan struct{})
		l := openFaulty(t, t.TempDir(), &faulty{onSync: func() error {
			if syncs.Add(1) == 1 {
				<-release
			}
			return nil
		}})
		var wg sync.WaitGroup
		var confirmed atomic.Int32
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
		mustClose(t, l)
	})
}

// Records that nobody waits for gather, but not for long, and not where
// somebody waits.
func TestGathering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var written []int // lines of each write; guarded by mu
		f := &faulty{}
		f.onWrite = func(b []byte) (bool, int, error) {
			mu.Lock()
			defer mu.Unlock()
			written = append(written, strings.Count(string(b), "\n"))
			return false, 0, nil
		}
		l := openFaulty(t, t.TempDir(), f)
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
		big := decision("big")
		big.Explanation = strings.Repeat("x", 256<<10)
		mustAppend(t, l, big, false)
		synctest.Wait()
		want(40, 4, 2)
		add(5)
		mustClose(t, l)
		want(40, 4, 2, 5)
	})
}

// A durable record is confirmed after it was written and synced, never before;
// others cost no fsync, but go before a later durable one.
func TestDurable(t *testing.T) {
	dir := t.TempDir()
	var written, synced atomic.Int64
	var syncs atomic.Int32
	f := &faulty{}
	f.onWrite = func(b []byte) (bool, int, error) {
		n, err := f.File.Write(b)
		written.Add(int64(strings.Count(string(b[:n]), "\n")))
		return true, n, err
	}
	f.onSync = func() error {
		syncs.Add(1)
		synced.Store(written.Load())
		return nil
	}
	l := openFaulty(t, dir, f)
	for i := range int64(10) {
		mustAppend(t, l, decision(fmt.Sprint(i)), true)
		if synced.Load() != i+1 {
			t.Fatalf("record %d was confirmed when %d were on the disk", i, synced.Load())
		}
	}
	for i := range 5 {
		mustAppend(t, l, decision(fmt.Sprint("queued-", i)), false)
	}
	for l.Queued() > 0 || written.Load() < 15 {
		time.Sleep(time.Millisecond)
	}
	if syncs.Load() != 10 {
		t.Errorf("records that are not durable cost %d fsyncs", syncs.Load()-10)
	}
	mustAppend(t, l, decision("last"), true)
	if synced.Load() != 16 {
		t.Errorf("%d records on the disk, want 16", synced.Load())
	}
	mustAppend(t, l, decision("tail"), false)
	mustClose(t, l)
	if synced.Load() != 17 {
		t.Errorf("Close left %d of 17 records on the disk", synced.Load())
	}
}

func TestDeadlineWhileTheDiskIsStuck(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		l := openFaulty(t, dir, &faulty{onSync: func() error { <-stuck; return nil }})
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
		if err := l.Append(gone, decision("second"), true); !errors.Is(err, reason) {
			t.Errorf("a cancelled caller gets %v", err)
		}
		mustAppend(t, l, decision("third"), false) // the queue has room

		closed := make(chan error)
		go func() { closed <- l.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("Close returned (%v) while the disk was busy", err)
		default:
		}
		if err := l.Append(t.Context(), decision("late"), false); err == nil {
			t.Error("a closing log accepted a record")
		}
		close(stuck)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
	// Unconfirmed is not unrecorded.
	if got := ids(readLog(t, dir)); !slices.Equal(got, []string{"first", "second", "third"}) {
		t.Errorf("got %v", got)
	}
}

func TestFullQueue(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{}) // each fsync takes one
		l := openFaulty(t, dir, &faulty{onSync: func() error { <-stuck; return nil }})
		big := decision("big")
		big.Explanation = strings.Repeat("x", audit.MaxQueue/8)
		records := 0
		var wg sync.WaitGroup
		durable := func(r audit.Record) {
			records++
			wg.Go(func() {
				if err := l.Append(t.Context(), r, true); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		durable(decision("first")) // the disk is busy with it
		for round := range 2 {
			accepted := 0
			for ; ; accepted++ {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				begin := time.Now()
				err := l.Append(ctx, big, false)
				cancel()
				if err == nil {
					records++
					continue
				}
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
					t.Errorf("after %v: %v; want its deadline's error after 1s", time.Since(begin), err)
				}
				break
			}
			if accepted != 7 || l.Queued() != accepted {
				t.Errorf("round %d: the queue took %d records of an eighth each", round, accepted)
			}
			durable(big) // waits for room
			if l.Queued() != accepted {
				t.Errorf("round %d: %d in a queue that was full with %d", round, l.Queued(), accepted)
			}
			stuck <- struct{}{}
			synctest.Wait() // the queue is written, and the disk is busy with the one that waited
			if l.Queued() != 0 {
				t.Errorf("round %d: %d still in the queue", round, l.Queued())
			}
		}
		close(stuck)
		wg.Wait()
		mustClose(t, l)
		if n := len(readLog(t, dir)); n != records {
			t.Errorf("%d records, want %d", n, records)
		}
	})
}

func TestFailureIsFinal(t *testing.T) {
	broken := errors.New("the disk is on fire")
	for _, c := range []struct {
		name  string
		fault func(f *faulty)
		torn  bool
		want  error
	}{
		{"write", func(f *faulty) { f.onWrite = func([]byte) (bool, int, error) { return true, 0, broken } }, false, broken},
		{"half a write, no space", func(f *faulty) {
			f.onWrite = func(b []byte) (bool, int, error) {
				n, _ := f.File.Write(b[:len(b)/2])
				return true, n, syscall.ENOSPC
			}
		}, true, syscall.ENOSPC},
		{"half a write, no error", func(f *faulty) {
			f.onWrite = func(b []byte) (bool, int, error) {
				n, err := f.File.Write(b[:len(b)/2])
				return true, n, err
			}
		}, true, io.ErrShortWrite},
		{"fsync", func(f *faulty) { f.onSync = func() error { return broken } }, false, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := &faulty{}
			l := openFaulty(t, dir, f)
			mustAppend(t, l, decision("good"), true)
			if l.Err() != nil {
				t.Fatal(l.Err())
			}
			c.fault(f) // the writer is idle
			if err := l.Append(t.Context(), decision("bad"), true); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			f.onWrite, f.onSync = nil, nil // it works again: too late
			for _, durable := range []bool{true, false} {
				if err := l.Append(t.Context(), decision("late"), durable); !errors.Is(err, c.want) {
					t.Errorf("after the failure, durable %v: got %v, want %v", durable, err, c.want)
				}
			}
			if !errors.Is(l.Err(), c.want) {
				t.Errorf("Err is %v, want %v", l.Err(), c.want)
			}
			for range 2 {
				if err := l.Close(); !errors.Is(err, c.want) {
					t.Errorf("Close gave %v, want %v", err, c.want)
				}
			}
			again := mustOpen(t, dir)
			if torn := again.Recovered() > 0; torn != c.torn {
				t.Errorf("recovered %d bytes", again.Recovered())
			}
			mustAppend(t, again, decision("again"), true)
			mustClose(t, again)
			for _, l := range readLog(t, dir) {
				if l.ID == "late" {
					t.Error("a refused record is in the log")
				}
			}
		})
	}
}

// A failure releases those who wait for room, and those who wait in the queue.
func TestFailureReleasesWaiters(t *testing.T) {
	broken := errors.New("the disk is on fire")
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		l := openFaulty(t, dir, &faulty{onSync: func() error { <-stuck; return broken }})
		big := decision("big")
		big.Explanation = strings.Repeat("x", audit.MaxQueue/4)
		var wg sync.WaitGroup
		var failed atomic.Int32
		for range 10 {
			wg.Go(func() {
				if err := l.Append(t.Context(), big, true); errors.Is(err, broken) {
					failed.Add(1)
				}
			})
			synctest.Wait()
		}
		close(stuck)
		wg.Wait()
		if failed.Load() != 10 {
			t.Errorf("%d of 10 callers learnt of the failure", failed.Load())
		}
		if err := l.Close(); !errors.Is(err, broken) {
			t.Errorf("Close gave %v", err)
		}
	})
}

// Records that were accepted without waiting are not lost in silence: the log
// says that it failed.
func TestFailureOfQueuedRecords(t *testing.T) {
	broken := errors.New("the disk is on fire")
	l := openFaulty(t, t.TempDir(), &faulty{onWrite: func([]byte) (bool, int, error) { return true, 0, broken }})
	mustAppend(t, l, decision("queued"), false)
	for l.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if err := l.Append(t.Context(), decision("next"), false); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := l.Close(); !errors.Is(err, broken) {
		t.Errorf("Close gave %v", err)
	}
}

func TestCloseReportsTheLastSync(t *testing.T) {
	broken := errors.New("the disk is on fire")
	l := openFaulty(t, t.TempDir(), &faulty{onSync: func() error { return broken }})
	mustAppend(t, l, decision("queued"), false)
	if err := l.Close(); !errors.Is(err, broken) {
		t.Errorf("Close gave %v", err)
	}
}

func TestClosed(t *testing.T) {
	l := mustOpen(t, t.TempDir())
	mustClose(t, l)
	mustClose(t, l)
	for _, durable := range []bool{true, false} {
		if err := l.Append(t.Context(), decision("late"), durable); err == nil {
			t.Error("a closed log accepted a record")
		}
	}
	if l.Err() != nil {
		t.Errorf("closing is no failure: %v", l.Err())
	}
}

// Appending and closing at once: what was accepted is there.
func TestCloseWhileAppending(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
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
	time.Sleep(20 * time.Millisecond)
	mustClose(t, l)
	wg.Wait()
	if n := int64(len(readLog(t, dir))); n != accepted.Load() {
		t.Errorf("%d records, but %d were accepted", n, accepted.Load())
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, durable := range []bool{false, true} {
		b.Run(fmt.Sprintf("durable=%v", durable), func(b *testing.B) {
			l := mustOpen(b, b.TempDir())
			r := fullRecord()
			b.SetParallelism(64)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := l.Append(b.Context(), r, durable); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
