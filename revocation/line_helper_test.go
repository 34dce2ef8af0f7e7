package revocation_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/writ-pdp/writ/revocation"
)

// lineOf reads a line in another way than the journal does.
func lineOf(t *testing.T, line []byte) (entries []revocation.Entry, gone []uint64) {
	t.Helper()
	var l struct {
		Entries []struct {
			Sequence     uint64
			Kind         revocation.Kind
			Issuer, ID   string
			IssuedBefore time.Time `json:"issued_before"`
			From, Until  time.Time
			Lift         bool
			Reason       string
			Author       string
			RecordedAt   time.Time `json:"recorded_at"`
			Imported     bool
		}
		Gone []uint64
	}
	if err := json.Unmarshal(line, &l); err != nil {
		t.Fatal(err)
	}
	for _, e := range l.Entries {
		entries = append(entries, revocation.Entry{
			Sequence: e.Sequence, Kind: e.Kind, Issuer: e.Issuer, ID: e.ID, IssuedBefore: e.IssuedBefore, From: e.From, Until: e.Until,
			Lift: e.Lift, Reason: e.Reason, Author: e.Author, RecordedAt: e.RecordedAt, Imported: e.Imported,
		})
	}
	return entries, l.Gone
}
