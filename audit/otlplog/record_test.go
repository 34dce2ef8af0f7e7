package otlplog_test

import (
	"strconv"
	"testing"
	"time"

	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/writ-pdp/writ/telemetry/telemetrytest"
)

// What is said of a record beside its text: the table of the package comment.
func TestRecord(t *testing.T) {
	const (
		traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
		uid     = "example.com/foo+530d903a/"
		info    = logspb.SeverityNumber_SEVERITY_NUMBER_INFO
		warn    = logspb.SeverityNumber_SEVERITY_NUMBER_WARN
		text    = `{"v":1,"index":0,"time":"2026-01-02T03:04:05.000000006Z","kind":"decision","id":"ABC","trace_id":"` + traceID + `","caller":"host","subject":"alice","server":"pay","tool":"send","action":"pay/send","arguments":{"/to":"\"x\""},"outcome":"DENY","code":"NO_PERMIT","control":"POLICY","revision":"r1"}`
	)
	at := uint64(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC).UnixNano())
	cases := []struct {
		leaf       string
		event      string
		severity   logspb.SeverityNumber
		trace      string
		time       uint64
		attributes map[string]string
	}{
		{text, "writ.decision", warn, traceID, at, map[string]string{
			"writ.kind": "decision", "writ.decision": "ABC", "writ.outcome": "DENY", "writ.code": "NO_PERMIT", "writ.control": "POLICY",
			"writ.caller": "host", "writ.server": "pay", "writ.tool": "send", "writ.action": "pay/send", "writ.revision": "r1"}},
		{`{"time":"2026-01-02T03:04:05.000000006Z","kind":"decision","outcome":"ALLOW"}`, "writ.decision", info, "", at, map[string]string{"writ.kind": "decision", "writ.outcome": "ALLOW"}},
		{`{"kind":"decision","outcome":"REVIEW_REQUIRED"}`, "writ.decision", info, "", 0, map[string]string{"writ.kind": "decision", "writ.outcome": "REVIEW_REQUIRED"}},
		{`{"kind":"explanation","outcome":"DENY"}`, "writ.explanation", warn, "", 0, map[string]string{"writ.kind": "explanation", "writ.outcome": "DENY"}},
		{`{"kind":"decision"}`, "writ.decision", warn, "", 0, map[string]string{"writ.kind": "decision"}},
		{`{"kind":"decision","outcome":"allow"}`, "writ.decision", warn, "", 0, map[string]string{"writ.kind": "decision", "writ.outcome": "allow"}},
		{`{"kind":"start"}`, "writ.start", info, "", 0, map[string]string{"writ.kind": "start"}},
		{`{"kind":"reload"}`, "writ.reload", info, "", 0, map[string]string{"writ.kind": "reload"}},
		{`{"kind":"reload","faults":["x"]}`, "writ.reload", warn, "", 0, map[string]string{"writ.kind": "reload"}},
		{`{"kind":"start","trace_id":"00000000000000000000000000000000"}`, "writ.start", info, "", 0, map[string]string{"writ.kind": "start"}},
		{`{"kind":"start","trace_id":"xyz"}`, "writ.start", info, "", 0, map[string]string{"writ.kind": "start"}},
		{`{}`, "", warn, "", 0, nil},
		{`{"kind":`, "", warn, "", 0, nil},
		{"not \xff text", "", warn, "", 0, nil},
	}
	log := newSource(0)
	log.mu.Lock()
	for _, c := range cases {
		log.leaves = append(log.leaves, c.leaf)
	}
	log.mu.Unlock()
	to := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", to.Endpoint)
	run(t, config(t, log)).sent(len(cases))
	for i, r := range to.Logs.Records() {
		c := cases[i]
		body := r.GetBody().GetStringValue() + string(r.GetBody().GetBytesValue())
		if body != c.leaf || r.GetEventName() != c.event || r.GetSeverityNumber() != c.severity || r.GetTimeUnixNano() != c.time ||
			telemetrytest.ID(r.GetTraceId()) != c.trace || len(r.GetSpanId()) > 0 {
			t.Errorf("%s\nhas become %v", c.leaf, r)
		}
		if want := map[logspb.SeverityNumber]string{info: "INFO", warn: "WARN"}[c.severity]; r.GetSeverityText() != want {
			t.Errorf("%s: severity %q, want %q", c.leaf, r.GetSeverityText(), want)
		}
		if got, want := telemetrytest.Attribute(r, "log.record.uid").GetStringValue(), uid+strconv.Itoa(i); got != want {
			t.Errorf("unique id %q, want %q", got, want)
		}
		if got := telemetrytest.Attribute(r, "writ.index").GetIntValue(); got != int64(i) {
			t.Errorf("index %d, want %d", got, i)
		}
		for key, want := range c.attributes {
			if got := telemetrytest.Attribute(r, key).GetStringValue(); got != want {
				t.Errorf("%s: %s is %q, want %q", c.leaf, key, got, want)
			}
		}
		if got := len(r.GetAttributes()); got != len(c.attributes)+2 {
			t.Errorf("%s: %d attributes, want %d", c.leaf, got, len(c.attributes)+2)
		}
	}
}
