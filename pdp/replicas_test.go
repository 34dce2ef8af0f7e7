package pdp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// replica makes another PDP that shares the first one's ledger and trusts its
// keys, and returns it with what it decides by.
func replicas(t *testing.T, d *desk) (first, second *pdp.PDP) {
	t.Helper()
	ledger, err := grant.NewMemory(grant.MemoryConfig{Revocations: func() uint64 { return d.world.Revocations.Sequence() }})
	if err != nil {
		t.Fatal(err)
	}
	reviews, err := approval.NewMemory(approval.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	root := keyring.Generate()
	var rings [2]*keyring.Ring
	var statements [2]keyring.Replica
	for i, name := range []string{"one", "two"} {
		key := keyring.Generate()
		statement, err := keyring.CertifyReplica(root, keyring.Replica{
			Name: name, Public: key.Public(), IssuedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		if statements[i], err = keyring.OpenReplica(root.Public(), statement, time.Now()); err != nil {
			t.Fatal(err)
		}
		if rings[i], err = keyring.New(keyring.Config{Key: key}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	var out [2]*pdp.PDP
	for i := range out {
		if err := rings[i].Trust([]keyring.Replica{statements[1-i]}); err != nil {
			t.Fatal(err)
		}
		if out[i], err = pdp.New(pdp.Config{Snapshots: d.holder, Log: d.log, Keys: rings[i], Ledger: ledger, Reviews: reviews, Shared: true}); err != nil {
			t.Fatal(err)
		}
	}
	return out[0], out[1]
}

// TestReplicas: what one replica mints, another redeems, but only while nothing
// has changed that the grant rests on: it can't decide the call again.
func TestReplicas(t *testing.T) {
	tool := "payments/create_payment"
	for name, c := range map[string]struct {
		change func(d *desk, p *writ.Proposal)
		want   writ.Code
	}{
		"nothing":           {func(*desk, *writ.Proposal) {}, writ.CodeRedeemed},
		"something revoked": {func(d *desk, _ *writ.Proposal) { d.revoke(revocation.Entry{Kind: revocation.Tool, ID: "x/y"}) }, writ.CodeRedeemed},
		"the tool":          {func(d *desk, _ *writ.Proposal) { d.revoke(revocation.Entry{Kind: revocation.Tool, ID: tool}) }, writ.CodeGrantRevoked},
		"the server":        {func(d *desk, _ *writ.Proposal) { d.revoke(revocation.Entry{Kind: revocation.Server, ID: "payments"}) }, writ.CodeGrantRevoked},
		"the host":          {func(d *desk, _ *writ.Proposal) { d.revoke(revocation.Entry{Kind: revocation.Caller, ID: "ap-host"}) }, writ.CodeGrantRevoked},
		"the principal": {func(d *desk, p *writ.Proposal) {
			d.revoke(revocation.Entry{Kind: revocation.Principal, Issuer: p.Principal.Issuer, ID: p.Principal.Subject})
		}, writ.CodeGrantRevoked},
		"the issuer": {func(d *desk, p *writ.Proposal) {
			d.revoke(revocation.Entry{Kind: revocation.Issuer, ID: p.Principal.Issuer})
		}, writ.CodeGrantRevoked},
		"the actor": {func(d *desk, p *writ.Proposal) {
			d.revoke(revocation.Entry{Kind: revocation.Actor, ID: p.Actors[0].Subject})
		}, writ.CodeGrantRevoked},
		"the intent": {func(d *desk, p *writ.Proposal) { d.revoke(revocation.Entry{Kind: revocation.Intent, ID: p.Intent.ID}) }, writ.CodeGrantRevoked},
		"the token": {func(d *desk, p *writ.Proposal) {
			d.revoke(revocation.Entry{Kind: revocation.Token, Issuer: p.Token.Issuer, ID: "jti-1"})
		}, writ.CodeGrantRevoked},
		"the token's key": {func(d *desk, p *writ.Proposal) {
			d.revoke(revocation.Entry{Kind: revocation.Key, Issuer: p.Token.Issuer, ID: "kid-1"})
		}, writ.CodeGrantRevoked},
		"another's token": {func(d *desk, p *writ.Proposal) {
			d.revoke(revocation.Entry{Kind: revocation.Token, Issuer: p.Token.Issuer, ID: "jti-2"})
		}, writ.CodeRedeemed},
		"dated, and begun": {func(d *desk, _ *writ.Proposal) {
			d.revoke(revocation.Entry{Kind: revocation.Tool, ID: tool, From: time.Now().Add(2 * time.Second)})
			time.Sleep(2 * time.Second)
		}, writ.CodeGrantRevoked},
		"dated, and to come": {func(d *desk, _ *writ.Proposal) {
			d.revoke(revocation.Entry{Kind: revocation.Tool, ID: "x/y", From: time.Now().Add(2 * time.Second)})
		}, writ.CodeRedeemed},
		"the bundle": {func(d *desk, _ *writ.Proposal) {
			d.rebuild("policies/3-what.cedar", func(s string) string { return s + "\n" })
		}, writ.CodeGrantRevoked},
		"the contract": {func(d *desk, _ *writ.Proposal) {
			d.rebuild("servers/payments.yaml", func(s string) string { return strings.Replace(s, "within: 30s", "within: 31s", 1) })
		}, writ.CodeGrantRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				first, second := replicas(t, d)
				p := d.proposal(small)
				p.Token.ID, p.Token.KeyID = "jti-1", "kid-1"
				a, err := first.Decide(t.Context(), d.host(), p, pdp.Ask{})
				if err != nil || a.Grant().Token == "" {
					t.Fatalf("%+v, %v", a.Decision(), err)
				}
				c.change(d, p)
				r := redemption(a.Grant(), p)
				got, err := second.Redeem(t.Context(), d.payments(), r)
				if err != nil || got.Decision().Code != c.want || got.MayAct() != (c.want == writ.CodeRedeemed) {
					t.Fatalf("%+v, %v; want %s", got.Decision(), err, c.want)
				}
				if !got.MayAct() {
					return
				}
				// The first knows that it is spent, and by whom.
				if again, err := first.Redeem(t.Context(), d.payments(), r); err != nil || !again.MayAct() || !again.Repeated() || again.ID() != got.ID() {
					t.Errorf("the same attempt at the other replica: %+v, %v", again.Decision(), err)
				}
				if other, err := first.Redeem(t.Context(), d.payments(), redemption(a.Grant(), p)); err != nil || other.Decision().Code != writ.CodeGrantAlreadyUsed {
					t.Errorf("another attempt at the other replica: %+v, %v", other.Decision(), err)
				}
			})
		})
	}
}

// TestReplicasApprove: what is asked at one replica is approved at another, and
// counts at both.
func TestReplicasApprove(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		first, second := replicas(t, d)
		p := d.proposal(above)
		a, err := first.Decide(t.Context(), d.host(), p, pdp.Ask{})
		if err != nil || a.Review().ID == "" {
			t.Fatalf("%+v, %v", a.Decision(), err)
		}
		d.pdp = second
		signed := d.approve(d.statement(p, a.Review(), "ann"))
		if signed.Approval() == "" {
			t.Fatalf("%+v", signed.Decision())
		}
		for i, replica := range []*pdp.PDP{first, second} {
			a, err := replica.Decide(t.Context(), d.host(), p, pdp.Ask{})
			if err != nil || a.Grant().Token == "" {
				t.Fatalf("replica %d: %+v, %v", i+1, a.Decision(), err)
			}
			// The approval's key and the approver void the grant elsewhere, too.
			if i == 0 {
				d.revoke(revocation.Entry{Kind: revocation.Approval, ID: signed.Review().Agreements[0].ID})
				if r, err := second.Redeem(t.Context(), d.payments(), redemption(a.Grant(), p)); err != nil || r.Decision().Code != writ.CodeGrantRevoked {
					t.Errorf("its approval is revoked: %+v, %v", r.Decision(), err)
				}
				d.put(d.world.At("test", 1, &revocation.View{}))
			}
		}
	})
}
