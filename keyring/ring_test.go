package keyring_test

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ/keyring"
)

// ids are those of a ring's JWK set, in its order.
func ids(t *testing.T, r *keyring.Ring, at time.Time) []string {
	t.Helper()
	var set struct {
		Keys []struct{ Kid, Kty, Crv, Use, Alg, X string }
	}
	if err := json.Unmarshal(r.JWKS(at), &set); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, k := range set.Keys {
		if k.Kty != "OKP" || k.Crv != "Ed25519" || k.Use != "sig" || k.Alg != "EdDSA" || len(k.X) != 43 {
			t.Errorf("a key of the set is %+v", k)
		}
		out = append(out, k.Kid)
	}
	return out
}

// TestRotation: a grant that was signed just before its key was replaced opens
// until what is signed is kept no longer, to the nanosecond.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := keyring.New(keyring.Config{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour - 1)
		first := r.Current(time.Now())
		signed := first.Sign(keyring.TypeGrant, []byte("{}"))
		time.Sleep(time.Nanosecond)
		if got := ids(t, r, time.Now()); !slices.Equal(got, []string{first.ID()}) {
			t.Errorf("nobody has signed, and the set changed: %v", got)
		}
		second := r.Current(time.Now())
		if second.ID() == first.ID() {
			t.Fatal("after a day the key is the same")
		}
		if r.Current(time.Now()) != second {
			t.Error("it changed twice")
		}
		if got := ids(t, r, time.Now()); !slices.Equal(got, []string{second.ID(), first.ID()}) {
			t.Errorf("the set is %v", got)
		}
		time.Sleep(24*time.Hour + 10*time.Minute - 1)
		payload, kid, err := r.Open(keyring.TypeGrant, signed, most, time.Now())
		if err != nil || string(payload) != "{}" || kid != first.ID() {
			t.Errorf("just before the end: %q %s %v", payload, kid, err)
		}
		time.Sleep(time.Nanosecond)
		_, _, err = r.Open(keyring.TypeGrant, signed, most, time.Now())
		wantKind(t, err, keyring.RetiredKey)
		if got := ids(t, r, time.Now()); !slices.Equal(got, []string{second.ID()}) {
			t.Errorf("the set still is %v", got)
		}
		time.Sleep(72 * time.Hour)
		r.Current(time.Now())
		_, _, err = r.Open(keyring.TypeGrant, signed, most, time.Now())
		wantKind(t, err, keyring.UnknownKey)
	})
}

// TestClockGoesBack: an earlier time takes no key away and makes none.
func TestClockGoesBack(t *testing.T) {
	r := ring(t, keyring.Config{})
	k := r.Current(now.Add(25 * time.Hour))
	if r.Current(now.Add(-time.Hour)) != k {
		t.Error("a clock that goes back replaces the key")
	}
	if _, _, err := r.Open(keyring.TypeGrant, k.Sign(keyring.TypeGrant, []byte("{}")), most, now.Add(-time.Hour)); err != nil {
		t.Error(err)
	}
}

// TestRotationAtOnce: two who need a key at once when it is old get one and the
// same, and what is signed with it opens.
func TestRotationAtOnce(t *testing.T) {
	r := ring(t, keyring.Config{RotateEvery: time.Minute, Keep: time.Minute})
	for round := range 500 {
		at := now.Add(time.Duration(round+1) * time.Minute)
		var got [2]*keyring.Key
		var ready atomic.Int32
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				for ready.Add(1); ready.Load() < 2; {
					runtime.Gosched()
				}
				got[i] = r.Current(at)
			})
		}
		wg.Wait()
		if got[0] != got[1] {
			t.Fatal("two keys were made")
		}
	}
	at := now.Add(10_000 * time.Minute)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, err := r.Open(keyring.TypeApproval, r.Current(at).Sign(keyring.TypeApproval, []byte("{}")), most, at); err != nil {
				t.Error(err)
			}
			r.JWKS(at)
		})
	}
	wg.Wait()
}

