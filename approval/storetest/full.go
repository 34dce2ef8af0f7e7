package storetest

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/approval"
)

func testFull(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{Life: time.Hour, Keep: time.Hour, MaxReviews: 2})
	must(t, s, Review("a", Start))
	must(t, s, Review("b", Start.Add(30*time.Minute)))
	if _, err := s.Open(t.Context(), Review("c", Start.Add(40*time.Minute))); !errors.Is(err, approval.ErrFull) {
		t.Errorf("a third: %v", err)
	}
	must(t, s, Review("a", Start.Add(40*time.Minute))) // is there already
	must(t, s, Review("c", Start.Add(time.Hour)))      // in place of "a", which is over
	if _, err := s.Get(t.Context(), approval.ID(Review("a", Start).Shown.Digest)); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("what is over is still there: %v", err)
	}
	if _, err := s.Open(t.Context(), Review("d", Start.Add(time.Hour))); !errors.Is(err, approval.ErrFull) {
		t.Errorf("a fourth: %v", err)
	}
	must(t, s, Review("b", Start.Add(90*time.Minute))) // anew, in its own place
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
	if _, err := s.Open(t.Context(), Review("c", Start)); !errors.Is(err, approval.ErrFull) {
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
