package writ

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a fault keeps a bundle from loading.
type Severity uint8

// Severities.
const (
	Error Severity = iota
	Warning
)

// Fault is something wrong in a bundle: what, where, and what to do. It is an
// error that reads file:line:column: message.
type Fault struct {
	File     string // relative to the bundle, with forward slashes
	Line     int    // from 1; 0: unknown
	Column   int    // from 1, in characters; 0: unknown
	Field    string // dotted path inside the file: tools.create_payment.opaque[0]
	Severity Severity
	Message  string // what is wrong and what to do
}

// Error returns file:line:column: field: message, without the parts that are unknown.
func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
			if f.Column > 0 {
				fmt.Fprintf(&b, ":%d", f.Column)
			}
		}
		b.WriteString(": ")
	}
	if f.Severity == Warning {
		b.WriteString("warning: ")
	}
	if f.Field != "" {
		b.WriteString(f.Field)
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults is a list of faults; as an error it reads one a line.
type Faults []Fault

// Error returns one fault a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Errors returns the faults that keep a bundle from loading, or nil.
func (fs Faults) Errors() Faults {
	var out Faults
	for _, f := range fs {
		if f.Severity == Error {
			out = append(out, f)
		}
	}
	return out
}

// Sort orders the faults by place, then message, and drops repetitions.
func (fs Faults) Sort() Faults {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(fs)
}
