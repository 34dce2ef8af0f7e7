package telemetrytest

import (
	"context"
	"sync"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
)

// Answer is how a collector answers one request for logs. The records are kept
// unless it returns an error.
type Answer func(ctx context.Context, records []*logspb.LogRecord) (*collector.ExportLogsServiceResponse, error)

// Logs receives log records: the LogsService of a [Collector].
type Logs struct {
	mu       sync.Mutex
	answer   Answer              // guarded by mu; nil: accepts
	records  []*logspb.LogRecord // guarded by mu
	requests int                 // guarded by mu
	resource map[string]string   // guarded by mu

	collector.UnimplementedLogsServiceServer
}

// Answer makes later requests be answered by a; nil: they are accepted. It may
// block, as long as it ends with its context.
func (l *Logs) Answer(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = a
}

// Export is the protocol's one method.
func (l *Logs) Export(ctx context.Context, r *collector.ExportLogsServiceRequest) (*collector.ExportLogsServiceResponse, error) {
	var records []*logspb.LogRecord
	resource := map[string]string{}
	for _, from := range r.GetResourceLogs() {
		for _, a := range from.GetResource().GetAttributes() {
			resource[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range from.GetScopeLogs() {
			records = append(records, scope.GetLogRecords()...)
		}
	}
	l.mu.Lock()
	l.requests++
	answer := l.answer
	l.mu.Unlock()
	response := &collector.ExportLogsServiceResponse{}
	if answer != nil {
		var err error
		if response, err = answer(ctx, records); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, records...)
	l.resource = resource
	return response, nil
}

// Records returns what has been received so far, in order.
func (l *Logs) Records() []*logspb.LogRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*logspb.LogRecord(nil), l.records...)
}

// Requests returns how many requests have come, answered or not.
func (l *Logs) Requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests
}

// Resource returns a text attribute of whoever sent last.
func (l *Logs) Resource(key string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resource[key]
}

// Attribute returns a record's attribute, or nil.
func Attribute(r *logspb.LogRecord, key string) *commonpb.AnyValue {
	for _, a := range r.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue()
		}
	}
	return nil
}
