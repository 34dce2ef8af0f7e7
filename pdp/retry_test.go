package pdp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/pdp"
)

// retrying is a redeemed payment of whose outcome nobody knows, the receipt that
// would tell it, and an open grant to try again.
func (d *desk) retrying() (receipt *pdp.Receipt, again *writ.Proposal, open pdp.Grant) {
	d.t.Helper()
	first, receipt := d.paid(d.proposal(small))
	again = d.proposal(small)
	again.Retries = first.Decision().ProposalDigest
	open = d.granted(again)
	if open.IdempotencyKey != first.IdempotencyKey() {
		d.t.Fatal("the retry has another idempotency key")
	}
	return receipt, again, open
}

// TestRetryIsOver: what a retry tries again may become known while
// its grant is open: then there is nothing to try again. Where it failed, or is
// as unknown as before, there is.
func TestRetryIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		told func(r *pdp.Receipt)
		want writ.Code
	}{
		"verified":   {func(*pdp.Receipt) {}, writ.CodeGrantAlreadyUsed},
		"failed":     {func(r *pdp.Receipt) { r.ObservedJSON = []byte(`{}`) }, writ.CodeRedeemed},
		"not there":  {func(r *pdp.Receipt) { r.Status, r.EffectID, r.ObservedJSON = effect.StatusAbsent, "", nil }, writ.CodeRedeemed},
		"unheard of": {func(r *pdp.Receipt) { r.Redemption = "nobody's" }, writ.CodeRedeemed},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				receipt, again, open := d.retrying()
				c.told(receipt)
				d.verify(receipt)
				r := redemption(open, again)
				if a := d.redeem(r); a.Decision().Code != c.want || a.MayAct() != (c.want == writ.CodeRedeemed) {
					t.Fatalf("%+v, want %s", a.Decision(), c.want)
				}
				if kind, code, _ := d.last(); kind != "redemption" || code != c.want {
					t.Errorf("recorded %s %s", kind, code)
				}
			})
		})
	}
}

// TestRetryIsOverMeanwhile: also a retry that was redeemed, and whose answer was
// lost, is let go no more once it is known that the first attempt paid.
func TestRetryIsOverMeanwhile(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		receipt, again, open := d.retrying()
		r := redemption(open, again)
		if a := d.redeem(r); !a.MayAct() {
			t.Fatalf("%+v", a.Decision())
		}
		if v := d.verify(receipt); v.Decision().Code != writ.CodeEffectVerified {
			t.Fatalf("%+v", v.Decision())
		}
		if a := d.redeem(r); a.Decision().Code != writ.CodeGrantAlreadyUsed {
			t.Errorf("%+v", a.Decision())
		}
	})
}

// TestRetryIsOverElsewhere: what was done by a retry is done for the whole chain,
// also for a grant that was open meanwhile, at whichever replica; and nobody who
// lost its answer is let go any more.
func TestRetryIsOverElsewhere(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		first, second := replicas(t, d)
		d.pdp = first
		lost := d.proposal(small)
		asked := redemption(d.granted(lost), lost)
		y := d.redeem(asked)
		if !y.MayAct() {
			t.Fatalf("%+v", y.Decision())
		}
		retry := func() (*writ.Proposal, pdp.Answer) {
			p := d.proposal(small)
			p.Retries = y.Decision().ProposalDigest
			return p, d.decide(p)
		}
		early, a := retry()
		open := redemption(a.Grant(), early)
		p, a := retry()
		x := d.redeem(redemption(a.Grant(), p))
		if !x.MayAct() || x.IdempotencyKey() != y.IdempotencyKey() {
			t.Fatalf("%+v", x.Decision())
		}
		if v := d.verify(&pdp.Receipt{
			Redemption: x.ID(), ProposalDigest: x.Decision().ProposalDigest, Observer: "payments", Status: effect.StatusObserved,
			EffectID: "PAY-1", ObservedJSON: []byte(`{"supplier":"ACME-01","account":"ACME-GBP","amount_gbp":500,"state":"settled"}`),
		}); v.Decision().Code != writ.CodeEffectVerified {
			t.Fatalf("%+v", v.Decision())
		}
		for name, replica := range map[string]*pdp.PDP{"the one that minted": first, "the other": second} {
			d.pdp = replica
			if _, a := retry(); a.Allowed() || a.Decision().Code != writ.CodeGrantAlreadyUsed || a.Grant() != (pdp.Grant{}) {
				t.Errorf("%s: another retry: %+v", name, a.Decision())
			}
			if r := d.redeem(open); r.MayAct() || r.Decision().Code != writ.CodeGrantAlreadyUsed {
				t.Errorf("%s: an open retry: %+v", name, r.Decision())
			}
			if r := d.redeem(asked); r.MayAct() || r.Decision().Code != writ.CodeGrantAlreadyUsed {
				t.Errorf("%s: the first one's answer again: %+v", name, r.Decision())
			}
		}
	})
}

