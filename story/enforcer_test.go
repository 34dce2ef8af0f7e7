package story_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/story"
)

// answers is a decision point that gives prepared answers.
type answers struct {
	writv1.EnforcementServiceClient
	errs     []error // before answer
	answer   *writv1.RedeemResponse
	attempts []string
}

func (a *answers) Redeem(_ context.Context, r *writv1.RedeemRequest, _ ...grpc.CallOption) (*writv1.RedeemResponse, error) {
	a.attempts = append(a.attempts, r.GetRedemptionId())
	if i := len(a.attempts) - 1; i < len(a.errs) {
		return nil, a.errs[i]
	}
	return a.answer, nil
}

// TestRedeem: a server acts on REDEEMED, in time, and on nothing else; and one
// attempt has one name.
func TestRedeem(t *testing.T) {
	t.Parallel()
	lost, no := status.Error(codes.Unavailable, "lost"), status.Error(codes.PermissionDenied, "no")
	answer := func(outcome writv1.Outcome, code string, left time.Duration) *writv1.RedeemResponse {
		return &writv1.RedeemResponse{Decision: &writv1.Decision{Outcome: outcome, Code: code}, ActBefore: timestamppb.New(time.Now().Add(left))}
	}
	const allow, deny = writv1.Outcome_OUTCOME_ALLOW, writv1.Outcome_OUTCOME_DENY
	for _, c := range []struct {
		name     string
		errs     []error
		answer   *writv1.RedeemResponse
		attempts int
		acts     bool
		code     string // of a refusal
	}{
		{name: "redeemed", answer: answer(allow, "REDEEMED", time.Hour), attempts: 1, acts: true},
		{name: "the first answer is lost", errs: []error{lost}, answer: answer(allow, "REDEEMED", time.Hour), attempts: 2, acts: true},
		{name: "all are lost", errs: []error{lost, lost, lost}, answer: answer(allow, "REDEEMED", time.Hour), attempts: 3},
		{name: "an error that is final", errs: []error{no}, answer: answer(allow, "REDEEMED", time.Hour), attempts: 1},
		{name: "denied", answer: answer(deny, "GRANT_REVOKED", time.Hour), attempts: 1, code: "GRANT_REVOKED"},
		{name: "denied, with the code of a success", answer: answer(deny, "REDEEMED", time.Hour), attempts: 1, code: "REDEEMED"},
		{name: "allowed, and not redeemed", answer: answer(allow, "ALLOW", time.Hour), attempts: 1, code: "ALLOW"},
		{name: "an answer without a decision", answer: &writv1.RedeemResponse{}, attempts: 1, code: ""},
		{name: "too late", answer: answer(allow, "REDEEMED", -time.Second), attempts: 1, code: "GRANT_EXPIRED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pdp := &answers{errs: c.errs, answer: c.answer}
			e := story.Enforcer{PDP: pdp, Server: "payments"}
			r, err := e.Redeem(t.Context(), "create_payment", json.RawMessage(`{}`), &writv1.Principal{Subject: "raj"}, "grant")
			if (err == nil) != c.acts || (r != nil) != c.acts || len(pdp.attempts) != c.attempts {
				t.Fatalf("%v %v after %d attempts", r, err, len(pdp.attempts))
			}
			if refused, ok := errors.AsType[*story.Refused](err); ok && refused.Code != c.code || !ok && c.code != "" {
				t.Errorf("%v, want %q", err, c.code)
			}
			for _, id := range pdp.attempts {
				if raw, err := base64.RawURLEncoding.DecodeString(id); err != nil || len(raw) != 16 || id != pdp.attempts[0] {
					t.Errorf("the attempts are named %q", pdp.attempts)
				}
			}
		})
	}
}

func TestParsePayment(t *testing.T) {
	t.Parallel()
	for amount, want := range map[string]int64{"900": 90000, "900.00": 90000, "9e2": 90000, "0.01": 1, "899.99": 89999, "900.001": 0, "1e30": 0, `"900"`: 90000, "null": 0, "{}": 0} {
		p, err := story.ParsePayment(json.RawMessage(`{"invoice":"I","supplier":"S","account":"A","amount_gbp":` + amount + `,"currency":"GBP","reason":"r"}`))
		if (err == nil) != (want != 0) {
			t.Errorf("%s: %v", amount, err)
		}
		if got := p; want != 0 && got != (story.Payment{Invoice: "I", Supplier: "S", Account: "A", Pence: want, Currency: "GBP", Reason: "r"}) {
			t.Errorf("%s is %+v", amount, got)
		}
	}
}

// TestLedger: a key is one payment.
func TestLedger(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b?#%.db")
	l, err := story.OpenLedger(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	defer l.Close()
	p := story.Payment{ID: "1", Key: "k", Invoice: "I", Supplier: "S", Account: "A", Pence: 5, Currency: "GBP", Reason: "r"}
	if _, err := l.ByKey(t.Context(), "k"); !errors.Is(err, story.ErrNotFound) {
		t.Error(err)
	}
	first, err := l.Pay(t.Context(), p)
	if err != nil || first.ID != "1" || first.State != "accepted" {
		t.Fatalf("%+v %v", first, err)
	}
	p.ID = "2"
	if again, err := l.Pay(t.Context(), p); err != nil || again != first {
		t.Errorf("%+v %v", again, err)
	}
	p.Pence = 6
	if other, err := l.Pay(t.Context(), p); !errors.Is(err, story.ErrOther) {
		t.Errorf("%+v %v", other, err)
	}
	if _, err := l.ByID(t.Context(), "2"); !errors.Is(err, story.ErrNotFound) {
		t.Error(err)
	}
}
