package target

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// profile is the lookup protocol of IDNA2008 (RFC 5891, section 5), without
// the local mapping that the RFC leaves to user interfaces (RFC 5895):
//
//   - ValidateForRegistration validates and does not map: no UTS #46 case,
//     width or compatibility mapping, no ignored characters, no other dots
//     than U+002E; NFC, valid code points, STD3 ASCII (letters, digits,
//     hyphens), joiners in their context (RFC 5892, appendix A.1 and A.2), the
//     Bidi rule (RFC 5893), DNS lengths. It is non-transitional.
//   - CheckHyphens is off, because it also refuses plain ASCII labels such as
//     r3---sn-x, which exist; asciiName and checkName hold the hyphen rules
//     instead.
//
// Mapping would admit several spellings of one name, which resolvers with
// IDNA2003, UTS #46 or no mapping at all take to different places.
var profile = idna.New(idna.ValidateForRegistration(), idna.CheckHyphens(false))

// asciiName returns a name without its trailing dot in lower-case ASCII,
// Unicode labels as A-labels. Plain ASCII names are only lowered.
func asciiName(name string) (string, error) {
	name = lowerASCII(name)
	ascii := isASCII(name)
	if ascii && !strings.HasPrefix(name, "xn--") && !strings.Contains(name, ".xn--") {
		return name, nil
	}
	if strings.ContainsAny(name, deviations) {
		return "", errors.New("the host name holds a character that IDNA2003 and IDNA2008 resolve differently (ß, ς or a joiner): write the label in its xn-- form")
	}
	out, err := profile.ToASCII(name)
	if err != nil {
		return "", errIDNA()
	}
	if ascii && out != name { // RFC 5891, section 5.3: resolvers look up the label as given
		return "", errors.New("the host name has an xn-- label that is not in its one form")
	}
	unicodeName, err := profile.ToUnicode(name)
	if err != nil {
		return "", errIDNA()
	}
	for label := range strings.SplitSeq(unicodeName, ".") {
		if err := checkULabel(label); err != nil {
			return "", err
		}
	}
	return out, nil
}

// deviations are the characters of UTS #46, table 1: ß, ς, and the
// zero-width joiner and non-joiner.
const deviations = "ßς\u200c\u200d"

func errIDNA() error {
	return errors.New("the host name is not valid under IDNA2008: write it in lower case, composed (NFC), without full-width, invisible or symbol characters, or in its xn-- form")
}

// checkULabel holds a label beyond ASCII to what profile leaves out: the code
// points of RFC 5892 (UTS #46 admits symbols and more) and hyphens in third
// and fourth place (RFC 5891, section 4.2.3.1).
func checkULabel(label string) error {
	if isASCII(label) {
		return nil
	}
	place := 0
	third := false
	for _, r := range label {
		place++
		if r >= utf8.RuneSelf && !permittedByIDNA2008(r) {
			return errIDNA()
		}
		if place == 3 {
			third = r == '-'
		}
		if place == 4 && third && r == '-' {
			return errors.New("the host name has a Unicode label with hyphens in third and fourth place")
		}
	}
	return nil
}

// permittedByIDNA2008 reports whether RFC 5892, section 3, derives PVALID,
// CONTEXTJ or CONTEXTO for r, a code point beyond ASCII that UTS #46 does not
// map or ignore. (Rules of CONTEXTO need not be tested in lookup: RFC 5891,
// section 5.4.)
func permittedByIDNA2008(r rune) bool {
	switch r {
	case 0x00B7, 0x0375, 0x05F3, 0x05F4, 0x30FB, // CONTEXTO of section 2.6
		0x200C, 0x200D, // CONTEXTJ
		0x06FD, 0x06FE, 0x0F0B, 0x3007: // PVALID of section 2.6
		return true
	case 0x0640, 0x07FA, 0x302E, 0x302F, 0x3031, 0x3032, 0x3033, 0x3034, 0x3035, 0x303B: // DISALLOWED of section 2.6
		return false
	}
	if unicode.Is(disallowedBlocks, r) {
		return false
	}
	// Section 2.1. What changes under case folding and NFKC is gone already.
	return unicode.In(r, unicode.Ll, unicode.Lu, unicode.Lo, unicode.Nd, unicode.Lm, unicode.Mn, unicode.Mc)
}

// disallowedBlocks are the letters and marks of RFC 5892, sections 2.4
// (IgnorableBlocks) and 2.9 (OldHangulJamo).
var disallowedBlocks = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x11FF, Stride: 1}, // conjoining jamo
		{Lo: 0x20D0, Hi: 0x20FF, Stride: 1}, // combining marks for symbols
		{Lo: 0xA960, Hi: 0xA97C, Stride: 1},
		{Lo: 0xD7B0, Hi: 0xD7FB, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1D100, Hi: 0x1D24F, Stride: 1}, // musical symbols, ancient Greek ones too
	},
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lowerASCII lowers A to Z and nothing else: strings.ToLower would turn the
// Kelvin sign into a k.
func lowerASCII(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] < 'A' || s[i] > 'Z' {
			continue
		}
		b := []byte(s)
		for ; i < len(b); i++ {
			if 'A' <= b[i] && b[i] <= 'Z' {
				b[i] += 'a' - 'A'
			}
		}
		return string(b)
	}
	return s
}
