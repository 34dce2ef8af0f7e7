package token_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/writ-pdp/writ/snapshot"
)

// TestHostileTokens: each is refused, and says why in one sentence that holds
// nothing of the token (RFC 8725; RFC 7515; RFC 7519).
func TestHostileTokens(t *testing.T) {
	k := newKeyring(t)
	foreign := newKeyring(t)
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := world(
		&snapshot.Issuer{Name: login, Keys: k.set},
		&snapshot.Issuer{Name: other, Keys: foreign.set},
		&snapshot.Issuer{Name: "https://keyless.example"},
	)
	es := func(h, p any) string { return sign(t, h, p, k.p256) }
	good := es(header("ES256", "p256"), claims())
	parts := strings.Split(good, ".")
	jwe, err := jose.NewEncrypter(jose.A128GCM, jose.Recipient{Algorithm: jose.RSA_OAEP_256, Key: k.rsa.Public()}, (&jose.EncrypterOptions{}).WithContentType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	encrypted, err := jwe.Encrypt([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	nested, err := encrypted.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	own := jose.JSONWebKey{Key: foreign.p256.Public(), KeyID: "p256"}
	deep := any(map[string]any{"sub": "a"})
	for range 9 {
		deep = map[string]any{"sub": "a", "act": deep}
	}
	scopes := make([]string, 10_000)
	for i := range scopes {
		scopes[i] = fmt.Sprintf("s%d", i)
	}
	none := b64([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." + parts[1] + "."
	flip := func(s string) string {
		b := []byte(s)
		if b[len(b)/2] == 'A' {
			b[len(b)/2] = 'B'
		} else {
			b[len(b)/2] = 'A'
		}
		return string(b)
	}

	cases := []struct{ name, token, why string }{
		{"empty", "", ""},
		{"one dot", "a.b", "three parts"},
		{"no dots", "abc", "three parts"},
		{"100,000 dots", repeat(".", 100_000), "bytes"},
		{"10,000 dots", repeat(".", 10_000), "three parts"},
		{"64 KiB", good + repeat("A", 64<<10), "bytes"},
		{"a JWE", nested, "three parts"},
		{"nested by cty", es(headerWith("cty", "JWT"), claims()), "nested"},
		{"JSON serialization", `{"payload":"` + parts[1] + `","signatures":[]}`, "three parts"},
		{"alg none without a signature", none, "signature is empty"},
		{"alg none with a signature", none + parts[2], "alg"},
		{"alg None", sign(t, headerWith("alg", "None"), claims(), k.p256), "alg"},
		{"alg NONE with kid", sign(t, headerWith("alg", "NONE"), claims(), k.p256), "alg"},
		{"alg missing", es(headerWith("alg", nil), claims()), "alg"},
		{"alg a number", es(headerWith("alg", 5), claims()), "alg"},
		{"alg unknown", es(headerWith("alg", "XS256"), claims()), "alg"},
		{"alg not allowed by default", sign(t, header("RS512", "rsa"), claims(), k.rsa), "alg"},
		{"HS256 with the RSA public key as PEM", sign(t, header("HS256", "rsa"), claims(), pemOf(t, k.rsa.Public())), "alg"},
		{"HS256 with the RSA modulus", sign(t, header("HS256", "rsa"), claims(), k.rsa.N.Bytes()), "alg"},
		{"HS256 with the Ed25519 public key", sign(t, header("HS256", "ed"), claims(), []byte(k.ed.Public().(ed25519.PublicKey))), "alg"},
		{"HS256 with an empty secret", sign(t, header("HS256", ""), claims(), []byte{}), "alg"},
		{"ES256 header, RSA key", sign(t, header("ES256", "rsa"), claims(), k.rsa), "kid and alg"},
		{"RS256 header, EC key", sign(t, header("RS256", "p256"), claims(), k.p256), "kid and alg"},
		{"ES384 header, P-256 key", sign(t, header("ES384", "p256"), claims(), k.p256), "kid and alg"},
		{"ES256 header, P-384 key", sign(t, header("ES256", "p384"), claims(), k.p384), "kid and alg"},
		{"PS256 header, PKCS1 signature", sign(t, header("PS256", "rsa"), claims(), k.rsa), "signature"},
		{"RS256 header, PSS signature", sign(t, header("RS256", "rsa"), claims(), pss{k.rsa}), "signature"},
		{"EdDSA header, EC key", sign(t, header("EdDSA", "p256"), claims(), k.p256), "kid and alg"},
		{"a key of nobody", sign(t, header("ES256", "p256"), claims(), foreign.p256), "signature"},
		{"RSA key of nobody", sign(t, header("RS256", "rsa"), claims(), weak), "signature"},
		{"another issuer's key under its kid", sign(t, header("EdDSA", "ed"), claims(), foreign.ed), "signature"},
		{"an issuer that is not the bundle's", es(header("ES256", "p256"), with("iss", "https://evil.example")), "issuer"},
		{"the issuer with a slash", es(header("ES256", "p256"), with("iss", login+"/")), "issuer"},
		{"the issuer in capitals", es(header("ES256", "p256"), with("iss", strings.ToUpper(login))), "issuer"},
		{"an issuer without keys", es(header("ES256", "p256"), with("iss", "https://keyless.example")), "no keys"},
		{"issuer A signed by B", sign(t, header("ES256", "p256"), with("iss", other), k.p256), "signature"},
		{"embedded jwk", sign(t, headerWith("jwk", own), claims(), foreign.p256), "jwk"},
		{"jku", es(headerWith("jku", "https://evil.example/keys"), claims()), "not accepted"},
		{"x5u", es(headerWith("x5u", "https://evil.example/cert"), claims()), "not accepted"},
		{"x5c", es(headerWith("x5c", []string{"MIIB"}), claims()), "not accepted"},
		{"crit", es(headerWith("crit", []string{"exp"}), claims()), "not accepted"},
		{"b64 false", es(headerWith("b64", false), claims()), "not accepted"},
		{"zip", es(headerWith("zip", "DEF"), claims()), "not accepted"},
		{"an unknown header member", es(headerWith("x", "y"), claims()), "not accepted"},
		{"kid with path traversal", es(headerWith("kid", "../../../../dev/null"), claims()), "kid and alg"},
		{"kid with SQL", es(headerWith("kid", "p256' OR '1'='1"), claims()), "kid and alg"},
		{"kid a number", es(headerWith("kid", 1), claims()), "kid"},
		{"kid of 10 KiB", es(headerWith("kid", repeat("k", 10<<10)), claims()), "kid"},
		{"kid of another case", es(headerWith("kid", "P256"), claims()), "kid and alg"},
		{"no kid where two keys fit", sign(t, header("ES256", ""), with("iss", "https://two.example"), k.p256), "kid and alg"},
		{"typ missing", es(headerWith("typ", nil), claims()), "typ"},
		{"typ JWT, as id tokens have", es(headerWith("typ", "JWT"), claims()), "typ"},
		{"typ of a logout token", es(headerWith("typ", "logout+jwt"), claims()), "typ"},
		{"typ of a DPoP proof", es(headerWith("typ", "dpop+jwt"), claims()), "typ"},
		{"typ of a grant", es(headerWith("typ", "writ-grant+jwt"), claims()), "typ"},
		{"header not JSON", sign(t, `{"alg":"ES256",`, claims(), k.p256), "header"},
		{"header an array", sign(t, `["ES256"]`, claims(), k.p256), "header"},
		{"header with alg twice", sign(t, `{"alg":"ES256","alg":"none","typ":"at+jwt","kid":"p256"}`, claims(), k.p256), "header"},
		{"something after the header", sign(t, `{"alg":"ES256","typ":"at+jwt","kid":"p256"} {}`, claims(), k.p256), "header"},
		{"header not UTF-8", sign(t, "{\"alg\":\"ES256\",\"typ\":\"at+jwt\",\"kid\":\"\xff\"}", claims(), k.p256), "header"},
		{"payload not JSON", sign(t, header("ES256", "p256"), "hello", k.p256), "payload"},
		{"payload with sub twice", sign(t, header("ES256", "p256"), `{"iss":"`+login+`","sub":"ann","sub":"root"}`, k.p256), "payload"},
		{"payload with iss twice", sign(t, header("ES256", "p256"), `{"iss":"`+login+`","iss":"`+other+`","sub":"ann"}`, k.p256), "payload"},
		{"payload nested 9,000 deep", sign(t, header("ES256", "p256"), `{"a":`+repeat("[", 9_000)+repeat("]", 9_000)+`}`, k.p256), ""},
		{"sub missing", es(header("ES256", "p256"), with("sub", nil)), "sub"},
		{"sub empty", es(header("ES256", "p256"), with("sub", "")), "sub"},
		{"sub a number", es(header("ES256", "p256"), with("sub", 7)), "sub"},
		{"sub an array", es(header("ES256", "p256"), with("sub", []string{"ann"})), "sub"},
		{"sub of 2 KiB", es(header("ES256", "p256"), with("sub", repeat("a", 2<<10))), "sub"},
		{"iss missing", es(header("ES256", "p256"), with("iss", nil)), "iss"},
		{"iss an array", es(header("ES256", "p256"), with("iss", []string{login})), "iss"},
		{"exp a string", es(header("ES256", "p256"), with("exp", "4102444800")), "exp"},
		{"exp after the year 9999", es(header("ES256", "p256"), with("exp", json.Number("1e300"))), "exp"},
		{"exp negative", es(header("ES256", "p256"), with("exp", -1)), "exp"},
		{"nbf null", es(header("ES256", "p256"), map[string]any{"iss": login, "sub": "ann", "nbf": nil}), "nbf"},
		{"aud a number", es(header("ES256", "p256"), with("aud", 1)), "aud"},
		{"aud with a number", es(header("ES256", "p256"), with("aud", []any{endpoint, 1})), "aud"},
		{"scope an object", es(header("ES256", "p256"), with("scope", map[string]any{})), "scope"},
		{"10,000 scopes", es(header("ES256", "p256"), with("scope", strings.Join(scopes, " "))), ""},
		{"300 scopes", es(header("ES256", "p256"), with("scope", strings.Join(scopes[:300], " "))), "scopes"},
		{"300 scopes in scp", es(header("ES256", "p256"), with("scp", scopes[:300])), "scp"},
		{"jti a number", es(header("ES256", "p256"), with("jti", 1)), "jti"},
		{"act a text", es(header("ES256", "p256"), with("act", "agent")), "act"},
		{"act without sub", es(header("ES256", "p256"), with("act", map[string]any{"client_id": "x"})), "act"},
		{"act chain of ten", es(header("ES256", "p256"), with("act", deep)), "act"},
		{"may_act with act", es(header("ES256", "p256"), with("may_act", map[string]any{"sub": "a", "act": map[string]any{"sub": "b"}})), "may_act"},
		{"cnf of an unknown kind", es(header("ES256", "p256"), with("cnf", map[string]any{"jwe": "x"})), "confirmation"},
		{"cnf empty", es(header("ES256", "p256"), with("cnf", map[string]any{})), "cnf"},
		{"another payload", parts[0] + "." + b64([]byte(text(t, with("sub", "root")))) + "." + parts[2], "signature"},
		{"another header", b64([]byte(text(t, headerWith("kid", "p256x")))) + "." + parts[1] + "." + parts[2], "kid and alg"},
		{"a flipped signature", parts[0] + "." + parts[1] + "." + flip(parts[2]), "signature"},
		{"a signature cut short", parts[0] + "." + parts[1] + "." + parts[2][:40], "signature"},
		{"an ECDSA signature of zeros", parts[0] + "." + parts[1] + "." + b64(make([]byte, 64)), "signature"},
		{"the empty signature", parts[0] + "." + parts[1] + ".", "signature"},
		{"a signature with padding", good + "==", "base64url"},
		{"a signature with stray bits", parts[0] + "." + parts[1] + "." + parts[2][:len(parts[2])-1] + stray(parts[2]), ""},
		{"white space at the end", good + "\n", "base64url"},
		{"white space in the header", parts[0][:5] + "\n" + parts[0][5:] + "." + parts[1] + "." + parts[2], "base64url"},
		{"standard base64", strings.ReplaceAll(strings.ReplaceAll(good, "-", "+"), "_", "/") + "+", ""},
		{"Bearer in front", "Bearer " + good, "base64url"},
		{"a P-521 key that is not published", sign(t, headerWith("alg", "ES512"), claims(), p521), "alg"},
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: k.p256.Public(), KeyID: "1"}, {Key: foreign.p256.Public(), KeyID: "2"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.Issuers["https://two.example"] = &snapshot.Issuer{Name: "https://two.example", Keys: set}

	if len(cases) < 60 {
		t.Errorf("only %d cases", len(cases))
	}
	if got := verify(t, w, good); !got.Verified || got.Invalid != "" {
		t.Fatalf("the good token is refused: %+v", got)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := verify(t, w, c.token)
			if got.Invalid == "" || got.Verified || got.Subject != "" || len(got.Scopes) > 0 {
				t.Fatalf("accepted: %+v", got)
			}
			if !strings.Contains(got.Invalid, c.why) {
				t.Errorf("it says %q, without %q", got.Invalid, c.why)
			}
			if len(got.Invalid) > 300 || len(parts[2]) > 8 && strings.Contains(got.Invalid, parts[2][:8]) {
				t.Errorf("it says too much: %q", got.Invalid)
			}
		})
	}
}

// stray returns a last character of base64url that decodes to the same bytes
// as that of s, through bits that are not part of them.
func stray(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	i := strings.IndexByte(alphabet, s[len(s)-1])
	return string(alphabet[i^1])
}

// TestDatesAreJudgedLater: what expired is verified and says when: the
// decision denies it.
func TestDatesAreJudgedLater(t *testing.T) {
	k := newKeyring(t)
	w := world(&snapshot.Issuer{Name: login, Keys: k.set})
	got := verify(t, w, sign(t, header("ES256", "p256"), with("exp", now.Add(-time.Second).Unix()), k.p256))
	if !got.Verified || !got.ExpiresAt.Equal(now.Add(-time.Second)) {
		t.Errorf("%+v", got)
	}
	if got = verify(t, w, sign(t, header("ES256", "p256"), with("exp", nil), k.p256)); !got.Verified || !got.ExpiresAt.IsZero() {
		t.Errorf("%+v", got)
	}
}
