package otlplog_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-pdp/writ/audit/otlplog"
	"github.com/writ-pdp/writ/telemetry/telemetrytest"
)

// A cursor that is torn anywhere begins again: too much is sent, never too
// little.
func TestTornCursor(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	whole := otlplog.FormatCursor(verifier, 18)
	changed := slices.Clone(whole)
	changed[slices.Index(whole, '8')+1] ^= 1
	for _, torn := range [][]byte{nil, whole[:1], whole[:len(whole)/2], whole[:len(whole)-1], changed, make([]byte, len(whole)), append(slices.Clip(whole), '\n')} {
		cfg := config(t, newSource(20))
		if err := os.WriteFile(cfg.File, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		e := run(t, cfg)
		e.sent(20)
		e.kill()
	}
	if got := len(c.Logs.Records()); got != 7*20 {
		t.Errorf("%d records, want all 20 each time", got)
	}
	cfg := config(t, newSource(20))
	if err := os.WriteFile(cfg.File, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, cfg).sent(20)
	if got := indexes(c.Logs.Records()[7*20:]); !slices.Equal(got, []uint64{18, 19}) {
		t.Errorf("a whole cursor at 18: %d", got)
	}
}

// A cursor beyond the end, or of another log, is never passed over in silence.
func TestWrongCursor(t *testing.T) {
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	for name, c := range map[string]struct {
		cursor []byte
		want   string
	}{
		"beyond the end":  {otlplog.FormatCursor(verifier, 21), "21 records were sent, and the log has 20"},
		"far beyond":      {otlplog.FormatCursor(verifier, 1<<63), "9223372036854775808 records were sent"},
		"of another log":  {otlplog.FormatCursor("other+00000000+AA==", 3), "belongs to the log other"},
		"of another form": {nil, ""},
	} {
		cfg := config(t, newSource(20))
		if c.cursor != nil {
			if err := os.WriteFile(cfg.File, c.cursor, 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Mkdir(cfg.File, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := otlplog.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where the cursor can't be written records go on, and the fault is said.
func TestCursorNotWritable(t *testing.T) {
	c := telemetrytest.New(t)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	cfg := config(t, newSource(20))
	if err := os.Mkdir(cfg.File+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	e := run(t, cfg)
	e.sent(20)
	until(t, "the fault", func() bool { err := e.Status().Err; return err != nil && strings.Contains(err.Error(), "cursor") })
	complete(t, c, 20)
}

func TestWanted(t *testing.T) {
	const all, logs, which = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_LOGS_EXPORTER"
	for _, c := range []struct {
		set    []string
		want   bool
		faulty string
	}{
		{nil, false, ""},
		{[]string{all, "http://127.0.0.1:4317"}, true, ""},
		{[]string{logs, "https://collector.example:4317"}, true, ""},
		{[]string{which, "otlp"}, true, ""},
		{[]string{which, "none", all, "http://127.0.0.1:4317"}, false, ""},
		{[]string{"OTEL_SDK_DISABLED", "True", all, "http://127.0.0.1:4317"}, false, ""},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4317"}, false, ""},
		{[]string{which, "console"}, false, "OTEL_LOGS_EXPORTER"},
		{[]string{all, "127.0.0.1:4317"}, false, all},
		{[]string{all, "http://127.0.0.1:4317", logs, "ftp://x"}, false, logs},
		{[]string{all, "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}, false, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{[]string{all, "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"}, true, ""},
	} {
		environment(t, c.set...)
		got, err := otlplog.Wanted()
		if got != c.want || (err != nil) != (c.faulty != "") || err != nil && !strings.Contains(err.Error(), c.faulty) {
			t.Errorf("%q: %t, %v", c.set, got, err)
		}
	}
}

func TestRequired(t *testing.T) {
	environment(t)
	for i := range 5 {
		cfg := config(t, newSource(0))
		switch i {
		case 0:
			cfg.Verifier = ""
		case 1:
			cfg.Follow = nil
		case 2:
			cfg.Synced = nil
		case 3:
			cfg.File = ""
		case 4:
			cfg.Service = ""
		}
		if _, err := otlplog.New(t.Context(), cfg); err == nil {
			t.Errorf("%d is not required", i)
		}
	}
}

// The table of the OTLP specification, "Failures".
func TestCodes(t *testing.T) {
	retryable := []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		refused, _, _ := otlplog.Judge(status.Error(code, ""))
		if want := !slices.Contains(retryable, code); refused != want {
			t.Errorf("%v: refused %t, want %t", code, refused, want)
		}
	}
	for _, code := range append(retryable, codes.ResourceExhausted) {
		s, err := status.New(code, "").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		if refused, _, asked := otlplog.Judge(s.Err()); refused || asked != 7*time.Second {
			t.Errorf("%v with RetryInfo: refused %t, asked for %v", code, refused, asked)
		}
	}
}

func TestWaits(t *testing.T) {
	const first, most = time.Second, time.Minute
	for i, wait := range otlplog.Waits(100, first, most, status.Error(codes.Unavailable, "")) {
		full := most
		if i < 6 {
			full = first << i // 1, 2, 4 … 32 s
		}
		if wait < full/2 || wait > full {
			t.Errorf("after %d failures %v, want %v to %v", i+1, wait, full/2, full)
		}
	}
	for _, c := range []struct{ asked, want time.Duration }{{5 * time.Minute, 5 * time.Minute}, {1000 * time.Hour, 10 * time.Minute}} {
		s, err := status.New(codes.Unavailable, "").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(c.asked)})
		if err != nil {
			t.Fatal(err)
		}
		if got := otlplog.Waits(1, first, most, s.Err())[0]; got != c.want {
			t.Errorf("asked for %v: %v, want %v", c.asked, got, c.want)
		}
	}
	if got := otlplog.Waits(1, first, most, status.Error(codes.Unauthenticated, ""))[0]; got < most/2 {
		t.Errorf("refused: %v", got)
	}
}

func FuzzCursor(f *testing.F) {
	for _, next := range []uint64{0, 1, 18446744073709551615} {
		f.Add(otlplog.FormatCursor(verifier, next))
	}
	f.Add([]byte("writ-otlp-cursor/1\nx\n01\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		log, next, err := otlplog.ParseCursor(data)
		if err == nil && string(otlplog.FormatCursor(log, next)) != string(data) {
			t.Errorf("%q is read as %q, %d", data, log, next)
		}
	})
}
