package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// authority is a CA of a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	above       *authority // nil: a root
}

func newAuthority(t testing.TB, name string, change func(*x509.Certificate)) *authority {
	t.Helper()
	return (*authority)(nil).sub(t, name, change)
}

// sub is a CA under a, or a root under nil.
func (a *authority) sub(t testing.TB, name string, change func(*x509.Certificate)) *authority {
	t.Helper()
	now := time.Now()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	}
	if change != nil {
		change(template)
	}
	made := &authority{key: newKey(t), above: a}
	made.certificate = a.sign(t, template, made.key)
	return made
}

// sign issues template, or signs it by itself under nil.
func (a *authority) sign(t testing.TB, template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	parent, with := template, key
	if a != nil {
		parent, with = a.certificate, a.key
	}
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), with)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// issue makes a client certificate, and sends the CAs below the root with it.
func (a *authority) issue(t testing.TB, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	now := time.Now()
	template := &x509.Certificate{
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	change(template)
	key := newKey(t)
	out := tls.Certificate{Certificate: [][]byte{a.sign(t, template, key).Raw}, PrivateKey: key}
	for between := a; between != nil && between.above != nil; between = between.above {
		out.Certificate = append(out.Certificate, between.certificate.Raw)
	}
	return out
}

// client issues a certificate with these URIs.
func (a *authority) client(t testing.TB, uris ...string) tls.Certificate {
	t.Helper()
	return a.issue(t, func(c *x509.Certificate) { c.URIs = parseURIs(t, uris...) })
}

// server issues a certificate for pdp.example and loopback.
func (a *authority) server(t testing.TB) tls.Certificate {
	t.Helper()
	return a.issue(t, func(c *x509.Certificate) {
		c.DNSNames = []string{"pdp.example"}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
}

func (a *authority) pool() *x509.CertPool {
	out := x509.NewCertPool()
	out.AddCert(a.certificate)
	return out
}

func parseURIs(t testing.TB, texts ...string) []*url.URL {
	t.Helper()
	var out []*url.URL
	for _, text := range texts {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// tlsFiles are the files of one server.
type tlsFiles struct{ dir, cert, key, ca string }

func newTLSFiles(t testing.TB, pair tls.Certificate, cas ...*authority) tlsFiles {
	t.Helper()
	dir := t.TempDir()
	f := tlsFiles{dir, filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem"), filepath.Join(dir, "ca.pem")}
	f.putPair(t, pair)
	f.putCAs(t, cas...)
	return f
}

func (f tlsFiles) config() server.TLSConfig {
	return server.TLSConfig{CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.ca}
}

func (f tlsFiles) putPair(t testing.TB, pair tls.Certificate) {
	t.Helper()
	var text []byte
	for _, der := range pair.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	f.put(t, f.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	f.put(t, f.cert, text)
}

func (f tlsFiles) putCAs(t testing.TB, cas ...*authority) {
	t.Helper()
	var text []byte
	for _, a := range cas {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})...)
	}
	f.put(t, f.ca, text)
}

// put replaces a file at one blow, as rotating tools do.
func (f tlsFiles) put(t testing.TB, path string, text []byte) {
	t.Helper()
	draft := path + ".draft"
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(draft, path); err != nil {
		t.Fatal(err)
	}
}

// selfSigned is TLS of pdp.example without client certificates, and who
// trusts it.
func selfSigned(t testing.TB) (*server.TLS, *x509.CertPool) {
	t.Helper()
	ca := newAuthority(t, "root", nil)
	cfg := newTLSFiles(t, ca.server(t), ca).config()
	cfg.ClientCAFile = ""
	out, err := server.OpenTLS(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out, ca.pool()
}

// known are callers by their names, for a server's Identities.
type known struct {
	atomic.Pointer[map[snapshot.Identity]*writ.Caller]
}

func knownAs(callers map[snapshot.Identity]*writ.Caller) *known {
	k := &known{}
	k.Store(&callers)
	return k
}

func (k *known) now() map[snapshot.Identity]*writ.Caller { return *k.Load() }

func uri(text string) snapshot.Identity {
	return snapshot.Identity{Kind: snapshot.IdentityURI, Name: text}
}

func hostNamed(name string) *writ.Caller {
	return &writ.Caller{Name: name, Roles: []writ.Role{writ.RoleHost}}
}

// mutual is a house with mTLS: its files, its CA and whom it knows.
type mutual struct {
	*house
	ca    *authority
	files tlsFiles
	tls   *server.TLS
	known *known
}

func openMutual(t testing.TB, callers map[snapshot.Identity]*writ.Caller) *mutual {
	t.Helper()
	m := &mutual{ca: newAuthority(t, "root", nil), known: knownAs(callers)}
	m.files = newTLSFiles(t, m.ca.server(t), m.ca)
	var err error
	if m.tls, err = server.OpenTLS(m.files.config()); err != nil {
		t.Fatal(err)
	}
	m.house = openTCP(t, &decider{}, func(c *server.Config) {
		c.TLS, c.Identities = m.tls, m.known.now
	})
	return m
}

// clientTLS is a client's side; the zero pair is no certificate.
func (m *mutual) clientTLS(pair tls.Certificate) *tls.Config {
	c := &tls.Config{RootCAs: m.ca.pool(), ServerName: "pdp.example"}
	if pair.Certificate != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c
}

// grpcAs connects with a certificate.
func (m *mutual) grpcAs(t testing.TB, pair tls.Certificate) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(m.address, grpc.WithTransportCredentials(credentials.NewTLS(m.clientTLS(pair))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func decideOn(ctx context.Context, conn *grpc.ClientConn) error { return decideAs(ctx, conn, "r") }

func decideAs(ctx context.Context, conn *grpc.ClientConn, id string) error {
	_, err := writv1.NewDecisionServiceClient(conn).Decide(ctx, &writv1.DecideRequest{Proposal: &writv1.Proposal{RequestId: id}})
	return err
}

// httpAs is a client with a certificate.
func (m *mutual) httpAs(t testing.TB, pair tls.Certificate, two bool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: m.clientTLS(pair), ForceAttemptHTTP2: two}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (m *mutual) postAs(ctx context.Context, client *http.Client, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+m.web+decideMethod, body(`{"proposal":{"requestId":"r"}}`))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return do(client, req)
}