// TestRetiredAreBounded: as many keys are kept as Config allows at most.
func TestRetiredAreBounded(t *testing.T) {
	r := ring(t, keyring.Config{RotateEvery: time.Minute, Keep: 100 * time.Minute})
	at := now
	for range 300 {
		at = at.Add(time.Minute)
		r.Current(at)
	}
	if got := len(ids(t, r, at)); got != 101 {
		t.Errorf("%d keys verify", got)
	}
}

// TestFixedKey: a key that is given does not age; another takes its place when
// it is given.
func TestFixedKey(t *testing.T) {
	first, second := key(t, 1), key(t, 2)
	r := ring(t, keyring.Config{Key: first, Keep: time.Hour})
	later := now.Add(1000 * time.Hour)
	if r.Current(later) != first {
		t.Fatal("it aged")
	}
	signed := first.Sign(keyring.TypeGrant, []byte("{}"))
	r.Use(first, later)
	if got := ids(t, r, later); len(got) != 1 {
		t.Errorf("it was given again, and the set is %v", got)
	}
	r.Use(second, later)
	if r.Current(later) != second {
		t.Error("the second is not in use")
	}
	if _, _, err := r.Open(keyring.TypeGrant, signed, most, later.Add(time.Hour-1)); err != nil {
		t.Error(err)
	}
	_, _, err := r.Open(keyring.TypeGrant, signed, most, later.Add(time.Hour))
	wantKind(t, err, keyring.RetiredKey)
	r.Use(first, later) // back again
	if got := ids(t, r, later); !slices.Equal(got, []string{first.ID(), second.ID()}) {
		t.Errorf("the set is %v", got)
	}
	if r.Current(later.Add(1000*time.Hour)) != first {
		t.Error("it aged")
	}

	made := ring(t, keyring.Config{})
	made.Use(second, now)
	if made.Current(later) != second {
		t.Error("a ring that made its keys lets one age that it was given")
	}
}

func TestTrust(t *testing.T) {
	r := ring(t, keyring.Config{Key: key(t, 1)})
	other := key(t, 2)
	signed := other.Sign(keyring.TypeApproval, []byte("{}"))
	open := func(at time.Time) error {
		_, _, err := r.Open(keyring.TypeApproval, signed, most, at)
		return err
	}
	wantKind(t, open(now), keyring.UnknownKey)
	until := now.Add(time.Hour)
	replicas := []keyring.Replica{
		{Name: "self", Public: key(t, 1).Public(), ExpiresAt: now}, // comes back to us
		{Name: "b", Public: other.Public(), ExpiresAt: until},
	}
	if err := r.Trust(replicas); err != nil {
		t.Fatal(err)
	}
	if err := open(until.Add(-1)); err != nil {
		t.Error(err)
	}
	wantKind(t, open(until), keyring.RetiredKey)
	if got := ids(t, r, now); !slices.Equal(got, []string{key(t, 1).ID(), other.ID()}) {
		t.Errorf("the set is %v", got)
	}
	if got := ids(t, r, until); !slices.Equal(got, []string{key(t, 1).ID()}) {
		t.Errorf("the set is %v", got)
	}
	if _, _, err := r.Open(keyring.TypeGrant, key(t, 1).Sign(keyring.TypeGrant, []byte("{}")), most, until); err != nil {
		t.Errorf("its own key ends with somebody's statement: %v", err)
	}

	for name, bad := range map[string][]keyring.Replica{
		"no key":    {{Name: "c", ExpiresAt: until}},
		"weak key":  {{Name: "c", Public: make([]byte, 32), ExpiresAt: until}},
		"key twice": {replicas[1], {Name: "c", Public: other.Public(), ExpiresAt: until}},
		"too many":  make([]keyring.Replica, keyring.MaxTrusted+1),
	} {
		if err := r.Trust(bad); err == nil {
			t.Errorf("%s: trusted", name)
		}
		if err := open(now); err != nil {
			t.Errorf("%s: what was refused changed something: %v", name, err)
		}
	}
	if err := r.Trust(nil); err != nil {
		t.Fatal(err)
	}
	wantKind(t, open(now), keyring.UnknownKey)
}

