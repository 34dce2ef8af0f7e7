package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// openRevocations opens the revocation log of a data directory. It is to be
// open before any world is in force.
func openRevocations(data string, log *slog.Logger) (*revocation.Journal, error) {
	journal, err := revocation.OpenJournal(filepath.Join(data, "revocations"))
	if err != nil {
		return nil, err
	}
	if cut := journal.Recovered(); cut > 0 {
		log.Warn("the revocation log ended in the middle of a line, which was never in force: the torn end was cut", "bytes", cut)
	}
	return journal, nil
}

// recordTimeout is how long the records of imported revocations may take.
const recordTimeout = 5 * time.Second

// importer makes the entries of revocations.yaml part of the journal, and
// records those that are new. They are in force whether that succeeds or not:
// a revocation that isn't recorded is better than none.
func importer(journal *revocation.Journal, records pdp.Log, log *slog.Logger) func([]revocation.Entry) (*revocation.View, error) {
	return func(file []revocation.Entry) (*revocation.View, error) {
		before := journal.View().Sequence()
		view, err := journal.Import(file)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		for e := range view.Entries(before) {
			if !e.Imported {
				continue // somebody else's call records it
			}
			if err := records.Append(ctx, pdp.RevocationRecord(&e, e.RecordedAt, ""), false); err != nil {
				log.Error("the revocations of the bundle are in force, but not all of them are recorded", "sequence", e.Sequence, "error", err)
				break
			}
		}
		return view, nil
	}
}
