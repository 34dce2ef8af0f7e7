package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// What can't be served with is an error at the start that says what to do.
func TestOpenTLS(t *testing.T) {
	ca := newAuthority(t, "root", nil)
	pair := ca.server(t)
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	root := block("CERTIFICATE", ca.certificate.Raw)
	for name, c := range map[string]struct {
		change func(t *testing.T, f tlsFiles) server.TLSConfig
		want   string // in the error; empty: none
	}{
		"as it should be": {func(_ *testing.T, f tlsFiles) server.TLSConfig { return f.config() }, ""},
		"no key": {func(_ *testing.T, f tlsFiles) server.TLSConfig {
			return server.TLSConfig{CertFile: f.cert}
		}, "name both files"},
		"no such file": {func(_ *testing.T, f tlsFiles) server.TLSConfig {
			return server.TLSConfig{CertFile: f.cert, KeyFile: filepath.Join(f.dir, "none")}
		}, "no such file"},
		"a directory": {func(_ *testing.T, f tlsFiles) server.TLSConfig {
			return server.TLSConfig{CertFile: f.cert, KeyFile: f.dir}
		}, "no regular file"},
		"another's key": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			cert, _ := os.ReadFile(f.cert)
			f.putPair(t, ca.server(t))
			f.put(t, f.cert, cert)
			return f.config()
		}, "are no certificate with its key"},
		"expired": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			f.putPair(t, ca.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage, c.NotAfter = nil, time.Now().Add(-time.Minute) }))
			return f.config()
		}, "renew it"},
		"not yet valid": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			f.putPair(t, ca.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage, c.NotBefore = nil, time.Now().Add(time.Minute) }))
			return f.config()
		}, "is not valid before"},
		"a client's": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			f.putPair(t, ca.client(t, "spiffe://acme.example/x"))
			return f.config()
		}, "lacks serverAuth"},
		"a key that others may write": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			chmod(t, f.key, 0o620)
			return f.config()
		}, "chmod 600 it"},
		"a key that others may read": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			chmod(t, f.key, 0o640)
			return f.config()
		}, ""},
		"a trust bundle that everybody may write": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			chmod(t, f.ca, 0o666)
			return f.config()
		}, "chmod o-w it"},
		"an empty trust bundle": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			f.put(t, f.ca, nil)
			return f.config()
		}, "holds no certificate"},
		"a trust bundle that is cut off": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			f.put(t, f.ca, append(root, root[:len(root)/2]...))
			return f.config()
		}, "cut off"},
		"a key in the trust bundle": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			f.put(t, f.ca, append(block("PRIVATE KEY", []byte("secret")), root...))
			return f.config()
		}, "holds a PRIVATE KEY"},
		"a client's certificate in the trust bundle": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			f.put(t, f.ca, append(root, block("CERTIFICATE", ca.client(t, "spiffe://acme.example/x").Certificate[0])...))
			return f.config()
		}, "certificate 2 of"},
		"no certificate in the trust bundle": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			f.put(t, f.ca, block("CERTIFICATE", []byte("x")))
			return f.config()
		}, "certificate 1 of"},
		"a file without an end": {func(t *testing.T, f tlsFiles) server.TLSConfig {
			f.put(t, f.ca, make([]byte, 2<<20))
			return f.config()
		}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			var log buffer
			cfg := c.change(t, newTLSFiles(t, pair, ca))
			cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
			_, err := server.OpenTLS(cfg)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if warned := strings.Contains(log.String(), "others may read the key file"); warned != (name == "a key that others may read") {
				t.Errorf("the log is %q", log.String())
			}
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// The last good files serve on while the newest have a fault. It is told once,
// and not at all where the files fit again a moment later.
func TestFaultyFilesKeepTheLast(t *testing.T) {
	ca, next := newAuthority(t, "root", nil), newAuthority(t, "next", nil)
	files := newTLSFiles(t, ca.server(t), ca)
	var log buffer
	cfg := files.config()
	cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
	trusted, err := server.OpenTLS(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pairBefore, caBefore := trusted.InForce()
	now := time.Now()
	at := func(after time.Duration) {
		t.Helper()
		trusted.LookAt(now.Add(after))
	}
	told := func(want ...string) {
		t.Helper()
		var got []string
		for _, trouble := range trusted.Troubles() {
			if trouble.Part != "tls" || trouble.Since.IsZero() {
				t.Errorf("the trouble is %+v", trouble)
			}
			got = append(got, trouble.Message)
		}
		if len(got) != len(want) {
			t.Fatalf("the troubles are %q, want %d", got, len(want))
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("the trouble is %q, want %q", got[i], want[i])
			}
		}
		if n := strings.Count(log.String(), "have a fault"); n != len(want) {
			t.Errorf("told %d times in the log, want %d: %s", n, len(want), log.String())
		}
	}
	at(0)
	told()

	// A new certificate whose key comes a moment later.
	key, _ := os.ReadFile(files.key)
	files.putPair(t, next.server(t))
	newKey, _ := os.ReadFile(files.key)
	files.put(t, files.key, key)
	at(time.Second)
	told()
	files.put(t, files.key, newKey)
	at(time.Second + 100*time.Millisecond)
	told()
	pairNow, caNow := trusted.InForce()
	if pairNow == pairBefore || caNow != caBefore {
		t.Error("the new pair is not in force, or the trust bundle has changed")
	}

	// A key that never fits, and a trust bundle that is replaced beside it.
	files.put(t, files.key, key)
	files.putCAs(t, next)
	for i := range 5 {
		at(time.Duration(2+i) * time.Second)
	}
	told("the server's certificate and key can't be read again")
	if pair, ca := trusted.InForce(); pair != pairNow || ca == caNow {
		t.Error("the pair has changed, or the trust bundle has not")
	}

	// Both, and then neither.
	if err := os.Remove(files.ca); err != nil {
		t.Fatal(err)
	}
	at(10 * time.Second)
	at(11 * time.Second)
	told("the server's certificate and key can't be read again", "the CAs of client certificates can't be read again")
	files.put(t, files.key, newKey)
	files.putCAs(t, next)
	at(12 * time.Second)
	if left := trusted.Troubles(); len(left) > 0 || strings.Count(log.String(), "well again") != 2 {
		t.Errorf("left: %v; %s", left, log.String())
	}
	// A file that others have come to write to is one that can't be read.
	chmod(t, files.key, 0o666)
	at(20 * time.Second)
	at(21 * time.Second)
	if left := trusted.Troubles(); len(left) != 1 {
		t.Errorf("a key that others may write to: %v", left)
	}
}

func TestExpiredServerCertificateIsTold(t *testing.T) {
	ca := newAuthority(t, "root", nil)
	files := newTLSFiles(t, ca.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage, c.NotAfter = nil, time.Now().Add(2*time.Second) }), ca)
	trusted, err := server.OpenTLS(files.config())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); len(trusted.Troubles()) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody is told")
		}
	}
}

