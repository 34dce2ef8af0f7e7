package keyring_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"testing"

	"github.com/writ-pdp/writ/keyring"
)

// TestSmallOrder: keys under which a signature that nobody made verifies, which
// the test shows first, are no keys here; neither are coordinates that have
// another form.
func TestSmallOrder(t *testing.T) {
	const p1 = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff" // 30 bytes of p
	for _, c := range []struct {
		point string
		weak  bool
	}{
		{"0100000000000000000000000000000000000000000000000000000000000000", true},
		{"ec" + p1 + "7f", true},
		{"0000000000000000000000000000000000000000000000000000000000000000", true},
		{"0000000000000000000000000000000000000000000000000000000000000080", true},
		{"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", true},
		{"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85", true},
		{"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", true},
		{"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa", true},
		{"0100000000000000000000000000000000000000000000000000000000000080", false},
		{"ed" + p1 + "7f", false}, {"ed" + p1 + "ff", false}, {"ee" + p1 + "7f", false}, {"ff" + p1 + "7f", false}, {"ff" + p1 + "ff", false},
	} {
		public, err := hex.DecodeString(c.point)
		if err != nil || len(public) != 32 {
			t.Fatal(err, len(public))
		}
		if c.weak && !trivial(public) {
			t.Errorf("%s: the test is no proof: nothing was forged", c.point)
		}
		if _, err := keyring.MarshalPublic(public); err == nil {
			t.Errorf("%s: is taken for a key", c.point)
		}
		der, err := x509.MarshalPKIXPublicKey(ed25519.PublicKey(public))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.ParsePublic(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})); err == nil {
			t.Errorf("%s: is read as a key", c.point)
		}
		if _, err := keyring.CertifyReplica(key(t, 1), keyring.Replica{Name: "a", Public: public, IssuedAt: now, ExpiresAt: now.Add(1e9)}); err == nil {
			t.Errorf("%s: is certified", c.point)
		}
	}
}

// trivial reports whether a signature that needs no secret (R is the neutral
// element, s is 0) verifies for some message.
func trivial(public []byte) bool {
	neutral := make([]byte, 64)
	neutral[0] = 1
	for i := range 1000 {
		if ed25519.Verify(public, fmt.Append(nil, i), neutral) {
			return true
		}
	}
	return false
}
