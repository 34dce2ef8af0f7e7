package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/grant"
)

// TestSeed: whatever the log has of the last thirty days is remembered, also
// where the clock was set while it was written.
func TestSeed(t *testing.T) {
	const day = 24 * time.Hour
	days := func(ages ...float64) (times []time.Duration) {
		for _, age := range ages {
			times = append(times, -time.Duration(age*float64(day)))
		}
		return times
	}
	for name, c := range map[string]struct {
		ages []time.Duration // of the records, by what the clock said
		kept string          // one letter a record: y remembered, n not, - either
	}{
		"in order":                    {days(90, 60, 40, 20, 10, 0), "nnnyyy"},
		"all recent":                  {days(29, 3, 2, 1), "yyyy"},
		"all old":                     {days(900, 800, 700, 90, 80, 70), "nnn---"},
		"none":                        {nil, ""},
		"a clock that was behind":     {days(12, 11, 100, 100, 100, 100, 100, 100, 100, 100, 5), "yyyyyyyyyyy"},
		"behind at the end":           {days(12, 11, 100, 100, 100), "yyyyy"},
		"behind at each boot":         {days(2000, 20, 2000, 19, 2000, 18, 2000, 17, 2000, 16), "-yyyyyyyyy"},
		"ahead for one record":        {days(50, 12, -365, 11, 10, 9), "nyyyyy"},
		"ahead, long ago":             {days(90, -365, 80, 12, 9), "n--yy"},
		"ahead until now":             {days(12, -1, -2, -3), "yyyy"},
		"behind before all was young": {days(50, 400, 300, 12), "nnny"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := openLog(t, dir)
			now := time.Now()
			for i, age := range c.ages {
				appendRedemption(t, l, audit.Record{ID: fmt.Sprint("r-", i), Time: now.Add(age), ProposalDigest: digestOf(i)})
			}
			ledger := reopened(t, l, dir)
			for i, want := range c.kept {
				_, err := ledger.Attempt(t.Context(), ledger.name(digestOf(i)))
				if err != nil && !errors.Is(err, grant.ErrNotFound) {
					t.Fatal(err)
				}
				if want != '-' && (err == nil) != (want == 'y') {
					t.Errorf("record %d, %v old by its clock: remembered: %t", i, -c.ages[i], err == nil)
				}
			}
			// What is proposed now can be redeemed, whatever the clock was.
			claim := grant.Claim{
				ID: "now", Grant: "now", Proposal: "now", Attempt: canon.Sum([]byte("now")), Now: now, Expires: now.Add(time.Second),
			}
			if s, err := ledger.Claim(t.Context(), claim); s != grant.Claimed || err != nil {
				t.Errorf("a new claim: %v, %v", s, err)
			}
		})
	}
}

