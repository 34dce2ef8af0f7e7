package etcd_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/grant/ledgertest"
)

const zeroes = "0000000000000000000000000000000000000000000000000000000000000000"

// attempt is a digest as text.
const attempt = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestParseHolding(t *testing.T) {
	if id, digest, again, ok := etcd.ParseHolding("D1 " + attempt + " CALL"); !ok || id != "D1" || digest != attempt || again != "D1 "+attempt+" CALL" {
		t.Errorf("%q %q %q %v", id, digest, again, ok)
	}
	for _, text := range []string{
		"", "D1", "D1 " + attempt, "D1 " + attempt + " ", " " + attempt + " C", "D1 " + attempt + " C D", "D1  " + attempt + " C",
		"D1 sha256:" + zeroes + " C", "D1 " + strings.ToUpper(attempt) + " C", "D/1 " + attempt + " C", "D1 " + attempt + " C\n",
	} {
		if _, _, _, ok := etcd.ParseHolding(text); ok {
			t.Errorf("%q is read", text)
		}
	}
}

// A record says what was claimed, and nothing else is a record.
func TestParseRedemption(t *testing.T) {
	want := ledgertest.NewClaim(1)
	text, err := etcd.EncodeRedemption(want, want.Now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	got, again, err := etcd.ParseRedemption("D1", []byte(text))
	if err != nil || !reflect.DeepEqual(got, want) || again != text {
		t.Errorf("%+v, %v", got, err)
	}
	if _, _, err := etcd.ParseRedemption("D2", []byte(text)); err == nil {
		t.Error("another's record is read")
	}
	// Each member that is needed, without it and with another value.
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"id", "grant", "proposal", "attempt", "at", "expires"} {
		for _, value := range []any{nil, "", "x/y", 7, "sha256:" + zeroes} {
			other := map[string]any{}
			for k, v := range members {
				other[k] = v
			}
			if other[name] = value; value == nil {
				delete(other, name)
			}
			changed, err := json.Marshal(other)
			if err != nil {
				t.Fatal(err)
			}
			if (name == "grant" || name == "proposal") && value == "sha256:"+zeroes {
				continue // a name like any other
			}
			if _, _, err := etcd.ParseRedemption("D1", changed); err == nil {
				t.Errorf("%s = %v is read", name, value)
			}
		}
	}
	for _, text := range []string{"", "{}", "null", "[]", text + " {}", `{"x":1,` + text[1:], `{"id":"D1",` + text[1:]} {
		if _, _, err := etcd.ParseRedemption("D1", []byte(text)); err == nil {
			t.Errorf("%.40q is read", text)
		}
	}
	bad := want
	bad.Plan.Tool = "\xff"
	if _, err := etcd.EncodeRedemption(bad, want.Now); err == nil {
		t.Error("text that is not UTF-8 is written")
	}
}

func TestParseSettlement(t *testing.T) {
	const text = `{"observer":"o","effect":"e","receipt":"` + attempt + `","outcome":"EFFECT_VERIFIED","at":"2031-01-02T03:04:05Z","call":"C"}`
	e, again, err := etcd.ParseSettlement("D1", []byte(text))
	if err != nil || again != text || e.Redemption != "D1" || e.Observer != "o" || e.ID != "e" || e.Receipt.String() != attempt || e.Outcome != "EFFECT_VERIFIED" ||
		!e.Now.Equal(time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v, %v", e, err)
	}
	for _, change := range [][2]string{
		{`"o"`, `""`}, {attempt, "sha256:" + zeroes}, {"EFFECT_VERIFIED", "UNKNOWN_OUTCOME"}, {"EFFECT_VERIFIED", "ALLOW"},
		{`"C"`, `""`}, {"2031", "0001"}, {`"call"`, `"other"`}, {"}", ""},
	} {
		if _, _, err := etcd.ParseSettlement("D1", []byte(strings.Replace(text, change[0], change[1], 1))); err == nil {
			t.Errorf("%s for %s is read", change[1], change[0])
		}
	}
}

