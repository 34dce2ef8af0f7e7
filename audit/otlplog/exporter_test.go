package otlplog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-pdp/writ/telemetry/telemetrytest"
)

// accept is an answer.
func accept() *collector.ExportLogsServiceResponse { return &collector.ExportLogsServiceResponse{} }

// Records go out as they come, each once where nothing fails; and a new
// process goes on where the old one was.
func TestInOrder(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint, "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	log := newSource(3)
	cfg := config(t, log)
	first := run(t, cfg)
	first.sent(3)
	log.add(2000) // several batches
	first.sent(2003)
	if s := first.Status(); s.Lag != 0 || s.Err != nil || s.LastExported.IsZero() || s.Rejected != 0 {
		t.Errorf("status %+v", s)
	}
	first.kill()
	log.add(10)
	if lag := first.Status().Lag; lag != 10 {
		t.Errorf("lag %d, want 10", lag)
	}
	run(t, cfg).sent(2013)
	if again := complete(t, c, 2013); again != 0 {
		t.Errorf("%d records came again", again)
	}
	for key, want := range map[string]string{"service.name": "pdp", "service.version": "v1.2.3", "deployment.environment.name": "test"} {
		if got := c.Logs.Resource(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// Nobody listens at first, and the collector goes and comes while records do.
func TestCollectorRestarts(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	c.Stop(t)
	log := newSource(100)
	var lines lockedBuffer
	cfg := config(t, log)
	cfg.Log = slog.New(slog.NewTextHandler(&lines, nil))
	e := run(t, cfg)
	until(t, "a failure", func() bool { return e.Status().Err != nil })
	if s := e.Status(); s.Exported != 0 || s.Lag != 100 || s.Since.IsZero() {
		t.Errorf("status %+v", s)
	}
	for n := 100; n <= 400; n += 100 {
		c.Restart(t)
		e.sent(n)
		until(t, "no failure", func() bool { return e.Status().Err == nil })
		c.Stop(t)
		log.add(100)
	}
	c.Restart(t)
	e.sent(500)
	complete(t, c, 500)
	if n := strings.Count(lines.String(), "records could not be sent"); n != 1 {
		t.Errorf("%d lines within a minute:\n%s", n, lines.String())
	}
}

// A collector that answers everything that it may, one that hangs, and we
// ourselves start again and again: nothing is left out.
func TestStorm(t *testing.T) {
	rounds := 4
	if os.Getenv("WRIT_OTLPLOG_STORM") != "" {
		rounds = 300
	}
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT", "250")
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex // guards random
	c.Logs.Answer(func(ctx context.Context, records []*logspb.LogRecord) (*collector.ExportLogsServiceResponse, error) {
		mu.Lock()
		n := random.IntN(12)
		mu.Unlock()
		switch n {
		case 0:
			return nil, status.Error(codes.Unavailable, "later")
		case 1:
			return nil, status.Error(codes.InvalidArgument, "no")
		case 2:
			return nil, status.Error(codes.Unauthenticated, "who?")
		case 3:
			return nil, status.Error(codes.ResourceExhausted, "too much")
		case 4:
			<-ctx.Done()
			return nil, ctx.Err()
		case 5:
			<-ctx.Done()
			return accept(), nil // taken, and nobody hears of it
		case 6:
			return nil, status.Error(codes.Internal, "?")
		default:
			return accept(), nil
		}
	})
	log := newSource(0)
	cfg := config(t, log)
	cfg.MaxBackoff = 10 * time.Millisecond
	total := 0
	for range rounds {
		mu.Lock()
		n, down := random.IntN(1500), random.IntN(3) == 0
		mu.Unlock()
		total += n
		e := run(t, cfg)
		log.add(n)
		if down {
			c.Stop(t)
			c.Restart(t)
		}
		e.sent(total - n/2)
		e.kill() // at any point
	}
	c.Logs.Answer(nil)
	run(t, cfg).sent(total)
	again := complete(t, c, total)
	t.Logf("%d records, %d of them again, in %d requests", total, again, c.Logs.Requests())
}

// A collector that hangs is given up, by the environment's timeout, and gets
// the same records again.
func TestHangingCollector(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", c.Endpoint, "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "250")
	c.Logs.Answer(func(ctx context.Context, _ []*logspb.LogRecord) (*collector.ExportLogsServiceResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	e := run(t, config(t, newSource(5)))
	until(t, "two attempts", func() bool { return c.Logs.Requests() >= 2 })
	if s := e.Status(); status.Code(errors.Unwrap(s.Err)) != codes.DeadlineExceeded || s.Exported != 0 {
		t.Errorf("status %+v", s)
	}
	c.Logs.Answer(nil)
	e.sent(5)
	complete(t, c, 5)
}

// Where a whole batch takes longer than the timeout, less of it goes out at a
// time.
func TestSlowCollector(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT", "300")
	c.Logs.Answer(func(ctx context.Context, records []*logspb.LogRecord) (*collector.ExportLogsServiceResponse, error) {
		if len(records) > 100 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return accept(), nil
	})
	run(t, config(t, newSource(512))).sent(512)
	complete(t, c, 512)
}

// A partial success is final: it is counted and said, and nothing comes again.
func TestPartialSuccess(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	answers := []*collector.ExportLogsPartialSuccess{
		{RejectedLogRecords: 2, ErrorMessage: "two are too old"},
		{ErrorMessage: "only a warning"},
		{RejectedLogRecords: 1 << 40}, // more than there were
		{RejectedLogRecords: -5, ErrorMessage: "fewer than none"},
	}
	c.Logs.Answer(func(_ context.Context, records []*logspb.LogRecord) (*collector.ExportLogsServiceResponse, error) {
		return &collector.ExportLogsServiceResponse{PartialSuccess: answers[indexes(records)[0]/5%4]}, nil
	})
	log := newSource(0)
	cfg := config(t, log)
	var lines lockedBuffer
	cfg.Log = slog.New(slog.NewTextHandler(&lines, nil))
	e := run(t, cfg)
	for i, want := range []uint64{2, 2, 7, 7} {
		log.add(5)
		e.sent(5 * (i + 1))
		if got := e.Status().Rejected; got != want {
			t.Errorf("answer %d: %d rejected, want %d", i, got, want)
		}
	}
	e.kill()
	if again := complete(t, c, 20); again != 0 || e.Status().Err != nil {
		t.Errorf("%d came again; %v", again, e.Status().Err)
	}
	for _, want := range []string{"two are too old", "only a warning", "fewer than none"} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("not said: %s\n%s", want, lines.String())
		}
	}
}

// A collector says as much as it likes, and the server's log tells the beginning.
func TestTalkativeCollector(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	long := "reservations: " + strings.Repeat("é", 500_000)
	fails := true // the first time
	c.Logs.Answer(func(context.Context, []*logspb.LogRecord) (*collector.ExportLogsServiceResponse, error) {
		if fails {
			fails = false
			return nil, status.Error(codes.Unavailable, "failure: "+strings.Repeat("é", 4_000))
		}
		return &collector.ExportLogsServiceResponse{PartialSuccess: &collector.ExportLogsPartialSuccess{ErrorMessage: long}}, nil
	})
	log := newSource(5)
	cfg := config(t, log)
	var lines lockedBuffer
	cfg.Log = slog.New(slog.NewTextHandler(&lines, nil))
	e := run(t, cfg)
	e.sent(5)
	e.kill()
	for _, want := range []string{"reservations: éé", "failure: éé"} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("not said: %s\n%.2000s", want, lines.String())
		}
	}
	if n := len(lines.String()); n > 4_000 || !utf8.ValidString(lines.String()) {
		t.Errorf("%d bytes are said", n)
	}
}

