package token_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

var updateVectors = flag.Bool("update", false, "write testdata/vectors.json anew, with new keys")

const vectorsFile = "testdata/vectors.json"

// vectors is testdata/vectors.json: tokens, the keys of their issuers, and
// what must become of each, for other languages too.
type vectors struct {
	About      string                     `json:"about"`
	Issuer     string                     `json:"issuer"`     // whose tokens are wanted
	Audience   string                     `json:"audience"`   // for whom
	Algorithms []string                   `json:"algorithms"` // that may sign them
	Keys       map[string]json.RawMessage `json:"keys"`       // JWK sets by issuer
	Vectors    []vector                   `json:"vectors"`
}

type vector struct {
	Name   string `json:"name"`
	Token  string `json:"token"`
	Accept bool   `json:"accept"`
	// Code is what the decision says.
	Code writ.Code `json:"code"`
	// Lax are the libraries known to accept what is refused here, and Lacking
	// those known to refuse what is accepted.
	Lax     []string `json:"lax,omitempty"`
	Lacking []string `json:"lacking,omitempty"`
}

// The times of vectors: until 2100, so that libraries which read the clock say
// the same.
var (
	vectorIssued  = time.Date(2025, 11, 30, 12, 0, 0, 0, time.UTC)
	vectorExpires = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// makeVectors signs tokens with new keys.
func makeVectors(t *testing.T) vectors {
	k, foreign := newKeyring(t), newKeyring(t)
	good := map[string]any{
		"iss": login, "sub": "ann", "aud": endpoint, "jti": "v-1", "scope": "pay", "client_id": "desk",
		"iat": vectorIssued.Unix(), "exp": vectorExpires.Unix(),
	}
	but := func(name string, value any) map[string]any {
		c := maps.Clone(good)
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	h := func(alg, kid string, more ...any) map[string]any {
		out := header(alg, kid)
		for i := 0; i+1 < len(more); i += 2 {
			if out[more[i].(string)] = more[i+1]; more[i+1] == nil {
				delete(out, more[i].(string))
			}
		}
		return out
	}
	es := h("ES256", "p256")
	whole := sign(t, es, good, k.p256)
	parts := strings.Split(whole, ".")
	out := vectors{
		About:  "Access tokens and what becomes of each: made by TestVectors -update. The keys are of nobody.",
		Issuer: login, Audience: endpoint, Algorithms: token.Algorithms[:], Keys: map[string]json.RawMessage{login: k.set, other: foreign.set},
	}
	add := func(name, compact string, code writ.Code) *vector {
		out.Vectors = append(out.Vectors, vector{Name: name, Token: compact, Accept: code == writ.CodeAllow, Code: code})
		return &out.Vectors[len(out.Vectors)-1]
	}
	const ok, invalid, audience, expired = writ.CodeAllow, writ.CodeTokenInvalid, writ.CodeAudienceMismatch, writ.CodeTokenExpired
	add("EdDSA", sign(t, h("EdDSA", "ed"), good, k.ed), ok)
	add("ES256", whole, ok)
	add("ES384", sign(t, h("ES384", "p384"), good, k.p384), ok)
	add("RS256", sign(t, h("RS256", "rsa"), good, k.rsa), ok)
	add("PS256", sign(t, h("PS256", "rsa"), good, pss{k.rsa}), ok)
	add("typ with application/", sign(t, h("ES256", "p256", "typ", "application/at+jwt"), good, k.p256), ok)
	add("alg none, no signature", b64([]byte(`{"alg":"none","typ":"at+jwt","kid":"p256"}`))+"."+parts[1]+".", invalid)
	add("alg none, a signature", b64([]byte(`{"alg":"none","typ":"at+jwt","kid":"p256"}`))+"."+parts[1]+"."+parts[2], invalid)
	add("alg nOnE", sign(t, h("nOnE", "p256"), good, k.p256), invalid)
	add("HS256 under the RSA public key", sign(t, h("HS256", "rsa"), good, pemOf(t, k.rsa.Public())), invalid)
	add("HS256 under the EC public key", sign(t, h("HS256", "p256"), good, pemOf(t, k.p256.Public())), invalid)
	add("HS256 under the Ed25519 public key", sign(t, h("HS256", "ed"), good, []byte(k.ed.Public().(ed25519.PublicKey))), invalid)
	add("HS256 under nothing", sign(t, h("HS256", "p256"), good, []byte{}), invalid)
	add("signed by another issuer under its kid", sign(t, es, good, foreign.p256), invalid)
	add("of another issuer, signed by it", sign(t, es, but("iss", other), foreign.p256), writ.CodeSubjectMismatch)
	add("of another issuer, signed by ours", sign(t, es, but("iss", other), k.p256), invalid)
	add("an issuer that begins alike", sign(t, es, but("iss", login+".evil.example"), k.p256), invalid)
	add("a kid of nobody", sign(t, h("ES256", "nobody"), good, k.p256), invalid)
	add("a kid that is a path", sign(t, h("ES256", "../../dev/null"), good, k.p256), invalid)
	add("a key of its own", sign(t, h("ES256", "p256", "jwk", json.RawMessage(mustJSON(t, foreign.public.Keys[1]))), good, foreign.p256), invalid)
	add("a place of its own for keys", sign(t, h("ES256", "p256", "jku", "https://evil.example/keys"), good, foreign.p256), invalid)
	add("a certificate of its own", sign(t, h("ES256", "p256", "x5c", []string{"MIIB"}), good, foreign.p256), invalid)
	add("another payload", parts[0]+"."+b64([]byte(text(t, but("sub", "root"))))+"."+parts[2], invalid)
	add("another header", b64([]byte(`{"alg":"ES256","typ":"at+jwt","kid":"p256","x":1}`))+"."+parts[1]+"."+parts[2], invalid)
	add("a signature of zeros", parts[0]+"."+parts[1]+"."+b64(make([]byte, 64)), invalid)
	add("half a signature", parts[0]+"."+parts[1]+"."+b64(make([]byte, 32)), invalid)
	add("no signature", parts[0]+"."+parts[1]+".", invalid)
	add("two parts", parts[0]+"."+parts[1], invalid)
	add("four parts", whole+".AAAA", invalid)
	add("a PSS signature under RS256", sign(t, h("RS256", "rsa"), good, pss{k.rsa}), invalid)
	add("an RS256 signature under PS256", sign(t, h("PS256", "rsa"), good, k.rsa), invalid)
	add("an EC key under RS256", sign(t, h("RS256", "p256"), good, k.p256), invalid)
	add("P-256 under ES384", sign(t, h("ES384", "p256"), good, k.p256), invalid)
	add("crit that nobody knows", sign(t, h("ES256", "p256", "crit", []string{"x"}, "x", 1), good, k.p256), invalid)
	add("crit that names nothing", sign(t, h("ES256", "p256", "crit", []string{}), good, k.p256), invalid)
	add("an unencoded payload", sign(t, h("ES256", "p256", "b64", false, "crit", []string{"b64"}), good, k.p256), invalid)
	add("an id token", sign(t, h("ES256", "p256", "typ", "JWT"), good, k.p256), invalid)
	add("no typ", sign(t, h("ES256", "p256", "typ", nil), good, k.p256), invalid)
	add("for another audience", sign(t, es, but("aud", "https://other.example/mcp"), k.p256), audience)
	add("for no audience", sign(t, es, but("aud", nil), k.p256), audience)
	add("for an audience that begins alike", sign(t, es, but("aud", endpoint+"/"), k.p256), audience)
	add("expired", sign(t, es, but("exp", vectorIssued.Unix()+1), k.p256), expired)
	add("without an end", sign(t, es, but("exp", nil), k.p256), expired)
	add("not valid yet", sign(t, es, but("nbf", vectorExpires.Unix()-1), k.p256), expired)
	add("an end that is a text", sign(t, es, but("exp", "soon"), k.p256), invalid)
	add("without a subject", sign(t, es, but("sub", nil), k.p256), invalid)
	add("a payload that is no object", sign(t, es, `["ann"]`, k.p256), invalid)
	add("a payload that is no JSON", sign(t, es, "hello", k.p256), invalid)
	add("a header that is no object", b64([]byte(`"ES256"`))+"."+parts[1]+"."+parts[2], invalid)
	// Where libraries are known to say something else.
	const jose, py = "jose", "PyJWT"
	add("Ed25519 as RFC 9864 names it", sign(t, h("Ed25519", "ed"), good, k.ed), ok).Lacking = []string{jose, py}
	for _, v := range []struct {
		name, token string
		code        writ.Code
		lax         []string
	}{
		{"a subject that is a number", sign(t, es, but("sub", 7), k.p256), invalid, []string{jose}},
		{"for two audiences", sign(t, es, but("aud", []string{endpoint, "https://other.example/mcp"}), k.p256), audience, []string{jose}},
		{"a place of its own for keys, signed by ours", sign(t, h("ES256", "p256", "jku", "https://evil.example/keys"), good, k.p256), invalid, []string{jose, py}},
		{"alg twice", sign(t, `{"alg":"none","alg":"ES256","typ":"at+jwt","kid":"p256"}`, good, k.p256), invalid, []string{jose, py}},
		{"sub twice", sign(t, es, strings.Replace(text(t, good), `{`, `{"sub":"root",`, 1), k.p256), invalid, []string{jose, py}},
	} {
		add(v.name, v.token, v.code).Lax = v.lax
	}
	return out
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// bundleOf makes a world with one server, in which everybody may call its one
// tool. issuers is issuers.yaml, and keys are files of jwks/ by name.
func bundleOf(t testing.TB, issuers string, keys map[string][]byte) *bundle.Bundle {
	t.Helper()
	b, faults := bundle.Build(bundleFiles(issuers, keys), nil)
	if b == nil || len(faults) > 0 {
		t.Fatal(faults)
	}
	return b
}

func bundleFiles(issuers string, keys map[string][]byte) []bundle.File {
	files := []bundle.File{
		{Name: "servers/pay.yaml", Data: []byte("id: pay\nendpoint: " + endpoint + "\ntools:\n  get: {effect: read, scope: pay}\n")},
		{Name: "servers/pay.tools.json", Data: []byte(`{"tools":[{"name":"get","inputSchema":{"type":"object","properties":{}}}]}`)},
		{Name: "policies/a.cedar", Data: []byte(`@id("all") permit (principal, action == Action::"pay/get", resource);`)},
		{Name: "issuers.yaml", Data: []byte(issuers)},
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		files = append(files, bundle.File{Name: "jwks/" + name, Data: keys[name]})
	}
	return files
}

// decided is what becomes of a call of the bundle's tool by ann with an access
// token.
func decided(t testing.TB, v *token.Verifier, w *snapshot.Snapshot, issuer, compact string, at time.Time) writ.Decision {
	p := &writ.Proposal{
		RequestID: "r", Principal: writ.Principal{Issuer: issuer, Subject: "ann"}, Server: writ.ServerRef{ID: "pay", Endpoint: endpoint},
		Tool: "get", DefinitionDigest: w.Contract("pay", "get").Tool.Digest, AccessToken: []byte(compact),
	}
	return decide.Decide(w, w.LocalHost, v.Judge(t.Context(), w, w.LocalHost, p, at), at, nil)
}

func readVectors(t testing.TB) vectors {
	t.Helper()
	data, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var out vectors
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestVectors: each token of testdata/vectors.json is decided as it says, under
// keys that a bundle holds.
func TestVectors(t *testing.T) {
	if *updateVectors {
		var data bytes.Buffer
		e := json.NewEncoder(&data)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(makeVectors(t)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(vectorsFile, data.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := readVectors(t)
	entry := "- {issuer: '%s', principal: '%s::\"{sub}\"', actor: '%[2]sAgent::\"{sub}\"', jwks: %s, algorithms: [%s]}\n"
	algorithms := strings.Join(file.Algorithms, ", ")
	files := append(bundleFiles("issuers:\n"+fmt.Sprintf(entry, login, "Ours", "jwks/login.json", algorithms)+fmt.Sprintf(entry, other, "Theirs", "jwks/other.json", algorithms),
		map[string][]byte{"login.json": file.Keys[login], "other.json": file.Keys[other]}),
		bundle.File{Name: "schema.cedarschema", Data: []byte("entity Ours; entity OursAgent; entity Theirs; entity TheirsAgent;")})
	b, faults := bundle.Build(files, nil)
	if b == nil || len(faults) > 0 {
		t.Fatal(faults)
	}
	v := verifier(t)
	accepted := 0
	for _, c := range file.Vectors {
		for range 2 { // first, and seen before
			d := decided(t, v, b.Snapshot, login, c.Token, now)
			if d.Code != c.Code || (d.Outcome == writ.Allow) != c.Accept {
				t.Errorf("%s: %s, want %s: %s", c.Name, d.Code, c.Code, d.Explanation)
			}
		}
		if c.Accept {
			accepted++
		}
	}
	if accepted < 5 || len(file.Vectors)-accepted < 40 {
		t.Errorf("%d of %d vectors are accepted: too few of the one or of the other", accepted, len(file.Vectors))
	}
}
