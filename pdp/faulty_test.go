package pdp_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// faulty is a ledger and a store of reviews that do what they are told to, and
// otherwise what those in memory do.
type faulty struct {
	grant.Ledger
	approval.Store

	claim   func(grant.Claim) (grant.Standing, error, bool) // whether that is the answer
	settle  func() (grant.Standing, error, bool)
	attempt error            // of the ledger's Attempt
	fail    map[string]error // by the store's method
	meddle  func()           // before a review is agreed to, or rejected
}

func (f *faulty) Claim(ctx context.Context, c grant.Claim) (grant.Standing, error) {
	if f.claim != nil {
		if s, err, is := f.claim(c); is {
			return s, err
		}
	}
	return f.Ledger.Claim(ctx, c)
}

func (f *faulty) Settle(ctx context.Context, e grant.Effect) (grant.Standing, error) {
	if f.settle != nil {
		if s, err, is := f.settle(); is {
			return s, err
		}
	}
	return f.Ledger.Settle(ctx, e)
}

func (f *faulty) Attempt(ctx context.Context, proposal string) (grant.Claim, error) {
	c, err := f.Ledger.Attempt(ctx, proposal)
	return c, errors.Join(err, f.attempt)
}

func (f *faulty) Open(ctx context.Context, r approval.Review) (approval.Review, error) {
	if err := f.fail["Open"]; err != nil {
		return r, err
	}
	return f.Store.Open(ctx, r)
}

func (f *faulty) Get(ctx context.Context, id string) (approval.Review, error) {
	if err := f.fail["Get"]; err != nil {
		return approval.Review{}, err
	}
	return f.Store.Get(ctx, id)
}

func (f *faulty) ByProposal(ctx context.Context, d canon.Digest) ([]approval.Review, error) {
	r, err := f.Store.ByProposal(ctx, d)
	return r, errors.Join(err, f.fail["ByProposal"])
}

func (f *faulty) Agree(ctx context.Context, id string, a approval.Agreement) (approval.Review, error) {
	if f.meddle != nil {
		f.meddle()
	}
	if err := f.fail["Agree"]; err != nil {
		return approval.Review{}, err
	}
	return f.Store.Agree(ctx, id, a)
}

// withFaulty gives the desk another PDP.
func withFaulty(d *desk) *faulty {
	d.t.Helper()
	keys, err := keyring.New(keyring.Config{}, time.Now())
	if err != nil {
		d.t.Fatal(err)
	}
	f := &faulty{fail: map[string]error{}}
	if f.Ledger, err = grant.NewMemory(grant.MemoryConfig{Revocations: func() uint64 { return d.holder.Load().Revocations.Sequence() }}); err != nil {
		d.t.Fatal(err)
	}
	if f.Store, err = approval.NewMemory(approval.MemoryConfig{}); err != nil {
		d.t.Fatal(err)
	}
	if d.pdp, err = pdp.New(pdp.Config{Snapshots: d.holder, Log: d.log, Keys: keys, Ledger: f, Reviews: f}); err != nil {
		d.t.Fatal(err)
	}
	return f
}

var errAway = errors.New("away")

// TestLedgerAway: whatever a ledger says beside an error, or says that nobody
// knows, is no.
func TestLedgerAway(t *testing.T) {
	for name, says := range map[string]struct {
		standing grant.Standing
		err      error
	}{
		"unknown":              {grant.Unknown, errAway},
		"claimed, and away":    {grant.Claimed, errAway},
		"repeated, and away":   {grant.Repeated, errAway},
		"overtaken, and away":  {grant.Overtaken, errAway},
		"unknown, and nothing": {grant.Unknown, nil},
		"another standing":     {grant.Overtaken + 1, nil},
		"repeated by nobody":   {grant.Repeated, nil},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				f := withFaulty(d)
				p := d.proposal(small)
				r := redemption(d.granted(p), p)
				f.claim = func(grant.Claim) (grant.Standing, error, bool) { return says.standing, says.err, true }
				if a := d.redeem(r); a.MayAct() || a.Decision().Code != writ.CodeAuditUnavailable || a.Decision().Outcome != writ.Deny {
					t.Fatalf("%+v", a.Decision())
				}
				f.claim = nil
				if a := d.redeem(r); !a.MayAct() {
					t.Errorf("and when it is back: %+v", a.Decision())
				}
				if says.standing == grant.Overtaken || says.err == nil && says.standing == grant.Repeated {
					return
				}
				_, receipt := d.paid(d.proposal(small))
				f.settle = func() (grant.Standing, error, bool) { return says.standing, says.err, true }
				if v := d.verify(receipt); v.Decision().Code != writ.CodeAuditUnavailable || v.Results() != nil {
					t.Errorf("an effect: %+v", v)
				}
				f.settle = nil
				if v := d.verify(receipt); v.Decision().Code != writ.CodeEffectVerified {
					t.Errorf("and when it is back: %+v", v.Decision())
				}
			})
		})
	}
}

