package pdp_test

import (
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/pdp"
)

// TestAttemptIsOfOne: a redemption_id that comes again with anything else, be it
// the proposal, the grant, the call or who redeems, repeats nothing.
func TestAttemptIsOfOne(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		d.rebuild("policies/1-who.cedar", func(s string) string {
			return s + "\n@id(\"gateway\")\npermit (principal == Caller::\"files\", action in [Action::\"pdp:Redeem\", Action::\"pdp:VerifyEffect\"], resource == Server::\"payments\");\n"
		})
		p := d.proposal(small)
		a, b := d.granted(p), d.granted(p)
		first := redemption(a, p)
		redeem := func(caller string, r *pdp.Redemption) pdp.Redeemed {
			t.Helper()
			out, err := d.pdp.Redeem(t.Context(), d.world.Callers[caller], r)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		done := redeem("payments", first)
		if !done.MayAct() || done.Repeated() {
			t.Fatalf("%+v", done.Decision())
		}
		same := func(change func(r *pdp.Redemption)) *pdp.Redemption {
			r := *first
			change(&r)
			return &r
		}
		for name, c := range map[string]struct {
			caller string
			r      *pdp.Redemption
			want   writ.Code
		}{
			"by another who redeems for the server": {"files", first, writ.CodeGrantAlreadyUsed},
			"with the proposal's other grant":       {"payments", same(func(r *pdp.Redemption) { r.Grant = b.Token }), writ.CodeGrantAlreadyUsed},
			"with another amount":                   {"payments", same(func(r *pdp.Redemption) { r.ArgumentsJSON = d.proposal("a director will do").ArgumentsJSON }), writ.CodeGrantMismatch},
			"as another attempt":                    {"payments", same(func(r *pdp.Redemption) { r.Attempt = "AAAAAAAAAAAAAAAAAAAAAA" }), writ.CodeGrantAlreadyUsed},
		} {
			if got := redeem(c.caller, c.r); got.MayAct() || got.Decision().Code != c.want {
				t.Errorf("%s: %+v, want %s", name, got.Decision(), c.want)
			}
		}
		// For another proposal of the same call it is another attempt, with an
		// idempotency key of its own: two equal payments may both be meant.
		q := d.proposal(small)
		next := redemption(d.granted(q), q)
		next.Attempt = first.Attempt
		second := redeem("files", next)
		if !second.MayAct() || second.Repeated() || second.ID() == done.ID() || second.IdempotencyKey() == done.IdempotencyKey() {
			t.Errorf("for another proposal: %+v, repeated %t", second.Decision(), second.Repeated())
		}
		if again := redeem("payments", first); !again.MayAct() || !again.Repeated() || again.ID() != done.ID() || again.IdempotencyKey() != done.IdempotencyKey() {
			t.Errorf("again: %+v", again)
		}
		// Whoever speaks for the observer may tell; one effect counts once all the same.
		tell := func(caller, redemption string, of writ.Decision) writ.Code {
			v, err := d.pdp.VerifyEffect(t.Context(), d.world.Callers[caller], &pdp.Receipt{
				Redemption: redemption, ProposalDigest: of.ProposalDigest, Observer: "payments", Status: effect.StatusObserved,
				EffectID: "PAY-1", ObservedJSON: []byte(`{"supplier":"ACME-01","account":"ACME-GBP","amount_gbp":500,"state":"settled"}`),
			})
			if err != nil {
				t.Fatal(err)
			}
			return v.Decision().Code
		}
		for _, c := range []struct {
			caller string
			of     pdp.Redeemed
			want   writ.Code
		}{
			{"invoices", done, writ.CodeReceiptMismatch}, {"files", done, writ.CodeEffectVerified}, {"payments", done, writ.CodeEffectVerified},
			{"payments", second, writ.CodeReceiptMismatch}, {"files", second, writ.CodeReceiptMismatch},
		} {
			if got := tell(c.caller, c.of.ID(), c.of.Decision()); got != c.want {
				t.Errorf("%s tells of %s: %s, want %s", c.caller, c.of.ID(), got, c.want)
			}
		}
	})
}
