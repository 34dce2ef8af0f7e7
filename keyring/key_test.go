package keyring_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/writ-pdp/writ/keyring"
)

// TestThumbprint: the key of RFC 8037, appendices A.1 to A.3.
func TestThumbprint(t *testing.T) {
	seed, err := base64.RawURLEncoding.DecodeString("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
	if err != nil {
		t.Fatal(err)
	}
	k, err := keyring.ParseKey(pemOf(t, ed25519.NewKeyFromSeed(seed)))
	if err != nil {
		t.Fatal(err)
	}
	if got := b64(k.Public()); got != "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" {
		t.Errorf("x is %s", got)
	}
	if got := k.ID(); got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("the thumbprint is %s", got)
	}
}

// TestSign: what is signed is what another library signs with the same header,
// and what it verifies.
func TestSign(t *testing.T) {
	payload := []byte(`{"a":"ü","b":[1,2]}`)
	for _, typ := range []keyring.Type{keyring.TypeGrant, keyring.TypeApproval, keyring.TypeReplica} {
		k := key(t, 7)
		got := k.Sign(typ, payload)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: private(7)},
			(&jose.SignerOptions{}).WithType(jose.ContentType(typ)).WithHeader("kid", k.ID()))
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		want, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s:\n%s, by go-jose\n%s", typ, got, want)
		}
		parsed, err := jose.ParseSignedCompact(got, []jose.SignatureAlgorithm{jose.EdDSA})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := parsed.Verify(private(7).Public()); err != nil || !bytes.Equal(out, payload) {
			t.Errorf("%s: go-jose reads %q: %v", typ, out, err)
		}
	}
}

func TestSignOfNoType(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a type that is none was signed")
		}
	}()
	key(t, 7).Sign("JWT", []byte("{}"))
}

func TestGenerate(t *testing.T) {
	if a, b := keyring.Generate(), keyring.Generate(); a.ID() == b.ID() || len(a.ID()) != 43 {
		t.Errorf("two keys: %s and %s", a.ID(), b.ID())
	}
}

// TestJWKS: another library reads the set, and verifies with it.
func TestJWKS(t *testing.T) {
	r := ring(t, keyring.Config{})
	k := r.Current(now)
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(r.JWKS(now), &set); err != nil {
		t.Fatal(err)
	}
	found := set.Key(k.ID())
	if len(set.Keys) != 1 || len(found) != 1 || found[0].Use != "sig" || found[0].Algorithm != "EdDSA" || !found[0].Valid() || !found[0].IsPublic() {
		t.Fatalf("the set is %s", r.JWKS(now))
	}
	parsed, err := jose.ParseSignedCompact(k.Sign(keyring.TypeGrant, []byte("{}")), []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsed.Verify(found[0]); err != nil {
		t.Error(err)
	}
	if bytes.Contains(r.JWKS(now), []byte(`"d"`)) {
		t.Error("it holds a private key")
	}
}
