package token_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/writ-pdp/writ/snapshot"
)

// TestRenamedKey: a token without a kid is of the key that its issuer has now,
// also where it was verified when that key had another name. Otherwise a
// revocation of the new name would not stop it, and one of the old name would.
func TestRenamedKey(t *testing.T) {
	k := newKeyring(t)
	s := newKeyServer(t)
	named := func(id string) []byte {
		set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: k.p256.Public(), KeyID: id}}})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	for name, publish := range map[string]func(id string) *snapshot.Issuer{
		"fetched": func(id string) *snapshot.Issuer { s.publish(named(id)); return s.issuer() },
		"of the bundle": func(id string) *snapshot.Issuer {
			return &snapshot.Issuer{Name: login, Keys: named(id)}
		},
	} {
		v := verifier(t)
		compact := sign(t, header("ES256", ""), claims(), k.p256)
		w := world(publish("a"))
		if got := v.Verify(t.Context(), w, false, proposal(compact), now); got.KeyID != "a" {
			t.Fatalf("%s: %+v", name, got)
		}
		i := publish("b")
		if name == "fetched" {
			i = w.Issuers[login]
		}
		if got := v.Verify(t.Context(), world(i), false, proposal(compact), now.Add(11*time.Minute)); !got.Verified || got.KeyID != "b" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
