package decide_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/writ-pdp/writ/bundle"
)

// warned returns what people are warned of in the reason of a payment.
func warned(t testing.TB, b *bundle.Bundle, reason string) []string {
	t.Helper()
	s := scenarioOf(t, b, "needs one")
	text, err := json.Marshal(map[string]any{"supplier": "ACME", "amount": json.Number("600"), "reason": reason})
	if err != nil {
		t.Fatal(err)
	}
	s.Proposal.ArgumentsJSON, s.Proposal.Evidence = text, amounts(s.Proposal.Evidence, "600")
	for _, a := range asked(t, b, s).Arguments {
		if a.Pointer == "/reason" {
			return a.Warnings
		}
	}
	t.Fatal("no reason")
	return nil
}

func TestWarnings(t *testing.T) {
	const (
		bidi      = "It holds characters that change the direction of writing."
		invisible = "It holds invisible characters."
		control   = "It holds control characters."
		spaces    = "It begins or ends with white space."
		blank     = "It is text without a visible character."
		mixed     = "It mixes letters of different scripts in one word."
		alike     = "Every letter of it looks like a Latin one and is of another script."
	)
	b := loadCase(t, "approval")
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"ACME-SUPPLIER-01", nil},
		{"Zahlung für Müller & Søn, façade", nil},
		{"e\u0301t\u00e9", nil},                   // combining marks are of the letter's script
		{"Оплата счёта № 17", nil},                // Russian
		{"Оплата invoice 17", nil},                // two scripts, in words of their own
		{"請求書ABCの支払い", nil},                       // Latin with Japanese
		{"한국어 payments", nil},                     // Korean
		{"דוח שנתי", nil},                         // Hebrew needs no controls
		{"line one\nline two\t3", nil},            // ordinary white space inside
		{"𝔘𝔫𝔦", nil},                              // of no script of its own
		{"АСМЕ", []string{alike}},                 // Cyrillic throughout
		{"ΑΒΕ-01", []string{alike}},               // Greek throughout
		{"АCME", []string{mixed}},                 // Cyrillic A
		{"p\u0430ypal", []string{mixed}},          // Cyrillic a
		{"pay\u200bpal", []string{invisible}},     // zero width space
		{"pа\u200dy", []string{invisible, mixed}}, // a joiner does not part words
		{"pay\u00adpal", []string{invisible}},     // soft hyphen
		{"a\u3164b", []string{invisible}},         // Hangul filler
		{"a\ufe0fb", []string{invisible}},         // variation selector
		{"a\U000e0041", []string{invisible}},      // tag
		{"\u202egpj.exe", []string{bidi}},         // right to left override
		{"a\u2066b\u2069", []string{bidi}},        // isolates
		{"a\u200fb", []string{bidi}},              // right to left mark
		{"a\x1b[2Jb", []string{control}},          // a terminal would obey
		{"a\u0085b", []string{control}},           // next line
		{"a\rb", []string{control}},               // hides what stands before it
		{" ACME", []string{spaces}},               //
		{"ACME\u00a0", []string{spaces}},          // no-break space
		{"", nil},                                 //
		{"  ", []string{spaces, blank}},           //
		{"\u200b", []string{invisible, blank}},    //
		{"\u202e \u0430b", []string{bidi, mixed}}, // several at once
	} {
		if got := warned(t, b, tc.text); !slices.Equal(got, tc.want) {
			t.Errorf("%q (%+q): %q, want %q", tc.text, tc.text, got, tc.want)
		}
	}
}

// TestWarningsOfStructures: texts inside of a value count, and names do.
func TestWarningsOfStructures(t *testing.T) {
	b := shows(t, "    undeclared: allow\n    review_shows: [amount]\n")
	for value, want := range map[string]int{
		`{"a":["b",{"c":"d"}]}`: 0, `{"a":["b",{"c":"\u202e"}]}`: 2, `{"a\u202e":1}`: 1, `[1,true,null]`: 0, `["\u202e","\u202e a"]`: 2,
	} {
		s := scenarioOf(t, b, "has one")
		s.Proposal.Approvals = nil
		s.Proposal.ArgumentsJSON = []byte(`{"supplier":"ACME","amount":600,"reason":"x","more":` + value + `}`)
		a := asked(t, b, s).Arguments
		if got := a[len(a)-1]; got.Pointer != "/more" || len(got.Warnings) != want {
			t.Errorf("%s: %+v", value, got)
		}
	}
}

// FuzzWarnings: every text can be shown, and what an eye can't see in it is told.
func FuzzWarnings(f *testing.F) {
	for _, seed := range []string{"ACME", "\u202e", "p\u0430y", "\u3164", "\x1b[0m", " ", "e\u0301"} {
		f.Add(seed)
	}
	b := loadCase(f, "approval")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 || strings.ToValidUTF8(text, "") != text {
			t.Skip()
		}
		got := strings.Join(warned(t, b, text), " ")
		for _, r := range text {
			if unicode.Is(unicode.Bidi_Control, r) && !strings.Contains(got, "direction") ||
				unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Bidi_Control, r) && !strings.Contains(got, "invisible") ||
				unicode.IsControl(r) && r != '\n' && r != '\t' && !strings.Contains(got, "control") {
				t.Fatalf("%+q: %q", text, got)
			}
		}
	})
}
