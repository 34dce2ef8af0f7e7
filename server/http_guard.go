package server

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// foreign says why a request comes from elsewhere than a client on this
// machine that knows where it is asking, or nil.
//
// A web page that the user visits can make the browser send requests to the
// loopback interface, and can, once its own name resolves to 127.0.0.1 (DNS
// rebinding), even read the answers. A browser then names the page's host in
// Host, or the page in Origin. No client of ours sends an Origin, so any is
// refused, and no answer ever allows one.
func foreign(r *http.Request) *refusal {
	if _, sent := r.Header["Origin"]; sent {
		return refuse(ReasonOriginDenied, "requests with an Origin header are refused: web pages have no business here")
	}
	if !ownHost(r) {
		return refuse(ReasonHostDenied, "the Host header names another server: use the address that the server printed")
	}
	return nil
}

// ownHost reports whether the Host header (RFC 9112, section 3.2) is this
// listener's own: the address that the connection was made to, or where that
// is this machine localhost or [::1], with its port or none. With TLS it may
// also be the name that the client checked the certificate for.
func ownHost(r *http.Request) bool {
	host, port := r.Host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i+1:]
		if port == "" {
			return false
		}
	}
	if r.TLS != nil && r.TLS.ServerName != "" && strings.EqualFold(host, r.TLS.ServerName) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok { // a local socket: browsers cannot reach it
		return strings.EqualFold(host, "localhost")
	}
	if port != "" && port != strconv.Itoa(local.Port) {
		return false
	}
	own := local.AddrPort().Addr().Unmap()
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
		if !strings.Contains(host, ":") {
			return false
		}
	}
	switch strings.ToLower(host) {
	case "localhost", "::1":
		return own.IsLoopback()
	}
	named, err := netip.ParseAddr(host)
	return err == nil && named.Zone() == "" && named == own
}