// TestRevokedWhileRedeeming: what is revoked between judging and claiming
// counts.
func TestRevokedWhileRedeeming(t *testing.T) {
	for name, c := range map[string]struct {
		entry revocation.Entry
		want  writ.Code
	}{
		"the tool":           {revocation.Entry{Kind: revocation.Tool, ID: "payments/create_payment"}, writ.CodeGrantRevoked},
		"who redeems":        {revocation.Entry{Kind: revocation.Caller, ID: "payments"}, writ.CodeGrantAudience},
		"who proposed":       {revocation.Entry{Kind: revocation.Caller, ID: "ap-host"}, writ.CodeGrantRevoked},
		"something else yet": {revocation.Entry{Kind: revocation.Tool, ID: "payments/get_payment"}, writ.CodeRedeemed},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				f := withFaulty(d)
				p := d.proposal(small)
				g := d.granted(p)
				before := len(d.log.records)
				f.claim = func(grant.Claim) (grant.Standing, error, bool) {
					f.claim = nil
					d.revoke(c.entry)
					return 0, nil, false
				}
				if a := d.redeem(redemption(g, p)); a.Decision().Code != c.want || a.MayAct() != (c.want == writ.CodeRedeemed) {
					t.Errorf("%+v, want %s", a.Decision(), c.want)
				}
				if n := len(d.log.records) - before; n != 1 {
					t.Errorf("%d records of one answer", n)
				}
			})
		})
	}
}

// TestReviewsAway: where the reviews can't be asked, nobody has agreed.
func TestReviewsAway(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		f := withFaulty(d)
		p := d.proposal(above)
		f.fail["Open"] = errAway
		if a := d.decide(p); a.Decision().Outcome != writ.ReviewRequired || a.Review() != (pdp.Ticket{}) || a.Grant().Token != "" || !strings.Contains(a.Decision().Explanation, "nobody is asked") {
			t.Errorf("not opened: %+v", a)
		}
		delete(f.fail, "Open")
		_, ticket := d.asked(p)
		s := d.statement(p, ticket, "ann")
		f.fail["Agree"] = errAway
		if r, err := d.pdp.Approve(t.Context(), d.desk(), s); err == nil || r.Approval() != "" || r.Decision().Outcome == writ.Allow {
			t.Errorf("not kept: %+v, %v", r, err)
		}
		delete(f.fail, "Agree")
		d.asked(p)
		signed := d.approve(s).Approval()
		f.fail["ByProposal"] = errAway
		d.asked(p)
		with := *p
		with.SignedApprovals = []string{signed}
		d.granted(&with)
		f.fail["Get"] = errAway // whether it was rejected meanwhile is not known
		d.asked(&with)
		delete(f.fail, "ByProposal")
		delete(f.fail, "Get")
		d.granted(p)
	})
}

// TestRejectedMeanwhile: a rejection that comes while somebody approves wins,
// and the log says so.
func TestRejectedMeanwhile(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		f := withFaulty(d)
		p := d.proposal(above)
		_, ticket := d.asked(p)
		s := d.statement(p, ticket, "ann")
		f.meddle = func() {
			if _, err := f.Store.Reject(t.Context(), ticket.ID, approval.Rejection{Approver: d.person(p, "max"), Given: time.Now()}); err != nil {
				t.Error(err)
			}
		}
		r := d.approve(s)
		if r.Approval() != "" || r.Decision().Outcome == writ.Allow || r.Decision().Code != writ.CodeApprovalRevoked {
			t.Errorf("%+v", r.Decision())
		}
		if kind, code, _ := d.last(); kind != "approval" || code != writ.CodeApprovalRevoked || d.log.records[len(d.log.records)-1].ID != r.ID() {
			t.Errorf("the last record is %s %s", kind, code)
		}
	})
}

// TestRejectionOutlivesApprovals: what was agreed to counts no more once
// somebody has rejected the review, also where the host brings it.
func TestRejectionOutlivesApprovals(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(above)
		_, ticket := d.asked(p)
		with := *p
		with.SignedApprovals = []string{d.approve(d.statement(p, ticket, "ann")).Approval()}
		d.granted(&with)
		if r, err := d.pdp.Reject(t.Context(), d.desk(), d.statement(p, ticket, "max")); err != nil || r.Decision().Code != writ.CodeAllow {
			t.Fatalf("%+v, %v", r.Decision(), err)
		}
		for name, q := range map[string]*writ.Proposal{"kept": p, "brought": &with} {
			if a := d.decide(q); a.Allowed() || a.Grant().Token != "" {
				t.Errorf("%s: %+v", name, a.Decision())
			}
		}
	})
}

