package otlplog_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/otlplog"
	"github.com/writ-pdp/writ/audit/verifytest"
	"github.com/writ-pdp/writ/telemetry/telemetrytest"
)

// With the real log: while nobody collects, records are taken as ever; and
// what is collected in the end is, byte for byte, what the log's checkpoint
// speaks for.
func TestRealLog(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	c.Stop(t)
	dir := t.TempDir()
	log, err := audit.Open(audit.Config{Dir: dir, SegmentBytes: 1 << 14, Checkpoint: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t, nil)
	cfg.Verifier, cfg.File = log.Verifier(), filepath.Join(dir, "otlp.cursor")
	cfg.Follow = func(from uint64) otlplog.Cursor { return log.Follow(from) }
	cfg.Synced = func() uint64 { _, synced := log.Size(); return synced }
	e := run(t, cfg)
	const n = 1000
	for i := range n {
		r := audit.Record{Kind: audit.KindStart, Time: time.Now().UTC(), Revision: fmt.Sprint(i)}
		if err := log.Append(t.Context(), r, i%100 == 99); err != nil {
			t.Fatal(err)
		}
		if i == n/2 {
			until(t, "a failure", func() bool { return e.Status().Err != nil })
		}
	}
	if s := e.Status(); s.Exported != 0 || s.Lag == 0 {
		t.Errorf("nobody collects: %+v", s)
	}
	c.Restart(t)
	e.sent(n)
	e.kill()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	complete(t, c, n)
	verified, err := verifytest.Verify(dir, cfg.Verifier)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range c.Logs.Records() {
		i := telemetrytest.Attribute(r, "writ.index").GetIntValue()
		if verifytest.LeafHash([]byte(r.GetBody().GetStringValue())) != verified.Leaves[i] {
			t.Errorf("the body of record %d is not its line: %v", i, r.GetBody())
		}
	}
	if _, err := verified.Tree.Inclusion(n-1, verified.Size); err != nil {
		t.Error(err)
	}
}

var _ otlplog.Cursor = (*audit.Cursor)(nil)

// An exporter of the real log that stops at any time leaves nothing open that
// keeps the log from closing.
func TestRealLogCloses(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	log, err := audit.Open(audit.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t, nil)
	cfg.Verifier = log.Verifier()
	cfg.Follow = func(from uint64) otlplog.Cursor { return log.Follow(from) }
	cfg.Synced = func() uint64 { _, synced := log.Size(); return synced }
	e := run(t, cfg)
	if err := log.Append(t.Context(), audit.Record{Kind: audit.KindStop, Time: time.Now().UTC()}, true); err != nil {
		t.Fatal(err)
	}
	e.cancel()
	e.cancel = nil
	if err := <-e.ended; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	complete(t, c, 1)
}
