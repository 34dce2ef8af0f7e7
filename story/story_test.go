package story_test

import (
	"testing"

	"github.com/writ-pdp/writ/story"
)

// The records of what most tests begin with.
var untilGrant = []string{"decision APPROVAL_REQUIRED by ap-host", "approval ALLOW by review-desk", "decision ALLOW by ap-host"}

func after(more ...string) []string { return append(append([]string{}, untilGrant...), more...) }

// TestPaid is the story as it should go: £900 are proposed, somebody else
// agrees, the grant is redeemed, the payment is written once, read back, and is
// what was authorised.
func TestPaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.NoFault)
	p, granted, _ := w.permitted()
	if plan := granted.GetGrant().GetEvidencePlan(); plan.GetObserver() != "payments" || plan.GetTool() != "get_payment" || len(plan.GetPostconditions()) != 4 {
		t.Errorf("the plan is %v", plan)
	}
	out := w.pay(p.GetArgumentsJson(), granted.GetGrant().GetToken())
	if out.Effect != "EFFECT_VERIFIED" {
		t.Errorf("%+v", out)
	}
	w.holds(the900(granted.GetGrant().GetIdempotencyKey()))

	// The host reads it back, too: a call that changes nothing needs no grant.
	look, err := w.host.Propose("get_payment", map[string]any{"payment_id": out.PaymentID}, "pay-invoice", nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.host.Decide(t.Context(), look); err != nil || r.GetDecision().GetCode() != "ALLOW" || r.GetGrant() != nil {
		t.Fatalf("%v %v", r, err)
	}
	seen, err := w.host.Call(t.Context(), "get_payment", look.GetArgumentsJson(), "")
	if err != nil {
		t.Fatal(err)
	}
	type payment struct {
		Supplier, Account string
		Amount            float64 `json:"amount_gbp"`
		State             string
	}
	if got, want := read[payment](t, seen), (payment{"ACME-01", "ACME-GBP", 900, "accepted"}); got != want {
		t.Errorf("the payment is %+v, want %+v", got, want)
	}
	w.recorded(after("redemption REDEEMED by payments", "effect EFFECT_VERIFIED by payments")...)
}

// TestNoGrant: a payment that nobody has decided, or whose grant is somebody's
// invention, is not made.
func TestNoGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.NoFault)
	p := w.propose(invoice())
	w.decide(p, "APPROVAL_REQUIRED")
	if out := w.pay(p.GetArgumentsJson(), ""); out.Code != "GRANT_REQUIRED" {
		t.Errorf("%+v", out)
	}
	if out := w.pay(p.GetArgumentsJson(), "trust.me.please"); out.Code != "GRANT_INVALID" {
		t.Errorf("%+v", out)
	}
	w.holds()
	w.recorded("decision APPROVAL_REQUIRED by ap-host", "redemption GRANT_REQUIRED by payments", "redemption GRANT_INVALID by payments")
}

// TestAmountChanged: what people agreed to, and what was allowed, is £900 and
// nothing else.
func TestAmountChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.NoFault)
	p, granted, approval := w.permitted()
	less := invoice()
	less["amount_gbp"] = 899.99
	other := w.changed(p, less, approval)
	w.decide(other, "STALE_APPROVAL")
	if out := w.pay(other.GetArgumentsJson(), granted.GetGrant().GetToken()); out.Code != "GRANT_MISMATCH" {
		t.Errorf("%+v", out)
	}
	w.holds()
	w.recorded(after("decision STALE_APPROVAL by ap-host", "redemption GRANT_MISMATCH by payments")...)
}

// TestSelfApproval: who proposes does not agree.
func TestSelfApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.NoFault)
	p := w.propose(invoice())
	asked := w.decide(p, "APPROVAL_REQUIRED")
	w.approve(asked.GetReview().GetId(), "raj", "SELF_APPROVAL")
	w.approve(asked.GetReview().GetId(), "olga", "APPROVER_DENIED") // another clerk
	w.decide(p, "APPROVAL_REQUIRED")
	w.holds()
	w.recorded("decision APPROVAL_REQUIRED by ap-host", "approval SELF_APPROVAL by review-desk", "approval APPROVER_DENIED by review-desk",
		"decision APPROVAL_REQUIRED by ap-host")
}

// TestPayeeSwapped: another payee is another call, whoever agreed to the first.
func TestPayeeSwapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.NoFault)
	p, granted, approval := w.permitted()
	bolt, unheard := invoice(), invoice()
	bolt["supplier"], bolt["account"] = "BOLT-02", "BOLT-GBP"
	unheard["account"] = "ACME-UNHEARD"
	theirs := w.changed(p, bolt, approval)
	w.decide(theirs, "INVOICE_MISMATCH")
	w.decide(w.changed(p, unheard, approval), "ACCOUNT_UNCONFIRMED")
	if out := w.pay(theirs.GetArgumentsJson(), granted.GetGrant().GetToken()); out.Code != "GRANT_MISMATCH" {
		t.Errorf("%+v", out)
	}
	w.holds()
	w.recorded(after("decision INVOICE_MISMATCH by ap-host", "decision ACCOUNT_UNCONFIRMED by ap-host", "redemption GRANT_MISMATCH by payments")...)
}

