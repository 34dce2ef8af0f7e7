package forward_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ/audit/forward"
	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/tree/treetest"
)

// place is a sink that answers as the test says.
type place struct {
	name   string
	answer func(ctx context.Context, c forward.Checkpoint) ([]byte, error)
	keys   []*tree.Witness

	mu    sync.Mutex
	sizes []int64 // sent
	times []time.Time
}

func (p *place) Name() string          { return p.name }
func (p *place) Keys() []*tree.Witness { return p.keys }

func (p *place) Send(ctx context.Context, c forward.Checkpoint) ([]byte, error) {
	p.mu.Lock()
	p.sizes, p.times = append(p.sizes, c.Head.Size), append(p.times, time.Now())
	p.mu.Unlock()
	if p.answer == nil {
		return nil, nil
	}
	return p.answer(ctx, c)
}

func (p *place) sent() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sizes)
}

// checkpoints returns signed checkpoints of a log of 1, 2, … records.
func checkpoints(t testing.TB, n int) (*treetest.Log, [][]byte) {
	l := treetest.New(t)
	var signed [][]byte
	for range n {
		l.Append(1, 100)
		signed = append(signed, l.Checkpoint())
	}
	return l, signed
}

// start runs a forwarder in the test's bubble, and returns what ends it.
func start(t *testing.T, cfg forward.Config) (*forward.Forwarder, func()) {
	t.Helper()
	f, err := forward.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	return f, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestDownBlocksNothing has one place down, one that hangs and one that is
// well: offers don't wait, and the well one gets the newest.
func TestDownBlocksNothing(t *testing.T) {
	l, signed := checkpoints(t, 10)
	synctest.Test(t, func(t *testing.T) {
		down := &place{name: "down", answer: func(context.Context, forward.Checkpoint) ([]byte, error) { return nil, errors.New("down") }}
		hangs := &place{name: "hangs", answer: func(ctx context.Context, _ forward.Checkpoint) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		well := &place{name: "well"}
		f, end := start(t, forward.Config{Dir: l.Dir, Verifier: l.Verifier, Sinks: []forward.Sink{down, hangs, well}})
		defer end()
		before := time.Now()
		for i, s := range signed {
			f.Offer(s)
			if !time.Now().Equal(before) {
				t.Errorf("offer %d waited", i)
			}
		}
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := well.sent(); got[len(got)-1] != 10 || len(got) > 2 {
			t.Errorf("the well place got %v", got)
		}
		status := f.Status()
		if s := status[2]; s.Size != 10 || s.Err != nil || s.Sink != "well" || s.Sent.IsZero() {
			t.Errorf("%+v", s)
		}
		if s := status[0]; s.Err == nil || s.Size != 0 || s.Since.IsZero() {
			t.Errorf("%+v", s)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if s := f.Status()[1]; s.Err == nil || !errors.Is(s.Err, context.DeadlineExceeded) {
			t.Errorf("%+v", s)
		}
	})
}

// TestBackOff has a place down for long: attempts become rare, and never more
// so than MaxWait; when it is up again it gets the newest alone.
func TestBackOff(t *testing.T) {
	l, signed := checkpoints(t, 3)
	synctest.Test(t, func(t *testing.T) {
		up := false
		var mu sync.Mutex
		p := &place{name: "p", answer: func(context.Context, forward.Checkpoint) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			if up {
				return nil, nil
			}
			return nil, errors.New("down")
		}}
		var changes []forward.Status
		f, end := start(t, forward.Config{Dir: l.Dir, Verifier: l.Verifier, Sinks: []forward.Sink{p}, MaxWait: time.Minute, Changed: func(s forward.Status) { changes = append(changes, s) }})
		defer end()
		f.Offer(signed[0])
		time.Sleep(time.Hour)
		synctest.Wait()
		p.mu.Lock()
		attempts, times := len(p.times), slices.Clone(p.times)
		p.mu.Unlock()
		if attempts < 60 || attempts > 130 {
			t.Errorf("%d attempts in an hour", attempts)
		}
		for i := 1; i < len(times); i++ {
			if wait := times[i].Sub(times[i-1]); wait > time.Minute+time.Second || wait < time.Second {
				t.Errorf("attempt %d came %v after the one before", i, wait)
			}
		}
		since := f.Status()[0].Since
		if since.Sub(times[0]) > time.Second {
			t.Errorf("down since %v, and the first attempt was at %v", since, times[0])
		}
		f.Offer(signed[1])
		f.Offer(signed[2])
		mu.Lock()
		up = true
		mu.Unlock()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if got := p.sent(); got[len(got)-1] != 3 || slices.Contains(got, 2) {
			t.Errorf("sent %v", got[attempts:])
		}
		if s := f.Status()[0]; s.Err != nil || s.Size != 3 || !s.Since.IsZero() {
			t.Errorf("%+v", s)
		}
		if last := changes[len(changes)-1]; last.Err != nil || last.Size != 3 {
			t.Errorf("told last %+v", last)
		}
		// Nothing new, nothing sent.
		n := len(p.sent())
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(p.sent()) != n {
			t.Error("sent again what was sent")
		}
	})
}

func TestEvery(t *testing.T) {
	l, signed := checkpoints(t, 20)
	synctest.Test(t, func(t *testing.T) {
		p := &place{name: "p"}
		f, end := start(t, forward.Config{Dir: l.Dir, Verifier: l.Verifier, Sinks: []forward.Sink{p}, Every: 10 * time.Second})
		defer end()
		for _, s := range signed {
			f.Offer(s)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := p.sent(); !slices.Equal(got, []int64{1, 11, 20}) && !slices.Equal(got, []int64{1, 10, 20}) {
			t.Errorf("sent %v", got)
		}
	})
}

// TestGather has two witnesses cosign: the second brings a checkpoint with both.
func TestGather(t *testing.T) {
	l, signed := checkpoints(t, 2)
	witness := func(name string, delay time.Duration) (*place, *treetest.Witness, *tree.Witness) {
		w := treetest.NewWitness(t, name, l.Verifier)
		key, err := tree.NewWitness(w.Key)
		if err != nil {
			t.Fatal(err)
		}
		return &place{name: name, keys: []*tree.Witness{key}, answer: func(_ context.Context, c forward.Checkpoint) ([]byte, error) {
			time.Sleep(delay)
			body, err := c.Head.Body()
			return []byte(w.Cosign(body, time.Now())), err
		}}, w, key
	}
	p1, _, k1 := witness("w1.example", time.Second)
	p2, _, k2 := witness("w2.example", 3*time.Second)
	synctest.Test(t, func(t *testing.T) {
		type told struct {
			size int64
			by   []string
		}
		var all []told
		f, end := start(t, forward.Config{Dir: l.Dir, Verifier: l.Verifier, Sinks: []forward.Sink{p1, p2}, Cosigned: func(b []byte, s tree.Signed) {
			var by []string
			for _, c := range s.Cosignatures {
				by = append(by, c.Witness)
			}
			again, err := tree.Open(b, l.Verifier, k1, k2)
			if err != nil || !again.Equal(s.Checkpoint) || len(again.Cosignatures) != len(by) {
				t.Errorf("%q: %+v and %v", b, again, err)
			}
			slices.Sort(by)
			all = append(all, told{s.Size, by})
		}})
		defer end()
		f.Offer(signed[0])
		time.Sleep(1500 * time.Millisecond)
		f.Offer(signed[1])
		time.Sleep(20 * time.Second)
		synctest.Wait()
		want := []told{{1, []string{"w1.example"}}, {1, []string{"w1.example", "w2.example"}}, {2, []string{"w1.example"}}, {2, []string{"w1.example", "w2.example"}}}
		if len(all) != len(want) {
			t.Fatalf("told %v, want %v", all, want)
		}
		slices.SortStableFunc(all, func(a, b told) int { return int(a.size - b.size) })
		for i := range want {
			if all[i].size != want[i].size || !slices.Equal(all[i].by, want[i].by) {
				t.Errorf("told %v, want %v", all, want)
			}
		}
	})
}

func TestOfferedBroken(t *testing.T) {
	l, signed := checkpoints(t, 1)
	synctest.Test(t, func(t *testing.T) {
		p := &place{name: "p"}
		f, end := start(t, forward.Config{Dir: l.Dir, Verifier: l.Verifier, Sinks: []forward.Sink{p}})
		defer end()
		f.Offer([]byte("hello"))
		synctest.Wait()
		if s := f.Status()[0]; s.Err == nil || len(p.sent()) != 0 {
			t.Errorf("%+v", s)
		}
		f.Offer(signed[0])
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if s := f.Status()[0]; s.Err != nil || s.Size != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	l := treetest.New(t)
	sinks := []forward.Sink{&place{name: "p"}}
	for name, cfg := range map[string]forward.Config{
		"the zero one":    {},
		"no directory":    {Verifier: l.Verifier, Sinks: sinks},
		"no key":          {Dir: l.Dir, Sinks: sinks},
		"no place":        {Dir: l.Dir, Verifier: l.Verifier},
		"a negative time": {Dir: l.Dir, Verifier: l.Verifier, Sinks: sinks, Every: -1},
	} {
		if _, err := forward.New(cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
