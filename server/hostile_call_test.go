package server_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/writ-pdp/writ/server"
)

// Headers and messages that are no call of a method (the gRPC protocol over
// HTTP/2, gRFC A41) reach no method.
func TestHostileCalls(t *testing.T) {
	wantNoLeak(t)
	const (
		unimplemented   = "status 12"
		internal        = "status 13"
		invalid         = "status 3"
		late            = "status 4"
		exhausted       = "status 8"
		unauthenticated = "status 16"
		protocol        = "reset PROTOCOL_ERROR"
	)
	long := strings.Repeat("x", 15<<10)
	for _, c := range []struct {
		name    string
		path    string   // explainMethod if it is empty
		instead []string // of the header
		data    []byte   // an empty message if it is nil
		want    []string
	}{
		// grpc-go once routed a path without its slash to the method, while the
		// policies of interceptors saw another name than they knew.
		{name: "no slash before the path", path: explainMethod[1:], want: []string{unimplemented}},
		{name: "no slash, a method that lives on", path: "grpc.health.v1.Health/Watch", want: []string{unimplemented}},
		{name: "two slashes before the path", path: "/" + explainMethod, want: []string{unimplemented}},
		{name: "a path within a path", path: "/x" + explainMethod, want: []string{unimplemented}},
		{name: "a slash after the path", path: explainMethod + "/", want: []string{unimplemented}},
		{name: "a path in small letters", path: strings.ToLower(explainMethod), want: []string{unimplemented}},
		{name: "an escaped path", path: strings.ReplaceAll(explainMethod, "Explain", "%45xplain"), want: []string{unimplemented}},
		{name: "a query", path: explainMethod + "?a=b", want: []string{unimplemented}},
		{name: "an empty path", instead: []string{":path", ""}, want: []string{unimplemented}},
		{name: "one slash", path: "/", want: []string{unimplemented}},
		{name: "dots", path: "/writ.v1.DecisionService/../writ.v1.DecisionService/Explain", want: []string{unimplemented}},
		{name: "no path", instead: []string{":path", "-"}, want: []string{unimplemented, protocol}},
		{name: "two paths", instead: []string{":path", explainMethod, ":path", explainMethod}, want: []string{protocol}},
		{name: "two methods", instead: []string{":method", "POST", ":method", "POST"}, want: []string{protocol}},
		{name: "an unknown pseudo-header", instead: []string{":pat", explainMethod}, want: []string{protocol}},
		{name: "GET", instead: []string{":method", "GET"}, want: []string{internal}},
		{name: "no method", instead: []string{":method", "-"}, want: []string{internal, protocol}},
		{name: "no authority", instead: []string{":authority", "-"}, want: []string{internal}},
		{name: "two hosts", instead: []string{"host", "a", "host", "b"}, want: []string{internal}},
		{name: "a connection header", instead: []string{"connection", "close"}, want: []string{protocol}},
		{name: "a name with capitals", instead: []string{"X-A", "b"}, want: []string{protocol}},
		{name: "a line break in a value", instead: []string{"x-a", "b\r\nx-c: d"}, want: []string{protocol}},
		{name: "HTML", instead: []string{"content-type", "text/html"}, want: []string{invalid}},
		{name: "no content type", instead: []string{"content-type", "-"}, want: []string{invalid}},
		{name: "gRPC-Web", instead: []string{"content-type", "application/grpc-web"}, want: []string{invalid}},
		{name: "a time that is none", instead: []string{"grpc-timeout", "soon"}, want: []string{internal}},
		{name: "a time of nine digits", instead: []string{"grpc-timeout", "123456789S"}, want: []string{internal}},
		{name: "a time before now", instead: []string{"grpc-timeout", "-1S"}, want: []string{internal}},
		{name: "no time at all", instead: []string{"grpc-timeout", "0n"}, want: []string{late}},
		{name: "binary metadata that is none", instead: []string{"x-bin", "***"}, want: []string{internal}},
		{name: "gzip", instead: []string{"grpc-encoding", "gzip"}, data: message(1, 20, bytes.Repeat([]byte{0x1f}, 20)...), want: []string{unimplemented}},
		{name: "a compression without a name", data: message(1, 1, 0), want: []string{internal}},
		{name: "two secrets", instead: []string{"authorization", "Bearer x", "authorization", "Bearer y"}, want: []string{unauthenticated}},
		{name: "a long secret", instead: []string{"authorization", "Bearer " + long}, want: []string{unauthenticated}},
		{name: "no secret", instead: []string{"authorization", "-"}, want: []string{unauthenticated}},
		{name: "4 GiB announced", data: message(0, 1<<32-1, 1), want: []string{exhausted}},
		{name: "more than was announced", data: message(0, 1, 10, 10, 10), want: []string{internal}},
		{name: "less than was announced", data: message(0, 9, 10), want: []string{internal}},
		{name: "a thousand messages", data: bytes.Repeat(message(0, 0), 1000), want: []string{internal}},
		{name: "a field that is not declared", data: message(0, 2, 0x78, 1), want: []string{invalid}},
	} {
		t.Run(c.name, func(t *testing.T) {
			siege(t, nil, func(t *testing.T, h *house) {
				path := c.path
				if path == "" {
					path = explainMethod
				}
				data := c.data
				if data == nil {
					data = message(0, 0)
				}
				p := dialPeer(t, h.address)
				p.headers(1, false, call(path, h.operator, c.instead...)...)
				p.data(1, true, data)
				if got := p.ending(1); !slices.Contains(c.want, got) {
					t.Errorf("got %q, want %q", got, c.want)
				}
				if n := h.asked(); n != 0 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

// Whatever a header says of the server's name, of trailers or of a far
// deadline: the call is one, and has the server's deadline.
func TestOddCallsAreCalls(t *testing.T) {
	for name, instead := range map[string][]string{
		"a foreign authority": {":authority", "evil.example"},
		"no te":               {"te", "-"},
		"a far deadline":      {"grpc-timeout", "99999999H"},
		"identity":            {"grpc-encoding", "identity"},
	} {
		t.Run(name, func(t *testing.T) {
			siege(t, nil, func(t *testing.T, h *house) {
				p := dialPeer(t, h.address)
				p.headers(1, false, call(decideMethod, h.host, instead...)...)
				p.data(1, true, message(0, 0))
				if got := p.ending(1); got != "status 0" {
					t.Errorf("got %q", got)
				}
				for _, q := range h.decider.questions() {
					if q.deadline <= 0 || q.deadline > 5*time.Second {
						t.Errorf("asked with %v left", q.deadline)
					}
				}
			})
		})
	}
}

// Floods in each of HTTP/2's ways keep nobody else waiting, and nothing of
// them is kept.
func TestFloods(t *testing.T) {
	wantNoLeak(t)
	begun := func(p *peer, h *house, s uint32) []byte {
		return frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, s, p.fields(call(explainMethod, h.operator)...)...)
	}
	streams := func(p *peer, h *house, then func(s uint32) []byte) []byte {
		var out []byte
		for s := uint32(1); s < 4000; s += 2 {
			out = append(append(out, begun(p, h, s)...), then(s)...)
		}
		return out
	}
	endless := func(p *peer, h *house, frames ...[]byte) []byte {
		return append(begun(p, h, 1), bytes.Repeat(bytes.Join(frames, nil), 20_000)...)
	}
	for _, c := range []struct {
		name  string
		deaf  bool
		set   []http2.Setting
		flood func(p *peer, h *house) []byte
	}{
		{name: "rapid resets", flood: func(p *peer, h *house) []byte { // CVE-2023-44487
			return streams(p, h, func(s uint32) []byte { return frame(http2.FrameRSTStream, 0, s, number32(8)...) })
		}},
		{name: "resets that the server is made to send", flood: func(p *peer, h *house) []byte { // CVE-2025-8671
			return streams(p, h, func(s uint32) []byte { return frame(http2.FrameWindowUpdate, 0, s, number32(0)...) })
		}},
		{name: "calls without an end", flood: func(p *peer, h *house) []byte { return streams(p, h, func(uint32) []byte { return nil }) }},
		{name: "calls of nobody", flood: func(p *peer, h *house) []byte {
			return bytes.ReplaceAll(streams(p, h, func(uint32) []byte { return nil }), []byte(h.operator), []byte(strings.Repeat("x", len(h.operator))))
		}},
		{name: "answers without a window", set: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, flood: func(p *peer, h *house) []byte {
			return streams(p, h, func(s uint32) []byte { return frame(http2.FrameData, 1, s, message(0, 0)...) })
		}},
		{name: "answers that are not read", deaf: true, flood: func(p *peer, h *house) []byte {
			return streams(p, h, func(s uint32) []byte { return frame(http2.FrameData, 1, s, message(0, 0)...) })
		}},
		{name: "settings", flood: func(p *peer, h *house) []byte { return endless(p, h, frame(http2.FrameSettings, 0, 0)) }},
		{name: "settings whose answers are not read", deaf: true, flood: func(p *peer, h *house) []byte { return endless(p, h, frame(http2.FrameSettings, 0, 0)) }},
		{name: "pings", flood: func(p *peer, h *house) []byte { return endless(p, h, aPing) }},
		{name: "priorities", flood: func(p *peer, h *house) []byte { return endless(p, h, frame(http2.FramePriority, 0, 1, 0, 0, 0, 3, 1)) }},
		{name: "window updates", flood: func(p *peer, h *house) []byte {
			return endless(p, h, frame(http2.FrameWindowUpdate, 0, 0, number32(1)...))
		}},
		{name: "empty data", flood: func(p *peer, h *house) []byte { return endless(p, h, frame(http2.FrameData, 0, 1)) }},
		{name: "data byte by byte", flood: func(p *peer, h *house) []byte {
			return append(append(begun(p, h, 1), frame(http2.FrameData, 0, 1, message(0, 500<<10)...)...), bytes.Repeat(frame(http2.FrameData, 0, 1, 7), 20_000)...)
		}},
		{name: "unknown frames", flood: func(p *peer, h *house) []byte { return endless(p, h, frame(0xee, 0, 1)) }},
		{name: "headers that go on", flood: func(p *peer, h *house) []byte { // CVE-2023-45288
			head := frame(http2.FrameHeaders, 0, 1, p.fields(call(explainMethod, h.operator)...)...)
			return append(head, bytes.Repeat(frame(http2.FrameContinuation, 0, 1, bytes.Repeat([]byte{0, 1, 'a', 1, 'b'}, 3000)...), 100)...)
		}},
		{name: "headers that go on with nothing", flood: func(p *peer, h *house) []byte {
			return append(frame(http2.FrameHeaders, 0, 1, p.fields(call(explainMethod, h.operator)...)...), bytes.Repeat(frame(http2.FrameContinuation, 0, 1), 20_000)...)
		}},
		{name: "a header repeated by one byte each", flood: func(p *peer, h *house) []byte { // RFC 7541, section 6.1
			block := append(p.fields("x-much", strings.Repeat("x", 3900)), bytes.Repeat([]byte{0x80 | 62}, 12<<10)...)
			var out []byte
			for s := uint32(1); s < 200; s += 2 {
				out = append(out, frame(http2.FrameHeaders, 5, s, block...)...)
			}
			return out
		}},
		{name: "a table that changes its size", flood: func(p *peer, h *house) []byte { // RFC 7541, section 6.3
			return frame(http2.FrameHeaders, 5, 1, bytes.Repeat([]byte{0x20, 0x3f, 0xe1, 0x1f}, 4000)...)
		}},
		{name: "a table larger than allowed", flood: func(p *peer, h *house) []byte {
			return frame(http2.FrameHeaders, 5, 1, 0x3f, 0xff, 0xff, 0xff, 0x7f)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			siege(t, func(c *server.Config) { c.Limits.Deadline = 200 * time.Millisecond }, func(t *testing.T, h *house) {
				before := heapInUse()
				var p *peer
				if p = dialDeaf(t, h.address, c.set...); !c.deaf {
					go p.listen()
				}
				p.conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // who is not read any more has lost
				p.bytes(c.flood(p, h))
				h.alive(t)
				if now := heapInUse(); now > before+16<<20 {
					t.Errorf("the heap has %d KiB during it, and had %d", now>>10, before>>10)
				}
				p.conn.Close()
			})
		})
	}
}
