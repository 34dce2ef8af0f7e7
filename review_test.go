package writ_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// unbound are the fields that a review's digest leaves out, and why.
var unbound = map[string]string{
	"Review.Digest":       "it is the digest",
	"Review.Revision":     "it names the world; what the world holds of the call is bound",
	"ReviewPolicy.Agreed": "it grows with each approval",
}

// fullReview returns a review of which no part is empty.
func fullReview() *writ.Review {
	at := time.Date(2026, 11, 30, 9, 0, 0, 1, time.UTC)
	return &writ.Review{
		Digest: canon.Sum([]byte("d")), ProposalDigest: canon.Sum([]byte("p")), RequestID: "r-1", Caller: "desk",
		Principal: writ.Principal{Issuer: "https://login.example", Subject: "ria", Tenant: "t"}, PrincipalEntity: `User::"ria"`,
		Actors: []string{`Agent::"bot"`}, Intent: &writ.Intent{ID: "i", Purpose: "pay", DeclaredAt: at, ExpiresAt: at.Add(time.Hour)},
		Server: "payments", Tool: "pay", Action: "payments/pay", Effect: writ.Write, Reversible: true,
		ContractDigest: canon.Sum([]byte("c")), Retries: canon.Sum([]byte("first")),
		Entities: []writ.ReviewEntity{{
			Entity: `Supplier::"ACME"`, Argument: "/supplier", Target: true, Held: true,
			Attributes: map[string]string{"owner": `"ann"`}, Tags: map[string]string{"tier": "1"}, Parents: []string{`Group::"g"`},
		}},
		Arguments: []writ.ReviewArgument{{
			Pointer: "/amount", ValueJSON: "900", NeedsSupport: true, Supported: true, Warnings: []string{"Look."},
			Sources: []writ.ReviewSource{{Kind: writ.SourceUser, Reference: "form", Classification: "internal", ObservedAt: at, Trusted: true, Agrees: true}},
		}},
		ExtraParamsJSON: `{"a":1}`,
		Policies:        []writ.ReviewPolicy{{ID: "large", Code: "LARGE", Explain: "It is much.", People: 2, Targets: []string{`Supplier::"ACME"`}, Agreed: 1}},
		Revision:        "bundle-1",
	}
}

// leaves calls tell with the name of each field of v and how to change it.
func leaves(v reflect.Value, name string, tell func(name string, flip func())) {
	if t, ok := v.Addr().Interface().(*time.Time); ok {
		tell(name, func() { *t = t.Add(time.Nanosecond) })
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name, tell)
		}
	case reflect.Pointer:
		leaves(v.Elem(), name, tell)
		tell(name+" absent", func() { v.SetZero() })
	case reflect.Slice:
		leaves(v.Index(0), name, tell)
		tell(name+" without its first", func() { v.Set(v.Slice(1, v.Len())) })
		tell(name+" with its first twice", func() { v.Set(reflect.Append(v, v.Index(0))) })
	case reflect.Map:
		key := v.MapKeys()[0]
		tell(name+" with another value", func() { v.SetMapIndex(key, reflect.ValueOf("x")) })
		tell(name+" with another name", func() {
			v.SetMapIndex(reflect.ValueOf("x"), v.MapIndex(key))
			v.SetMapIndex(key, reflect.Value{})
		})
	case reflect.Array:
		tell(name, func() { v.Index(0).SetUint(v.Index(0).Uint() ^ 1) })
	case reflect.String:
		tell(name, func() { v.SetString(v.String() + "x") })
	case reflect.Bool:
		tell(name, func() { v.SetBool(!v.Bool()) })
	case reflect.Int:
		tell(name, func() { v.SetInt(v.Int() + 1) })
	default:
		panic(fmt.Sprintf("%s: a %s", name, v.Kind()))
	}
}

// TestReviewDigestBindsEverything flips each field of a review by itself.
func TestReviewDigestBindsEverything(t *testing.T) {
	var names []string
	leaves(reflect.ValueOf(fullReview()).Elem(), "Review", func(name string, _ func()) { names = append(names, name) })
	if len(names) < 50 {
		t.Fatalf("only %d changes", len(names))
	}
	want := writ.ReviewDigest(fullReview())
	if want.IsZero() || want != writ.ReviewDigest(fullReview()) {
		t.Fatalf("the digest is no function of the review: %s", want)
	}
	seen := map[canon.Digest]string{want: "the review itself"}
	left := 0
	for i, name := range names {
		r := fullReview()
		k := 0
		leaves(reflect.ValueOf(r).Elem(), "Review", func(_ string, flip func()) {
			if k == i {
				flip()
			}
			k++
		})
		got := writ.ReviewDigest(r)
		if unbound[name] != "" {
			if left++; got != want {
				t.Errorf("%s changes the digest, though %s", name, unbound[name])
			}
			continue
		}
		if got.IsZero() || seen[got] != "" {
			t.Errorf("%s: the digest is that of %q", name, seen[got])
		}
		seen[got] = name
	}
	if left != len(unbound) {
		t.Errorf("%d of %d unbound fields exist", left, len(unbound))
	}
}

// TestReviewDigestVector pins the form that other implementations write.
func TestReviewDigestVector(t *testing.T) {
	if d := writ.ReviewDigest(nil); !d.IsZero() {
		t.Errorf("of nothing: %s", d)
	}
	r := fullReview()
	r.ProposalDigest = canon.Digest{}
	if d := writ.ReviewDigest(r); !d.IsZero() {
		t.Errorf("without a proposal: %s", d)
	}
	small := &writ.Review{ProposalDigest: canon.Sum([]byte("p")), Policies: []writ.ReviewPolicy{{ID: "large", People: 2}}}
	text := `{"action":"","actors":[],"arguments":[],"caller":"","contract_digest":"","effect":"","entities":[],"extra_params":"","intent":null,` +
		`"policies":[{"code":"","explain":"","id":"large","people":2,"targets":[]}],"principal":{"entity":"","iss":"","sub":"","tenant":""},` +
		`"proposal_digest":"` + canon.Sum([]byte("p")).String() + `","request_id":"","retries":"","reversible":false,"server":"","tool":"","type":"writ.review.v1"}`
	if got, want := writ.ReviewDigest(small), canon.Sum([]byte(text)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
