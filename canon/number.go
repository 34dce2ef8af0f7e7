package canon

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// exactDigits is how many significant digits every decimal may have and
	// still be the shortest of its double: no two such decimals share one.
	exactDigits = 15
	// maxDigits is how many significant digits an RFC 8785 form can have.
	maxDigits = 17
	// maxExponent is more than any double's decimal exponent, either way.
	maxExponent = 400
	// hugeExponent is where reading an exponent stops: no literal within
	// MaxSize has digits enough to bring it back into range.
	hugeExponent = 1 << 30
)

// canonicalNumber returns the RFC 8785 form (section 3.2.2.3) of a number
// literal of RFC 8259, and whether the two are equal as exact decimals. The
// work is linear in the literal's length, whatever its exponent says.
func canonicalNumber(literal string) (string, bool) {
	if isPlain(literal) {
		return literal, true
	}
	var d decimal
	if !d.read(literal) {
		return "", false
	}
	if d.n == 0 {
		return "0", true
	}
	if d.point < -maxExponent || d.point > maxExponent {
		return "", false
	}
	var buf [32]byte
	f, err := strconv.ParseFloat(string(d.appendScientific(buf[:0])), 64)
	if err != nil || f == 0 {
		return "", false // too large, or too small
	}
	// RFC 8785 prints the shortest digits that lead back to f, and of those
	// the closest, as strconv does: only the layout differs.
	var shortest decimal
	if !shortest.read(string(strconv.AppendFloat(buf[:0], f, 'e', -1, 64))) || shortest != d {
		return "", false
	}
	var out [32]byte
	if form := jsontext.AppendFloat(out[:0], f, 64); string(form) != literal {
		return string(form), true
	}
	return literal, true
}

// isPlain reports whether a literal is one of those that most numbers are:
// digits, perhaps a point and more digits, few enough to be exact, and laid out
// as RFC 8785 does. It says no to -0 and to less than 0.000001, too.
func isPlain(literal string) bool {
	i := 0
	if literal[0] == '-' {
		i++
	}
	first := i
	for i < len(literal) && isDigit(literal[i]) {
		i++
	}
	if i == len(literal) {
		return i-first <= exactDigits && literal != "-0"
	}
	if literal[i] != '.' || len(literal)-first-1 > exactDigits {
		return false
	}
	fraction := literal[i+1:]
	leading := true // only zeros so far
	for j := range len(fraction) {
		if !isDigit(fraction[j]) {
			return false // an exponent
		}
		if leading = leading && fraction[j] == '0'; leading && j >= 5 {
			return false
		}
	}
	return fraction[len(fraction)-1] != '0'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// decimal is an exact decimal of few digits: 0.d1d2d3… × 10^point, where
// neither the first nor the last digit is 0. Two are equal exactly when their
// values are. Zero has no digits, and neither sign nor point.
type decimal struct {
	negative bool
	digits   [maxDigits]byte
	n        int
	point    int
}

// read sets d, which must be zero, to the value of a number literal. It
// reports false when the literal has more significant digits than any RFC
// 8785 form.
func (d *decimal) read(literal string) bool {
	i := 0
	if literal[0] == '-' {
		d.negative = true
		i++
	}
	zeros := 0 // seen after a significant digit, significant if another follows
	fraction := false
scan:
	for ; i < len(literal); i++ {
		switch c := literal[i]; {
		case c == '.':
			fraction = true
			continue
		case c == 'e' || c == 'E':
			break scan
		case c == '0' && d.n == 0: // leading
			if fraction {
				d.point--
			}
			continue
		case c == '0':
			zeros++
		default:
			if d.n+zeros >= maxDigits {
				return false
			}
			for ; zeros > 0; zeros-- {
				d.digits[d.n] = '0'
				d.n++
			}
			d.digits[d.n] = c
			d.n++
		}
		if !fraction {
			d.point++
		}
	}
	if d.n == 0 {
		*d = decimal{}
		return true
	}
	d.point += exponent(literal[i:])
	return true
}

// exponent reads what stands from the e on, or nothing. It stops at
// hugeExponent.
func exponent(s string) int {
	if s == "" {
		return 0
	}
	s = s[1:]
	negative := s[0] == '-'
	if s[0] == '-' || s[0] == '+' {
		s = s[1:]
	}
	e := 0
	for i := 0; i < len(s) && e < hugeExponent; i++ {
		e = 10*e + int(s[i]-'0')
	}
	if negative {
		return -e
	}
	return e
}

// appendScientific appends d, which is not zero, as an integer and an exponent.
func (d *decimal) appendScientific(dst []byte) []byte {
	if d.negative {
		dst = append(dst, '-')
	}
	dst = append(dst, d.digits[:d.n]...)
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, int64(d.point-d.n), 10)
}

// AppendFloat appends the RFC 8785 form of f, section 3.2.2.3; -0 is 0. It
// panics if f is not finite, since JSON has no such number.
func AppendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		panic("canon: AppendFloat of a number that JSON does not have")
	}
	if f == 0 {
		return append(dst, '0')
	}
	return jsontext.AppendFloat(dst, f, 64)
}
