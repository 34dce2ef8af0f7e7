package story_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/story"
)

const (
	issuer   = "https://login.acme.example"
	endpoint = "https://mcp.payments.acme.example"
)

// world is everything that runs in one test.
type world struct {
	t      *testing.T
	bundle string // a directory that the decision point follows
	data   string // the decision point's
	ledger string // the database of payments
	key    *ecdsa.PrivateKey

	pdp      *process
	pdpAddr  string
	pdpHTTP  string
	payments *process
	host     *story.Host
	enforcer writv1.EnforcementServiceClient // as the payment server
	reviews  writv1.ApprovalServiceClient    // as the review desk
	edits    int
}

// newWorld starts a decision point over examples/accounts-payable, a payment
// server with a fault, and a host.
func newWorld(t *testing.T, fault story.Fault) *world {
	t.Helper()
	w := &world{t: t, bundle: filepath.Join(t.TempDir(), "bundle"), data: filepath.Join(t.TempDir(), "data"), ledger: filepath.Join(t.TempDir(), "payments.db")}
	var err error
	if w.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	w.copyBundle()
	certs := func(name string) string { return filepath.Join(programs.certs, name) }
	w.pdp = startProcess(t, nil, programs.pdp, "serve", "--bundle", w.bundle, "--data", w.data, "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0",
		"--tls-cert", certs("server.pem"), "--tls-key", certs("server-key.pem"), "--tls-client-ca", certs("ca.pem"))
	var ready struct{ Grpc, HTTP string }
	if err := json.Unmarshal([]byte(w.pdp.first), &ready); err != nil {
		t.Fatalf("%s: %v", w.pdp.first, err)
	}
	w.pdpAddr, w.pdpHTTP = ready.Grpc, ready.HTTP
	w.enforcer = writv1.NewEnforcementServiceClient(w.dial("payments"))
	w.reviews = writv1.NewApprovalServiceClient(w.dial("review-desk"))
	w.startPayments(fault, false)
	w.host = &story.Host{
		PDP: writv1.NewDecisionServiceClient(w.dial("ap-host")), Server: &writv1.ServerRef{Id: "payments", Endpoint: endpoint},
		Principal: &writv1.Principal{Issuer: issuer, Subject: "raj"},
		Agent:     &writv1.Actor{Subject: "ap-assistant", Claims: map[string]string{"client_id": "ap-assistant"}},
		Token:     w.token("raj", endpoint, "payments:read payments:create"),
	}
	w.connect()
	return w
}

// copyBundle copies the example. Only the keys of its issuer are other ones.
func (w *world) copyBundle() {
	w.t.Helper()
	if err := os.CopyFS(w.bundle, os.DirFS("../examples/accounts-payable")); err != nil {
		w.t.Fatal(err)
	}
	keys, err := json.Marshal(w.keys())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.bundle, "jwks"), 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.write("jwks/login.json", string(keys))
	w.change("issuers.yaml", issuer+"/keys ", "jwks/login.json ")
	w.edits = 0
}

func (w *world) keys() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: w.key.Public(), KeyID: "login-1", Use: "sig", Algorithm: "ES256"}}}
}

// write replaces one file of the bundle whole.
func (w *world) write(name, text string) {
	w.t.Helper()
	draft := filepath.Join(w.t.TempDir(), "draft")
	err := os.WriteFile(draft, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(draft, filepath.Join(w.bundle, filepath.FromSlash(name)))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// change replaces the one place in a file of the bundle that reads from.
func (w *world) change(name, from, to string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.bundle, filepath.FromSlash(name)))
	if err != nil || strings.Count(string(text), from) != 1 {
		w.t.Fatalf("%s has %q %d times, and 1 is wanted: %v", name, from, strings.Count(string(text), from), err)
	}
	w.write(name, strings.Replace(string(text), from, to, 1))
	w.edits++
}

// changeEntity changes one attribute of an entity of the bundle in use, and
// waits until the decision point has noticed.
func (w *world) changeEntity(name, id, from, to string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.bundle, filepath.FromSlash(name)))
	if err != nil {
		w.t.Fatal(err)
	}
	before, entity, ok := strings.Cut(string(text), `"id": "`+id+`"}, "parents"`)
	entity, after, _ := strings.Cut(entity, `{"uid"`)
	if !ok || strings.Count(entity, from) != 1 {
		w.t.Fatalf("%s of %s has no one %q", id, name, from)
	}
	if after != "" {
		after = `{"uid"` + after
	}
	w.write(name, before+`"id": "`+id+`"}, "parents"`+strings.Replace(entity, from, to, 1)+after)
	w.edits++
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool(w.t, programs.certs)}}}
	want := fmt.Sprintf("\nwrit_bundle_generation %d\n", 1+w.edits)
	w.eventually("the decision point to follow the bundle", func() error {
		r, err := client.Get("https://" + w.pdpHTTP + "/metrics")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err == nil && !strings.Contains(string(body), want) {
			err = errors.New("another generation is in force")
		}
		return err
	})
}

func (w *world) eventually(what string, done func() error) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// startPayments starts the payment server.
func (w *world) startPayments(fault story.Fault, recovers bool) {
	w.t.Helper()
	text, err := json.Marshal(paymentsConfig{
		Ledger: w.ledger, PDP: w.pdpAddr, Certs: programs.certs, MCPCerts: programs.mcpCerts, Tools: filepath.Join(w.bundle, "servers", "payments.tools.json"),
		Keys: w.keys(), Fault: fault, Recover: recovers,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	w.payments = startProcess(w.t, []string{paymentsEnv + "=" + string(text)}, self)
}

// connect connects the host to the payment server that runs now, under its
// public name.
func (w *world) connect() {
	w.t.Helper()
	addr := strings.TrimSpace(w.payments.first)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool(w.t, programs.mcpCerts)},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	}}
	if err := w.host.Connect(w.t.Context(), client); err != nil {
		w.t.Fatalf("%v\n%s", err, &w.payments.errs)
	}
	w.t.Cleanup(client.CloseIdleConnections)
}

// token makes an access token as the issuer does.
func (w *world) token(subject, audience, scope string) string {
	w.t.Helper()
	options := (&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", "login-1")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: w.key}, options)
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now()
	text, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": issuer, "sub": subject, "aud": audience, "scope": scope, "client_id": "ap-app", "jti": rand.Text(),
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
	}).Serialize()
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// dial connects to the decision point with a caller's certificate.
func (w *world) dial(name string) *grpc.ClientConn {
	w.t.Helper()
	conn, err := dialAs(w.pdpAddr, programs.certs, name)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func dialAs(addr, certs, name string) (*grpc.ClientConn, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(certs, name+".pem"), filepath.Join(certs, name+"-key.pem"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(certs, "ca.pem"))
	if err != nil || !roots.AppendCertsFromPEM(text) {
		return nil, errors.Join(errors.New("there is no CA"), err)
	}
	return grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: roots,
	})))
}

func pool(t *testing.T, certs string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(certs, "ca.pem"))
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("there is no CA in %s: %v", certs, err)
	}
	return roots
}
