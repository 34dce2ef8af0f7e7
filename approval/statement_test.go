package approval_test

import (
	"crypto/sha256"
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
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/keyring/keyringtest"
)

var updateStatements = flag.Bool("update", false, "write testdata/vectors.json anew")

// What statements are signed with, and by whom.
const (
	signer         = "https://pdp.acme.example"
	signerInstance = "k3v9x2m4"
)

var signedAt = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func signedDigest(text string) canon.Digest { return sha256.Sum256([]byte(text)) }

// agreement has every member.
func agreement() *approval.Statement {
	return &approval.Statement{
		Issuer: signer, Instance: signerInstance, ID: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Review: "ZYXWVUTSRQPONMLKJIHGFEDCBA",
		Approver:       writ.Principal{Issuer: "https://login.acme.example", Subject: "dana", Tenant: "acme"},
		Claims:         map[string]string{"email": "dana@acme.example", "Team": ""},
		ProposalDigest: signedDigest("proposal"), ReviewDigest: signedDigest("review"),
		IssuedAt: signedAt, ExpiresAt: signedAt.Add(time.Hour),
	}
}

// openedStatement is what OpenStatement makes of a token of s.
func openedStatement(k *keyring.Key, s *approval.Statement) approval.Statement {
	out := *s
	out.KeyID = k.ID()
	return out
}

