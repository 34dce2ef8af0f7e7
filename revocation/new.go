package revocation

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of an entry. What exceeds one is refused.
const (
	MaxID     = 1024 // bytes of an id, an issuer, an author
	MaxReason = 4096 // bytes of a reason
	MaxErrors = 100  // errors that one call of [New] reports
)

// Error is what is wrong with one entry.
type Error struct {
	Index   int    // of the entry, from 0
	Field   string // as files spell it: sequence, kind, issuer, id, issued_before, from, until, reason, author, recorded_at
	Message string // what is wrong and what to do
}

// Error returns entries[index].field: message.
func (e Error) Error() string { return fmt.Sprintf("entries[%d].%s: %s", e.Index, e.Field, e.Message) }

// Errors is a list of errors; as an error it reads one a line.
type Errors []Error

// Error returns one error a line.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// New makes the view of a whole log. It copies entries. The error is an
// [Errors] that lists what is wrong in the order of the entries, and at most
// [MaxErrors] things; then there is no view: a revocation that can't be read
// must not be skipped.
func New(entries []Entry) (*View, error) {
	log, sequence, err := numbered(0, entries)
	if err != nil {
		return nil, err
	}
	v := &View{log: newChunks(log), sequence: sequence}
	v.index()
	v.date(0)
	return v, nil
}

// numbered returns a copy of entries with sequence numbers that come after
// last, and the number of the last of them; or all that is wrong with them.
func numbered(last uint64, entries []Entry) ([]Entry, uint64, error) {
	log := slices.Clone(entries)
	var errs Errors
	for i := range log {
		e := &log[i]
		report := func(field, format string, args ...any) {
			if len(errs) < MaxErrors {
				errs = append(errs, Error{i, field, fmt.Sprintf(format, args...)})
			}
		}
		last = e.number(last, report)
		e.check(report)
		e.normal()
	}
	if errs != nil {
		return nil, 0, errs
	}
	return log, last, nil
}

// number gives the entry its sequence number, or checks it, where last is that
// of the entry before. It returns that of the last entry so far.
func (e *Entry) number(last uint64, report func(field, format string, args ...any)) uint64 {
	switch {
	case e.Sequence == 0 && last == math.MaxUint64:
		report("sequence", "no number is left after %d", last)
	case e.Sequence == 0:
		e.Sequence = last + 1
	case e.Sequence <= last:
		report("sequence", "%d does not come after %d: keep the order of the log, or leave sequence out", e.Sequence, last)
		return last
	}
	return e.Sequence
}

// check reports what is wrong with the entry itself.
func (e *Entry) check(report func(field, format string, args ...any)) {
	known := e.Kind.known()
	if !known {
		report("kind", "is unknown: want one of %s", strings.Join(kindNames(), ", "))
	}
	switch {
	case known && e.Kind.byIssuer() && e.Issuer == "":
		report("issuer", "is missing: a %s is named by its issuer and its id", e.Kind)
	case known && !e.Kind.byIssuer() && e.Issuer != "":
		report("issuer", "is not part of the name where kind is %s: leave it out", e.Kind)
	default:
		checkText("issuer", e.Issuer, MaxID, report)
	}
	if e.ID == "" {
		report("id", "is empty: say what is revoked")
	} else if checkText("id", e.ID, MaxID, report) {
		e.checkID(report)
	}
	if e.Lift {
		for _, t := range []struct {
			field string
			time  time.Time
		}{{"issued_before", e.IssuedBefore}, {"from", e.From}, {"until", e.Until}} {
			if !t.time.IsZero() {
				report(t.field, "a lift has no times: it withdraws every earlier entry of its name. Revoke anew what is to stay revoked")
			}
		}
	} else if !e.From.IsZero() && !e.Until.IsZero() && !e.From.Before(e.Until) {
		report("from", "is not before until: such a revocation is never in force")
	}
	for _, t := range []struct {
		field string
		time  time.Time
	}{{"issued_before", e.IssuedBefore}, {"from", e.From}, {"until", e.Until}, {"recorded_at", e.RecordedAt}} {
		if year := t.time.UTC().Year(); year < 1 || year > 9999 {
			report(t.field, "is in the year %d: RFC 3339 can write the years 1 to 9999", year)
		}
	}
	checkLength("reason", e.Reason, MaxReason, report)
	checkLength("author", e.Author, MaxID, report)
}

// checkID refuses ids that no server and no tool can have: such an entry
// would never revoke anything.
func (e *Entry) checkID(report func(field, format string, args ...any)) {
	server, isTool := e.ID, false
	if e.Kind == Tool {
		var tool string
		server, tool, isTool = strings.Cut(e.ID, "/")
		if !isTool || server == "" || tool == "" {
			report("id", "names no tool: write server/tool")
			return
		}
	}
	if (e.Kind == Tool || e.Kind == Server) && strings.ContainsAny(server, "/:#") {
		report("id", "is no server's id: those hold no /, : or #")
	}
}

// checkText refuses text that can't be a name: too long, not UTF-8, or with
// control characters.
func checkText(field, text string, limit int, report func(field, format string, args ...any)) bool {
	if !checkLength(field, text, limit, report) {
		return false
	}
	for _, c := range text {
		if unicode.IsControl(c) {
			report(field, "holds the control character U+%04X: remove it", c)
			return false
		}
	}
	return true
}

func checkLength(field, text string, limit int, report func(field, format string, args ...any)) bool {
	switch {
	case len(text) > limit:
		report(field, "is %d bytes long: at most %d are allowed", len(text), limit)
		return false
	case !utf8.ValidString(text):
		report(field, "is not valid UTF-8")
		return false
	}
	return true
}

func kindNames() []string {
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		names[i] = string(k)
	}
	return names
}
