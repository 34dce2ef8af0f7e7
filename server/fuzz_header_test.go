package server_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/writ-pdp/writ/server"
)

func FuzzBearer(f *testing.F) {
	for _, seed := range []string{"Bearer abc", "bearer abc", "Basic abc", "Bearer", "Bearer ", "Bearer  a", "Bearer a b", "", "\x00", "DPoP abc"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token := server.Bearer([]string{header})
		if token != "" && (len(header) != len("Bearer ")+len(token) || !strings.EqualFold(header[:7], "Bearer ") || header[7:] != token) {
			t.Errorf("%q has the token %q", header, token)
		}
		if two := server.Bearer([]string{header, header}); two != "" {
			t.Errorf("two headers have the token %q", two)
		}
	})
}

// A Host that is taken names this listener and nothing else.
func FuzzOwnHost(f *testing.F) {
	for _, seed := range []string{"localhost", "localhost:80", "127.0.0.1:80", "[::1]:80", "[::1]", "evil.example", "127.0.0.1.nip.io:80", "localhost:", "", "[", ":80", "127.1",
		"127.0.0.1:080", "[::ffff:127.0.0.1]:80", "localhost.:80", "::1"} {
		f.Add(seed)
	}
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	f.Fuzz(func(t *testing.T, host string) {
		r := (&http.Request{Host: host, Header: http.Header{}}).WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local))
		if !server.OwnHost(r) {
			return
		}
		name := strings.TrimSuffix(strings.ToLower(host), ":80")
		if at, err := netip.ParseAddr(strings.Trim(name, "[]")); name != "localhost" && (err != nil || at != netip.IPv6Loopback() && at != netip.AddrFrom4([4]byte{127, 0, 0, 1})) {
			t.Errorf("%q is taken for this listener", host)
		}
	})
}

func FuzzConnectTimeout(f *testing.F) {
	for _, seed := range []string{"0", "1", "9999999999", "10000000000", "-1", "+1", "1.5", "", " 1", "0x1", "١"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		timeout, timed, ok := server.ConnectTimeout([]string{text})
		if !ok {
			return
		}
		if !timed || timeout < 0 || timeout > 9999999999*time.Millisecond || strings.Trim(text, "0123456789") != "" || text == "" {
			t.Errorf("%q is %v", text, timeout)
		}
	})
}

func FuzzIsJSON(f *testing.F) {
	for _, seed := range []string{"application/json", "application/json; charset=utf-8", "application/json;charset=latin1", "text/json", "", ";", "application/json; a=b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, kind string) {
		if server.IsJSON(http.Header{"Content-Type": {kind}}) && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(kind)), "application/json") {
			t.Errorf("%q is JSON", kind)
		}
	})
}

// However a connection's bytes are cut, the same frames are counted.
func FuzzCountFrames(f *testing.F) {
	f.Add([]byte(http2.ClientPreface), 3)
	f.Add(append([]byte(http2.ClientPreface), aPing...), 30)
	f.Add(append([]byte(http2.ClientPreface), frame(http2.FrameData, 0, 1, make([]byte, 2000)...)...), 26)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		at = max(0, min(at, len(data)))
		if whole, parts := server.CountFrames(data), server.CountFrames(data[:at], data[at:]); whole != parts || whole > len(data)/9 {
			t.Errorf("%d frames, and %d in parts", whole, parts)
		}
	})
}
