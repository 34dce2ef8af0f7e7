package token_test

import (
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// TestAlgorithms: tokens of a stock library are accepted under every algorithm
// that their keys may have, where the issuer's entry allows it.
func TestAlgorithms(t *testing.T) {
	k := newKeyring(t)
	for _, c := range []struct {
		alg      jose.SignatureAlgorithm
		kid      string
		key      any
		byItself bool // allowed where the entry names none
	}{
		{jose.EdDSA, "ed", k.ed, true}, {jose.ES256, "p256", k.p256, true}, {jose.ES384, "p384", k.p384, true},
		{jose.RS256, "rsa", k.rsa, true}, {jose.PS256, "rsa", k.rsa, true},
		{jose.RS384, "rsa", k.rsa, false}, {jose.RS512, "rsa", k.rsa, false}, {jose.PS384, "rsa", k.rsa, false}, {jose.PS512, "rsa", k.rsa, false},
	} {
		for _, kid := range []string{c.kid, ""} {
			if kid == "" && c.kid == "ed" {
				continue // two names of one algorithm, one key: see below
			}
			options := (&jose.SignerOptions{}).WithType("at+jwt")
			if kid != "" {
				options = options.WithHeader("kid", kid)
			}
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: c.alg, Key: c.key}, options)
			if err != nil {
				t.Fatal(err)
			}
			compact, err := jwt.Signed(signer).Claims(claims()).Serialize()
			if err != nil {
				t.Fatal(err)
			}
			got := verify(t, world(&snapshot.Issuer{Name: login, Keys: k.set}), compact)
			if got.Verified != c.byItself {
				t.Errorf("%s kid %q by default: %+v", c.alg, kid, got)
			}
			got = verify(t, world(&snapshot.Issuer{Name: login, Keys: k.set, Algorithms: []string{string(c.alg)}}), compact)
			if !got.Verified || got.Subject != "ann" || got.KeyID != c.kid {
				t.Errorf("%s kid %q where it is allowed: %+v", c.alg, kid, got)
			}
			got = verify(t, world(&snapshot.Issuer{Name: login, Keys: k.set, Algorithms: []string{"ES512"}}), compact)
			if got.Verified || got.Invalid == "" {
				t.Errorf("%s kid %q where another is allowed: %+v", c.alg, kid, got)
			}
		}
	}
	// RFC 9864, section 2.2.
	if got := verify(t, world(&snapshot.Issuer{Name: login, Keys: k.set}), sign(t, header("Ed25519", "ed"), claims(), k.ed)); !got.Verified {
		t.Errorf("Ed25519: %+v", got)
	}
	// Whatever an entry says, a shared secret is none of ours.
	w := world(&snapshot.Issuer{Name: login, Keys: k.set, Algorithms: []string{"HS256", "none"}})
	if got := verify(t, w, sign(t, header("HS256", "rsa"), claims(), pemOf(t, k.rsa.Public()))); got.Verified {
		t.Errorf("HS256: %+v", got)
	}
}

