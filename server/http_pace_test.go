package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/writ-pdp/writ/server"
)

// Requests of one connection wait for its pace: those that are refused cost 26,
// and time brings 4096 a second; those that are let in are answered at once.
func TestHTTPRequestsWaitForTheirPace(t *testing.T) {
	const n = 200
	for _, c := range []struct {
		name    string
		request func(host string) string
		status  int
		least   time.Duration
	}{
		{"no such path", func(string) string { return "GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n" }, 404, (26*(n-1) - server.PaceFirst) * time.Second / 4096},
		{"a stranger", func(string) string {
			return "POST " + decideMethod + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n"
		}, 401, (26*(n-1) - server.PaceFirst) * time.Second / 4096},
		{"a host", func(host string) string {
			return "POST " + decideMethod + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + host + "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
		}, 200, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(t, &decider{})
				host := secret(t, cfg.Credentials.Dir(), server.HostFile)
				s, err := server.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				s.SetServing(true)
				web, served := bufconn.Listen(1<<20), make(chan error, 1)
				go func() { served <- s.Serve(t.Context(), bufconn.Listen(1), web) }()
				conn, err := web.DialContext(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				go io.WriteString(conn, strings.Repeat(c.request(host), n))
				in := bufio.NewReader(conn)
				for i := range n {
					r, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatalf("answer %d: %v", i, err)
					}
					if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != c.status {
						t.Fatalf("answer %d: %d %v", i, r.StatusCode, err)
					}
				}
				if took := time.Since(begun); took < c.least || c.least == 0 && took > 0 {
					t.Errorf("it took %v, want %v or more", took, c.least)
				}
				if n := s.PacedConnections(); n != 1 {
					t.Errorf("%d connections are counted", n)
				}
				conn.Close()
				synctest.Wait()
				if n := s.PacedConnections(); n != 0 {
					t.Errorf("%d connections are counted once it is closed", n)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestReceivedForNothing has requests refused once they have been received,
// since their start is too far off: that they were let in brings nothing, and what
// was received costs.
func TestReceivedForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, &decider{})
		cfg.Limits.Apart = time.Hour
		s, err := server.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.SetServing(true)
		web, served := bufconn.Listen(1<<20), make(chan error, 1)
		go func() { served <- s.Serve(t.Context(), bufconn.Listen(1), web) }()
		call := func(file, method string) string {
			return "POST " + method + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + secret(t, cfg.Credentials.Dir(), file) +
				"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
		}
		answers := func(request string, n int, want ...int) {
			t.Helper()
			conn, err := web.DialContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go io.WriteString(conn, strings.Repeat(request, n))
			in := bufio.NewReader(conn)
			for i := range n {
				r, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("answer %d: %v", i, err)
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != want[min(i, len(want)-1)] {
					t.Fatalf("answer %d: %d %v", i, r.StatusCode, err)
				}
			}
		}
		answers(call(server.HostFile, decideMethod), 1, http.StatusOK)
		answers(call(server.OperatorFile, explainMethod), 1, http.StatusBadRequest) // it asks for nothing, beside the host
		const n = 40
		begun := time.Now()
		answers(call(server.HostFile, decideMethod), n, http.StatusOK, http.StatusTooManyRequests)
		// Each costs the request's 2, the refusal's 24 and the call's 1; time brings 4096.
		if took, least := time.Since(begun), (27*(n-2)-server.PaceFirst-8)*time.Second/4096; took < least {
			t.Errorf("it took %v, want %v or more", took, least)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// Of batches that are let in at one instant, those that come to be read once the
// caller has a debt are refused, whole.
func TestBatchesAtOnceAreAfforded(t *testing.T) {
	d := &decider{}
	h := open(t, d, func(c *server.Config) { c.Limits.Rate, c.Limits.Burst = 1, 4 })
	batch := `{"proposals":[` + strings.Repeat("{},", 99) + `{}]}`
	head := strings.Replace(h.requestHead(h.host, "Content-Length: "+strconv.Itoa(len(batch)), "Expect: 100-continue"), decideMethod, decideMethod+"Batch", 1)
	type asked struct {
		conn net.Conn
		in   *bufio.Reader
	}
	var both [2]asked
	for i := range both { // each is let in, and asked for its message
		both[i].conn, both[i].in = rawHTTP(t, h.web, head)
		for _, want := range []string{"HTTP/1.1 100 Continue\r\n", "\r\n"} {
			if line, err := both[i].in.ReadString('\n'); err != nil || line != want {
				t.Fatalf("%q %v", line, err)
			}
		}
	}
	answer := func(a asked) reply {
		t.Helper()
		if _, err := io.WriteString(a.conn, batch); err != nil {
			t.Fatal(err)
		}
		return readReply(t, a.in)
	}
	if r := answer(both[0]); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	answer(both[1]).wantRefused(t, http.StatusTooManyRequests, "resource_exhausted", server.ReasonRateLimited)
}