// What is due can only be what the ledger forgets, and never leaves its place.
func TestParseNames(t *testing.T) {
	got, err := etcd.ParseNames("/w/", []byte(`["grants/G1","proposals/hmac-sha256:a","redemptions/D1","done/K1"]`))
	if want := []string{"/w/ledger/grants/G1", "/w/ledger/proposals/hmac-sha256:a", "/w/ledger/redemptions/D1", "/w/ledger/done/K1"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{
		"", "null", "[]", `["instance"]`, `["timers/1"]`, `["due/1/D"]`, `["grants/"]`, `["done/"]`, `["grants/a/b"]`, `["/grants/a"]`, `["grants/a","instance"]`,
		`["grants/1","grants/2","grants/3","grants/4","grants/5"]`,
	} {
		if got, err := etcd.ParseNames("/w/", []byte(text)); err == nil {
			t.Errorf("%s is read as %q", text, got)
		}
	}
}

// A bucket never ends before what lies in it is due.
func TestBuckets(t *testing.T) {
	hour := time.Date(2031, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, test := range []struct{ due, end time.Time }{
		{hour.Add(time.Nanosecond), hour.Add(time.Hour)}, {hour.Add(59 * time.Minute), hour.Add(time.Hour)}, {hour.Add(time.Hour - 1), hour.Add(time.Hour)},
		{hour, hour.Add(time.Hour)},
	} {
		if end := etcd.BucketEnd(test.due); !end.Equal(test.end) || end.Before(test.due) {
			t.Errorf("what is due at %v may go at %v", test.due, end)
		}
	}
}

func TestEffectDigest(t *testing.T) {
	if etcd.EffectDigest("ab", "c") == etcd.EffectDigest("a", "bc") || etcd.EffectDigest("1 a", "b") == etcd.EffectDigest("1", " ab") {
		t.Error("two effects have one name")
	}
}

// What is read is written as it was read, in the sense of being read again.
func FuzzParseLedger(f *testing.F) {
	text, err := etcd.EncodeRedemption(ledgertest.NewClaim(1), ledgertest.NewClaim(1).Now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(text))
	f.Add([]byte("D1 " + attempt + " CALL"))
	f.Add([]byte(`{"observer":"o","receipt":"` + attempt + `","outcome":"POSTCONDITION_FAILED","at":"2031-01-02T03:04:05Z","call":"C"}`))
	f.Add([]byte(`["grants/G1","settled/D1"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, again, err := etcd.ParseRedemption("D1", data); err == nil {
			if c.ID != "D1" || c.Attempt.IsZero() || !grant.IsName(c.Grant) || !grant.IsName(c.Proposal) {
				t.Errorf("%+v", c)
			}
			if second, _, err := etcd.ParseRedemption("D1", []byte(again)); err != nil || !reflect.DeepEqual(c, second) {
				t.Errorf("%+v is read again as %+v, %v", c, second, err)
			}
		}
		if e, again, err := etcd.ParseSettlement("D1", data); err == nil {
			if e.Check() != nil {
				t.Errorf("%+v", e)
			}
			if second, _, err := etcd.ParseSettlement("D1", []byte(again)); err != nil || !reflect.DeepEqual(e, second) {
				t.Errorf("%+v is read again as %+v, %v", e, second, err)
			}
		}
		if _, _, again, ok := etcd.ParseHolding(string(data)); ok && again != string(data) {
			t.Errorf("%q is written as %q", data, again)
		}
		if names, err := etcd.ParseNames("/w/", data); err == nil {
			for _, name := range names {
				if !strings.HasPrefix(name, "/w/ledger/") || strings.Count(name, "/") != 4 || strings.HasSuffix(name, "/") {
					t.Errorf("%q", name)
				}
			}
		}
	})
}
