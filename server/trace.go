package server

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

// traceparent is the header that names a trace and the caller's span in it
// (W3C Trace Context, section 3.2).
const traceparent = "traceparent"

// inTrace puts a call into the trace that it brings, if it is in none: where
// there is a stats handler that makes spans, it is in one. So log lines and
// records bear the caller's trace whether spans are made or not, and without
// one a call pays for no more than this.
func inTrace(ctx context.Context) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	parent := metadata.ValueFromIncomingContext(ctx, traceparent)
	if len(parent) == 0 {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, carrier{parent[0], ctx})
}

// carrier is what one call brings. It implements propagation.TextMapCarrier.
type carrier struct {
	parent string
	call   context.Context
}

func (c carrier) Get(key string) string {
	if key == traceparent {
		return c.parent
	}
	if v := metadata.ValueFromIncomingContext(c.call, key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (carrier) Set(string, string) {} // nothing is written to what came in
func (carrier) Keys() []string     { return nil }
