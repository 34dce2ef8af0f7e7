package token_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

const (
	login    = "https://login.example"
	other    = "https://other.example"
	endpoint = "https://mcp.example/pay"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// keyring holds one private key of each kind, and the set that an issuer
// publishes of them.
type keyring struct {
	ed     ed25519.PrivateKey
	p256   *ecdsa.PrivateKey
	p384   *ecdsa.PrivateKey
	rsa    *rsa.PrivateKey
	set    []byte
	public jose.JSONWebKeySet
}

func newKeyring(t testing.TB) *keyring {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	k := &keyring{}
	var err error
	_, k.ed, err = ed25519.GenerateKey(rand.Reader)
	must(err)
	k.p256, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	k.p384, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(err)
	k.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.public.Keys = []jose.JSONWebKey{
		{Key: k.ed.Public(), KeyID: "ed", Use: "sig", Algorithm: "EdDSA"},
		{Key: k.p256.Public(), KeyID: "p256", Use: "sig", Algorithm: "ES256"},
		{Key: k.p384.Public(), KeyID: "p384", Use: "sig"},
		{Key: k.rsa.Public(), KeyID: "rsa", Use: "sig"},
	}
	k.set, err = json.Marshal(k.public)
	must(err)
	return k
}

// claims are those of a good token.
func claims() map[string]any {
	return map[string]any{
		"iss": login, "sub": "ann", "aud": endpoint, "jti": "t-1", "scope": "read pay",
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
	}
}

func with(name string, value any) map[string]any {
	c := claims()
	if value == nil {
		delete(c, name)
	} else {
		c[name] = value
	}
	return c
}

func header(alg, kid string) map[string]any {
	h := map[string]any{"alg": alg, "typ": "at+jwt"}
	if kid != "" {
		h["kid"] = kid
	}
	return h
}

func headerWith(name string, value any) map[string]any {
	h := header("ES256", "p256")
	if value == nil {
		delete(h, name)
	} else {
		h[name] = value
	}
	return h
}

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func text(t testing.TB, v any) string {
	t.Helper()
	if s, ok := v.(string); ok {
		return s
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sign makes a compact JWS of any header and payload: texts as they are, and
// everything else as JSON. The key chooses how it is signed, whatever the
// header says.
func sign(t testing.TB, header, payload any, key any) string {
	t.Helper()
	input := b64([]byte(text(t, header))) + "." + b64([]byte(text(t, payload)))
	return input + "." + b64(signature(t, input, key))
}

func signature(t testing.TB, input string, key any) []byte {
	t.Helper()
	var out []byte
	var err error
	switch k := key.(type) {
	case ed25519.PrivateKey:
		out = ed25519.Sign(k, []byte(input))
	case *ecdsa.PrivateKey:
		size := (k.Curve.Params().BitSize + 7) / 8
		hash := crypto.SHA256
		if size == 48 {
			hash = crypto.SHA384
		}
		h := hash.New()
		h.Write([]byte(input))
		r, s, e := ecdsa.Sign(rand.Reader, k, h.Sum(nil))
		err = e
		if err == nil {
			out = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
		}
	case *rsa.PrivateKey:
		sum := sha256.Sum256([]byte(input))
		out, err = rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
	case pss:
		sum := sha256.Sum256([]byte(input))
		out, err = rsa.SignPSS(rand.Reader, k.PrivateKey, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	case []byte:
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(input))
		out = mac.Sum(nil)
	default:
		t.Fatalf("no key: %T", key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pss signs with RSASSA-PSS.
type pss struct{ *rsa.PrivateKey }

func pemOf(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// world has one server and the issuers given.
func world(issuers ...*snapshot.Issuer) *snapshot.Snapshot {
	w := &snapshot.Snapshot{
		Issuers: map[string]*snapshot.Issuer{},
		Servers: map[string]*contract.Server{"pay": {ID: "pay", Endpoint: endpoint, Audience: endpoint, TokenRequired: true}},
	}
	for _, i := range issuers {
		w.Issuers[i.Name] = i
	}
	return w
}

func proposal(compact string) *writ.Proposal {
	return &writ.Proposal{
		RequestID: "r", Server: writ.ServerRef{ID: "pay"}, AccessToken: []byte(compact),
		Principal: writ.Principal{Issuer: login, Subject: "ann"},
	}
}

func verifier(t testing.TB) *token.Verifier {
	t.Helper()
	v := token.Patient(token.New(token.Config{}))
	t.Cleanup(v.Close)
	return v
}

// verify asks a fresh verifier.
func verify(t testing.TB, w *snapshot.Snapshot, compact string) *writ.Token {
	t.Helper()
	return verifier(t).Verify(t.Context(), w, false, proposal(compact), now)
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }
