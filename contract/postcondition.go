package contract

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/writ-pdp/writ/canon"
)

// Limits of postconditions: what ledgers keep of a call that was redeemed (see
// grant.Claim). Beyond them calls would be allowed that nobody could redeem.
const (
	// maxWithin is the longest that a ledger remembers.
	maxWithin = 10 * 366 * 24 * time.Hour
	maxChecks = 1024
	// maxChecked is the most bytes of the checks with the values of a call: the 64
	// KiB of a plan, without the names in it, which take less than 1 KiB.
	maxChecked = 63 << 10
	// maxEqual is the most that a value of a call takes: a longer one is kept as
	// its digest.
	maxEqual = 128
)

// postconditions reports what is wrong with p, whatever the tool is.
func (f *faults) postconditions(field string, p *Postconditions) {
	if why := badID(p.Observer); why != "" {
		f.errorf(member(field, "observer"), "name the server that observes the outcome: %s", why)
	}
	if p.Tool == "" {
		f.errorf(member(field, "tool"), "name the observer's tool that reads the outcome back")
	}
	switch {
	case p.Within <= 0:
		f.errorf(member(field, "within"), "say how long after the call the outcome must be seen: 30s")
	case p.Within > maxWithin:
		f.errorf(member(field, "within"), "the call is forgotten by then: at most %.0fh", maxWithin.Hours())
	}
	checks := member(field, "checks")
	if len(p.Checks) == 0 {
		f.errorf(checks, "there is nothing to check")
	}
	if len(p.Checks) > maxChecks {
		f.errorf(checks, "a ledger keeps at most %d checks of a call", maxChecks)
	}
	size := len(p.Tool)
	for i, c := range p.Checks {
		f.check(item(checks, i), c)
		before := size
		if size += c.size(); size > maxChecked && before <= maxChecked {
			f.errorf(item(checks, i), "a ledger keeps at most %d bytes of a call's checks, and this one passes them: write shorter ones", maxChecked)
		}
	}
}

// size is how many bytes a ledger keeps of c at most.
func (c *Check) size() int {
	n := len(c.At) + len(c.Tolerance)
	if c.Equals != "" {
		n += maxEqual
	}
	for _, v := range c.In {
		switch v := v.(type) {
		case string, bool, json.Number:
			n += len(canon.Append(nil, v)) + 1
		}
	}
	return n
}

func (f *faults) check(field string, c Check) {
	if !validPointer(c.At) {
		f.errorf(member(field, "at"), "%q is no JSON Pointer (RFC 6901): write /state", c.At)
	}
	set := 0
	for _, is := range [...]bool{c.Equals != "", c.In != nil, c.Present != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		f.errorf(field, "write exactly one of equals, in and present")
	}
	if c.Equals != "" && (!validPointer(c.Equals) || !strings.HasPrefix(c.Equals, "/arguments/")) {
		f.errorf(member(field, "equals"), "%q is no JSON Pointer to an argument: write /arguments/amount", c.Equals)
	}
	if c.In != nil && len(c.In) == 0 {
		f.errorf(member(field, "in"), "there is no value that it may be")
	}
	for i, v := range c.In {
		switch v := v.(type) {
		case string, bool:
		case json.Number:
			if !canonicalNumber(v) {
				f.errorf(item(member(field, "in"), i), "%s is not exact as an IEEE 754 double", v)
			}
		default:
			f.errorf(item(member(field, "in"), i), "only text, numbers and booleans can be compared with")
		}
	}
	if c.Tolerance != "" {
		if c.Equals == "" {
			f.errorf(member(field, "tolerance"), "only equals has a tolerance")
		}
		if !plainDecimal(c.Tolerance) {
			f.errorf(member(field, "tolerance"), "%q is not a decimal without sign and of at most four places: write 0.01", c.Tolerance)
		}
	}
}

// validPointer reports whether p is a JSON Pointer to something inside a value
// (RFC 6901, section 3).
func validPointer(p string) bool {
	if !strings.HasPrefix(p, "/") {
		return false
	}
	for i := 0; i < len(p); i++ {
		if p[i] == '~' && (i+1 == len(p) || p[i+1] != '0' && p[i+1] != '1') {
			return false
		}
	}
	return true
}

// plainDecimal reports whether s is digits, and at most four more after a point.
func plainDecimal(s string) bool {
	whole, places, point := strings.Cut(s, ".")
	return digits(whole) && len(whole) <= 15 && (!point || digits(places) && len(places) <= 4)
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
