package pdp_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// small is a scenario that is allowed without anybody else.
const small = "exactly 500"

func TestRedeem(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(small)
		g := d.granted(p)
		if g.ExpiresAt != monday.Add(pdp.DefaultGrantLifetime) || len(g.ID) != 26 || len(g.IdempotencyKey) != 43 || g.Postconditions == nil || g.Postconditions.Observer != "payments" {
			t.Errorf("the grant is %+v", g)
		}
		if kind, code, durable := d.last(); kind != "decision" || code != writ.CodeAllow || !durable {
			t.Errorf("recorded %s %s, durable %t", kind, code, durable)
		}
		time.Sleep(10 * time.Second)
		r := redemption(g, p)
		a := d.redeem(r)
		if !a.MayAct() || a.Decision().Outcome != writ.Allow || a.Decision().Code != writ.CodeRedeemed || a.ActBefore() != g.ExpiresAt || a.IdempotencyKey() != g.IdempotencyKey || a.Repeated() {
			t.Fatalf("%+v", a)
		}
		if kind, code, durable := d.last(); kind != "redemption" || code != writ.CodeRedeemed || !durable {
			t.Errorf("recorded %s %s, durable %t", kind, code, durable)
		}
		// The same attempt may come again: its answer may have been lost.
		again := d.redeem(r)
		if !again.MayAct() || !again.Repeated() || again.ID() != a.ID() {
			t.Errorf("repeated: %+v", again)
		}
		// Another attempt may not, whoever makes it.
		if a := d.redeem(redemption(g, p)); a.MayAct() || a.Decision().Code != writ.CodeGrantAlreadyUsed || a.Decision().Control != writ.ControlGrant {
			t.Errorf("another attempt: %+v", a.Decision())
		}
		// Nor with another grant for the same proposal.
		if a := d.redeem(redemption(d.granted(p), p)); a.MayAct() || a.Decision().Code != writ.CodeGrantAlreadyUsed {
			t.Errorf("another grant for the proposal: %+v", a.Decision())
		}
		time.Sleep(20 * time.Second)
		if a := d.redeem(r); a.MayAct() || a.Decision().Code != writ.CodeGrantExpired {
			t.Errorf("repeated when it has expired: %+v", a.Decision())
		}
	})
}

// TestGrantsWhereNeeded: what changes something carries a grant; what computes
// or reads does not, unless the proposer asks; what is denied never does.
func TestGrantsWhereNeeded(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		seen := map[bool]int{}
		for i := range d.cases {
			s := d.cases[i].At(time.Now())
			caller := d.world.Callers[s.Caller]
			p := s.Proposal
			p.Approvals = nil
			for _, asked := range []bool{false, true} {
				a, err := d.pdp.Decide(t.Context(), caller, &p, pdp.Ask{Grant: asked})
				if err != nil {
					t.Fatal(err)
				}
				dec := a.Decision()
				want := dec.Outcome == writ.Allow && (asked || dec.Effect == writ.Write)
				if got := a.Grant().Token != ""; got != want {
					t.Errorf("%s (asked: %t): %s of a %s: grant %t, want %t", s.Name, asked, dec.Code, dec.Effect, got, want)
				}
				seen[want]++
			}
		}
		if seen[true] == 0 || seen[false] == 0 {
			t.Errorf("seen %v", seen)
		}
	})
}

