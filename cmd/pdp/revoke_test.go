package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/examples"
)

// output is what a command has printed so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// TestRevokeWatch: --watch prints what is there, what is added and what begins
// and ends, and ends well when it is interrupted.
func TestRevokeWatch(t *testing.T) {
	files, err := embedded(examples.Hello())
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	s, err := start(t.Context(), serviceConfig{
		source: sourceConfig{files: files}, data: data, grpcAddr: "127.0.0.1:0", httpAddr: "127.0.0.1:0", log: newLogger(io.Discard),
	})
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(t.Context())
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() {
		served <- s.run(serving, func() error { close(ready); return nil })
	}()
	<-ready
	at := []string{"revoke", "--server", s.grpc.Addr().String(), "--data", data}
	command := func(ctx context.Context, out io.Writer, args ...string) int {
		var errs bytes.Buffer
		code := run(ctx, append(at, args...), nil, out, &errs)
		if code != exitOK {
			t.Logf("%v: %s", args, errs.String())
		}
		return code
	}
	if code := command(t.Context(), io.Discard, "server", "first", "--reason", "one"); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	watching, interrupt := context.WithCancel(t.Context())
	var text, lines output
	var watches sync.WaitGroup
	for out, more := range map[*output][]string{&text: nil, &lines: {"--json", "--after", "1"}} {
		watches.Go(func() {
			if code := command(watching, out, append([]string{"--watch"}, more...)...); code != exitOK {
				t.Errorf("a watch that was interrupted exits with %d", code)
			}
		})
	}
	if code := command(t.Context(), io.Discard, "server", "second", "--from", "300ms", "--until", "600ms", "--reason", "a\x1b[2Jb"); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for deadline := time.Now().Add(20 * time.Second); strings.Count(text.String(), "\n") < 4 || strings.Count(lines.String(), "\n") < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("printed only\n%s\n%s", text.String(), lines.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
	interrupt()
	watches.Wait()
	for i, want := range []string{
		`^ +1  revoked  server first  for good, reason "one", by "operator"$`,
		`^ +2  revoked  server second  from .*Z, until .*Z, reason "a\\x1b\[2Jb", by "operator"$`,
		`^ +2  began    server second  `, `^ +2  ended    server second  `,
	} {
		if line := strings.Split(text.String(), "\n")[i]; !regexp.MustCompile(want).MatchString(line) {
			t.Errorf("line %d is %q, want %s", i, line, want)
		}
	}
	for i, want := range []string{`^{"event":"revoked","revocation":{"sequence":"2",`, `^{"event":"began",`, `^{"event":"ended",`} {
		if line := strings.ReplaceAll(strings.Split(lines.String(), "\n")[i], " ", ""); !regexp.MustCompile(want).MatchString(line) {
			t.Errorf("line %d is %q, want %s", i, line, want)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
