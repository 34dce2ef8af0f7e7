package keyring_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/keyring"
)

func replica(t testing.TB) keyring.Replica {
	return keyring.Replica{Name: "pdp-0", Public: key(t, 2).Public(), Instance: "prod", IssuedAt: now, ExpiresAt: now.Add(24 * time.Hour)}
}

func TestReplica(t *testing.T) {
	root := key(t, 1)
	want := replica(t)
	statement, err := keyring.CertifyReplica(root, want)
	if err != nil {
		t.Fatal(err)
	}
	payload := fmt.Sprintf(`{"exp":%d,"iat":%d,"instance":"prod","iss":"%s","jwk":{"crv":"Ed25519","kty":"OKP","x":"%s"},"sub":"pdp-0"}`,
		want.ExpiresAt.Unix(), want.IssuedAt.Unix(), root.ID(), b64(want.Public))
	if got := raw(1, `{"alg":"EdDSA","kid":"`+root.ID()+`","typ":"writ-replica+jwt"}`, payload); got != statement {
		t.Errorf("the statement is not what its documentation says:\n%s\n%s", statement, got)
	}
	got, err := keyring.OpenReplica(root.Public(), statement, now)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got.ID() != key(t, 2).ID() {
		t.Error("its id is another")
	}
	if _, err := keyring.OpenReplica(root.Public(), statement, want.ExpiresAt.Add(-1)); err != nil {
		t.Error(err)
	}
	_, err = keyring.OpenReplica(root.Public(), statement, want.ExpiresAt)
	wantKind(t, err, keyring.RetiredKey)
	if _, err := keyring.OpenReplica(root.Public(), statement, now.Add(-1)); err == nil {
		t.Error("it holds before its time")
	}
	_, err = keyring.OpenReplica(key(t, 3).Public(), statement, now)
	wantKind(t, err, keyring.UnknownKey)
	if _, err := keyring.OpenReplica(make([]byte, 32), statement, now); err == nil {
		t.Error("a root under which anybody can sign")
	}

	// What it certifies is trusted.
	r := ring(t, keyring.Config{})
	if err := r.Trust([]keyring.Replica{got}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Open(keyring.TypeGrant, key(t, 2).Sign(keyring.TypeGrant, []byte("{}")), most, now); err != nil {
		t.Error(err)
	}
}

func TestCertifyRefuses(t *testing.T) {
	for name, change := range map[string]func(*keyring.Replica){
		"no name":        func(p *keyring.Replica) { p.Name = "" },
		"a long name":    func(p *keyring.Replica) { p.Name = strings.Repeat("a", 129) },
		"another name":   func(p *keyring.Replica) { p.Name = "a/b" },
		"instance":       func(p *keyring.Replica) { p.Instance = "a b" },
		"no key":         func(p *keyring.Replica) { p.Public = nil },
		"the root's key": func(p *keyring.Replica) { p.Public = key(t, 1).Public() },
		"no end":         func(p *keyring.Replica) { p.ExpiresAt = time.Time{} },
		"no time":        func(p *keyring.Replica) { p.ExpiresAt = p.IssuedAt.Add(time.Second - 1) },
		"no beginning":   func(p *keyring.Replica) { p.IssuedAt = time.Time{} },
		"too much time":  func(p *keyring.Replica) { p.ExpiresAt = p.IssuedAt.Add(366*24*time.Hour + time.Second) },
		"the year 10,000": func(p *keyring.Replica) {
			p.IssuedAt = time.Unix(253402300799, 0)
			p.ExpiresAt = time.Unix(253402300800, 0)
		},
	} {
		p := replica(t)
		change(&p)
		if statement, err := keyring.CertifyReplica(key(t, 1), p); err == nil {
			t.Errorf("%s: %s", name, statement)
		}
	}
}

func TestOpenReplicaRefuses(t *testing.T) {
	root := key(t, 1)
	head := `{"alg":"EdDSA","kid":"` + root.ID() + `","typ":"writ-replica+jwt"}`
	good := fmt.Sprintf(`{"exp":%d,"iat":%d,"iss":"%s","jwk":{"crv":"Ed25519","kty":"OKP","x":"%s"},"sub":"a"}`,
		now.Unix()+9, now.Unix(), root.ID(), b64(key(t, 2).Public()))
	if _, err := keyring.OpenReplica(root.Public(), raw(1, head, good), now); err != nil {
		t.Fatal(err)
	}
	put := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("there is no %s", old)
		}
		return raw(1, head, strings.Replace(good, old, new, 1))
	}
	for name, statement := range map[string]string{
		"white space":         put(`{"exp"`, `{ "exp"`),
		"an unknown member":   put(`"sub":"a"`, `"sub":"a","x":1`),
		"a member twice":      put(`"sub":"a"`, `"sub":"a","sub":"a"`),
		"another root's iss":  put(root.ID(), key(t, 3).ID()),
		"a fraction":          put(`,"iat":`, `.5,"iat":`),
		"a private key":       put(`"kty":"OKP"`, `"d":"AAAA","kty":"OKP"`),
		"another curve":       put(`Ed25519`, `X25519`),
		"a short key":         put(b64(key(t, 2).Public()), b64(key(t, 2).Public()[:31])),
		"the root's own key":  put(b64(key(t, 2).Public()), b64(root.Public())),
		"an empty instance":   put(`,"iss"`, `,"instance":"","iss"`),
		"no name":             put(`"a"`, `""`),
		"a name of a kind":    put(`"a"`, `1`),
		"no payload":          raw(1, head, "[]"),
		"a grant":             root.Sign(keyring.TypeGrant, []byte(good)),
		"signed by another":   raw(2, head, good),
		"signed by a replica": key(t, 2).Sign(keyring.TypeReplica, []byte(good)),
		"too long":            put(`"a"`, `"`+strings.Repeat("a", 2048)+`"`),
	} {
		if p, err := keyring.OpenReplica(root.Public(), statement, now); err == nil {
			t.Errorf("%s: opens as %+v", name, p)
		}
	}
}