// A trust bundle without the client's CA ends its rights on live connections,
// at the next call, and nothing else; and one with it gives them back.
func TestTrustBundleSwap(t *testing.T) {
	id := uri("spiffe://acme.example/ap-host")
	m := openMutual(t, map[snapshot.Identity]*writ.Caller{id: hostNamed("ap-host"), uri("spiffe://acme.example/other"): hostNamed("other")})
	next := newAuthority(t, "next", nil)
	m.files.putCAs(t, m.ca, next)
	m.tls.LookNow()
	old, fresh := m.grpcAs(t, m.ca.client(t, id.Name)), m.grpcAs(t, next.client(t, "spiffe://acme.example/other"))
	oldHTTP := m.httpAs(t, m.ca.client(t, id.Name), true)
	want := func(ok bool) {
		t.Helper()
		if err := decideOn(t.Context(), fresh); err != nil {
			t.Errorf("who is trusted still: %v", err)
		}
		r, err := m.postAs(t.Context(), oldHTTP)
		for range 10 { // who is refused in a handshake may see the connection end first
			if _, ended := errors.AsType[*net.OpError](err); !ended || ok || strings.Contains(err.Error(), "tls: ") {
				break
			}
			r, err = m.postAs(t.Context(), oldHTTP)
		}
		if err != nil && (ok || !strings.Contains(err.Error(), "tls: ")) {
			t.Fatal(err)
		}
		if ok {
			if err := decideOn(t.Context(), old); err != nil || r.status != 200 {
				t.Errorf("%v, %d", err, r.status)
			}
			return
		}
		wantRefusal(t, decideOn(t.Context(), old), codes.Unauthenticated, server.ReasonCertificateRefused)
		if err == nil { // else it had to connect anew, after a body that was not read
			r.wantRefused(t, 401, "unauthenticated", server.ReasonCertificateRefused)
		}
	}
	want(true)
	m.files.putCAs(t, next)
	m.tls.LookNow()
	want(false)
	m.files.put(t, m.files.ca, []byte("broken"))
	m.tls.LookNow()
	want(false)
	m.files.putCAs(t, next, m.ca)
	m.tls.LookNow()
	want(true)
}