// TestSeedTells: what the records say of a redemption is what the ledger knows.
func TestSeedTells(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir)
	now := time.Now()
	for _, r := range []audit.Record{
		// The first record of it was not written: this one repeats it.
		{ID: "second", Redemption: "first", ProposalDigest: digestOf(1), CallDigest: digestOf(101)},
		// Both were.
		{ID: "one", ProposalDigest: digestOf(2), CallDigest: digestOf(102)},
		{ID: "two", Redemption: "one", ProposalDigest: digestOf(2), CallDigest: digestOf(102)},
		// A retry, whose grant was not remembered: only its decision says so.
		{Kind: audit.KindDecision, Code: writ.CodeAllow, ID: "d", Grant: "retry", ProposalDigest: digestOf(3), RetriesDigest: digestOf(2)},
		{ID: "three", Grant: "retry", ProposalDigest: digestOf(3), CallDigest: digestOf(102)},
		// Refused.
		{ID: "no", Code: writ.CodeGrantRevoked, Outcome: writ.Deny, ProposalDigest: digestOf(4)},
		{Kind: audit.KindEffect, Code: writ.CodeEffectVerified, ID: "e", Redemption: "first", Observer: "payments", EffectID: "PAY-1", ProposalDigest: digestOf(1)},
		// A chain of retries, of which the last had its effect.
		{ID: "six", ProposalDigest: digestOf(6), CallDigest: digestOf(106)},
		{ID: "seven", ProposalDigest: digestOf(7), CallDigest: digestOf(106), RetriesDigest: digestOf(6)},
		{Kind: audit.KindDecision, Code: writ.CodeAllow, ID: "d8", Grant: "last", ProposalDigest: digestOf(8), RetriesDigest: digestOf(7)},
		{Kind: audit.KindEffect, Code: writ.CodeEffectVerified, ID: "e8", Redemption: "eight", Grant: "last", Observer: "payments", EffectID: "PAY-8", ProposalDigest: digestOf(8)},
		// And one of which it failed.
		{ID: "nine", ProposalDigest: digestOf(9), CallDigest: digestOf(109)},
		{ID: "ten", ProposalDigest: digestOf(10), CallDigest: digestOf(109), RetriesDigest: digestOf(9)},
		{Kind: audit.KindEffect, Code: writ.CodePostconditionFailed, ID: "e10", Redemption: "ten", Observer: "payments", EffectID: "PAY-10", ProposalDigest: digestOf(10)},
		// Nothing but the effect was.
		{Kind: audit.KindEffect, Code: writ.CodePostconditionFailed, ID: "f", Redemption: "five", Observer: "payments", EffectID: "PAY-5", ProposalDigest: digestOf(5)},
	} {
		r.Time = now
		appendRedemption(t, l, r)
	}
	ledger := reopened(t, l, dir)
	for i, want := range []struct {
		id, call string
		outcome  writ.Code
		done     bool // elsewhere
	}{
		1:  {"first", digestOf(101), writ.CodeEffectVerified, false},
		2:  {"one", digestOf(102), "", false},
		3:  {"three", "", "", false},
		4:  {},
		5:  {"five", "", writ.CodePostconditionFailed, false},
		6:  {"six", digestOf(106), "", true},
		7:  {"seven", "", "", true},
		8:  {"eight", "", writ.CodeEffectVerified, false},
		9:  {"nine", digestOf(109), "", false},
		10: {"ten", "", writ.CodePostconditionFailed, false},
	} {
		if i == 0 {
			continue
		}
		c, err := ledger.Attempt(t.Context(), ledger.name(digestOf(i)))
		if want.id == "" {
			if !errors.Is(err, grant.ErrNotFound) {
				t.Errorf("proposal %d: %+v, %v", i, c, err)
			}
			continue
		}
		if want.call != "" {
			want.call = ledger.name(want.call)
		}
		if err != nil || c.ID != want.id || c.Call != want.call || c.Outcome != want.outcome || c.DoneElsewhere != want.done {
			t.Errorf("proposal %d: %q, call %q, outcome %q, done elsewhere: %t, %v; want %+v", i, c.ID, c.Call, c.Outcome, c.DoneElsewhere, err, want)
		}
	}
}

func digestOf(i int) string { return canon.Sum([]byte(fmt.Sprint(i))).String() }

func openLog(t *testing.T, dir string) *audit.Log {
	t.Helper()
	l, err := audit.Open(audit.Config{Dir: dir, SegmentBytes: 1000}) // two or three records each
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// appendRedemption appends a record; what it does not say is of one that was
// redeemed.
func appendRedemption(t *testing.T, l *audit.Log, r audit.Record) {
	t.Helper()
	if r.Kind == "" {
		r.Kind = audit.KindRedemption
	}
	if r.Code == "" {
		r.Code, r.Outcome = writ.CodeRedeemed, writ.Allow
	}
	r.Explanation = strings.Repeat("x", 50)
	if err := l.Append(t.Context(), r, true); err != nil {
		t.Fatal(err)
	}
}

type seeded struct {
	*grant.Memory
	name func(string) string
}

// reopened is a ledger of the next start.
func reopened(t *testing.T, l *audit.Log, dir string) seeded {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openLog(t, dir)
	t.Cleanup(func() { _ = l.Close() })
	ledger, err := grant.NewMemory(grant.MemoryConfig{Revocations: func() uint64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	if err := seed(t.Context(), ledger, grant.DefaultRetention, l, newLogger(io.Discard)); err != nil {
		t.Fatal(err)
	}
	return seeded{ledger, l.HMAC}
}