func signRing(t testing.TB, k *keyring.Key) *keyring.Ring {
	t.Helper()
	r, err := keyring.New(keyring.Config{Key: k}, signedAt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func signed(t testing.TB, k *keyring.Key, s *approval.Statement) string {
	t.Helper()
	token, err := approval.Sign(k, s)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestStatement: what is signed is read back, and is the approval that decisions
// judge. Its times are theirs to judge.
func TestStatement(t *testing.T) {
	k := keyringtest.Key(t, 1)
	r := signRing(t, k)
	s := agreement()
	token := signed(t, k, s)
	for _, at := range []time.Time{signedAt.Add(-time.Hour), signedAt, s.ExpiresAt, s.ExpiresAt.Add(9999 * time.Hour)} {
		got, err := approval.OpenStatement(r, token, at, signer, signerInstance)
		if err != nil || !reflect.DeepEqual(got, openedStatement(k, s)) {
			t.Errorf("at %v: %+v, %v", at, got, err)
		}
		want := writ.Approval{
			ID: s.ID, KeyID: k.ID(), Approver: s.Approver, Claims: s.Claims, ProposalDigest: s.ProposalDigest, ReviewDigest: s.ReviewDigest,
			IssuedAt: s.IssuedAt, ExpiresAt: s.ExpiresAt,
		}
		if got := approval.Read(r, token, at, signer, signerInstance); !reflect.DeepEqual(got, want) {
			t.Errorf("at %v: %+v", at, got)
		}
	}
	forged := writ.Approval{Forged: true}
	for name, got := range map[string]writ.Approval{
		"another issuer":   approval.Read(r, token, signedAt, "https://other.example", signerInstance),
		"another instance": approval.Read(r, token, signedAt, signer, "another1"),
		"another ring":     approval.Read(signRing(t, keyring.Generate()), token, signedAt, signer, signerInstance),
		"a changed byte":   approval.Read(r, token[:len(token)-8]+"AAAAAAAA", signedAt, signer, signerInstance),
		"100,000 dots":     approval.Read(r, strings.Repeat(".", 100_000), signedAt, signer, signerInstance),
		"nothing":          approval.Read(r, "", signedAt, signer, signerInstance),
	} {
		if !reflect.DeepEqual(got, forged) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestStatementMembers: each part of a Statement is in the token and is read
// back; without one there is no token, except where nothing is a thing to say.
func TestStatementMembers(t *testing.T) {
	k := keyringtest.Key(t, 1)
	r := signRing(t, k)
	seen := map[string]string{signed(t, k, agreement()): "nothing"}
	optional := []string{"Tenant", "Claims"}
	var walk func(path string, at func(*approval.Statement) reflect.Value)
	walk = func(path string, at func(*approval.Statement) reflect.Value) {
		v := at(agreement())
		other := reflect.New(v.Type()).Elem()
		switch x := v.Interface().(type) {
		case writ.Principal:
			for i := range v.NumField() {
				walk(v.Type().Field(i).Name, func(s *approval.Statement) reflect.Value { return at(s).Field(i) })
			}
			return
		case string:
			other.SetString(x[1:] + x[:1])
		case time.Time:
			other.Set(reflect.ValueOf(x.Add(time.Second)))
		case canon.Digest:
			x[0]++
			other.Set(reflect.ValueOf(x))
		case map[string]string:
			x["Team"] = "ap"
			other.Set(reflect.ValueOf(x))
		default:
			t.Fatalf("%s is of a kind that the test does not know: %v", path, v.Type())
		}
		s := agreement()
		at(s).Set(other)
		token := signed(t, k, s)
		if before, ok := seen[token]; ok {
			t.Errorf("%s: the token is the one with %s changed", path, before)
		}
		seen[token] = path
		if got, err := approval.OpenStatement(r, token, signedAt, s.Issuer, s.Instance); err != nil || !reflect.DeepEqual(got, openedStatement(k, s)) {
			t.Errorf("%s: %+v, %v; want %+v", path, got, err, *s)
		}

		s = agreement()
		at(s).SetZero()
		token, err := approval.Sign(k, s)
		if !slices.Contains(optional, path) {
			if err == nil {
				t.Errorf("without %s: %s", path, token)
			}
			return
		}
		if got, err := approval.OpenStatement(r, token, signedAt, s.Issuer, s.Instance); err != nil || !reflect.DeepEqual(got, openedStatement(k, s)) {
			t.Errorf("without %s: %+v, %v", path, got, err)
		}
	}
	typ := reflect.TypeFor[approval.Statement]()
	for i := range typ.NumField() {
		if typ.Field(i).Name == "KeyID" { // which is not in the token
			continue
		}
		walk(typ.Field(i).Name, func(s *approval.Statement) reflect.Value { return reflect.ValueOf(s).Elem().Field(i) })
	}
}

func TestSignRefuses(t *testing.T) {
	long := strings.Repeat("a", 2049)
	for name, change := range map[string]func(*approval.Statement){
		"a day and a second": func(s *approval.Statement) { s.ExpiresAt = s.IssuedAt.Add(24*time.Hour + time.Second) },
		"no time":            func(s *approval.Statement) { s.ExpiresAt = s.IssuedAt },
		"the year 10,000": func(s *approval.Statement) {
			s.IssuedAt, s.ExpiresAt = time.Unix(253402300799, 0), time.Unix(253402300800, 0)
		},
		"an instance":         func(s *approval.Statement) { s.Instance = "A-1234" },
		"a jti":               func(s *approval.Statement) { s.ID = `"` + s.ID[1:] },
		"a review's id":       func(s *approval.Statement) { s.Review = strings.ToLower(s.Review) },
		"a subject":           func(s *approval.Statement) { s.Approver.Subject = "\xff" },
		"a long issuer":       func(s *approval.Statement) { s.Approver.Issuer = long },
		"a long tenant":       func(s *approval.Statement) { s.Approver.Tenant = long },
		"a claim that is not": func(s *approval.Statement) { s.Claims["a"] = "\xff" },
		"a claim of no name":  func(s *approval.Statement) { s.Claims[""] = "a" },
		"look-alike claims":   func(s *approval.Statement) { s.Claims["EMAIL"] = "a" },
		"too many claims": func(s *approval.Statement) {
			for i := range 15 {
				s.Claims[fmt.Sprint(i)] = ""
			}
		},
		"more than 4 KiB": func(s *approval.Statement) { s.Claims["a"], s.Claims["b"] = long[1:], long[1:] },
	} {
		s := agreement()
		change(s)
		if token, err := approval.Sign(keyringtest.Key(t, 1), s); err == nil {
			t.Errorf("%s: %s", name, token)
		}
	}
}

// statement is a payload, whose text has the members in the order of their names
// and, as long as all is plain ASCII, is its RFC 8785 form.
type statement = map[string]any

func statementText(t testing.TB, base statement, changes statement) string {
	t.Helper()
	base = maps.Clone(base)
	for name, value := range changes {
		if base[name] = value; value == nil {
			delete(base, name)
		}
	}
	b, err := json.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fullStatement is agreement, written by hand.
func fullStatement() statement {
	return statement{
		"iss": signer, "instance": signerInstance, "jti": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "review": "ZYXWVUTSRQPONMLKJIHGFEDCBA",
		"sub": "dana", "sub_id": statement{"format": "iss_sub", "iss": "https://login.acme.example", "sub": "dana"}, "tenant": "acme",
		"claims":          statement{"email": "dana@acme.example", "Team": ""},
		"proposal_digest": signedDigest("proposal").String(), "review_digest": signedDigest("review").String(),
		"iat": 1796126400, "exp": 1796130000,
	}
}

func makeStatements(t *testing.T) *keyringtest.Vectors {
	t.Helper()
	full := fullStatement()
	v := &keyringtest.Vectors{
		About: "Approvals, and which are forged. The key signs the positives: its private half is no secret. Times are not judged by who opens. " +
			"Libraries named as lax accept what is refused here, since they do not ask for one form.",
		Type: keyring.TypeApproval, Issuer: signer, Instance: signerInstance, Now: signedAt.Unix(),
		Positives: []keyringtest.Positive{
			{Name: "every member", Claims: statementText(t, full, nil)},
			{Name: "as few members as may be", Claims: statementText(t, full, statement{"claims": nil, "tenant": nil})},
			{Name: "a day", Claims: statementText(t, full, statement{"exp": 1796212800})},
		},
		Negatives: keyringtest.Hostile(t, keyring.TypeApproval, statementText(t, full, nil)),
	}
	v.Make(t)
	head := fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"typ":"writ-approval+jwt"}`, keyringtest.Key(t, 1).ID())
	refuse := func(name, payload, why string) {
		v.Negatives = append(v.Negatives, keyringtest.Negative{Name: name, Token: keyringtest.Raw(1, head, payload), Why: why})
	}
	claims := func(name string, changes statement, why string) { refuse(name, statementText(t, full, changes), why) }
	const form = "one text of its members"
	for _, name := range slices.Sorted(maps.Keys(full)) {
		if name == "claims" || name == "tenant" {
			claims(name+" is null", statement{name: json.RawMessage("null")}, form)
			continue
		}
		claims("no "+name, statement{name: nil}, "must")
	}
	claims("an unknown member", statement{"aud": "x"}, form)
	refuse("a member twice", strings.Replace(statementText(t, full, nil), `"sub":"dana"`, `"sub":"dana","sub":"dana"`, 1), "twice")
	claims("claims is empty", statement{"claims": statement{}}, form)
	claims("claims has a number", statement{"claims": statement{"a": 1}}, form)
	claims("sub_id says another sub", statement{"sub_id": statement{"format": "iss_sub", "iss": "https://login.acme.example", "sub": "eve"}}, form)
	claims("sub is a number", statement{"sub": 1}, "sub must")
	claims("exp is a fraction", statement{"exp": json.RawMessage("1796130000.5")}, "exp must")
	claims("exp is a text", statement{"exp": "1796130000"}, "exp must")
	claims("exp is huge", statement{"exp": json.RawMessage("1e300")}, "exp must")
	claims("a day and a second", statement{"exp": 1796212801}, "at most 24h")
	claims("a digest of zeros", statement{"review_digest": "sha256:" + strings.Repeat("0", 64)}, "digest")
	claims("a review of another form", statement{"review": "1"}, "review must")
	claims("another decision point's", statement{"iss": "https://other.example"}, "another decision point")
	claims("another instance's", statement{"instance": "another1"}, "was restarted since")
	for i := range v.Negatives {
		n := &v.Negatives[i]
		n.Code, n.Lax = string(writ.CodeApprovalInvalid), lax(n.Name)
	}
	slices.SortStableFunc(v.Negatives, func(a, b keyringtest.Negative) int { return strings.Compare(a.Name, b.Name) })
	return v
}

// laxStatements are the vectors that are refused here and that other libraries
// accept, as `make e2e` holds: all are signed by the key itself, and they ask
// for no one form.
var laxStatements = [...]struct{ libraries, names []string }{
	{[]string{"PyJWT", "jose"}, []string{
		"a byte order mark", "a day and a second", "a digest of zeros", "a line end after the payload", "a member twice",
		"a review of another form", "alg twice", "claims has a number", "claims is empty", "claims is null", "exp is a fraction",
		"exp is huge", "no proposal_digest", "no review", "no review_digest", "no sub_id", "padding", "sub_id says another sub",
		"tenant is null", "the header in another order", "the payload in white space", "white space in the header",
		"white space in the payload",
	}},
	{[]string{"PyJWT"}, []string{
		"exp is a text",
	}},
	{[]string{"jose"}, []string{
		"a line end after", "an unknown member", "stray bits in the signature", "sub is a number",
	}},
}

// lax returns the libraries that accept a vector.
func lax(name string) []string {
	for _, l := range laxStatements {
		if slices.Contains(l.names, name) {
			return l.libraries
		}
	}
	return nil
}

// TestStatementVectors: the file is what is made here, each positive is signed
// in the same bytes by a library that is not ours, and each negative is forged,
// for its reason.
func TestStatementVectors(t *testing.T) {
	v := makeStatements(t)
	k := keyringtest.Key(t, 1)
	library, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: keyringtest.Private(1)},
		(&jose.SignerOptions{}).WithType(jose.ContentType(v.Type)).WithHeader("kid", k.ID()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Positives {
		token, err := library.Sign([]byte(v.Positives[i].Claims))
		if err != nil {
			t.Fatal(err)
		}
		if v.Positives[i].Token, err = token.CompactSerialize(); err != nil {
			t.Fatal(err)
		}
	}
	v.Hold(t, *updateStatements)

	r := signRing(t, k)
	if err := r.Trust([]keyring.Replica{{Name: "b", Public: keyringtest.Key(t, 2).Public(), ExpiresAt: signedAt.Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(v.Now, 0)
	for _, p := range v.Positives {
		got, err := approval.OpenStatement(r, p.Token, now, v.Issuer, v.Instance)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if again := signed(t, k, &got); again != p.Token {
			t.Errorf("%s: is signed as\n%s, want\n%s", p.Name, again, p.Token)
		}
	}
	if token := signed(t, k, agreement()); token != v.Positives[0].Token {
		t.Errorf("%s, want\n%s", token, v.Positives[0].Token)
	}
	for _, n := range v.Negatives {
		t.Run(n.Name, func(t *testing.T) {
			_, err := approval.OpenStatement(r, n.Token, now, v.Issuer, v.Instance)
			if err == nil || n.Why == "" || !strings.Contains(err.Error(), n.Why) {
				t.Errorf("%v, want %q", err, n.Why)
			}
			if !approval.Read(r, n.Token, now, v.Issuer, v.Instance).Forged {
				t.Error("it is not forged")
			}
		})
	}
	t.Logf("%d positives, %d negatives", len(v.Positives), len(v.Negatives))
}

// FuzzStatement: whatever opens is signed again in the same bytes under the same
// key: a text as it is, and a payload that the key has signed.
func FuzzStatement(f *testing.F) {
	k := keyringtest.Key(f, 1)
	r := signRing(f, k)
	head := fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"typ":"writ-approval+jwt"}`, k.ID())
	f.Add(signed(f, k, agreement()))
	f.Add(statementText(f, fullStatement(), nil))
	f.Add(statementText(f, fullStatement(), statement{"claims": nil, "tenant": nil, "exp": 1e300}))
	f.Add(`{"claims":[],"sub_id":1,"exp":-1}`)
	for _, n := range keyringtest.Hostile(f, keyring.TypeApproval, `{"iss":"x","iat":1}`) {
		f.Add(n.Token)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, token := range []string{text, keyringtest.Raw(1, head, text)} {
			s, err := approval.OpenStatement(r, token, signedAt, signer, signerInstance)
			if forged := approval.Read(r, token, signedAt, signer, signerInstance).Forged; forged != (err != nil) {
				t.Fatalf("%q: forged %t, %v", token, forged, err)
			}
			if err != nil {
				continue
			}
			if again, err := approval.Sign(k, &s); err != nil || again != token {
				t.Fatalf("%q is signed as %q: %v", token, again, err)
			}
		}
	})
}
