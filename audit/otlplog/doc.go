// Package otlplog sends the records of the log to an OpenTelemetry collector:
// OTLP logs over gRPC, each record at least once and in the log's order.
//
// # Delivery
//
// A cursor in a file of its own says what the collector has acknowledged. It
// moves after the acknowledgement and is on the disk (fsync) before the next
// batch goes out, so a crash sends a batch again and never leaves one out. One
// batch is under way at a time. Nothing here is on the way of a decision: the
// records come from the disk, whenever the collector takes them, be it days
// later.
//
// Each attempt that fails is repeated, with exponential back-off, jitter and a
// bound, and not before the time that the collector asks for (RetryInfo). The
// codes are those of the OTLP specification, "Failures". It says that a client
// drops what a collector refuses for good. A log of decisions does not: such a
// batch is kept, reported and offered again at the longest interval, since
// what refuses it is most likely a collector that is set up wrongly; and where
// the code may be about what was sent, it is offered in smaller batches, down
// to the one record that is refused. Batches become smaller, too, where they
// take longer than the timeout. A partial success is final, as the
// specification says: the records that the collector rejects then are counted
// and reported, and are not sent again.
//
// # A record
//
// The body is the record's line, as text: exactly the bytes that the log's
// tree hashes, so that whoever holds the collector's copy can check it against
// a checkpoint. What people filter by is beside it:
//
//	log.record.uid   the log's name and key ID, and the index: the same each time a record is sent
//	writ.index       its place in the log
//	writ.kind        decision, start, …; the event's name is writ.KIND
//	writ.decision, writ.outcome, writ.code, writ.control, writ.caller,
//	writ.server, writ.tool, writ.action, writ.revision
//	                 of the record, where it has them
//
// The trace id is the call's, so that a trace leads to the record; a record
// names no span. Timestamp is when it happened. Severity is INFO, and WARN
// where something was not allowed: a decision or explanation that is neither
// ALLOW nor REVIEW_REQUIRED, a reload with faults, and what can't be read.
//
// # Configuration
//
// Records are sent only where the environment says where to, as for spans:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_LOGS_ENDPOINT
//	                            http://HOST:PORT in the clear, https://HOST:PORT over TLS
//	OTEL_LOGS_EXPORTER          otlp: send, to localhost:4317 if no endpoint is named; none: don't
//	OTEL_SDK_DISABLED           true: don't
//	OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
//	OTEL_EXPORTER_OTLP_[LOGS_]HEADERS, …_CERTIFICATE, …_CLIENT_CERTIFICATE, …_CLIENT_KEY, …_COMPRESSION, …_TIMEOUT
//
// Records hold names of people, servers and tools: a collector that may see
// spans but no records wants OTEL_LOGS_EXPORTER=none.
package otlplog
