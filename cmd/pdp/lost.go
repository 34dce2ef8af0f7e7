package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// lookBack is how many of the newest records are looked at for a revision:
// nearly every record has one.
const lookBack = 256

// checkLost refuses a revocation log that is shorter than one that this source
// has answered from, as the records say: somebody took revocations away, or a
// file was lost. A log that was cut back whole, with its records, can't be seen
// here.
func checkLost(records *audit.Log, source string, journal *revocation.View) error {
	n, _ := records.Size()
	for i := n; i > 0 && n-i < lookBack; i-- {
		leaf, err := segment.ReadRecord(filepath.Join(records.Dir(), segment.Dir), i-1)
		if err != nil {
			return fmt.Errorf("record %d of the log: %w", i-1, err)
		}
		var told struct {
			Revision string `json:"revision"`
		}
		if err := json.Unmarshal(leaf, &told); err != nil {
			return fmt.Errorf("record %d of the log: %w", i-1, err)
		}
		was, err := snapshot.ParseRevision(told.Revision)
		if err != nil || was.Source == "" {
			continue
		}
		if was.Source == source && journal.Sequence() < was.Sequence {
			return fmt.Errorf("revocations are lost: the log of revocations ends with entry %d, and record %d was made with entry %d in force: "+
				"put revocations/revocations.jsonl of the data directory back; if it is gone, revoke again what it held and begin as a new source: move the directory bundle away",
				journal.Sequence(), i-1, was.Sequence)
		}
		return nil
	}
	return nil
}
