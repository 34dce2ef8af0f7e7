package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/metadata"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/examples"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/telemetry/telemetrytest"
)

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// TestTrace: one trace id, the client's, in the span that a collector
// receives, in the audit record and in the log.
func TestTrace(t *testing.T) {
	const traceID, parentID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	collector := telemetrytest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.Endpoint)
	files, err := embedded(examples.Lab())
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	log, dir := &lines{}, t.TempDir()
	s, err := start(t.Context(), serviceConfig{source: sourceConfig{files: files}, data: dir, grpcAddr: "127.0.0.1:0", httpAddr: "127.0.0.1:0", log: newLogger(log)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	err = s.run(ctx, func() error {
		defer stop()
		traced := metadata.AppendToOutgoingContext(ctx, "traceparent", "00-"+traceID+"-"+parentID+"-01")
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
		if _, err := client.decide(traced, proposal); err != nil {
			return err
		}
		client.secret = "wrong" // for a line in the log
		if _, err := client.decide(traced, proposal); err == nil {
			t.Error("a wrong secret was taken")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	var decided *tracepb.Span
	spans := collector.Spans()
	for _, span := range spans {
		if telemetrytest.ID(span.GetTraceId()) != traceID || telemetrytest.ID(span.GetParentSpanId()) != parentID ||
			span.GetKind() != tracepb.Span_SPAN_KIND_SERVER || span.GetName() != "writ.v1.DecisionService/Decide" {
			t.Errorf("a span of another call: %v", span)
		}
		if len(span.GetEvents()) > 0 {
			decided = span
		}
	}
	if len(spans) != 2 || decided == nil || len(decided.GetEvents()) != 9 {
		t.Errorf("received %v", spans)
	}
	for _, span := range spans {
		text := span.String()
		for _, value := range []string{"/workspace", "Bearer"} {
			if strings.Contains(text, value) {
				t.Errorf("the span says %s: %s", value, text)
			}
		}
	}

	records, err := os.ReadFile(filepath.Join(dir, "log", "segments", "00000000000000000000.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if n := having(t, records, "kind", "decision", "trace_id", traceID); n != 1 {
		t.Errorf("%d records of the trace in\n%s", n, records)
	}
	if n := having(t, log.b.Bytes(), "msg", "calls refused", "trace_id", traceID); n != 1 {
		t.Errorf("%d lines of the trace in\n%s", n, &log.b)
	}
	if id := telemetrytest.ID(decided.GetSpanId()); bytes.Contains(log.b.Bytes(), []byte(id)) {
		t.Error("the refused call's line is in the other call's span")
	}
}

// having counts the JSON lines with these members.
func having(t *testing.T, data []byte, members ...string) int {
	t.Helper()
	n := 0
	for line := range bytes.Lines(data) {
		var l map[string]any
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		has := true
		for i := 0; i < len(members); i += 2 {
			has = has && l[members[i]] == members[i+1]
		}
		if has {
			n++
		}
	}
	return n
}
