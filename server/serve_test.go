package server_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
)

func TestLoopback(t *testing.T) {
	wantNoLeak(t)
	d := &decider{}
	h := openTCP(t, d, nil)
	for range 3 {
		h.alive(t)
	}
	if n := len(d.questions()); n != 3 {
		t.Errorf("asked %d times", n)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-h.served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := net.DialTimeout("tcp", h.address, time.Second); err == nil {
		t.Error("the listener is still open")
	}
	if entries, err := os.ReadDir(h.credentials); err != nil || len(entries) != 0 {
		t.Errorf("secrets are left: %v, %v", entries, err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

// elsewhere is a listener with any address, which is never listened on.
type elsewhere struct {
	net.Listener
	addr   net.Addr
	closed bool
}

func (l *elsewhere) Addr() net.Addr { return l.addr }
func (l *elsewhere) Close() error   { l.closed = true; return nil }
func (l *elsewhere) Accept() (net.Conn, error) {
	return nil, io.EOF
}

type strangeAddr struct{}

func (strangeAddr) Network() string { return "vsock" }
func (strangeAddr) String() string  { return "vsock:2:1" }

func TestPlainTextStaysHere(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, c := range []struct {
		addr    net.Addr
		refused bool
	}{
		{tcp("127.0.0.1"), false},
		{tcp("127.8.9.10"), false},
		{tcp("::1"), false},
		{tcp("::ffff:127.0.0.1"), false},
		{&net.UnixAddr{Name: "/run/x", Net: "unix"}, false},
		{tcp("0.0.0.0"), true},
		{tcp("::"), true},
		{tcp("192.168.1.2"), true},
		{tcp("10.0.0.1"), true},
		{tcp("fe80::1"), true},
		{&net.TCPAddr{Port: 1}, true},
		{strangeAddr{}, true},
	} {
		s, err := server.New(config(t, &decider{}))
		if err != nil {
			t.Fatal(err)
		}
		listener := &elsewhere{addr: c.addr}
		err = s.Serve(t.Context(), listener, nil)
		if refused := err != nil && strings.Contains(err.Error(), "can be reached from other machines"); refused != c.refused {
			t.Errorf("%v: %v, want it refused: %t", c.addr, err, c.refused)
		}
		if !listener.closed {
			t.Errorf("%v: the listener is left open", c.addr)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestServesOnce(t *testing.T) {
	h := open(t, &decider{}, nil)
	h.alive(t)
	if err := h.Serve(t.Context(), &elsewhere{addr: &net.UnixAddr{}}, nil); err == nil || !strings.Contains(err.Error(), "serves once") {
		t.Errorf("serving twice: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Serve(t.Context(), &elsewhere{addr: &net.UnixAddr{}}, nil); err == nil || !strings.Contains(err.Error(), "serves once") {
		t.Errorf("serving after Close: %v", err)
	}
}

func TestFailingListener(t *testing.T) {
	s, err := server.New(config(t, &decider{}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Serve(t.Context(), &elsewhere{addr: &net.UnixAddr{}}, nil); err == nil || !strings.Contains(err.Error(), "listener failed") {
		t.Errorf("got %v", err)
	}
}

func TestHealth(t *testing.T) {
	h := open(t, &decider{}, func(c *server.Config) {})
	client := healthv1.NewHealthClient(h.conn)
	check := func(service string, want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		r, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || r.GetStatus() != want {
			t.Errorf("%q: %v, %v, want %v", service, r.GetStatus(), err, want)
		}
	}
	check("", healthv1.HealthCheckResponse_SERVING)
	h.SetServing(false)
	check("", healthv1.HealthCheckResponse_NOT_SERVING)
	check("writ.v1.DecisionService", healthv1.HealthCheckResponse_NOT_SERVING)
	h.SetServing(true)
	check("writ.v1.DecisionService", healthv1.HealthCheckResponse_SERVING)
}

// A server that was never told that there is something to decide by is not
// serving.
func TestHealthBeforeABundle(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(config(t, &decider{}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	go s.Serve(t.Context(), listener, nil)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(plain()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || r.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestGracefulDrain(t *testing.T) {
	wantNoLeak(t)
	release := make(chan struct{})
	d := &decider{do: func(context.Context) (pdp.Answer, error) { <-release; return pdp.Answer{}, nil }}
	h := openTCP(t, d, nil)
	watch, err := healthv1.NewHealthClient(h.conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatalf("got %v, %v", r, err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := h.decide(t, full())
		answered <- err
	}()
	for len(d.questions()) == 0 {
		time.Sleep(time.Millisecond)
	}
	h.stop() // as a signal would
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("who watches health heard %v, %v", r, err)
	}
	if r, err := watch.Recv(); err == nil {
		t.Errorf("the watch goes on: %v", r)
	}
	select {
	case err := <-h.served:
		t.Fatalf("Serve returned %v while a call was in flight", err)
	case err := <-answered:
		t.Fatalf("the call ended with %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-h.served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestDrainHasALimit(t *testing.T) {
	wantNoLeak(t)
	var ended bool // written before Serve returns, read after
	d := &decider{do: func(ctx context.Context) (pdp.Answer, error) {
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond) // it takes a moment to notice
		ended = true
		return pdp.Answer{}, ctx.Err()
	}}
	h := open(t, d, func(c *server.Config) { c.Limits.Drain, c.Limits.Deadline = 50*time.Millisecond, time.Minute })
	answered := make(chan error, 1)
	go func() {
		_, err := h.decide(t, full())
		answered <- err
	}()
	for len(d.questions()) == 0 {
		time.Sleep(time.Millisecond)
	}
	h.stop()
	stopped := time.Now()
	if err := <-h.served; err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(stopped); took > 5*time.Second { // the client waits for 10 s
		t.Errorf("it took %v", took)
	}
	if !ended {
		t.Error("Serve returned before the call had ended")
	}
	if err := <-answered; err == nil {
		t.Error("a call that was cut off has an answer")
	}
}

// Close is as graceful as the end of Serve's context, and waits as long.
func TestCloseWaits(t *testing.T) {
	wantNoLeak(t)
	release := make(chan struct{})
	d := &decider{do: func(context.Context) (pdp.Answer, error) { <-release; return pdp.Answer{}, nil }}
	h := open(t, d, nil)
	answered, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := h.decide(t, full())
		answered <- err
	}()
	for len(d.questions()) == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { closed <- h.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("Close returned %v while a call was in flight", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestTLS(t *testing.T) {
	files, roots := selfSigned(t)
	h := openTCP(t, &decider{}, func(c *server.Config) { c.TLS = files })
	dial := func(version uint16) error {
		conn, err := grpc.NewClient(h.address, grpc.WithTransportCredentials(credentials.NewTLS(
			&tls.Config{RootCAs: roots, ServerName: "pdp.example", MaxVersion: version, MinVersion: version})))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = writv1.NewDecisionServiceClient(conn).Decide(as(t, h.host), &writv1.DecideRequest{})
		return err
	}
	if err := dial(tls.VersionTLS13); err != nil {
		t.Errorf("TLS 1.3: %v", err)
	}
	if err := dial(tls.VersionTLS12); status.Code(err) != codes.Unavailable {
		t.Errorf("TLS 1.2: %v", err)
	}
	if _, err := h.decide(t, nil); status.Code(err) != codes.Unavailable {
		t.Errorf("plain text: %v", err)
	}
	// Any address may be listened on where callers elsewhere can be told apart.
	ca := newAuthority(t, "root", nil)
	mutual, err := server.OpenTLS(newTLSFiles(t, ca.server(t), ca).config())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tls  *server.TLS
		want string
	}{
		{nil, "--tls-cert FILE --tls-key FILE --tls-client-ca FILE"}, {files, "add --tls-client-ca FILE"}, {mutual, "the listener failed"},
	} {
		cfg := config(t, &decider{})
		cfg.TLS = c.tls
		s, err := server.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(t.Context(), &elsewhere{addr: &net.TCPAddr{IP: net.IPv4zero}}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("on all addresses: %v, want %s", err, c.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
