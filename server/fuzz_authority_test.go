package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
)

// lab is a server over the lab's bundle, with a PDP that is asked directly for
// what a fuzzed request is about.
type lab struct {
	*house
	pdp    *pdp.PDP
	bundle *bundle.Bundle
	count  int
}

func openLab(f *testing.F) *lab {
	f.Helper()
	b, _, cfg := world(f, "../examples/lab")
	l := &lab{pdp: cfg.Decider.(*pdp.PDP), bundle: b}
	l.house = open(f, nil, func(c *server.Config) {
		c.Decider, c.Enforcer, c.Reviewer = l.pdp, l.pdp, l.pdp
		c.LocalHost, c.LocalServer, c.LocalOperator = cfg.LocalHost, cfg.LocalServer, cfg.LocalOperator
		c.May = b.Snapshot.May
		c.Limits.Rate, c.Limits.Burst = 1<<30, 1<<20
	})
	return l
}

// propose decides one of the lab's scenarios that nobody has proposed before.
func (l *lab) propose(t *testing.T, name string) (*writ.Proposal, pdp.Answer) {
	t.Helper()
	i := slices.IndexFunc(l.bundle.Scenarios, func(s bundle.Scenario) bool { return s.Name == name })
	p := l.bundle.Scenarios[i].At(time.Now()).Proposal
	l.count++
	p.RequestID = fmt.Sprint(l.count)
	return &p, l.decideAgain(t, &p)
}

