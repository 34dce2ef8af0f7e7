// Package ledgertest holds every grant.Ledger to the contract.
package ledgertest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/grant"
)

// Opened is a ledger under test, empty.
type Opened struct {
	// Replicas are the ledger as each of those who share it has it; at least one.
	Replicas []grant.Ledger
	// Revoke adds an entry to the revocation log, and returns its sequence when
	// that is acknowledged.
	Revoke func() uint64
}

func (o *Opened) any(i int) grant.Ledger { return o.Replicas[i%len(o.Replicas)] }

// start is the time of the tests, without a fraction of a second.
var start = time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)

// lifetime is that of grants here.
const lifetime = 30 * time.Second

// NewClaim is a valid claim: n names the grant, the proposal and the
// redemption, and the attempt.
func NewClaim(n int) grant.Claim {
	yes := true
	return grant.Claim{
		ID: fmt.Sprintf("D%d", n), Grant: fmt.Sprintf("G%d", n), Proposal: fmt.Sprintf("hmac-sha256:%064x", n),
		Attempt: Attempt(n), Now: start, Expires: start.Add(lifetime), Call: fmt.Sprintf("hmac-sha256:c%d", n),
		Plan: effect.Plan{
			Server: "files", Tool: "write", ProposalDigest: Attempt(n + 1_000_000), IdempotencyKey: fmt.Sprintf("K%d", n),
			Observer: "files-audit", ObserverTool: "stat", Until: start.Add(time.Hour),
			Checks: []effect.Expectation{
				{At: "/size", Equals: "12.50", Tolerance: "0.01"},
				{At: "/owner", In: []string{`"anna"`, `"ö\u0000"`}},
				{At: "/there", Present: &yes},
				{At: "/gone", Absent: true},
			},
		},
	}
}

// Attempt is the digest of the n-th attempt.
func Attempt(n int) canon.Digest { return sha256.Sum256(fmt.Append(nil, "attempt ", n)) }

// NewEffect settles the redemption of NewClaim(n).
func NewEffect(n int) grant.Effect {
	return grant.Effect{Redemption: fmt.Sprintf("D%d", n), Observer: "files-audit", ID: fmt.Sprintf("E%d", n),
		Receipt: Attempt(n + 2_000_000), Outcome: writ.CodeEffectVerified, Now: start.Add(time.Second)}
}

