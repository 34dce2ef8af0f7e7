package server_test

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
)

// The example of W3C Trace Context, section 3.2.2.
const (
	parentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentSpan  = "00f067aa0ba902b7"
)

// A call's trace goes to the decider, whether there is a stats handler or not;
// what is no traceparent is no trace.
func TestTraceOfACall(t *testing.T) {
	var seen trace.SpanContext
	d := &decider{do: func(ctx context.Context) (pdp.Answer, error) {
		seen = trace.SpanContextFromContext(ctx)
		return pdp.Answer{}, nil
	}}
	h := open(t, d, nil)
	decide := func(md ...string) {
		t.Helper()
		ctx := metadata.AppendToOutgoingContext(as(t, h.host), md...)
		if _, err := writv1.NewDecisionServiceClient(h.conn).Decide(ctx, &writv1.DecideRequest{Proposal: &writv1.Proposal{}}); err != nil {
			t.Fatal(err)
		}
	}
	decide("traceparent", "00-"+parentTrace+"-"+parentSpan+"-01", "tracestate", "vendor=1")
	if seen.TraceID().String() != parentTrace || seen.SpanID().String() != parentSpan || !seen.IsSampled() || !seen.IsRemote() || seen.TraceState().Get("vendor") != "1" {
		t.Errorf("the decider saw %v", seen)
	}
	for _, bad := range []string{
		"", "x", "00-" + parentTrace + "-" + parentSpan, "ff-" + parentTrace + "-" + parentSpan + "-01",
		"00-" + strings.ToUpper(parentTrace) + "-" + parentSpan + "-01", "00-" + strings.Repeat("0", 32) + "-" + parentSpan + "-01",
	} {
		if decide("traceparent", bad); seen.IsValid() {
			t.Errorf("traceparent %q: %v", bad, seen)
		}
	}
	if decide(); seen.IsValid() {
		t.Errorf("no traceparent: %v", seen)
	}
}

// spans is a stats handler that puts every call into a span of its own.
type spans struct{ made trace.SpanContext }

func (s spans) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return trace.ContextWithSpanContext(ctx, s.made)
}
func (spans) HandleRPC(context.Context, stats.RPCStats)                         {}
func (spans) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (spans) HandleConn(context.Context, stats.ConnStats)                       {}

// The span of a stats handler stays what it is, whatever the call brings.
func TestSpanOfACall(t *testing.T) {
	made := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	var seen trace.SpanContext
	d := &decider{do: func(ctx context.Context) (pdp.Answer, error) {
		seen = trace.SpanContextFromContext(ctx)
		return pdp.Answer{}, nil
	}}
	h := open(t, d, func(c *server.Config) { c.StatsHandler = spans{made} })
	ctx := metadata.AppendToOutgoingContext(as(t, h.host), "traceparent", "00-"+parentTrace+"-"+parentSpan+"-01")
	if _, err := writv1.NewDecisionServiceClient(h.conn).Decide(ctx, &writv1.DecideRequest{Proposal: &writv1.Proposal{}}); err != nil {
		t.Fatal(err)
	}
	if !seen.Equal(made) {
		t.Errorf("the decider saw %v", seen)
	}
}
