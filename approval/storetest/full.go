package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/approval"
)

func testFull(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{Life: time.Hour, Keep: time.Hour, MaxReviews: 2})
	must(t, s, Review("a", Start))
	must(t, s, by("another", Review("b", Start.Add(30*time.Minute))))
	if _, err := s.Open(t.Context(), Review("c", Start.Add(40*time.Minute))); !errors.Is(err, approval.ErrFull) {
		t.Errorf("a third: %v", err)
	}
	must(t, s, Review("a", Start.Add(40*time.Minute))) // is there already
	must(t, s, Review("c", Start.Add(time.Hour)))      // in place of "a", which is over
	if _, err := s.Get(t.Context(), approval.ID(Review("a", Start).Shown.Digest)); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("what is over is still there: %v", err)
	}
	if _, err := s.Open(t.Context(), by("a third", Review("d", Start.Add(time.Hour)))); !errors.Is(err, approval.ErrFull) {
		t.Errorf("a fourth: %v", err)
	}
	must(t, s, by("another", Review("b", Start.Add(90*time.Minute)))) // anew, in its own place
}

func testFullOfBytes(t *testing.T, open func(approval.Limits) approval.Store) {
	one, err := approval.Prepare(Review("a", Start), approval.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := approval.Encode(one)
	if err != nil {
		t.Fatal(err)
	}
	s := open(approval.Limits{MaxBytes: 2*len(data) + len(data)/2})
	must(t, s, Review("a", Start))
	id := must(t, s, Review("b", Start)).ID
	if _, err := s.Open(t.Context(), by("another", Review("c", Start))); !errors.Is(err, approval.ErrFull) {
		t.Errorf("a third: %v", err)
	}
	big := Agreement("sam", Start)
	big.Approval = strings.Repeat("x", len(data))
	if r, err := s.Agree(t.Context(), id, big); !errors.Is(err, approval.ErrFull) || len(r.Agreements) != 0 {
		t.Errorf("an agreement that does not fit: %v", err)
	}
	huge := Review("huge", Start)
	huge.Proposal.ArgumentsJSON = bytes.Repeat([]byte("x"), approval.MaxReview)
	if _, err := open(approval.Limits{}).Open(t.Context(), huge); !errors.Is(err, approval.ErrFull) {
		t.Errorf("more than one review may have: %v", err)
	}
}

// by is a review that somebody has proposed.
func by(caller string, r approval.Review) approval.Review {
	r.Caller.Name = caller
	return r
}

// testShare: whoever has as much as is left for all others gets no more, in
// places and in bytes. The others do, until nothing is left, and nothing that is
// open makes room.
func testShare(t *testing.T, open func(approval.Limits) approval.Store) {
	review := func(caller string, i int, opened time.Time) approval.Review {
		return by(caller, Review(fmt.Sprint(caller, " ", i), opened))
	}
	one, err := approval.Prepare(review("desk", 0, Start), approval.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := approval.Encode(one)
	if err != nil {
		t.Fatal(err)
	}
	for name, limits := range map[string]approval.Limits{
		"places": {Life: time.Hour, MaxReviews: 10}, "bytes": {Life: time.Hour, MaxBytes: 10 * len(data)}, // all are as long as one
	} {
		t.Run(name, func(t *testing.T) {
			s := open(limits)
			for _, c := range []struct {
				caller string
				want   int
			}{{"desk", 5}, {"host", 3}, {"gate", 1}, {"door", 1}, {"late", 0}} {
				for i := range 10 {
					_, err := s.Open(t.Context(), review(c.caller, i, Start))
					if i < c.want && err != nil || i >= c.want && !errors.Is(err, approval.ErrFull) {
						t.Errorf("%s has %d: %v", c.caller, i, err)
					}
				}
			}
			must(t, s, review("desk", 0, Start.Add(time.Minute))) // is there already
			if all, _, err := s.List(t.Context(), approval.Query{Now: Start}); err != nil || len(all) != 10 {
				t.Errorf("%v %v", names(all), err)
			}
			// What is over makes room, and counts for nobody then.
			end := Start.Add(time.Hour)
			for i := range 5 {
				must(t, s, review("desk", 5+i, end))
			}
			if _, err := s.Open(t.Context(), review("desk", 0, end)); !errors.Is(err, approval.ErrFull) {
				t.Errorf("a sixth: %v", err)
			}
			must(t, s, review("late", 0, end))
		})
	}
}

// testShareIsWhose: a review is of the share of whoever has opened it last.
func testShareIsWhose(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{Life: time.Hour, MaxReviews: 4})
	must(t, s, Review("a", Start))
	if _, err := s.Reject(t.Context(), must(t, s, Review("b", Start)).ID, rejection(Start)); err != nil {
		t.Fatal(err)
	}
	end := Start.Add(time.Hour)
	must(t, s, by("another", Review("a", end)))
	must(t, s, Review("c", end))
	if _, err := s.Open(t.Context(), Review("d", end)); !errors.Is(err, approval.ErrFull) {
		t.Errorf("a third: %v", err)
	}
}

// testRejectedStays: what was rejected is not forgotten to make room, until it
// has been kept for as long as was promised.
func testRejectedStays(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{Life: time.Hour, Keep: time.Hour, MaxReviews: 1})
	id := must(t, s, Review("a", Start)).ID
	if _, err := s.Reject(t.Context(), id, rejection(Start)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), Review("b", Start.Add(2*time.Hour-1))); !errors.Is(err, approval.ErrFull) {
		t.Errorf("b: %v", err)
	}
	if _, err := s.Open(t.Context(), Review("a", Start.Add(2*time.Hour-1))); !errors.Is(err, approval.ErrRejected) {
		t.Errorf("a: %v", err)
	}
	must(t, s, Review("b", Start.Add(2*time.Hour)))
}
