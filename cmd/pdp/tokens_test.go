package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/telemetry"
	"github.com/writ-pdp/writ/token"
)

const (
	issuerOne = "https://one.example"
	issuerTwo = "https://two.example"
	payPlace  = "https://pay.example/mcp"
	safePlace = "https://safe.example/mcp"
)

// tokenBundle is a bundle with two servers, of which safe wants tokens that
// are bound to a key, and two issuers whose keys are behind URLs.
func tokenBundle(t *testing.T, one, two string) string {
	t.Helper()
	const tools = `{"tools":[{"name":"get","inputSchema":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}}]}`
	dir := t.TempDir()
	for name, text := range map[string]string{
		"servers/pay.yaml":        "id: pay\nendpoint: " + payPlace + "\ndefaults: {scope: pay}\ntools:\n  get: {effect: read}\n",
		"servers/pay.tools.json":  tools,
		"servers/safe.yaml":       "id: safe\nendpoint: " + safePlace + "\nproof_of_possession: true\ntools:\n  get: {effect: read}\n",
		"servers/safe.tools.json": tools,
		"callers.yaml":            "callers:\n- {name: desk, role: host, local: true}\n",
		"issuers.yaml": "issuers:\n- {issuer: '" + issuerOne + "', principal: 'User::\"one|{sub}\"', actor: 'Agent::\"one|{client_id}\"', jwks: '" + one + "', allow_private_addresses: true, algorithms: [ES256]}\n" +
			"- {issuer: '" + issuerTwo + "', principal: 'User::\"two|{sub}\"', actor: 'Agent::\"two|{client_id}\"', jwks: '" + two + "', allow_private_addresses: true}\n",
		"entities/all.json": `[{"uid":{"type":"Group","id":"staff"},"attrs":{},"parents":[]},{"uid":{"type":"Group","id":"bots"},"attrs":{},"parents":[]},
{"uid":{"type":"User","id":"one|ann"},"attrs":{},"parents":[{"type":"Group","id":"staff"}]},
{"uid":{"type":"Agent","id":"one|bot"},"attrs":{},"parents":[{"type":"Group","id":"bots"}]}]`,
		"policies/a.cedar": "@id(\"staff\") permit (principal in Group::\"staff\", action in Action::\"read\", resource);\n" +
			"@id(\"bots\") permit (principal in Group::\"bots\", action in Action::\"read\", resource);\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// signer signs the tokens of one issuer.
type signer struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	kid    string
	issuer string
}

func newSigner(t *testing.T, issuer, kid string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{t, key, kid, issuer}
}

// publishKeys serves the public keys of signers on loopback.
func publishKeys(t *testing.T, signers ...*signer) string {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, s := range signers {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid, Use: "sig", Algorithm: "ES256"})
	}
	data, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/jwk-set+json")
		_, _ = w.Write(data)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// token makes an access token of ann for the server pay, with claims changed;