// Test runs the contract's tests, each with a ledger of its own.
func Test(t *testing.T, open func(t *testing.T) *Opened) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Opened)
	}{
		{"Claim", testClaim},
		{"BothOrNeither", testBothOrNeither},
		{"Kept", testKept},
		{"Expiry", testExpiry},
		{"Overtaken", testOvertaken},
		{"Settle", testSettle},
		{"Done", testDone},
		{"Refused", testRefused},
		{"Ended", testEnded},
		{"Race", testRace},
		{"RaceRevoked", testRaceRevoked},
		{"RaceEffect", testRaceEffect},
		{"RaceDone", testRaceDone},
		{"Random", testRandom},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func claim(t *testing.T, l grant.Ledger, c grant.Claim, want grant.Standing) {
	t.Helper()
	if got, err := l.Claim(t.Context(), c); err != nil || got != want {
		t.Fatalf("claim %s of %s for %s: %v, %v; want %v", c.ID, c.Grant, c.Proposal, got, err, want)
	}
}

func settle(t *testing.T, l grant.Ledger, e grant.Effect, want grant.Standing) {
	t.Helper()
	if got, err := l.Settle(t.Context(), e); err != nil || got != want {
		t.Fatalf("settling %s with %s: %v, %v; want %v", e.Redemption, e.ID, got, err, want)
	}
}

// found wants what was claimed first, under both names.
func found(t *testing.T, l grant.Ledger, want grant.Claim) {
	t.Helper()
	byID, err := l.Redemption(t.Context(), want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(byID, want) {
		t.Errorf("the redemption is\n%+v, want\n%+v", byID, want)
	}
	byProposal, err := l.Attempt(t.Context(), want.Proposal)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(byProposal, want) {
		t.Errorf("the attempt is\n%+v, want\n%+v", byProposal, want)
	}
}

func notFound(t *testing.T, l grant.Ledger, c grant.Claim) {
	t.Helper()
	if got, err := l.Redemption(t.Context(), c.ID); !errors.Is(err, grant.ErrNotFound) || !reflect.DeepEqual(got, grant.Claim{}) {
		t.Errorf("redemption %s: %+v, %v", c.ID, got, err)
	}
	if got, err := l.Attempt(t.Context(), c.Proposal); !errors.Is(err, grant.ErrNotFound) || !reflect.DeepEqual(got, grant.Claim{}) {
		t.Errorf("attempt %s: %+v, %v", c.Proposal, got, err)
	}
}

func testClaim(t *testing.T, o *Opened) {
	id := o.any(0).Instance()
	if len(id) < 4 || len(id) > 32 {
		t.Errorf("the instance is %q", id)
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			t.Errorf("the instance is %q", id)
		}
	}
	for i := range o.Replicas {
		if o.any(i).Instance() != id {
			t.Error("replicas of one ledger have several instances")
		}
	}
	c := NewClaim(1)
	notFound(t, o.any(0), c)
	claim(t, o.any(0), c, grant.Claimed)
	for i := range 3 {
		claim(t, o.any(i), c, grant.Repeated)
		again := c
		again.ID, again.Now = fmt.Sprintf("D1-%d", i), c.Now.Add(time.Second)
		claim(t, o.any(i+1), again, grant.Repeated)
		found(t, o.any(i), c)
		other := again
		other.Attempt = Attempt(7)
		claim(t, o.any(i), other, grant.AlreadyClaimed)
		if _, err := o.any(i).Redemption(t.Context(), again.ID); !errors.Is(err, grant.ErrNotFound) {
			t.Errorf("a repeat is found under its own id: %v", err)
		}
	}
	claim(t, o.any(1), NewClaim(2), grant.Claimed)
}

// A claim whose grant, proposal or id is somebody else's claims nothing.
func testBothOrNeither(t *testing.T, o *Opened) {
	first := NewClaim(1)
	claim(t, o.any(0), first, grant.Claimed)
	for i, mix := range []func(*grant.Claim){
		func(c *grant.Claim) { c.Grant = first.Grant },
		func(c *grant.Claim) { c.Proposal = first.Proposal },
		func(c *grant.Claim) { c.ID = first.ID },
		func(c *grant.Claim) { c.Grant, c.Attempt = first.Grant, first.Attempt },
		func(c *grant.Claim) { c.Proposal, c.Attempt = first.Proposal, first.Attempt },
		func(c *grant.Claim) { c.ID, c.Attempt = first.ID, first.Attempt },
	} {
		c := NewClaim(i + 10)
		mix(&c)
		claim(t, o.any(i), c, grant.AlreadyClaimed)
		// What was free of it is still.
		free := NewClaim(i + 10)
		claim(t, o.any(i+1), free, grant.Claimed)
	}
	// The grant of one redemption and the proposal of another.
	c := NewClaim(1)
	c.Proposal = NewClaim(10).Proposal
	claim(t, o.any(0), c, grant.AlreadyClaimed)
	found(t, o.any(1), first)
}

// What was claimed comes back as it was.
func testKept(t *testing.T, o *Opened) {
	bare := NewClaim(1)
	bare.Plan, bare.Call = effect.Plan{Server: "s", Tool: "t"}, ""
	full := NewClaim(2)
	no := false
	full.Plan.Checks = append(full.Plan.Checks, effect.Expectation{At: "", Present: &no}, effect.Expectation{At: "/x", Equals: `"\u2028<>&é"`})
	full.Now = full.Now.Add(123456789 * time.Nanosecond)
	for i, c := range []grant.Claim{bare, full} {
		claim(t, o.any(i), c, grant.Claimed)
		for j := range o.Replicas {
			found(t, o.any(j), c)
		}
	}
	// In another place of the world, times are the same.
	zoned := NewClaim(3)
	want := zoned
	zoned.Now = zoned.Now.In(time.FixedZone("", 3600))
	claim(t, o.any(0), zoned, grant.Claimed)
	found(t, o.any(1), want)
}

// A used grant is known for MaxSkew after its end at least, and not claimed
// again afterwards, whatever a clock says.
func testExpiry(t *testing.T, o *Opened) {
	l := o.any(0)
	c := NewClaim(1)
	claim(t, l, c, grant.Claimed)
	other := c
	other.Attempt = Attempt(2)
	other.Now = c.Expires.Add(grant.MaxSkew - time.Nanosecond)
	claim(t, l, other, grant.AlreadyClaimed)
	c.Now = other.Now
	claim(t, l, c, grant.Repeated)
	found(t, l, NewClaim(1))
	for _, now := range []time.Time{c.Expires.Add(grant.MaxSkew), c.Expires.Add(time.Hour), c.Expires.Add(-time.Second)} {
		for _, one := range []grant.Claim{c, other, NewClaim(2)} {
			one.Now = now
			if got, err := l.Claim(t.Context(), one); got != grant.Unknown || !errors.Is(err, grant.ErrForgotten) {
				t.Errorf("%v after its end: %v, %v", now.Sub(c.Expires), got, err)
			}
		}
	}
	// A day later, within any retention that tests use, the proposal is known.
	next := NewClaim(3)
	next.Proposal, next.Now, next.Expires = c.Proposal, c.Expires.Add(24*time.Hour), c.Expires.Add(25*time.Hour)
	claim(t, l, next, grant.AlreadyClaimed)
	found(t, l, NewClaim(1))
}

// What was held against fewer revocations than are acknowledged is not claimed.
func testOvertaken(t *testing.T, o *Opened) {
	early := NewClaim(1)
	claim(t, o.any(0), early, grant.Claimed)
	var last uint64
	for i := range 3 {
		before := last
		last = o.Revoke()
		if last <= before {
			t.Fatalf("revocation %d after %d", last, before)
		}
		for j := range o.Replicas {
			c := NewClaim(10*i + 2)
			c.Revocations = before
			claim(t, o.any(j), c, grant.Overtaken)
			notFound(t, o.any(j), c)
		}
		c := NewClaim(10*i + 2)
		c.Revocations = last
		claim(t, o.any(i), c, grant.Claimed)
		claim(t, o.any(i+1), early, grant.Overtaken)
		c = early
		c.Revocations = last
		claim(t, o.any(i+2), c, grant.Repeated)
		c.Attempt = Attempt(99)
		claim(t, o.any(i), c, grant.AlreadyClaimed)
	}
	found(t, o.any(1), early)
}

func testSettle(t *testing.T, o *Opened) {
	e := NewEffect(1)
	if got, err := o.any(0).Settle(t.Context(), e); got != grant.Unknown || !errors.Is(err, grant.ErrNotFound) {
		t.Errorf("settling what was not claimed: %v, %v", got, err)
	}
	for i := range 5 {
		claim(t, o.any(i), NewClaim(i+1), grant.Claimed)
	}
	settle(t, o.any(0), e, grant.Claimed)
	want := NewClaim(1)
	want.Outcome = e.Outcome
	for i := range o.Replicas {
		settle(t, o.any(i), e, grant.Repeated)
		found(t, o.any(i), want)
	}
	// It stays settled.
	for i, change := range []func(*grant.Effect){
		func(e *grant.Effect) { e.Receipt = Attempt(1) },
		func(e *grant.Effect) { e.Outcome = writ.CodePostconditionFailed },
		func(e *grant.Effect) { e.ID = "another" },
		func(e *grant.Effect) { e.ID = "" },
		func(e *grant.Effect) { e.Observer = "another" },
	} {
		other := e
		change(&other)
		settle(t, o.any(i), other, grant.AlreadyClaimed)
	}
	found(t, o.any(1), want)
	// A repeat of the claim changes nothing of it.
	claim(t, o.any(1), NewClaim(1), grant.Repeated)
	found(t, o.any(2), want)

	// One effect of an observer counts once.
	second := NewEffect(2)
	second.ID = e.ID
	settle(t, o.any(1), second, grant.AlreadyClaimed)
	found(t, o.any(2), NewClaim(2))
	second.Observer = "another"
	second.Outcome = writ.CodePostconditionFailed
	settle(t, o.any(1), second, grant.Claimed)
	failed := NewClaim(2)
	failed.Outcome = writ.CodePostconditionFailed
	found(t, o.any(0), failed)
	// Names that run together are two names.
	for i, split := range [][2]string{{"ab", "c"}, {"a", "bc"}} {
		third := NewEffect(3 + i)
		third.Observer, third.ID = split[0], split[1]
		settle(t, o.any(i), third, grant.Claimed)
	}
	// Without an id, nothing but the redemption is claimed.
	last := NewEffect(5)
	last.ID = ""
	settle(t, o.any(0), last, grant.Claimed)
	settle(t, o.any(1), last, grant.Repeated)
	claim(t, o.any(0), NewClaim(6), grant.Claimed)
	bare := NewEffect(6)
	bare.ID = ""
	settle(t, o.any(1), bare, grant.Claimed)
}

// What is no claim is not claimed, and what is no effect settles nothing.
func testRefused(t *testing.T, o *Opened) {
	for name, change := range map[string]func(*grant.Claim){
		"no id":       func(c *grant.Claim) { c.ID = "" },
		"no grant":    func(c *grant.Claim) { c.Grant = "" },
		"no proposal": func(c *grant.Claim) { c.Proposal = "" },
		"no attempt":  func(c *grant.Claim) { c.Attempt = canon.Digest{} },
		"no now":      func(c *grant.Claim) { c.Now = time.Time{} },
		"no end":      func(c *grant.Claim) { c.Expires = time.Time{} },
		"outcome":     func(c *grant.Claim) { c.Outcome = writ.CodeEffectVerified },
		"done":        func(c *grant.Claim) { c.DoneElsewhere = true },
		"strange key": func(c *grant.Claim) { c.Plan.IdempotencyKey = "a/b" },
		"slash":       func(c *grant.Claim) { c.Grant = "a/b" },
		"zero byte":   func(c *grant.Claim) { c.Proposal = "a\x00" },
		"long":        func(c *grant.Claim) { c.ID = string(make([]byte, 1<<20)) },
		"large plan":  func(c *grant.Claim) { c.Plan.Tool = string(make([]byte, 1<<20)) },
	} {
		c := NewClaim(1)
		change(&c)
		if got, err := o.any(0).Claim(t.Context(), c); got != grant.Unknown || err == nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	claim(t, o.any(0), NewClaim(1), grant.Claimed)
	for name, change := range map[string]func(*grant.Effect){
		"no redemption": func(e *grant.Effect) { e.Redemption = "" },
		"no observer":   func(e *grant.Effect) { e.Observer = "" },
		"no receipt":    func(e *grant.Effect) { e.Receipt = canon.Digest{} },
		"no outcome":    func(e *grant.Effect) { e.Outcome = "" },
		"unknown":       func(e *grant.Effect) { e.Outcome = writ.CodeUnknownOutcome },
		"long":          func(e *grant.Effect) { e.ID = string(make([]byte, 1<<20)) },
	} {
		e := NewEffect(1)
		change(&e)
		if got, err := o.any(0).Settle(t.Context(), e); got != grant.Unknown || err == nil || errors.Is(err, grant.ErrNotFound) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	found(t, o.any(0), NewClaim(1))
	for _, name := range []string{"", "/", "a/b", "..", "\x00", string(make([]byte, 1<<16))} {
		if _, err := o.any(0).Redemption(t.Context(), name); !errors.Is(err, grant.ErrNotFound) {
			t.Errorf("redemption %q: %v", name[:min(len(name), 9)], err)
		}
		if _, err := o.any(0).Attempt(t.Context(), name); !errors.Is(err, grant.ErrNotFound) {
			t.Errorf("attempt %q: %v", name[:min(len(name), 9)], err)
		}
	}
}

// Who has no time left learns nothing, and claims nothing.
func testEnded(t *testing.T, o *Opened) {
	l := o.any(0)
	claim(t, l, NewClaim(1), grant.Claimed)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := l.Claim(ended, NewClaim(2)); got != grant.Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("claim: %v, %v", got, err)
	}
	if got, err := l.Settle(ended, NewEffect(1)); got != grant.Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("settle: %v, %v", got, err)
	}
	if _, err := l.Redemption(ended, "D1"); !errors.Is(err, context.Canceled) {
		t.Errorf("redemption: %v", err)
	}
	if _, err := l.Attempt(ended, NewClaim(1).Proposal); !errors.Is(err, context.Canceled) {
		t.Errorf("attempt: %v", err)
	}
	notFound(t, l, NewClaim(2))
	found(t, l, NewClaim(1))
}
