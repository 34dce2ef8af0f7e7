package main

import (
	"context"
	"path/filepath"

	"github.com/writ-pdp/writ/audit/otlplog"
)

// startExport makes what sends the log's records to a collector; nil where the
// environment doesn't ask for it. Its cursor is beside the log, not in it.
func (s *service) startExport(data string) (*otlplog.Exporter, error) {
	if wanted, err := otlplog.Wanted(); err != nil || !wanted {
		return nil, err
	}
	return otlplog.New(context.Background(), otlplog.Config{
		Verifier: s.audit.Verifier(),
		Follow:   func(from uint64) otlplog.Cursor { return s.audit.Follow(from) },
		Synced:   func() uint64 { _, synced := s.audit.Size(); return synced },
		File:     filepath.Join(data, "otlp.cursor"),
		Service:  "pdp", Version: version(), Log: s.log,
	})
}
