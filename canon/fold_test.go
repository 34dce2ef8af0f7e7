package canon_test

import (
	"testing"
	"unicode/utf8"

	"github.com/writ-pdp/writ/canon"
)

func TestFold(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"", ""},
		{"create_payment-2", "create_payment-2"},
		{"createPayment", "createpayment"},
		{"É", "é"},
		{"E\u0301", "é"},
		{"Straße", "strasse"},
		{"STRASSE", "strasse"},
		{"ẞ", "ss"},
		{"\u212a", "k"},       // Kelvin sign
		{"\u212b", "å"},       // Angstrom sign
		{"\u017f", "s"},       // long s
		{"ﬁ", "fi"},           // ligature
		{"ΣΑΣ", "σασ"},        // no final sigma
		{"ς", "σ"},            //
		{"\u0130", "i\u0307"}, // I with dot above
		{"\u0131", "\u0131"},  // dotless i folds to itself
		{"\u13a0", "\u13a0"},  // Cherokee folds to capitals
		{"\uab70", "\u13a0"},
		{"\u13fd", "\u13f5"},
		{"\uff21", "\uff41"},         // full-width: case yes, width no
		{"\u1fb3", "αι"},             // alpha with ypogegrammeni
		{"\U00010400", "\U00010428"}, // Deseret
	} {
		if got := canon.Fold(c.name); got != c.want {
			t.Errorf("%q: got %q, want %q", c.name, got, c.want)
		}
	}
	name := "create_payment"
	if n := testing.AllocsPerRun(100, func() { canon.Fold(name) }); n > 0 {
		t.Errorf("a plain name costs %v allocations", n)
	}
}

// A fold that folds again to something else would let a pair of look-alikes
// through, depending on which of them is folded.
func TestFoldIsStable(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		once := canon.Fold(string(r))
		if twice := canon.Fold(once); twice != once {
			t.Errorf("%U folds to %+q, and then to %+q", r, once, twice)
		}
	}
}
