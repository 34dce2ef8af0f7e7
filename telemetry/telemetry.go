// Package telemetry sets OpenTelemetry up for a process that serves calls, and
// is the only importer of its SDK.
//
// The server carries on the trace of each call that brings a traceparent (W3C
// Trace Context), to log lines, through [Handler], and to audit records. Spans
// are made only where the environment says where they go:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
//	                            http://HOST:PORT in the clear, https://HOST:PORT over TLS
//	OTEL_TRACES_EXPORTER        otlp: export, to http://localhost:4317 if no endpoint is named; none: don't
//	OTEL_SDK_DISABLED           true: don't
//	OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG
//	OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
//	OTEL_EXPORTER_OTLP_HEADERS, …_CERTIFICATE, …_TIMEOUT, OTEL_BSP_…, OTEL_SPAN_…
//
// as the OpenTelemetry specification has them. The protocol is OTLP over gRPC
// and no other. Nothing global is set.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/stats"
)

// Config says what is traced, and as whose.
type Config struct {
	// Service and Version name the process: service.name and service.version.
	// The environment's names come before them. Service is required.
	Service, Version string
	// Traced reports whether calls of a method, by its full name, get a span;
	// nil: all do. Names of methods that don't exist are strangers' text, and
	// would be names of spans.
	Traced func(method string) bool
	// Log receives failures to export, at most one a minute; nil: nobody.
	Log *slog.Logger
}

// Tracing makes the spans of a process. Close it.
type Tracing struct {
	handler  stats.Handler            // nil with provider
	provider *sdktrace.TracerProvider // nil: nothing is recorded
	exporter *exporter                // nil with provider
}

// Start sets tracing up as the environment says. It does not wait for the
// collector, nor fail for the lack of it; an environment that can't be meant
// is an error.
func Start(ctx context.Context, cfg Config) (*Tracing, error) {
	if cfg.Service == "" {
		return nil, errors.New("telemetry: a service name is required")
	}
	export, err := exports()
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if !export {
		return &Tracing{}, nil
	}
	named, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otlp, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("telemetry: the OTLP exporter: %w", err)
	}
	t := &Tracing{exporter: &exporter{SpanExporter: otlp, log: cfg.Log}}
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithResource(named), sdktrace.WithBatcher(t.exporter))
	options := []otelgrpc.Option{
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
	}
	if cfg.Traced != nil {
		options = append(options, otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool { return cfg.Traced(call.FullMethodName) }))
	}
	t.handler = otelgrpc.NewServerHandler(options...)
	return t, nil
}

// StatsHandler makes a span of each call; nil: spans would go nowhere.
func (t *Tracing) StatsHandler() stats.Handler { return t.handler }

// Close exports the spans that have ended, for as long as ctx allows, and
// makes no more. Call it after the last call has ended.
func (t *Tracing) Close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	err := t.provider.Shutdown(ctx)
	// Where ctx has ended the provider leaves the exporter at its work.
	if err = errors.Join(err, t.exporter.Shutdown(ctx)); err != nil {
		return fmt.Errorf("telemetry: not every span was exported: %w", err)
	}
	return nil
}

// exports reads from the environment whether spans are to be exported. What
// the exporter would take for something else, or for nothing, is an error.
func exports() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpoint, endpointFrom := first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	switch which := os.Getenv("OTEL_TRACES_EXPORTER"); which {
	case "none":
		return false, nil
	case "":
		if endpoint == "" {
			return false, nil
		}
	case "otlp":
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: this server knows otlp and none", which)
	}
	if protocol, from := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol != "" && protocol != "grpc" {
		return false, fmt.Errorf("%s is %q: this server speaks grpc", from, protocol)
	}
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return false, fmt.Errorf("%s is no http://HOST:PORT or https://HOST:PORT", endpointFrom)
		}
	}
	return true, nil
}

// first returns the first of some variables that is set and not empty, and
// its name.
func first(names ...string) (value, name string) {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value, name
		}
	}
	return "", ""
}