// TestRedeemRefuses: each way in which the server's view, the grant or the
// world differs has its code, and nothing is spent by it.
func TestRedeemRefuses(t *testing.T) {
	sub := func(old, new string) func(*desk, *pdp.Redemption) {
		return func(d *desk, r *pdp.Redemption) {
			text := strings.Replace(string(r.ArgumentsJSON), old, new, 1)
			if text == string(r.ArgumentsJSON) {
				d.t.Fatalf("%s has no %s", text, old)
			}
			r.ArgumentsJSON = []byte(text)
		}
	}
	for name, c := range map[string]struct {
		change func(*desk, *pdp.Redemption)
		want   writ.Code
	}{
		"no grant":               {func(_ *desk, r *pdp.Redemption) { r.Grant = "" }, writ.CodeGrantRequired},
		"no JWS":                 {func(_ *desk, r *pdp.Redemption) { r.Grant = "grant" }, writ.CodeGrantInvalid},
		"dots":                   {func(_ *desk, r *pdp.Redemption) { r.Grant = strings.Repeat(".", 100000) }, writ.CodeGrantInvalid},
		"5 KiB":                  {func(_ *desk, r *pdp.Redemption) { r.Grant += strings.Repeat("A", 5<<10) }, writ.CodeGrantInvalid},
		"another signature":      {func(_ *desk, r *pdp.Redemption) { r.Grant = r.Grant[:len(r.Grant)-8] + "AAAAAAAA" }, writ.CodeGrantInvalid},
		"of another instance":    {func(d *desk, r *pdp.Redemption) { r.Grant = elsewhere(d).Token }, writ.CodeGrantInvalid},
		"no server":              {func(_ *desk, r *pdp.Redemption) { r.Server = "" }, writ.CodeMalformedProposal},
		"no tool":                {func(_ *desk, r *pdp.Redemption) { r.Tool = "" }, writ.CodeMalformedProposal},
		"no principal":           {func(_ *desk, r *pdp.Redemption) { r.Principal = writ.Principal{} }, writ.CodeMalformedProposal},
		"no attempt":             {func(_ *desk, r *pdp.Redemption) { r.Attempt = "" }, writ.CodeMalformedProposal},
		"a short attempt":        {func(_ *desk, r *pdp.Redemption) { r.Attempt = r.Attempt[:20] }, writ.CodeMalformedProposal},
		"a padded attempt":       {func(_ *desk, r *pdp.Redemption) { r.Attempt += "==" }, writ.CodeMalformedProposal},
		"an attempt's stray bit": {func(_ *desk, r *pdp.Redemption) { r.Attempt = r.Attempt[:21] + "B" }, writ.CodeMalformedProposal},
		"an attempt's line end":  {func(_ *desk, r *pdp.Redemption) { r.Attempt += "\n" }, writ.CodeMalformedProposal},
		"no JSON":                {func(_ *desk, r *pdp.Redemption) { r.ArgumentsJSON = []byte("{") }, writ.CodeMalformedProposal},
		"arguments twice":        {func(_ *desk, r *pdp.Redemption) { r.ArgumentsJSON = []byte(`{"a":1,"a":1}`) }, writ.CodeMalformedProposal},
		"no revision":            {func(_ *desk, r *pdp.Redemption) { r.AtLeastAsFresh = "now" }, writ.CodeMalformedProposal},
		"a revision to come": {func(d *desk, r *pdp.Redemption) {
			r.AtLeastAsFresh = d.world.At("test", 9, d.world.Revocations).Revision
		}, writ.CodeRevisionUnavailable},

		"another server":        {func(_ *desk, r *pdp.Redemption) { r.Server = "invoices" }, writ.CodeGrantAudience},
		"another tool":          {func(_ *desk, r *pdp.Redemption) { r.Tool = "get_payment" }, writ.CodeGrantMismatch},
		"another amount":        {sub(`500`, `501`), writ.CodeGrantMismatch},
		"one byte of a text":    {sub(`ACME-01`, `ACME-02`), writ.CodeGrantMismatch},
		"an argument more":      {sub(`{`, `{"x":1,`), writ.CodeGrantMismatch},
		"no arguments":          {func(_ *desk, r *pdp.Redemption) { r.ArgumentsJSON = nil }, writ.CodeGrantMismatch},
		"inputResponses":        {func(_ *desk, r *pdp.Redemption) { r.ExtraParamsJSON = []byte(`{"inputResponses":{"a":1}}`) }, writ.CodeGrantMismatch},
		"another subject":       {func(_ *desk, r *pdp.Redemption) { r.Principal.Subject = "olga" }, writ.CodeGrantMismatch},
		"another issuer":        {func(_ *desk, r *pdp.Redemption) { r.Principal.Issuer = "local" }, writ.CodeGrantMismatch},
		"another tenant":        {func(_ *desk, r *pdp.Redemption) { r.Principal.Tenant += "x" }, writ.CodeGrantMismatch},
		"the same number":       {sub(`500.00`, `5.0e2`), writ.CodeRedeemed},
		"white space":           {sub(`{`, "{ \n"), writ.CodeRedeemed},
		"no extra params":       {func(_ *desk, r *pdp.Redemption) { r.ExtraParamsJSON = []byte(`{}`) }, writ.CodeRedeemed},
		"expired":               {func(*desk, *pdp.Redemption) { time.Sleep(pdp.DefaultGrantLifetime) }, writ.CodeGrantExpired},
		"a nanosecond before":   {func(*desk, *pdp.Redemption) { time.Sleep(pdp.DefaultGrantLifetime - 1) }, writ.CodeRedeemed},
		"the tool revoked":      {withdrawing(revocation.Entry{Kind: revocation.Tool, ID: "payments/create_payment"}), writ.CodeGrantRevoked},
		"the server revoked":    {withdrawing(revocation.Entry{Kind: revocation.Server, ID: "payments"}), writ.CodeGrantRevoked},
		"the host revoked":      {withdrawing(revocation.Entry{Kind: revocation.Caller, ID: "ap-host"}), writ.CodeGrantRevoked},
		"the actor revoked":     {withdrawing(revocation.Entry{Kind: revocation.Actor, ID: "ap-assistant"}), writ.CodeGrantRevoked},
		"another tool revoked":  {withdrawing(revocation.Entry{Kind: revocation.Tool, ID: "payments/get_payment"}), writ.CodeRedeemed},
		"revoked from later on": {withdrawing(revocation.Entry{Kind: revocation.Tool, ID: "payments/create_payment", From: monday.Add(5 * time.Second)}), writ.CodeRedeemed},
		"revoked from just now on": {func(d *desk, r *pdp.Redemption) {
			withdrawing(revocation.Entry{Kind: revocation.Tool, ID: "payments/create_payment", From: monday.Add(5 * time.Second)})(d, r)
			time.Sleep(5 * time.Second)
		}, writ.CodeGrantRevoked},
		"a policy of others": {func(d *desk, _ *pdp.Redemption) {
			d.rebuild("policies/3-what.cedar", func(s string) string { return s + "\n" })
		}, writ.CodeRedeemed},
		"a policy against it": {func(d *desk, _ *pdp.Redemption) {
			d.rebuild("policies/3-what.cedar", func(s string) string {
				return s + "\n@id(\"none\")\n@code(\"NONE\")\nforbid (principal, action == Action::\"payments/create_payment\", resource);\n"
			})
		}, writ.CodeGrantRevoked},
		"a policy for a review": {func(d *desk, _ *pdp.Redemption) {
			d.rebuild("policies/5-with-whom.cedar", func(s string) string { return strings.Replace(s, `decimal("500.00")`, `decimal("499.00")`, 1) })
		}, writ.CodeGrantRevoked},
		"another contract": {func(d *desk, _ *pdp.Redemption) {
			d.rebuild("servers/payments.yaml", func(s string) string { return strings.Replace(s, "within: 30s", "within: 31s", 1) })
		}, writ.CodeGrantRevoked},
		"the tool taken out": {func(d *desk, _ *pdp.Redemption) { d.put(without(d, "payments/create_payment")) }, writ.CodeGrantRevoked},
		"the host taken out": {func(d *desk, _ *pdp.Redemption) { d.put(withoutCaller(d, "ap-host")) }, writ.CodeGrantRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				p := d.proposal(small)
				g := d.granted(p)
				r := redemption(g, p)
				c.change(d, r)
				a := d.redeem(r)
				if a.Decision().Code != c.want || a.MayAct() != (c.want == writ.CodeRedeemed) {
					t.Fatalf("%+v, want %s", a.Decision(), c.want)
				}
				kind, code, durable := d.last()
				if kind != "redemption" || code != c.want || durable != a.MayAct() {
					t.Errorf("recorded %s %s, durable %t", kind, code, durable)
				}
				if a.MayAct() || c.want == writ.CodeGrantExpired || c.want == writ.CodeGrantRevoked {
					return
				}
				if a := d.redeem(redemption(g, p)); !a.MayAct() {
					t.Errorf("something was spent: %+v", a.Decision())
				}
			})
		})
	}
}

