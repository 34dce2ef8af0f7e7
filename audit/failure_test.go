package audit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
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

// failOn fails these operations, as long as broken is set.
func failOn(broken *atomic.Bool, err error, ops ...string) func(op, name string) error {
	return func(op, name string) error {
		if broken.Load() && slices.Contains(ops, op) {
			return &os.PathError{Op: op, Path: name, Err: err}
		}
		return nil
	}
}

// conditions collects what a log tells of itself.
type conditions struct {
	mu   sync.Mutex
	list []audit.Condition
}

func (c *conditions) add(s audit.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, s.Condition)
}

func (c *conditions) want(t *testing.T, want ...audit.Condition) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.list, want) {
		t.Errorf("told %v, want %v", c.list, want)
	}
}

// A disk that fails is said to, holds up nobody for longer than they like,
// confirms nothing, loses nothing that was accepted, and is used again when it
// is well.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		ops  []string
		half bool // half of each write comes through
		want audit.Condition
	}{
		"no space":                      {syscall.ENOSPC, []string{"write"}, false, audit.Full},
		"no space in the middle":        {syscall.ENOSPC, nil, true, audit.Full},
		"quota":                         {syscall.EDQUOT, []string{"write"}, false, audit.Full},
		"write":                         {syscall.EIO, []string{"write"}, false, audit.Failed},
		"write in the middle":           {syscall.EIO, nil, true, audit.Failed},
		"short write":                   {nil, nil, true, audit.Failed},
		"fsync":                         {syscall.EIO, []string{"sync"}, false, audit.Failed},
		"fsync and all that could help": {syscall.EIO, []string{"sync", "truncate", "open"}, false, audit.Failed},
		"truncate after a failed write": {syscall.EIO, []string{"write", "truncate"}, false, audit.Failed},
		"stat":                          {syscall.EIO, []string{"stat"}, false, audit.Failed},
		"read only":                     {syscall.EROFS, []string{"write", "truncate", "open", "create", "flush", "replace"}, false, audit.ReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				var told conditions
				d := &faulty{before: failOn(&broken, c.err, c.ops...)}
				d.write = func(f audit.File, b []byte) (int, error) {
					if !broken.Load() || !c.half {
						return f.Write(b)
					}
					n, err := f.Write(b[:len(b)/2])
					return n, errors.Join(err, c.err)
				}
				l := mustOpenWith(t, audit.Config{Dir: dir, Changed: told.add}, d.over)
				mustAppend(t, l, decision("before"), true)
				mustAppend(t, l, decision("read-before"), false)
				broken.Store(true)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
				defer cancel()
				for i := range 10 {
					mustAppend(t, l, decision(fmt.Sprint("read-", i)), false)
				}
				if err := l.Append(ctx, decision("given up"), true); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 700*time.Millisecond {
					t.Errorf("after %v: %v; want its deadline's error after 700ms", time.Since(began), err)
				}
				s := l.State()
				if s.Condition != c.want || s.Since.Before(began) || s.Since.After(began.Add(300*time.Millisecond)) {
					t.Errorf("the state is %+v, want %s since %v", s, c.want, began)
				}
				if c.err != nil && !errors.Is(s.Err, c.err) || !strings.Contains(fmt.Sprint(s.Err), dir) {
					t.Errorf("the error doesn't say what and where: %v", s.Err)
				}
				time.Sleep(time.Minute)
				mustAppend(t, l, decision("read-late"), false)
				var wg sync.WaitGroup
				wg.Go(func() { mustAppend(t, l, decision("patient"), true) })
				time.Sleep(time.Second)
				broken.Store(false)
				time.Sleep(6 * time.Second)
				synctest.Wait()
				wg.Wait()
				if s := l.State(); s.Condition != audit.OK || s.Err != nil {
					t.Errorf("the disk is well, and the state %+v", s)
				}
				mustAppend(t, l, decision("after"), true)
				mustClose(t, l)
				told.want(t, c.want, audit.OK)
			})
			want := []string{"before", "read-before"}
			for i := range 10 {
				want = append(want, fmt.Sprint("read-", i))
			}
			want = append(want, "given up", "read-late", "patient", "after")
			if got := ids(readLog(t, dir)); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// A failed fsync may have thrown away what it could not write, and the next one
