package token_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/snapshot"
)

func groupNames(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("g", i)
	}
	return out
}

// TestGroups: the claim that the issuer's entry names holds the groups, within
// their bounds, and no other claim does.
func TestGroups(t *testing.T) {
	k := newKeyring(t)
	for name, test := range map[string]struct {
		claim   string // of the entry
		payload map[string]any
		want    []string
		why     string // part of Invalid; empty: it is verified
	}{
		"a list":                        {"groups", with("groups", []string{"a", "b", "a"}), []string{"a", "b", "a"}, ""},
		"a text":                        {"groups", with("groups", "a b"), []string{"a b"}, ""},
		"an empty list":                 {"groups", with("groups", []string{}), nil, ""},
		"none":                          {"groups", claims(), nil, ""},
		"another claim":                 {"https://x.example/groups", with("https://x.example/groups", []string{"a"}), []string{"a"}, ""},
		"a claim that is not named":     {"roles", with("groups", []string{"a"}), nil, ""},
		"an entry without groups":       {"", with("groups", []string{"a"}), nil, ""},
		"an entry without groups, odd":  {"", with("groups", 7), nil, ""},
		"256 groups":                    {"groups", with("groups", groupNames(256)), groupNames(256), ""},
		"257 groups":                    {"groups", with("groups", groupNames(257)), nil, "groups"},
		"256 bytes":                     {"groups", with("groups", []string{strings.Repeat("x", 256)}), []string{strings.Repeat("x", 256)}, ""},
		"257 bytes":                     {"groups", with("groups", []string{strings.Repeat("x", 257)}), nil, "groups"},
		"a number":                      {"groups", with("groups", 7), nil, "groups"},
		"a number among them":           {"groups", with("groups", []any{"a", 7}), nil, "groups"},
		"an object":                     {"groups", with("groups", map[string]any{"a": true}), nil, "groups"},
		"a list in a list":              {"groups", with("groups", []any{[]string{"a"}}), nil, "groups"},
		"null":                          {"groups", nullGroups(), nil, "groups"},
		"elsewhere":                     {"groups", with("_claim_names", map[string]any{"groups": "src1"}), nil, "elsewhere"},
		"elsewhere, and some here":      {"groups", withBoth("_claim_names", map[string]any{"groups": "src1"}, "groups", []string{"a"}), nil, "elsewhere"},
		"something else is elsewhere":   {"groups", withBoth("_claim_names", map[string]any{"address": "src1"}, "groups", []string{"a"}), []string{"a"}, ""},
		"names of claims that are none": {"groups", with("_claim_names", "groups"), nil, "_claim_names"},
		"groups within the actor":       {"groups", with("act", map[string]any{"sub": "x", "groups": []string{"a"}}), nil, ""},
	} {
		w := world(&snapshot.Issuer{Name: login, Keys: k.set, GroupsClaim: test.claim})
		got := verify(t, w, sign(t, header("ES256", "p256"), test.payload, k.p256))
		switch {
		case test.why != "" && (got.Verified || !strings.Contains(got.Invalid, test.why) || len(got.Groups) > 0):
			t.Errorf("%s: verified %t, %q, groups %v", name, got.Verified, got.Invalid, got.Groups)
		case test.why == "" && (!got.Verified || !slices.Equal(got.Groups, test.want)):
			t.Errorf("%s: verified %t, %q, groups %v, want %v", name, got.Verified, got.Invalid, got.Groups, test.want)
		}
	}
}

func withBoth(name string, value any, also string, another any) map[string]any {
	c := with(name, value)
	c[also] = another
	return c
}

func nullGroups() map[string]any {
	c := claims()
	c["groups"] = nil
	return c
}

// TestGroupsFollowTheEntry: a token that was seen before is read anew once the
// entry says something else of groups.
func TestGroupsFollowTheEntry(t *testing.T) {
	k := newKeyring(t)
	compact := sign(t, header("ES256", "p256"), withBoth("groups", []string{"a"}, "roles", []string{"b"}), k.p256)
	v := verifier(t)
	for _, test := range []struct {
		claim string
		want  []string
	}{{"groups", []string{"a"}}, {"roles", []string{"b"}}, {"", nil}, {"groups", []string{"a"}}} {
		w := world(&snapshot.Issuer{Name: login, Keys: k.set, GroupsClaim: test.claim})
		if got := v.Verify(t.Context(), w, false, proposal(compact), now); !got.Verified || !slices.Equal(got.Groups, test.want) {
			t.Errorf("claim %q: %v, %s", test.claim, got.Groups, got.Invalid)
		}
	}
}

// TestGroupsByWord: what a caller says of groups counts from one that vouches
// for tokens only, whether the bundle has keys or not.
func TestGroupsByWord(t *testing.T) {
	k := newKeyring(t)
	vouches := &writ.Caller{Name: "gateway", Vouches: []writ.SourceKind{writ.SourceToken}}
	host := &writ.Caller{Name: "host", Vouches: []writ.SourceKind{writ.SourceUser}}
	for name, test := range map[string]struct {
		issuer snapshot.Issuer
		caller *writ.Caller
		want   bool
	}{
		"keys, vouches":                {snapshot.Issuer{Keys: k.set, GroupsClaim: "groups"}, vouches, true},
		"keys":                         {snapshot.Issuer{Keys: k.set, GroupsClaim: "groups"}, host, false},
		"no keys, vouches":             {snapshot.Issuer{GroupsClaim: "groups"}, vouches, true},
		"no keys":                      {snapshot.Issuer{GroupsClaim: "groups"}, host, false},
		"no keys, nobody":              {snapshot.Issuer{GroupsClaim: "groups"}, nil, false},
		"no keys and no groups at all": {snapshot.Issuer{}, host, true},
	} {
		issuer := test.issuer
		issuer.Name = login
		p := &writ.Proposal{Token: &writ.Token{Issuer: login, Subject: "ann", Groups: []string{"a"}, Verified: true}}
		got := verifier(t).Judge(t.Context(), world(&issuer), test.caller, p, now)
		if got.Token.Verified != test.want {
			t.Errorf("%s: counts %t, want %t", name, got.Token.Verified, test.want)
		}
	}
}

// TestActChain: a chain of eight is read whole, outermost first, and one of
// nine is no token.
func TestActChain(t *testing.T) {
	k := newKeyring(t)
	w := world(&snapshot.Issuer{Name: login, Keys: k.set})
	for n := 1; n <= 9; n++ {
		var act map[string]any
		for i := n; i > 0; i-- {
			outer := map[string]any{"sub": fmt.Sprint("a", i), "client_id": fmt.Sprint("c", i), "iss": other}
			if act != nil {
				outer["act"] = act
			}
			act = outer
		}
		got := verify(t, w, sign(t, header("ES256", "p256"), with("act", act), k.p256))
		if n == 9 {
			if got.Verified || !strings.Contains(got.Invalid, "8 actors") {
				t.Errorf("nine actors: %+v", got)
			}
			continue
		}
		if !got.Verified || len(got.Actors) != n {
			t.Fatalf("%d actors: %d, %s", n, len(got.Actors), got.Invalid)
		}
		for i, a := range got.Actors {
			if a.Subject != fmt.Sprint("a", i+1) || a.Issuer != other || a.Claims["client_id"] != fmt.Sprint("c", i+1) {
				t.Errorf("actor %d of %d: %+v", i+1, n, a)
			}
		}
	}
}
