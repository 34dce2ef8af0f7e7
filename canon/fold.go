package canon

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Fold returns NFC(casefold(NFC(name))), with Unicode's full case folding.
// Names that fold alike are look-alikes: some decoder somewhere takes one for
// the other. A name of lower-case ASCII is returned as it is.
func Fold(name string) string {
	switch classify(name) {
	case plainName:
		return name
	case asciiName:
		return strings.ToLower(name)
	}
	// A Caser may keep state, so each call takes its own.
	folded := cases.Fold().String(norm.NFC.String(name))
	return norm.NFC.String(strings.Map(foldCherokee, folded))
}

// foldCherokee puts right what x/text gets wrong (golang.org/issue/46101):
// Cherokee folds to capitals (Unicode, CaseFolding.txt), and [cases.Fold]
// swaps the two cases instead, so that a capital and its small letter would
// not be look-alikes.
func foldCherokee(r rune) rune {
	switch {
	case 0xAB70 <= r && r <= 0xABBF:
		return r - 0xAB70 + 0x13A0
	case 0x13F8 <= r && r <= 0x13FD:
		return r - 0x13F8 + 0x13F0
	}
	return r
}

type nameClass uint8

const (
	plainName nameClass = iota // ASCII without capitals: folds to itself
	asciiName                  // ASCII
	otherName
)

func classify(name string) nameClass {
	class := plainName
	for i := 0; i < len(name); i++ {
		if c := name[i]; c >= utf8.RuneSelf {
			return otherName
		} else if 'A' <= c && c <= 'Z' {
			class = asciiName
		}
	}
	return class
}

// pairwise is how many names are compared each with each; more go through a
// set, so that the work stays linear.
const pairwise = 16

// lookAlike returns the index of the first member whose name folds to that of
// an earlier one, or -1. The names are distinct.
func lookAlike(members []member) int {
	worst := plainName
	for i := range members {
		worst = max(worst, classify(members[i].name))
	}
	switch {
	case worst == plainName:
		return -1 // each folds to itself
	case worst == asciiName && len(members) <= pairwise:
		for i := range members {
			for j := range i {
				if equalASCII(members[i].name, members[j].name) {
					return i
				}
			}
		}
		return -1
	}
	seen := make(map[string]struct{}, len(members))
	for i := range members {
		f := Fold(members[i].name)
		if _, dup := seen[f]; dup {
			return i
		}
		seen[f] = struct{}{}
	}
	return -1
}

// equalASCII reports whether two ASCII strings differ at most in case.
func equalASCII(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i++ {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
