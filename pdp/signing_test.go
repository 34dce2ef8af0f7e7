package pdp_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// keyOf is the kid of a grant.
func keyOf(t *testing.T, p *pdp.PDP, d *desk) revocation.Entry {
	t.Helper()
	a, err := p.Decide(t.Context(), d.host(), d.proposal(small), pdp.Ask{})
	if err != nil || a.Grant().Token == "" {
		t.Fatalf("%+v, %v", a.Decision(), err)
	}
	return revocation.Entry{Kind: revocation.Key, Issuer: pdp.DefaultIssuer, ID: kid(t, a.Grant().Token)}
}

// TestOwnKeyRevoked: nothing is signed with a revoked key. Who makes its keys
// makes another at once; a replica that was given one signs no more.
func TestOwnKeyRevoked(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		before := keyOf(t, d.pdp, d)
		old, p := d.proposal(small), d.proposal(small)
		g := d.granted(old)
		d.revoke(before)
		if a := d.redeem(redemption(g, old)); a.Decision().Code != writ.CodeGrantRevoked {
			t.Errorf("of the revoked key: %+v", a.Decision())
		}
		if after := keyOf(t, d.pdp, d); after.ID == before.ID {
			t.Error("the revoked key signs on")
		}
		if !d.redeem(redemption(d.granted(p), p)).MayAct() {
			t.Error("nothing is good any more")
		}
		reviewed := d.proposal(above)
		_, ticket := d.asked(reviewed)
		if r := d.approve(d.statement(reviewed, ticket, "ann")); r.Approval() == "" {
			t.Errorf("%+v", r.Decision())
		}
		d.granted(reviewed)
	})
	atDesk(t, func(t *testing.T, d *desk) {
		first, second := replicas(t, d)
		p := d.proposal(above)
		a, err := first.Decide(t.Context(), d.host(), p, pdp.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		d.revoke(keyOf(t, first, d))
		if a, err := first.Decide(t.Context(), d.host(), d.proposal(small), pdp.Ask{}); err != nil || a.Allowed() || a.Grant().Token != "" || a.Decision().Code != writ.CodeGrantInvalid {
			t.Errorf("%+v, %v", a.Decision(), err)
		}
		d.pdp = first
		if r := d.approve(d.statement(p, a.Review(), "ann")); r.Approval() != "" || r.Decision().Outcome == writ.Allow {
			t.Errorf("approved: %+v", r.Decision())
		}
		if a, err := second.Decide(t.Context(), d.host(), d.proposal(small), pdp.Ask{}); err != nil || a.Grant().Token == "" {
			t.Errorf("the other replica: %+v, %v", a.Decision(), err)
		}
	})
}

// kid is what a token's header says (RFC 7515, section 4.1.4).
func kid(t *testing.T, token string) string {
	t.Helper()
	head, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	var header struct{ Kid string }
	if err == nil {
		err = json.Unmarshal(text, &header)
	}
	if err != nil || header.Kid == "" {
		t.Fatal(err)
	}
	return header.Kid
}
