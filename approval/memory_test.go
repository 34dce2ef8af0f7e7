package approval_test

import (
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/approval/storetest"
	"github.com/writ-pdp/writ/canon"
)

func memory(t testing.TB, limits approval.Limits) approval.Store {
	t.Helper()
	m, err := approval.NewMemory(approval.MemoryConfig{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemory(t *testing.T) { storetest.Run(t, memory) }

func TestMemoryConfig(t *testing.T) {
	for _, l := range []approval.Limits{{Life: -1}, {Keep: -1}, {MaxReviews: -1}, {MaxBytes: -1}} {
		if _, err := approval.NewMemory(approval.MemoryConfig{Limits: l}); err == nil {
			t.Errorf("%+v is taken", l)
		}
	}
}

// TestMemoryForgets: what has been kept for long enough makes room unasked.
func TestMemoryForgets(t *testing.T) {
	s := memory(t, approval.Limits{Life: time.Hour, Keep: time.Hour})
	for i, name := range []string{"a", "b", "c"} {
		if _, err := s.Open(t.Context(), storetest.Review(name, storetest.Start.Add(time.Duration(i)*2*time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
	all, _, err := s.List(t.Context(), approval.Query{Closed: true})
	if err != nil || len(all) != 1 || all[0].Shown.RequestID != "c" {
		t.Errorf("%+v %v", all, err)
	}
	if got, err := s.ByProposal(t.Context(), storetest.Review("a", storetest.Start).Shown.ProposalDigest); err != nil || len(got) != 0 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestID(t *testing.T) {
	// RFC 4648 base32 of 32 zero bytes but the first: 0x08 0x00 … is BAAAA….
	if id := approval.ID(canon.Digest{8}); id != "BAAAAAAAAAAAAAAAAAAAAAAAAA" {
		t.Error(id)
	}
	if id := approval.ID(canon.Digest{}); id != "" {
		t.Errorf("of nothing: %q", id)
	}
}

// TestZeroReview: nothing is not open, and without policies nobody can have
// agreed enough.
func TestZeroReview(t *testing.T) {
	var r approval.Review
	if s := r.State(storetest.Start); s != approval.Closed {
		t.Errorf("%v", s)
	}
	r = approval.Review{ID: "x", Expires: storetest.Start.Add(time.Hour)}
	if s := r.State(storetest.Start); s != approval.Open {
		t.Errorf("%v", s)
	}
}

// FuzzDecode: what is kept elsewhere is read as it was written or not at all.
func FuzzDecode(f *testing.F) {
	r, err := approval.Prepare(storetest.Review("a", storetest.Start), approval.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	if r, err = r.WithAgreement(storetest.Agreement("sam", storetest.Start)); err != nil {
		f.Fatal(err)
	}
	if r, err = r.WithRejection(approval.Rejection{Approver: writ.Principal{Issuer: "i", Subject: "s"}, Given: storetest.Start}); err != nil {
		f.Fatal(err)
	}
	data, err := approval.Encode(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"Version":2,"Review":{}}`))
	f.Add([]byte(`{"Version":1,"Review":{"ID":"x"}}`))
	f.Add([]byte(`{"Version":1,"Review":{},"More":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := approval.Decode(data)
		if err != nil {
			return
		}
		if r.ID == "" || r.ID != approval.ID(r.Shown.Digest) {
			t.Fatalf("read a review under another's name: %q", r.ID)
		}
		again, err := approval.Encode(r)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if _, err := approval.Decode(again); err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
	})
}
