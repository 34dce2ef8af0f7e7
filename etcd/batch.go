package etcd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/writ-pdp/writ/revocation"
)

// Limits in bytes of what one transaction writes of revocations. Together they
// stay under the 1.5 MiB that etcd takes in one request.
const (
	maxBatch = 896 << 10 // of a batch
	maxGone  = 512 << 10 // of what is noted of lines that have gone
)

// maxSequence is the last sequence that is read: what comes after it in a batch
// still fits.
const maxSequence = 1e18

// batch is what one call added to the revocation log.
type batch struct {
	ID       string `json:"id"`                 // tells one call from another
	Previous string `json:"previous,omitempty"` // ID of the batch before; empty: there was none
	// Generation stood when the entries were added; 0: there was none yet.
	Generation uint64  `json:"generation"`
	Entries    []entry `json:"entries"`
}

// entry is an entry of the log. Its sequence follows from its place.
type entry struct {
	Kind         revocation.Kind `json:"kind"`
	Issuer       string          `json:"issuer,omitempty"`
	ID           string          `json:"id"`
	IssuedBefore time.Time       `json:"issued_before,omitzero"`
	From         time.Time       `json:"from,omitzero"`
	Until        time.Time       `json:"until,omitzero"`
	Lift         bool            `json:"lift,omitzero"`
	Reason       string          `json:"reason,omitempty"`
	Author       string          `json:"author,omitempty"`
	RecordedAt   time.Time       `json:"recorded_at,omitzero"`
	Imported     bool            `json:"imported,omitzero"`
}

// encodeBatch writes entries.
func encodeBatch(id, previous string, generation uint64, entries []revocation.Entry) ([]byte, error) {
	b := batch{ID: id, Previous: previous, Generation: generation, Entries: make([]entry, len(entries))}
	for i, e := range entries {
		b.Entries[i] = entry{
			Kind: e.Kind, Issuer: e.Issuer, ID: e.ID, IssuedBefore: e.IssuedBefore, From: e.From, Until: e.Until, Lift: e.Lift,
			Reason: e.Reason, Author: e.Author, RecordedAt: e.RecordedAt, Imported: e.Imported,
		}
	}
	return json.Marshal(&b)
}

// parsedBatch is a batch with its place in the log.
type parsedBatch struct {
	generation   uint64
	entries      []revocation.Entry // with their sequence; at least one
	id, previous string
}

// parseBatch reads entries of which the first has this sequence. What they say
// is checked where a view is made of them.
func parseBatch(first uint64, data []byte) (parsedBatch, error) {
	var b batch
	if err := decode(data, &b); err != nil {
		return parsedBatch{}, err
	}
	switch {
	case b.ID == "" || len(b.Entries) == 0:
		return parsedBatch{}, errors.New("it has no id or no entries")
	case first == 0 || first > maxSequence:
		return parsedBatch{}, errors.New("sequences count from 1")
	}
	out := parsedBatch{b.Generation, make([]revocation.Entry, len(b.Entries)), b.ID, b.Previous}
	for i, e := range b.Entries {
		out.entries[i] = revocation.Entry{
			Sequence: first + uint64(i), Kind: e.Kind, Issuer: e.Issuer, ID: e.ID,
			IssuedBefore: e.IssuedBefore, From: e.From, Until: e.Until, Lift: e.Lift,
			Reason: e.Reason, Author: e.Author, RecordedAt: e.RecordedAt, Imported: e.Imported,
		}
	}
	return out, nil
}

// tail is where the log ends, as state/sequence says it: the sequence of the
// last entry, a space, and the ID of its batch.
type tail struct {
	sequence uint64
	batch    string
}

func (t tail) String() string { return fmt.Sprintf("%d %s", t.sequence, t.batch) }

// parseTail reads what String wrote, and nothing else.
func parseTail(text string) (tail, bool) {
	digits, id, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(digits, 10, 64)
	t := tail{n, id}
	return t, err == nil && n > 0 && n <= maxSequence && id != "" && t.String() == text
}
