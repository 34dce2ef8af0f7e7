// Package telemetrytest is for tests that want to see what a process exports:
// a collector that speaks the real protocol.
package telemetrytest

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector receives spans over OTLP/gRPC.
type Collector struct {
	// Endpoint is for OTEL_EXPORTER_OTLP_ENDPOINT: http://127.0.0.1:PORT.
	Endpoint string

	mu       sync.Mutex
	resource map[string]string // guarded by mu
	spans    []*tracepb.Span   // guarded by mu

	collector.UnimplementedTraceServiceServer
}

// New starts a collector that ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Endpoint: "http://" + listener.Addr().String(), resource: map[string]string{}}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, c)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Errorf("the collector: %v", err)
		}
	})
	return c
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