// TestAccountChangedAfterApproval: Ann agreed to pay to the account as it was.
func TestAccountChangedAfterApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.NoFault)
	p := w.propose(invoice())
	asked := w.decide(p, "APPROVAL_REQUIRED")
	w.approve(asked.GetReview().GetId(), "ann", "ALLOW")
	w.changeEntity("entities/suppliers.json", "ACME-GBP", "2024-01-15", "2024-06-01")
	again := w.decide(p, "STALE_APPROVAL")
	if again.GetDecision().GetReviewDigest() == asked.GetDecision().GetReviewDigest() {
		t.Error("the review is still the one that Ann agreed to")
	}
	w.holds()
	// Whoever looks at it as it is now may agree to that.
	w.approve(again.GetReview().GetId(), "ann", "ALLOW")
	granted := w.decide(p, "ALLOW")
	if out := w.pay(p.GetArgumentsJson(), granted.GetGrant().GetToken()); out.Effect != "EFFECT_VERIFIED" {
		t.Errorf("%+v", out)
	}
	w.holds(the900(granted.GetGrant().GetIdempotencyKey()))
	w.recorded("decision APPROVAL_REQUIRED by ap-host", "approval ALLOW by review-desk", "decision STALE_APPROVAL by ap-host",
		"approval ALLOW by review-desk", "decision ALLOW by ap-host", "redemption REDEEMED by payments", "effect EFFECT_VERIFIED by payments")
}

