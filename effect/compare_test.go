package effect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
)

var (
	start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	until = start.Add(30 * time.Second)
	paid  = canon.Sum([]byte("the proposal"))
)

func plan(checks ...effect.Expectation) effect.Plan {
	return effect.Plan{
		Server: "payments", Tool: "create_payment", ProposalDigest: paid, IdempotencyKey: "k",
		Observer: "ledger", ObserverTool: "get_payment", Until: until, Checks: checks,
	}
}

func seen(observed string) effect.Receipt {
	return effect.Receipt{
		ProposalDigest: paid, Observer: "ledger", Status: effect.StatusObserved, EffectID: "pay-1", Observed: []byte(observed), Received: start,
	}
}

func is(at, json string) effect.Expectation { return effect.Expectation{At: at, Equals: json} }

func within(at, json, tolerance string) effect.Expectation {
	return effect.Expectation{At: at, Equals: json, Tolerance: tolerance}
}

func present(at string, yes bool) effect.Expectation {
	return effect.Expectation{At: at, Present: &yes}
}

func among(at string, json ...string) effect.Expectation {
	return effect.Expectation{At: at, In: json}
}

// TestPostcondition judges one postcondition at a time.
func TestPostcondition(t *testing.T) {
	const (
		verified = effect.Verified
		failed   = effect.Failed
		unknown  = effect.Unknown
	)
	for _, tc := range []struct {
		name     string
		check    effect.Expectation
		observed string
		want     effect.Standing
	}{
		{"equal text", is("/to", `"ACME-SUPPLIER-01"`), `{"to":"ACME-SUPPLIER-01"}`, verified},
		{"other text", is("/to", `"ACME-SUPPLIER-01"`), `{"to":"ACME-SUPPLIER-02"}`, failed},
		{"text in other case", is("/to", `"ACME"`), `{"to":"acme"}`, failed},
		{"text in another Unicode form", is("/to", `"\u00e9"`), `{"to":"e\u0301"}`, failed},
		{"equal number", is("/n", `900`), `{"n":900}`, verified},
		{"a number with a zero fraction", is("/n", `900`), `{"n":900.0}`, verified},
		{"a number with an exponent", is("/n", `900`), `{"n":9e2}`, verified},
		{"minus zero", is("/n", `0`), `{"n":-0}`, verified},
		{"a number as text", is("/n", `900`), `{"n":"900"}`, failed},
		{"text as a number", is("/n", `"900"`), `{"n":900}`, failed},
		{"another number", is("/n", `900`), `{"n":900.01}`, failed},
		{"true is not 1", is("/n", `1`), `{"n":true}`, failed},
		{"equal booleans", is("/n", `false`), `{"n":false}`, verified},
		{"equal objects in another order", is("/o", `{"a":1,"b":[2,3]}`), `{"o":{"b":[2.0,3],"a":1}}`, verified},
		{"an object with more", is("/o", `{"a":1}`), `{"o":{"a":1,"b":2}}`, failed},
		{"arrays are in order", is("/o", `[1,2]`), `{"o":[2,1]}`, failed},
		{"an object is no text", is("/o", `"x"`), `{"o":{}}`, failed},
		{"a missing member", is("/to", `"a"`), `{"from":"a"}`, failed},
		{"null is no value", is("/to", `"a"`), `{"to":null}`, failed},
		{"through an array", is("/lines/1/id", `"b"`), `{"lines":[{"id":"a"},{"id":"b"}]}`, verified},
		{"beyond an array", is("/lines/2/id", `"b"`), `{"lines":[{"id":"a"},{"id":"b"}]}`, failed},
		{"through text", is("/to/id", `"a"`), `{"to":"a"}`, failed},
		{"a name with slash and tilde", is("/a~1b~0c", `1`), `{"a/b~c":1}`, verified},
		{"a tilde before a digit", is("/a~01", `1`), `{"a~1":1,"a/":2}`, verified},
		{"an empty name", is("/", `1`), `{"":1}`, verified},
		{"past the end of an array", is("/l/-", `1`), `{"l":[1]}`, failed},
		{"an index with a sign", is("/l/+0", `1`), `{"l":[1]}`, failed},
		{"an index with a zero before it", is("/l/00", `1`), `{"l":[1]}`, failed},
		{"an index that is no whole number", is("/l/0.0", `1`), `{"l":[1]}`, failed},
		{"an index of many digits", is("/l/18446744073709551616", `1`), `{"l":[1]}`, failed},
		{"an index as a name", is("/l/0", `1`), `{"l":{"0":1}}`, verified},
		{"the largest number", within("/n", `1.7976931348623157e308`, "999999999999999.9999"), `{"n":-1.7976931348623157e308}`, failed},
		{"the smallest number", within("/n", `5e-324`, "0"), `{"n":0}`, failed},
		{"a number that no double is", is("/n", `9007199254740993`), `{"n":9007199254740992}`, unknown},

		{"within the tolerance", within("/n", `900`, "0.01"), `{"n":900.005}`, verified},
		{"at the tolerance", within("/n", `900`, "0.01"), `{"n":899.99}`, verified},
		{"beyond the tolerance", within("/n", `900`, "0.01"), `{"n":900.0101}`, failed},
		{"where doubles err: 0.3 - 0.2 is 0.1", within("/n", `0.3`, "0.1"), `{"n":0.2}`, verified},
		{"where doubles err: 1.1 - 1 is 0.1", within("/n", `1`, "0.1"), `{"n":1.1}`, verified},
		{"a tolerance of nothing", within("/n", `900`, "0"), `{"n":900.0001}`, failed},
		{"a tolerance with zeros", within("/n", `900`, "000.10"), `{"n":900.1}`, verified},
		{"text within a tolerance", within("/n", `900`, "1"), `{"n":"900"}`, failed},
		{"equal text with a tolerance", within("/n", `"900"`, "1"), `{"n":"900"}`, verified},
		{"near text with a tolerance", within("/n", `"900"`, "1"), `{"n":"900.5"}`, failed},
		{"far apart", within("/n", `1e300`, "1"), `{"n":1e-300}`, failed},

		{"one of several", among("/s", `"queued"`, `"done"`), `{"s":"done"}`, verified},
		{"none of several", among("/s", `"queued"`, `"done"`), `{"s":"refused"}`, failed},
		{"one of several numbers", among("/s", `1`, `2`), `{"s":2.0}`, verified},
		{"one of several as text", among("/s", `1`, `2`), `{"s":"2"}`, failed},
		{"of several, missing", among("/s", `1`), `{}`, failed},

		{"present", present("/s", true), `{"s":0}`, verified},
		{"present, but null", present("/s", true), `{"s":null}`, failed},
		{"not present", present("/s", true), `{}`, failed},
		{"gone", present("/s", false), `{}`, verified},
		{"gone, as null", present("/s", false), `{"s":null}`, verified},
		{"not gone", present("/s", false), `{"s":false}`, failed},
		{"an argument that was absent", effect.Expectation{At: "/note", Absent: true}, `{}`, verified},
		{"an argument that was absent, and something came of it", effect.Expectation{At: "/note", Absent: true}, `{"note":""}`, failed},

		{"nothing is expected", effect.Expectation{At: "/s"}, `{"s":1}`, unknown},
		{"two things are expected", effect.Expectation{At: "/s", Equals: `1`, Absent: true}, `{"s":1}`, unknown},
		{"an empty set", effect.Expectation{At: "/s", In: []string{}}, `{"s":1}`, unknown},
		{"no JSON is expected", is("/s", `{`), `{"s":1}`, unknown},
		{"no JSON is among several", among("/s", `{`, `2`), `{"s":1}`, unknown},
		{"a tolerance that is none", within("/n", `900`, "-1"), `{"n":901}`, unknown},
		{"a tolerance that is no decimal", within("/n", `900`, "1e3"), `{"n":901}`, unknown},
		{"a tolerance of a set", effect.Expectation{At: "/n", In: []string{`1`}, Tolerance: "1"}, `{"n":1}`, unknown},
		{"no pointer", is("s", `1`), `{"s":1}`, unknown},
		{"the whole", is("", `{"s":1}`), `{"s":1}`, unknown},
	} {
		r := effect.Compare(plan(tc.check), seen(tc.observed))
		if len(r.Checks) != 1 || r.Checks[0].Standing != tc.want || r.Checks[0].At != tc.check.At || r.Checks[0].Why == "" {
			t.Errorf("%s: %+v", tc.name, r)
			continue
		}
		code := map[effect.Standing]writ.Code{
			verified: writ.CodeEffectVerified, failed: writ.CodePostconditionFailed, unknown: writ.CodeUnknownOutcome,
		}[tc.want]
		if r.Code != code || r.Why == "" {
			t.Errorf("%s: %s, want %s", tc.name, r.Code, code)
		}
	}
}

