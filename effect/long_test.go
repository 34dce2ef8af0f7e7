package effect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/grant"
)

// TestLongArguments: what a ledger keeps of a call does not grow with the call's
// arguments, so that nobody fills it with few calls, and each is still compared
// to its last byte.
func TestLongArguments(t *testing.T) {
	c := payments(t)
	for _, n := range []int{1, 40, 100, 125, 126, 127, 128, 129, 1000, 80 << 10} {
		note := strings.Repeat("é\U0001F600", n/6) + strings.Repeat("x", n%6)
		if len(note) != n {
			t.Fatal(len(note))
		}
		call := fmt.Sprintf(`{"method":"pay","supplier":"ACME","amount":900,"note":%q,"meta":{"b":%[1]q,"a":[1.50,%[1]q]}}`, note)
		p := effect.MakePlan(c, arguments(t, call), start)
		p.ProposalDigest = paid
		size := 0
		for _, e := range p.Checks {
			size += len(e.Equals)
		}
		if size > 128*len(p.Checks) {
			t.Errorf("arguments of %d bytes: %d bytes are kept", n, size)
		}
		claim := grant.Claim{ID: "r", Grant: "g", Proposal: "p", Attempt: paid, Now: start, Expires: until, Plan: p}
		if err := claim.Check(); err != nil {
			t.Errorf("arguments of %d bytes can't be claimed: %v", n, err)
		}
		if n > 10<<10 {
			continue // such an effect is longer than a receipt may be
		}
		observed := func(memo, meta string) effect.Receipt {
			return seen(fmt.Sprintf(`{"supplier":"ACME","amount":900,"currency":"GBP","memo":%q,"meta":{"a":[1.5,%q],"b":%[2]q},"state":"queued","id":"1"}`, memo, meta))
		}
		if r := effect.Compare(p, observed(note, note)); string(r.Code) != "EFFECT_VERIFIED" {
			t.Errorf("%d bytes as authorised: %s", n, r.Code)
		}
		other := "y" + note[1:]
		if note[0] != 'x' {
			other = note[:len(note)-1] + "y"
			if strings.HasSuffix(note, "\U0001F600") {
				other = strings.TrimSuffix(note, "\U0001F600") + "\U0001F601"
			}
		}
		for _, r := range []effect.Receipt{observed(other, note), observed(note, other), observed(note+" ", note), observed("", note)} {
			if r := effect.Compare(p, r); string(r.Code) != "POSTCONDITION_FAILED" {
				t.Errorf("%d bytes, and another was seen: %s", n, r.Code)
			}
		}
		// The name of a value is not the value.
		for i := range p.Checks {
			if e := p.Checks[i]; e.Equals != "" && e.Equals[0] == 's' {
				if r := effect.Compare(plan(e), seen(fmt.Sprintf(`{%q:%q}`, e.At[1:], e.Equals))); string(r.Code) != "POSTCONDITION_FAILED" {
					t.Errorf("its digest was seen: %s", r.Code)
				}
			}
		}
	}
}

// TestDigestIsNoText: an argument that reads like the name of another value is
// only itself.
func TestDigestIsNoText(t *testing.T) {
	name := canon.Sum([]byte(`"ACME"`)).String()
	p := effect.MakePlan(payments(t), arguments(t, fmt.Sprintf(`{"method":"pay","supplier":%q,"amount":900}`, name)), start)
	p.ProposalDigest = paid
	for supplier, want := range map[string]string{name: "EFFECT_VERIFIED", "ACME": "POSTCONDITION_FAILED"} {
		r := effect.Compare(p, seen(fmt.Sprintf(`{"supplier":%q,"amount":900,"currency":"GBP","state":true,"id":"1"}`, supplier)))
		if string(r.Code) != want {
			t.Errorf("%s was seen: %s, want %s", supplier, r.Code, want)
		}
	}
}
