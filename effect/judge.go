package effect

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
)

// judge holds one postcondition against what was observed.
func (e *Expectation) judge(observed map[string]any) (Standing, string) {
	if !e.wellFormed() {
		return Unknown, "The postcondition cannot be read."
	}
	seen, there := contract.At(observed, e.At)
	there = there && seen != nil
	switch {
	case e.Absent || e.Present != nil && !*e.Present:
		if there {
			return Failed, "A value stands where none may."
		}
		return Verified, "There is no value, as there should be none."
	case !there:
		return Failed, "There is no value where one must stand."
	case e.Present != nil:
		return Verified, "There is a value."
	case e.In != nil:
		return e.among(seen)
	}
	return e.equals(seen)
}

// wellFormed reports whether exactly one thing is expected, somewhere.
func (e *Expectation) wellFormed() bool {
	if !strings.HasPrefix(e.At, "/") {
		return false
	}
	set := 0
	for _, is := range [...]bool{e.Equals != "", e.Absent, len(e.In) > 0, e.Present != nil} {
		if is {
			set++
		}
	}
	return set == 1 && (e.Tolerance == "" || e.Equals != "")
}

func (e *Expectation) among(seen any) (Standing, string) {
	unread := false
	for _, text := range e.In {
		v, err := canon.Parse([]byte(text))
		if err != nil {
			unread = true
		} else if equal(v, seen) {
			return Verified, "The value is one of those that it may be."
		}
	}
	if unread {
		return Unknown, "The postcondition cannot be read."
	}
	return Failed, "The value is none of those that it may be."
}

func (e *Expectation) equals(seen any) (Standing, string) {
	const authorised, another = "The value is the one that was authorised.", "The value is another one than was authorised."
	if long, err := canon.ParseDigest(e.Equals); err == nil {
		if canon.Sum(canon.Append(nil, seen)) == long {
			return Verified, authorised
		}
		return Failed, another
	}
	want, err := canon.Parse([]byte(e.Equals))
	if err != nil {
		return Unknown, "The postcondition cannot be read."
	}
	if equal(want, seen) {
		return Verified, authorised
	}
	expected, number := want.(json.Number)
	if e.Tolerance == "" || !number {
		return Failed, another
	}
	found, number := seen.(json.Number)
	if !number {
		return Failed, "The value is no number."
	}
	difference, ok := apart(expected, found)
	tolerance, plain := decimal(e.Tolerance)
	switch {
	case !ok || !plain:
		return Unknown, "The postcondition cannot be read."
	case difference.Cmp(tolerance) > 0:
		return Failed, "The value differs by more than the tolerance from the one that was authorised."
	}
	return Verified, "The value is within the tolerance of the one that was authorised."
}

// apart returns how far a and b are apart.
func apart(a, b json.Number) (*big.Rat, bool) {
	x, okX := rational(a.String())
	y, okY := rational(b.String())
	if !okX || !okY {
		return nil, false
	}
	d := new(big.Rat).Sub(x, y)
	return d.Abs(d), true
}

// maxNumber is more than any number of [canon.Parse], or any tolerance, is long.
const maxNumber = 32

// rational reads a decimal exactly. The exponent of one that canon.Parse has
// read is that of a double, so the work is bounded.
func rational(text string) (*big.Rat, bool) {
	v, err := canon.Parse([]byte(text))
	if err != nil {
		return nil, false
	}
	n, ok := v.(json.Number)
	if !ok || len(n) > maxNumber {
		return nil, false
	}
	return new(big.Rat).SetString(n.String())
}

// decimal reads the text of a tolerance: digits, perhaps with a point.
func decimal(text string) (*big.Rat, bool) {
	if len(text) > maxNumber || strings.Trim(text, "0123456789.") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// equal reports whether two trees of [canon.Parse] hold the same value. Their
// numbers are in canonical form already.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			if w, ok := b[name]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false // not comparable by ==
	}
	return a == b
}
