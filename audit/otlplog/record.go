package otlplog

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"
)

// The names of what is said of a record beside its text. Those of a decision
// are the names that its span uses.
const (
	keyUID      = attribute.Key("log.record.uid") // OpenTelemetry semantic conventions, "General logs attributes"
	keyIndex    = attribute.Key("writ.index")
	keyKind     = attribute.Key("writ.kind")
	keyDecision = attribute.Key("writ.decision")
	keyOutcome  = attribute.Key("writ.outcome")
	keyCode     = attribute.Key("writ.code")
	keyControl  = attribute.Key("writ.control")
	keyCaller   = attribute.Key("writ.caller")
	keyServer   = attribute.Key("writ.server")
	keyTool     = attribute.Key("writ.tool")
	keyAction   = attribute.Key("writ.action")
	keyRevision = attribute.Key("writ.revision")
)

// said is what is read of a record: members of writ.audit.v1.Record.
type said struct {
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`
	ID       string    `json:"id"`
	TraceID  string    `json:"trace_id"`
	Caller   string    `json:"caller"`
	Server   string    `json:"server"`
	Tool     string    `json:"tool"`
	Action   string    `json:"action"`
	Outcome  string    `json:"outcome"`
	Code     string    `json:"code"`
	Control  string    `json:"control"`
	Revision string    `json:"revision"`
	Faults   []string  `json:"faults"`
}

// emit gives one record to a logger. name stands for the log in the record's
// unique id.
func emit(to log.Logger, name string, index uint64, leaf []byte) {
	var s said
	var r log.Record
	readable := json.Unmarshal(leaf, &s) == nil
	if !readable {
		s = said{}
	}
	r.SetTimestamp(s.Time)
	r.SetSeverity(log.SeverityInfo)
	if !readable || s.refused() {
		r.SetSeverity(log.SeverityWarn)
	}
	r.SetSeverityText(r.Severity().String())
	// Protobuf strings are UTF-8: one byte that isn't would fail the batch.
	if utf8.Valid(leaf) {
		r.SetBody(attribute.StringValue(string(leaf)))
	} else {
		r.SetBody(attribute.ByteSliceValue(leaf))
	}
	r.AddAttributes(keyUID.String(name+"/"+strconv.FormatUint(index, 10)), keyIndex.Int64(int64(index)))
	for _, a := range []attribute.KeyValue{
		keyKind.String(s.Kind), keyDecision.String(s.ID), keyOutcome.String(s.Outcome), keyCode.String(s.Code), keyControl.String(s.Control),
		keyCaller.String(s.Caller), keyServer.String(s.Server), keyTool.String(s.Tool), keyAction.String(s.Action), keyRevision.String(s.Revision),
	} {
		if a.Value.AsString() != "" {
			r.AddAttributes(a)
		}
	}
	if s.Kind != "" {
		r.SetEventName("writ." + s.Kind)
	}
	ctx := context.Background()
	if id, err := trace.TraceIDFromHex(s.TraceID); err == nil {
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: id}))
	}
	to.Emit(ctx, r)
}

// refused reports whether the record tells of something that was not allowed.
func (s *said) refused() bool {
	switch s.Kind {
	case "decision", "explanation", "redemption", "approval", "effect":
		return s.Outcome != "ALLOW" && s.Outcome != "REVIEW_REQUIRED"
	case "":
		return true
	default:
		return len(s.Faults) > 0
	}
}

// shortName is a verifier key without its last part: the log's name and its
// key's ID, which together no other log has.
func shortName(verifier string) string {
	parts := strings.SplitN(verifier, "+", 3) // the last may hold a plus: it is base64
	if len(parts) < 3 {
		return verifier
	}
	return parts[0] + "+" + parts[1]
}