// The collector's own wait is kept.
func TestRetryInfo(t *testing.T) {
	const asked = 300 * time.Millisecond
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	var mu sync.Mutex
	var at []time.Time // guarded by mu
	c.Logs.Answer(func(context.Context, []*logspb.LogRecord) (*collector.ExportLogsServiceResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		if len(at) > 1 {
			return accept(), nil
		}
		s, err := status.New(codes.ResourceExhausted, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(asked)})
		if err != nil {
			t.Error(err)
		}
		return nil, s.Err()
	})
	run(t, config(t, newSource(1))).sent(1)
	if waited := at[1].Sub(at[0]); waited < asked {
		t.Errorf("waited %v, and was asked for %v", waited, asked)
	}
}

// The one record that a collector refuses is found and named; what precedes it
// is sent, and nothing is left out.
func TestRefusedRecord(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.ResourceExhausted} {
		c := telemetrytest.New(t)
		environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
		c.Logs.Answer(func(_ context.Context, records []*logspb.LogRecord) (*collector.ExportLogsServiceResponse, error) {
			if slices.Contains(indexes(records), 137) {
				return nil, status.Error(code, "not this")
			}
			return accept(), nil
		})
		e := run(t, config(t, newSource(300)))
		until(t, "the record to be named", func() bool {
			s := e.Status()
			return s.Exported == 137 && s.Err != nil && strings.Contains(s.Err.Error(), "sending 1 records from 137 on") && strings.Contains(s.Err.Error(), "not this")
		})
		complete(t, c, 137)
		c.Logs.Answer(nil)
		e.sent(300)
		complete(t, c, 300)
	}
}

