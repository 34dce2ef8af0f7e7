package otlplog_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/writ-pdp/writ/audit/otlplog"
	"github.com/writ-pdp/writ/telemetry/telemetrytest"
)

// verifier is a published key (C2SP signed-note), which stands for a log.
const verifier = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"

// source is a log: records, and cursors over them.
type source struct {
	mu      sync.Mutex
	leaves  []string      // guarded by mu
	more    chan struct{} // guarded by mu: closed, and replaced, when there are more
	open    int           // guarded by mu: cursors that are not closed
	broken  error         // guarded by mu: what the next call of Next returns, once
	skipped bool          // guarded by mu: the next call of Next leaves a record out, once
}

func newSource(n int) *source {
	s := &source{more: make(chan struct{})}
	s.add(n)
	return s
}

// add appends n records.
func (s *source) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		i := len(s.leaves)
		s.leaves = append(s.leaves, fmt.Sprintf(`{"v":1,"index":%d,"time":"2026-01-02T03:04:05.000000006Z","kind":"decision","id":"D%d","outcome":"ALLOW","code":"ALLOW"}`, i, i))
	}
	close(s.more)
	s.more = make(chan struct{})
}

func (s *source) synced() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.leaves))
}

type cursor struct {
	s    *source
	next uint64
}

func (s *source) follow(from uint64) otlplog.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	return &cursor{s, from}
}

func (c *cursor) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.open--
	return nil
}

func (c *cursor) Next(ctx context.Context) (uint64, []byte, error) {
	for {
		c.s.mu.Lock()
		broken, more := c.s.broken, c.s.more
		c.s.broken = nil
		if c.s.skipped {
			c.s.skipped = false
			c.next++
		}
		if broken == nil && c.next < uint64(len(c.s.leaves)) {
			leaf := c.s.leaves[c.next]
			c.next++
			c.s.mu.Unlock()
			return c.next - 1, []byte(leaf), nil
		}
		c.s.mu.Unlock()
		if broken != nil {
			return 0, nil, broken
		}
		select {
		case <-more:
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
}

// environment makes the environment name the collector and nothing else.
func environment(t *testing.T, set ...string) {
	t.Helper()
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_LOGS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT",
		"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
	} {
		t.Setenv(name, "")
	}
	for i := 0; i < len(set); i += 2 {
		t.Setenv(set[i], set[i+1])
	}
}

// config is of an exporter in a hurry; s may be nil.
func config(t *testing.T, s *source) otlplog.Config {
	t.Helper()
	return otlplog.Config{
		Verifier: verifier, Service: "pdp", Version: "v1.2.3", File: filepath.Join(t.TempDir(), "cursor"),
		Follow: s.follow, Synced: s.synced,
		Gather: time.Millisecond, Backoff: 5 * time.Millisecond, MaxBackoff: 20 * time.Millisecond,
	}
}

// running is an exporter that runs.
type running struct {
	*otlplog.Exporter
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error
}

func run(t *testing.T, cfg otlplog.Config) *running {
	t.Helper()
	e, err := otlplog.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{e, t, cancel, make(chan error, 1)}
	go func() { r.ended <- e.Run(ctx) }()
	t.Cleanup(r.kill)
	return r
}

// kill ends the exporter without sending what is left. It may be called again.
func (r *running) kill() {
	r.t.Helper()
	if r.cancel == nil {
		return
	}
	r.cancel()
	r.cancel = nil
	if err := <-r.ended; err != nil {
		r.t.Errorf("Run: %v", err)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.Close(over) // says what is left
}

// until waits for something, generously.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// sent waits until the collector has acknowledged n records.
func (r *running) sent(n int) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%d records", n), func() bool { return r.Status().Exported >= uint64(n) })
}

func indexes(records []*logspb.LogRecord) []uint64 {
	var all []uint64
	for _, r := range records {
		all = append(all, uint64(telemetrytest.Attribute(r, "writ.index").GetIntValue()))
	}
	return all
}

// complete requires that the records 0 to n-1 have come, that each came for
// the first time after the one before it, and returns how often one came again.
func complete(t *testing.T, c *telemetrytest.Collector, n int) (again int) {
	t.Helper()
	next := uint64(0)
	for _, i := range indexes(c.Logs.Records()) {
		switch {
		case i == next:
			next++
		case i < next:
			again++
		default:
			t.Fatalf("record %d came before %d", i, next)
		}
	}
	if next != uint64(n) {
		t.Errorf("%d records have come, want %d", next, n)
	}
	return again
}
