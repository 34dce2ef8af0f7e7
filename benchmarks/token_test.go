package benchmarks

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// tokenWorld is the payment bundle with a key of its issuer, and the token of
// a payment that is signed with it.
func tokenWorld(b *testing.B, alg jose.SignatureAlgorithm, key crypto.Signer) (*snapshot.Snapshot, []byte) {
	b.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Use: "sig"}}})
	if err != nil {
		b.Fatal(err)
	}
	files := maps.Clone(paymentFiles)
	files["jwks/login.json"] = string(set)
	files["issuers.yaml"] = `issuers: [{issuer: "https://login.example", principal: 'User::"{sub}"', actor: 'Agent::"{client_id}"', tenant: acme, jwks: jwks/login.json, algorithms: [` + string(alg) + `]}]`
	world := build(b, files)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", "k"))
	if err != nil {
		b.Fatal(err)
	}
	compact, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": "https://login.example", "sub": "raj", "aud": world.Servers["payments"].Audience, "scope": "payments:create", "jti": "t-1",
		"client_id": "ap-app", "iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
	}).Serialize()
	if err != nil {
		b.Fatal(err)
	}
	return world, []byte(compact)
}

// withKey makes a key of each algorithm.
func withKey(b *testing.B, run func(alg jose.SignatureAlgorithm, key crypto.Signer)) {
	b.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	run(jose.EdDSA, ed)
	for alg, curve := range map[jose.SignatureAlgorithm]elliptic.Curve{jose.ES256: elliptic.P256(), jose.ES384: elliptic.P384(), jose.ES512: elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		run(alg, key)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.Fatal(err)
	}
	run(jose.RS256, key)
	run(jose.PS256, key)
}

// BenchmarkToken is what a token costs by its algorithm, when it is seen first
// and when it was seen before; RSA keys have 2048 bits.
func BenchmarkToken(b *testing.B) {
	withKey(b, func(alg jose.SignatureAlgorithm, key crypto.Signer) {
		world, compact := tokenWorld(b, alg, key)
		p := &writ.Proposal{AccessToken: compact}
		// What was seen under another entry of the issuer counts as not seen.
		entry := *world.Issuers["https://login.example"]
		twin := &snapshot.Snapshot{Issuers: map[string]*snapshot.Issuer{entry.Name: &entry}}
		for name, worlds := range map[string][2]*snapshot.Snapshot{"first": {world, twin}, "before": {world, world}} {
			b.Run(string(alg)+"/"+name, func(b *testing.B) {
				v := token.New(token.Config{})
				defer v.Close()
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					if t := v.Verify(b.Context(), worlds[n%2], false, p, now); !t.Verified {
						b.Fatal(t.Invalid)
					}
				}
			})
		}
	})
}

// BenchmarkDecideToken is the payment of BenchmarkDecide with a token that was
// seen before, with one that is seen first, and with what it says, verified by
// the caller.
func BenchmarkDecideToken(b *testing.B) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	world, compact := tokenWorld(b, jose.ES256, key)
	caller, claims := payment(world)
	raw := *claims
	raw.Token, raw.AccessToken = nil, compact
	vouching := *caller
	vouching.Vouches = append([]writ.SourceKind{writ.SourceToken}, caller.Vouches...)
	entry, twin := *world.Issuers["https://login.example"], *world
	twin.Issuers = map[string]*snapshot.Issuer{entry.Name: &entry}
	for _, c := range []struct {
		name   string
		caller *writ.Caller
		p      *writ.Proposal
		worlds [2]*snapshot.Snapshot
	}{
		{"claims", &vouching, claims, [2]*snapshot.Snapshot{world, world}},
		{"before", caller, &raw, [2]*snapshot.Snapshot{world, world}},
		{"first", caller, &raw, [2]*snapshot.Snapshot{world, &twin}},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := token.New(token.Config{})
			defer v.Close()
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				w := c.worlds[n%2]
				if d := decide.Decide(w, c.caller, v.Judge(b.Context(), w, c.caller, c.p, now), now, nil); d.Code != writ.CodeAllow {
					b.Fatalf("%s: %s", d.Code, d.Explanation)
				}
			}
		})
	}
}
