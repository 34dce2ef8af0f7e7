package pdp_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// above is a scenario that needs a second person.
const above = "above 500"

// person is somebody of accounts payable, by what raj's token says of him.
func (d *desk) person(p *writ.Proposal, subject string) writ.Principal {
	who := p.Principal
	who.Subject = subject
	return who
}

// asked proposes what people must agree to.
func (d *desk) asked(p *writ.Proposal) (pdp.Answer, pdp.Ticket) {
	d.t.Helper()
	a := d.decide(p)
	if a.Decision().Outcome != writ.ReviewRequired || a.Review().ID == "" || a.Grant().Token != "" {
		d.t.Fatalf("%+v, review %+v", a.Decision(), a.Review())
	}
	return a, a.Review()
}

func (d *desk) desk() *writ.Caller { return d.world.Callers["review-desk"] }

// statement is what a person says after having seen the review.
func (d *desk) statement(p *writ.Proposal, ticket pdp.Ticket, subject string) *pdp.Statement {
	d.t.Helper()
	r, _, err := d.pdp.Review(d.t.Context(), ticket.ID)
	if err != nil {
		d.t.Fatal(err)
	}
	who := d.person(p, subject)
	return &pdp.Statement{
		Review: r.ID, Shown: r.Shown.Digest, Approver: who,
		Token: &writ.Token{Issuer: who.Issuer, Subject: subject, Tenant: who.Tenant, Audience: []string{pdp.DefaultIssuer}, ExpiresAt: time.Now().Add(time.Hour)},
	}
}

// approve says yes through the review desk, which may vouch for tokens here.
func (d *desk) approve(s *pdp.Statement) pdp.Reviewed {
	d.t.Helper()
	r, err := d.pdp.Approve(d.t.Context(), &writ.Caller{Name: "review-desk"}, s) // the world knows the rest
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

func TestApprove(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(above)
		a, ticket := d.asked(p)
		if again, same := d.asked(p); same != ticket || again.Decision().ReviewDigest != a.Decision().ReviewDigest {
			t.Errorf("asked again: %+v, before %+v", same, ticket)
		}
		r := d.approve(d.statement(p, ticket, "ann"))
		if r.Decision().Code != writ.CodeAllow || r.Approval() == "" {
			t.Fatalf("%+v", r.Decision())
		}
		if kind, code, durable := d.last(); kind != "approval" || code != writ.CodeAllow || !durable {
			t.Errorf("recorded %s %s, durable %t", kind, code, durable)
		}
		review := r.Review()
		if review.State(time.Now()) != approval.Approved || len(review.Agreements) != 1 || review.Agreements[0].Approver.Subject != "ann" {
			t.Errorf("%+v", review)
		}
		// The same proposal passes now, and the approval is good once.
		g := d.granted(p)
		if !d.redeem(redemption(g, p)).MayAct() {
			t.Fatal("an approved call was not redeemed")
		}
		if a := d.redeem(redemption(d.granted(p), p)); a.Decision().Code != writ.CodeGrantAlreadyUsed {
			t.Errorf("the approval was spent twice: %+v", a.Decision())
		}
		// Another proposal is another matter, also of the same call.
		d.asked(d.proposal(above))
	})
}

// TestApprovalTravels: what Approve returned counts also where the review is
// not known, if the same keys know it; a changed byte does not.
func TestApprovalTravels(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(above)
		_, ticket := d.asked(p)
		signed := d.approve(d.statement(p, ticket, "ann")).Approval()

		changed := *p
		changed.ArgumentsJSON = []byte(strings.Replace(string(p.ArgumentsJSON), "Invoice", "invoice", 1))
		changed.SignedApprovals = []string{signed}
		if a := d.decide(&changed); a.Decision().Code != writ.CodeStaleApproval || a.Grant().Token != "" {
			t.Errorf("a changed byte: %+v", a.Decision())
		}
		forged := *p
		forged.SignedApprovals = []string{signed[:len(signed)-8] + "AAAAAAAA"}
		if a := d.decide(&forged); a.Decision().Code != writ.CodeApprovalInvalid || a.Decision().Outcome != writ.Deny {
			t.Errorf("forged: %+v", a.Decision())
		}
		asGrant := redemption(pdp.Grant{Token: signed}, p)
		if a := d.redeem(asGrant); a.Decision().Code != writ.CodeGrantInvalid {
			t.Errorf("an approval as a grant: %+v", a.Decision())
		}
		asApproval := *p
		asApproval.SignedApprovals = []string{d.granted(p).Token}
		if a := d.decide(&asApproval); a.Decision().Code != writ.CodeApprovalInvalid {
			t.Errorf("a grant as an approval: %+v", a.Decision())
		}
		many := *p
		many.SignedApprovals = make([]string, 17)
		if a := d.decide(&many); a.Decision().Code != writ.CodeMalformedProposal {
			t.Errorf("17 approvals: %+v", a.Decision())
		}
	})
}

