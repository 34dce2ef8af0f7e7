package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/test/bufconn"

	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
)

// Web pages have no business here: neither under a name of their own that
// resolves to this machine, nor under their origin.
func TestHTTPGuard(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	_, port, err := net.SplitHostPort(h.web)
	if err != nil {
		t.Fatal(err)
	}
	for host, own := range map[string]bool{
		h.web: true, "127.0.0.1": true, "localhost": true, "localhost:" + port: true, "LocalHost:" + port: true, "[::1]": true, "[::1]:" + port: true,
		"": false, "evil.example": false, "evil.example:" + port: false, "localhost.evil.example:" + port: false, "127.0.0.1.nip.io:" + port: false,
		"localhost:1": false, "127.0.0.1:1": false, "[::1]:1": false, "127.0.0.1:": false, "localhost:0" + port: false, "localhost:+" + port: false,
		"127.0.0.2:" + port: false, "0.0.0.0:" + port: false, "[::]:" + port: false, "10.0.0.1": false, "127.1:" + port: false, "2130706433": false,
		"localhost.:" + port: false, "[localhost]:" + port: false, "[127.0.0.1]": false, "[::ffff:127.0.0.1]:" + port: false, "::1": false, "[::1%25lo]": false,
		"user@localhost": false, "localhost," + h.web: false,
	} {
		for _, target := range []string{"GET /healthz", "GET /nope", "POST " + decideMethod} {
			_, in := rawHTTP(t, h.web, target+" HTTP/1.1\r\nHost: "+host+"\r\nAuthorization: Bearer "+h.host+
				"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
			switch r := readReply(t, in); {
			case r.status == http.StatusBadRequest && !own && r.header.Get("Content-Type") != "application/json":
				// net/http's own words for what is no host at all
			case !own:
				r.wantRefused(t, http.StatusForbidden, "permission_denied", server.ReasonHostDenied)
			case r.status == http.StatusForbidden:
				t.Errorf("%s at %q: %d %s", target, host, r.status, r.body)
			}
		}
	}
	if n := len(d.questions()); n != 7 {
		t.Errorf("asked %d times, want once for each host of our own", n)
	}
	// An absolute target counts as the host, and none at all is none.
	for _, head := range []string{
		"GET http://evil.example/healthz HTTP/1.1\r\nHost: " + h.web,
		"GET /healthz HTTP/1.0",
	} {
		_, in := rawHTTP(t, h.web, head+"\r\n\r\n")
		readReply(t, in).wantRefused(t, http.StatusForbidden, "permission_denied", server.ReasonHostDenied)
	}
	for _, origin := range []string{"https://evil.example", "null", "http://" + h.web, ""} {
		for _, target := range []string{"GET /healthz", "GET /readyz", "OPTIONS *", "OPTIONS " + decideMethod, "POST " + decideMethod, "GET /nope"} {
			_, in := rawHTTP(t, h.web, target+" HTTP/1.1\r\nHost: "+h.web+"\r\nOrigin: "+origin+"\r\nAuthorization: Bearer "+h.host+
				"\r\nAccess-Control-Request-Method: POST\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
			readReply(t, in).wantRefused(t, http.StatusForbidden, "permission_denied", server.ReasonOriginDenied)
		}
	}
	if n := len(d.questions()); n != 7 {
		t.Errorf("a page was answered")
	}
	// On a local socket there is no address to name.
	listener := bufconn.Listen(1 << 16)
	s, err := server.New(config(t, d))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	go s.Serve(t.Context(), bufconn.Listen(1), listener)
	for host, want := range map[string]int{"localhost": 200, "evil.example": 403} {
		conn, err := listener.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+host+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := do(&client, req); err != nil || r.status != want {
			t.Errorf("%s: %v %d %s", host, err, r.status, r.body)
		}
	}
}

// What is no HTTP ends its connection and nothing else.
func TestHTTPGarbage(t *testing.T) {
	wantNoLeak(t)
	h := open(t, &decider{}, nil)
	random := rand.New(rand.NewPCG(5, 6))
	noise := make([]byte, 10_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	head := "POST " + decideMethod + " HTTP/1.1\r\nHost: " + h.web + "\r\n"
	for name, text := range map[string]string{
		"nothing":          "",
		"noise":            string(noise),
		"zeros":            strings.Repeat("\x00", 100_000),
		"HTTP/2":           http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"TLS":              "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"no version":       "GET /\r\n\r\n",
		"HTTP/9":           "GET / HTTP/9.9\r\nHost: " + h.web + "\r\n\r\n",
		"a folded header":  head + "X-A: b\r\n c\r\n\r\n",
		"a broken header":  head + "no colon\r\n\r\n",
		"two lengths":      head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
		"a negative one":   head + "Content-Length: -1\r\n\r\n",
		"odd coding":       head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"two hosts":        head + "Host: " + h.web + "\r\n\r\n",
		"broken chunks":    h.requestHead(h.host, "Transfer-Encoding: chunked") + "zz\r\n{}\r\n0\r\n\r\n",
		"too much header":  head + "X-Much: " + strings.Repeat("x", 40<<10) + "\r\n\r\n",
		"many headers":     head + strings.Repeat("X-A: b\r\n", 10_000) + "\r\n",
		"an upgrade":       head + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nContent-Length: 0\r\n\r\n",
		"a tunnel":         "CONNECT 10.0.0.1:22 HTTP/1.1\r\nHost: 10.0.0.1:22\r\n\r\n",
		"an endless line":  "GET /" + strings.Repeat("a", 100_000),
		"a strange target": "GET //evil.example/healthz HTTP/1.1\r\nHost: " + h.web + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", h.web)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			_, _ = io.WriteString(conn, text) // it may be cut off before it is all sent
			_ = conn.(*net.TCPConn).CloseWrite()
			answer, err := io.ReadAll(conn)
			if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Errorf("the connection stays open: %q", answer)
			}
			if bytes.Contains(answer, []byte("HTTP/1.1 200")) || bytes.Contains(answer, []byte("101 ")) || bytes.Contains(answer, []byte(".go:")) {
				t.Errorf("got %q", answer)
			}
			if name == "too much header" && !bytes.HasPrefix(answer, []byte("HTTP/1.1 431 ")) {
				t.Errorf("got %.40q", answer)
			}
		})
	}
	h.aliveJSON(t)
	h.alive(t)
	if log := h.log.String(); strings.Contains(log, "panic") || strings.Contains(log, `"ERROR"`) {
		t.Errorf("logged %s", log)
	}
}

