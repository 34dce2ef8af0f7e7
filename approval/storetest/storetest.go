// Package storetest is the contract of approval.Store as tests: every
// implementation passes them.
package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/canon"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// Start is when the tests' first reviews are opened.
var Start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// Run runs the suite. open makes an empty store with limits.
func Run(t *testing.T, open func(t testing.TB, limits approval.Limits) approval.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, func(approval.Limits) approval.Store)
	}{
		{"Open", testOpen}, {"Secrets", testSecrets}, {"NoDigest", testNoDigest}, {"Agree", testAgree}, {"People", testPeople},
		{"TooMany", testTooMany}, {"Reject", testReject}, {"Expired", testExpired}, {"Unknown", testUnknown}, {"ByProposal", testByProposal},
		{"List", testList}, {"Full", testFull}, {"FullOfBytes", testFullOfBytes}, {"RejectedStays", testRejectedStays},
		{"Share", testShare}, {"ShareIsWhose", testShareIsWhose}, {"Watch", testWatch}, {"SlowWatch", testSlowWatch}, {"Together", testTogether}, {"Ended", testEnded},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, func(l approval.Limits) approval.Store { return open(t, l) })
		})
	}
}

// Review is one review to be opened: name makes its digests.
func Review(name string, opened time.Time) approval.Review {
	digest, proposal := canon.Sum([]byte("review "+name)), canon.Sum([]byte("proposal "+strings.TrimRight(name, "'")))
	return approval.Review{
		Shown: writ.Review{
			Digest: digest, ProposalDigest: proposal, RequestID: name, Caller: "desk", Server: "payments", Tool: "pay",
			Entities:  []writ.ReviewEntity{{Entity: `Supplier::"ACME"`, Attributes: map[string]string{"owner": `"ann"`}}},
			Arguments: []writ.ReviewArgument{{Pointer: "/amount", ValueJSON: "900"}},
			Policies:  []writ.ReviewPolicy{{ID: "large", People: 2}, {ID: "new", People: 1}},
		},
		Proposal: writ.Proposal{
			RequestID: name, Tool: "pay", ArgumentsJSON: []byte(`{"amount":900}`), Principal: writ.Principal{Issuer: "https://login.example", Subject: "ria"},
			Token: &writ.Token{Verified: true, Subject: "ria", ExpiresAt: opened.Add(time.Minute), Claims: map[string]string{"email": "ria@example.com"}},
		},
		Caller: writ.Caller{Name: "desk", Roles: []writ.Role{writ.RoleHost}, Vouches: []writ.SourceKind{writ.SourceUser}},
		Opened: opened,
	}
}

// Agreement is subject's agreement, which counts for both policies of Review.
func Agreement(subject string, given time.Time) approval.Agreement {
	return approval.Agreement{
		ID: "jti-" + subject, Approver: writ.Principal{Issuer: "https://login.example", Subject: subject}, Entity: "User::" + subject,
		Policies: []string{"large", "new"}, Caller: "console", Given: given, Expires: given.Add(time.Hour), Approval: "a.b.c",
	}
}

func rejection(given time.Time) approval.Rejection {
	return approval.Rejection{Approver: writ.Principal{Issuer: "https://login.example", Subject: "sam"}, Caller: "console", Given: given, Reason: "No."}
}

// must opens a review that nothing keeps from being opened.
func must(t *testing.T, s approval.Store, r approval.Review) approval.Review {
	t.Helper()
	kept, err := s.Open(t.Context(), r)
	if err != nil {
		t.Fatalf("open %s: %v", r.Shown.RequestID, err)
	}
	return kept
}

