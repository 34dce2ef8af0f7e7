package token_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// FuzzVerify: no text but the one that was signed is ever verified.
func FuzzVerify(f *testing.F) {
	k := newKeyring(f)
	w := world(&snapshot.Issuer{Name: login, Keys: k.set})
	good := sign(f, header("ES256", "p256"), claims(), k.p256)
	parts := strings.Split(good, ".")
	for _, s := range []string{good, "", "..", "a.b.c", parts[0] + "." + parts[1] + ".", b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".AA"} {
		f.Add(s)
	}
	v := verifier(f)
	f.Fuzz(func(t *testing.T, compact string) {
		got := v.Verify(t.Context(), w, false, proposal(compact), now)
		if got.Verified == (got.Invalid != "") {
			t.Fatalf("neither or both: %+v", got)
		}
		if got.Verified && compact != good {
			t.Fatalf("verified: %q", compact)
		}
	})
}

// FuzzHeader: whatever stands in header and payload, of a text signed by the
// issuer, nothing panics, and what is verified names a subject.
func FuzzHeader(f *testing.F) {
	k := newKeyring(f)
	w := world(&snapshot.Issuer{Name: login, Keys: k.set, GroupsClaim: "groups"})
	for _, s := range []struct{ header, payload string }{
		{`{"alg":"ES256","typ":"at+jwt","kid":"p256"}`, `{"iss":"https://login.example","sub":"ann"}`},
		{`{"alg":"ES256"}`, `{"act":{"sub":"a","act":{"sub":"b"}}}`},
		{`[]`, `{"aud":["a",1]}`}, {`{"alg":"none"}`, `{"exp":1e400}`}, {`{"jwk":{}}`, `{"cnf":{"jkt":""}}`},
		{`{"alg":"ES256","typ":"at+jwt","kid":"p256"}`, `{"iss":"https://login.example","sub":"ann","groups":["a","b"],"_claim_names":{"x":"y"}}`},
	} {
		f.Add(s.header, s.payload)
	}
	v := verifier(f)
	f.Fuzz(func(t *testing.T, header, payload string) {
		got := v.Verify(t.Context(), w, false, proposal(sign(t, header, payload, k.p256)), now)
		if got.Verified && (got.Subject == "" || got.Issuer != login) {
			t.Fatalf("%+v", got)
		}
		if len(got.Groups) > token.MaxGroups || slices.ContainsFunc(got.Groups, func(g string) bool { return len(g) > token.MaxGroup }) || len(got.Actors) > token.MaxActors {
			t.Fatalf("%+v", got)
		}
	})
}

// FuzzKeys: no text is a key set that panics.
func FuzzKeys(f *testing.F) {
	k := newKeyring(f)
	f.Add(k.set)
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"","y":"","x5c":[1]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if keys, err := token.ParseKeys(data); (keys == nil) == (err == nil) {
			t.Fatal("neither or both")
		}
	})
}
