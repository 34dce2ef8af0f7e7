package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc/metadata"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/examples"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/telemetry/telemetrytest"
)

// decideOnce runs a service over dir for one decision in this trace, and
// stops it in good order.
func decideOnce(t *testing.T, dir, traceID string) *lines {
	t.Helper()
	files, err := embedded(examples.Lab())
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	log := &lines{}
	s, err := start(t.Context(), serviceConfig{source: sourceConfig{files: files}, data: dir, grpcAddr: "127.0.0.1:0", httpAddr: "127.0.0.1:0", log: newLogger(log)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	err = s.run(ctx, func() error {
		defer stop()
		client, err := dial(s.grpc.Addr().String(), s.credentials.Dir(), server.HostFile)
		if err != nil {
			return err
		}
		defer client.close()
		call := b.Scenarios[0].At(time.Now().UTC())
		proposal, err := server.ProposalToProto(&call.Proposal)
		if err != nil {
			return err
		}
		_, err = client.decide(metadata.AppendToOutgoingContext(ctx, "traceparent", "00-"+traceID+"-00f067aa0ba902b7-01"), proposal)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestRecordsAreExported: while nobody collects, calls are answered; and in the
// end a collector has each record once, with the trace that leads to it.
func TestRecordsAreExported(t *testing.T) {
	const first, second = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
	collector := telemetrytest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", collector.Endpoint)
	dir := t.TempDir()
	collector.Stop(t)
	log := decideOnce(t, dir, first)
	if text := log.b.String(); !strings.Contains(text, "records are left for the next start") {
		t.Errorf("not said:\n%s", text)
	}
	collector.Restart(t)
	decideOnce(t, dir, second) // its end waits for the collector

	written, err := os.ReadFile(filepath.Join(dir, "log", "segments", "00000000000000000000.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var body strings.Builder
	traced := map[string]*logspb.LogRecord{}
	for _, r := range collector.Logs.Records() {
		body.WriteString(r.GetBody().GetStringValue() + "\n")
		if id := telemetrytest.ID(r.GetTraceId()); id != "" {
			traced[id] = r
		}
	}
	if body.String() != string(written) {
		t.Errorf("collected\n%s\nwritten\n%s", &body, written)
	}
	for _, id := range []string{first, second} {
		r := traced[id]
		if r == nil || r.GetEventName() != "writ.decision" || telemetrytest.Attribute(r, "writ.code").GetStringValue() == "" {
			t.Errorf("the record of the trace %s: %v", id, r)
		}
	}
	if len(traced) != 2 || collector.Logs.Resource("service.name") != "pdp" {
		t.Errorf("traces %v, service %q", traced, collector.Logs.Resource("service.name"))
	}
}

// The cursor of another log is a reason not to start, as is an environment that
// can't be meant.
func TestExportRefused(t *testing.T) {
	files, err := embedded(examples.Lab())
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	collector := telemetrytest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", collector.Endpoint)
	dir := t.TempDir()
	decideOnce(t, dir, "4bf92f3577b34da6a3ce929d0e0e4736")
	for name, c := range map[string]struct{ exporter, want string }{
		"another log": {"otlp", "otlp.cursor"},
		"environment": {"console", "OTEL_LOGS_EXPORTER"},
	} {
		t.Setenv("OTEL_LOGS_EXPORTER", c.exporter)
		if err := os.RemoveAll(filepath.Join(dir, "log")); err != nil {
			t.Fatal(err)
		}
		_, err := start(t.Context(), serviceConfig{source: sourceConfig{files: files}, data: dir, grpcAddr: "127.0.0.1:0", httpAddr: "127.0.0.1:0", log: newLogger(&lines{})})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A collector that takes connections and never speaks keeps a service from
// nothing, and from its end no longer than it may.
func TestSilentCollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://"+listener.Addr().String())
	decideOnce(t, t.TempDir(), "4bf92f3577b34da6a3ce929d0e0e4736")
}
