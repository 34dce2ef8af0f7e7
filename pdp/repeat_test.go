package pdp_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// TestRepeatStands: an attempt whose answer was lost may be repeated for as long
// as the grant lives and the call would still be allowed, whatever else has
// changed since it was redeemed.
func TestRepeatStands(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *desk)
		want   writ.Code
	}{
		"nothing":                {func(*desk) {}, writ.CodeRedeemed},
		"another tool revoked":   {func(d *desk) { d.revoke(revocation.Entry{Kind: revocation.Tool, ID: "x/y"}) }, writ.CodeRedeemed},
		"another bundle":         {func(d *desk) { d.rebuild("policies/3-what.cedar", func(s string) string { return s + "\n" }) }, writ.CodeRedeemed},
		"another window begins":  {func(d *desk) { begins(d) }, writ.CodeRedeemed},
		"the tool revoked":       {func(d *desk) { d.revoke(revocation.Entry{Kind: revocation.Tool, ID: "payments/create_payment"}) }, writ.CodeGrantRevoked},
		"the grant's time is up": {func(*desk) { time.Sleep(pdp.DefaultGrantLifetime) }, writ.CodeGrantExpired},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				p := d.proposal(small)
				r := redemption(d.granted(p), p)
				first := d.redeem(r)
				if !first.MayAct() {
					t.Fatalf("%+v", first.Decision())
				}
				c.change(d)
				again := d.redeem(r)
				if again.Decision().Code != c.want || again.MayAct() != (c.want == writ.CodeRedeemed) {
					t.Fatalf("%+v, want %s", again.Decision(), c.want)
				}
				if again.MayAct() && (!again.Repeated() || again.ID() != first.ID()) {
					t.Errorf("%s is repeated as %s", first.ID(), again.ID())
				}
			})
		})
	}
}

// TestRepeatRoom: what is remembered of redeemed grants is bounded: the first to
// be redeemed can't be decided again, once there are many, and is refused when
// the world has changed.
func TestRepeatRoom(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		_, files := payable()
		var listed struct{ Tools []json.RawMessage }
		for _, f := range files {
			if f.Name == "servers/payments.tools.json" {
				if err := json.Unmarshal(f.Data, &listed); err != nil {
					t.Fatal(err)
				}
			}
		}
		space := bytes.Repeat([]byte(" "), 48<<10)
		var all []*pdp.Redemption
		for range 800 { // more than 37 MiB
			p := d.proposal(small)
			for _, tool := range listed.Tools {
				if bytes.Contains(tool, []byte(`"`+p.Tool+`"`)) {
					p.DefinitionJSON, p.DefinitionDigest = slices.Concat(tool, space), canon.Digest{}
				}
			}
			r := redemption(d.granted(p), p)
			if !d.redeem(r).MayAct() {
				t.Fatal("not redeemed")
			}
			all = append(all, r)
		}
		first, last := all[0], all[len(all)-1]
		if !d.redeem(first).Repeated() {
			t.Error("what can't be decided again is refused in the same world")
		}
		d.revoke(revocation.Entry{Kind: revocation.Tool, ID: "x/y"})
		if a := d.redeem(first); a.Decision().Code != writ.CodeGrantRevoked {
			t.Errorf("the first: %+v", a.Decision())
		}
		if a := d.redeem(last); !a.Repeated() {
			t.Errorf("the last: %+v", a.Decision())
		}
	})
}

// begins has a revocation of something else begin by its own time.
func begins(d *desk) {
	d.revoke(revocation.Entry{Kind: revocation.Tool, ID: "x/y", From: time.Now().Add(2 * time.Second)})
	time.Sleep(3 * time.Second)
}
