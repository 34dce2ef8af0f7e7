package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
)

func TestHTTPMessageSize(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	sized := func(n int) string {
		text := `{"proposal":{"argumentsJson":""}}`
		return text[:len(text)-3] + strings.Repeat(" ", n-len(text)) + text[len(text)-3:]
	}
	unsized := func(text string) io.Reader { return io.MultiReader(body(text)) } // no declared length
	for _, text := range []io.Reader{body(sized(512 << 10)), unsized(sized(512 << 10))} {
		if r := h.post(t, h.host, decideMethod, text); r.status != http.StatusOK {
			t.Errorf("512 KiB: %d %s", r.status, r.body)
		}
	}
	for _, text := range []io.Reader{body(sized(512<<10 + 1)), unsized(sized(512<<10 + 1)), body(sized(4 << 20)), unsized(sized(4 << 20))} {
		h.post(t, h.host, decideMethod, text).wantRefused(t, http.StatusRequestEntityTooLarge, "resource_exhausted", server.ReasonMessageTooLarge)
	}
	if n := len(d.questions()); n != 2 {
		t.Errorf("asked %d times, want twice", n)
	}
	h.aliveJSON(t)
}

// A body that is too large is refused before it is sent, or soon after.
func TestHTTPBodiesAreNotReadForNothing(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	t.Run("declared", func(t *testing.T) {
		_, in := rawHTTP(t, h.web, h.requestHead(h.host, "Content-Length: 1000000000000"))
		readReply(t, in).wantRefused(t, http.StatusRequestEntityTooLarge, "resource_exhausted", server.ReasonMessageTooLarge)
	})
	t.Run("endless", func(t *testing.T) {
		conn, in := rawHTTP(t, h.web, h.requestHead(h.host, "Transfer-Encoding: chunked"))
		var sent atomic.Int64
		go func() {
			chunk := "10000\r\n" + strings.Repeat(" ", 1<<16) + "\r\n"
			for {
				n, err := io.WriteString(conn, chunk)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
		readReply(t, in).wantRefused(t, http.StatusRequestEntityTooLarge, "resource_exhausted", server.ReasonMessageTooLarge)
		time.Sleep(700 * time.Millisecond) // net/http closes half a second later
		if n := sent.Load(); n > 16<<20 {  // what the kernel's buffers take
			t.Errorf("%d bytes were taken", n)
		}
	})
	t.Run("a stranger's", func(t *testing.T) {
		conn, in := rawHTTP(t, h.web, h.requestHead("invented", "Content-Length: 100000"))
		conn.SetDeadline(time.Now().Add(2 * time.Second))
		readReply(t, in).wantRefused(t, http.StatusUnauthorized, "unauthenticated", server.ReasonUnauthenticated)
	})
	t.Run("expected", func(t *testing.T) {
		for _, secret := range []string{"invented", h.host} {
			conn, in := rawHTTP(t, h.web, h.requestHead(secret, "Content-Length: 2", "Expect: 100-continue"))
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if asked := strings.HasPrefix(line, "HTTP/1.1 100 "); asked != (secret == h.host) {
				t.Errorf("%q", line)
			}
			conn.Close()
		}
	})
	if n := len(d.questions()); n != 0 {
		t.Errorf("asked %d times", n)
	}
	h.aliveJSON(t)
}

func TestHTTPDeadlines(t *testing.T) {
	wantNoLeak(t)
	until := func(ctx context.Context) (pdp.Answer, error) {
		<-ctx.Done()
		return pdp.Answer{}, ctx.Err()
	}
	d := &decider{do: until}
	h := open(t, d, func(c *server.Config) { c.Limits.Deadline, c.Limits.InFlight = 100*time.Millisecond, 1 })
	late := func(r reply) {
		t.Helper()
		r.wantRefused(t, http.StatusGatewayTimeout, "deadline_exceeded", server.ReasonDeadlineExceeded)
	}
	late(h.post(t, h.host, decideMethod, body(`{}`)))
	late(h.post(t, h.host, decideMethod, body(`{}`), "Connect-Timeout-Ms", "9999999999"))
	late(h.post(t, h.host, decideMethod, body(`{}`), "Connect-Timeout-Ms", "20"))
	for _, q := range d.questions() {
		if q.deadline <= 0 || q.deadline > 100*time.Millisecond {
			t.Errorf("decided with %v left", q.deadline)
		}
	}
	if q := d.questions(); len(q) != 3 || q[2].deadline > 20*time.Millisecond {
		t.Errorf("asked %+v", q)
	}
	late(h.post(t, h.host, decideMethod, body(`{}`), "Connect-Timeout-Ms", "0"))
	// Someone who never finishes a body.
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		conn, in := rawHTTP(t, h.web, h.requestHead(h.host, framing)+"5\r\n{\"pro")
		begun := time.Now()
		late(readReply(t, in))
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s: it took %v", framing, took)
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("the connection stays open: %v", err)
		}
		conn.Close()
	}
	if n := len(d.questions()); n != 3 {
		t.Errorf("decided %d times, want 3", n)
	}
	late(h.post(t, h.host, decideMethod, body(`{}`))) // the one place in flight is free again
}

// A client that goes away takes its call with it.
func TestHTTPClientsThatGo(t *testing.T) {
	wantNoLeak(t)
	ended := make(chan error, 1)
	d := &decider{do: func(ctx context.Context) (pdp.Answer, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return pdp.Answer{}, ctx.Err()
	}}
	h := open(t, d, func(c *server.Config) { c.Limits.Deadline = time.Minute })
	conn, _ := rawHTTP(t, h.web, h.requestHead(h.host, "Content-Length: 2")+"{}")
	for len(d.questions()) == 0 {
		time.Sleep(time.Millisecond)
	}
	conn.Close()
	if err := <-ended; err != context.Canceled {
		t.Errorf("the call ended with %v", err)
	}
	// In the middle of a body: nothing is decided.
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		conn, in := rawHTTP(t, h.web, h.requestHead(h.host, framing)+"5\r\n{\"pro")
		conn.(*net.TCPConn).CloseWrite()
		readReply(t, in).wantRefused(t, http.StatusBadRequest, "invalid_argument", server.ReasonMalformedRequest)
	}
	if n := len(d.questions()); n != 1 {
		t.Errorf("decided %d times, want once", n)
	}
	if strings.Contains(h.log.String(), "ERROR") {
		t.Errorf("a client's fault is logged as the server's: %s", h.log)
	}
}
