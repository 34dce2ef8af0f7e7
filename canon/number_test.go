package canon_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/canon"
)

// RFC 8785, appendix B.
func TestAppendFloat(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		f := math.Float64frombits(bits)
		if got := string(canon.AppendFloat(nil, f)); got != want {
			t.Errorf("%016x: got %s, want %s", bits, got, want)
		}
		v, err := canon.Parse([]byte(want))
		if err != nil || string(canon.Append(nil, v)) != want {
			t.Errorf("%s is its own canonical form; Parse gave %v, %v", want, v, err)
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		mustPanic(t, func() { canon.AppendFloat(nil, f) })
	}
}

// number parses one literal and returns its canonical form, or false.
func number(t testing.TB, literal string) (string, bool) {
	t.Helper()
	v, err := canon.Parse([]byte(literal))
	if err != nil {
		if e, ok := errors.AsType[*canon.Error](err); !ok || e.Reason != canon.ReasonNumber {
			t.Fatalf("%s: %v", literal, err)
		}
		return "", false
	}
	return string(canon.Append(nil, v)), true
}

// checkNumber holds the gate against exact arithmetic: a literal passes
// exactly when it equals the shortest text of its nearest double.
func checkNumber(t testing.TB, literal string) {
	t.Helper()
	exact, ok := new(big.Rat).SetString(literal)
	if !ok {
		t.Fatalf("%q is no number", literal)
	}
	form := ""
	if f, _ := exact.Float64(); !math.IsInf(f, 0) {
		if canonical := string(canon.AppendFloat(nil, f)); mustRat(t, canonical).Cmp(exact) == 0 {
			form = canonical
		}
	}
	if got, ok := number(t, literal); got != form || ok != (form != "") {
		t.Errorf("%s: got %q, want %q", literal, got, form)
	}
}

func mustRat(t testing.TB, s string) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("%q is no number", s)
	}
	return r
}

func TestNumbersAgainstExactArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
		return b.String()
	}
	for range 5_000 {
		var b strings.Builder
		if r.IntN(2) == 0 {
			b.WriteByte('-')
		}
		if whole := strings.TrimLeft(digits(r.IntN(20)), "0"); whole != "" {
			b.WriteString(whole)
		} else {
			b.WriteByte('0')
		}
		if r.IntN(2) == 0 {
			b.WriteString("." + strings.Repeat("0", r.IntN(9)) + digits(1+r.IntN(10)))
		}
		if r.IntN(3) == 0 {
			b.WriteString([]string{"e", "E", "e+", "e-", "E-0"}[r.IntN(5)] + strconv.Itoa(r.IntN(330)))
		}
		checkNumber(t, b.String())
	}
	for range 5_000 { // shortest texts of any double pass; their neighbours mostly don't
		f := math.Float64frombits(r.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		for _, format := range []byte{'e', 'f'} {
			s := strconv.FormatFloat(f, format, -1, 64)
			if _, ok := number(t, s); !ok {
				t.Errorf("%s is the shortest text of a double", s)
			}
			checkNumber(t, s+map[byte]string{'e': "1", 'f': "e1"}[format])
		}
		checkNumber(t, strconv.FormatFloat(f, 'e', 17, 64))
	}
}

func TestLongNumbers(t *testing.T) {
	zeros := strings.Repeat("0", 200_000)
	for _, c := range []struct{ name, literal, want string }{
		{"zeros that the exponent takes away", "1" + zeros + "e-200000", "1"},
		{"zeros after the point that the exponent takes away", "0." + zeros + "1e200001", "1"},
		{"a fraction of zeros", "1." + zeros, "1"},
		{"a zero of zeros", "-0." + zeros + "e5", "0"},
		{"a large power", "1" + zeros, ""},
		{"a tiny power", "0." + zeros + "1", ""},
		{"a digit far behind", "1." + zeros + "1", ""},
		{"an exponent of zeros", "1e" + zeros + "3", "1000"},
		{"an exponent beyond any integer", "1e-" + strings.Repeat("9", 200_000), ""},
		{"zero with an exponent beyond any integer", "0e" + strings.Repeat("9", 200_000), "0"},
		{"zeros against an exponent beyond any integer", "0." + zeros + "1e" + strings.Repeat("9", 50_000), ""},
	} {
		if got, ok := number(t, c.literal); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { number(t, "1e999999999") }); n > 20 {
		t.Errorf("refusing a huge exponent makes %v allocations", n)
	}
}
