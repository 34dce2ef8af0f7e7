package snapshot_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/snapshot"
)

func TestHolder(t *testing.T) {
	var h snapshot.Holder
	if h.Load() != nil {
		t.Fatal("an empty holder holds something")
	}
	one, two := &snapshot.Snapshot{Revision: "1"}, &snapshot.Snapshot{Revision: "2"}
	h.Store(one)
	h.Store(nil)
	if h.Load() != one {
		t.Error("storing nothing loses the last good world")
	}
	h.Store(two)
	if h.Load() != two {
		t.Error("the second world didn't arrive")
	}
}

func TestPrincipalOf(t *testing.T) {
	template := func(text string) snapshot.Template {
		t.Helper()
		tmpl, err := snapshot.ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	s := &snapshot.Snapshot{Issuers: map[string]*snapshot.Issuer{
		"https://a.example": {Name: "https://a.example", Principal: template(`User::"a|{sub}"`), Actor: template(`Agent::"a|{sub}"`), Tenant: "acme"},
		"https://b.example": {Name: "https://b.example", Principal: template(`User::"b|{name}"`), Actor: template(`Agent::"b|{client_id}"`)},
	}}
	p, claims, ok := s.PrincipalOf(types.NewEntityUID("User", "a|dana"))
	if !ok || p.Issuer != "https://a.example" || p.Subject != "dana" || p.Tenant != "acme" || len(claims) > 0 {
		t.Errorf("%+v %v %v", p, claims, ok)
	}
	p, claims, ok = s.PrincipalOf(types.NewEntityUID("User", "b|dana"))
	if !ok || p.Issuer != "https://b.example" || p.Subject == "" || p.Tenant != "" || claims["name"] != "dana" {
		t.Errorf("%+v %v %v", p, claims, ok)
	}
	if _, _, ok = s.PrincipalOf(types.NewEntityUID("User", "dana")); ok {
		t.Error("an entity that no issuer makes has a principal")
	}
	a, ok := s.ActorOf(types.NewEntityUID("Agent", "b|copilot"))
	if !ok || a.Issuer != "https://b.example" || a.Subject == "" || a.Claims["client_id"] != "copilot" {
		t.Errorf("%+v %v", a, ok)
	}
	if _, ok = s.ActorOf(types.NewEntityUID("User", "a|dana")); ok {
		t.Error("a principal is taken for an actor")
	}
}

// clock is t as the machine's clock shows it where it is ahead by that much,
// with the monotonic reading of t: see the comments of time.Time's fields.
func clock(t time.Time, ahead time.Duration) time.Time {
	const seconds = 30 // the bits below them are nanoseconds
	*(*uint64)(unsafe.Pointer(&t)) += uint64(ahead/time.Second) << seconds
	return t
}

// What was heard later is later, whatever was done to the clock.
func TestHeardWhileTheClockIsPutBack(t *testing.T) {
	var h snapshot.Holder
	if !h.HeardAt().IsZero() {
		t.Error("heard of nobody")
	}
	now := time.Now()
	ahead := clock(now, time.Hour)
	if ahead.Sub(now) != 0 || ahead.Round(0).Sub(now.Round(0)) != time.Hour {
		t.Fatal("the clock is not ahead")
	}
	h.Heard(ahead)
	if got := h.HeardAt(); !got.Round(0).Equal(ahead.Round(0)) {
		t.Errorf("heard at %v, want %v", got, ahead)
	}
	later := now.Add(time.Second)
	h.Heard(later)
	h.Heard(clock(now, 2*time.Hour))
	if got := h.HeardAt(); !got.Round(0).Equal(later.Round(0)) {
		t.Errorf("heard at %v, want %v", got, later)
	}
}
