package otlplog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// scope is the instrumentation scope of the records.
const scope = "github.com/writ-pdp/writ/audit"

// patience bounds one attempt, where the environment's timeout is 0 or longer.
const patience = time.Minute

// sender sends batches through OpenTelemetry's own exporter, which reads the
// environment, makes the connection and writes the protocol, and which must
// not retry by itself: that would hold up the end of the process. What the
// collector answers is read on the way, as the exporter's error does not tell
// a partial success, which is final, from a failure.
type sender struct {
	name     string // stands for the log in the records' unique ids
	exporter *otlploggrpc.Exporter
	logger   log.Logger
	batch    gathered
	answer   *answer // of the request under way; nil: none came yet
}

// answer is what a collector says of one batch.
type answer struct {
	rejected int64
	message  string
	err      error
}

func newSender(ctx context.Context, cfg Config) (*sender, error) {
	named, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	s := &sender{name: shortName(cfg.Verifier)}
	s.exporter, err = otlploggrpc.New(ctx,
		otlploggrpc.WithRetry(otlploggrpc.RetryConfig{Enabled: false}),
		otlploggrpc.WithDialOption(
			grpc.WithChainUnaryInterceptor(s.watch),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: cfg.Backoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: cfg.MaxBackoff},
				MinConnectTimeout: 10 * time.Second,
			}),
		))
	if err != nil {
		return nil, fmt.Errorf("the OTLP exporter: %w", err)
	}
	s.logger = sdklog.NewLoggerProvider(sdklog.WithResource(named), sdklog.WithProcessor(&s.batch)).Logger(scope, log.WithInstrumentationVersion(cfg.Version))
	return s, nil
}

// watch keeps what the collector answers.
func (s *sender) watch(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	s.answer = &answer{err: err}
	if r, ok := reply.(*collector.ExportLogsServiceResponse); ok && err == nil {
		s.answer.rejected = r.GetPartialSuccess().GetRejectedLogRecords()
		s.answer.message = beginning(r.GetPartialSuccess().GetErrorMessage())
	}
	return err
}

// maxSaid is how much is told of what a collector says, in bytes: it may answer
// each batch with megabytes, which must not fill our own log.
const maxSaid = 512

func beginning(text string) string {
	if len(text) <= maxSaid {
		return text
	}
	return strings.ToValidUTF8(text[:maxSaid], "") + "…"
}

// send makes one attempt. Without an error the collector has acknowledged the
// batch, perhaps all but some rejected records.
func (s *sender) send(ctx context.Context, batch []entry) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.batch.records = s.batch.records[:0]
	for _, e := range batch {
		emit(s.logger, s.name, e.index, e.leaf)
	}
	if len(s.batch.records) != len(batch) {
		return answer{}, fmt.Errorf("%d of %d records could be made ready", len(s.batch.records), len(batch))
	}
	s.answer = nil
	err := s.exporter.Export(ctx, s.batch.records)
	switch {
	case s.answer == nil && err == nil:
		return answer{}, errors.New("the exporter sent nothing")
	case s.answer == nil:
		return answer{}, err
	}
	return *s.answer, s.answer.err
}

func (s *sender) close(ctx context.Context) error { return s.exporter.Shutdown(ctx) }

// gathered is the SDK's processor that keeps what is emitted, so that a batch
// is what we say it is.
type gathered struct{ records []sdklog.Record }

func (g *gathered) OnEmit(_ context.Context, r *sdklog.Record) error {
	g.records = append(g.records, r.Clone())
	return nil
}

func (*gathered) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (*gathered) Shutdown(context.Context) error                         { return nil }
func (*gathered) ForceFlush(context.Context) error                       { return nil }

// longestAsked bounds how long a collector may make us wait.
const longestAsked = 10 * time.Minute

// verdict is what an error means for the next attempt.
type verdict struct {
	// refused: the specification would not have it repeated.
	refused bool
	// narrow: it may be about what was sent, or about how much, so less of it
	// may pass.
	narrow bool
	// asked is how long the collector wants us to wait.
	asked time.Duration
}

// judge reads an error by the table of the OTLP specification, "Failures".
func judge(err error) verdict {
	s := status.Convert(err)
	var asked time.Duration
	throttled := false
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			throttled = true
			asked = min(max(asked, info.GetRetryDelay().AsDuration()), longestAsked)
		}
	}
	switch s.Code() {
	case codes.DeadlineExceeded:
		return verdict{narrow: true, asked: asked} // a slow way takes less at a time
	case codes.Canceled, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return verdict{asked: asked}
	case codes.ResourceExhausted:
		if throttled {
			return verdict{asked: asked}
		}
		return verdict{refused: true, narrow: true} // a message that is too large, for one
	case codes.InvalidArgument, codes.Internal, codes.Unknown:
		return verdict{refused: true, narrow: true, asked: asked}
	default:
		return verdict{refused: true, asked: asked}
	}
}

// jittered spreads waits, so that replicas don't come back all at once: half
// of d to d.
func jittered(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}
