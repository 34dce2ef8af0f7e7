package server_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// begin begins a call on stream 1 that waits for its message.
func begin(p *peer, h *house) { p.headers(1, false, call(explainMethod, h.operator)...) }

func number32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// Frames that HTTP/2 does not allow end their stream or the connection
// (RFC 9113, sections 5.4 and 6), and never become a call. Where grpc-go is
// more patient than the RFC wants, it says so here, and a call that follows on
// the connection is answered.
func TestHostileHTTP2(t *testing.T) {
	wantNoLeak(t)
	settings := frame(http2.FrameSettings, 0, 0)
	preface := []byte(http2.ClientPreface)
	const (
		ignored  = "ignored" // and nothing else came of it
		protocol = "goaway PROTOCOL_ERROR"
	)
	for _, c := range []struct {
		name   string
		raw    []byte                  // sent instead of a preface
		attack func(p *peer, h *house) // otherwise, after it and the settings
		want   []string                // what becomes of stream 1: any of them; nil: the connection ends
	}{
		{name: "HTTP/1.1", raw: []byte("POST " + explainMethod + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/grpc\r\n\r\n")},
		{name: "TLS", raw: append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, bytes.Repeat([]byte{7}, 500)...)},
		{name: "a preface in small letters", raw: append(bytes.ToLower(preface), settings...)},
		{name: "half a preface, then zeros", raw: append(preface[:12:12], make([]byte, 100)...)},
		{name: "no settings first", raw: append(slices.Clone(preface), frame(http2.FramePing, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8)...)},
		{name: "settings of five bytes", raw: append(slices.Clone(preface), frame(http2.FrameSettings, 0, 0, 0, 1, 0, 0, 0)...)},

		{name: "an even stream", attack: func(p *peer, h *house) { p.headers(2, true, call(explainMethod, h.operator)...) }},
		{name: "stream 0", attack: func(p *peer, h *house) {
			p.bytes(frame(http2.FrameHeaders, 5, 0, p.fields(call(explainMethod, h.operator)...)...))
		}},
		{name: "streams that go down", attack: func(p *peer, h *house) {
			p.headers(3, false, call(explainMethod, h.operator)...)
			p.headers(1, true, call(explainMethod, h.operator)...)
		}},
		{name: "the same stream twice", attack: func(p *peer, h *house) { begin(p, h); begin(p, h) }, want: []string{protocol, "status 4"}},
		{name: "data on an idle stream", attack: func(p *peer, h *house) { p.data(1, true, message(0, 0)) }, want: []string{ignored}},
		{name: "data on stream 0", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FrameData, 1, 0, message(0, 0)...)) }},
		{name: "data after the end", attack: func(p *peer, h *house) {
			begin(p, h)
			p.data(1, true, message(0, 100, 1))
			p.data(1, true, make([]byte, 99))
		}, want: []string{"reset STREAM_CLOSED", "status 13"}},
		{name: "a reset of an idle stream", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FrameRSTStream, 0, 1, number32(8)...)) }, want: []string{ignored}},
		{name: "a reset of stream 0", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FrameRSTStream, 0, 0, number32(8)...)) }},
		{name: "a reset of three bytes", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FrameRSTStream, 0, 1, 0, 0, 8)) }},
		{name: "a frame of 16 MiB", attack: func(p *peer, _ *house) { p.bytes([]byte{0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1}, make([]byte, 100)) }},
		{name: "a frame of one byte too many", attack: func(p *peer, h *house) { begin(p, h); p.bytes(frame(http2.FrameData, 0, 1, make([]byte, 16<<10+1)...)) }},
		{name: "padding longer than the frame", attack: func(p *peer, h *house) {
			begin(p, h)
			p.bytes(frame(http2.FrameData, http2.FlagDataPadded, 1, 200, 1, 2))
		}},
		{name: "headers padded beyond their end", attack: func(p *peer, _ *house) {
			p.bytes(frame(http2.FrameHeaders, http2.FlagHeadersPadded|http2.FlagHeadersEndHeaders, 1, 200, 1, 2))
		},
			want: []string{protocol, "reset PROTOCOL_ERROR"}},
		{name: "only padding", attack: func(p *peer, h *house) {
			begin(p, h)
			for range 200 { // their padding is given back to the window, or the last ones would not pass
				p.bytes(frame(http2.FrameData, http2.FlagDataPadded, 1, append([]byte{255}, make([]byte, 255)...)...))
			}
			p.data(1, true, nil)
		}, want: []string{"status 13"}},
		{name: "no window left for what is sent", attack: func(p *peer, h *house) {
			begin(p, h)
			p.data(1, false, message(0, 100_000))
			for range 80 {
				p.data(1, false, nil)
			}
			p.headers(3, false, call("/none", h.operator)...)
			p.bytes(bytes.Repeat(frame(http2.FrameData, 0, 1, make([]byte, 16<<10)...), 100))
		}, want: []string{"reset FLOW_CONTROL_ERROR", "reset CANCEL", "status 13"}},
		{name: "a window update of zero", attack: func(p *peer, h *house) { begin(p, h); p.bytes(frame(http2.FrameWindowUpdate, 0, 1, number32(0)...)) },
			want: []string{"reset PROTOCOL_ERROR"}},
		{name: "a window update of zero for all", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FrameWindowUpdate, 0, 0, number32(0)...)) }},
		{name: "a window update of three bytes", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FrameWindowUpdate, 0, 0, 0, 0, 1)) }},
		{name: "a window over 2 GiB", attack: func(p *peer, h *house) {
			begin(p, h)
			p.bytes(bytes.Repeat(frame(http2.FrameWindowUpdate, 0, 1, number32(1<<31-1)...), 10), bytes.Repeat(frame(http2.FrameWindowUpdate, 0, 0, number32(1<<31-1)...), 10))
			p.data(1, true, nil)
		}, want: []string{"status 13", "reset FLOW_CONTROL_ERROR", "goaway FLOW_CONTROL_ERROR"}},
		{name: "a first window over 2 GiB", attack: func(p *peer, _ *house) {
			p.bytes(frame(http2.FrameSettings, 0, 0, append([]byte{0, 4}, number32(1<<31)...)...))
		}},
		{name: "frames over 16 MiB announced", attack: func(p *peer, _ *house) {
			p.bytes(frame(http2.FrameSettings, 0, 0, append([]byte{0, 5}, number32(1<<24)...)...))
		}, want: []string{ignored, protocol}},
		{name: "push neither on nor off", attack: func(p *peer, _ *house) {
			p.bytes(frame(http2.FrameSettings, 0, 0, append([]byte{0, 2}, number32(2)...)...))
		},
			want: []string{ignored, protocol}},
		{name: "settings of a stream", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FrameSettings, 0, 1)) }},
		{name: "an answer to settings with settings", attack: func(p *peer, _ *house) {
			p.bytes(frame(http2.FrameSettings, http2.FlagSettingsAck, 0, 0, 1, 0, 0, 0, 0))
		}},
		{name: "a ping of a stream", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FramePing, 0, 1, make([]byte, 8)...)) }},
		{name: "a ping of seven bytes", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FramePing, 0, 0, make([]byte, 7)...)) }},
		{name: "a push", attack: func(p *peer, h *house) {
			begin(p, h)
			p.bytes(frame(http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, 1, append(number32(2), p.fields(call(explainMethod, h.operator)...)...)...))
			p.data(1, true, nil)
		}, want: []string{"status 13", protocol}},
		{name: "a priority of stream 0", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FramePriority, 0, 0, 0, 0, 0, 1, 1)) }},
		{name: "a priority of four bytes", attack: func(p *peer, _ *house) { p.bytes(frame(http2.FramePriority, 0, 1, 0, 0, 0, 1)) }},
		{name: "an unknown frame", attack: func(p *peer, _ *house) { p.bytes(frame(0xbe, 0xff, 1, 1, 2, 3)) }, want: []string{ignored}},
		{name: "a continuation of nothing", attack: func(p *peer, h *house) {
			p.bytes(frame(http2.FrameContinuation, 4, 1, p.fields(call(explainMethod, h.operator)...)...))
		}},
		{name: "something between a header's parts", attack: func(p *peer, h *house) {
			p.bytes(frame(http2.FrameHeaders, 1, 1, p.fields(call(explainMethod, h.operator)...)...), frame(http2.FramePing, 0, 0, make([]byte, 8)...))
		}},
		{name: "a continuation of another stream", attack: func(p *peer, h *house) {
			p.bytes(frame(http2.FrameHeaders, 1, 1, p.fields(call(explainMethod, h.operator)...)...), frame(http2.FrameContinuation, 4, 3))
		}},
		{name: "a goodbye, then a call", attack: func(p *peer, h *house) {
			p.bytes(frame(http2.FrameGoAway, 0, 0, append(number32(0), number32(0)...)...))
			p.headers(1, true, call(explainMethod, h.operator)...)
		}, want: []string{"status 13"}},
		{name: "trailers without an end", attack: func(p *peer, h *house) { begin(p, h); p.headers(1, false, "x-a", "b") }, want: []string{protocol, "status 4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			siege(t, nil, func(t *testing.T, h *house) {
				var p *peer
				if c.raw != nil {
					p = reach(t, h.address)
					p.bytes(c.raw)
					go p.listen()
				} else {
					p = dialPeer(t, h.address)
					c.attack(p, h)
				}
				if slices.Contains(c.want, ignored) { // so the connection goes on
					p.headers(5, true, call("/none/None", h.operator)...)
					if got := p.ending(5); got != "status 12" && !slices.Contains(c.want, got) {
						t.Errorf("afterwards, got %q", got)
					}
				} else if got := p.ending(1); c.want == nil && got != "closed" && !strings.HasPrefix(got, "goaway") || c.want != nil && !slices.Contains(c.want, got) {
					t.Errorf("got %q, want %q", got, c.want)
				}
				if n := h.asked(); n != 0 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}