// Nobody keeps a connection by saying nothing, or little.
func TestHTTPSlowClients(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 5 s")
	}
	h := open(t, &decider{}, func(c *server.Config) { c.Limits.ConnectionIdle = time.Second })
	begun := time.Now()
	_, silent := rawHTTP(t, h.web, "")
	_, slow := rawHTTP(t, h.web, "POST "+decideMethod+" HTTP/1.1\r\nHost:")
	_, idle := rawHTTP(t, h.web, "GET /healthz HTTP/1.1\r\nHost: "+h.web+"\r\n\r\n")
	if r := readReply(t, idle); r.status != http.StatusOK {
		t.Errorf("got %d", r.status)
	}
	if _, err := idle.ReadByte(); err != io.EOF || time.Since(begun) > 20*time.Second {
		t.Errorf("an idle connection: %v after %v", err, time.Since(begun))
	}
	for name, in := range map[string]io.Reader{"silent": silent, "slow": slow} {
		if _, err := io.ReadAll(in); err != nil || time.Since(begun) > 30*time.Second {
			t.Errorf("a %s connection: %v after %v", name, err, time.Since(begun))
		}
	}
}

func TestHTTPConnectionsAreLimited(t *testing.T) {
	h := open(t, &decider{}, func(c *server.Config) { c.Limits.Connections = 1; c.Limits.ConnectionAge = 300 * time.Millisecond })
	const ask = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	conn, in := rawHTTP(t, h.web, ask)
	if r := readReply(t, in); r.status != http.StatusOK || r.header.Get("Connection") != "" {
		t.Fatalf("got %d %v", r.status, r.header)
	}
	second, waiting := rawHTTP(t, h.web, ask)
	second.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := waiting.ReadByte(); err == nil {
		t.Fatal("a second connection was served")
	}
	// The first has grown old by now: its next answer is its last.
	if _, err := io.WriteString(conn, ask); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(in); err != nil {
		t.Errorf("the old connection stays open: %v", err)
	}
	second.SetReadDeadline(time.Now().Add(5 * time.Second))
	if r := readReply(t, waiting); r.status != http.StatusOK {
		t.Errorf("once the first is gone: %d", r.status)
	}
}

func TestHTTPGracefulDrain(t *testing.T) {
	wantNoLeak(t)
	for name, stop := range map[string]func(*house){"context": func(h *house) { h.stop() }, "Close": func(h *house) { go h.Close() }} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			let := sync.OnceFunc(func() { close(release) })
			defer let()
			d := &decider{do: func(context.Context) (pdp.Answer, error) { <-release; return pdp.Answer{}, nil }}
			h := open(t, d, nil)
			answered := make(chan reply, 1)
			go func() {
				r, err := h.tryPost(t.Context(), h.host, decideMethod, body(`{}`))
				if err != nil {
					t.Error(err)
				}
				answered <- r
			}()
			for len(d.questions()) == 0 {
				time.Sleep(time.Millisecond)
			}
			// These have begun to ask, and say what only later.
			late, lateIn := rawHTTP(t, h.web, "P")
			probe, probeIn := rawHTTP(t, h.web, "G")
			time.Sleep(50 * time.Millisecond)
			stop(h)
			for until := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) { // new connections hear it too
				_, in := rawHTTP(t, h.web, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if readReply(t, in).status == http.StatusServiceUnavailable {
					break
				}
				if time.Now().After(until) {
					t.Fatal("readyz stays ready")
				}
			}
			h.post(t, h.host, decideMethod, body(`{}`)).wantRefused(t, http.StatusServiceUnavailable, "unavailable", server.ReasonNotReady)
			io.WriteString(probe, "ET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
			info := readReply(t, probeIn)
			info.wantRefused(t, http.StatusServiceUnavailable, "unavailable", server.ReasonNotReady)
			if !bytes.Contains(info.body, []byte("stopping")) {
				t.Errorf("readyz says %s", info.body)
			}
			io.WriteString(late, h.requestHead(h.host, "Content-Length: 2")[1:]+"{}")
			readReply(t, lateIn).wantRefused(t, http.StatusServiceUnavailable, "unavailable", server.ReasonNotReady)
			select {
			case err := <-h.served:
				t.Fatalf("Serve returned %v while a call was in flight", err)
			case r := <-answered:
				t.Fatalf("the call ended with %d %s", r.status, r.body)
			case <-time.After(50 * time.Millisecond):
			}
			let()
			if r := <-answered; r.status != http.StatusOK {
				t.Errorf("the call in flight: %d %s", r.status, r.body)
			}
			if err := <-h.served; err != nil {
				t.Errorf("Serve: %v", err)
			}
			if n := len(d.questions()); n != 1 {
				t.Errorf("decided %d times, want once", n)
			}
		})
	}
}