// TestClaims: what a token says arrives as it is.
func TestClaims(t *testing.T) {
	k := newKeyring(t)
	c := claims()
	maps.Copy(c, map[string]any{
		"aud": []string{endpoint, "https://b.example"}, "nbf": 1764500000.5, "scp": []string{"extra"}, "tid": "acme",
		"preferred_username": "ann@acme.example", "client_id": "host-1", "groups": []string{"a"}, "n": 1,
		"act":     map[string]any{"sub": "agent-2", "client_id": "c2", "act": map[string]any{"sub": "agent-1", "iss": other}},
		"may_act": map[string]any{"sub": "agent-3", "client_id": 3, "oid": "o-3", "long": repeat("x", 4097)},
		"cnf":     map[string]any{"jkt": "abc", "x5t#S256": "def"},
	})
	w := world(&snapshot.Issuer{Name: login, Keys: k.set, TenantClaim: "tid", Types: []string{"JWT"}})
	h := header("ES256", "p256")
	h["typ"] = "application/jwt"
	got := verify(t, w, sign(t, h, c, k.p256))
	if !got.Verified || got.Invalid != "" {
		t.Fatalf("%+v", got)
	}
	for name, ok := range map[string]bool{
		"iss": got.Issuer == login, "sub": got.Subject == "ann", "tenant": got.Tenant == "acme", "jti": got.ID == "t-1", "kid": got.KeyID == "p256",
		"aud":    slices.Equal(got.Audience, []string{endpoint, "https://b.example"}),
		"scopes": slices.Equal(got.Scopes, []string{"read", "pay", "extra"}),
		"exp":    got.ExpiresAt.Equal(now.Add(time.Hour)), "iat": got.IssuedAt.Equal(now.Add(-time.Minute)),
		"nbf": got.NotBefore.Equal(time.UnixMilli(1764500000500)),
		"claims": maps.Equal(got.Claims, map[string]string{
			"preferred_username": "ann@acme.example", "client_id": "host-1", "tid": "acme",
		}),
		"chain": len(got.Actors) == 2 && got.Actors[0].Subject == "agent-2" && got.Actors[0].Claims["client_id"] == "c2" &&
			got.Actors[1].Subject == "agent-1" && got.Actors[1].Issuer == other,
		// What is no text stays, as one that nobody has: who acts is held against it.
		"may_act": got.MayAct != nil && got.MayAct.Subject == "agent-3" &&
			maps.Equal(got.MayAct.Claims, map[string]string{"client_id": "", "oid": "o-3", "long": ""}),
		"cnf": got.KeyThumbprint == "abc" && got.CertificateThumbprint == "def" && !got.Possessed,
	} {
		if !ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestSeenBefore: a token that was verified is known again, until its key is
// no longer the issuer's, or the issuer's entry is another.
func TestSeenBefore(t *testing.T) {
	k := newKeyring(t)
	v := verifier(t)
	compact := sign(t, header("ES256", "p256"), claims(), k.p256)
	ask := func(i *snapshot.Issuer) bool {
		return v.Verify(t.Context(), world(i), false, proposal(compact), now).Verified
	}
	entry := &snapshot.Issuer{Name: login, Keys: k.set}
	for range 2 {
		if !ask(entry) {
			t.Fatal("refused")
		}
	}
	without := jose.JSONWebKeySet{Keys: slices.DeleteFunc(slices.Clone(k.public.Keys), func(k jose.JSONWebKey) bool { return k.KeyID == "p256" })}
	set, err := json.Marshal(without)
	if err != nil {
		t.Fatal(err)
	}
	if ask(&snapshot.Issuer{Name: login, Keys: set}) {
		t.Error("its key is gone, and it is still accepted")
	}
	if ask(&snapshot.Issuer{Name: login, Keys: k.set, Algorithms: []string{"EdDSA"}}) {
		t.Error("its algorithm is no longer allowed, and it is still accepted")
	}
	if ask(&snapshot.Issuer{Name: other, Keys: k.set}) {
		t.Error("its issuer is no longer the bundle's, and it is still accepted")
	}
	if !ask(entry) {
		t.Error("refused after all was well again")
	}
	// What one call does to its token is not seen by the next.
	first := v.Verify(t.Context(), world(entry), false, proposal(compact), now)
	first.Subject, first.Possessed = "root", true
	if again := v.Verify(t.Context(), world(entry), false, proposal(compact), now); again.Subject != "ann" || again.Possessed {
		t.Errorf("%+v", again)
	}
}

func TestParseKeys(t *testing.T) {
	k := newKeyring(t)
	private, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: k.p256, KeyID: "p"}}})
	if err != nil {
		t.Fatal(err)
	}
	small := `{"keys":[{"kty":"RSA","n":"` + b64(make([]byte, 128)) + `","e":"AQAB"}]}`
	for _, c := range []struct{ name, set, why string }{
		{"empty", "", "not a JSON object"},
		{"HTML", "<html>", "not a JSON object"},
		{"no keys", `{}`, `"keys"`},
		{"keys an object", `{"keys":{}}`, `"keys"`},
		{"keys twice", `{"keys":[],"keys":[]}`, "twice"},
		{"no key", `{"keys":[]}`, "no key"},
		{"a private key", string(private), "private key"},
		{"a symmetric key", `{"keys":[{"kty":"oct","k":"` + b64(make([]byte, 32)) + `"}]}`, "no key"},
		{"an encryption key", strings.ReplaceAll(string(k.set), `"use":"sig"`, `"use":"enc"`), "no key"},
		{"a short RSA key", small, "no key"},
		{"an unknown curve", `{"keys":[{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}]}`, "no key"},
		{"a point off its curve", `{"keys":[{"kty":"EC","crv":"P-256","x":"` + b64(make([]byte, 32)) + `","y":"` + b64(make([]byte, 32)) + `"}]}`, "no key"},
		{"a low-order Ed25519 key", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + b64(make([]byte, ed25519.PublicKeySize)) + `"}]}`, "no key"},
		{"too long", `{"keys":[]` + repeat(" ", token.MaxKeySet) + `}`, "bytes"},
		{"101 keys", `{"keys":[` + strings.TrimSuffix(repeat(`{"kty":"oct","k":"AA"},`, 101), ",") + `]}`, "more than 100"},
	} {
		if _, err := token.ParseKeys([]byte(c.set)); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
	}
	// What is not understood does not spoil the rest (RFC 7517, section 5).
	mixed := `{"keys":[{"kty":"X"},{"kty":"oct","k":"AA"},` + strings.TrimPrefix(string(k.set), `{"keys":[`)
	if _, err := token.ParseKeys([]byte(mixed)); err != nil {
		t.Error(err)
	}
}
