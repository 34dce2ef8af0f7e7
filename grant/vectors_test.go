package grant_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/keyring/keyringtest"
)

var updateVectors = flag.Bool("update", false, "write testdata/vectors.json anew")

// object is a JSON object, whose text has the members in the order of their
// names and, as long as all is plain ASCII, is its RFC 8785 form.
type object = map[string]any

func textOf(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// by returns c with some members changed; nil takes one away.
func by(c object, changes object) object {
	c = maps.Clone(c)
	for name, value := range changes {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// vectorClaims are those of payment, written by hand.
func vectorClaims() object {
	detail := object{
		"type": "mcp_tool_call", "actions": []string{"create_payment"}, "locations": []string{"https://payments.acme.example/mcp"},
		"call_digest": digestOf("call").String(), "contract_digest": digestOf("contract").String(),
		"policy_digest": digestOf("policies").String(), "proposal_digest": digestOf("proposal").String(),
	}
	return object{
		"iss": minter, "instance": minterInstance, "aud": "payments", "sub": "raj",
		"sub_id": object{"format": "iss_sub", "iss": "https://login.acme.example", "sub": "raj"}, "tenant": "acme",
		"act": object{
			"iss": "https://agents.example", "sub": "copilot", "client_id": "ap-app", "Zone": "eu",
			"act": object{"sub": "planner"},
		},
		"iat": 1796126400, "exp": 1796126430, "jti": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "rev": "b7f3-12",
		"idempotency_key":       hashOf(fmt.Sprintf(`{"proposal_digest":"%s","type":"writ.idempotency.v1"}`, digestOf("proposal"))),
		"authorization_details": []any{detail},
		"cnf":                   object{"jkt": hashOf("key"), "x5t#S256": hashOf("certificate")},
		"basis": []string{
			hashOf(`{"id":"raj","issuer":"https://login.acme.example","kind":"principal","type":"writ.basis.v1"}`)[:12],
			hashOf(`{"id":"payments","issuer":"","kind":"server","type":"writ.basis.v1"}`)[:12],
		},
	}
}

// makeVectors makes the file. Why a negative is refused, and with which code, is
// written here by hand.
func makeVectors(t *testing.T) *keyringtest.Vectors {
	t.Helper()
	full := vectorClaims()
	detail := full["authorization_details"].([]any)[0].(object)
	v := &keyringtest.Vectors{
		About: "Grants, and what becomes of each at the time now. The key signs the positives: its private half is no secret. " +
			"Libraries named as lax accept what is refused here, since they do not ask for one form.",
		Type: keyring.TypeGrant, Issuer: minter, Instance: minterInstance, Audience: "payments", Now: mintedAt.Unix(),
		Positives: []keyringtest.Positive{
			{Name: "every claim", Claims: textOf(t, full)},
			{Name: "as few claims as may be", Claims: textOf(t, by(full, object{"act": nil, "tenant": nil, "cnf": nil, "basis": nil}))},
			{Name: "a bound key alone", Claims: textOf(t, by(full, object{"cnf": object{"jkt": hashOf("key")}}))},
			{Name: "a bound certificate alone", Claims: textOf(t, by(full, object{"cnf": object{"x5t#S256": hashOf("certificate")}}))},
			{Name: "eight actors", Claims: textOf(t, by(full, object{"act": nested(8)}))},
			{Name: "five minutes", Claims: textOf(t, by(full, object{"exp": 1796126700}))},
			{Name: "one second", Claims: textOf(t, by(full, object{"exp": 1796126401}))},
			{Name: "issued five seconds ahead", Claims: textOf(t, by(full, object{"iat": 1796126405}))},
			{Name: "several actions and locations", Claims: textOf(t, by(full, object{"authorization_details": []any{
				by(detail, object{"actions": []string{"a", "b"}, "locations": []string{"urn:a", "urn:b"}})}}))},
		},
		Negatives: keyringtest.Hostile(t, keyring.TypeGrant, textOf(t, full)),
	}
	v.Make(t)
	head := fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"typ":"writ-grant+jwt"}`, keyringtest.Key(t, 1).ID())
	refuse := func(name, payload, why string) {
		v.Negatives = append(v.Negatives, keyringtest.Negative{Name: name, Token: keyringtest.Raw(1, head, payload), Why: why})
	}
	claims := func(name string, changes object, why string) { refuse(name, textOf(t, by(full, changes)), why) }
	details := func(name string, changes object, why string) {
		claims(name, object{"authorization_details": []any{by(detail, changes)}}, why)
	}
	replaced := func(name, old, new, why string) {
		good := textOf(t, full)
		if !strings.Contains(good, old) {
			t.Fatalf("%s: there is no %s", name, old)
		}
		refuse(name, strings.Replace(good, old, new, 1), why)
	}
	const form = "one text of its claims"

	claims("an unknown claim", object{"scope": "payments:create"}, form)
	claims("nbf", object{"nbf": 1796126400}, form)
	claims("may_act", object{"may_act": object{"sub": "x"}}, form)
	replaced("a claim twice", `"jti":`, `"jti":"AAAAAAAAAAAAAAAAAAAAAAAAAA","jti":`, "twice")
	replaced("a look-alike claim", `"aud":"payments"`, `"Aud":"other","aud":"payments"`, "JSON")
	replaced("claims in another order", `"exp":1796126430,"iat":1796126400`, `"iat":1796126400,"exp":1796126430`, form)
	replaced("an escape that is not needed", `"rev":"b7f3-12"`, `"rev":"\u00627f3-12"`, form)
	replaced("an escaped slash", `https://pdp`, `https:\/\/pdp`, form)
	replaced("a lone surrogate", `"rev":"b`, `"rev":"\ud800`, "JSON")
	replaced("bytes that are not UTF-8", `"rev":"b`, "\"rev\":\"\xff", "JSON")
	for _, name := range slices.Sorted(maps.Keys(full)) {
		switch name {
		case "act", "tenant", "cnf", "basis":
			claims(name+" is null", object{name: json.RawMessage("null")}, form)
			continue
		case "authorization_details":
			claims("no authorization_details", object{name: nil}, "authorization_details must")
			continue
		case "exp", "iat":
			claims("no "+name, object{name: nil}, "iat and exp must")
			continue
		}
		claims("no "+name, object{name: nil}, "must")
	}
	claims("aud is an array", object{"aud": []string{"payments"}}, "aud must")
	claims("aud is empty", object{"aud": ""}, "aud must")
	claims("iss is a number", object{"iss": 1}, "iss must")
	claims("sub is an object", object{"sub": object{}}, "sub must")
	claims("sub_id says another sub", object{"sub_id": object{"format": "iss_sub", "iss": "https://login.acme.example", "sub": "eve"}}, form)
	claims("sub_id has another format", object{"sub_id": object{"format": "opaque", "iss": "https://login.acme.example", "sub": "raj"}}, form)
	claims("sub_id has a further member", object{"sub_id": object{"format": "iss_sub", "iss": "https://login.acme.example", "sub": "raj", "tenant": "x"}}, form)
	claims("tenant is empty", object{"tenant": ""}, form)
	claims("exp is a text", object{"exp": "1796126430"}, "iat and exp must")
	for _, c := range [][3]string{
		{"exp is a fraction", "1796126430.5", "exp must"},
		{"exp is huge", "1e300", "exp must"},
		{"exp does not fit 64 bits", "9223372036854775808", "JSON"},
		{"exp is after the year 9999", "253402300800", "exp must"},
		{"exp is negative", "-1", "exp must"},
		{"exp is not exact", "9007199254740993", "JSON"},
		{"exp is infinite", "1e400", "JSON"},
	} {
		replaced(c[0], `"exp":1796126430`, `"exp":`+c[1], c[2])
	}
	replaced("exp is a whole number with a fraction", `"exp":1796126430`, `"exp":1796126430.0`, form)
	replaced("exp has an exponent", `"exp":1796126430`, `"exp":179612643e1`, form)
	replaced("iat is a fraction", `"iat":1796126400`, `"iat":1796126399.5`, "iat and exp must")
	claims("exp is iat", object{"exp": 1796126400}, "a second or more after")
	claims("five minutes and a second", object{"exp": 1796126701}, "at most 5m0s")
	claims("jti in lower case", object{"jti": "abcdefghijklmnopqrstuvwxyz"}, "jti must")
	claims("a short jti", object{"jti": "ABC"}, "jti must")
	claims("an idempotency key of another form", object{"idempotency_key": "key-1"}, "idempotency_key must")
	claims("an instance of another form", object{"instance": "K3V9X2M4"}, "instance must")
	claims("two authorization_details", object{"authorization_details": []any{detail, detail}}, "authorization_details must")
	claims("authorization_details is an object", object{"authorization_details": detail}, "authorization_details must")
	details("another type of authorization_details", object{"type": "payment_initiation"}, form)
	details("an unknown member of authorization_details", object{"datatypes": []string{"a"}}, form)
	details("no call_digest", object{"call_digest": nil}, "digests")
	details("a digest in capitals", object{"call_digest": strings.ToUpper(digestOf("call").String())}, "digests")
	details("a digest of zeros", object{"policy_digest": "sha256:" + strings.Repeat("0", 64)}, "digests")
	details("a digest of another kind", object{"contract_digest": "sha512:" + strings.Repeat("1", 64)}, "digests")
	details("no actions", object{"actions": []string{}}, "actions")
	details("an action that is a number", object{"actions": []any{1}}, "actions")
	details("locations is a text", object{"locations": "https://payments.acme.example/mcp"}, "locations")
	details("nine locations", object{"locations": slices.Repeat([]string{"urn:a"}, 9)}, "locations")
	claims("nine actors", object{"act": nested(9)}, "at most 8 actors")
	claims("an actor without a sub", object{"act": object{"client_id": "x"}}, "sub")
	claims("an actor's claim that is a number", object{"act": object{"sub": "x", "level": 1}}, form)
	claims("act is a text", object{"act": "copilot"}, form)
	claims("act is empty", object{"act": object{}}, "sub")
	claims("the act within is a text", object{"act": object{"sub": "x", "act": "y"}}, form)
	claims("cnf is empty", object{"cnf": object{}}, form)
	claims("cnf names a key by its kid", object{"cnf": object{"kid": "x"}}, form)
	claims("cnf has a short thumbprint", object{"cnf": object{"jkt": "AAAA"}}, "cnf must")
	claims("basis is empty", object{"basis": []string{}}, form)
	claims("basis has a number", object{"basis": []any{1}}, "basis must")

	claims("another decision point's", object{"iss": "https://other.example"}, "another decision point issued it")
	claims("another instance's", object{"instance": "another1"}, "was restarted since")
	for i := range v.Negatives {
		v.Negatives[i].Code = string(writ.CodeGrantInvalid)
	}
	claims("expired at this second", object{"iat": 1796126370, "exp": 1796126400}, "its time is over")
	claims("expired long ago", object{"iat": 1596126370, "exp": 1596126400}, "its time is over")
	claims("issued six seconds ahead", object{"iat": 1796126406}, "has not come yet")
	for i := range v.Negatives {
		n := &v.Negatives[i]
		if n.Code == "" {
			n.Code = string(writ.CodeGrantExpired)
		}
		n.Lax = lax(n.Name)
	}
	slices.SortStableFunc(v.Negatives, func(a, b keyringtest.Negative) int { return strings.Compare(a.Name, b.Name) })
	return v
}

// nested is a chain of n actors.
func nested(n int) object {
	chain := object{"sub": fmt.Sprint("agent-", n)}
	if n > 1 {
		chain["act"] = nested(n - 1)
	}
	return chain
}

// laxities are the vectors that are refused here and that other libraries
// accept, as `make e2e` holds: all are signed by the key itself, and they ask
// for no one form.
var laxities = [...]struct{ libraries, names []string }{
	{[]string{"PyJWT", "jose"}, []string{
		"a byte order mark", "a claim twice", "a digest in capitals", "a digest of another kind", "a digest of zeros",
		"a line end after the payload", "a lone surrogate", "a look-alike claim", "a short jti", "act is a text", "act is empty",
		"act is null", "alg twice", "an action that is a number", "an actor without a sub", "an actor's claim that is a number",
		"an escape that is not needed", "an escaped slash", "an idempotency key of another form", "an unknown claim",
		"an unknown member of authorization_details", "another type of authorization_details", "authorization_details is an object",
		"basis has a number", "basis is empty", "basis is null", "claims in another order", "cnf has a short thumbprint", "cnf is empty",
		"cnf is null", "cnf names a key by its kid", "exp does not fit 64 bits", "exp has an exponent", "exp is a fraction",
		"exp is a whole number with a fraction", "exp is after the year 9999", "exp is huge", "exp is not exact",
		"five minutes and a second", "iat is a fraction", "jti in lower case", "locations is a text", "may_act", "nbf", "nine actors",
		"nine locations", "no actions", "no authorization_details", "no call_digest", "no idempotency_key", "no rev", "no sub_id",
		"padding", "sub_id has a further member", "sub_id has another format", "sub_id says another sub", "tenant is empty",
		"tenant is null", "the act within is a text", "the header in another order", "the payload in white space",
		"two authorization_details", "white space in the header", "white space in the payload",
	}},
	{[]string{"PyJWT"}, []string{
		"exp is a text",
	}},
	{[]string{"jose"}, []string{
		"a line end after", "aud is an array", "exp is infinite", "stray bits in the signature", "sub is an object",
	}},
}

// lax returns the libraries that accept a vector.
func lax(name string) []string {
	for _, l := range laxities {
		if slices.Contains(l.names, name) {
			return l.libraries
		}
	}
	return nil
}

// TestVectors: the file is what is made here, each positive is minted in the
// same bytes as a library signs that is not ours, and each negative is refused
// for its reason.
func TestVectors(t *testing.T) {
	v := makeVectors(t)
	k := keyringtest.Key(t, 1)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: keyringtest.Private(1)},
		(&jose.SignerOptions{}).WithType(jose.ContentType(v.Type)).WithHeader("kid", k.ID()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Positives {
		signed, err := signer.Sign([]byte(v.Positives[i].Claims))
		if err != nil {
			t.Fatal(err)
		}
		if v.Positives[i].Token, err = signed.CompactSerialize(); err != nil {
			t.Fatal(err)
		}
	}
	v.Hold(t, *updateVectors)

	r := mintRing(t, k)
	if err := r.Trust([]keyring.Replica{{Name: "b", Public: keyringtest.Key(t, 2).Public(), ExpiresAt: mintedAt.Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	if string(r.JWKS(mintedAt)) != string(v.Set) {
		t.Errorf("the set is %s, want %s", r.JWKS(mintedAt), v.Set)
	}
	now := time.Unix(v.Now, 0)
	for _, p := range v.Positives {
		got, err := grant.Open(r, p.Token, now, v.Issuer, v.Instance)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if again, err := grant.Mint(k, &got); err != nil || again != p.Token {
			t.Errorf("%s: is minted as\n%s, want\n%s (%v)", p.Name, again, p.Token, err)
		}
	}
	if got, err := grant.Open(r, v.Positives[0].Token, now, v.Issuer, v.Instance); err != nil || !reflect.DeepEqual(got, opened(k, payment())) {
		t.Errorf("%+v, %v; want\n%+v", got, err, payment())
	}
	seen := map[string]bool{}
	for _, n := range v.Negatives {
		if seen[n.Name] || seen[n.Token] {
			t.Errorf("%s: is there twice", n.Name)
		}
		seen[n.Name], seen[n.Token] = true, true
		t.Run(n.Name, func(t *testing.T) {
			_, err := grant.Open(r, n.Token, now, v.Issuer, v.Instance)
			wantFault(t, err, writ.Code(n.Code), n.Why)
			if n.Why == "" {
				t.Error("nobody says why")
			}
		})
	}
	t.Logf("%d positives, %d negatives", len(v.Positives), len(v.Negatives))
}
