package pdp_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/pdp"
)

func recorder() (*tracetest.SpanRecorder, trace.Tracer) {
	spans := tracetest.NewSpanRecorder()
	return spans, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
}

// said returns the attributes as text, by name.
func said(list []attribute.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// A span that records hears of each control and of the answer, and of no
// argument's value; the record has the trace.
func TestSpan(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, holding(b.Snapshot))
	spans, tracer := recorder()
	for i, s := range b.Scenarios {
		s := s.At(time.Now())
		ctx, span := tracer.Start(t.Context(), s.Name)
		a, err := p.Decide(ctx, b.Snapshot.Callers[s.Caller], &s.Proposal, pdp.Ask{})
		span.End()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := log.records[i].TraceID, span.SpanContext().TraceID().String(); got != want {
			t.Errorf("%s: the record is of trace %q, want %s", s.Name, got, want)
		}
		ended := spans.Ended()[i]
		d, attributes := a.Decision(), said(ended.Attributes())
		for key, want := range map[string]string{
			"writ.decision": a.ID(), "writ.code": string(d.Code), "writ.outcome": d.Outcome.String(), "writ.control": string(d.Control),
			"writ.revision": d.Revision, "writ.action": d.Action, "writ.effect": string(d.Effect),
		} {
			if attributes[key] != want {
				t.Errorf("%s: %s is %q, want %q", s.Name, key, attributes[key], want)
			}
		}
		controls := slices.DeleteFunc(slices.Clone(writ.Controls[:]), func(c writ.Control) bool {
			return c == writ.ControlFreshness || c == writ.ControlGrant || c == writ.ControlEffect || c == writ.ControlAudit
		})
		for j, e := range ended.Events() {
			got, last := said(e.Attributes), j == len(ended.Events())-1
			if e.Name != "control" || j >= len(controls) || got["writ.control"] != string(controls[j]) {
				t.Errorf("%s: event %d is %s of %s", s.Name, j, e.Name, got["writ.control"])
			}
			want := ""
			if last && !a.Allowed() {
				want = string(d.Code)
			}
			if got["writ.code"] != want {
				t.Errorf("%s: event %d has the code %q, want %q", s.Name, j, got["writ.code"], want)
			}
		}
		if len(ended.Events()) == 0 || a.Allowed() && len(ended.Events()) != len(controls) {
			t.Errorf("%s: %d events", s.Name, len(ended.Events()))
		}
		everything := string(mustJSON(t, tracetest.SpanStubFromReadOnlySpan(ended).Attributes)) + string(mustJSON(t, ended.Events()))
		for _, value := range []string{"/workspace", "ACME-SUPPLIER-01", "UNKNOWN-RECIPIENT", "125.0", "900.0", "Synthetic"} {
			if strings.Contains(strings.ReplaceAll(everything, s.Name, ""), value) {
				t.Errorf("%s: the span says %s", s.Name, value)
			}
		}
	}
}

// What nobody has read yet is not said: a proposal that is refused at once
// can be full of anything.
func TestSpanOfTheUnread(t *testing.T) {
	b := lab(t)
	p := newPDP(t, &memory{}, holding(b.Snapshot))
	spans, tracer := recorder()
	const claim = "a stranger's text"
	proposal := &writ.Proposal{RequestID: claim, Server: writ.ServerRef{ID: claim}, Tool: claim, Principal: writ.Principal{Subject: claim}}
	ctx, span := tracer.Start(t.Context(), "call")
	if _, err := p.Decide(ctx, &writ.Caller{Name: "host"}, proposal, pdp.Ask{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Refuse(ctx, &writ.Caller{Name: "host"}, proposal, "token", "It is not a token."); err != nil {
		t.Fatal(err)
	}
	span.End()
	ended := spans.Ended()[0]
	if attributes := said(ended.Attributes()); attributes["writ.code"] != "MALFORMED_PROPOSAL" {
		t.Errorf("%v", attributes)
	}
	if all := string(mustJSON(t, ended.Attributes())) + string(mustJSON(t, ended.Events())); strings.Contains(all, claim) {
		t.Errorf("the span says %s", all)
	}
}

// Each proposal of a batch has a span of its own, in the batch's trace.
func TestSpansOfABatch(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, holding(b.Snapshot))
	spans, tracer := recorder()
	ctx, batch := tracer.Start(t.Context(), "batch")
	var items []pdp.Item
	for _, s := range b.Scenarios {
		s := s.At(time.Now())
		items = append(items, pdp.Item{Proposal: &s.Proposal})
	}
	answers, err := p.DecideBatch(ctx, b.Snapshot.Callers[b.Scenarios[0].Caller], items, pdp.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	batch.End()
	of := map[string]string{} // codes by item
	for _, s := range spans.Ended() {
		if s.SpanContext().TraceID() != batch.SpanContext().TraceID() {
			t.Errorf("%s is in another trace", s.Name())
		}
		if s.SpanContext().SpanID() == batch.SpanContext().SpanID() {
			if len(s.Events()) > 0 {
				t.Error("the batch's span has events of an item")
			}
			continue
		}
		attributes := said(s.Attributes())
		of[attributes["writ.item"]] = attributes["writ.code"]
	}
	for i, a := range answers {
		if got := of[string(mustJSON(t, i))]; got != string(a.Decision().Code) {
			t.Errorf("item %d: the span says %q, the answer %s", i, got, a.Decision().Code)
		}
	}
	for _, r := range log.records {
		if r.TraceID != batch.SpanContext().TraceID().String() {
			t.Errorf("a record of trace %q", r.TraceID)
		}
	}
}

// An explanation is in its trace, too; and a trace that nobody records here
// is in the records all the same.
func TestTraceOfRecords(t *testing.T) {
	b := lab(t)
	log := &memory{}
	p := newPDP(t, log, holding(b.Snapshot))
	s := b.Scenarios[0].At(time.Now())
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), remote)
	if _, err := p.Explain(ctx, &writ.Caller{Name: "operator"}, "", &s.Proposal, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Refuse(ctx, &writ.Caller{Name: "host"}, &s.Proposal, "x", "y"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Decide(t.Context(), &writ.Caller{Name: "host"}, &s.Proposal, pdp.Ask{}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{remote.TraceID().String(), remote.TraceID().String(), ""} {
		if got := log.records[i].TraceID; got != want {
			t.Errorf("record %d is of trace %q, want %q", i, got, want)
		}
	}
}
