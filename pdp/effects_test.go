package pdp_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/pdp"
)

// paid is a redeemed payment, and what the payment server sees of it then.
func (d *desk) paid(p *writ.Proposal) (pdp.Redeemed, *pdp.Receipt) {
	d.t.Helper()
	a := d.decide(p)
	r := d.redeem(redemption(a.Grant(), p))
	if !r.MayAct() {
		d.t.Fatalf("%+v", r.Decision())
	}
	return r, &pdp.Receipt{
		Redemption: r.ID(), ProposalDigest: a.Decision().ProposalDigest, Observer: "payments", Status: effect.StatusObserved,
		EffectID: "PAY-" + r.ID(), ObservedJSON: []byte(`{"supplier":"ACME-01","account":"ACME-GBP","amount_gbp":500,"state":"settled"}`),
	}
}

// verify tells an effect as the payment server.
func (d *desk) verify(r *pdp.Receipt) pdp.Verified {
	d.t.Helper()
	v, err := d.pdp.VerifyEffect(d.t.Context(), d.payments(), r)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

func TestVerifyEffect(t *testing.T) {
	with := func(old, new string) func(*desk, *pdp.Receipt) {
		return func(d *desk, r *pdp.Receipt) {
			text := strings.Replace(string(r.ObservedJSON), old, new, 1)
			if text == string(r.ObservedJSON) {
				d.t.Fatalf("%s has no %s", text, old)
			}
			r.ObservedJSON = []byte(text)
		}
	}
	for name, c := range map[string]struct {
		change func(*desk, *pdp.Receipt)
		want   writ.Code
	}{
		"as authorised":         {func(*desk, *pdp.Receipt) {}, writ.CodeEffectVerified},
		"an hour later":         {func(*desk, *pdp.Receipt) { time.Sleep(time.Hour) }, writ.CodeEffectVerified},
		"accepted":              {with("settled", "accepted"), writ.CodeEffectVerified},
		"another spelling":      {with("500", "5.0e2"), writ.CodeEffectVerified},
		"ten times the amount":  {with("500", "5000"), writ.CodePostconditionFailed},
		"another payee":         {with("ACME-01", "BOLT-02"), writ.CodePostconditionFailed},
		"another account":       {with("ACME-GBP", "ACME-BY-RAJ"), writ.CodePostconditionFailed},
		"failed":                {with("settled", "failed"), writ.CodePostconditionFailed},
		"the amount as text":    {with("500", `"500"`), writ.CodePostconditionFailed},
		"no amount":             {with(`"amount_gbp":500,`, ""), writ.CodePostconditionFailed},
		"a timeout":             {func(_ *desk, r *pdp.Receipt) { r.Status, r.EffectID, r.ObservedJSON = effect.StatusUnknown, "", nil }, writ.CodeUnknownOutcome},
		"nothing there":         {func(_ *desk, r *pdp.Receipt) { r.Status, r.EffectID, r.ObservedJSON = effect.StatusAbsent, "", nil }, writ.CodeUnknownOutcome},
		"confirmed, not seen":   {func(_ *desk, r *pdp.Receipt) { r.ObservedJSON = nil }, writ.CodeReceiptMismatch},
		"not JSON":              {func(_ *desk, r *pdp.Receipt) { r.ObservedJSON = []byte("confirmed") }, writ.CodeReceiptMismatch},
		"no effect_id":          {func(_ *desk, r *pdp.Receipt) { r.EffectID = "" }, writ.CodeReceiptMismatch},
		"for another proposal":  {func(_ *desk, r *pdp.Receipt) { r.ProposalDigest = canon.Sum([]byte("other")) }, writ.CodeReceiptMismatch},
		"for no proposal":       {func(_ *desk, r *pdp.Receipt) { r.ProposalDigest = canon.Digest{} }, writ.CodeReceiptMismatch},
		"from another observer": {func(_ *desk, r *pdp.Receipt) { r.Observer = "invoices" }, writ.CodeReceiptMismatch},
		"of no redemption":      {func(_ *desk, r *pdp.Receipt) { r.Redemption = "AAAAAAAAAAAAAAAAAAAAAAAAAA" }, writ.CodeReceiptMismatch},
		"of nothing":            {func(_ *desk, r *pdp.Receipt) { r.Redemption = "" }, writ.CodeReceiptMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				_, r := d.paid(d.proposal(small))
				good := *r
				c.change(d, r)
				v := d.verify(r)
				if v.Decision().Code != c.want || (v.Decision().Outcome == writ.Allow) != (c.want == writ.CodeEffectVerified) {
					t.Fatalf("%+v, want %s", v.Decision(), c.want)
				}
				settled := c.want == writ.CodeEffectVerified || c.want == writ.CodePostconditionFailed
				if kind, code, durable := d.last(); kind != "effect" || code != c.want || durable != settled {
					t.Errorf("recorded %s %s, durable %t", kind, code, durable)
				}
				if got := !v.Retry().Retries.IsZero(); got != (c.want == writ.CodeUnknownOutcome) {
					t.Errorf("retry: %+v", v.Retry())
				}
				// What is settled stays so, by the receipt that settled it; what is not
				// may yet be told.
				again := d.verify(&good)
				switch {
				case name == "accepted":
					if again.Decision().Code != writ.CodeReceiptMismatch {
						t.Errorf("told otherwise afterwards: %+v", again.Decision())
					}
				case c.want == writ.CodePostconditionFailed && again.Decision().Code != writ.CodeReceiptMismatch,
					c.want != writ.CodePostconditionFailed && again.Decision().Code != writ.CodeEffectVerified:
					t.Errorf("the good receipt afterwards: %+v", again.Decision())
				}
			})
		})
	}
}

