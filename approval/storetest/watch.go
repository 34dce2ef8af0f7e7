package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/approval"
)

// reader reads what a watch yields.
type reader struct {
	got  chan approval.Review
	stop context.CancelFunc
	done chan struct{}
}

func watch(t *testing.T, s approval.Store) *reader {
	ctx, cancel := context.WithCancel(t.Context())
	r := &reader{make(chan approval.Review), cancel, make(chan struct{})}
	go func() {
		defer close(r.done)
		for review, err := range s.Watch(ctx) {
			if err != nil {
				t.Errorf("watch: %v", err)
				return
			}
			select {
			case r.got <- review:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

func (r *reader) next(t *testing.T) approval.Review {
	t.Helper()
	select {
	case review := <-r.got:
		return review
	case <-time.After(patience):
		t.Fatal("nothing came")
		return approval.Review{}
	}
}

func testWatch(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	must(t, s, Review("b", Start.Add(time.Minute)))
	must(t, s, Review("a", Start))
	w := watch(t, s)
	for _, want := range []string{"a", "b"} {
		if got := w.next(t); got.Shown.RequestID != want {
			t.Fatalf("at first %s, want %s", got.Shown.RequestID, want)
		}
	}
	c := must(t, s, Review("c", Start))
	if got := w.next(t); !reflect.DeepEqual(got, c) {
		t.Fatalf("opened: %+v", got)
	}
	must(t, s, Review("c", Start.Add(time.Minute))) // no change
	agreed, err := s.Agree(t.Context(), c.ID, Agreement("sam", Start))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.next(t); !reflect.DeepEqual(got, agreed) {
		t.Fatalf("agreed: %+v", got)
	}
	rejected, err := s.Reject(t.Context(), c.ID, rejection(Start))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.next(t); !reflect.DeepEqual(got, rejected) {
		t.Fatalf("rejected: %+v", got)
	}
	other := watch(t, s)
	for range 3 {
		other.next(t)
	}
	w.stop()
	select {
	case <-w.done:
	case <-time.After(patience):
		t.Error("the watch outlives its context")
	}
	must(t, s, Review("d", Start))
	if got := other.next(t); got.Shown.RequestID != "d" {
		t.Errorf("the other watcher: %s", got.Shown.RequestID)
	}
}

// testSlowWatch: who reads late sees how each review stands at last.
func testSlowWatch(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	w := watch(t, s)
	want := map[string]approval.Review{}
	for i := range 20 {
		r := must(t, s, Review(fmt.Sprint("r", i), Start.Add(time.Duration(i)*time.Second)))
		for k := range 1 + i%5 {
			var err error
			if r, err = s.Agree(t.Context(), r.ID, Agreement(fmt.Sprint("p", k), Start.Add(time.Minute))); err != nil {
				t.Fatal(err)
			}
		}
		want[r.ID] = r
	}
	for got := map[string]approval.Review{}; !reflect.DeepEqual(got, want); {
		r := w.next(t)
		if before, ok := got[r.ID]; ok && len(before.Agreements) > len(r.Agreements) {
			t.Fatalf("%s goes back", r.Shown.RequestID)
		}
		got[r.ID] = r
	}
}

// testTogether: many at once lose nothing.
func testTogether(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	w := watch(t, s)
	var all sync.WaitGroup
	const people = 8
	for i := range people {
		all.Go(func() {
			r, err := s.Open(t.Context(), Review("a", Start))
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Agree(t.Context(), r.ID, Agreement(fmt.Sprint("p", i), Start)); err != nil {
				t.Error(err)
			}
		})
	}
	for len(w.next(t).Agreements) < people {
	}
	all.Wait()
	got, err := s.ByProposal(t.Context(), Review("a", Start).Shown.ProposalDigest)
	if err != nil || len(got) != 1 || len(got[0].Agreements) != people {
		t.Errorf("%+v %v", got, err)
	}
	// Of those who reject one, one does.
	id := must(t, s, Review("b", Start)).ID
	var mu sync.Mutex
	done := 0
	for range people {
		all.Go(func() {
			if _, err := s.Reject(t.Context(), id, rejection(Start)); err == nil {
				mu.Lock()
				done++
				mu.Unlock()
			} else if !errors.Is(err, approval.ErrRejected) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if done != 1 {
		t.Errorf("%d have rejected", done)
	}
}
