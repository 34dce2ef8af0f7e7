package grant

import (
	"errors"
	"fmt"
	"time"

	"github.com/writ-pdp/writ"
)

// Limits in bytes of what a [Ledger] keeps.
const (
	maxName = 128 // of a name that a ledger is asked by
	maxText = 1024
	// maxPlan is the most of a plan's texts together.
	maxPlan   = 64 << 10
	maxChecks = 1024
)

// span is what times a ledger takes: in it, each fits into 64 bits of
// nanoseconds, with the longest retention added.
var span = [2]time.Time{time.Unix(0, 0), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)}

// Check returns what keeps c from being claimed in any ledger, without its
// values.
func (c *Claim) Check() error {
	for _, name := range []struct{ what, value string }{{"id", c.ID}, {"grant", c.Grant}, {"proposal", c.Proposal}} {
		if !IsName(name.value) {
			return fmt.Errorf("grant: a claim whose %s is no name: 1 to %d bytes of printable ASCII without / and spaces", name.what, maxName)
		}
	}
	switch {
	case c.Attempt.IsZero():
		return errors.New("grant: a claim without an attempt")
	case c.Outcome != "" || c.DoneElsewhere:
		return errors.New("grant: a claim with an outcome: that is the ledger's to set")
	}
	return c.checkRest()
}

// checkRest is what of Check holds of what a ledger is seeded with, too.
func (c *Claim) checkRest() error {
	switch {
	case !within(c.Now) || !within(c.Expires):
		return fmt.Errorf("grant: a claim whose Now or Expires is not within %d and %d", span[0].UTC().Year(), span[1].Year())
	case c.Call != "" && !IsName(c.Call):
		return errors.New("grant: a claim whose call is no name")
	case c.Plan.IdempotencyKey != "" && !IsName(c.Plan.IdempotencyKey):
		return errors.New("grant: a claim whose plan's idempotency key is no name")
	case len(c.Caller) > maxText:
		return fmt.Errorf("grant: a claim whose caller has a name of more than %d bytes", maxText)
	case !c.Plan.Until.IsZero() && !within(c.Plan.Until):
		return errors.New("grant: a claim whose plan's time is out of range")
	case len(c.Plan.Checks) > maxChecks:
		return fmt.Errorf("grant: a claim with %d expectations, where at most %d are kept", len(c.Plan.Checks), maxChecks)
	}
	p := &c.Plan
	size := len(p.Server) + len(p.Tool) + len(p.IdempotencyKey) + len(p.Observer) + len(p.ObserverTool)
	for _, e := range p.Checks {
		size += len(e.At) + len(e.Equals) + len(e.Tolerance)
		for _, one := range e.In {
			size += len(one) + 1
		}
	}
	if size > maxPlan {
		return fmt.Errorf("grant: a claim whose plan has %d bytes, where at most %d are kept", size, maxPlan)
	}
	return nil
}

// Check returns what keeps e from being settled in any ledger, without its
// values.
func (e *Effect) Check() error {
	switch {
	case !IsName(e.Redemption):
		return errors.New("grant: an effect that names no redemption")
	case e.Observer == "" || len(e.Observer) > maxText || len(e.ID) > maxText:
		return fmt.Errorf("grant: an effect without an observer, or with a name of more than %d bytes", maxText)
	case e.Receipt.IsZero():
		return errors.New("grant: an effect without a receipt")
	case e.Outcome != writ.CodeEffectVerified && e.Outcome != writ.CodePostconditionFailed:
		return fmt.Errorf("grant: only %s and %s settle a redemption", writ.CodeEffectVerified, writ.CodePostconditionFailed)
	case !within(e.Now):
		return errors.New("grant: an effect whose Now is out of range")
	}
	return nil
}

func within(t time.Time) bool { return !t.Before(span[0]) && t.Before(span[1]) }

// IsName reports whether text can name a redemption, a grant, a proposal or an
// idempotency key in a ledger: 1 to 128 bytes of printable ASCII without / and spaces.
func IsName(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '/' {
			return false
		}
	}
	return text != "" && len(text) <= maxName
}
