// Package telemetrytest is for tests that want to see what a process exports:
// a collector that speaks the real protocol.
package telemetrytest

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	logscollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector receives spans and log records over OTLP/gRPC.
type Collector struct {
	// Endpoint is for OTEL_EXPORTER_OTLP_ENDPOINT: http://127.0.0.1:PORT.
	Endpoint string
	// Logs receives the log records.
	Logs *Logs

	server *grpc.Server // nil: stopped
	served chan error

	mu       sync.Mutex
	resource map[string]string // guarded by mu
	spans    []*tracepb.Span   // guarded by mu

	collector.UnimplementedTraceServiceServer
}

// New starts a collector that ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{Logs: &Logs{}, resource: map[string]string{}}
	c.start(t, "127.0.0.1:0")
	t.Cleanup(func() { c.Stop(t) })
	return c
}

// start listens and serves.
func (c *Collector) start(t testing.TB, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c.Endpoint = "http://" + listener.Addr().String()
	c.server, c.served = grpc.NewServer(), make(chan error, 1)
	collector.RegisterTraceServiceServer(c.server, c)
	logscollector.RegisterLogsServiceServer(c.server, c.Logs)
	go func(s *grpc.Server, served chan<- error) { served <- s.Serve(listener) }(c.server, c.served)
}

// Stop ends the collector as a crash would: calls under way fail, and nobody
// listens any more. What it has received stays.
func (c *Collector) Stop(t testing.TB) {
	t.Helper()
	if c.server == nil {
		return
	}
	c.server.Stop()
	if err := <-c.served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // stopped before it began
		t.Errorf("the collector: %v", err)
	}
	c.server = nil
}

// Restart starts a stopped collector again, at the same endpoint.
func (c *Collector) Restart(t testing.TB) {
	t.Helper()
	c.start(t, strings.TrimPrefix(c.Endpoint, "http://"))
}

// Export is the protocol's one method.
func (c *Collector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, from := range r.GetResourceSpans() {
		for _, a := range from.GetResource().GetAttributes() {
			c.resource[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range from.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// Spans returns what has been received so far.
func (c *Collector) Spans() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*tracepb.Span(nil), c.spans...)
}

// Resource returns a text attribute of whoever exported last.
func (c *Collector) Resource(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource[key]
}

// ID is a trace's or span's id as people write it.
func ID(id []byte) string { return hex.EncodeToString(id) }