// Certificates and trust bundles that change under load: each call is answered
// for its own caller, or refused with the reason that fits.
func TestRotationUnderLoad(t *testing.T) {
	wantNoLeak(t)
	ids := map[string]string{"a": "spiffe://acme.example/a", "b": "spiffe://acme.example/b"}
	m := openMutual(t, map[snapshot.Identity]*writ.Caller{uri(ids["a"]): hostNamed("a"), uri(ids["b"]): hostNamed("b")})
	cas := map[string]*authority{"a": newAuthority(t, "a", nil), "b": newAuthority(t, "b", nil)}
	pairs := map[string]tls.Certificate{"a": cas["a"].client(t, ids["a"]), "b": cas["b"].client(t, ids["b"])}
	m.files.putCAs(t, cas["a"], cas["b"])
	m.tls.LookNow()
	var done atomic.Bool
	var answered, refused atomic.Int64
	var load sync.WaitGroup
	for name, pair := range pairs {
		for range 2 {
			load.Go(func() {
				client := credentials.NewTLS(m.clientTLS(pair))
				for !done.Load() {
					conn, err := grpc.NewClient(m.address, grpc.WithTransportCredentials(client))
					if err != nil {
						t.Error(err)
						return
					}
					// A handshake that was refused is UNAVAILABLE; no call of a
					// connection that was made ever is.
					for call := range 20 {
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
						err := decideAs(ctx, conn, name)
						cancel()
						if call == 0 && status.Code(err) == codes.Unavailable {
							refused.Add(1)
							break
						}
						switch {
						case err == nil:
							answered.Add(1)
						case reasonOf(err) == string(server.ReasonCertificateRefused):
							refused.Add(1)
						default:
							t.Errorf("%s: %v", name, err)
						}
					}
					if err := conn.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	rounds := 0
	for deadline := time.Now().Add(40 * time.Second); rounds < 40 || answered.Load() < 50 || refused.Load() < 10; rounds++ {
		if time.Now().After(deadline) {
			t.Errorf("after %d rounds: %d answered, %d refused", rounds, answered.Load(), refused.Load())
			break
		}
		m.files.putPair(t, m.ca.server(t))
		switch rounds % 3 {
		case 0:
			m.files.putCAs(t, cas["a"], cas["b"])
		case 1:
			m.files.putCAs(t, cas["a"])
		case 2:
			m.files.putCAs(t, cas["b"])
		}
		m.tls.LookNow()
		time.Sleep(20 * time.Millisecond)
	}
	done.Store(true)
	load.Wait()
	for _, q := range m.decider.questions() {
		if n := q.caller.Name; n != q.proposal.RequestID {
			t.Errorf("%s asked as %s", q.proposal.RequestID, n)
		}
	}
	for line := range strings.Lines(m.log.String()) {
		if strings.Contains(line, "refused") && !strings.Contains(line, `"reason":"CERTIFICATE_REFUSED"`) {
			t.Errorf("the log says %s", line)
		}
	}
	t.Logf("%d rounds: %d answered, %d refused", rounds, answered.Load(), refused.Load())
}

func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}