// TestAccountChangedAfterGrant: a grant stands on the world that it was decided
// in, as far as it matters.
func TestAccountChangedAfterGrant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, id, from, to, code string
	}{
		{"nobody has confirmed it any more", "ACME-GBP", `"confirmed": true`, `"confirmed": false`, "GRANT_REVOKED"},
		{"it was changed", "ACME-GBP", "2024-01-15", "2024-06-01", "GRANT_REVOKED"},
		{"the supplier is blocked", "ACME-01", `"status": "active"`, `"status": "blocked"`, "GRANT_REVOKED"},
		{"another supplier is blocked", "EURO-05", `"status": "active"`, `"status": "blocked"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, story.NoFault)
			p, granted, _ := w.permitted()
			w.changeEntity("entities/suppliers.json", c.id, c.from, c.to)
			out := w.pay(p.GetArgumentsJson(), granted.GetGrant().GetToken())
			if out.Code != c.code {
				t.Errorf("%+v, want %q", out, c.code)
			}
			if c.code != "" {
				w.holds()
				w.recorded(after("redemption " + c.code + " by payments")...)
				return
			}
			w.holds(the900(granted.GetGrant().GetIdempotencyKey()))
			w.recorded(after("redemption REDEEMED by payments", "effect EFFECT_VERIFIED by payments")...)
		})
	}
}

// TestReplay: a grant is good once, and so is an approval.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.NoFault)
	p, granted, approval := w.permitted()
	if out := w.pay(p.GetArgumentsJson(), granted.GetGrant().GetToken()); out.Effect != "EFFECT_VERIFIED" {
		t.Fatalf("%+v", out)
	}
	once := the900(granted.GetGrant().GetIdempotencyKey())
	w.holds(once)

	// The same grant again.
	if out := w.pay(p.GetArgumentsJson(), granted.GetGrant().GetToken()); out.Code != "GRANT_ALREADY_USED" {
		t.Errorf("%+v", out)
	}
	// Another grant for the same proposal.
	again := w.decide(p, "ALLOW")
	if out := w.pay(p.GetArgumentsJson(), again.GetGrant().GetToken()); out.Code != "GRANT_ALREADY_USED" {
		t.Errorf("%+v", out)
	}
	// The same call as another proposal, with the approval of the first.
	another := w.propose(invoice())
	another.Approvals = []string{approval}
	w.decide(another, "STALE_APPROVAL")
	w.holds(once)
	w.recorded(after("redemption REDEEMED by payments", "effect EFFECT_VERIFIED by payments", "redemption GRANT_ALREADY_USED by payments",
		"decision ALLOW by ap-host", "redemption GRANT_ALREADY_USED by payments", "decision STALE_APPROVAL by ap-host")...)
}

// TestTenTimes: the server pays ten times what was authorised, and what is read
// back shows it.
func TestTenTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.TenTimes)
	p, granted, _ := w.permitted()
	if out := w.pay(p.GetArgumentsJson(), granted.GetGrant().GetToken()); out.Effect != "POSTCONDITION_FAILED" {
		t.Errorf("%+v", out)
	}
	wrong := the900(granted.GetGrant().GetIdempotencyKey())
	wrong.Pence = 900000
	w.holds(wrong)
	w.recorded(after("redemption REDEEMED by payments", "effect POSTCONDITION_FAILED by payments")...)
}

// TestDiesBeforeWriting: the grant is spent and nothing is paid. What came of it
// is unknown, and a retry, to which somebody agrees again, pays once.
func TestDiesBeforeWriting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.DieBeforeWriting)
	p, granted, _ := w.permitted()
	key := granted.GetGrant().GetIdempotencyKey()
	w.dies(p.GetArgumentsJson(), granted.GetGrant().GetToken())
	w.holds()
	outcome := w.unknown()
	w.is(outcome.GetDecision(), "UNKNOWN_OUTCOME")
	if got := outcome.GetRetry().GetIdempotencyKey(); got != key {
		t.Errorf("the retry would have the key %q, want %q", got, key)
	}

	// A server that is started again looks, and finds nothing.
	w.startPayments(story.NoFault, true)
	w.connect()
	w.holds()
	if out := w.pay(p.GetArgumentsJson(), granted.GetGrant().GetToken()); out.Code != "GRANT_ALREADY_USED" {
		t.Errorf("%+v", out)
	}
	retry := w.retried(outcome.GetRetry())
	regranted, _ := w.agreed(retry)
	if got := regranted.GetGrant().GetIdempotencyKey(); got != key {
		t.Errorf("the retry has the key %q, want %q", got, key)
	}
	if out := w.pay(retry.GetArgumentsJson(), regranted.GetGrant().GetToken()); out.Effect != "EFFECT_VERIFIED" {
		t.Errorf("%+v", out)
	}
	w.holds(the900(key))
	w.recorded(after("redemption REDEEMED by payments", "effect UNKNOWN_OUTCOME by payments", "effect UNKNOWN_OUTCOME by payments",
		"redemption GRANT_ALREADY_USED by payments", "decision APPROVAL_REQUIRED by ap-host", "approval ALLOW by review-desk", "decision ALLOW by ap-host",
		"redemption REDEEMED by payments", "effect EFFECT_VERIFIED by payments")...)
}

// TestDiesBeforeAnswering: the payment is made and nobody is told. A retry finds
// it under the same key, and pays nothing again.
func TestDiesBeforeAnswering(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.DieBeforeAnswering)
	p, granted, _ := w.permitted()
	key := granted.GetGrant().GetIdempotencyKey()
	w.dies(p.GetArgumentsJson(), granted.GetGrant().GetToken())
	w.holds(the900(key))
	outcome := w.unknown()
	w.is(outcome.GetDecision(), "UNKNOWN_OUTCOME")

	w.startPayments(story.NoFault, false)
	w.connect()
	retry := w.retried(outcome.GetRetry())
	regranted, _ := w.agreed(retry)
	if got := regranted.GetGrant().GetIdempotencyKey(); got != key {
		t.Errorf("the retry has the key %q, want %q", got, key)
	}
	if out := w.pay(retry.GetArgumentsJson(), regranted.GetGrant().GetToken()); out.Effect != "EFFECT_VERIFIED" {
		t.Errorf("%+v", out)
	}
	w.holds(the900(key))
	w.recorded(after("redemption REDEEMED by payments", "effect UNKNOWN_OUTCOME by payments", "decision APPROVAL_REQUIRED by ap-host",
		"approval ALLOW by review-desk", "decision ALLOW by ap-host", "redemption REDEEMED by payments", "effect EFFECT_VERIFIED by payments")...)
}

// TestRecovers: a server that is started again reads back what the one before
// did. Then there is nothing to try again.
func TestRecovers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, story.DieBeforeAnswering)
	p, granted, _ := w.permitted()
	w.dies(p.GetArgumentsJson(), granted.GetGrant().GetToken())
	outcome := w.unknown()
	w.is(outcome.GetDecision(), "UNKNOWN_OUTCOME")

	w.startPayments(story.NoFault, true)
	w.connect()
	retry := w.retried(outcome.GetRetry())
	asked := w.decide(retry, "APPROVAL_REQUIRED")
	w.approve(asked.GetReview().GetId(), "ann", "ALLOW")
	w.decide(retry, "GRANT_ALREADY_USED")
	w.holds(the900(granted.GetGrant().GetIdempotencyKey()))
	w.recorded(after("redemption REDEEMED by payments", "effect UNKNOWN_OUTCOME by payments", "effect EFFECT_VERIFIED by payments",
		"decision APPROVAL_REQUIRED by ap-host", "approval ALLOW by review-desk", "decision GRANT_ALREADY_USED by ap-host")...)
}
