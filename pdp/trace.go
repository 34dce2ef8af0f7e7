package pdp

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/decide"
)

// The names of all that a span says of a decision. No argument's value, no
// claim that no control has read, and no person is among them: the log has
// the rest, under the decision's id.
const (
	keyControl  = attribute.Key("writ.control")  // of an event: the control that ended; of a span: the one that answered
	keyCode     = attribute.Key("writ.code")     // of an event: why it failed, absent where it passed; of a span: the answer's
	keyOutcome  = attribute.Key("writ.outcome")  // ALLOW, DENY or REVIEW_REQUIRED
	keyDecision = attribute.Key("writ.decision") // its id in the log
	keyAction   = attribute.Key("writ.action")   // Cedar action id; absent before the tool is known to be a reviewed one
	keyEffect   = attribute.Key("writ.effect")   // pure, read or write; absent as above
	keyPolicies = attribute.Key("writ.policies") // ids of the determining policies
	keyRevision = attribute.Key("writ.revision") // of the snapshot
	keyItem     = attribute.Key("writ.item")     // of a batch: which, from 0
)

const (
	eventControl = "control"              // a control has ended
	spanItem     = "pdp.DecideBatch/item" // one proposal of a batch
	scope        = "github.com/writ-pdp/writ/pdp"
)

// traceID returns the id of the trace that ctx is in, or "".
func traceID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		return span.TraceID().String()
	}
	return ""
}

// observer returns what watches a decision for the span of ctx; nil if that
// records nothing.
func observer(ctx context.Context) decide.Observer {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		return events{span}
	}
	return nil
}

// events makes an event of each control.
type events struct{ span trace.Span }

func (e events) Control(c writ.Control, failed writ.Code) {
	attributes := []attribute.KeyValue{keyControl.String(string(c))}
	if failed != "" {
		attributes = append(attributes, keyCode.String(string(failed)))
	}
	e.span.AddEvent(eventControl, trace.WithAttributes(attributes...))
}

// describe says on the span of ctx, if it records, what was answered.
func describe(ctx context.Context, id string, d *writ.Decision) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{
		keyDecision.String(id), keyOutcome.String(d.Outcome.String()), keyCode.String(string(d.Code)), keyRevision.String(d.Revision),
	}
	for _, known := range []attribute.KeyValue{
		keyControl.String(string(d.Control)), keyAction.String(d.Action), keyEffect.String(string(d.Effect)),
	} {
		if known.Value.AsString() != "" {
			attributes = append(attributes, known)
		}
	}
	if len(d.Policies) > 0 {
		attributes = append(attributes, keyPolicies.StringSlice(ids(d.Policies)))
	}
	span.SetAttributes(attributes...)
}

// itemSpan begins the span of one proposal of a batch, if that of the batch
// records, and returns what ends it.
func itemSpan(ctx context.Context, i int) (context.Context, func(...trace.SpanEndOption)) {
	batch := trace.SpanFromContext(ctx)
	if !batch.IsRecording() {
		return ctx, func(...trace.SpanEndOption) {}
	}
	ctx, span := batch.TracerProvider().Tracer(scope).Start(ctx, spanItem, trace.WithAttributes(keyItem.Int(i)))
	return ctx, span.End
}
