package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/writ-pdp/writ/telemetry"
	"github.com/writ-pdp/writ/telemetry/telemetrytest"
)

// The example of W3C Trace Context, section 3.2.2.
const (
	parent   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
)

// clean makes the environment say nothing, whatever the machine's does.
func clean(t *testing.T, set ...string) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_TRACES_SAMPLER", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
	} {
		t.Setenv(name, "")
	}
	for i := 0; i < len(set); i += 2 {
		t.Setenv(set[i], set[i+1])
	}
}

func start(t *testing.T, cfg telemetry.Config) *telemetry.Tracing {
	t.Helper()
	cfg.Service = "pdp"
	tracing, err := telemetry.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tracing
}

// watched is a health service that notes the context of its calls.
type watched struct {
	*health.Server
	seen chan context.Context
}

func (w watched) Check(ctx context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	w.seen <- ctx
	return w.Server.Check(ctx, r)
}

// call makes one call with these metadata to a server with the handler, and
// returns the context that its method saw. The server has ended by then.
func call(t *testing.T, tracing *telemetry.Tracing, md ...string) context.Context {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	s := grpc.NewServer(grpc.StatsHandler(tracing.StatsHandler()))
	w := watched{health.NewServer(), make(chan context.Context, 1)}
	healthv1.RegisterHealthServer(s, w)
	go s.Serve(listener)
	defer s.GracefulStop()
	conn, err := grpc.NewClient("passthrough:x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), md...)
	if _, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	return <-w.seen
}

// A span is in the trace that the call brings, or begins one.
func TestPropagation(t *testing.T) {
	clean(t, "OTEL_EXPORTER_OTLP_ENDPOINT", telemetrytest.New(t).Endpoint)
	tracing := start(t, telemetry.Config{})
	defer tracing.Close(t.Context())
	sc := trace.SpanContextFromContext(call(t, tracing, "traceparent", parent, "tracestate", "vendor=1"))
	if sc.TraceID().String() != traceID || sc.SpanID().String() == parentID || sc.TraceState().Get("vendor") != "1" {
		t.Errorf("the call is in %v", sc)
	}
	for _, bad := range []string{"", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "ff-" + traceID + "-" + parentID + "-01", "x"} {
		sc := trace.SpanContextFromContext(call(t, tracing, "traceparent", bad))
		if sc.TraceID().String() == traceID || !sc.IsValid() {
			t.Errorf("traceparent %q: %v", bad, sc)
		}
	}
	if sc := trace.SpanContextFromContext(call(t, tracing)); !sc.IsValid() {
		t.Errorf("no traceparent: %v", sc)
	}
}

// Close exports what is left, and the span is the caller's child.
func TestExport(t *testing.T) {
	collector := telemetrytest.New(t)
	clean(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.Endpoint, "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	tracing := start(t, telemetry.Config{Version: "v1.2.3"})
	call(t, tracing, "traceparent", parent)
	if err := tracing.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := collector.Spans()
	if len(spans) != 1 || spans[0].GetName() != "grpc.health.v1.Health/Check" ||
		telemetrytest.ID(spans[0].GetTraceId()) != traceID || telemetrytest.ID(spans[0].GetParentSpanId()) != parentID {
		t.Errorf("received %v", spans)
	}
	for key, want := range map[string]string{"service.name": "pdp", "service.version": "v1.2.3", "deployment.environment.name": "test"} {
		if got := collector.Resource(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if err := tracing.Close(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}

// A caller that doesn't sample isn't recorded, and neither is a method that
// isn't traced; both keep their trace.
func TestNotRecorded(t *testing.T) {
	collector := telemetrytest.New(t)
	clean(t, "OTEL_EXPORTER_OTLP_ENDPOINT", collector.Endpoint)
	for name, c := range map[string]struct {
		cfg    telemetry.Config
		parent string
	}{
		"not sampled": {telemetry.Config{}, strings.TrimSuffix(parent, "1") + "0"},
		"not traced":  {telemetry.Config{Traced: func(m string) bool { return m != "/grpc.health.v1.Health/Check" }}, parent},
	} {
		tracing := start(t, c.cfg)
		span := trace.SpanFromContext(call(t, tracing, "traceparent", c.parent))
		if span.IsRecording() || span.SpanContext().TraceID().String() != traceID {
			t.Errorf("%s: recording %t in %v", name, span.IsRecording(), span.SpanContext())
		}
		if err := tracing.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if spans := collector.Spans(); len(spans) > 0 {
		t.Errorf("received %v", spans)
	}
}

// Without a collector calls are answered, the log says so once, and Close ends
// in time.
func TestNoCollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	clean(t, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100") // ms
	var log bytes.Buffer
	tracing := start(t, telemetry.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	call(t, tracing)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	begun := time.Now()
	if err := tracing.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if n := strings.Count(log.String(), "spans could not be exported"); n != 1 {
		t.Errorf("%d lines:\n%s", n, &log)
	}
}

// A collector that never answers keeps Close no longer than it may.
func TestCloseHasADeadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	clean(t, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	tracing := start(t, telemetry.Config{})
	call(t, tracing)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := tracing.Close(ctx); err == nil {
		t.Error("all is well")
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestEnvironment(t *testing.T) {
	const endpoint = "http://127.0.0.1:4317"
	for _, c := range []struct {
		set     []string
		exports bool
		fault   string
	}{
		{set: []string{}, exports: false},
		{set: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", endpoint}, exports: true},
		{set: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://otel.example:4317"}, exports: true},
		{set: []string{"OTEL_TRACES_EXPORTER", "otlp"}, exports: true},
		{set: []string{"OTEL_TRACES_EXPORTER", "none", "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint}, exports: false},
		{set: []string{"OTEL_SDK_DISABLED", "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint}, exports: false},
		{set: []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint}, exports: true},
		{set: []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint}, fault: "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{set: []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint}, exports: true},
		{set: []string{"OTEL_TRACES_EXPORTER", "zipkin"}, fault: "OTEL_TRACES_EXPORTER"},
		{set: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4317"}, fault: "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{set: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "localhost"}, fault: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{set: []string{"OTEL_RESOURCE_ATTRIBUTES", "no pair", "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint}, fault: "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		clean(t, c.set...)
		tracing, err := telemetry.Start(t.Context(), telemetry.Config{Service: "pdp"})
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%v: %v, want a fault of %s", c.set, err, c.fault)
			}
		case err != nil:
			t.Errorf("%v: %v", c.set, err)
		case (tracing.StatsHandler() != nil) != c.exports:
			t.Errorf("%v: makes spans: %t", c.set, !c.exports)
		}
		if err == nil {
			if err := tracing.Close(t.Context()); err != nil {
				t.Errorf("%v: %v", c.set, err)
			}
		}
	}
	if _, err := telemetry.Start(t.Context(), telemetry.Config{}); err == nil {
		t.Error("a service without a name")
	}
}