// nil removes one.
func (s *signer) token(change map[string]any) string {
	s.t.Helper()
	now := time.Now()
	claims := map[string]any{
		"iss": s.issuer, "sub": "ann", "aud": payPlace, "scope": "openid pay", "client_id": "desk-app", "jti": rand.Text(),
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return s.sign(claims, "at+jwt", false)
}

func (s *signer) sign(claims map[string]any, typ jose.ContentType, embed bool) string {
	s.t.Helper()
	options := (&jose.SignerOptions{EmbedJWK: embed}).WithType(typ)
	if !embed {
		options = options.WithHeader("kid", s.kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, options)
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// proof makes a DPoP proof (RFC 9449, section 4.2) for a call of the server
// safe with a token.
func (s *signer) proof(access string) string {
	sum := sha256.Sum256([]byte(access))
	return s.sign(map[string]any{
		"jti": rand.Text(), "htm": "POST", "htu": safePlace, "iat": time.Now().Unix(), "ath": base64.RawURLEncoding.EncodeToString(sum[:]),
	}, "dpop+jwt", true)
}

// thumbprint is the cnf of a token that is bound to the signer's key.
func (s *signer) thumbprint() map[string]any {
	jkt, err := token.Thumbprint(s.key.Public())
	if err != nil {
		s.t.Fatal(err)
	}
	return map[string]any{"jkt": jkt}
}

// running is a service that runs until the test ends.
type running struct {
	*service
	t    *testing.T
	data string
	log  *output
	host *client
	b    *bundle.Bundle
	stop func()
}

func serveBundle(t *testing.T, dir string) *running {
	t.Helper()
	files, err := bundle.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, data: t.TempDir(), log: &output{}}
	b, faults := bundle.Build(files, nil)
	if b == nil || len(faults) > 0 {
		t.Fatal(faults)
	}
	r.b = b
	logger := slog.New(telemetry.Handler(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if r.service, err = start(t.Context(), serviceConfig{
		source: sourceConfig{dir: dir, persist: true}, data: r.data, grpcAddr: "127.0.0.1:0", httpAddr: "127.0.0.1:0", log: logger,
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- r.service.run(ctx, func() error { close(ready); return nil }) }()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		if r.host != nil {
			r.host.close()
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(r.stop)
	select {
	case <-ready:
	case err := <-served:
		served <- nil
		t.Fatal(err)
	}
	if r.host, err = dial(r.grpc.Addr().String(), r.credentials.Dir(), server.HostFile); err != nil {
		t.Fatal(err)
	}
	return r
}

// call is a valid call of a tool, for ann of the first issuer, without a token.
func (r *running) call(tool string) *writv1.Proposal {
	r.t.Helper()
	s, faults := r.b.ReadScenarios(bundle.File{Name: "call.yaml", Data: []byte(
		"cases: [{name: call, principal: 'User::\"one|ann\"', tool: " + tool + ", arguments: {id: x}, expect: ALLOW}]\n")})
	if s == nil {
		r.t.Fatal(faults)
	}
	call := s[0].At(time.Now().UTC())
	call.Proposal.RequestID, call.Proposal.Token = rand.Text(), nil
	p, err := server.ProposalToProto(&call.Proposal)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *running) decide(p *writv1.Proposal) *writv1.Decision {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	answer, err := r.host.decide(ctx, p)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.GetDecision()
}

// warm waits until the keys of signers have been fetched: a call waits for
// them no longer than a second.
func (r *running) warm(signers ...*signer) {
	r.t.Helper()
	for _, s := range signers {
		p := r.call("pay/get")
		p.AccessToken = s.token(map[string]any{"aud": "https://nobody.example"})
		for deadline := time.Now().Add(time.Minute); r.decide(p).GetCode() == string(writ.CodeTokenInvalid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				r.t.Fatal("the keys are never fetched")
			}
		}
	}
}

// TestAccessTokens: raw tokens, over gRPC, under keys that are fetched.
func TestAccessTokens(t *testing.T) {
	one, two, stranger := newSigner(t, issuerOne, "k1"), newSigner(t, issuerTwo, "k1"), newSigner(t, issuerOne, "k1")
	r := serveBundle(t, tokenBundle(t, publishKeys(t, one), publishKeys(t, two)))
	r.warm(one, two)
	type raw = map[string]any
	now := time.Now()
	bound := one.token(raw{"aud": safePlace, "cnf": one.thumbprint()})
	proof := one.proof(bound)
	for _, c := range []struct {
		name   string
		tool   string
		change func(*writv1.Proposal)
		token  string
		want   writ.Code
	}{
		{"valid", "pay/get", nil, one.token(nil), writ.CodeAllow},
		{"none", "pay/get", nil, "", writ.CodeTokenInvalid},
		{"passed through: for another server of the bundle", "pay/get", nil, one.token(raw{"aud": safePlace}), writ.CodeAudienceMismatch},
		{"for two servers", "pay/get", nil, one.token(raw{"aud": []string{payPlace, safePlace}}), writ.CodeAudienceMismatch},
		{"for nobody", "pay/get", nil, one.token(raw{"aud": nil}), writ.CodeAudienceMismatch},
		{"confused deputy: the host's own token for a user", "pay/get", nil, one.token(raw{"sub": "desk-app"}), writ.CodeSubjectMismatch},
		{"another user's", "pay/get", func(p *writv1.Proposal) { p.Principal.Subject = "eve" }, one.token(nil), writ.CodeSubjectMismatch},
		{"the same subject of another issuer", "pay/get", nil, two.token(nil), writ.CodeSubjectMismatch},
		{"that subject is another entity", "pay/get", func(p *writv1.Proposal) { p.Principal.Issuer = issuerTwo }, two.token(nil), writ.CodeNoPermit},
		{"signed by the other issuer", "pay/get", nil, (&signer{t, two.key, "k1", issuerOne}).token(nil), writ.CodeTokenInvalid},
		{"signed by nobody", "pay/get", nil, stranger.token(nil), writ.CodeTokenInvalid},
		{"of an unknown issuer", "pay/get", nil, (&signer{t, one.key, "k1", "https://three.example"}).token(nil), writ.CodeTokenInvalid},
		{"an id token", "pay/get", nil, one.sign(raw{"iss": issuerOne, "sub": "ann", "aud": payPlace, "scope": "pay", "exp": now.Add(time.Hour).Unix()}, "JWT", false), writ.CodeTokenInvalid},
		{"expired by a second", "pay/get", nil, one.token(raw{"exp": now.Add(-time.Second).Unix()}), writ.CodeTokenExpired},
		{"without an end", "pay/get", nil, one.token(raw{"exp": nil}), writ.CodeTokenExpired},
		{"not valid yet", "pay/get", nil, one.token(raw{"nbf": now.Add(time.Minute).Unix()}), writ.CodeTokenExpired},
		{"without the scope", "pay/get", nil, one.token(raw{"scope": "payments"}), writ.CodeScopeMissing},
		{"its actor may", "pay/get", nil, one.token(raw{"act": raw{"sub": "bot", "client_id": "bot"}}), writ.CodeAllow},
		{"its actor may not", "pay/get", nil, one.token(raw{"act": raw{"sub": "rob", "client_id": "rob"}}), writ.CodeNoPermit},
		{"may_act names the actor", "pay/get", actor("bot"), one.token(raw{"may_act": raw{"sub": "bot"}}), writ.CodeAllow},
		{"may_act names another", "pay/get", actor("bot"), one.token(raw{"may_act": raw{"sub": "rob"}}), writ.CodeTokenInvalid},
		{"may_act names the actor of another issuer", "pay/get", actor("bot"), one.token(raw{"may_act": raw{"sub": "bot", "iss": issuerTwo}}), writ.CodeTokenInvalid},
		{"claims from who may not vouch", "pay/get", claimed(now), "", writ.CodeTokenInvalid},
		{"claims and a token", "pay/get", claimed(now), one.token(nil), writ.CodeMalformedProposal},
		{"bound, with its proof", "safe/get", proven(proof), bound, writ.CodeAllow},
		{"bound, with a proof that was used", "safe/get", proven(proof), bound, writ.CodeTokenInvalid},
		{"bound, without a proof", "safe/get", nil, bound, writ.CodeTokenInvalid},
		{"bound, with a stranger's proof", "safe/get", proven(stranger.proof(bound)), bound, writ.CodeTokenInvalid},
		{"bound, and the host says that it saw the certificate", "safe/get", func(p *writv1.Proposal) { p.ClientCertificateSha256 = "abc" },
			one.token(raw{"aud": safePlace, "cnf": raw{"x5t#S256": "abc"}}), writ.CodeTokenInvalid},
		{"not bound", "safe/get", nil, one.token(raw{"aud": safePlace}), writ.CodeTokenInvalid},
	} {
		p := r.call(c.tool)
		p.AccessToken = c.token
		if c.change != nil {
			c.change(p)
		}
		if d := r.decide(p); d.GetCode() != string(c.want) {
			t.Errorf("%s: %s, want %s: %s", c.name, d.GetCode(), c.want, d.GetExplanation())
		}
	}
}

func actor(name string) func(*writv1.Proposal) {
	return func(p *writv1.Proposal) {
		p.Actors = []*writv1.Actor{{Subject: name, Claims: map[string]string{"client_id": name}}}
	}
}

func proven(proof string) func(*writv1.Proposal) {
	return func(p *writv1.Proposal) { p.DpopProof = proof }
}

func claimed(now time.Time) func(*writv1.Proposal) {
	return func(p *writv1.Proposal) {
		p.Token = &writv1.Token{Issuer: issuerOne, Subject: "ann", Audience: []string{payPlace}, Scopes: []string{"pay"}, ExpiresAt: timestamppb.New(now.Add(time.Hour))}
	}
}

// TestTokenRevoked: a token that was seen before is not verified again, and is
// denied all the same at the next call after it, its key or its subject has
// been revoked.
func TestTokenRevoked(t *testing.T) {
	one := newSigner(t, issuerOne, "k1")
	url := publishKeys(t, one)
	r := serveBundle(t, tokenBundle(t, url, url))
	r.warm(one)
	checked := r.tokens.Checked()
	access := one.token(map[string]any{"jti": "t-1"})
	ask := func() string {
		p := r.call("pay/get")
		p.AccessToken = access
		return r.decide(p).GetCode()
	}
	for range 20 {
		if code := ask(); code != "ALLOW" {
			t.Fatal(code)
		}
	}
	if n := r.tokens.Checked() - checked; n != 1 {
		t.Errorf("%d signatures were checked of one token", n)
	}
	for _, c := range []struct {
		name []string
		want writ.Code
	}{
		{[]string{"token", issuerOne, "t-1"}, writ.CodeTokenRevoked},
		{[]string{"key", issuerOne, "k1"}, writ.CodeTokenRevoked},
		{[]string{"principal", issuerOne, "ann"}, writ.CodePrincipalRevoked},
		{[]string{"issuer", issuerOne}, writ.CodeIssuerRevoked},
	} {
		for _, lift := range []bool{false, true} {
			args := append([]string{"revoke", "--server", r.grpc.Addr().String(), "--data", r.data, "--reason", "test"}, c.name...)
			want := c.want
			if lift {
				args, want = append(args, "--lift"), writ.CodeAllow
			}
			var errs output
			if code := run(t.Context(), args, nil, &errs, &errs); code != exitOK {
				t.Fatalf("%v: %s", args, errs.String())
			}
			if got := ask(); got != string(want) {
				t.Errorf("%v, lifted %t: %s, want %s", c.name, lift, got, want)
			}
		}
	}
	if n := r.tokens.Checked() - checked; n != 1 {
		t.Errorf("%d signatures were checked of one token", n)
	}
}
