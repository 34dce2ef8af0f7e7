package token_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// TestDPoP: RFC 9449, section 4.3, check by check.
func TestDPoP(t *testing.T) {
	k, mine, thief := newKeyring(t), newKeyring(t), newKeyring(t)
	thumbprint, err := token.Thumbprint(mine.p256.Public())
	if err != nil {
		t.Fatal(err)
	}
	w := world(&snapshot.Issuer{Name: login, Keys: k.set})
	bound := sign(t, header("ES256", "p256"), with("cnf", map[string]any{"jkt": thumbprint}), k.p256)
	unbound := sign(t, header("ES256", "p256"), claims(), k.p256)
	v := verifier(t)
	proof := func(change func(h, c map[string]any)) string {
		sum := sha256.Sum256([]byte(bound))
		h := map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": jose.JSONWebKey{Key: mine.p256.Public()}}
		c := map[string]any{"jti": "1", "htm": "POST", "htu": endpoint, "iat": now.Unix(), "ath": b64(sum[:])}
		if change != nil {
			change(h, c)
		}
		return sign(t, h, c, mine.p256)
	}
	ask := func(token, proof string, at time.Time) (possessed bool, why string) {
		p := proposal(token)
		p.DPoPProof = []byte(proof)
		got := v.Verify(t.Context(), w, false, p, at)
		return got.Possessed, got.Invalid
	}
	claim := func(name string, value any) string { return proof(func(_, c map[string]any) { c[name] = value }) }
	head := func(name string, value any) string { return proof(func(h, _ map[string]any) { h[name] = value }) }
	for _, c := range []struct{ name, token, proof, why string }{
		{"for a token bound to nothing", unbound, proof(nil), "bound to no key"},
		{"not a JWT", bound, "x", "three parts"},
		{"too long", bound, repeat("a", token.MaxProof+1), "bytes"},
		{"typ of an access token", bound, head("typ", "at+jwt"), "typ"},
		{"without its key", bound, proof(func(h, _ map[string]any) { delete(h, "jwk") }), "no key"},
		{"with the private key", bound, head("jwk", jose.JSONWebKey{Key: mine.p256}), "key"},
		{"alg none", bound, head("alg", "none"), "alg"},
		{"alg HS256", bound, head("alg", "HS256"), "alg"},
		{"with a kid's worth of critics", bound, head("crit", []string{"jwk"}), "header"},
		{"another's key in it", bound, head("jwk", jose.JSONWebKey{Key: thief.p256.Public()}), "another key"},
		{"signed by a thief", bound, strings.Join([]string{ // the owner's key, the thief's signature
			strings.Split(proof(nil), ".")[0], strings.Split(proof(nil), ".")[1],
			b64(signature(t, strings.Join(strings.Split(proof(nil), ".")[:2], "."), thief.p256))}, "."), "signature"},
		{"for a GET", bound, claim("htm", "GET"), "POST"},
		{"for another server", bound, claim("htu", "https://mcp.example/other"), "endpoint"},
		{"for nothing", bound, claim("htu", ""), "endpoint"},
		{"for http", bound, claim("htu", "http://mcp.example/pay"), "endpoint"},
		{"with a user", bound, claim("htu", "https://x@mcp.example/pay"), "endpoint"},
		{"of an hour ago", bound, claim("iat", now.Add(-time.Hour).Unix()), "minute"},
		{"of the future", bound, claim("iat", now.Add(2*time.Minute).Unix()), "minute"},
		{"without iat", bound, claim("iat", nil), "minute"},
		{"for another token", bound, claim("ath", b64(make([]byte, 32))), "another token"},
		{"without ath", bound, proof(func(_, c map[string]any) { delete(c, "ath") }), "another token"},
		{"without jti", bound, proof(func(_, c map[string]any) { delete(c, "jti") }), "jti"},
	} {
		if possessed, why := ask(c.token, c.proof, now); possessed || !strings.Contains(why, c.why) {
			t.Errorf("%s: possessed %t, %q", c.name, possessed, why)
		}
	}
	if possessed, why := ask(bound, "", now); possessed || why != "" {
		t.Errorf("without a proof: possessed %t, %q", possessed, why)
	}
	// The URL may be spelled differently.
	once := claim("htu", "HTTPS://MCP.example:443/pay?x=1#y")
	if possessed, why := ask(bound, once, now); !possessed || why != "" {
		t.Errorf("a good proof: %q", why)
	}
	for _, after := range []time.Duration{0, 30 * time.Second, time.Minute} {
		if possessed, why := ask(bound, once, now.Add(after)); possessed || !strings.Contains(why, "used before") {
			t.Errorf("the same proof %v later: possessed %t, %q", after, possessed, why)
		}
	}
	if possessed, why := ask(bound, claim("jti", "2"), now); !possessed || why != "" {
		t.Errorf("another proof: %q", why)
	}
}

// TestBoundToBoth: a token that is bound to a key and to a certificate needs a
// proof of each.
func TestBoundToBoth(t *testing.T) {
	k, mine := newKeyring(t), newKeyring(t)
	thumbprint, err := token.Thumbprint(mine.p256.Public())
	if err != nil {
		t.Fatal(err)
	}
	w := world(&snapshot.Issuer{Name: login, Keys: k.set})
	bound := sign(t, header("ES256", "p256"), with("cnf", map[string]any{"jkt": thumbprint, "x5t#S256": "thumb"}), k.p256)
	sum := sha256.Sum256([]byte(bound))
	proof := sign(t, map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": jose.JSONWebKey{Key: mine.p256.Public()}},
		map[string]any{"jti": "1", "htm": "POST", "htu": endpoint, "iat": now.Unix(), "ath": b64(sum[:])}, mine.p256)
	for _, c := range []struct {
		name, proof, seen string
		vouched, want     bool
	}{
		{"neither", "", "", true, false}, {"the certificate", "", "thumb", true, false}, {"the key", proof, "", true, false},
		{"both, of a caller that may not vouch", proof, "thumb", false, false}, {"both", proof, "thumb", true, true},
	} {
		p := proposal(bound)
		p.DPoPProof, p.ClientCertificate = []byte(c.proof), c.seen
		if got := verifier(t).Verify(t.Context(), w, c.vouched, p, now); got.Possessed != c.want || got.Invalid != "" {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestCertificateBinding: RFC 8705, section 3: the certificate counts as the
// caller saw it, if the caller may vouch for tokens.
func TestCertificateBinding(t *testing.T) {
	k := newKeyring(t)
	w := world(&snapshot.Issuer{Name: login, Keys: k.set})
	bound := sign(t, header("ES256", "p256"), with("cnf", map[string]any{"x5t#S256": "thumb"}), k.p256)
	for _, c := range []struct {
		vouched        bool
		seen           string
		possessed, bad bool
	}{
		{true, "thumb", true, false}, {true, "", false, false}, {true, "other", false, true}, {false, "thumb", false, false}, {false, "other", false, false},
	} {
		p := proposal(bound)
		p.ClientCertificate = c.seen
		got := verifier(t).Verify(t.Context(), w, c.vouched, p, now)
		if got.Possessed != c.possessed || (got.Invalid != "") != c.bad {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
