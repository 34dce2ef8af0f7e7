// Package keyringtest has what tests of signed things need: keys that are
// always the same, JWS of any header, and a file of vectors for each type,
// which other languages run, too.
package keyringtest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"

	"github.com/writ-pdp/writ/keyring"
)

// Private is the key pair of a seed of 32 equal bytes. Anybody can make it.
func Private(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

// Key is the same key as a ring signs with.
func Key(t testing.TB, seed byte) *keyring.Key {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(Private(seed))
	if err != nil {
		t.Fatal(err)
	}
	k, err := keyring.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Base64 is base64url without padding.
func Base64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Raw is a compact JWS of any header and payload, signed with the key of a seed.
func Raw(seed byte, header, payload string) string {
	signed := Base64([]byte(header)) + "." + Base64([]byte(payload))
	return signed + "." + Base64(ed25519.Sign(Private(seed), []byte(signed)))
}
