package decide_test

import (
	"os"
	"strings"
	"testing"

	"github.com/writ-pdp/writ"
)

// constant is the name of a code's constant: CodeNoPermit.
func constant(code writ.Code) string {
	name := "Code"
	for part := range strings.SplitSeq(string(code), "_") {
		name += part[:1] + strings.ToLower(part[1:])
	}
	return name
}

// TestEveryCodeHasAFixture walks Writ's codes: each has a sentence, one
// control that owns it, an outcome, and a fixture that reaches it, here or in
// the tests of the package that owns it.
func TestEveryCodeHasAFixture(t *testing.T) {
	// Scenarios that TestCases decides.
	reached := map[writ.Code]bool{}
	for _, name := range archives(t) {
		for _, s := range loadCase(t, name).Scenarios {
			reached[s.Expect.Code] = true
		}
	}
	// No scenario can express these: a test does.
	for code, in := range map[writ.Code][2]string{
		writ.CodeSnapshotStale:       {"../pdp/pdp_test.go", "TestNoSnapshot"},
		writ.CodeRevisionUnavailable: {"../pdp/freshness_test.go", "TestDemanded"},
		writ.CodeAuditUnavailable:    {"../pdp/pdp_test.go", "TestUnrecorded"},
		writ.CodeRedeemed:            {"../pdp/redeem_test.go", "TestRedeem"},
		writ.CodeGrantRequired:       {"../pdp/redeem_test.go", "TestRedeemRefuses"},
		writ.CodeGrantInvalid:        {"../pdp/redeem_test.go", "TestRedeemRefuses"},
		writ.CodeGrantExpired:        {"../pdp/redeem_test.go", "TestRedeemRefuses"},
		writ.CodeGrantMismatch:       {"../pdp/redeem_test.go", "TestRedeemRefuses"},
		writ.CodeGrantAudience:       {"../pdp/redeem_test.go", "TestRedeemRefuses"},
		writ.CodeGrantAlreadyUsed:    {"../pdp/redeem_test.go", "TestRedeem"},
		writ.CodeGrantRevoked:        {"../pdp/redeem_test.go", "TestRedeemRefuses"},
		writ.CodeEffectVerified:      {"../pdp/effects_test.go", "TestVerifyEffect"},
		writ.CodeReceiptMismatch:     {"../pdp/effects_test.go", "TestVerifyEffect"},
		writ.CodeUnknownOutcome:      {"../pdp/effects_test.go", "TestVerifyEffect"},
		writ.CodePostconditionFailed: {"../pdp/effects_test.go", "TestVerifyEffect"},
		writ.CodeToolUnregistered:    {"decide_test.go", "TestUnregistered"},
		writ.CodeApprovalInvalid:     {"decide_test.go", "TestApprovalFaults"},
		writ.CodeStaleApproval:       {"decide_test.go", "TestApprovalFaults"},
		writ.CodeApprovalExpired:     {"decide_test.go", "TestApprovalFaults"},
	} {
		data, err := os.ReadFile(in[0])
		if err != nil {
			t.Fatal(err)
		}
		_, test, ok := strings.Cut(string(data), "\nfunc "+in[1]+"(")
		test, _, _ = strings.Cut(test, "\n}\n")
		reached[code] = ok && strings.Contains(test, "writ."+constant(code))
	}
	owners := map[writ.Control]bool{}
	for _, c := range writ.Controls {
		owners[c] = true
	}
	seen := map[writ.Code]bool{}
	stage := 0
	for _, info := range writ.Codes() {
		if seen[info.Code] {
			t.Errorf("%s is there twice", info.Code)
		}
		seen[info.Code] = true
		if !strings.HasSuffix(info.Doc, ".") || len(info.Doc) < 15 {
			t.Errorf("%s: %q is not a sentence", info.Code, info.Doc)
		}
		if got, ok := info.Code.Info(); !ok || got != info || info.Code.Control() != info.Control {
			t.Errorf("%s does not round trip: %+v", info.Code, got)
		}
		if err := writ.CheckBundleCode(info.Code); err == nil {
			t.Errorf("a bundle may take %s", info.Code)
		}
		if info.Code == writ.CodeAllow || info.Code == writ.CodeRedeemed || info.Code == writ.CodeEffectVerified {
			if info.Outcome != writ.Allow || info.Control != "" {
				t.Errorf("%+v", info)
			}
		} else {
			if !owners[info.Control] {
				t.Errorf("%s: nobody owns %q", info.Code, info.Control)
			}
			if info.Outcome == writ.Allow || info.Outcome == writ.ReviewRequired && info.Control != writ.ControlApproval {
				t.Errorf("%s: outcome %s at %s", info.Code, info.Outcome, info.Control)
			}
			// The table stands in the order of the controls.
			for stage < len(writ.Controls) && writ.Controls[stage] != info.Control {
				stage++
			}
			if stage == len(writ.Controls) {
				t.Fatalf("%s stands before its control's turn", info.Code)
			}
		}
		if !reached[info.Code] {
			t.Errorf("no fixture reaches %s", info.Code)
		}
	}
	for _, c := range []writ.Code{"", "A", "ab", "lower_case", "1ST", "WITH-DASH", "SPACE D", writ.Code(strings.Repeat("A", 65)), "GRANT_INVALID", "DENY"} {
		if err := writ.CheckBundleCode(c); err == nil {
			t.Errorf("a bundle may take %q", c)
		}
	}
	if err := writ.CheckBundleCode("RECIPIENT_DENIED"); err != nil {
		t.Error(err)
	}
	if writ.Code("RECIPIENT_DENIED").Control() != writ.ControlPolicy {
		t.Error("a bundle's code belongs to POLICY")
	}
}
