package effect_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
)

// lab is verify_effect of the Python lab, for its payment tool: what it says of
// a receipt whose members have the types that it expects.
func lab(sameProposal bool, status string, recipient, seenRecipient string, amount, seenAmount float64) writ.Code {
	switch {
	case !sameProposal:
		return "RECEIPT_MISMATCH"
	case status != "confirmed":
		return "UNKNOWN_OUTCOME"
	case recipient != seenRecipient || amount != seenAmount:
		return "POSTCONDITION_FAILED"
	}
	return "EFFECT_VERIFIED"
}

// TestLab compares with the lab over everything that it can express.
func TestLab(t *testing.T) {
	recipients, amounts := []string{"ACME-SUPPLIER-01", "ACME-SUPPLIER-02", ""}, []float64{900, 900.01, 9000, 0, -1}
	statuses := map[string]effect.Status{"confirmed": effect.StatusObserved, "timeout": effect.StatusUnknown, "rejected": effect.StatusAbsent}
	cases := 0
	for _, recipient := range recipients {
		for _, seenRecipient := range recipients {
			for _, amount := range amounts {
				for _, seenAmount := range amounts {
					for word, status := range statuses {
						for _, same := range []bool{true, false} {
							p := plan(is("/recipient", string(canon.AppendString(nil, recipient))), is("/amount_gbp", string(canon.AppendFloat(nil, amount))))
							r := seen(fmt.Sprintf(`{"recipient":%q,"amount_gbp":%v}`, seenRecipient, seenAmount))
							if r.Status = status; status != effect.StatusObserved {
								r.Observed, r.EffectID = nil, ""
							}
							if !same {
								r.ProposalDigest[0] ^= 1
							}
							want := lab(same, word, recipient, seenRecipient, amount, seenAmount)
							if got := effect.Compare(p, r); got.Code != want {
								t.Errorf("%v %s %q %q %v %v: %s, the lab says %s", same, word, recipient, seenRecipient, amount, seenAmount, got.Code, want)
							}
							cases++
						}
					}
				}
			}
		}
	}
	if cases != 3*3*5*5*3*2 {
		t.Errorf("%d cases", cases)
	}
}

// decimalText writes n ten-thousandths in one of the ways in which JSON may.
func decimalText(r *rand.Rand, n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	switch r.IntN(4) {
	case 0:
		return fmt.Sprintf("%s%d.%04d", sign, n/10000, n%10000)
	case 1:
		return fmt.Sprintf("%s%de-4", sign, n)
	case 2:
		return fmt.Sprintf("%s%d.%04d00", sign, n/10000, n%10000)
	}
	return fmt.Sprintf("%s%d.%04dE+0", sign, n/10000, n%10000)
}

// TestTolerance compares with whole numbers of ten-thousandths.
func TestTolerance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	verified := 0
	for range 20000 {
		want := r.Int64N(2_000_000) - 1_000_000
		tolerance := r.Int64N(3)
		if r.IntN(2) == 0 {
			tolerance = r.Int64N(1_000_000)
		}
		found := want + r.Int64N(2*tolerance+3) - tolerance - 1
		check := within("/n", decimalText(r, want), fmt.Sprintf("%d.%04d", tolerance/10000, tolerance%10000))
		code := effect.Compare(plan(check), seen(`{"n":`+decimalText(r, found)+`}`)).Code
		expected := writ.CodePostconditionFailed
		if d := found - want; -tolerance <= d && d <= tolerance {
			expected = writ.CodeEffectVerified
			verified++
		}
		if code != expected {
			t.Fatalf("%d within %d of %d: %s", found, tolerance, want, code)
		}
	}
	if verified < 1000 || verified > 19500 {
		t.Errorf("%d of 20000 verified: the cases are one-sided", verified)
	}
}

// TestOneMoreCheck: another postcondition never makes a verified effect of one
// that was not, nor an unfailed one of a failed one; and their order does not
// matter.
func TestOneMoreCheck(t *testing.T) {
	all := []effect.Expectation{
		is("/a", `1`), is("/a", `2`), is("/a", `{`), present("/b", true), present("/c", true), present("/c", false),
		among("/a", `1`, `2`), among("/a", `3`), within("/a", `2`, "1"), within("/a", `2`, "0.5"), {At: "/a"},
	}
	observed := seen(`{"a":1,"b":"x"}`)
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		var checks []effect.Expectation
		for range 1 + r.IntN(4) {
			checks = append(checks, all[r.IntN(len(all))])
		}
		before := effect.Compare(plan(checks...), observed)
		more := append(checks[:len(checks):len(checks)], all[r.IntN(len(all))])
		r.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
		after := effect.Compare(plan(more...), observed)
		if after.Code == writ.CodeEffectVerified && before.Code != writ.CodeEffectVerified {
			t.Fatalf("%+v: %s, but with less %s", more, after.Code, before.Code)
		}
		if before.Code == writ.CodePostconditionFailed && after.Code != writ.CodePostconditionFailed {
			t.Fatalf("%+v: %s, but with less %s", more, after.Code, before.Code)
		}
	}
}

// FuzzCompare: no receipt and no plan of a ledger panics or is verified without
// every postcondition having been.
func FuzzCompare(f *testing.F) {
	f.Add(`{"to":"ACME","n":900}`, "pay-1", uint8(1), "/n", `900`, "", "")
	f.Add(`{"n":900.01}`, "pay-1", uint8(1), "/n", `900`, "0.01", "")
	f.Add(`{"n":1e308}`, "p", uint8(1), "/n", `-1e308`, "999999999999999.9999", "")
	f.Add(`{"s":[{"a":null}]}`, "p", uint8(1), "/s/0/a", "", "", `"x"`)
	f.Add(``, "", uint8(2), "/s", `1`, "", "")
	f.Add(`{"a":1,"A":2}`, "\u202e", uint8(1), "/~01", `{`, ".", `]`)
	f.Add(`{"to":"ACME","id":1}`, "p", uint8(1), "/to", canon.Sum([]byte(`"ACME"`)).String(), "1", "")
	f.Fuzz(func(t *testing.T, observed, id string, status uint8, at, equals, tolerance, in string) {
		check := effect.Expectation{At: at, Equals: equals, Tolerance: tolerance}
		if in != "" {
			check.In = []string{in}
		}
		p := plan(check, present("/id", true))
		r := seen(observed)
		r.EffectID, r.Status = id, effect.Status(status)
		got := effect.Compare(p, r)
		switch got.Code {
		case writ.CodeEffectVerified:
			if len(got.Checks) != 2 || got.Checks[0].Standing != effect.Verified || got.Checks[1].Standing != effect.Verified {
				t.Fatalf("verified: %+v", got)
			}
			if _, err := canon.ParseObject([]byte(observed)); err != nil || id == "" || r.Status != effect.StatusObserved {
				t.Fatalf("verified: %q %q %d", observed, id, status)
			}
		case writ.CodePostconditionFailed, writ.CodeUnknownOutcome:
			if len(got.Checks) != 2 {
				t.Fatalf("%+v", got)
			}
		case writ.CodeReceiptMismatch:
			if got.Checks != nil {
				t.Fatalf("%+v", got)
			}
		default:
			t.Fatalf("%+v", got)
		}
	})
}