// TestCompare holds whole receipts against one plan.
func TestCompare(t *testing.T) {
	two := plan(is("/to", `"ACME"`), is("/n", `900`))
	good := seen(`{"to":"ACME","n":900,"more":1}`)
	change := func(f func(*effect.Receipt)) effect.Receipt {
		r := good
		f(&r)
		return r
	}
	silent := func(s effect.Status, at time.Time) effect.Receipt {
		return change(func(r *effect.Receipt) { r.Status, r.Observed, r.EffectID, r.Received = s, nil, "", at })
	}
	later := until.Add(time.Second)
	for _, tc := range []struct {
		name    string
		plan    effect.Plan
		receipt effect.Receipt
		want    writ.Code
	}{
		{"all as authorised", two, good, writ.CodeEffectVerified},
		{"seen late", two, change(func(r *effect.Receipt) { r.Received = later }), writ.CodeEffectVerified},
		{"wrong, and seen late", two, change(func(r *effect.Receipt) { r.Observed, r.Received = []byte(`{"to":"ACME","n":9000}`), later }), writ.CodePostconditionFailed},
		{"one failed", two, seen(`{"to":"ACME","n":9000}`), writ.CodePostconditionFailed},
		{"one failed and one unknown", plan(is("/to", `"ACME"`), is("/n", `{`)), seen(`{"to":"MALLORY"}`), writ.CodePostconditionFailed},
		{"one verified and one unknown", plan(is("/to", `"ACME"`), is("/n", `{`)), good, writ.CodeUnknownOutcome},
		{"nothing to check", plan(), good, writ.CodeUnknownOutcome},

		{"a timeout", two, silent(effect.StatusUnknown, start), writ.CodeUnknownOutcome},
		{"a timeout, late", two, silent(effect.StatusUnknown, later), writ.CodeUnknownOutcome},
		{"nothing yet", two, silent(effect.StatusAbsent, start), writ.CodeUnknownOutcome},
		{"nothing in time", two, silent(effect.StatusAbsent, later), writ.CodeUnknownOutcome},
		{"nothing, where nothing may be", plan(present("/to", false)), silent(effect.StatusAbsent, later), writ.CodeUnknownOutcome},
		{"an unheard of status", two, silent(effect.Status(9), start), writ.CodeUnknownOutcome},
		{"a timeout of a known effect", two, change(func(r *effect.Receipt) { r.Status, r.Observed = effect.StatusUnknown, nil }), writ.CodeUnknownOutcome},

		{"another proposal", two, change(func(r *effect.Receipt) { r.ProposalDigest = canon.Sum([]byte("another")) }), writ.CodeReceiptMismatch},
		{"no proposal", two, change(func(r *effect.Receipt) { r.ProposalDigest = canon.Digest{} }), writ.CodeReceiptMismatch},
		{"another observer", two, change(func(r *effect.Receipt) { r.Observer = "payments" }), writ.CodeReceiptMismatch},
		{"nobody was to observe", effect.Plan{ProposalDigest: paid}, change(func(r *effect.Receipt) { r.Observer = "" }), writ.CodeReceiptMismatch},
		{"a timeout of another proposal", two, func() effect.Receipt {
			r := silent(effect.StatusUnknown, start)
			r.ProposalDigest = canon.Sum([]byte("another"))
			return r
		}(), writ.CodeReceiptMismatch},
		{"no effect id", two, change(func(r *effect.Receipt) { r.EffectID = "" }), writ.CodeReceiptMismatch},
		{"an effect id of 256 bytes", two, change(func(r *effect.Receipt) { r.EffectID = strings.Repeat("x", 256) }), writ.CodeEffectVerified},
		{"an effect id of 257 bytes", two, change(func(r *effect.Receipt) { r.EffectID = strings.Repeat("x", 257) }), writ.CodeReceiptMismatch},
		{"an effect id with a newline", two, change(func(r *effect.Receipt) { r.EffectID = "pay\n1" }), writ.CodeReceiptMismatch},
		{"an effect id with a C1 control", two, change(func(r *effect.Receipt) { r.EffectID = "pay\u00851" }), writ.CodeReceiptMismatch},
		{"an effect id that is not UTF-8", two, change(func(r *effect.Receipt) { r.EffectID = "pay\xff" }), writ.CodeReceiptMismatch},
		{"nothing observed", two, change(func(r *effect.Receipt) { r.Observed = nil }), writ.CodeReceiptMismatch},
		{"no object", two, seen(`["ACME",900]`), writ.CodeReceiptMismatch},
		{"no JSON", two, seen(`{"to":"ACME","n":900`), writ.CodeReceiptMismatch},
		{"a name twice", two, seen(`{"to":"ACME","n":900,"n":900}`), writ.CodeReceiptMismatch},
		{"look-alike names", two, seen(`{"to":"ACME","n":900,"N":900}`), writ.CodeReceiptMismatch},
		{"a number that no double holds", two, seen(`{"to":"ACME","n":900,"x":9007199254740993}`), writ.CodeReceiptMismatch},
		{"64 KiB", two, seen(`{"to":"ACME","n":900}` + strings.Repeat(" ", effect.MaxObserved-21)), writ.CodeEffectVerified},
		{"more than 64 KiB", two, seen(`{"to":"ACME","n":900}` + strings.Repeat(" ", effect.MaxObserved-20)), writ.CodeReceiptMismatch},
		{"observed, but absent", two, change(func(r *effect.Receipt) { r.Status = effect.StatusAbsent }), writ.CodeReceiptMismatch},
		{"observed, but unknown", two, change(func(r *effect.Receipt) { r.Status = effect.StatusUnknown }), writ.CodeReceiptMismatch},
	} {
		r := effect.Compare(tc.plan, tc.receipt)
		if r.Code != tc.want || r.Why == "" {
			t.Errorf("%s: %s %q, want %s", tc.name, r.Code, r.Why, tc.want)
		}
		wantChecks := len(tc.plan.Checks)
		if tc.want == writ.CodeReceiptMismatch {
			wantChecks = 0
		}
		if len(r.Checks) != wantChecks {
			t.Errorf("%s: %d results, want %d", tc.name, len(r.Checks), wantChecks)
		}
	}
	var zero effect.Result
	if zero.Code == writ.CodeEffectVerified || (effect.Checked{}).Standing == effect.Verified {
		t.Error("zero values verify")
	}
	none := two
	none.ProposalDigest = canon.Digest{}
	if r := effect.Compare(none, change(func(r *effect.Receipt) { r.ProposalDigest = canon.Digest{} })); r.Code != writ.CodeReceiptMismatch {
		t.Errorf("a plan without a proposal: %s", r.Code)
	}
	if r := effect.Compare(effect.Plan{}, effect.Receipt{}); r.Code != writ.CodeReceiptMismatch {
		t.Errorf("zero plan and receipt: %s", r.Code)
	}
}

// TestExplanationsHoldNoValues: explanations go to logs.
func TestExplanationsHoldNoValues(t *testing.T) {
	const secret = "s3cr3t"
	for _, observed := range []string{`{"a":"s3cr3t"}`, `{"a":"s3cr3t2"}`, `{"s3cr3t":1,"s3cr3t":2}`, `{}`} {
		r := effect.Compare(plan(is("/a", `"s3cr3t"`), among("/a", `"s3cr3t"`), within("/a", `1`, "1")), seen(observed))
		text := r.Why
		for _, c := range r.Checks {
			text += c.Why
		}
		if strings.Contains(text, secret) {
			t.Errorf("%s: %s", observed, text)
		}
	}
}
