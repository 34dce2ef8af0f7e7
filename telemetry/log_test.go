package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/writ-pdp/writ/telemetry"
)

func TestHandler(t *testing.T) {
	id, err := trace.TraceIDFromHex(traceID)
	if err != nil {
		t.Fatal(err)
	}
	span, err := trace.SpanIDFromHex(parentID)
	if err != nil {
		t.Fatal(err)
	}
	within := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span}))
	const ids = ` trace_id=` + traceID + ` span_id=` + parentID
	for name, c := range map[string]struct {
		ctx  context.Context
		with func(*slog.Logger) *slog.Logger
		want string
	}{
		"no trace":        {t.Context(), nil, `level=INFO msg=m a=1`},
		"trace":           {within, nil, `level=INFO msg=m a=1` + ids},
		"attributes":      {within, func(l *slog.Logger) *slog.Logger { return l.With("b", 2) }, `level=INFO msg=m b=2 a=1` + ids},
		"group":           {within, func(l *slog.Logger) *slog.Logger { return l.With("b", 2).WithGroup("g").With("c", 3) }, `level=INFO msg=m b=2` + ids + ` g.c=3 g.a=1`},
		"group, no trace": {t.Context(), func(l *slog.Logger) *slog.Logger { return l.WithGroup("g").With("c", 3) }, `level=INFO msg=m g.c=3 g.a=1`},
		"no group":        {within, func(l *slog.Logger) *slog.Logger { return l.WithGroup("") }, `level=INFO msg=m a=1` + ids},
	} {
		var out bytes.Buffer
		log := slog.New(telemetry.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		}})))
		if c.with != nil {
			log = c.with(log)
		}
		log.InfoContext(c.ctx, "m", "a", 1)
		if got := out.String(); got != c.want+"\n" {
			t.Errorf("%s:\n got %swant %s", name, got, c.want)
		}
	}
	if telemetry.Handler(slog.DiscardHandler).Enabled(within, slog.LevelError) {
		t.Error("enabled, where the handler is not")
	}
}