func withdrawing(entries ...revocation.Entry) func(*desk, *pdp.Redemption) {
	return func(d *desk, _ *pdp.Redemption) { d.revoke(entries...) }
}

// without is the world without a tool.
func without(d *desk, tool string) *snapshot.Snapshot {
	world := *d.world
	world.Contracts = maps.Clone(world.Contracts)
	delete(world.Contracts, tool)
	return world.At("test", 2, world.Revocations)
}

// withoutCaller is the world without a caller.
func withoutCaller(d *desk, name string) *snapshot.Snapshot {
	world := *d.world
	world.Callers = maps.Clone(world.Callers)
	delete(world.Callers, name)
	return world.At("test", 2, world.Revocations)
}

// elsewhere is a grant for the same call by another instance.
func elsewhere(d *desk) pdp.Grant {
	a, err := newPDP(d.t, &memory{}, d.holder).Decide(d.t.Context(), d.host(), d.proposal(small), pdp.Ask{})
	if err != nil || a.Grant().Token == "" {
		d.t.Fatal(a.Decision(), err)
	}
	return a.Grant()
}

// TestPrincipalTokenRevoked: whatever the grant rests on, also what it does not
// name, voids it when it is revoked.
func TestGrantRestsOn(t *testing.T) {
	for name, entry := range map[string]func(p *writ.Proposal, g pdp.Grant) revocation.Entry{
		"principal": func(p *writ.Proposal, _ pdp.Grant) revocation.Entry {
			return revocation.Entry{Kind: revocation.Principal, Issuer: p.Principal.Issuer, ID: p.Principal.Subject}
		},
		"issuer": func(p *writ.Proposal, _ pdp.Grant) revocation.Entry {
			return revocation.Entry{Kind: revocation.Issuer, ID: p.Principal.Issuer}
		},
		"intent": func(p *writ.Proposal, _ pdp.Grant) revocation.Entry {
			return revocation.Entry{Kind: revocation.Intent, ID: p.Intent.ID}
		},
		"token": func(p *writ.Proposal, _ pdp.Grant) revocation.Entry {
			return revocation.Entry{Kind: revocation.Token, Issuer: p.Token.Issuer, ID: p.Token.ID}
		},
		"key of the token": func(p *writ.Proposal, _ pdp.Grant) revocation.Entry {
			return revocation.Entry{Kind: revocation.Key, Issuer: p.Token.Issuer, ID: p.Token.KeyID}
		},
		"grant": func(_ *writ.Proposal, g pdp.Grant) revocation.Entry {
			return revocation.Entry{Kind: revocation.Grant, ID: g.ID}
		},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				p := d.proposal(small)
				p.Token.ID, p.Token.KeyID = "jti-1", "kid-1"
				g := d.granted(p)
				d.revoke(entry(p, g))
				if a := d.redeem(redemption(g, p)); a.Decision().Code != writ.CodeGrantRevoked {
					t.Errorf("%+v", a.Decision())
				}
			})
		})
	}
}

