package server_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// A batch gets the answers of its items, in their order, and an item that
// can't be read denies itself alone.
func TestBatchOverTheWire(t *testing.T) {
	b, _, cfg := world(t, "../examples/lab")
	h := around(t, cfg)
	var proposals []*writv1.Proposal
	var want []string
	for _, s := range b.Scenarios {
		s := s.At(time.Now())
		p, err := server.ProposalToProto(&s.Proposal)
		if err != nil {
			t.Fatal(err)
		}
		proposals, want = append(proposals, p), append(want, string(s.Expect.Code))
	}
	proposals[2] = &writv1.Proposal{RequestId: "poison", Token: &writv1.Token{ExpiresAt: &timestamppb.Timestamp{Nanos: -1}}}
	want[2] = "MALFORMED_PROPOSAL"
	r, err := writv1.NewDecisionServiceClient(h.conn).DecideBatch(as(t, h.host), &writv1.DecideBatchRequest{Proposals: proposals})
	if err != nil || len(r.GetAnswers()) != len(want) {
		t.Fatalf("%d answers, %v", len(r.GetAnswers()), err)
	}
	ids := map[string]bool{}
	for i, a := range r.GetAnswers() {
		if a.GetDecision().GetCode() != want[i] {
			t.Errorf("item %d: %s, want %s", i, a.GetDecision().GetCode(), want[i])
		}
		ids[a.GetDecisionId()] = true
	}
	if len(ids) != len(want) {
		t.Errorf("%d ids for %d answers", len(ids), len(want))
	}
}

func TestBatchSize(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	client := writv1.NewDecisionServiceClient(h.conn)
	for _, n := range []int{0, 257} {
		_, err := client.DecideBatch(as(t, h.host), &writv1.DecideBatchRequest{Proposals: empty(n)})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%d proposals: %v", n, err)
		}
	}
	if len(d.questions()) != 0 {
		t.Error("something was decided")
	}
	if r, err := client.DecideBatch(as(t, h.host), &writv1.DecideBatchRequest{Proposals: empty(256)}); err != nil || len(r.GetAnswers()) != 256 {
		t.Errorf("256 proposals: %v", err)
	}
}

func empty(n int) []*writv1.Proposal {
	out := make([]*writv1.Proposal, n)
	for i := range out {
		out[i] = &writv1.Proposal{}
	}
	return out
}

// A batch costs what its items would.
func TestBatchCostsItsItems(t *testing.T) {
	h := open(t, &decider{}, func(c *server.Config) { c.Limits.Rate, c.Limits.Burst = 1, 100 })
	client := writv1.NewDecisionServiceClient(h.conn)
	if _, err := client.DecideBatch(as(t, h.host), &writv1.DecideBatchRequest{Proposals: empty(200)}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Decide(as(t, h.host), &writv1.DecideRequest{Proposal: &writv1.Proposal{}}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("after 200 items with a burst of 100: %v", err)
	}
}

// An explanation is an operator's, and says what a decision would.
func TestExplainOverTheWire(t *testing.T) {
	b, log, cfg := world(t, "../examples/lab")
	h := around(t, cfg)
	client := writv1.NewDecisionServiceClient(h.conn)
	for _, s := range b.Scenarios {
		s := s.At(time.Now())
		p, err := server.ProposalToProto(&s.Proposal)
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Explain(as(t, h.operator), &writv1.ExplainRequest{Proposal: p})
		if err != nil || r.GetDecision().GetCode() != string(s.Expect.Code) || len(r.GetControls()) == 0 {
			t.Errorf("%s: %v, %v", s.Name, r.GetDecision(), err)
		}
		if log.latest().Kind != "explanation" {
			t.Errorf("recorded as %s", log.latest().Kind)
		}
		if (r.GetDecision().GetCode() == "ALLOW") == (len(r.GetToAllow()) > 0) {
			t.Errorf("%s: to allow %v", s.Name, r.GetToAllow())
		}
	}
	if _, err := client.Explain(as(t, h.host), &writv1.ExplainRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a host may ask: %v", err)
	}
	if _, err := client.Explain(as(t, h.operator), &writv1.ExplainRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("of no proposal: %v", err)
	}
}

// Every field of an explanation arrives.
func TestExplanationSurvivesConversion(t *testing.T) {
	e := writ.Explanation{
		Decision: writ.Decision{Outcome: writ.Allow, Code: writ.CodeAllow},
		Controls: []writ.ControlExplained{{Control: writ.ControlToken, Code: writ.CodeTokenExpired, Saw: []string{"a", "b"}}},
		Parties: []writ.PartyExplained{{
			Who: "w", Actor: true, Resource: "r", Others: 3,
			Policies: []writ.PolicyExplained{
				{PolicyRef: writ.PolicyRef{ID: "p"}, Permit: true, Verdict: writ.PolicySatisfied, Principal: true, WantsResource: "wr"},
				{Verdict: writ.PolicyNot, Resource: true, WantsPrincipal: "wp"},
				{Verdict: writ.PolicyFailed, Condition: true}, {Verdict: "?"},
			},
		}},
		ToAllow: []string{"x"},
	}
	r := server.ExplanationToProto(e)
	if r.GetDecision().GetCode() != "ALLOW" || r.GetToAllow()[0] != "x" {
		t.Errorf("%v", r)
	}
	if c := r.GetControls()[0]; c.GetControl() != "TOKEN" || c.GetCode() != "TOKEN_EXPIRED" || len(c.GetSaw()) != 2 {
		t.Errorf("%v", c)
	}
	party := r.GetParties()[0]
	if party.GetWho() != "w" || !party.GetActor() || party.GetResource() != "r" || party.GetOthers() != 3 {
		t.Errorf("%v", party)
	}
	verdicts := []writv1.PolicyVerdict{
		writv1.PolicyVerdict_POLICY_VERDICT_SATISFIED, writv1.PolicyVerdict_POLICY_VERDICT_NOT_SATISFIED,
		writv1.PolicyVerdict_POLICY_VERDICT_FAILED, writv1.PolicyVerdict_POLICY_VERDICT_UNSPECIFIED,
	}
	for i, p := range party.GetPolicies() {
		if p.GetVerdict() != verdicts[i] {
			t.Errorf("policy %d: %v", i, p)
		}
	}
	p := party.GetPolicies()
	if p[0].GetPolicy().GetId() != "p" || !p[0].GetPermit() || !p[0].GetPrincipal() || p[0].GetWantsResource() != "wr" ||
		!p[1].GetResource() || p[1].GetWantsPrincipal() != "wp" || !p[2].GetCondition() {
		t.Errorf("%v", p)
	}
}
