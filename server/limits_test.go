package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
)

func TestRate(t *testing.T) {
	d := &decider{}
	h := open(t, d, func(c *server.Config) { c.Limits.Burst, c.Limits.Rate = 3, 20 })
	for range 3 {
		if _, err := h.decide(t, nil); err != nil {
			t.Fatal(err)
		}
	}
	// Before anything of the message is read: these bytes are no message.
	garbage := []byte{0xff, 0xff, 0xff}
	wantRefusal(t, h.send(as(t, h.host), decideMethod, garbage), codes.ResourceExhausted, server.ReasonRateLimited)
	if n := len(d.questions()); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
	// Others have their own: strangers at health, for example.
	if _, err := healthv1.NewHealthClient(h.conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("the host's rate is health's too: %v", err)
	}
	time.Sleep(100 * time.Millisecond) // two more at 20 a second
	if _, err := h.decide(t, nil); err != nil {
		t.Errorf("the rate does not recover: %v", err)
	}
}

func TestInFlight(t *testing.T) {
	release := make(chan struct{})
	d := &decider{do: func(context.Context) (pdp.Answer, error) { <-release; return pdp.Answer{}, nil }}
	h := open(t, d, func(c *server.Config) { c.Limits.InFlight = 2 })
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := h.decide(t, nil)
			results <- err
		}()
	}
	for len(d.questions()) < 2 {
		time.Sleep(time.Millisecond)
	}
	wantRefusal(t, h.send(as(t, h.host), decideMethod, []byte{0xff}), codes.ResourceExhausted, server.ReasonTooManyInFlight)
	if _, err := healthv1.NewHealthClient(h.conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("the host's calls are health's too: %v", err)
	}
	close(release)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	h.alive(t)
}

// Streams that live on have their own limit, so that nobody's watching keeps
// health from being checked.
func TestWatches(t *testing.T) {
	h := open(t, &decider{}, func(c *server.Config) { c.Limits.Watches = 1; c.Limits.InFlight = 1 })
	client := healthv1.NewHealthClient(h.conn)
	ctx, cancel := context.WithCancel(t.Context())
	first, err := client.Watch(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Recv(); err != nil {
		t.Fatal(err)
	}
	second, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = second.Recv()
	wantRefusal(t, err, codes.ResourceExhausted, server.ReasonTooManyInFlight)
	if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	cancel()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) { // the place is free again
		third, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = third.Recv(); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestMessageSize(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	// The whole message, all its framing included, may have 512 KiB.
	sized := func(n int) []byte {
		p := &writv1.DecideRequest{Proposal: &writv1.Proposal{ArgumentsJson: strings.Repeat(" ", n)}}
		data, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	overhead := len(sized(400<<10)) - 400<<10
	if err := h.send(as(t, h.host), decideMethod, sized(512<<10-overhead)); err != nil {
		t.Errorf("512 KiB: %v", err)
	}
	if n := len(d.questions()); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	for _, n := range []int{512<<10 - overhead + 1, 1 << 20, 4 << 20} {
		if err := h.send(as(t, h.host), decideMethod, sized(n)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%d: %v", n, err)
		}
	}
	if n := len(d.questions()); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	h.alive(t)
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*server.Config)
		want   string
	}{
		{"as it is", func(*server.Config) {}, ""},
		{"no decider", func(c *server.Config) { c.Decider = nil }, "a decider is required"},
		{"no credentials", func(c *server.Config) { c.Credentials = nil }, "NewCredentials"},
		{"no host", func(c *server.Config) { c.LocalHost = nil }, "LocalHost"},
		{"no local server", func(c *server.Config) { c.LocalServer = nil }, "LocalServer"},
		{"no operator", func(c *server.Config) { c.LocalOperator = nil }, "LocalOperator"},
		{"negative number", func(c *server.Config) { c.Limits.InFlight = -1 }, "limit InFlight is negative"},
		{"negative duration", func(c *server.Config) { c.Limits.Drain = -time.Second }, "limit Drain is negative"},
		{"all of them", func(c *server.Config) { c.Limits.Rate, c.Limits.Message = -1, -1 }, "limit Message is negative"},
	} {
		cfg := config(t, &decider{})
		c.change(&cfg)
		s, err := server.New(cfg)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if err == nil {
			if err := s.Close(); err != nil { // without ever serving
				t.Error(err)
			}
		}
	}
}
