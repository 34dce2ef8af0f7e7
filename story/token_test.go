package story_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/writ-pdp/writ/story"
)

// TestToken: the payment server answers to access tokens that are its own, and
// says for whom a call is by nothing else.
func TestToken(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../examples/accounts-payable/servers/payments.tools.json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Tools []*mcp.Tool }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	ledger, err := story.OpenLedger(t.Context(), t.TempDir()+"/payments.db")
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	pdp := &answers{}
	handler, err := story.NewPayments(story.Config{
		Endpoint: endpoint, Issuer: issuer, Tools: list.Tools, Ledger: ledger, Enforcer: story.Enforcer{PDP: pdp, Server: "payments"},
		Keys: jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Use: "sig", Algorithm: "ES256"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	good := map[string]any{
		"iss": issuer, "sub": "raj", "aud": endpoint, "scope": "payments:read", "iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	for _, c := range []struct {
		name   string
		change map[string]any // nil removes
		typ    jose.ContentType
		key    *ecdsa.PrivateKey
		status int
		says   string
	}{
		{name: "good, for reading", status: 200, says: "SCOPE_MISSING"},
		{name: "for another server", change: map[string]any{"aud": "https://mcp.suppliers.acme.example"}, status: 401},
		{name: "for two servers", change: map[string]any{"aud": []string{endpoint, "https://mcp.suppliers.acme.example"}}, status: 401},
		{name: "for nobody", change: map[string]any{"aud": nil}, status: 401},
		{name: "of another issuer", change: map[string]any{"iss": "https://login.other.example"}, status: 401},
		{name: "expired", change: map[string]any{"exp": now.Add(-time.Second).Unix()}, status: 401},
		{name: "without an end", change: map[string]any{"exp": nil}, status: 401},
		{name: "nobody's", change: map[string]any{"sub": nil}, status: 401},
		{name: "an id token", typ: "JWT", status: 401},
		{name: "signed by another key", key: other, status: 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			claims := maps.Clone(good)
			maps.Copy(claims, c.change)
			maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
			if c.typ == "" {
				c.typ = "at+jwt"
			}
			if c.key == nil {
				c.key = key
			}
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: c.key}, (&jose.SignerOptions{}).WithType(c.typ).WithHeader("kid", "k"))
			if err != nil {
				t.Fatal(err)
			}
			token, err := jwt.Signed(signer).Claims(claims).Serialize()
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_payment","arguments":{"amount_gbp":1,"subject":"ann"},"_meta":{"dev.writ/grant":"g"}}}`))
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%d %s, want %d with %q", w.Code, w.Body, c.status, c.says)
			}
			if len(pdp.attempts) > 0 {
				t.Error("a grant was redeemed")
			}
		})
	}
}