// TestEffectCountsOnce: one effect is no evidence of two payments.
func TestEffectCountsOnce(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		_, first := d.paid(d.proposal(small))
		_, second := d.paid(d.proposal(small))
		second.EffectID = first.EffectID
		if v := d.verify(first); v.Decision().Code != writ.CodeEffectVerified {
			t.Fatalf("%+v", v.Decision())
		}
		if v := d.verify(second); v.Decision().Code != writ.CodeReceiptMismatch || v.Results() != nil {
			t.Errorf("%+v", v)
		}
		for name, caller := range d.world.Callers {
			v, err := d.pdp.VerifyEffect(t.Context(), caller, first)
			if want := map[bool]writ.Code{true: writ.CodeEffectVerified, false: writ.CodeReceiptMismatch}[name == "payments"]; err != nil || v.Decision().Code != want {
				t.Errorf("%s: %+v, %v; want %s", name, v.Decision(), err, want)
			}
		}
	})
}

// TestRetry: what nobody knows the outcome of may be tried again, under the
// same idempotency key; nothing else may.
func TestRetry(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(small)
		redeemed, receipt := d.paid(p)
		lost := *receipt
		lost.Status, lost.EffectID, lost.ObservedJSON = effect.StatusUnknown, "", nil
		v := d.verify(&lost)
		if v.Retry().IdempotencyKey != redeemed.IdempotencyKey() || v.Retry().Retries != receipt.ProposalDigest {
			t.Fatalf("%+v", v.Retry())
		}

		again := d.proposal(small)
		again.Retries = v.Retry().Retries
		g := d.granted(again)
		if g.IdempotencyKey != redeemed.IdempotencyKey() {
			t.Error("the retry has another idempotency key")
		}
		second, _ := d.paid(again)
		if second.IdempotencyKey() != redeemed.IdempotencyKey() {
			t.Error("redeemed under another idempotency key")
		}
		// A retry of the retry keeps it, too.
		third := d.proposal(small)
		third.Retries = second.Decision().ProposalDigest
		if g := d.granted(third); g.IdempotencyKey != redeemed.IdempotencyKey() {
			t.Error("the second retry has another idempotency key")
		}

		other := d.proposal("a director will do")
		other.Retries = v.Retry().Retries
		unknown := d.proposal(small)
		unknown.Retries = canon.Sum([]byte("nobody's"))
		for name, q := range map[string]*writ.Proposal{"of another call": other, "of nothing": unknown} {
			if a := d.decide(q); a.Allowed() || a.Grant().Token != "" {
				t.Errorf("%s: %+v", name, a.Decision())
			}
		}
		if a := d.decide(unknown); a.Decision().Code != writ.CodeGrantMismatch {
			t.Errorf("of nothing: %+v", a.Decision())
		}
		if v := d.verify(receipt); v.Decision().Code != writ.CodeEffectVerified {
			t.Fatalf("%+v", v.Decision())
		}
		done := d.proposal(small)
		done.Retries = receipt.ProposalDigest
		if a := d.decide(done); a.Allowed() || a.Decision().Code != writ.CodeGrantAlreadyUsed {
			t.Errorf("of what is done: %+v", a.Decision())
		}
	})
}

// TestEffectUnrecorded: what can't be recorded is not verified; the same
// receipt may come again.
func TestEffectUnrecorded(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		_, r := d.paid(d.proposal(small))
		d.log.fail = errors.New("disk full")
		if v := d.verify(r); v.Decision().Code != writ.CodeAuditUnavailable || v.Results() != nil {
			t.Errorf("%+v", v)
		}
		d.log.fail = nil
		if v := d.verify(r); v.Decision().Code != writ.CodeEffectVerified {
			t.Errorf("%+v", v.Decision())
		}
		if _, err := d.pdp.VerifyEffect(t.Context(), nil, r); err == nil {
			t.Error("nobody's receipt")
		}
		if _, err := d.pdp.VerifyEffect(t.Context(), d.payments(), nil); err == nil {
			t.Error("no receipt")
		}
	})
}
