package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ/audit"
)

func timeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

// follow reads so many records, which must be those from there on.
func follow(t *testing.T, l *audit.Log, from, n uint64) {
	t.Helper()
	c := l.Follow(from)
	defer c.Close()
	for i := from; i < from+n; i++ {
		index, leaf, err := c.Next(t.Context())
		if err != nil || index != i || !strings.HasPrefix(string(leaf), fmt.Sprintf(`{"v":1,"index":%d,`, i)) || leaf[len(leaf)-1] != '}' {
			t.Errorf("record %d: got %d, %v, %.100q", i, index, err, leaf)
			return
		}
	}
}

// Several cursors, from several places, see each record once, while records are
// written, through rotation and failures.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	const total = 3000
	var fails atomic.Int32
	d := &faulty{before: func(op, _ string) error {
		if (op == "sync" || op == "write") && fails.Add(1)%20 == 0 {
			return syscall.EIO
		}
		return nil
	}}
	l := mustOpenWith(t, audit.Config{Dir: dir, SegmentBytes: 30_000}, d.over)
	for i := range 500 {
		mustAppend(t, l, decision(fmt.Sprint(i)), i == 499)
	}
	var wg sync.WaitGroup
	for _, from := range []uint64{0, 1, 250, 499, 500} {
		wg.Go(func() { follow(t, l, from, total-from) })
	}
	for i := 500; i < total; i++ {
		mustAppend(t, l, decision(fmt.Sprint(i)), i%100 == 99)
	}
	wg.Wait()
	d.set(nil)
	mustClose(t, l)
	readLog(t, dir)
}

// Only what is on the disk is shown, and as soon as it is.
func TestFollowIsWokenBySync(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &faulty{}
		l := mustOpenWith(t, audit.Config{Dir: dir}, d.over)
		var syncs atomic.Int32
		stuck := make(chan struct{})
		d.set(stuckSync(stuck, &syncs))
		var seen atomic.Int32
		var wg sync.WaitGroup
		wg.Go(func() {
			c := l.Follow(0)
			defer c.Close()
			for range 2 {
				if _, _, err := c.Next(t.Context()); err != nil {
					t.Error(err)
				}
				seen.Add(1)
			}
		})
		wg.Go(func() { mustAppend(t, l, decision("durable"), true) })
		synctest.Wait()
		if seen.Load() != 0 {
			t.Error("a record was shown before it was on the disk")
		}
		begin := time.Now()
		stuck <- struct{}{}
		synctest.Wait()
		if seen.Load() != 1 || time.Since(begin) != 0 {
			t.Errorf("%d records are shown, %v after they were on the disk", seen.Load(), time.Since(begin))
		}
		close(stuck)
		mustAppend(t, l, decision("read"), false)
		wg.Wait()
		if took := time.Since(begin); took < 200*time.Millisecond || took > 202*time.Millisecond {
			t.Errorf("a read was shown after %v, want 200ms", took)
		}
		mustClose(t, l)
	})
}

func TestFollowEnds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, audit.Config{Dir: dir})
		mustAppend(t, l, decision("0"), true)
		beyond := l.Follow(2)
		defer beyond.Close()
		if _, _, err := beyond.Next(t.Context()); !errors.Is(err, audit.ErrBeyondEnd) {
			t.Errorf("beyond the end: %v", err)
		}
		at := l.Follow(1)
		defer at.Close()
		ctx, cancel := timeout(t, time.Second)
		defer cancel()
		if _, _, err := at.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("at the end: %v", err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if index, _, err := at.Next(t.Context()); err != nil || index != 1 {
				t.Errorf("got %d, %v", index, err)
			}
			if _, _, err := at.Next(t.Context()); !errors.Is(err, audit.ErrClosed) {
				t.Errorf("at the end of a closed log: %v", err)
			}
		})
		synctest.Wait()
		mustAppend(t, l, decision("1"), false)
		mustClose(t, l)
		wg.Wait()
		// What is there can be read for as long as one likes.
		follow(t, l, 0, 2)
		if err := l.Wait(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
}
