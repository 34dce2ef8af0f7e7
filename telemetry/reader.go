package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
)

// reader puts each call into the trace that it brings, and makes no span. It
// is what there is without an exporter, in place of otelgrpc, which would
// gather attributes for a span that nobody records.
type reader struct{}

// TagRPC reads traceparent and tracestate.
func (reader) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	parent := metadata.ValueFromIncomingContext(ctx, traceparent)
	if len(parent) == 0 {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, carrier{parent[0], ctx})
}

func (reader) HandleRPC(context.Context, stats.RPCStats)                         {}
func (reader) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (reader) HandleConn(context.Context, stats.ConnStats)                       {}

// traceparent is the header that names the trace and the caller's span.
const traceparent = "traceparent"

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