// succeeds all the same: nothing that was not synced before may be taken for
// written.
func TestFailedSyncLosesPages(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var fail atomic.Bool
		d := &faulty{before: func(op, name string) error {
			if op != "sync" || !fail.CompareAndSwap(true, false) {
				return nil
			}
			// What came after the first record is gone, though the file looks as
			// long as before: as after a failed writeback.
			path := firstSegment(dir)
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			clear(data[strings.IndexByte(string(data), '\n')+1:])
			if err := os.WriteFile(path, data, 0o600); err != nil {
				return err
			}
			return syscall.EIO
		}}
		l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
		mustAppend(t, l, decision("first"), true)
		mustAppend(t, l, decision("second"), false)
		time.Sleep(5 * time.Millisecond) // it is written, and not synced
		fail.Store(true)
		mustAppend(t, l, decision("third"), true)
		mustClose(t, l)
	})
	if got := ids(readLog(t, dir)); !slices.Equal(got, []string{"first", "second", "third"}) {
		t.Errorf("got %v", got)
	}
}

// A segment that can't be made, or not be made to last, holds up records as any
// other failure does.
func TestFailedRotation(t *testing.T) {
	for _, op := range []string{"create", "names"} {
		t.Run(op, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				d := &faulty{before: failOn(&broken, syscall.ENOSPC, op)}
				l := mustOpenWith(t, audit.Config{Dir: dir, SegmentBytes: 100_000}, d.over)
				mustAppend(t, l, big("0"), true)
				broken.Store(true)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := l.Append(ctx, big("1"), true); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if s := l.State(); s.Condition != audit.Full {
					t.Errorf("the state is %+v", s)
				}
				broken.Store(false)
				mustAppend(t, l, big("2"), true)
				mustClose(t, l)
			})
			if got := ids(readLog(t, dir)); !slices.Equal(got, []string{"0", "1", "2"}) || len(segments(t, dir)) != 3 {
				t.Errorf("got %v in %v", got, segments(t, dir))
			}
		})
	}
}

// When tiles or checkpoint can't be written, records are confirmed as ever, and
// the checkpoint follows.
func TestFailedCheckpoint(t *testing.T) {
	for _, op := range []string{"flush", "replace"} {
		t.Run(op, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				var told conditions
				d := &faulty{before: failOn(&broken, syscall.EIO, op)}
				l := mustOpenWith(t, audit.Config{Dir: dir, Changed: told.add}, d.over)
				broken.Store(true)
				for i := range 20 {
					mustAppend(t, l, decision(fmt.Sprint(i)), true)
					time.Sleep(100 * time.Millisecond)
				}
				if s := l.State(); s.Condition != audit.Failed || !strings.Contains(s.Err.Error(), "checkpoint") {
					t.Errorf("the state is %+v", s)
				}
				broken.Store(false)
				time.Sleep(6 * time.Second)
				synctest.Wait()
				if v := verify(t, dir); v.Size != 20 {
					t.Errorf("the checkpoint is over %d of 20 records", v.Size)
				}
				mustClose(t, l)
				told.want(t, audit.Failed, audit.OK)
			})
			readLog(t, dir)
		})
	}
}

// What the tree lags behind is bounded, and caught up with before the end.
func TestTreeLagsBehind(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		d := &faulty{before: failOn(&broken, syscall.EIO, "flush")}
		l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
		l.SetMostLeaves(50)
		broken.Store(true)
		for i := range 10 {
			mustAppend(t, l, decision(fmt.Sprint(i)), true)
		}
		time.Sleep(1500 * time.Millisecond) // these are in the tree, and wait for their tiles
		for i := range 50 {
			mustAppend(t, l, decision(fmt.Sprint(10+i)), true)
		}
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Append(ctx, decision("60"), false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a record beyond the bound: %v", err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { mustAppend(t, l, decision("61"), true) })
		synctest.Wait()
		broken.Store(false)
		time.Sleep(6 * time.Second)
		wg.Wait()
		broken.Store(true)
		mustAppend(t, l, decision("62"), true)
		time.Sleep(1500 * time.Millisecond)
		mustAppend(t, l, decision("63"), true)
		broken.Store(false)
		mustClose(t, l)
	})
	if n := len(readLog(t, dir)); n != 63 {
		t.Errorf("%d records", n)
	}
}

