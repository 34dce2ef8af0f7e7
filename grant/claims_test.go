package grant_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/keyring/keyringtest"
)

// What grants are minted with, and by whom.
const (
	minter         = "https://pdp.acme.example"
	minterInstance = "k3v9x2m4"
)

var mintedAt = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func mintRing(t testing.TB, k *keyring.Key) *keyring.Ring {
	t.Helper()
	r, err := keyring.New(keyring.Config{Key: k}, mintedAt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// digestOf is any digest; as text it is what package canon documents, and its
// own tests hold.
func digestOf(text string) canon.Digest { return sha256.Sum256([]byte(text)) }

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// payment has every claim.
func payment() *grant.Claims {
	return &grant.Claims{
		Issuer: minter, Instance: minterInstance, Audience: "payments",
		Principal: writ.Principal{Issuer: "https://login.acme.example", Subject: "raj", Tenant: "acme"},
		Actors: []writ.Actor{
			{Issuer: "https://agents.example", Subject: "copilot", Claims: map[string]string{"client_id": "ap-app", "Zone": "eu"}},
			{Subject: "planner"},
		},
		IssuedAt: mintedAt, ExpiresAt: mintedAt.Add(30 * time.Second),
		ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Revision: "b7f3-12",
		IdempotencyKey: grant.IdempotencyKey(digestOf("proposal")),
		CallDigest:     digestOf("call"), ContractDigest: digestOf("contract"),
		PolicyDigest: digestOf("policies"), ProposalDigest: digestOf("proposal"),
		Locations: []string{"https://payments.acme.example/mcp"}, Actions: []string{"create_payment"},
		KeyThumbprint: hashOf("key"), CertificateThumbprint: hashOf("certificate"),
		Basis: []string{grant.Basis("principal", "https://login.acme.example", "raj"), grant.Basis("server", "", "payments")},
	}
}

func mint(t testing.TB, k *keyring.Key, c *grant.Claims) string {
	t.Helper()
	token, err := grant.Mint(k, c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func wantFault(t *testing.T, err error, code writ.Code, why string) {
	t.Helper()
	f, ok := errors.AsType[grant.Fault](err)
	if !ok || f.Code != code || !strings.Contains(f.Why, why) || f.Why == "" {
		t.Errorf("%v, want %s with %q", err, code, why)
	}
}

// TestPayload: the text that the documentation promises.
func TestPayload(t *testing.T) {
	basis := func(kind, issuer, id string) string {
		return hashOf(fmt.Sprintf(`{"id":"%s","issuer":"%s","kind":"%s","type":"writ.basis.v1"}`, id, issuer, kind))[:12]
	}
	want := fmt.Sprintf(`{"act":{"Zone":"eu","act":{"sub":"planner"},"client_id":"ap-app","iss":"https://agents.example","sub":"copilot"},`+
		`"aud":"payments","authorization_details":[{"actions":["create_payment"],"call_digest":"%s","contract_digest":"%s",`+
		`"locations":["https://payments.acme.example/mcp"],"policy_digest":"%s","proposal_digest":"%s","type":"mcp_tool_call"}],`+
		`"basis":["%s","%s"],"cnf":{"jkt":"%s","x5t#S256":"%s"},"exp":1796126430,"iat":1796126400,"idempotency_key":"%s","instance":"k3v9x2m4",`+
		`"iss":"https://pdp.acme.example","jti":"ABCDEFGHIJKLMNOPQRSTUVWXYZ","rev":"b7f3-12","sub":"raj",`+
		`"sub_id":{"format":"iss_sub","iss":"https://login.acme.example","sub":"raj"},"tenant":"acme"}`,
		digestOf("call"), digestOf("contract"), digestOf("policies"), digestOf("proposal"),
		basis("principal", "https://login.acme.example", "raj"), basis("server", "", "payments"), hashOf("key"), hashOf("certificate"),
		hashOf(fmt.Sprintf(`{"proposal_digest":"%s","type":"writ.idempotency.v1"}`, digestOf("proposal"))))
	token := mint(t, keyringtest.Key(t, 1), payment())
	got, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil || string(got) != want {
		t.Errorf("%s\n%s\n%v", got, want, err)
	}
}

func TestIdempotencyKey(t *testing.T) {
	if got := grant.IdempotencyKey(canon.Digest{}); got != "" {
		t.Errorf("of no digest: %q", got)
	}
	if a, b := grant.IdempotencyKey(digestOf("a")), grant.IdempotencyKey(digestOf("b")); a == b || len(a) != 43 {
		t.Errorf("%s and %s", a, b)
	}
}

// leaf is one part of Claims that can be told apart from the others.
type leaf struct {
	path string
	at   func(*grant.Claims) reflect.Value
}

// leaves finds every part of Claims, however deep; a kind that it does not know
// fails the test, so that no part is left out.
func leaves(t *testing.T, path string, typ reflect.Type, at func(*grant.Claims) reflect.Value) []leaf {
	t.Helper()
	switch {
	case typ == reflect.TypeFor[time.Time](), typ == reflect.TypeFor[canon.Digest](), typ.Kind() == reflect.String, typ == reflect.TypeFor[map[string]string]():
		return []leaf{{path, at}}
	case typ.Kind() == reflect.Slice:
		out := []leaf{{path, at}}
		return append(out, leaves(t, path+"[0]", typ.Elem(), func(c *grant.Claims) reflect.Value { return at(c).Index(0) })...)
	case typ.Kind() == reflect.Struct:
		var out []leaf
		for i := range typ.NumField() {
			out = append(out, leaves(t, path+"."+typ.Field(i).Name, typ.Field(i).Type, func(c *grant.Claims) reflect.Value { return at(c).Field(i) })...)
		}
		return out
	}
	t.Fatalf("%s is of a kind that the test does not know: %v", path, typ)
	return nil
}

// claimLeaves are the parts that are in the token: all but KeyID.
func claimLeaves(t *testing.T) []leaf {
	all := leaves(t, "Claims", reflect.TypeFor[grant.Claims](), func(c *grant.Claims) reflect.Value { return reflect.ValueOf(c).Elem() })
	return slices.DeleteFunc(all, func(l leaf) bool { return l.path == "Claims.KeyID" })
}

// opened is what Open makes of a token of c.
func opened(k *keyring.Key, c *grant.Claims) grant.Claims {
	out := *c
	out.KeyID = k.ID()
	return out
}

// others are values of the same kind as v: one of them is of the same form, too.
func others(v reflect.Value) []reflect.Value {
	switch x := v.Interface().(type) {
	case time.Time:
		return []reflect.Value{reflect.ValueOf(x.Add(time.Second))}
	case canon.Digest:
		x[31]++
		return []reflect.Value{reflect.ValueOf(x)}
	case map[string]string:
		x = maps.Clone(x)
		x["further"] = "claim"
		return []reflect.Value{reflect.ValueOf(x)}
	}
	if v.Kind() == reflect.Slice {
		return []reflect.Value{reflect.AppendSlice(v.Slice3(0, v.Len(), v.Len()), v.Slice(0, 1))}
	}
	var out []reflect.Value
	for _, first := range []string{"ü", "b", "B", "C"} {
		if s := first + v.String()[1:]; s != v.String() {
			out = append(out, reflect.ValueOf(s))
		}
	}
	return out
}

// TestEveryClaim: each part of Claims is in the token, and is read back.
func TestEveryClaim(t *testing.T) {
	k := keyringtest.Key(t, 1)
	r := mintRing(t, k)
	seen := map[string]string{mint(t, k, payment()): "nothing"}
	all := claimLeaves(t)
	if len(all) < 25 {
		t.Errorf("only %d parts", len(all))
	}
	for _, l := range all {
		done := false
		for _, other := range others(l.at(payment())) {
			c := payment()
			l.at(c).Set(other)
			token, err := grant.Mint(k, c)
			if err != nil {
				continue // not of the form
			}
			done = true
			if before, ok := seen[token]; ok {
				t.Errorf("%s: the token is the one with %s changed", l.path, before)
			}
			seen[token] = l.path
			got, err := grant.Open(r, token, mintedAt.Add(time.Second), c.Issuer, c.Instance)
			if err != nil || !reflect.DeepEqual(got, opened(k, c)) {
				t.Errorf("%s:\n%+v, %v; want\n%+v", l.path, got, err, *c)
			}
		}
		if !done {
			t.Errorf("%s: could not be changed", l.path)
		}
	}
}

// TestMissingClaim: what is empty is refused, except where nothing is a thing to
// say, which then is read back.
func TestMissingClaim(t *testing.T) {
	k := keyringtest.Key(t, 1)
	r := mintRing(t, k)
	optional := []string{
		"Claims.Principal.Tenant", "Claims.Actors", "Claims.Actors[0].Issuer", "Claims.Actors[0].Claims",
		"Claims.KeyThumbprint", "Claims.CertificateThumbprint", "Claims.Basis",
	}
	for _, l := range claimLeaves(t) {
		c := payment()
		l.at(c).SetZero()
		token, err := grant.Mint(k, c)
		if !slices.Contains(optional, l.path) {
			if err == nil {
				t.Errorf("without %s: %s", l.path, token)
			}
			continue
		}
		if err != nil {
			t.Errorf("without %s: %v", l.path, err)
			continue
		}
		got, err := grant.Open(r, token, mintedAt, minter, minterInstance)
		if err != nil || !reflect.DeepEqual(got, opened(k, c)) {
			t.Errorf("without %s:\n%+v, %v; want\n%+v", l.path, got, err, *c)
		}
	}
}

func TestMintRefuses(t *testing.T) {
	k := keyringtest.Key(t, 1)
	long := strings.Repeat("a", 2049)
	for name, change := range map[string]func(*grant.Claims){
		"five minutes and a second": func(c *grant.Claims) { c.ExpiresAt = c.IssuedAt.Add(301 * time.Second) },
		"no time":                   func(c *grant.Claims) { c.ExpiresAt = c.IssuedAt },
		"less than a second":        func(c *grant.Claims) { c.ExpiresAt = c.IssuedAt.Add(time.Second - 1) },
		"an end before it begins":   func(c *grant.Claims) { c.ExpiresAt = c.IssuedAt.Add(-time.Second) },
		"before 1970":               func(c *grant.Claims) { c.IssuedAt = time.Unix(-1, 0); c.ExpiresAt = time.Unix(9, 0) },
		"the year 10,000": func(c *grant.Claims) {
			c.IssuedAt = time.Unix(253402300799, 0)
			c.ExpiresAt = time.Unix(253402300800, 0)
		},
		"years apart":               func(c *grant.Claims) { c.IssuedAt = time.Unix(1, 0) },
		"instance in capitals":      func(c *grant.Claims) { c.Instance = "K3V9" },
		"a short instance":          func(c *grant.Claims) { c.Instance = "abc" },
		"a long instance":           func(c *grant.Claims) { c.Instance = strings.Repeat("a", 33) },
		"a short jti":               func(c *grant.Claims) { c.ID = c.ID[1:] },
		"a jti in lower case":       func(c *grant.Claims) { c.ID = strings.ToLower(c.ID) },
		"a jti with a quote":        func(c *grant.Claims) { c.ID = `"` + c.ID[1:] },
		"an idempotency key":        func(c *grant.Claims) { c.IdempotencyKey = c.IdempotencyKey[1:] },
		"its stray bits":            func(c *grant.Claims) { c.IdempotencyKey = strings.Repeat("A", 42) + "B" },
		"its line end":              func(c *grant.Claims) { c.IdempotencyKey = "\n" + c.IdempotencyKey[1:] },
		"a thumbprint with a quote": func(c *grant.Claims) { c.KeyThumbprint = `"` + c.KeyThumbprint[1:] },
		"a short thumbprint":        func(c *grant.Claims) { c.CertificateThumbprint = "AA" },
		"nine actors":               func(c *grant.Claims) { c.Actors = slices.Repeat([]writ.Actor{{Subject: "a"}}, 9) },
		"an actor's many claims":    func(c *grant.Claims) { c.Actors[0].Claims = many(17) },
		"an actor's claim sub":      func(c *grant.Claims) { c.Actors[0].Claims["sub"] = "x" },
		"an actor's claim Act":      func(c *grant.Claims) { c.Actors[0].Claims["Act"] = "x" },
		"look-alike claims":         func(c *grant.Claims) { c.Actors[0].Claims["Client_ID"] = "x" },
		"a claim without a name":    func(c *grant.Claims) { c.Actors[0].Claims[""] = "x" },
		"a claim that is no text":   func(c *grant.Claims) { c.Actors[0].Claims["x"] = "\xff" },
		"a subject that is no text": func(c *grant.Claims) { c.Principal.Subject = "a\xff" },
		"an issuer that is no text": func(c *grant.Claims) { c.Actors[1].Issuer = "\xff" },
		"a long audience":           func(c *grant.Claims) { c.Audience = long },
		"129 names":                 func(c *grant.Claims) { c.Basis = slices.Repeat(c.Basis[:1], 129) },
		"a short basis":             func(c *grant.Claims) { c.Basis[0] = c.Basis[0][1:] },
		"a basis with a line end":   func(c *grant.Claims) { c.Basis[0] = "\n" + c.Basis[0][1:] },
		"nine actions":              func(c *grant.Claims) { c.Actions = slices.Repeat([]string{"a"}, 9) },
		"an empty location":         func(c *grant.Claims) { c.Locations = []string{"a", ""} },
		"more than 4 KiB":           func(c *grant.Claims) { c.Locations = []string{long[1:], long[1:]} },
	} {
		c := payment()
		change(c)
		if token, err := grant.Mint(k, c); err == nil {
			t.Errorf("%s: %s", name, token)
		} else if strings.Contains(err.Error(), "raj") {
			t.Errorf("%s: the message tells a value: %v", name, err)
		}
	}
}

func many(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprint("c", i)] = ""
	}
	return out
}

// TestLargest: up to the last byte a token is minted, and opens.
func TestLargest(t *testing.T) {
	k := keyringtest.Key(t, 1)
	r := mintRing(t, k)
	last := ""
	left := (grant.MaxSize - len(mint(t, k, payment()))) * 3 / 4
	for n := left - 16; n <= 2048; n++ {
		c := payment()
		c.Locations = append(c.Locations, strings.Repeat("a", n))
		token, err := grant.Mint(k, c)
		if err != nil {
			break
		}
		last = token
	}
	if len(last) < grant.MaxSize-1 || len(last) > grant.MaxSize {
		t.Errorf("the largest has %d bytes", len(last))
	}
	if _, err := grant.Open(r, last, mintedAt, minter, minterInstance); err != nil {
		t.Error(err)
	}
}

// TestTexts: what needs escapes in JSON, and what does not, is read back.
func TestTexts(t *testing.T) {
	k := keyringtest.Key(t, 1)
	r := mintRing(t, k)
	for _, s := range []string{"\x00\x1f\x7f", "\"\\/", "<&>", "\u2028\u202e", "ü😀", " ", "\n", "\ufeff"} {
		c := payment()
		c.Principal.Subject, c.Revision, c.Actions = s, s, []string{s}
		c.Actors[0].Claims[s] = s
		got, err := grant.Open(r, mint(t, k, c), mintedAt, minter, minterInstance)
		if err != nil || !reflect.DeepEqual(got, opened(k, c)) {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
}
