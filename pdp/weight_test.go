package pdp_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// TestWeightCountsEverything: whatever part of a proposal a host makes long, or
// makes many of, is counted, or one caller fills the memory with open grants.
func TestWeightCountsEverything(t *testing.T) {
	const long = 100_000
	secret := map[string]bool{".AccessToken": true, ".DPoPProof": true, ".SignedApprovals": true} // taken out before
	zero := pdp.Weight(&writ.Proposal{})
	seen := 0
	var fill func(path string, v reflect.Value, count func(path string, least int))
	fill = func(path string, v reflect.Value, count func(string, int)) {
		if secret[path] || v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		defer v.Set(was)
		switch v.Kind() {
		case reflect.String:
			v.SetString(strings.Repeat("x", long))
			count(path, long)
		case reflect.Struct:
			for i := range v.NumField() {
				fill(path+"."+v.Type().Field(i).Name, v.Field(i), count)
			}
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(path, v.Elem(), count)
		case reflect.Slice:
			n := long / int(v.Type().Elem().Size())
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			count(path+"[]", n*int(v.Type().Elem().Size()))
			if v.Type().Elem().Kind() == reflect.Uint8 {
				return
			}
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(path+"[1]", v.Index(1), count)
		case reflect.Map:
			m := reflect.MakeMap(v.Type())
			m.SetMapIndex(reflect.ValueOf(strings.Repeat("k", long)), reflect.ValueOf(strings.Repeat("v", long)))
			v.Set(m)
			count(path+"{}", 2*long)
		case reflect.Bool, reflect.Float64, reflect.Array:
		default:
			t.Fatalf("%s is a %v: how much does it take?", path, v.Kind())
		}
	}
	var p writ.Proposal
	fill("", reflect.ValueOf(&p).Elem(), func(path string, least int) {
		seen++
		if got := pdp.Weight(&p) - zero; got < least {
			t.Errorf("%s takes at least %d bytes, and %d are counted", path, least, got)
		}
	})
	if seen < 40 {
		t.Errorf("%d parts were filled", seen)
	}
}

// TestRoomForOthers: a caller that fills the room for open grants takes from
// others only that their calls can be decided again: their grants are redeemed
// while nothing changes that they rest on, and otherwise refused. The room comes
// back with the seconds that grants live.
func TestRoomForOthers(t *testing.T) {
	const room = 256 << 20 // as docs/limits.md has it
	atDesk(t, func(t *testing.T, d *desk) {
		groups := make([]string, 1<<17) // 2 MiB, of which nobody asks anything
		big := func() *writ.Proposal {
			p := d.proposal(small)
			token := *p.Token
			token.Groups = groups
			p.Token = &token
			return p
		}
		for range 140 { // more than 280 MiB
			d.granted(big())
		}
		if got := d.pdp.Remembered(); got > room || got < room/10*9 {
			t.Errorf("%d MiB are remembered", got>>20)
		}
		redeem := func(p *writ.Proposal, change func()) pdp.Redeemed {
			g := d.granted(p)
			change()
			return d.redeem(redemption(g, p))
		}
		if a := redeem(big(), func() {}); !a.MayAct() {
			t.Errorf("in the same world: %+v", a.Decision())
		}
		if a := redeem(big(), func() { d.revoke(revocation.Entry{Kind: revocation.Tool, ID: "x/y"}) }); !a.MayAct() {
			t.Errorf("something else was revoked: %+v", a.Decision())
		}
		if a := redeem(big(), func() { d.revoke(revocation.Entry{Kind: revocation.Caller, ID: "ap-host"}) }); a.Decision().Code != writ.CodeGrantRevoked {
			t.Errorf("who proposed was revoked: %+v", a.Decision())
		}
		d.revoke(revocation.Entry{Kind: revocation.Caller, ID: "ap-host", Lift: true})
		reload := func() { d.rebuild("policies/3-what.cedar", func(s string) string { return s + "\n" }) }
		if a := redeem(big(), reload); a.Decision().Code != writ.CodeGrantRevoked {
			t.Errorf("another bundle: %+v", a.Decision())
		}
		time.Sleep(pdp.DefaultGrantLifetime)
		if a := redeem(d.proposal(small), func() {
			d.revoke(revocation.Entry{Kind: revocation.Tool, ID: "x/z"})
			d.put(d.world.At("test", 3, d.world.Revocations))
		}); !a.MayAct() {
			t.Errorf("the room has not come back: %+v", a.Decision())
		}
		if got := d.pdp.Remembered(); got > 1<<20 {
			t.Errorf("%d MiB are remembered of what has expired", got>>20)
		}
	})
}