// What is written again stays in its segment, however old that has become:
// whoever reads along may have seen it there.
func TestWrittenAgainInPlace(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		d := &faulty{before: failOn(&broken, syscall.EIO, "sync")}
		l := mustOpenWith(t, audit.Config{Dir: dir, SegmentAge: time.Hour}, d.over)
		mustAppend(t, l, decision("0"), true)
		broken.Store(true)
		mustAppend(t, l, decision("1"), false) // written, and not synced
		time.Sleep(2 * time.Hour)
		broken.Store(false)
		time.Sleep(6 * time.Second)
		mustAppend(t, l, decision("2"), true)
		mustClose(t, l)
	})
	for i, want := range []string{"00000000000000000000.jsonl", "00000000000000000000.jsonl", "00000000000000000002.jsonl"} {
		if got := readLog(t, dir)[i].segment; got != want {
			t.Errorf("record %d is in %s, want %s", i, got, want)
		}
	}
}

// A disk that doesn't answer holds up the writer, and nobody else.
func TestHanging(t *testing.T) {
	for _, op := range []string{"write", "sync", "stat", "flush", "replace"} {
		t.Run(op, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var told conditions
				d := &faulty{}
				l := mustOpenWith(t, audit.Config{Dir: dir, Changed: told.add}, d.over)
				mustAppend(t, l, decision("before"), true)
				time.Sleep(1100 * time.Millisecond)
				answer := make(chan struct{})
				d.set(func(o, _ string) error {
					if o == op {
						<-answer
					}
					return nil
				})
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				records := op != "flush" && op != "replace"
				if err := l.Append(ctx, decision("durable"), true); errors.Is(err, context.DeadlineExceeded) != records || time.Since(began) > 500*time.Millisecond {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				time.Sleep(400 * time.Millisecond)
				if s := l.State(); s.Condition != audit.OK {
					t.Errorf("after %v: %v", time.Since(began), s)
				}
				time.Sleep(1700 * time.Millisecond)
				s := l.State()
				if s.Condition != audit.Hanging || s.Since.Before(began) || s.Since.After(began.Add(time.Second)) {
					t.Errorf("after %v: %v", time.Since(began), s)
				}
				mustAppend(t, l, decision("read"), false)
				close(answer)
				synctest.Wait()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if s := l.State(); s.Condition != audit.OK {
					t.Errorf("the disk answers again, and the state is %+v", s)
				}
				mustClose(t, l)
				// Slow is what it was when it answered; a quick fsync can have come
				// right after that.
				told.mu.Lock()
				defer told.mu.Unlock()
				if told.list[0] != audit.Hanging || told.list[len(told.list)-1] != audit.OK {
					t.Errorf("told %v", told.list)
				}
			})
			if got := ids(readLog(t, dir)); !slices.Equal(got, []string{"before", "durable", "read"}) {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestSlow(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var told conditions
		var took atomic.Int64
		d := &faulty{before: func(op, _ string) error {
			if op == "sync" {
				time.Sleep(time.Duration(took.Load()))
			}
			return nil
		}}
		l := mustOpenWith(t, audit.Config{Dir: dir, Changed: told.add}, d.over)
		took.Store(int64(240 * time.Millisecond))
		mustAppend(t, l, decision("quick enough"), true)
		if s := l.State(); s.Condition != audit.OK {
			t.Errorf("the state is %+v", s)
		}
		took.Store(int64(300 * time.Millisecond))
		mustAppend(t, l, decision("slow"), true)
		if s := l.State(); s.Condition != audit.Slow || !strings.Contains(s.Err.Error(), "300ms") || !s.Condition.Recording() {
			t.Errorf("the state is %+v", s)
		}
		took.Store(0)
		// Though nothing comes, it is seen that the disk is quick again.
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if s := l.State(); s.Condition != audit.OK {
			t.Errorf("the state is %+v", s)
		}
		mustClose(t, l)
		told.want(t, audit.Slow, audit.OK)
	})
}

// Close waits for a disk for five seconds, says so, and is not waited for by
// anybody.
func TestCloseOnABadDisk(t *testing.T) {
	for name, before := range map[string]func(stuck <-chan struct{}) func(op, name string) error{
		"full": func(<-chan struct{}) func(op, name string) error {
			return func(op, _ string) error {
				if op == "write" || op == "truncate" {
					return syscall.ENOSPC
				}
				return nil
			}
		},
		"hanging": func(stuck <-chan struct{}) func(op, name string) error {
			return func(op, _ string) error {
				if op == "sync" {
					<-stuck
				}
				return nil
			}
		},
		"hanging checkpoint": func(stuck <-chan struct{}) func(op, name string) error {
			return func(op, _ string) error {
				if op == "replace" {
					<-stuck
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				d := &faulty{}
				l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
				mustAppend(t, l, decision("before"), true)
				stuck := make(chan struct{})
				d.set(before(stuck))
				mustAppend(t, l, decision("read"), false)
				var wg sync.WaitGroup
				wg.Go(func() { // no deadline of its own
					if err := l.Append(t.Context(), decision("durable"), true); (err == nil) != (name == "hanging checkpoint") {
						t.Errorf("got %v", err)
					}
				})
				synctest.Wait()
				began := time.Now()
				err := l.Close()
				if took := time.Since(began); err == nil || took < audit.CloseWait || took > audit.CloseWait+2*time.Second {
					t.Errorf("Close returned %v after %v", err, took)
				}
				if name != "hanging checkpoint" && !strings.Contains(err.Error(), "2 accepted records") {
					t.Errorf("Close doesn't say what is lost: %v", err)
				}
				wg.Wait()
				if err2 := l.Close(); err2 == nil || err2.Error() != err.Error() {
					t.Errorf("Close first said %v and then %v", err, err2)
				}
				close(stuck)
			})
		})
	}
}