// Codes that say nothing of the records cost none of them, and no smaller
// batches.
func TestRefusedCaller(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	c.Logs.Answer(func(_ context.Context, records []*logspb.LogRecord) (*collector.ExportLogsServiceResponse, error) {
		if len(records) != 50 {
			t.Errorf("a batch of %d", len(records))
		}
		if n := c.Logs.Requests(); n < 4 {
			return nil, status.Error([]codes.Code{codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented}[n-1], "no")
		}
		return accept(), nil
	})
	run(t, config(t, newSource(50))).sent(50)
	complete(t, c, 50)
}

// What a crash after the acknowledgement, and before the cursor moves, leaves:
// the records come again, under the same unique ids.
func TestCrashBeforeTheCursorMoves(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	log := newSource(10)
	cfg := config(t, log)
	first := run(t, cfg)
	first.sent(10)
	before, err := os.ReadFile(cfg.File)
	if err != nil {
		t.Fatal(err)
	}
	log.add(10)
	first.sent(20)
	first.kill()
	if err := os.WriteFile(cfg.File, before, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, cfg).sent(20)
	until(t, "the records again", func() bool { return len(c.Logs.Records()) == 30 })
	if again := complete(t, c, 20); again != 10 {
		t.Errorf("%d came again, want 10", again)
	}
	for i, r := range c.Logs.Records()[20:] {
		if got, want := telemetrytest.Attribute(r, "log.record.uid").GetStringValue(), telemetrytest.Attribute(c.Logs.Records()[10+i], "log.record.uid").GetStringValue(); got != want || got == "" {
			t.Errorf("the unique id %q, before %q", got, want)
		}
	}
}

// A log that can't be read for a moment, or that leaves a record out, costs
// nothing but time.
func TestLogFails(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	log := newSource(10)
	log.broken = errors.New("unreadable")
	cfg := config(t, log)
	var lines lockedBuffer
	cfg.Log = slog.New(slog.NewTextHandler(&lines, nil))
	e := run(t, cfg)
	e.sent(10)
	log.mu.Lock()
	log.skipped = true
	log.mu.Unlock()
	log.add(10)
	e.sent(20)
	complete(t, c, 20)
	if !strings.Contains(lines.String(), "unreadable") {
		t.Errorf("not said:\n%s", lines.String())
	}
	e.kill()
	if log.open != 0 {
		t.Errorf("%d cursors are left open", log.open)
	}
}

// lockedBuffer is a buffer for a logger of several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
