package grant_test

import (
	"fmt"
	"testing"

	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring/keyringtest"
)

// FuzzOpen: whatever opens is minted again in the same bytes under the same
// key. No text but one that was signed ever opens.
func FuzzOpen(f *testing.F) {
	k := keyringtest.Key(f, 1)
	r := mintRing(f, k)
	f.Add(mint(f, k, payment()))
	for _, n := range keyringtest.Hostile(f, "writ-grant+jwt", `{"iss":"x","iat":1}`) {
		f.Add(n.Token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		c, err := grant.Open(r, token, mintedAt, minter, minterInstance)
		if err != nil {
			return
		}
		if again, err := grant.Mint(k, &c); err != nil || again != token {
			t.Fatalf("%q is minted as %q: %v", token, again, err)
		}
	})
}

// FuzzPayload: the same of any payload that the key has signed.
func FuzzPayload(f *testing.F) {
	k := keyringtest.Key(f, 1)
	r := mintRing(f, k)
	head := fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"typ":"writ-grant+jwt"}`, k.ID())
	f.Add(textOf(f, vectorClaims()))
	f.Add(textOf(f, by(vectorClaims(), object{"act": nested(8), "tenant": nil, "cnf": nil, "basis": nil})))
	f.Add(textOf(f, by(vectorClaims(), object{"exp": 1e300})))
	f.Add(`{"act":{"act":[]},"aud":1,"authorization_details":[[]],"cnf":"","sub_id":[],"exp":-1}`)
	f.Fuzz(func(t *testing.T, payload string) {
		token := keyringtest.Raw(1, head, payload)
		c, err := grant.Open(r, token, mintedAt, minter, minterInstance)
		if err != nil {
			return
		}
		if again, err := grant.Mint(k, &c); err != nil || again != token {
			t.Fatalf("%q is minted as %q: %v", token, again, err)
		}
	})
}