func (l *lab) decideAgain(t *testing.T, p *writ.Proposal) pdp.Answer {
	t.Helper()
	a, err := l.pdp.Decide(t.Context(), l.bundle.Snapshot.LocalHost, p, pdp.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// bearing is a context with one of the server's secrets.
func (l *lab) bearing(t *testing.T, file string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secret(t, l.credentials, file))
}

// refusedWell fails unless an error is a refusal of the request, or of a text
// that Protobuf does not send.
func refusedWell(t *testing.T, err error) {
	t.Helper()
	switch code := status.Code(err); code {
	case codes.InvalidArgument, codes.NotFound:
	case codes.Internal:
		if !strings.Contains(err.Error(), "invalid UTF-8") {
			t.Fatal(err)
		}
	default:
		t.Fatal(err)
	}
}

// FuzzVerifyEffect: whatever an observer sends, an effect is verified only for
// the redemption and the proposal that it is of, by the observer that the
// contract names, if what was observed is what was authorised, and once.
// REDEMPTION, OTHER and PROPOSAL stand for ids of a redemption of this call, of
// one before, and for the digest of the proposal.
func FuzzVerifyEffect(f *testing.F) {
	const seen = `{"recipient":"ACME-SUPPLIER-01","amount_gbp":125.0}`
	observed := int32(writv1.EffectStatus_EFFECT_STATUS_OBSERVED)
	add := func(change func(*writv1.VerifyEffectRequest)) {
		r := &writv1.VerifyEffectRequest{
			Redemption: "REDEMPTION", ProposalDigest: "PROPOSAL", Observer: "payments.internal", Status: writv1.EffectStatus(observed),
			EffectId: "effect-17", ObservedJson: seen, ObservedAt: &timestamppb.Timestamp{Seconds: 1},
		}
		change(r)
		f.Add(r.Redemption, r.ProposalDigest, r.Observer, int32(r.Status), r.EffectId, r.ObservedJson, r.ObservedAt.GetSeconds(), r.ObservedAt.GetNanos())
	}
	for _, change := range []func(*writv1.VerifyEffectRequest){
		func(*writv1.VerifyEffectRequest) {},
		func(r *writv1.VerifyEffectRequest) { r.Redemption = "OTHER" },
		func(r *writv1.VerifyEffectRequest) { r.Redemption = "" },
		func(r *writv1.VerifyEffectRequest) { r.Redemption = "a/b c" },
		func(r *writv1.VerifyEffectRequest) { r.ProposalDigest = "sha256:" + strings.Repeat("0", 64) },
		func(r *writv1.VerifyEffectRequest) { r.ProposalDigest = "sha256:" + strings.Repeat("A", 64) },
		func(r *writv1.VerifyEffectRequest) { r.Observer = "files.internal" },
		func(r *writv1.VerifyEffectRequest) { r.Status = 2 },
		func(r *writv1.VerifyEffectRequest) { r.Status, r.ObservedJson = 3, "" },
		func(r *writv1.VerifyEffectRequest) { r.Status = -1 },
		func(r *writv1.VerifyEffectRequest) { r.EffectId = "" },
		func(r *writv1.VerifyEffectRequest) { r.EffectId = strings.Repeat("x", 257) },
		func(r *writv1.VerifyEffectRequest) { r.EffectId = "a\nb" },
		func(r *writv1.VerifyEffectRequest) { r.ObservedAt.Seconds = 1 << 60 },
		func(r *writv1.VerifyEffectRequest) { r.ObservedAt.Nanos = -1 },
		func(r *writv1.VerifyEffectRequest) { r.ObservedJson = strings.Replace(seen, "125.0", "1250", 1) },
		func(r *writv1.VerifyEffectRequest) { r.ObservedJson = strings.Replace(seen, "125.0", "1.25e2", 1) },
		func(r *writv1.VerifyEffectRequest) {
			r.ObservedJson = strings.Replace(seen, "125.0", "125.000000000000000000001", 1)
		},
		func(r *writv1.VerifyEffectRequest) {
			r.ObservedJson = strings.Replace(seen, "125.0", `1,"amount_gbp":125`, 1)
		},
		func(r *writv1.VerifyEffectRequest) { r.ObservedJson = strings.Replace(seen, "125.0", `"125"`, 1) },
		func(r *writv1.VerifyEffectRequest) { r.ObservedJson = "{}" },
		func(r *writv1.VerifyEffectRequest) { r.ObservedJson = strings.Repeat(`{"a":`, 2000) },
		func(r *writv1.VerifyEffectRequest) { r.ObservedJson = `{"amount_gbp":1e999999999}` },
	} {
		add(change)
	}
	l := openLab(f)
	client := writv1.NewEnforcementServiceClient(l.conn)
	before := ""
	var one sync.Mutex // the lab's counter is for one at a time
	f.Fuzz(func(t *testing.T, redemption, digest, observer string, state int32, id, text string, seconds int64, nanos int32) {
		one.Lock()
		defer one.Unlock()
		p, a := l.propose(t, "small allowlisted payment")
		r, err := l.pdp.Redeem(t.Context(), l.bundle.Snapshot.LocalServer, &pdp.Redemption{
			Grant: a.Grant().Token, Server: p.Server.ID, Tool: p.Tool, ArgumentsJSON: p.ArgumentsJSON, Principal: p.Principal, Attempt: "AAAAAAAAAAAAAAAAAAAAAA",
		})
		if err != nil || !r.MayAct() {
			t.Fatalf("%+v, %v", r.Decision(), err)
		}
		other := before
		before = r.ID()
		unique := func(text string) string { return strings.ReplaceAll(text, "effect-17", "effect-"+r.ID()) } // each effect counts once
		req := &writv1.VerifyEffectRequest{
			Redemption:     strings.NewReplacer("REDEMPTION", r.ID(), "OTHER", other).Replace(redemption),
			ProposalDigest: strings.ReplaceAll(digest, "PROPOSAL", a.Decision().ProposalDigest.String()),
			Observer:       observer, Status: writv1.EffectStatus(state), EffectId: unique(id), ObservedJson: text,
			ObservedAt: &timestamppb.Timestamp{Seconds: seconds, Nanos: nanos},
		}
		v, err := client.VerifyEffect(l.bearing(t, server.ServerFile), req)
		if err != nil {
			refusedWell(t, err)
			return
		}
		d := v.GetDecision()
		verified := d.GetCode() == string(writ.CodeEffectVerified)
		if (d.GetOutcome() == writv1.Outcome_OUTCOME_ALLOW) != verified {
			t.Fatalf("%v", d)
		}
		if !verified {
			return
		}
		if req.GetRedemption() != r.ID() || req.GetProposalDigest() != a.Decision().ProposalDigest.String() || observer != "payments.internal" || state != observed || !paid(text) {
			t.Fatalf("verified: %v", req)
		}
		again := proto.CloneOf(req)
		again.EffectId += "x"
		if v, err := client.VerifyEffect(l.bearing(t, server.ServerFile), again); err == nil && v.GetDecision().GetOutcome() == writv1.Outcome_OUTCOME_ALLOW {
			t.Fatal("one redemption has two effects")
		}
	})
}

// paid reads what was observed as loosely as could be, and reports whether it
// is the lab's payment.
func paid(text string) bool {
	var is struct {
		Recipient string          `json:"recipient"`
		Amount    json.RawMessage `json:"amount_gbp"`
	}
	if json.Unmarshal([]byte(text), &is) != nil {
		return false
	}
	amount, ok := new(big.Rat).SetString(string(is.Amount))
	return ok && is.Recipient == "ACME-SUPPLIER-01" && amount.Cmp(big.NewRat(125, 1)) == 0
}

// FuzzApprove: whatever is sent, nothing is signed but for the review that was
// shown, and for a person that the issuer names who has not proposed it; and
// what was not signed is not approved. REVIEW and DIGEST stand for the review's
// id and digest.
func FuzzApprove(f *testing.F) {
	type said struct {
		id, digest, issuer, subject, tenant, access, reason string
		token                                               bool
		tokenIssuer, tokenSubject, audience                 string
		expires                                             int64
	}
	good := said{id: "REVIEW", digest: "DIGEST", issuer: "https://login.example", subject: "user:ann"}
	vouched := good
	vouched.token, vouched.tokenIssuer, vouched.tokenSubject, vouched.audience, vouched.expires = true, good.issuer, good.subject, pdp.DefaultIssuer, 4000000000
	add := func(s said, changes ...func(*said)) {
		for _, change := range append(changes, func(*said) {}) {
			c := s
			change(&c)
			f.Add(c.id, c.digest, c.issuer, c.subject, c.tenant, c.access, c.reason, c.token, c.tokenIssuer, c.tokenSubject, c.audience, c.expires)
		}
	}
	add(good,
		func(s *said) { s.id = "" }, func(s *said) { s.id = strings.Repeat("A", 26) }, func(s *said) { s.id = "REVIEW\n" },
		func(s *said) { s.digest = "" }, func(s *said) { s.digest = "sha256:" + strings.Repeat("0", 64) }, func(s *said) { s.digest = "DIGEST " },
		func(s *said) { s.issuer = "" }, func(s *said) { s.issuer = "local" }, func(s *said) { s.subject = "" },
		func(s *said) { s.subject = "user:raj" }, func(s *said) { s.subject = strings.Repeat("x", 3000) }, func(s *said) { s.subject = "user:\u202eann" },
		func(s *said) { s.tenant = "acme" }, func(s *said) { s.access = "a.b.c" }, func(s *said) { s.reason = strings.Repeat("x", 2000) },
	)
	add(vouched,
		func(s *said) { s.tokenSubject = "user:raj" }, func(s *said) { s.tokenIssuer = "local" }, func(s *said) { s.audience = "https://mcp.payments.example" },
		func(s *said) { s.audience = "" }, func(s *said) { s.expires = 0 }, func(s *said) { s.expires = 1 }, func(s *said) { s.expires = 1 << 62 }, func(s *said) { s.access = "x" },
	)
	l := openLab(f)
	client := writv1.NewApprovalServiceClient(l.conn)
	var open sync.Mutex // guards what follows, and the lab's counter
	var p *writ.Proposal
	var ticket pdp.Ticket
	f.Fuzz(func(t *testing.T, id, digest, issuer, subject, tenant, access, reason string, hasToken bool, tokenIssuer, tokenSubject, audience string, expires int64) {
		open.Lock()
		defer open.Unlock()
		if p == nil {
			var a pdp.Answer
			if p, a = l.propose(t, "large payment without approval"); a.Review().ID == "" {
				p = nil
				t.Skip("as many reviews as are kept")
			}
			ticket = a.Review()
		}
		review, _, err := l.pdp.Review(t.Context(), ticket.ID)
		if err != nil {
			t.Fatal(err)
		}
		var token *writv1.Token
		if hasToken {
			token = &writv1.Token{Issuer: tokenIssuer, Subject: tokenSubject, Audience: []string{audience}, ExpiresAt: &timestamppb.Timestamp{Seconds: expires}}
		}
		names := strings.NewReplacer("REVIEW", ticket.ID, "DIGEST", review.Shown.Digest.String())
		req := &writv1.ApproveRequest{
			Id: names.Replace(id), ReviewDigest: names.Replace(digest), Approver: &writv1.Principal{Issuer: issuer, Subject: subject, Tenant: tenant},
			Token: token, AccessToken: access,
		}
		r, err := client.Approve(l.bearing(t, server.OperatorFile), req)
		if err != nil {
			refusedWell(t, err)
		}
		signed := r.GetApproval() != ""
		if signed != (r.GetDecision().GetOutcome() == writv1.Outcome_OUTCOME_ALLOW) {
			t.Fatalf("signed: %t, and %v", signed, r.GetDecision())
		}
		fits := req.GetId() == ticket.ID && req.GetReviewDigest() == review.Shown.Digest.String() && access == "" &&
			issuer == "https://login.example" && subject != "" && subject != "user:raj" &&
			(!hasToken || tokenIssuer == issuer && tokenSubject == subject && audience == pdp.DefaultIssuer && expires > time.Now().Unix())
		if signed && !fits {
			t.Fatalf("signed: %v", req)
		}
		if again := l.decideAgain(t, p); again.Allowed() != signed {
			t.Fatalf("signed: %t, and the proposal is %+v", signed, again.Decision())
		}
		if signed {
			p = nil // the next one is about another
			return
		}
		rejected, err := client.Reject(l.bearing(t, server.OperatorFile), &writv1.RejectRequest{Id: req.GetId(), Approver: req.GetApprover(), Token: token, AccessToken: access, Reason: reason})
		if err != nil {
			refusedWell(t, err)
			return
		}
		if rejected.GetDecision().GetOutcome() == writv1.Outcome_OUTCOME_ALLOW {
			if p = nil; req.GetId() != ticket.ID || subject == "user:raj" {
				t.Fatalf("rejected: %v", req)
			}
		}
	})
}