// TestRedeemByOthers: only the caller that redeems for the server does.
func TestRedeemByOthers(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(small)
		g := d.granted(p)
		for name, caller := range d.world.Callers {
			if name == "payments" {
				continue
			}
			a, err := d.pdp.Redeem(t.Context(), caller, redemption(g, p))
			if err != nil || a.MayAct() || a.Decision().Code != writ.CodeGrantAudience {
				t.Errorf("%s: %+v, %v", name, a.Decision(), err)
			}
		}
		stranger := &writ.Caller{Name: "stranger", Roles: []writ.Role{writ.RoleServer}}
		if a, err := d.pdp.Redeem(t.Context(), stranger, redemption(g, p)); err != nil || a.Decision().Code != writ.CodeGrantAudience {
			t.Errorf("a stranger: %+v, %v", a.Decision(), err)
		}
		if !d.redeem(redemption(g, p)).MayAct() {
			t.Error("the server itself may not")
		}
	})
}

// TestGrantEndsWithWhatItStandsOn: a grant never outlives the token, the intent
// or its own lifetime.
func TestGrantEndsWithWhatItStandsOn(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		for name, c := range map[string]struct {
			change func(p *writ.Proposal)
			want   time.Duration // 0: no grant
		}{
			"neither ends":          {func(*writ.Proposal) {}, pdp.DefaultGrantLifetime},
			"the token":             {func(p *writ.Proposal) { p.Token.ExpiresAt = monday.Add(7 * time.Second) }, 7 * time.Second},
			"the intent":            {func(p *writ.Proposal) { p.Intent.ExpiresAt = monday.Add(9 * time.Second) }, 9 * time.Second},
			"within a second":       {func(p *writ.Proposal) { p.Token.ExpiresAt = monday.Add(7*time.Second + 999*time.Millisecond) }, 7 * time.Second},
			"before a second is up": {func(p *writ.Proposal) { p.Token.ExpiresAt = monday.Add(999 * time.Millisecond) }, 0},
		} {
			p := d.proposal(small)
			intent, token := *p.Intent, *p.Token
			p.Intent, p.Token = &intent, &token
			c.change(p)
			a := d.decide(p)
			if c.want == 0 {
				if a.Allowed() || a.Grant().Token != "" || a.Decision().Code != writ.CodeGrantExpired {
					t.Errorf("%s: %+v", name, a.Decision())
				}
				continue
			}
			if got := a.Grant().ExpiresAt.Sub(monday); got != c.want {
				t.Errorf("%s: %v, want %v (%s)", name, got, c.want, a.Decision().Code)
			}
		}
	})
}

