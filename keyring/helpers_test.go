package keyring_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	"github.com/writ-pdp/writ/keyring"
)

var now = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// most is a size that is not in the way.
const most = 4096

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// private is the key pair of a seed of 32 equal bytes.
func private(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func pemOf(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func key(t testing.TB, seed byte) *keyring.Key {
	t.Helper()
	k, err := keyring.ParseKey(pemOf(t, private(seed)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ring(t testing.TB, cfg keyring.Config) *keyring.Ring {
	t.Helper()
	r, err := keyring.New(cfg, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// raw is a JWS of any header and payload, signed with the key of a seed.
func raw(seed byte, header, payload string) string {
	signed := b64([]byte(header)) + "." + b64([]byte(payload))
	return signed + "." + b64(ed25519.Sign(private(seed), []byte(signed)))
}

func wantKind(t *testing.T, err error, want keyring.Kind) {
	t.Helper()
	e, ok := errors.AsType[*keyring.Error](err)
	if !ok || e.Kind != want || e.Why == "" || keyring.IsKind(err, want+1) {
		t.Errorf("kind of %v: want %d", err, want)
	}
}

func unb64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