func testOpen(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	r := Review("a", Start)
	first := must(t, s, r)
	if first.ID != approval.ID(r.Shown.Digest) || len(first.ID) != 26 || !first.Expires.Equal(Start.Add(24*time.Hour)) || !first.Opened.Equal(Start) {
		t.Errorf("kept as %q from %v to %v", first.ID, first.Opened, first.Expires)
	}
	if !reflect.DeepEqual(first.Shown, r.Shown) || !reflect.DeepEqual(first.Caller, r.Caller) {
		t.Errorf("kept %+v of %+v", first, r)
	}
	if !bytes.Equal(first.Proposal.ArgumentsJSON, r.Proposal.ArgumentsJSON) || first.Proposal.Token == nil || first.Proposal.Token.Claims["email"] == "" {
		t.Errorf("kept the proposal %+v", first.Proposal)
	}
	if _, err := s.Agree(t.Context(), first.ID, Agreement("sam", Start.Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	again := Review("a", Start.Add(time.Hour))
	again.Caller.Name = "another"
	second := must(t, s, again)
	if second.ID != first.ID || !second.Opened.Equal(Start) || len(second.Agreements) != 1 || second.Caller.Name != "desk" {
		t.Errorf("opened twice: %+v", second)
	}
	got, err := s.Get(t.Context(), first.ID)
	if err != nil || !reflect.DeepEqual(got, second) {
		t.Errorf("get: %+v %v, want %+v", got, err, second)
	}
	if short := must(t, open(approval.Limits{Life: time.Minute}), r); !short.Expires.Equal(Start.Add(time.Minute)) {
		t.Errorf("a life of a minute ends at %v", short.Expires)
	}
}

// testSecrets: nothing that is kept holds a token, a proof or an approval.
func testSecrets(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	r := Review("a", Start)
	r.Proposal.AccessToken, r.Proposal.DPoPProof = []byte("s3cr3t-token"), []byte("s3cr3t-proof")
	r.Proposal.SignedApprovals = []string{"s3cr3t-signed"}
	r.Proposal.Approvals = []writ.Approval{{ID: "s3cr3t-approval"}}
	r.Proposal.DefinitionJSON = []byte(`{"name":"pay","inputSchema":{"type":"object"}}`)
	r.Agreements = []approval.Agreement{Agreement("s3cr3t", Start)}
	r.Rejection = &approval.Rejection{Reason: "s3cr3t"}
	kept := must(t, s, r)
	got, err := s.Get(t.Context(), kept.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []approval.Review{kept, got} {
		if len(r.Agreements) != 0 || r.Rejection != nil || r.Proposal.DefinitionDigest.IsZero() || r.Proposal.DefinitionJSON != nil {
			t.Errorf("kept %+v", r)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		p := r.Proposal
		if strings.Contains(string(text), "s3cr3t") || p.AccessToken != nil || p.DPoPProof != nil || p.Approvals != nil || p.SignedApprovals != nil {
			t.Errorf("a secret is kept: %s", text)
		}
	}
	if string(r.Proposal.AccessToken) != "s3cr3t-token" {
		t.Error("the caller's review has changed")
	}
}

func testNoDigest(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	for _, spoil := range []func(*approval.Review){
		func(r *approval.Review) { r.Shown.Digest = canon.Digest{} },
		func(r *approval.Review) { r.Shown.ProposalDigest = canon.Digest{} },
	} {
		r := Review("a", Start)
		spoil(&r)
		if _, err := s.Open(t.Context(), r); !errors.Is(err, approval.ErrNoDigest) {
			t.Errorf("%v", err)
		}
	}
	r := Review("a", Start)
	r.Proposal.DefinitionJSON = []byte(`{`)
	if _, err := s.Open(t.Context(), r); err == nil {
		t.Error("a definition that is none is kept")
	}
}

func testAgree(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	id := must(t, s, Review("a", Start)).ID
	now := Start.Add(time.Minute)
	first, err := s.Agree(t.Context(), id, Agreement("sam", now))
	if err != nil || len(first.Agreements) != 1 || first.State(now) != approval.Open || !slices.Equal(first.Agreed(now), []int{1, 1}) {
		t.Fatalf("one: %+v %v", first, err)
	}
	if !reflect.DeepEqual(first.Agreements[0], Agreement("sam", now)) {
		t.Errorf("kept %+v", first.Agreements[0])
	}
	second, err := s.Agree(t.Context(), id, Agreement("tom", now))
	if err != nil || len(second.Agreements) != 2 || second.State(now) != approval.Approved || !slices.Equal(second.Agreed(now), []int{2, 2}) {
		t.Fatalf("two: %+v %v", second, err)
	}
	if len(first.Agreements) != 1 {
		t.Error("what was returned before has changed")
	}
	if got, err := s.Get(t.Context(), id); err != nil || !reflect.DeepEqual(got, second) {
		t.Errorf("get: %+v %v", got, err)
	}
	if ended := now.Add(time.Hour); second.State(ended) != approval.Open || !slices.Equal(second.Agreed(ended), []int{0, 0}) {
		t.Errorf("agreements that have ended count: %v %v", second.State(ended), second.Agreed(ended))
	}
}

// testPeople: one person is one, and what an agreement did not count for it
// does not count for.
func testPeople(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	id := must(t, s, Review("a", Start)).ID
	agree := func(a approval.Agreement) approval.Review {
		t.Helper()
		r, err := s.Agree(t.Context(), id, a)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	agree(Agreement("sam", Start))
	later := Agreement("sam", Start.Add(2*time.Hour))
	later.ID = "another"
	r := agree(later)
	if len(r.Agreements) != 1 || r.Agreements[0].ID != "another" {
		t.Errorf("the same person twice: %+v", r.Agreements)
	}
	elsewhere := Agreement("sam", Start.Add(2*time.Hour))
	elsewhere.Approver.Issuer = "https://other.example"
	if r = agree(elsewhere); len(r.Agreements) != 2 || !slices.Equal(r.Agreed(Start.Add(2*time.Hour)), []int{1, 1}) {
		t.Errorf("one entity of two issuers: %+v", r.Agreements)
	}
	partly := Agreement("tom", Start.Add(2*time.Hour))
	partly.Policies = []string{"new", "unheard of"}
	if r = agree(partly); !slices.Equal(r.Agreed(Start.Add(2*time.Hour)), []int{1, 2}) || r.State(Start.Add(2*time.Hour)) != approval.Open {
		t.Errorf("for one policy only: %+v", r.Agreed(Start.Add(2*time.Hour)))
	}
	for _, spoil := range []func(*approval.Agreement){
		func(a *approval.Agreement) { a.ID = "" },
		func(a *approval.Agreement) { a.Approver.Issuer = "" },
		func(a *approval.Agreement) { a.Approver.Subject = "" },
		func(a *approval.Agreement) { a.Given = time.Time{} },
	} {
		a := Agreement("eve", Start)
		spoil(&a)
		if _, err := s.Agree(t.Context(), id, a); err == nil {
			t.Errorf("taken: %+v", a)
		}
	}
}

func testTooMany(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	id := must(t, s, Review("a", Start)).ID
	for i := range approval.MaxAgreements {
		if _, err := s.Agree(t.Context(), id, Agreement(fmt.Sprint("p", i), Start)); err != nil {
			t.Fatal(i, err)
		}
	}
	if r, err := s.Agree(t.Context(), id, Agreement("one more", Start)); !errors.Is(err, approval.ErrFull) || len(r.Agreements) != approval.MaxAgreements {
		t.Errorf("one more: %v", err)
	}
	if _, err := s.Agree(t.Context(), id, Agreement("p3", Start.Add(time.Second))); err != nil {
		t.Errorf("one of them again: %v", err)
	}
}

func testReject(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	id := must(t, s, Review("a", Start)).ID
	now := Start.Add(time.Minute)
	r, err := s.Reject(t.Context(), id, rejection(now))
	if err != nil || r.State(now) != approval.Rejected || r.Rejection == nil || !reflect.DeepEqual(*r.Rejection, rejection(now)) {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := s.Agree(t.Context(), id, Agreement("tom", now)); !errors.Is(err, approval.ErrRejected) {
		t.Errorf("agreed to: %v", err)
	}
	other := rejection(now.Add(time.Second))
	other.Reason = "Never."
	if r, err := s.Reject(t.Context(), id, other); !errors.Is(err, approval.ErrRejected) || r.Rejection == nil || r.Rejection.Reason != "No." {
		t.Errorf("rejected twice: %+v %v", r.Rejection, err)
	}
	for _, when := range []time.Time{now, Start.Add(25 * time.Hour)} { // also when its time would be over
		if r, err := s.Open(t.Context(), Review("a", when)); !errors.Is(err, approval.ErrRejected) || r.Rejection == nil {
			t.Errorf("opened anew at %v: %v", when, err)
		}
	}
	if b := must(t, s, Review("b", Start)); b.State(now) != approval.Open {
		t.Errorf("another review: %+v", b)
	}
	if _, err := s.Reject(t.Context(), must(t, s, Review("c", Start)).ID, approval.Rejection{Given: now}); err == nil {
		t.Error("rejected by nobody")
	}
}

func testExpired(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{Life: time.Hour})
	id := must(t, s, Review("a", Start)).ID
	if _, err := s.Agree(t.Context(), id, Agreement("sam", Start.Add(time.Hour-1))); err != nil {
		t.Fatal(err)
	}
	end := Start.Add(time.Hour)
	if r, err := s.Agree(t.Context(), id, Agreement("tom", end)); !errors.Is(err, approval.ErrExpired) || r.State(end) != approval.Expired {
		t.Errorf("agreed to: %v %v", r.State(end), err)
	}
	if _, err := s.Reject(t.Context(), id, rejection(end)); !errors.Is(err, approval.ErrExpired) {
		t.Errorf("rejected: %v", err)
	}
	if r, err := s.Get(t.Context(), id); err != nil || len(r.Agreements) != 1 {
		t.Errorf("get: %+v %v", r, err)
	}
	r := must(t, s, Review("a", end))
	if r.ID != id || len(r.Agreements) != 0 || !r.Opened.Equal(end) || !r.Expires.Equal(end.Add(time.Hour)) || r.State(end) != approval.Open {
		t.Errorf("opened anew: %+v", r)
	}
}

func testUnknown(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	must(t, s, Review("a", Start))
	for _, id := range []string{"", "x", approval.ID(canon.Sum([]byte("unheard of"))), strings.Repeat("A", 10_000), "../a", "\x00"} {
		if _, err := s.Get(t.Context(), id); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("get %.30q: %v", id, err)
		}
		if _, err := s.Agree(t.Context(), id, Agreement("sam", Start)); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("agree %.30q: %v", id, err)
		}
		if _, err := s.Reject(t.Context(), id, rejection(Start)); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("reject %.30q: %v", id, err)
		}
	}
	if got, err := s.ByProposal(t.Context(), canon.Sum([]byte("unheard of"))); err != nil || len(got) != 0 {
		t.Errorf("by proposal: %v %v", got, err)
	}
}

// testByProposal: names that differ by a prime are reviews of one proposal.
func testByProposal(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	second := must(t, s, Review("a'", Start.Add(time.Minute)))
	first := must(t, s, Review("a", Start))
	must(t, s, Review("b", Start))
	must(t, s, Review("a", Start.Add(time.Hour)))
	got, err := s.ByProposal(t.Context(), first.Shown.ProposalDigest)
	if err != nil || !slices.Equal(names(got), []string{"a", "a'"}) || got[1].ID != second.ID {
		t.Errorf("%v %v", names(got), err)
	}
}

func names(reviews []approval.Review) []string {
	out := make([]string, len(reviews))
	for i := range reviews {
		out[i] = reviews[i].Shown.RequestID
	}
	return out
}

func testList(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{Life: time.Hour})
	ids := map[string]string{}
	for i, name := range []string{"c", "a", "d", "b", "e"} {
		ids[name] = must(t, s, Review(name, Start.Add(time.Duration(i)*time.Minute))).ID
	}
	if _, err := s.Reject(t.Context(), ids["a"], rejection(Start.Add(10*time.Minute))); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"sam", "tom"} {
		if _, err := s.Agree(t.Context(), ids["b"], Agreement(subject, Start.Add(10*time.Minute))); err != nil {
			t.Fatal(err)
		}
	}
	now := Start.Add(time.Hour) // "c" is over, "b" is approved
	for _, tc := range []struct {
		query approval.Query
		want  []string
		more  bool
	}{
		{approval.Query{Now: now}, []string{"d", "e"}, false},
		{approval.Query{Now: now, Closed: true}, []string{"c", "a", "d", "b", "e"}, false},
		{approval.Query{Now: now, Limit: 1}, []string{"d"}, true},
		{approval.Query{Now: now, Limit: 2}, []string{"d", "e"}, false},
		{approval.Query{Now: now, Limit: 3, Closed: true}, []string{"c", "a", "d"}, true},
	} {
		got, more, err := s.List(t.Context(), tc.query)
		if err != nil || !slices.Equal(names(got), tc.want) || more != tc.more {
			t.Errorf("%+v: %v %v %v, want %v", tc.query, names(got), more, err, tc.want)
		}
	}
}

// testEnded: a context that has ended is no answer.
func testEnded(t *testing.T, open func(approval.Limits) approval.Store) {
	s := open(approval.Limits{})
	id := must(t, s, Review("a", Start)).ID
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"open":        func() error { _, err := s.Open(ctx, Review("b", Start)); return err },
		"get":         func() error { _, err := s.Get(ctx, id); return err },
		"by proposal": func() error { _, err := s.ByProposal(ctx, Review("a", Start).Shown.ProposalDigest); return err },
		"list":        func() error { _, _, err := s.List(ctx, approval.Query{Now: Start}); return err },
		"agree":       func() error { _, err := s.Agree(ctx, id, Agreement("sam", Start)); return err },
		"reject":      func() error { _, err := s.Reject(ctx, id, rejection(Start)); return err },
	} {
		err := call()
		for _, known := range []error{nil, approval.ErrNotFound, approval.ErrFull, approval.ErrExpired, approval.ErrRejected, approval.ErrNoDigest} {
			if errors.Is(err, known) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for range s.Watch(ctx) {
		break
	}
}