// TestRetiredIsNotRevived: what this ring has retired does not come back as
// another replica's.
func TestRetiredIsNotRevived(t *testing.T) {
	old := key(t, 1)
	r := ring(t, keyring.Config{Key: old, Keep: time.Minute})
	r.Use(key(t, 2), now)
	if err := r.Trust([]keyring.Replica{{Name: "old", Public: old.Public(), ExpiresAt: now.Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.Open(keyring.TypeGrant, old.Sign(keyring.TypeGrant, []byte("{}")), most, now.Add(time.Minute))
	wantKind(t, err, keyring.RetiredKey)
}

func TestConfig(t *testing.T) {
	for _, cfg := range []keyring.Config{
		{RotateEvery: time.Minute - 1}, {RotateEvery: -time.Hour}, {Keep: -1},
		{RotateEvery: time.Minute, Keep: 101 * time.Minute}, {RotateEvery: time.Minute}, // the default Keep is too long
	} {
		if _, err := keyring.New(cfg, now); err == nil {
			t.Errorf("%+v makes a ring", cfg)
		}
	}
}

// TestRefused: each kind of what does not open.
func TestRefused(t *testing.T) {
	k := key(t, 1)
	r := ring(t, keyring.Config{Key: k})
	good := k.Sign(keyring.TypeGrant, []byte(`{"a":1}`))
	if _, _, err := r.Open(keyring.TypeGrant, good, len(good), now); err != nil {
		t.Fatal(err)
	}
	part := strings.Split(good, ".")
	head := func(alg, kid, typ string) string {
		return `{"alg":"` + alg + `","kid":"` + kid + `","typ":"` + typ + `"}`
	}
	const typ = string(keyring.TypeGrant)
	// The last character of 32 or 64 bytes has bits to spare.
	stray := func(s string) string {
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		i := strings.IndexByte(alphabet, s[len(s)-1])
		return s[:len(s)-1] + alphabet[i|1:i|1+1]
	}
	for _, c := range []struct {
		name, token string
		kind        keyring.Kind
	}{
		{"empty", "", keyring.Malformed},
		{"longer than the cap", good + "A", keyring.Malformed},
		{"two parts", part[0] + "." + part[1], keyring.Malformed},
		{"four parts", good[:len(good)-5] + ".AAA", keyring.Malformed},
		{"dots", strings.Repeat(".", len(good)), keyring.Malformed},
		{"no header", "." + part[1] + "." + part[2], keyring.Malformed},
		{"no payload", part[0] + ".." + part[2], keyring.Malformed},
		{"no signature", part[0] + "." + part[1] + ".", keyring.Malformed},
		{"stray bits in the signature", part[0] + "." + part[1] + "." + stray(part[2]), keyring.Malformed},
		{"line end for a character", part[0] + "." + part[1] + ".\n" + part[2][1:], keyring.Malformed},
		{"alg none", raw(1, head("none", k.ID(), typ), "{}"), keyring.Malformed},
		{"alg in lower case", raw(1, head("eddsa", k.ID(), typ), "{}"), keyring.Malformed},
		{"kid with stray bits", raw(1, head("EdDSA", stray(k.ID()), typ), "{}"), keyring.Malformed},
		{"kid with an escape", raw(1, head("EdDSA", k.ID()[:37]+`A`, typ), "{}"), keyring.Malformed},
		{"typ in capitals", raw(1, head("EdDSA", k.ID(), strings.ToUpper(typ)), "{}"), keyring.Malformed},
		{"header in another order", raw(1, `{"kid":"`+k.ID()+`","alg":"EdDSA","typ":"`+typ+`"}`, "{}"), keyring.Malformed},
		{"an approval", k.Sign(keyring.TypeApproval, []byte("{}")), keyring.WrongType},
		{"a replica's statement", k.Sign(keyring.TypeReplica, []byte("{}")), keyring.WrongType},
		{"another's", key(t, 2).Sign(keyring.TypeGrant, []byte("{}")), keyring.UnknownKey},
		{"another's under our kid", raw(2, head("EdDSA", k.ID(), typ), "{}"), keyring.BadSignature},
		{"another payload", part[0] + "." + b64([]byte(`{"a":2}`)) + "." + part[2], keyring.BadSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			payload, kid, err := r.Open(keyring.TypeGrant, c.token, len(good), now)
			wantKind(t, err, c.kind)
			if payload != nil || kid != "" {
				t.Error("it gives something all the same")
			}
		})
	}
	for _, typ := range []keyring.Type{keyring.TypeReplica, "JWT", ""} {
		token := raw(1, head("EdDSA", k.ID(), string(typ)), "{}")
		_, _, err := r.Open(typ, token, most, now)
		wantKind(t, err, keyring.WrongType)
	}
}

// TestMalleable: s + L would be another text of the same signature (RFC 8032,
// section 5.1.7).
func TestMalleable(t *testing.T) {
	k := key(t, 1)
	r := ring(t, keyring.Config{Key: k})
	signed := k.Sign(keyring.TypeGrant, []byte("{}"))
	at := strings.LastIndexByte(signed, '.')
	signature := unb64(t, signed[at+1:])
	order := [32]byte{
		0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
	}
	carry := 0
	for i, b := range order {
		sum := int(signature[32+i]) + int(b) + carry
		signature[32+i], carry = byte(sum), sum>>8
	}
	_, _, err := r.Open(keyring.TypeGrant, signed[:at+1]+b64(signature), most, now)
	wantKind(t, err, keyring.BadSignature)
}

// TestExplanations: the header's faults are told apart for people.
func TestExplanations(t *testing.T) {
	r := ring(t, keyring.Config{Key: key(t, 1)})
	for header, want := range map[string]string{
		`{"alg":"none"}`:                "its alg is another",
		`{"alg":"EdDSA","jku":"x"}`:     "jku",
		`{"alg":"EdDSA","jwk":{}}`:      "jwk",
		`{"alg":"EdDSA","x5u":"x"}`:     "x5u",
		`{"alg":"EdDSA","crit":[]}`:     "crit",
		`{"alg":"dir","enc":"A128GCM"}`: "encrypted",
		`{"alg":"EdDSA","alg":"EdDSA"}`: "read in one way",
		`[]`:                            "read in one way",
		`{"alg":"EdDSA"}`:               "byte for byte",
	} {
		_, _, err := r.Open(keyring.TypeGrant, raw(1, header, "{}"), most, now)
		wantKind(t, err, keyring.Malformed)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", header, err, want)
		}
	}
}

// TestRenew: a ring that makes its keys has another at once; what the old one
// signed still opens. A key that was given is not replaced.
func TestRenew(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r, err := keyring.New(keyring.Config{}, now)
	if err != nil {
		t.Fatal(err)
	}
	old := r.Current(now)
	signed := old.Sign(keyring.TypeGrant, []byte("{}"))
	if k := r.Renew("another", now); k != old {
		t.Error("another key's renewal replaced the current one")
	}
	fresh := r.Renew(old.ID(), now)
	if fresh == nil || fresh.ID() == old.ID() || r.Current(now) != fresh {
		t.Errorf("renewed: %v", fresh)
	}
	if _, kid, err := r.Open(keyring.TypeGrant, signed, 4096, now); err != nil || kid != old.ID() {
		t.Errorf("of the old key: %s, %v", kid, err)
	}
	if k := r.Renew(old.ID(), now); k != fresh {
		t.Error("renewed twice for one key")
	}
	given, err := keyring.New(keyring.Config{Key: keyring.Generate()}, now)
	if err != nil {
		t.Fatal(err)
	}
	if k := given.Renew(given.Current(now).ID(), now); k != nil {
		t.Error("a given key was replaced")
	}
}
