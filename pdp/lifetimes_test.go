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

// rotating gives the desk a PDP whose keys change, and returns another one that
// shares all with it, but remembers none of its grants.
func rotating(d *desk, every, keep, grants time.Duration) (other *pdp.PDP) {
	d.t.Helper()
	keys, err := keyring.New(keyring.Config{RotateEvery: every, Keep: keep}, time.Now())
	if err != nil {
		d.t.Fatal(err)
	}
	ledger, err := grant.NewMemory(grant.MemoryConfig{Revocations: func() uint64 { return d.holder.Load().Revocations.Sequence() }})
	if err != nil {
		d.t.Fatal(err)
	}
	reviews, err := approval.NewMemory(approval.MemoryConfig{})
	if err != nil {
		d.t.Fatal(err)
	}
	cfg := pdp.Config{Snapshots: d.holder, Log: d.log, Keys: keys, Ledger: ledger, Reviews: reviews, Shared: true, GrantLifetime: grants}
	for _, p := range []**pdp.PDP{&d.pdp, &other} {
		if *p, err = pdp.New(cfg); err != nil {
			d.t.Fatal(err)
		}
	}
	return other
}

// lasting is a proposal that nothing of its own ends within two days.
func (d *desk) lasting(name string) *writ.Proposal {
	p := d.proposal(name)
	intent, token := *p.Intent, *p.Token
	intent.ExpiresAt, token.ExpiresAt = time.Now().Add(48*time.Hour), time.Now().Add(48*time.Hour)
	p.Intent, p.Token = &intent, &token
	return p
}

// TestKeysChangeUnderGrants: an open grant outlives the change of keys, at who
// minted it and elsewhere; a revoked key does not, whether it signs or not.
func TestKeysChangeUnderGrants(t *testing.T) {
	for name, c := range map[string]struct {
		keep, after time.Duration
		elsewhere   bool
		revoked     bool
		want        writ.Code
	}{
		"here":                      {10 * time.Minute, 2 * time.Minute, false, false, writ.CodeRedeemed},
		"elsewhere":                 {10 * time.Minute, 2 * time.Minute, true, false, writ.CodeRedeemed},
		"until it ends":             {10 * time.Minute, 5*time.Minute - 1, true, false, writ.CodeRedeemed},
		"and no longer":             {10 * time.Minute, 5 * time.Minute, true, false, writ.CodeGrantExpired},
		"nor here":                  {10 * time.Minute, 5 * time.Minute, false, false, writ.CodeGrantExpired},
		"the key revoked":           {10 * time.Minute, 2 * time.Minute, false, true, writ.CodeGrantRevoked},
		"the key revoked elsewhere": {10 * time.Minute, 2 * time.Minute, true, true, writ.CodeGrantRevoked},
		"the key kept too shortly":  {time.Minute, 4 * time.Minute, true, false, writ.CodeGrantInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				other := rotating(d, time.Minute, c.keep, pdp.MaxGrantLifetime)
				p := d.lasting(small)
				g := d.granted(p)
				before, _, _ := d.pdp.Keys()
				kid := kidOf(t, before)
				time.Sleep(time.Minute + time.Second)
				d.granted(d.lasting(small))
				now, _, _ := d.pdp.Keys()
				if kidOf(t, now) == kid || !strings.Contains(string(now), kid) {
					t.Fatalf("the key has not changed, or is gone: %s", now)
				}
				time.Sleep(time.Until(monday.Add(c.after)))
				if c.revoked {
					d.revoke(revocation.Entry{Kind: revocation.Key, Issuer: pdp.DefaultIssuer, ID: kid})
				}
				if c.elsewhere {
					d.pdp = other
				}
				if a := d.redeem(redemption(g, p)); a.Decision().Code != c.want || a.MayAct() != (c.want == writ.CodeRedeemed) {
					t.Errorf("%+v, want %s", a.Decision(), c.want)
				}
			})
		})
	}
}