// TestApproveRefuses: who may not approve, or has seen something else, signs
// nothing.
func TestApproveRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		who    string
		change func(*desk, *pdp.Statement)
		want   writ.Code
	}{
		"who proposed":        {"raj", nil, writ.CodeSelfApproval},
		"a stranger":          {"eve", nil, writ.CodeApproverDenied},
		"another clerk":       {"olga", nil, writ.CodeApproverDenied},
		"another review":      {"ann", func(_ *desk, s *pdp.Statement) { s.Shown = canon.Sum([]byte("other")) }, writ.CodeStaleApproval},
		"no digest":           {"ann", func(_ *desk, s *pdp.Statement) { s.Shown = canon.Digest{} }, writ.CodeStaleApproval},
		"nobody":              {"", nil, writ.CodeTokenInvalid},
		"an unknown issuer":   {"ann", func(_ *desk, s *pdp.Statement) { s.Approver.Issuer = "https://other.example" }, writ.CodeTokenInvalid},
		"a desk that is gone": {"ann", func(d *desk, _ *pdp.Statement) { d.put(withoutCaller(d, "review-desk")) }, writ.CodeApproverDenied},
		"no token": {"ann", func(d *desk, s *pdp.Statement) {
			s.Token = nil
			d.put(trustingNobody(d))
		}, writ.CodeTokenInvalid},
		"a token that nobody verified": {"ann", func(d *desk, _ *pdp.Statement) { d.put(trustingNobody(d)) }, writ.CodeTokenInvalid},
		"somebody else's token":        {"ann", func(_ *desk, s *pdp.Statement) { s.Token.Subject = "max" }, writ.CodeSubjectMismatch},
		"a token for a server": {"ann", func(_ *desk, s *pdp.Statement) {
			s.Token.Audience = []string{"https://mcp.payments.acme.example"}
		}, writ.CodeAudienceMismatch},
		"a token for two":     {"ann", func(_ *desk, s *pdp.Statement) { s.Token.Audience = append(s.Token.Audience, "other") }, writ.CodeAudienceMismatch},
		"an expired token":    {"ann", func(_ *desk, s *pdp.Statement) { s.Token.ExpiresAt = time.Now() }, writ.CodeTokenExpired},
		"a token without end": {"ann", func(_ *desk, s *pdp.Statement) { s.Token.ExpiresAt = time.Time{} }, writ.CodeTokenExpired},
		"an agent for her":    {"ann", func(_ *desk, s *pdp.Statement) { s.Token.Actors = []writ.Actor{{Subject: "bot"}} }, writ.CodeTokenInvalid},
		"a long reason":       {"ann", func(_ *desk, s *pdp.Statement) { s.Reason = strings.Repeat("x", 1025) }, writ.CodeMalformedProposal},
		"whom is revoked": {"ann", func(d *desk, s *pdp.Statement) {
			d.revoke(revocation.Entry{Kind: revocation.Principal, Issuer: s.Approver.Issuer, ID: "ann"})
		}, writ.CodeApprovalRevoked},
		"what is revoked": {"ann", func(d *desk, _ *pdp.Statement) {
			d.revoke(revocation.Entry{Kind: revocation.Tool, ID: "payments/create_payment"})
		}, writ.CodeToolRevoked},
		"a changed account": {"ann", func(d *desk, _ *pdp.Statement) {
			d.rebuild("entities/suppliers.json", func(s string) string { return strings.Replace(s, `"onboarded_by"`, `"onboarded_by"`, 1) + " " })
		}, writ.CodeAllow},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				p := d.proposal(above)
				_, ticket := d.asked(p)
				s := d.statement(p, ticket, c.who)
				if c.change != nil {
					c.change(d, s)
				}
				r := d.approve(s)
				if r.Decision().Code != c.want || (r.Approval() != "") != (c.want == writ.CodeAllow) || (r.Decision().Outcome == writ.Allow) != (c.want == writ.CodeAllow) {
					t.Fatalf("%+v, want %s", r.Decision(), c.want)
				}
				if kind, code, _ := d.last(); kind != "approval" || code != c.want {
					t.Errorf("recorded %s %s", kind, code)
				}
				if c.want == writ.CodeAllow {
					return
				}
				if review := r.Review(); len(review.Agreements) != 0 {
					t.Errorf("%+v", review)
				}
			})
		})
	}
}

// trustingNobody is the world in which the review desk vouches for nothing.
func trustingNobody(d *desk) *snapshot.Snapshot {
	world := *d.world
	world.Callers = maps.Clone(world.Callers)
	world.Callers["review-desk"] = &writ.Caller{Name: "review-desk", Roles: []writ.Role{writ.RoleApprover}}
	return world.At("test", 2, world.Revocations)
}

