package revocation

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The log's file is JSON lines. A line is what one call added, all or none:
//
//	{"sum":"1f2e3d4c","entries":[{"sequence":1,"kind":"token",…}],"gone":[7]}
//
// sum is the CRC-32C (RFC 3720, appendix B.4) of the line's bytes after the
// comma that follows it, without the line feed, as 8 lower-case hexadecimal
// digits. entries are in order, and their sequence numbers have no gaps from
// the first line to the last. gone are the numbers of imported entries whose
// lines have gone from revocations.yaml. Times are RFC 3339, in UTC. Nothing
// that is empty is written.

// sumSize is the size of the beginning of a line: {"sum":"1f2e3d4c",
const sumSize = len(`{"sum":"00000000",`)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// lineJSON is a line after its sum.
type lineJSON struct {
	Entries []entryJSON `json:"entries,omitempty"`
	Gone    []uint64    `json:"gone,omitempty"`
}

// entryJSON is an entry in a line.
type entryJSON struct {
	Sequence     uint64    `json:"sequence"`
	Kind         Kind      `json:"kind"`
	Issuer       string    `json:"issuer,omitempty"`
	ID           string    `json:"id"`
	IssuedBefore time.Time `json:"issued_before,omitzero"`
	From         time.Time `json:"from,omitzero"`
	Until        time.Time `json:"until,omitzero"`
	Lift         bool      `json:"lift,omitzero"`
	Reason       string    `json:"reason,omitempty"`
	Author       string    `json:"author,omitempty"`
	RecordedAt   time.Time `json:"recorded_at,omitzero"`
	Imported     bool      `json:"imported,omitzero"`
}

// appendLine appends the line of what one call added.
func appendLine(b []byte, entries []Entry, gone []uint64) ([]byte, error) {
	l := lineJSON{Gone: gone}
	for _, e := range entries {
		l.Entries = append(l.Entries, entryJSON{
			e.Sequence, e.Kind, e.Issuer, e.ID, e.IssuedBefore, e.From, e.Until, e.Lift, e.Reason, e.Author, e.RecordedAt, e.Imported,
		})
	}
	text, err := json.Marshal(&l)
	if err != nil {
		return nil, fmt.Errorf("revocation: nothing was recorded: %w", err)
	}
	rest := text[1:] // the sum goes after the brace
	b = fmt.Appendf(b, `{"sum":"%08x",`, crc32.Checksum(rest, castagnoli))
	b = append(b, rest...)
	return append(b, '\n'), nil
}

// readJournal reads the log's file. size is how much of it is whole: after it
// stands an unfinished line, or nothing.
func readJournal(data []byte) (entries []Entry, left map[uint64]bool, size int64, err error) {
	left = make(map[uint64]bool)
	for number := 1; ; number++ {
		end := bytes.IndexByte(data[size:], '\n')
		if end < 0 {
			return entries, left, size, nil
		}
		l, err := readLine(data[size : size+int64(end)])
		if err == nil {
			entries, err = l.take(entries, left)
		}
		if err != nil {
			return nil, nil, 0, fmt.Errorf("line %d %w: the log is damaged: bring the file back from a copy, "+
				"or cut it before this line and revoke again what it and the lines after it say", number, err)
		}
		size += int64(end) + 1
	}
}

// readLine reads one line and accepts it only as appendLine writes it.
func readLine(data []byte) (*lineJSON, error) {
	if len(data) < sumSize {
		return nil, errors.New("is too short")
	}
	rest := data[sumSize:]
	if want := fmt.Sprintf(`{"sum":"%08x",`, crc32.Checksum(rest, castagnoli)); string(data[:sumSize]) != want {
		return nil, errors.New("does not fit its checksum")
	}
	l := &lineJSON{}
	if err := json.Unmarshal(append([]byte("{"), rest...), l, json.RejectUnknownMembers(true)); err != nil {
		// The library's message quotes what it met; the place is enough.
		if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			return nil, fmt.Errorf("is no JSON from byte %d on", e.ByteOffset)
		}
		return nil, errors.New("is no line of this log")
	}
	for i := range l.Entries {
		e := &l.Entries[i]
		for _, t := range []*time.Time{&e.IssuedBefore, &e.From, &e.Until, &e.RecordedAt} {
			*t = t.UTC()
		}
	}
	if again, err := json.Marshal(l); err != nil || !bytes.Equal(again[1:], rest) {
		return nil, errors.New("is written in another way than this log's lines are")
	}
	return l, nil
}

// take appends the line's entries and notes what has gone.
func (l *lineJSON) take(entries []Entry, left map[uint64]bool) ([]Entry, error) {
	if len(l.Entries) == 0 && len(l.Gone) == 0 {
		return nil, errors.New("says nothing")
	}
	// What has gone had been there before the line's own entries.
	for _, sequence := range l.Gone {
		switch {
		case sequence == 0 || sequence > uint64(len(entries)) || !entries[sequence-1].Imported:
			return nil, fmt.Errorf("says that the line of entry %d has gone, which is none of revocations.yaml", sequence)
		case left[sequence]:
			return nil, fmt.Errorf("says again that the line of entry %d has gone", sequence)
		}
		left[sequence] = true
	}
	for i, in := range l.Entries {
		if want := uint64(len(entries)) + 1; in.Sequence != want {
			return nil, fmt.Errorf("has sequence %d where %d comes next", in.Sequence, want)
		}
		if len(entries) == math.MaxInt32 {
			return nil, errors.New("is more than a log can hold")
		}
		e := Entry{
			in.Sequence, in.Kind, in.Issuer, in.ID, in.IssuedBefore, in.From, in.Until, in.Reason, in.Author, in.Lift, in.RecordedAt, in.Imported,
		}
		e.normal()
		var fault error
		e.check(func(field, format string, args ...any) {
			if fault == nil {
				fault = fmt.Errorf("has an entry %d whose %s %s", i, field, fmt.Sprintf(format, args...))
			}
		})
		if fault != nil {
			return nil, fault
		}
		entries = append(entries, e)
	}
	return entries, nil
}
