package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// exporter says in the process's own log what could not be exported; the SDK
// would tell a global handler. Nothing else depends on what it exports: calls
// are answered all the same.
type exporter struct {
	sdktrace.SpanExporter
	log *slog.Logger // nil: nobody

	mu   sync.Mutex
	last time.Time // guarded by mu: of the last line
	lost int       // guarded by mu: spans since that line, and not in it
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.failed(ctx, len(spans), err)
	}
	return nil
}

func (e *exporter) failed(ctx context.Context, spans int, err error) {
	e.mu.Lock()
	e.lost += spans
	lost, now := e.lost, time.Now()
	quiet := e.log == nil || now.Sub(e.last) < time.Minute
	if !quiet {
		e.last, e.lost = now, 0
	}
	e.mu.Unlock()
	if !quiet {
		e.log.LogAttrs(ctx, slog.LevelWarn, "spans could not be exported", slog.Int("spans", lost), slog.String("error", err.Error()))
	}
}