// kidOf is the id of the first key of a set: the one that signs.
func kidOf(t *testing.T, jwks []byte) string {
	t.Helper()
	_, rest, _ := strings.Cut(string(jwks), `"kid":"`)
	kid, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("no key: %s", jwks)
	}
	return kid
}

// TestKeysChangeUnderApprovals: an approval counts for its hour whatever the
// keys do, for as long as they are kept; one whose key is over is nobody's word.
func TestKeysChangeUnderApprovals(t *testing.T) {
	for name, c := range map[string]struct {
		keep, after time.Duration
		kept        writ.Code // what the store's counts for
		brought     writ.Code // what the host's does
	}{
		"just changed":            {100 * time.Minute, 2 * time.Minute, writ.CodeAllow, writ.CodeAllow},
		"until it ends":           {100 * time.Minute, time.Hour - time.Second, writ.CodeAllow, writ.CodeAllow},
		"and no longer":           {100 * time.Minute, time.Hour, writ.CodeApprovalExpired, writ.CodeApprovalExpired},
		"a key kept too shortly":  {time.Minute, 30 * time.Minute, writ.CodeApprovalRequired, writ.CodeApprovalInvalid},
		"a key that is kept long": {100 * time.Minute, 30 * time.Minute, writ.CodeAllow, writ.CodeAllow},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				rotating(d, time.Minute, c.keep, 0)
				p := d.lasting(above)
				_, ticket := d.asked(p)
				with := *p
				with.SignedApprovals = []string{d.approve(d.statement(p, ticket, "ann")).Approval()}
				time.Sleep(time.Minute + time.Second)
				d.granted(d.lasting(small)) // another key
				time.Sleep(time.Until(monday.Add(c.after)))
				if a := d.decide(p); a.Decision().Code != c.kept || a.Allowed() != (c.kept == writ.CodeAllow) {
					t.Errorf("kept: %+v, want %s", a.Decision(), c.kept)
				}
				if a := d.decide(&with); a.Decision().Code != c.brought || a.Allowed() != (c.brought == writ.CodeAllow) {
					t.Errorf("brought: %+v, want %s", a.Decision(), c.brought)
				}
			})
		})
	}
}

// TestGrantLifetimes: five minutes are the most, and what a grant stands on
// ends it sooner.
func TestGrantLifetimes(t *testing.T) {
	for lifetime, good := range map[time.Duration]bool{
		time.Second: true, pdp.MaxGrantLifetime: true,
		time.Second - 1: false, pdp.MaxGrantLifetime + 1: false, -time.Second: false,
	} {
		atDesk(t, func(t *testing.T, d *desk) {
			p, err := pdp.New(pdp.Config{Snapshots: d.holder, Log: d.log, GrantLifetime: lifetime})
			if (err == nil) != good {
				t.Errorf("%v: %v", lifetime, err)
			}
			if err != nil {
				return
			}
			d.pdp = p
			// In the middle of a second: what is less is cut off.
			time.Sleep(700 * time.Millisecond)
			q := d.lasting(small)
			a := d.decide(q)
			want := monday.Add(lifetime + 700*time.Millisecond).Truncate(time.Second)
			if a.Grant().ExpiresAt != want {
				t.Fatalf("%v: until %v, want %v: %+v", lifetime, a.Grant().ExpiresAt, want, a.Decision())
			}
			time.Sleep(time.Until(want) - 1)
			r := redemption(a.Grant(), q)
			if a := d.redeem(r); !a.MayAct() || a.ActBefore() != want {
				t.Errorf("%v, just before: %+v", lifetime, a.Decision())
			}
			time.Sleep(time.Nanosecond)
			if a := d.redeem(r); a.MayAct() || a.Decision().Code != writ.CodeGrantExpired {
				t.Errorf("%v, at its end: %+v", lifetime, a.Decision())
			}
		})
	}
}