func TestHTTPDrainHasALimit(t *testing.T) {
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
		r, err := h.tryPost(t.Context(), h.host, decideMethod, body(`{}`))
		if err == nil && r.status == http.StatusOK {
			err = errors.New("it was answered")
		} else {
			err = nil
		}
		answered <- err
	}()
	for len(d.questions()) == 0 {
		time.Sleep(time.Millisecond)
	}
	// One that never finishes its body, too.
	_, _ = rawHTTP(t, h.web, h.requestHead(h.host, "Content-Length: 100")+"{")
	time.Sleep(20 * time.Millisecond)
	h.stop()
	stopped := time.Now()
	if err := <-h.served; err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(stopped); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if !ended {
		t.Error("Serve returned before the call had ended")
	}
	if err := <-answered; err != nil {
		t.Errorf("a call that was cut off: %v", err)
	}
}

// Either listener's failure ends both, and either's address may be refused.
func TestBothListeners(t *testing.T) {
	wantNoLeak(t)
	loopback := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	broken := func() *elsewhere { return &elsewhere{addr: &net.UnixAddr{}} }
	public := func() *elsewhere { return &elsewhere{addr: &net.TCPAddr{IP: net.IPv4zero, Port: 1}} }
	for name, c := range map[string]struct {
		grpc, http net.Listener
		want       string
	}{
		"gRPC fails":      {broken(), loopback(), "listener failed"},
		"HTTP fails":      {loopback(), broken(), "listener failed"},
		"gRPC for others": {public(), loopback(), "without TLS"},
		"HTTP for others": {loopback(), public(), "without TLS"},
	} {
		s, err := server.New(config(t, &decider{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(t.Context(), c.grpc, c.http); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		for _, l := range []net.Listener{c.grpc, c.http} {
			if e, ok := l.(*elsewhere); ok {
				if !e.closed {
					t.Errorf("%s: a listener is left open", name)
				}
			} else if _, err := net.DialTimeout("tcp", l.Addr().String(), time.Second); err == nil {
				t.Errorf("%s: a listener is left open", name)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestHTTPOverTLS(t *testing.T) {
	wantNoLeak(t)
	files, roots := selfSigned(t)
	d := &decider{}
	h := open(t, d, func(c *server.Config) { c.TLS = files })
	ask := func(config *tls.Config, two bool, host string) (reply, *http.Response, error) {
		config.RootCAs = roots
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: two}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+h.web+decideMethod, body(`{"proposal":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+h.host)
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return reply{}, nil, err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return reply{resp.StatusCode, resp.Header, data}, resp, err
	}
	for _, two := range []bool{false, true} { // whoever speaks HTTP/2, too, is answered over HTTP/1.1
		r, resp, err := ask(&tls.Config{ServerName: "pdp.example"}, two, "")
		if err != nil || r.status != http.StatusOK || resp.ProtoMajor != 1 || resp.TLS.Version != tls.VersionTLS13 {
			t.Errorf("HTTP/2 %t: %v %d %s", two, err, r.status, r.body)
		}
		if r, _, err := ask(&tls.Config{ServerName: "pdp.example"}, two, "pdp.example"); err != nil || r.status != http.StatusOK {
			t.Errorf("HTTP/2 %t, by name: %v %d %s", two, err, r.status, r.body)
		}
		r, _, err = ask(&tls.Config{ServerName: "pdp.example"}, two, "evil.example")
		if err != nil {
			t.Fatal(err)
		}
		r.wantRefused(t, http.StatusForbidden, "permission_denied", server.ReasonHostDenied)
	}
	if _, _, err := ask(&tls.Config{ServerName: "pdp.example", MaxVersion: tls.VersionTLS12}, false, ""); err == nil {
		t.Error("TLS 1.2 passed")
	}
	if r := h.post(t, h.host, decideMethod, body(`{}`)); r.status != http.StatusBadRequest {
		t.Errorf("plain text: %d %s", r.status, r.body)
	}
	if n := len(d.questions()); n != 4 {
		t.Errorf("asked %d times, want 4", n)
	}
}
