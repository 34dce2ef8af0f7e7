package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
)

// issuerKeysFile holds the keys of the issuer whose raw tokens are sent.
const issuerKeysFile = "jwks/bench.json"

// issuerKey is the same in the process that sends and in the one that verifies.
func issuerKey() ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("a key for measuring, and for nothing else"))
	return ed25519.NewKeyFromSeed(seed[:])
}

func issuerKeys() bundle.File {
	public := issuerKey().Public().(ed25519.PublicKey)
	return bundle.File{Name: issuerKeysFile, Data: []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"bench","use":"sig","alg":"EdDSA","x":"` +
		base64.RawURLEncoding.EncodeToString(public) + `"}]}`)}
}

// withToken puts the access token (RFC 9068) in the place of what it says.
func withToken(p *writ.Proposal) error {
	t := p.Token
	claims, err := json.Marshal(map[string]any{
		"iss": t.Issuer, "sub": t.Subject, "aud": t.Audience[0], "scope": strings.Join(t.Scopes, " "), "jti": "bench",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	if err != nil {
		return err
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"EdDSA","kid":"bench","typ":"at+jwt"}`)) + "." + encode(claims)
	p.AccessToken = []byte(text + "." + encode(ed25519.Sign(issuerKey(), []byte(text))))
	p.Token = nil
	return nil
}
