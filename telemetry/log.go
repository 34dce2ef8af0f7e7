package telemetry

import (
	"context"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// Handler adds trace_id and span_id to each log line whose context is in a
// trace (OpenTelemetry, "Trace Context in non-OTLP Log Formats"). Where this
// process makes no span, span_id is the caller's.
func Handler(h slog.Handler) slog.Handler { return &traced{Handler: h, plain: h} }

// traced writes through to a handler.
type traced struct {
	slog.Handler
	// plain is the handler before any group was opened in it, and since what
	// was done to it from then on: the two attributes belong to no group.
	plain slog.Handler
	since []func(slog.Handler) slog.Handler
}

func (t *traced) Handle(ctx context.Context, r slog.Record) error {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return t.Handler.Handle(ctx, r)
	}
	ids := []slog.Attr{slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String())}
	if len(t.since) == 0 {
		r = r.Clone()
		r.AddAttrs(ids...)
		return t.Handler.Handle(ctx, r)
	}
	h := t.plain.WithAttrs(ids)
	for _, change := range t.since {
		h = change(h)
	}
	return h.Handle(ctx, r)
}

func (t *traced) WithAttrs(attrs []slog.Attr) slog.Handler {
	change := func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) }
	if len(t.since) == 0 {
		return Handler(change(t.plain))
	}
	return t.with(change)
}

func (t *traced) WithGroup(name string) slog.Handler {
	if name == "" {
		return t
	}
	return t.with(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (t *traced) with(change func(slog.Handler) slog.Handler) slog.Handler {
	return &traced{Handler: change(t.Handler), plain: t.plain, since: append(slices.Clip(t.since), change)}
}