// TestTwoPeople: where two must agree, two do.
func TestTwoPeople(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal("above 5000")
		_, ticket := d.asked(p)
		if r := d.approve(d.statement(p, ticket, "max")); r.Decision().Code != writ.CodeAllow {
			t.Fatalf("%+v", r.Decision())
		}
		if a := d.decide(p); a.Decision().Code != writ.CodeApprovalRequired {
			t.Errorf("after one: %+v", a.Decision())
		}
		d.approve(d.statement(p, ticket, "max"))
		if a := d.decide(p); a.Decision().Code != writ.CodeApprovalRequired {
			t.Errorf("after one twice: %+v", a.Decision())
		}
		if r := d.approve(d.statement(p, ticket, "fay")); r.Decision().Code != writ.CodeAllow {
			t.Fatalf("%+v", r.Decision())
		}
		d.granted(p)
	})
}

// TestApprovalEnds: an approval counts for its time, and no longer than its key
// and the person stand.
func TestApprovalEnds(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(above)
		intent, token := *p.Intent, *p.Token
		intent.ExpiresAt, token.ExpiresAt = monday.Add(48*time.Hour), monday.Add(48*time.Hour)
		p.Intent, p.Token = &intent, &token
		_, ticket := d.asked(p)
		r := d.approve(d.statement(p, ticket, "ann"))
		g := d.granted(p)
		d.revoke(revocation.Entry{Kind: revocation.Approval, ID: r.Review().Agreements[0].ID})
		if a := d.redeem(redemption(g, p)); a.Decision().Code != writ.CodeGrantRevoked {
			t.Errorf("its approval is revoked: %+v", a.Decision())
		}
		if a := d.decide(p); a.Decision().Code != writ.CodeApprovalRevoked {
			t.Errorf("revoked: %+v", a.Decision())
		}
	})
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(above)
		_, ticket := d.asked(p)
		d.approve(d.statement(p, ticket, "ann"))
		time.Sleep(pdp.DefaultApprovalLifetime)
		if a := d.decide(p); a.Allowed() {
			t.Errorf("an hour later: %+v", a.Decision())
		}
	})
}

// TestReject: what somebody has rejected is not reviewed again.
func TestReject(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(above)
		_, ticket := d.asked(p)
		s := d.statement(p, ticket, "ann")
		s.Reason = "We never ordered this."
		r, err := d.pdp.Reject(t.Context(), d.desk(), s)
		if err != nil || r.Decision().Code != writ.CodeAllow || r.Approval() != "" || r.Review().Rejection == nil {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := d.approve(d.statement(p, ticket, "max")); got.Approval() != "" || got.Decision().Outcome == writ.Allow {
			t.Errorf("approved after all: %+v", got.Decision())
		}
		if a := d.decide(p); a.Allowed() || !strings.Contains(a.Decision().Explanation, "rejected") {
			t.Errorf("%+v", a.Decision())
		}
		// What somebody has agreed to before is taken back, also where the host
		// brings it itself.
		q := d.proposal(above)
		_, ticket = d.asked(q)
		q.SignedApprovals = []string{d.approve(d.statement(q, ticket, "ann")).Approval()}
		d.granted(q)
		if r, err := d.pdp.Reject(t.Context(), d.desk(), d.statement(q, ticket, "max")); err != nil || r.Decision().Code != writ.CodeAllow {
			t.Fatalf("%+v, %v", r.Decision(), err)
		}
		if a := d.decide(q); a.Allowed() || a.Grant().Token != "" || a.Decision().Outcome != writ.ReviewRequired {
			t.Errorf("approved, then rejected: %+v", a.Decision())
		}
		if _, err := d.pdp.Reject(t.Context(), d.desk(), &pdp.Statement{Review: "AAAAAAAAAAAAAAAAAAAAAAAAAA"}); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("an unknown review: %v", err)
		}
	})
}

// TestApprovalUnrecorded: what can't be recorded is not approved.
func TestApprovalUnrecorded(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(above)
		_, ticket := d.asked(p)
		s := d.statement(p, ticket, "ann")
		d.log.fail = errors.New("disk full")
		if r := d.approve(s); r.Approval() != "" || r.Decision().Code != writ.CodeAuditUnavailable {
			t.Errorf("%+v", r)
		}
		d.log.fail = nil
		d.asked(p)
	})
}

// TestExplainWithApprovals: an explanation counts what people have agreed to,
// as a decision would.
func TestExplainWithApprovals(t *testing.T) {
	atDesk(t, func(t *testing.T, d *desk) {
		p := d.proposal(above)
		_, ticket := d.asked(p)
		explain := func() writ.Code {
			e, err := d.pdp.Explain(t.Context(), d.world.LocalOperator, "ap-host", p, "")
			if err != nil {
				t.Fatal(err)
			}
			return e.Decision.Code
		}
		if got := explain(); got != writ.CodeApprovalRequired {
			t.Errorf("before: %s", got)
		}
		d.approve(d.statement(p, ticket, "ann"))
		if got := explain(); got != writ.CodeAllow {
			t.Errorf("afterwards: %s", got)
		}
	})
}