// TestRetryOfBefore: what was redeemed before a restart is known from the log
// alone, without its key; all the same one of its retries has the effect, and
// where one had it before, none is granted.
func TestRetryOfBefore(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		open, over := d.decide(d.proposal(small)).Decision(), d.decide(d.proposal(small)).Decision()
		before := func(id string, w writ.Decision) grant.Claim {
			return grant.Claim{ID: id, Proposal: w.ProposalDigest.String(), Call: w.CallDigest.String(), Now: time.Now(), Expires: time.Now()}
		}
		done := before("over", over)
		done.DoneElsewhere = true
		if err := withFaulty(d).Ledger.(*grant.Memory).Seed([]grant.Claim{before("open", open), done}, nil); err != nil {
			t.Fatal(err)
		}
		retry := func(of writ.Decision) *writ.Proposal {
			p := d.proposal(small)
			p.Retries = of.ProposalDigest
			return p
		}
		if a := d.decide(retry(over)); a.Allowed() || a.Decision().Code != writ.CodeGrantAlreadyUsed {
			t.Errorf("what was done before: %+v", a.Decision())
		}
		late := retry(open)
		asked := redemption(d.granted(late), late)
		again, receipt := d.paid(retry(open))
		if again.IdempotencyKey() != grant.IdempotencyKey(open.ProposalDigest) {
			t.Error("the retry has another key than the first attempt")
		}
		if v := d.verify(receipt); v.Decision().Code != writ.CodeEffectVerified {
			t.Fatalf("%+v", v.Decision())
		}
		if r := d.redeem(asked); r.MayAct() || r.Decision().Code != writ.CodeGrantAlreadyUsed {
			t.Errorf("the other retry: %+v", r.Decision())
		}
	})
}

// TestRetryUnasked: where nobody can say what came of the first attempt, there is
// no retry.
func TestRetryUnasked(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		f := withFaulty(d)
		_, again, _ := d.retrying()
		f.attempt = errAway
		if a := d.decide(again); a.Allowed() || a.Decision().Code != writ.CodeAuditUnavailable || a.Grant() != (pdp.Grant{}) {
			t.Errorf("%+v", a.Decision())
		}
		f.attempt = nil
		if a := d.redeem(redemption(d.granted(again), again)); !a.MayAct() {
			t.Errorf("and when it is back: %+v", a.Decision())
		}
	})
}

