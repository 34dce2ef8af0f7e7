package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// badLiteral finds the first string with an escape that Cedar doesn't know,
// number that it can't hold, or fraction. Cedar-go gives the former no place.
func (r *parseReport) badLiteral() (int, string) {
	for i, t := range r.tokens {
		text := r.text(i)
		if at, message := r.fraction(i + 1); message != "" {
			return at, message
		}
		switch t.kind {
		case tokenInt:
			if r.text(i-1) == "-" {
				text = "-" + text
			}
			if _, err := strconv.ParseInt(text, 10, 64); err != nil {
				return int(t.start), fmt.Sprintf("the number %s is beyond the range of a Long, -2^63 to 2^63-1", text)
			}
		case tokenString:
			if j, escape := badEscape(text, r.text(i-1) == "like"); escape != "" {
				return int(t.start) + j, fmt.Sprintf("%s is not an escape: there are \\n \\r \\t \\0 \\\\ \\\" \\' \\x41 \\u{e9}, and \\* in patterns", escape)
			}
		}
	}
	return 0, ""
}

// badEscape returns the first escape of a quoted string that Cedar refuses,
// and its offset.
func badEscape(quoted string, pattern bool) (int, string) {
	for i := 1; i < len(quoted)-1; i++ {
		if quoted[i] != '\\' {
			continue
		}
		rest := quoted[i : len(quoted)-1]
		size := escapeSize(rest, pattern)
		if size == 0 {
			_, n := utf8.DecodeRuneInString(rest[1:])
			return i, rest[:1+n]
		}
		i += size - 1
	}
	return 0, ""
}

// escapeSize returns the length of the escape that s starts with, or 0.
func escapeSize(s string, pattern bool) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case 'n', 'r', 't', '0', '\\', '"', '\'':
		return 2
	case '*':
		if pattern {
			return 2
		}
	case 'x':
		if len(s) >= 4 {
			if n, err := strconv.ParseUint(s[2:4], 16, 8); err == nil && n < 0x80 {
				return 4
			}
		}
	case 'u':
		digits, _, ok := cutWords(s, "\\u{", "}")
		hex := strings.ReplaceAll(digits, "_", "")
		n, err := strconv.ParseUint(hex, 16, 32)
		if ok && err == nil && digits[0] != '_' && len(hex) <= 6 && utf8.ValidRune(rune(n)) {
			return len("\\u{") + len(digits) + len("}")
		}
	}
	return 0
}

// fraction says how to write the fraction whose point is token i, where it is
// one.
func (r *parseReport) fraction(i int) (int, string) {
	if r.text(i) != "." || !r.isNumber(i+1) || i > 0 && !r.isNumber(i-1) && r.isOperand(i-1) {
		return 0, ""
	}
	first, whole := i, "0"
	if r.isNumber(i - 1) {
		first, whole = i-1, r.text(i-1)
	}
	before := first - 1
	if r.text(before) == "-" && !r.isOperand(before-1) {
		first, whole, before = before, "-"+whole, before-1
	}
	written := fmt.Sprintf("decimal(%q)", whole+"."+r.text(i+1))
	message := "fractions are written " + written
	if badLiteral("decimal", whole+"."+r.text(i+1)) != "" {
		message = "fractions are written like decimal(\"16.25\"), with 1–4 digits after the point"
	} else if method := decimalMethods[r.text(before)]; method != "" {
		message += fmt.Sprintf(", and compared by a method: `….%s(%s)`", method, written)
	}
	return r.at(first), message
}

func (r *parseReport) isNumber(i int) bool {
	return i >= 0 && i < len(r.tokens) && r.tokens[i].kind == tokenInt
}

// isOperand reports whether token i can end an operand.
func (r *parseReport) isOperand(i int) bool {
	m := meter{src: r.src, tokens: r.tokens}
	return i < len(r.tokens) && m.operand(i)
}
