package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// contact remembers why no member could be connected to. The client tries
// again until a request's time has run out, and then tells of the time alone.
type contact struct {
	failed atomic.Pointer[string] // nil: the last attempt that has ended reached a member
}

// attempt is called for each attempt of the client.
func (c *contact) attempt(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	if _, why, ok := strings.Cut(status.Convert(err).Message(), "latest balancer error: "); ok {
		if text, err := strconv.Unquote(strings.TrimPrefix(why, "connection error: desc = ")); err == nil {
			why = strings.TrimPrefix(text, "transport: ")
		}
		c.failed.Store(&why)
	} else if ctx.Err() == nil {
		c.failed.Store(nil)
	}
	return err
}

// unreached is the error of a request with which no member was reached.
type unreached struct {
	error        // of the client
	why   string // what is wrong, where, and what to do
}

func (u unreached) Unwrap() error { return u.error }

// because adds to the error of a request that is lost why no member could be
// connected to, if that is so.
func (c *contact) because(err error, cfg *Config) error {
	why := c.failed.Load()
	if err == nil || why == nil || !lost(err) {
		return err
	}
	text := fmt.Sprintf("no member of %s can be connected to: %s", strings.Join(cfg.Endpoints, ", "), *why)
	if do := cure(*why, cfg.TLS != nil); do != "" {
		text += ": " + do
	}
	return unreached{err, text}
}

// cures says what to do about connections that fail. How they do, gRPC tells as
// a text alone; the first that is in it counts.
var cures = []struct{ text, do string }{
	{"x509: certificate signed by unknown authority", "trust the CA that the members' certificates are from: --etcd-ca names its file"},
	{"x509: certificate has expired or is not yet valid", "renew the member's certificate, or mend the clock that is wrong"},
	{"tls: failed to verify certificate: x509: ", "write the member's address as its certificate has it, or have a certificate made for this one"},
	{"protocol version not supported", "Writ speaks TLS 1.3 with etcd, as at its own doors: let the member speak it (--tls-max-version)"},
	{"remote error: tls: ", refused},
	{"does not look like a TLS handshake", noTLS},
	{"handshake failed: EOF", noTLS},
	{"handshake failed: read ", noTLS}, // a member that refuses a certificate does so after it
	{"handshake failed: write ", noTLS},
	{"connection refused", "start etcd, or correct the address: it is one of its --listen-client-urls"},
}

const (
	refused = "the member wants another client certificate (--etcd-cert, --etcd-key): one that is valid now, and of the CA that its --trusted-ca-file names"
	noTLS   = "the member speaks no TLS: give it a certificate, or write http:// if it is on this machine"
	wantTLS = "if the member speaks TLS, write https://, and name its CA and a client certificate (--etcd-ca, --etcd-cert, --etcd-key)"
)

// cure is empty where nothing is known to do.
func cure(why string, secure bool) string {
	for _, c := range cures {
		if strings.Contains(why, c.text) {
			return c.do
		}
	}
	// The member has ended the connection, and what it said of that may be lost.
	switch over := strings.Contains(why, "server preface") || strings.Contains(why, "broken pipe") || strings.Contains(why, "reset by peer"); {
	case over && secure:
		return refused
	case over:
		return wantTLS
	}
	return ""
}
