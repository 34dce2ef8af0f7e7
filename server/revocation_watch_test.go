package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/server"
)

// watcher collects what one watch tells, each with the second at which it came.
type watcher struct {
	begun  time.Time
	cancel context.CancelFunc
	done   chan struct{} // closed when the stream has ended

	mu   sync.Mutex
	told []string
	err  error
}

func watching(t *testing.T, client writv1.RevocationServiceClient, secret string, after uint64) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secret))
	w := &watcher{begun: time.Now(), cancel: cancel, done: make(chan struct{})}
	t.Cleanup(cancel)
	stream, err := client.WatchRevocations(ctx, &writv1.WatchRevocationsRequest{After: after})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		for {
			r, err := stream.Recv()
			w.mu.Lock()
			if err != nil {
				w.err = err
				w.mu.Unlock()
				return
			}
			event := strings.ToLower(strings.TrimPrefix(r.GetEvent().String(), "REVOCATION_EVENT_"))
			w.told = append(w.told, fmt.Sprintf("%v %s %d", time.Since(w.begun), event, r.GetRevocation().GetSequence()))
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *watcher) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

// TestWatchRevocations: what is there, in order; what is added; and each begin
// and end at its time, to the nanosecond, with nothing happening in between.
func TestWatchRevocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(seconds float64) time.Time { return time.Now().Add(time.Duration(seconds * float64(time.Second))) }
		r := newRevoker(t,
			revocation.Entry{Kind: revocation.Server, ID: "a"},
			revocation.Entry{Kind: revocation.Server, ID: "b", From: at(10), Until: at(20)},
			revocation.Entry{Kind: revocation.Server, ID: "c", Until: at(10)},
			revocation.Entry{Kind: revocation.Server, ID: "d", From: at(-20), Until: at(-10)},
			revocation.Entry{Kind: revocation.Server, ID: "e", From: at(-5)},
			revocation.Entry{Kind: revocation.Server, ID: "f", From: at(15)}, // lifted by then
			revocation.Entry{Kind: revocation.Server, ID: "g", From: at(-9), Until: at(30)},
			revocation.Entry{Kind: revocation.Server, ID: "g", Lift: true},
		)
		client, operator := inBubble(t, r)
		first := watching(t, client, operator, 0)
		later := watching(t, client, operator, 3)
		synctest.Wait()
		revoke := func(entries ...revocation.Entry) {
			t.Helper()
			if _, _, err := r.Revoke(t.Context(), operatorCaller, entries); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(12 * time.Second)
		revoke(revocation.Entry{Kind: revocation.Server, ID: "f", Lift: true}, revocation.Entry{Kind: revocation.Server, ID: "h", From: at(0.5), Until: at(0.500000001)})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		history := []string{"0s added 4", "0s added 5", "0s added 6", "0s added 7", "0s added 8"}
		past := []string{"0s began 4", "0s ended 4", "0s began 5"} // 7 has been lifted
		// What lasts a nanosecond is told within the least wait, a millisecond.
		news := []string{"10s began 2", "10s ended 3", "12s added 9", "12s added 10", "12.5s began 10", "12.501s ended 10", "20s ended 2"}
		want := slices.Concat([]string{"0s added 1", "0s added 2", "0s added 3"}, history, past, news)
		if got := first.all(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		// Whoever goes on after entry 3 is told of the edges of earlier ones from
		// then on.
		if got, want := later.all(), slices.Concat(history, past, news); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		first.cancel()
		later.cancel()
		<-first.done
		<-later.done
	})
}

// inBubble runs a server without a network, as a bubble's clock wants it, and
// returns a client and the operator's secret.
func inBubble(t *testing.T, r server.Revoker) (writv1.RevocationServiceClient, string) {
	t.Helper()
	cfg := config(t, &decider{})
	cfg.Revoker = r
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.SetServing(true)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), listener, nil) }()
	conn, err := grpc.NewClient("passthrough:server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), s.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return writv1.NewRevocationServiceClient(conn), secret(t, cfg.Credentials.Dir(), server.OperatorFile)
}

// A watch ends when the server drains, and says that another may go on.
func TestWatchRevocationsEnds(t *testing.T) {
	r := newRevoker(t, revocation.Entry{Kind: revocation.Server, ID: "a"})
	h, client := operate(t, r, nil)
	w := watching(t, client, h.operator, 0)
	wait(t, "the first entry", func() bool { return len(w.all()) == 1 })
	h.stop()
	select {
	case <-w.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the watch goes on")
	}
	wantRefusal(t, w.err, codes.Unavailable, server.ReasonNotReady)
	if err := <-h.served; err != nil {
		t.Errorf("the server was not drained: %v", err)
	}
}

func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWatchersAreBounded(t *testing.T) {
	h, client := operate(t, newRevoker(t, revocation.Entry{Kind: revocation.Server, ID: "a"}), func(c *server.Config) { c.Limits.Watches = 3 })
	var watchers []*watcher
	for range 3 {
		w := watching(t, client, h.operator, 0)
		wait(t, "the first entry", func() bool { return len(w.all()) == 1 })
		watchers = append(watchers, w)
	}
	more := watching(t, client, h.operator, 0)
	<-more.done
	wantRefusal(t, more.err, codes.ResourceExhausted, server.ReasonTooManyInFlight)
	watchers[0].cancel()
	<-watchers[0].done
	wait(t, "a place", func() bool {
		w := watching(t, client, h.operator, 0)
		for len(w.all()) == 0 {
			select {
			case <-w.done:
				return false
			default:
				time.Sleep(time.Millisecond)
			}
		}
		return true
	})
}

// A watcher that doesn't read keeps nobody waiting: neither those who revoke
// nor those who watch.
func TestSlowWatcherKeepsNobodyWaiting(t *testing.T) {
	r := newRevoker(t)
	h, client := operate(t, r, func(c *server.Config) { c.Limits.Drain = 100 * time.Millisecond })
	ctx := as(t, h.operator)
	slow, err := client.WatchRevocations(ctx, &writv1.WatchRevocationsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	fast := watching(t, client, h.operator, 0)
	reason := strings.Repeat("x", 4096)
	const n = 2000 // 8 MB, far more than the windows of HTTP/2 hold
	for i := range n {
		if _, _, err := r.Revoke(ctx, operatorCaller, []revocation.Entry{{Kind: revocation.Intent, ID: fmt.Sprint(i), Reason: reason}}); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, "the watcher that reads", func() bool { return len(fast.all()) == n })
	h.alive(t)
	// And when it reads at last it misses nothing.
	for i := range uint64(n) {
		e, err := slow.Recv()
		if err != nil || e.GetRevocation().GetSequence() != i+1 {
			t.Fatalf("entry %d: %v, %v", i+1, e.GetRevocation().GetSequence(), err)
		}
	}
}

// A watch needs a world.
func TestWatchRevocationsRefused(t *testing.T) {
	for _, c := range []struct {
		revoker server.Revoker
		code    codes.Code
		reason  server.Reason
	}{
		{nil, codes.FailedPrecondition, server.ReasonNoRevocationLog},
		{&revoker{}, codes.Unavailable, server.ReasonNotReady},
	} {
		h, client := operate(t, c.revoker, nil)
		w := watching(t, client, h.operator, 0)
		<-w.done
		wantRefusal(t, w.err, c.code, c.reason)
	}
	h, client := operate(t, newRevoker(t), nil)
	w := watching(t, client, h.host, 0)
	<-w.done
	wantRefusal(t, w.err, codes.PermissionDenied, server.ReasonMethodDenied)
}