// TestApproverDisowned: what shows who approves may be revoked, too, by
// everything that a principal's token may be.
func TestApproverDisowned(t *testing.T) {
	const issuer = "https://login.acme.example"
	for name, c := range map[string]struct {
		entry revocation.Entry
		want  writ.Code
	}{
		"the token":                     {revocation.Entry{Kind: revocation.Token, Issuer: issuer, ID: "jti-ann"}, writ.CodeApprovalRevoked},
		"its key":                       {revocation.Entry{Kind: revocation.Key, Issuer: issuer, ID: "kid-1"}, writ.CodeApprovalRevoked},
		"her tokens until now":          {revocation.Entry{Kind: revocation.Principal, Issuer: issuer, ID: "ann", IssuedBefore: monday}, writ.CodeApprovalRevoked},
		"her tokens until an hour ago":  {revocation.Entry{Kind: revocation.Principal, Issuer: issuer, ID: "ann", IssuedBefore: monday.Add(-time.Hour)}, writ.CodeAllow},
		"all tokens until now":          {revocation.Entry{Kind: revocation.Issuer, ID: issuer, IssuedBefore: monday}, writ.CodeApprovalRevoked},
		"another token":                 {revocation.Entry{Kind: revocation.Token, Issuer: issuer, ID: "jti-max"}, writ.CodeAllow},
		"a token of that id, elsewhere": {revocation.Entry{Kind: revocation.Token, Issuer: "local", ID: "jti-ann"}, writ.CodeAllow},
		"the desk":                      {revocation.Entry{Kind: revocation.Caller, ID: "review-desk"}, writ.CodeCallerRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				p := d.proposal(above)
				if p.Principal.Issuer != issuer {
					t.Fatal(p.Principal.Issuer)
				}
				p.Token.IssuedAt = monday // who proposes has just logged in
				_, ticket := d.asked(p)
				s := d.statement(p, ticket, "ann")
				s.Token.ID, s.Token.KeyID, s.Token.IssuedAt = "jti-ann", "kid-1", monday.Add(-time.Minute)
				d.revoke(c.entry)
				if r := d.approve(s); r.Decision().Code != c.want || (r.Approval() != "") != (c.want == writ.CodeAllow) {
					t.Errorf("%+v, want %s", r.Decision(), c.want)
				}
			})
		})
	}
}

// TestExplainMintsNothing: an explanation is no authority, and a batch has a
// grant for each of its own.
func TestExplainMintsNothing(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		if e, err := d.pdp.Explain(t.Context(), d.world.LocalOperator, "ap-host", d.proposal(small), ""); err != nil || e.Decision.Code != writ.CodeAllow {
			t.Fatalf("%+v, %v", e.Decision, err)
		}
		if r := d.log.records[len(d.log.records)-1]; r.Grant != "" || r.Kind != "explanation" {
			t.Errorf("%+v", r)
		}
		items := make([]pdp.Item, 16)
		for i := range items {
			items[i].Proposal = d.proposal(small)
		}
		items[3].Proposal = nil
		answers, err := d.pdp.DecideBatch(t.Context(), d.host(), items, pdp.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i, a := range answers {
			if i == 3 {
				if a.Allowed() || a.Grant().Token != "" {
					t.Errorf("nothing: %+v", a)
				}
				continue
			}
			if seen[a.Grant().ID] || !d.redeem(redemption(a.Grant(), items[i].Proposal)).MayAct() {
				t.Errorf("%d: %+v", i, a)
			}
			seen[a.Grant().ID] = true
		}
	})
}

// TestSettledBefore: of a redemption that a ledger knows from the log alone, it
// says whether the outcome is known.
func TestSettledBefore(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		f := withFaulty(d)
		claims := []grant.Claim{{ID: "one", Proposal: "p-1", Now: monday, Expires: monday}, {ID: "two", Proposal: "p-2", Now: monday, Expires: monday}}
		settled := grant.Effect{Redemption: "one", Observer: "payments", ID: "PAY-1", Receipt: canon.Sum([]byte("r")), Outcome: writ.CodeEffectVerified, Now: monday}
		if err := f.Ledger.(*grant.Memory).Seed(claims, []grant.Effect{settled}); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]writ.Code{"one": writ.CodeReceiptMismatch, "two": writ.CodeUnknownOutcome} {
			v := d.verify(&pdp.Receipt{Redemption: id, Observer: "payments", Status: effect.StatusObserved, EffectID: "PAY-2", ObservedJSON: []byte("{}")})
			if v.Decision().Code != want || v.Decision().Outcome == writ.Allow {
				t.Errorf("%s: %+v", id, v.Decision())
			}
		}
	})
}
