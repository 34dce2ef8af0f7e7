package effect

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// Compare holds a receipt against what was authorised.
//
// A receipt that is for another proposal, from another observer than the
// plan's, or can't be read in exactly one way is a RECEIPT_MISMATCH: it says
// nothing of the effect. Otherwise each postcondition is judged by itself. One
// that failed makes it POSTCONDITION_FAILED, whatever the others are;
// EFFECT_VERIFIED wants every one verified, and at least one; all else is
// UNKNOWN_OUTCOME.
//
// What was observed is one object, seen whole: where a value should stand and
// none does, or one of another type, the postcondition failed. Null is no
// value. An effect that is seen after the plan's Until counts all the same: it
// is there.
//
// StatusAbsent is UNKNOWN_OUTCOME, also after Until. That nothing is there yet
// does not prove that nothing will come: an order may wait in a queue. Called
// failed it would be settled, and whoever proposed the call anew, under another
// idempotency key, would have it done twice. Called unknown it may be tried
// again, but only under the same key, and an effect that shows late can still
// be verified. An effect that takes something away is observed as what is left,
// with StatusObserved.
func Compare(plan Plan, receipt Receipt) Result {
	observed, why := read(&plan, &receipt)
	if why != "" {
		return Result{Code: writ.CodeReceiptMismatch, Why: why}
	}
	result := Result{Code: writ.CodeUnknownOutcome, Checks: make([]Checked, len(plan.Checks))}
	failed, verified := 0, 0
	for i := range plan.Checks {
		e := &plan.Checks[i]
		checked := Checked{At: e.At, Why: "Nothing was observed."}
		if receipt.Status == StatusObserved {
			checked.Standing, checked.Why = e.judge(observed)
		}
		switch checked.Standing {
		case Failed:
			failed++
		case Verified:
			verified++
		case Unknown:
		}
		result.Checks[i] = checked
	}
	switch {
	case failed > 0:
		result.Code, result.Why = writ.CodePostconditionFailed, "What was observed is not what was authorised."
	case verified > 0 && verified == len(plan.Checks):
		result.Code, result.Why = writ.CodeEffectVerified, "What was observed is what was authorised."
	default:
		result.Why = plan.unknown(&receipt)
	}
	return result
}

// unknown says why nobody knows.
func (p *Plan) unknown(r *Receipt) string {
	switch {
	case r.Status == StatusObserved:
		return "What was observed does not tell whether it is what was authorised."
	case r.Status == StatusAbsent && r.Received.After(p.Until):
		return "There is no effect, and its time is over, but it may still come: try again only under the same idempotency key."
	case r.Status == StatusAbsent:
		return "There is no effect yet: look again, and try again only under the same idempotency key."
	}
	return "Nobody knows whether there was an effect: try again only under the same idempotency key."
}

// read returns what was observed, or why the receipt can't count at all.
func read(p *Plan, r *Receipt) (observed map[string]any, why string) {
	switch {
	case p.Observer == "":
		return nil, "Nothing is to be verified of this call."
	case p.ProposalDigest.IsZero() || r.ProposalDigest != p.ProposalDigest:
		return nil, "The receipt is for another proposal."
	case r.Observer != p.Observer:
		return nil, "The receipt is from another server than the one that observes."
	}
	if why := effectID(r); why != "" {
		return nil, why
	}
	if r.Status != StatusObserved {
		if len(r.Observed) > 0 {
			return nil, "The receipt holds what was observed and says that nothing was."
		}
		return nil, ""
	}
	if len(r.Observed) == 0 {
		return nil, "The receipt does not hold what was observed."
	}
	if len(r.Observed) > MaxObserved {
		return nil, "What was observed has more than 65536 bytes."
	}
	observed, err := canon.ParseObject(r.Observed)
	if err != nil {
		return nil, "What was observed is not one JSON object that can be read in exactly one way."
	}
	return observed, ""
}

func effectID(r *Receipt) string {
	switch id := r.EffectID; {
	case id == "" && r.Status == StatusObserved:
		return "The effect has no id at the observer."
	case len(id) > MaxEffectID:
		return "The effect's id has more than 256 bytes."
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return "The effect's id holds a control character, or is not UTF-8."
	}
	return ""
}
