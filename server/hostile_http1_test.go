package server_test

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/server"
)

// Requests that two readers could take for different ones, and what is no
// request of ours, are refused at the HTTP door, and nothing that they carry
// along is answered (RFC 9112, sections 6, 7 and 11).
func TestHostileHTTP1(t *testing.T) {
	wantNoLeak(t)
	const smuggled = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, c := range []struct {
		name string
		head []string // after the request line, host, type and secret
		body string
		want []string // the statuses, in order, of all that is answered
	}{
		{"a length and chunks", []string{"Content-Length: 2", "Transfer-Encoding: chunked"}, "0\r\n\r\n" + smuggled, []string{"400"}},
		{"chunks, then a length", []string{"Transfer-Encoding: chunked", "Content-Length: 5"}, "0\r\n\r\n" + smuggled, []string{"400"}},
		{"chunks by another name", []string{"Transfer-Encoding: xchunked"}, "0\r\n\r\n" + smuggled, []string{"501"}},
		{"chunks twice", []string{"Transfer-Encoding: chunked, chunked"}, "0\r\n\r\n" + smuggled, []string{"501"}},
		{"chunks in two headers", []string{"Transfer-Encoding: chunked", "Transfer-Encoding: identity"}, "0\r\n\r\n" + smuggled, []string{"501"}},
		{"a name with a space", []string{"Transfer-Encoding : chunked"}, "0\r\n\r\n" + smuggled, []string{"400"}},
		{"a length with a sign", []string{"Content-Length: +2"}, "{}" + smuggled, []string{"400"}},
		{"a length in hexadecimal", []string{"Content-Length: 0x2"}, "{}" + smuggled, []string{"400"}},
		{"two lengths in one", []string{"Content-Length: 2, 3"}, "{}" + smuggled, []string{"400"}},
		{"a huge length", []string{"Content-Length: 99999999999999999999"}, "{}", []string{"400"}},
		{"a chunk without a size", []string{"Transfer-Encoding: chunked"}, "\r\n{}\r\n0\r\n\r\n", []string{"400"}},
		{"a chunk of 2^64", []string{"Transfer-Encoding: chunked"}, "10000000000000002\r\n{}\r\n0\r\n\r\n" + smuggled, []string{"400"}},
		{"a chunk longer than said", []string{"Transfer-Encoding: chunked"}, "1\r\n{}\r\n0\r\n\r\n" + smuggled, []string{"400"}},
		{"a chunk with a long extension", []string{"Transfer-Encoding: chunked"}, "2;" + strings.Repeat("a", 64<<10) + "\r\n{}\r\n0\r\n\r\n", []string{"400"}},
		{"an upgrade", []string{"Content-Length: 2", "Connection: Upgrade", "Upgrade: websocket"}, "{}", []string{"200"}}, // ignored
		{"an expectation", []string{"Content-Length: 2", "Expect: 200-maybe", "Connection: close"}, "{}", []string{"417"}},
		{"a foreign host", []string{"Content-Length: 2", "Host: evil.example"}, "{}", []string{"400"}},
		{"an origin", []string{"Content-Length: 2", "Origin: null", "Connection: close"}, "{}", []string{"403"}},
		{"too much of a header", []string{"X-A: " + strings.Repeat("b", 64<<10)}, "", []string{"431"}},
		{"gzip", []string{"Content-Length: 20", "Content-Encoding: gzip", "Connection: close"}, strings.Repeat("\x1f", 20), []string{"415"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			siege(t, func(c *server.Config) { c.Limits.ConnectionIdle = 200 * time.Millisecond }, func(t *testing.T, h *house) {
				conn, err := net.Dial("tcp", h.web)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(patience))
				_, _ = io.WriteString(conn, h.requestHead(h.host, c.head...)+c.body)
				answer, err := io.ReadAll(conn)
				if e, ok := err.(net.Error); ok && e.Timeout() {
					t.Errorf("the connection stays open: %q", answer)
				}
				var got []string
				for line := range bytes.Lines(answer) {
					if rest, ok := strings.CutPrefix(string(line), "HTTP/1.1 "); ok {
						got = append(got, rest[:3])
					}
				}
				if cut := err != nil && len(answer) == 0; !cut && !slices.Equal(got, c.want) { // cut: a reset overtook the answer
					t.Errorf("got %q, want %q: %.300q", got, c.want, answer)
				}
			})
		})
	}
}

// Who sends slowly, or many at once, keeps nobody else waiting.
func TestHTTPPipelines(t *testing.T) {
	siege(t, nil, func(t *testing.T, h *house) {
		_, in := rawHTTP(t, h.web, strings.Repeat(h.requestHead(h.host, "Content-Length: 2")+"{}", 100))
		for range 100 {
			if r := readReply(t, in); r.status != 200 {
				t.Fatalf("got %d %s", r.status, r.body)
			}
		}
		_, in = rawHTTP(t, h.web, h.requestHead(h.host, "Content-Length: 2", "Expect: 100-continue"))
		if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
			t.Errorf("got %q, %v", line, err)
		}
		_, in = rawHTTP(t, h.web, h.requestHead("nobody", "Content-Length: 2", "Expect: 100-continue"))
		if r := readReply(t, in); r.status != 401 { // without asking for the body
			t.Errorf("got %d", r.status)
		}
	})
}
