package contract

import (
	"fmt"
	"strconv"
	"strings"
)

// FieldError is one fault of a declaration: where and what, and what to do.
type FieldError struct {
	// Field is the path of the declared value, in snake case:
	// tools.create_payment.opaque[0]. A key that is not of letters, digits, _
	// and - is quoted: tools["a.b"].
	Field string
	// Pointer is set where the tool's definition is at fault, not its review: the
	// JSON Pointer (RFC 6901) into the Tool object. Field is then the review's.
	Pointer string
	Message string
}

// Error returns "field: message".
func (e FieldError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// FieldErrors is a list of faults; as an error it reads one a line.
type FieldErrors []FieldError

// Error returns one fault a line.
func (es FieldErrors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// faults collects errors and warnings in the order in which they are found.
type faults struct {
	errors   FieldErrors
	warnings []FieldError
	// certain holds the errors that are faults whatever else the review says.
	certain map[FieldError]bool
}

func (f *faults) errorf(field, format string, args ...any) {
	f.errors = append(f.errors, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// certainf is errorf for what stays a fault whatever else a review says that
// could not be read whole.
func (f *faults) certainf(field, format string, args ...any) {
	f.errorf(field, format, args...)
	if f.certain == nil {
		f.certain = map[FieldError]bool{}
	}
	f.certain[f.errors[len(f.errors)-1]] = true
}

func (f *faults) warnf(field, format string, args ...any) {
	f.warnings = append(f.warnings, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// member returns the field path of a named member.
func member(parent, name string) string {
	plain := name != ""
	for i := 0; i < len(name); i++ {
		c := name[i]
		plain = plain && (c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}
	switch {
	case !plain:
		return parent + "[" + strconv.Quote(name) + "]"
	case parent == "":
		return name
	}
	return parent + "." + name
}

// item returns the field path of a list's element.
func item(parent string, i int) string { return parent + "[" + strconv.Itoa(i) + "]" }

// oneOf reports a value outside a closed set of words. The empty word is
// allowed where allowed holds it.
func (f *faults) oneOf(field, value string, allowed ...string) {
	var words []string
	for _, a := range allowed {
		if a == value {
			return
		}
		if a != "" {
			words = append(words, a)
		}
	}
	f.errorf(field, "%q is not one of %s", value, strings.Join(words, ", "))
}

// nearest returns `; did you mean "x"?` for the candidate closest to name, or
// nothing when none is close.
func nearest(name string, candidates []string) string {
	const longest = 64 // nobody mistypes more, and the comparison is quadratic
	best, distance := "", 1+max(1, len(name)/3)
	for _, c := range candidates {
		if len(name) > longest || len(c) > longest {
			continue
		}
		if d := editDistance(name, c); d < distance {
			best, distance = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitute := diagonal
			if a[i-1] != b[j-1] {
				substitute++
			}
			diagonal = row[j]
			row[j] = min(substitute, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
