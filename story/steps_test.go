package story_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// invoice is what the story is about: £900 that are owed on INV-1012.
func invoice() map[string]any {
	return map[string]any{
		"invoice": "INV-1012", "supplier": "ACME-01", "account": "ACME-GBP", "amount_gbp": 900.00, "currency": "GBP", "reason": "Invoice 1012",
	}
}

// evidence is what the host has seen: the ledger, the master and the accounts of
// the ERP, and the amount on the document and on the purchase order.
func evidence(t *testing.T, arguments map[string]any) []*writv1.Evidence {
	t.Helper()
	seen := timestamppb.New(time.Now().Add(-time.Minute))
	var out []*writv1.Evidence
	for _, e := range []struct{ argument, kind, reference string }{
		{"invoice", "system_of_record", "erp:ledger"},
		{"supplier", "system_of_record", "erp:suppliers"},
		{"account", "system_of_record", "erp:accounts"},
		{"amount_gbp", "document", "inbox:1012.pdf"},
		{"amount_gbp", "system_of_record", "erp:purchase-orders"},
	} {
		value, err := json.Marshal(arguments[e.argument])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, &writv1.Evidence{Argument: "/" + e.argument, ValueJson: string(value), Kind: e.kind, Reference: e.reference, ObservedAt: seen})
	}
	return out
}

