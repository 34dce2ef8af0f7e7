package keyring_test

import (
	"testing"
	"time"

	"github.com/writ-pdp/writ/keyring"
)

// FuzzOpen: what opens is what signing its payload gives, byte for byte.
func FuzzOpen(f *testing.F) {
	k := key(f, 1)
	r := ring(f, keyring.Config{Key: k})
	f.Add(k.Sign(keyring.TypeGrant, []byte("{}")))
	f.Add(k.Sign(keyring.TypeApproval, []byte("{}")))
	f.Add(raw(1, `{"alg":"none"}`, "{}"))
	f.Add("..")
	f.Fuzz(func(t *testing.T, compact string) {
		payload, kid, err := r.Open(keyring.TypeGrant, compact, most, now)
		if err == nil && (kid != k.ID() || k.Sign(keyring.TypeGrant, payload) != compact) {
			t.Fatalf("opened: %q", compact)
		}
	})
}

// FuzzReplica: whatever payload the root signed, what opens is certified again
// in the same text.
func FuzzReplica(f *testing.F) {
	root := key(f, 1)
	head := `{"alg":"EdDSA","kid":"` + root.ID() + `","typ":"writ-replica+jwt"}`
	statement, err := keyring.CertifyReplica(root, replica(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(head, `{"exp":1796126400,"iat":1796040000,"iss":"`+root.ID()+`","jwk":{"crv":"Ed25519","kty":"OKP","x":"`+b64(key(f, 2).Public())+`"},"sub":"a"}`)
	f.Add(head, `{"jwk":{"x":""}}`)
	f.Add(`{}`, statement)
	f.Fuzz(func(t *testing.T, head, payload string) {
		for _, at := range []time.Time{now, time.Unix(1796040000, 0)} {
			compact := raw(1, head, payload)
			p, err := keyring.OpenReplica(root.Public(), compact, at)
			if err != nil {
				continue
			}
			if again, err := keyring.CertifyReplica(root, p); err != nil || again != compact {
				t.Fatalf("%q is certified again as %q: %v", compact, again, err)
			}
		}
	})
}

// FuzzParseKey: no text is a key that panics, and a key has one text but for
// line ends.
func FuzzParseKey(f *testing.F) {
	f.Add([]byte(rfc8410))
	f.Add([]byte(rfc8410Public))
	f.Fuzz(func(t *testing.T, text []byte) {
		if k, err := keyring.ParseKey(text); (k == nil) == (err == nil) {
			t.Fatal("neither or both")
		}
		if p, err := keyring.ParsePublic(text); (p == nil) == (err == nil) {
			t.Fatal("neither or both")
		}
	})
}
