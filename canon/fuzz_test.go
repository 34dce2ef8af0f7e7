package canon_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/writ-pdp/writ/canon"
)

// FuzzParse holds the gate against jsontext: what both accept has one
// canonical form, and we refuse what jsontext refuses, and beyond that only
// for the reasons that are ours.
func FuzzParse(f *testing.F) {
	for _, v := range readVectors(f) {
		if v.Repeat == nil {
			f.Add(v.text(f))
		}
	}
	f.Add([]byte(payment))
	f.Fuzz(func(t *testing.T, data []byte) {
		reference := jsontext.Value(append([]byte(nil), data...))
		refErr := reference.Canonicalize()

		v, err := canon.Parse(data)
		if err != nil {
			e, ok := errors.AsType[*canon.Error](err)
			if !ok || v != nil {
				t.Fatalf("got %v, %v", v, err)
			}
			if e.Offset < 0 || e.Offset > len(data) || len(e.Pointer) > 512 || e.Error() == "" {
				t.Errorf("place out of range: %+v", e)
			}
			switch e.Reason {
			case canon.ReasonSize, canon.ReasonDepth, canon.ReasonLookAlike, canon.ReasonNumber:
			default:
				if refErr == nil {
					t.Errorf("%q: refused (%v), but it is the JSON %s", data, err, reference)
				}
			}
			return
		}
		if refErr != nil {
			t.Fatalf("%q: accepted, but %v", data, refErr)
		}
		once := canon.Append(nil, v)
		if string(once) != string(reference) {
			t.Fatalf("%q: canonical form\n got %s\nwant %s", data, once, reference)
		}
		again, err := canon.Parse(once)
		if len(once) > canon.MaxSize {
			return // escapes can be longer than what they stand for
		}
		if err != nil {
			t.Fatalf("%q: its canonical form %s is refused: %v", data, once, err)
		}
		if twice := canon.Append(nil, again); string(twice) != string(once) {
			t.Fatalf("%q: canonical form %s is not a fixed point: %s", data, once, twice)
		}
	})
}

// FuzzNumber holds number literals against exact arithmetic.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-0", "1.0", "1e3", "0.000001", "0.0000001", "9007199254740993", "90071992547409.934", "1e308", "5e-324", "0.1000", "123456789012345", "1234567890123456", "0.00000123"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 400 || s == "" || strings.Trim(s, "0123456789+-.eE") != "" || !jsontext.Value(s).IsValid() {
			return
		}
		if i := strings.IndexAny(s, "eE"); i >= 0 && len(s)-i > 6 {
			return // the oracle would write it all out
		}
		checkNumber(t, s)
	})
}

// FuzzFold: folding is stable, keeps UTF-8, and agrees with what Parse takes
// for look-alikes, in small objects and in large ones.
func FuzzFold(f *testing.F) {
	f.Add("amount", "Amount")
	f.Add("k", "\u212a")
	f.Add("ß", "SS")
	f.Add("é", "E\u0301")
	f.Add("a", "b")
	f.Add("α\u0345\u0301", "ΆΙ")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) || a == b || len(a)+len(b) > 1000 {
			return
		}
		fa, fb := canon.Fold(a), canon.Fold(b)
		if again := canon.Fold(fa); again != fa {
			t.Errorf("%+q folds to %+q, and then to %+q", a, fa, again)
		}
		if !utf8.ValidString(fa) {
			t.Errorf("%+q folds to %+q", a, fa)
		}
		text := canon.AppendString([]byte("{"), a)
		text = canon.AppendString(append(text, ":0,"...), b)
		small := string(text) + ":0}"
		large := string(text) + ":0"
		for _, c := range "bcdefghijklmnopqrst" {
			large += `,"` + strings.Repeat(string(c), 1100) + `":0`
		}
		for _, text := range []string{small, large + "}"} {
			_, err := canon.Parse([]byte(text))
			e, refused := errors.AsType[*canon.Error](err)
			if refused != (fa == fb) || refused && e.Reason != canon.ReasonLookAlike {
				t.Errorf("%+q and %+q fold to %+q and %+q: %v", a, b, fa, fb, err)
			}
		}
	})
}