// TestGrantEndsWithApproval: a grant outlives no approval that it stands on.
func TestGrantEndsWithApproval(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.lasting(above)
		_, ticket := d.asked(p)
		d.approve(d.statement(p, ticket, "ann"))
		ends := monday.Add(pdp.DefaultApprovalLifetime)
		time.Sleep(time.Until(ends) - 7*time.Second)
		g := d.granted(p)
		if g.ExpiresAt != ends {
			t.Errorf("until %v, want %v", g.ExpiresAt, ends)
		}
		time.Sleep(7 * time.Second)
		if a := d.redeem(redemption(g, p)); a.Decision().Code != writ.CodeGrantExpired {
			t.Errorf("%+v", a.Decision())
		}
	})
}

// TestReviewEnds: people have a day, an approval that is given late ends with
// it, and then the call is proposed anew.
func TestReviewEnds(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.lasting(above)
		_, ticket := d.asked(p)
		ends := monday.Add(approval.DefaultLife)
		if ticket.ExpiresAt != ends {
			t.Fatalf("until %v, want %v", ticket.ExpiresAt, ends)
		}
		late := d.proposal("above 5000") // two people
		intent := *late.Intent
		intent.ExpiresAt = ends.Add(24 * time.Hour)
		late.Intent = &intent
		_, second := d.asked(late)
		time.Sleep(time.Until(ends) - 10*time.Minute)
		r := d.approve(d.statement(p, ticket, "ann"))
		if a := r.Review().Agreements; r.Decision().Code != writ.CodeAllow || len(a) != 1 || a[0].Expires != ends {
			t.Fatalf("%+v: %+v", r.Decision(), a)
		}
		if r := d.approve(d.statement(late, second, "max")); r.Decision().Code != writ.CodeAllow {
			t.Fatalf("%+v", r.Decision())
		}
		d.granted(p)
		time.Sleep(10 * time.Minute)
		if a := d.decide(p); a.Allowed() || a.Grant().Token != "" {
			t.Errorf("after its end: %+v", a.Decision())
		}
		s := d.statement(late, second, "fay")
		if r := d.approve(s); r.Approval() != "" || r.Decision().Code != writ.CodeApprovalExpired || r.Decision().Outcome == writ.Allow {
			t.Errorf("answered after its end: %+v", r.Decision())
		}
		if r, err := d.pdp.Reject(t.Context(), d.desk(), s); err != nil || r.Decision().Outcome == writ.Allow {
			t.Errorf("rejected after its end: %+v, %v", r.Decision(), err)
		}
		if kind, code, _ := d.last(); kind != "approval" || code != writ.CodeApprovalExpired {
			t.Errorf("recorded %s %s", kind, code)
		}
	})
}

// TestClockSetBack: once the clock has been read as later, it is never earlier:
// what ended then stays ended, and what is minted afterwards begins then.
func TestClockSetBack(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p, q := d.lasting(small), d.lasting(small)
		g := d.granted(p)
		ahead := monday.Add(time.Minute)
		if got := d.pdp.Read(ahead); !got.Equal(ahead) {
			t.Fatal(got)
		}
		if got := d.pdp.Read(monday); !got.Equal(ahead) {
			t.Errorf("set back: %v", got)
		}
		if a := d.redeem(redemption(g, p)); a.Decision().Code != writ.CodeGrantExpired {
			t.Errorf("%+v", a.Decision())
		}
		g = d.granted(q)
		if want := ahead.Add(pdp.DefaultGrantLifetime); g.ExpiresAt != want {
			t.Errorf("until %v, want %v", g.ExpiresAt, want)
		}
		if r := redemption(g, q); !d.redeem(r).MayAct() || !d.redeem(r).Repeated() {
			t.Error("not redeemed")
		}
		time.Sleep(90 * time.Second) // and now the clock has caught up
		if a := d.redeem(redemption(g, q)); a.Decision().Code != writ.CodeGrantExpired {
			t.Errorf("%+v", a.Decision())
		}
	})
}