// propose makes a proposal to pay.
func (w *world) propose(arguments map[string]any) *writv1.Proposal {
	w.t.Helper()
	p, err := w.host.Propose("create_payment", arguments, "pay-invoice", evidence(w.t, arguments))
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// decide asks, and holds the answer against a code.
func (w *world) decide(p *writv1.Proposal, want string) *writv1.DecideResponse {
	w.t.Helper()
	r, err := w.host.Decide(w.t.Context(), p)
	if err != nil {
		w.t.Fatal(err)
	}
	w.is(r.GetDecision(), want)
	if granted := r.GetGrant().GetToken() != ""; granted != (want == "ALLOW") {
		w.t.Fatalf("%s comes with a grant: %t", want, granted)
	}
	return r
}

func (w *world) is(d *writv1.Decision, want string) {
	w.t.Helper()
	if d.GetCode() != want {
		w.t.Fatalf("%s, want %s: %s", d.GetCode(), want, d.GetExplanation())
	}
	if allowed := d.GetOutcome() == writv1.Outcome_OUTCOME_ALLOW; allowed != slices.Contains([]string{"ALLOW", "REDEEMED", "EFFECT_VERIFIED"}, want) {
		w.t.Fatalf("%s has the outcome %s", want, d.GetOutcome())
	}
}

// approve has a person look at a review and agree to it, and holds what comes of
// that against a code.
func (w *world) approve(review, who, want string) *writv1.ApproveResponse {
	w.t.Helper()
	shown, err := w.reviews.GetReview(w.t.Context(), &writv1.GetReviewRequest{Id: review})
	if err != nil {
		w.t.Fatal(err)
	}
	keys, err := w.enforcer.GetKeys(w.t.Context(), &writv1.GetKeysRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.reviews.Approve(w.t.Context(), &writv1.ApproveRequest{
		Id: review, ReviewDigest: shown.GetReview().GetReviewDigest(), Approver: &writv1.Principal{Issuer: issuer, Subject: who},
		AccessToken: w.token(who, keys.GetIssuer(), "reviews"),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.is(r.GetDecision(), want)
	if signed := r.GetApproval() != ""; signed != (want == "ALLOW") {
		w.t.Fatalf("%s comes with an approval: %t", want, signed)
	}
	return r
}

// permitted is the story until the grant: £900 are proposed, Ann agrees, and the
// same proposal is allowed.
func (w *world) permitted() (p *writv1.Proposal, granted *writv1.DecideResponse, approval string) {
	w.t.Helper()
	p = w.propose(invoice())
	granted, approval = w.agreed(p)
	return p, granted, approval
}

// agreed has a proposal decided, agreed to by Ann, and decided again.
func (w *world) agreed(p *writv1.Proposal) (granted *writv1.DecideResponse, approval string) {
	w.t.Helper()
	asked := w.decide(p, "APPROVAL_REQUIRED")
	approval = w.approve(asked.GetReview().GetId(), "ann", "ALLOW").GetApproval()
	return w.decide(p, "ALLOW"), approval
}

// paid is what the payment server answers.
type paid struct {
	PaymentID string `json:"payment_id"`
	Effect    string // code of what came of the receipt
	Code      string // why nothing was done
}

// pay calls create_payment.
func (w *world) pay(arguments, grant string) paid {
	w.t.Helper()
	r, err := w.host.Call(w.t.Context(), "create_payment", arguments, grant)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, &w.payments.errs)
	}
	out := read[paid](w.t, r)
	if r.IsError != (out.Code != "") || r.IsError != (out.PaymentID == "") {
		w.t.Fatalf("an error: %t, and %+v", r.IsError, out)
	}
	return out
}

func read[T any](t *testing.T, r *mcp.CallToolResult) (out T) {
	t.Helper()
	text, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// dies calls create_payment at a server that dies of it.
func (w *world) dies(arguments, grant string) {
	w.t.Helper()
	if r, err := w.host.Call(w.t.Context(), "create_payment", arguments, grant); err == nil {
		w.t.Fatalf("it answers %+v", r)
	}
	if code := w.payments.wait(); code != 3 {
		w.t.Fatalf("it ended with %d\n%s", code, &w.payments.errs)
	}
	_ = w.host.Close() // its server is gone
}

// row is a payment as the ledger has it.
type row struct {
	Invoice, Supplier, Account string
	Pence                      int64
	Currency, State, Key       string
}

// the900 is the story's payment.
func the900(key string) row {
	return row{"INV-1012", "ACME-01", "ACME-GBP", 90000, "GBP", "accepted", key}
}

// holds compares the ledger with what it must hold, by a look of its own into
// the database.
func (w *world) holds(want ...row) {
	w.t.Helper()
	var got []row
	w.query(`SELECT invoice, supplier, account, pence, currency, state, idempotency_key FROM payments ORDER BY rowid`, func(rows *sql.Rows) error {
		var r row
		err := rows.Scan(&r.Invoice, &r.Supplier, &r.Account, &r.Pence, &r.Currency, &r.State, &r.Key)
		got = append(got, r)
		return err
	})
	if !slices.Equal(got, want) {
		w.t.Errorf("the ledger holds %+v, want %+v", got, want)
	}
}

func (w *world) query(text string, each func(*sql.Rows) error) {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+w.ledger+"?_pragma=busy_timeout(10000)")
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(w.t.Context(), text)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
}

// unknown tells, in the place of a payment server that is dead, that nobody can
// look: what came of the redemption that it left open is unknown.
func (w *world) unknown() *writv1.VerifyEffectResponse {
	w.t.Helper()
	var id, digest string
	w.query(`SELECT id, proposal_digest FROM redemptions WHERE outcome = ''`, func(rows *sql.Rows) error { return rows.Scan(&id, &digest) })
	r, err := w.enforcer.VerifyEffect(w.t.Context(), &writv1.VerifyEffectRequest{
		Redemption: id, ProposalDigest: digest, Observer: "payments", Status: writv1.EffectStatus_EFFECT_STATUS_UNKNOWN,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// retried is a new proposal of the same call, which says what it retries.
func (w *world) retried(retry *writv1.Retry) *writv1.Proposal {
	w.t.Helper()
	p := w.propose(invoice())
	p.Retries = retry.GetRetries()
	return p
}

// changed is a proposal with other arguments, and otherwise to the byte the
// same.
func (w *world) changed(p *writv1.Proposal, arguments map[string]any, approvals ...string) *writv1.Proposal {
	w.t.Helper()
	text, err := json.Marshal(arguments)
	if err != nil {
		w.t.Fatal(err)
	}
	out := proto.CloneOf(p)
	out.ArgumentsJson, out.Evidence, out.Approvals = string(text), evidence(w.t, arguments), approvals
	return out
}

// recorded ends the decision point, verifies its log, and compares the records
// about payments with what must have happened: kind, code and caller of each.
func (w *world) recorded(want ...string) {
	w.t.Helper()
	w.pdp.stop()
	for _, command := range [][]string{{"audit", "verify"}, {"audit", "export"}} {
		out, err := exec.Command(programs.pdp, append(command, "--data", w.data)...).Output()
		if err != nil {
			w.t.Fatalf("%v: %v\n%s", command, err, out)
		}
		if command[1] == "verify" {
			continue
		}
		var got []string
		for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
			var r struct{ Kind, Code, Caller, Tool string }
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				w.t.Fatal(err)
			}
			if r.Tool == "create_payment" {
				got = append(got, r.Kind+" "+r.Code+" by "+r.Caller)
			}
		}
		if !slices.Equal(got, want) {
			w.t.Errorf("the log has\n%q, want\n%q", got, want)
		}
	}
}