// TestRetryChain: a retry of a retry, however long the chain, has the key of the
// first; and nobody makes a chain out of another's call, of itself, or of what
// was only proposed.
func TestRetryChain(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		first, _ := d.paid(d.proposal(small))
		last := first.Decision().ProposalDigest
		for range 300 {
			p := d.proposal(small)
			p.Retries = last
			r, _ := d.paid(p)
			if r.IdempotencyKey() != first.IdempotencyKey() {
				t.Fatal("the chain has a second key")
			}
			last = r.Decision().ProposalDigest
		}
		proposed := d.decide(d.proposal(small)).Decision().ProposalDigest
		somebody := func(change func(p *writ.Proposal)) *writ.Proposal {
			p := d.proposal(small)
			change(p)
			return p
		}
		for name, p := range map[string]*writ.Proposal{
			"what was only proposed": somebody(func(p *writ.Proposal) { p.Retries = proposed }),
			"one bit beside":         somebody(func(p *writ.Proposal) { p.Retries = last; p.Retries[31] ^= 1 }),
			"the digest of a call":   somebody(func(p *writ.Proposal) { p.Retries = first.Decision().CallDigest }),
			"with another amount": somebody(func(p *writ.Proposal) {
				p.Retries = last
				p.ArgumentsJSON = []byte(string(p.ArgumentsJSON[:len(p.ArgumentsJSON)-1]) + `,"urgent":true}`)
			}),
			"with an extra parameter": somebody(func(p *writ.Proposal) {
				p.Retries, p.ExtraParamsJSON = last, []byte(`{"inputResponses":{}}`)
			}),
		} {
			if a := d.decide(p); a.Allowed() || a.Grant() != (pdp.Grant{}) {
				t.Errorf("%s: %+v", name, a.Decision())
			}
		}
		// A proposal can't name its own digest: whatever it names is part of it.
		p := d.proposal(small)
		for range 3 {
			a := d.decide(p)
			if a.Decision().ProposalDigest == p.Retries {
				t.Fatal("a proposal retries itself")
			}
			p.Retries = a.Decision().ProposalDigest
		}
		if a := d.decide(p); a.Decision().Code != writ.CodeGrantMismatch {
			t.Errorf("a loop: %+v", a.Decision())
		}
		if p.Retries == (canon.Digest{}) {
			t.Error("nothing was retried")
		}
	})
}

// TestRetryNeedsItsKey: where a write needs no grant, since its server decides
// by itself, a retry gets one all the same: nothing else carries the key under
// which it is done once. What has had its effect is not tried again, and a read
// may be read as often as anybody likes.
func TestRetryNeedsItsKey(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.rebuild("servers/payments.yaml", func(s string) string {
			return strings.Replace(s, "  create_payment:\n", "  create_payment:\n    decide_at: server\n", 1)
		})
		p := d.proposal(small)
		if a := d.decide(p); !a.Allowed() || a.Grant() != (pdp.Grant{}) {
			t.Fatalf("%+v, grant %+v", a.Decision(), a.Grant())
		}
		a, err := d.pdp.Decide(t.Context(), d.host(), p, pdp.Ask{Grant: true})
		if err != nil || a.Grant().Token == "" {
			t.Fatalf("%+v, %v", a.Decision(), err)
		}
		first := d.redeem(redemption(a.Grant(), p))
		again := d.proposal(small)
		again.Retries = canon.Sum([]byte("nobody's"))
		if a := d.decide(again); a.Allowed() || a.Decision().Code != writ.CodeGrantMismatch {
			t.Errorf("a retry of nothing: %+v", a.Decision())
		}
		again.Retries = a.Decision().ProposalDigest
		if a := d.decide(again); !a.Allowed() || a.Grant().IdempotencyKey == "" || a.Grant().IdempotencyKey != first.IdempotencyKey() {
			t.Errorf("a retry: %+v, key %q", a.Decision(), a.Grant().IdempotencyKey)
		}
		if v := d.verify(&pdp.Receipt{
			Redemption: first.ID(), ProposalDigest: a.Decision().ProposalDigest, Observer: "payments", Status: effect.StatusObserved,
			EffectID: "PAY-1", ObservedJSON: []byte(`{"supplier":"ACME-01","account":"ACME-GBP","amount_gbp":500,"state":"settled"}`),
		}); v.Decision().Code != writ.CodeEffectVerified {
			t.Fatalf("%+v", v.Decision())
		}
		if a := d.decide(again); a.Allowed() || a.Decision().Code != writ.CodeGrantAlreadyUsed {
			t.Errorf("a retry of what is done: %+v", a.Decision())
		}
		read := d.proposal("a clerk reads a payment back")
		read.Retries = canon.Sum([]byte("nobody's"))
		if a := d.decide(read); !a.Allowed() || a.Grant() != (pdp.Grant{}) {
			t.Errorf("a read: %+v", a.Decision())
		}
	})
}
