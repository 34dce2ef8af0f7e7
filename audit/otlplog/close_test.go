package otlplog_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/writ-pdp/writ/audit/otlplog"
	"github.com/writ-pdp/writ/telemetry/telemetrytest"
)

// Close sends what is left, as long as it may, and says what it left.
func TestClose(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	log := newSource(1200)
	cfg := config(t, log)
	e, err := otlplog.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	complete(t, c, 1200)
	log.add(7)
	if e, err = otlplog.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	c.Logs.Answer(func(context.Context, []*logspb.LogRecord) (*collector.ExportLogsServiceResponse, error) {
		return nil, status.Error(codes.Unavailable, "later")
	})
	before := c.Logs.Requests()
	if err := e.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "7 records are left") {
		t.Errorf("Close: %v", err)
	}
	if n := c.Logs.Requests() - before; n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	c.Logs.Answer(nil)
	run(t, cfg).sent(1207)
	complete(t, c, 1207)
}

// A collector that takes connections and never speaks keeps Close no longer
// than it may.
func TestCloseHasADeadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	e, err := otlplog.New(t.Context(), config(t, newSource(1)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := e.Close(ctx); err == nil {
		t.Error("nothing was left")
	}
}