// TestRedemptionUnrecorded: what can't be recorded is not redeemed; the same
// attempt may come again and is recorded then.
func TestRedemptionUnrecorded(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(small)
		g := d.granted(p)
		r := redemption(g, p)
		d.log.fail = errors.New("disk full")
		if a := d.redeem(r); a.MayAct() || a.Decision().Code != writ.CodeAuditUnavailable {
			t.Fatalf("unrecorded: %+v", a.Decision())
		}
		d.log.fail = nil
		if a := d.redeem(redemption(g, p)); a.MayAct() || a.Decision().Code != writ.CodeGrantAlreadyUsed {
			t.Errorf("another attempt: %+v", a.Decision())
		}
		if a := d.redeem(r); !a.MayAct() {
			t.Errorf("again: %+v", a.Decision())
		}
		if kind, code, durable := d.last(); kind != "redemption" || code != writ.CodeRedeemed || !durable {
			t.Errorf("recorded %s %s, durable %t", kind, code, durable)
		}
		// A grant whose decision could not be recorded is never given.
		d.log.fail = errors.New("disk full")
		if a := d.decide(d.proposal(small)); a.Allowed() || a.Grant().Token != "" || a.Decision().Code != writ.CodeAuditUnavailable {
			t.Errorf("%+v, grant %q", a.Decision(), a.Grant().Token)
		}
	})
}

// TestRedeemIsNoAnswer: what is missing is an error, and counts as a denial.
func TestRedeemIsNoAnswer(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for name, call := range map[string]func() (pdp.Redeemed, error){
			"no caller":  func() (pdp.Redeemed, error) { return d.pdp.Redeem(t.Context(), nil, &pdp.Redemption{}) },
			"no request": func() (pdp.Redeemed, error) { return d.pdp.Redeem(t.Context(), d.payments(), nil) },
			"over":       func() (pdp.Redeemed, error) { return d.pdp.Redeem(over, d.payments(), &pdp.Redemption{}) },
		} {
			if a, err := call(); err == nil || a.MayAct() {
				t.Errorf("%s: %+v, %v", name, a, err)
			}
		}
		if (pdp.Redeemed{}).MayAct() {
			t.Error("the zero answer lets act")
		}
	})
}

// TestRedeemAtOnce: of a hundred who redeem at once, one may act.
func TestRedeemAtOnce(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(small)
		g, other := d.granted(p), d.granted(p)
		var acting atomic.Int32
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				a, err := d.pdp.Redeem(t.Context(), d.payments(), redemption([]pdp.Grant{g, other}[i%2], p))
				switch {
				case err != nil:
					t.Error(err)
				case a.MayAct():
					acting.Add(1)
				case a.Decision().Code != writ.CodeGrantAlreadyUsed:
					t.Errorf("%+v", a.Decision())
				}
			})
		}
		all.Wait()
		if n := acting.Load(); n != 1 {
			t.Errorf("%d may act", n)
		}
	})
}