// Whoever is told of the log's state may take long.
func TestSlowListener(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var told conditions
		d := &faulty{before: failOn(&broken, syscall.ENOSPC, "write")}
		l := mustOpenWith(t, audit.Config{Dir: dir, Changed: func(s audit.State) {
			time.Sleep(time.Minute)
			told.add(s)
		}}, d.over)
		for i := range 5 {
			broken.Store(true)
			mustAppend(t, l, decision(fmt.Sprint(i)), false)
			time.Sleep(100 * time.Millisecond)
			broken.Store(false)
			mustAppend(t, l, decision(fmt.Sprint(i)), true)
		}
		mustClose(t, l)
		told.want(t, audit.Full, audit.OK)
	})
}

// Under random faults nothing is confirmed or accepted that is not in the log
// in the end, and nothing is there twice.
func TestNothingUnrecorded(t *testing.T) {
	for round := range rounds(t, 6) {
		dir := t.TempDir()
		seed := rand.Uint64()
		var want sync.Map // ids
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			var bad atomic.Int32 // percent of operations that fail
			chance := func() (bool, int) {
				mu.Lock()
				defer mu.Unlock()
				return int32(rng.IntN(100)) < bad.Load(), rng.IntN(4)
			}
			d := &faulty{before: func(op, name string) error {
				fails, how := chance()
				if !fails {
					return nil
				}
				return [...]error{syscall.ENOSPC, syscall.EIO, syscall.EROFS, io.ErrUnexpectedEOF}[how]
			}}
			d.write = func(f audit.File, b []byte) (int, error) {
				fails, how := chance()
				if !fails {
					return f.Write(b)
				}
				n, err := f.Write(b[:len(b)*how/4])
				return n, errors.Join(err, syscall.ENOSPC)
			}
			l := mustOpenWith(t, audit.Config{Dir: dir, SegmentBytes: 20_000}, d.over)
			var wg sync.WaitGroup
			for g := range 16 {
				wg.Go(func() {
					for i := range 60 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(50+i*20)*time.Millisecond)
						id := fmt.Sprint(g, "-", i)
						if l.Append(ctx, decision(id), g%2 == 0) == nil {
							want.Store(id, true)
						}
						cancel()
						time.Sleep(5 * time.Millisecond)
					}
				})
			}
			for range 10 {
				bad.Store(30)
				time.Sleep(300 * time.Millisecond)
				bad.Store(0)
				time.Sleep(100 * time.Millisecond)
			}
			wg.Wait()
			mustClose(t, l)
		})
		count := map[string]int{}
		for _, id := range ids(readLog(t, dir)) {
			if count[id]++; count[id] > 1 {
				t.Errorf("seed %d: %s is there twice", seed, id)
			}
		}
		n := 0
		want.Range(func(id, _ any) bool {
			if n++; count[id.(string)] == 0 {
				t.Errorf("seed %d: %v was accepted and is not in the log", seed, id)
			}
			return true
		})
		if n < 500 {
			t.Errorf("seed %d, round %d: only %d records were accepted", seed, round, n)
		}
	}
}
