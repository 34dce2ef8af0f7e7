package decide_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/decide"
)

// approvalOf is subject's approval of what a proposal asks for.
func approvalOf(d writ.Decision, p *writ.Proposal, subject string, now time.Time) writ.Approval {
	return writ.Approval{
		ID: "a-" + subject, Approver: writ.Principal{Issuer: p.Principal.Issuer, Subject: subject},
		ProposalDigest: d.ProposalDigest, ReviewDigest: d.ReviewDigest, IssuedAt: now, ExpiresAt: now.Add(time.Hour),
	}
}

// TestCheckApproval judges one approval by itself.
func TestCheckApproval(t *testing.T) {
	b := loadCase(t, "approval", "approval-revoked")
	s := scenarioOf(t, b, "needs one")
	caller := b.Snapshot.Callers[s.Caller]
	d := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
	by := func(subject string, spoil ...func(*writ.Approval)) writ.Approval {
		a := approvalOf(d, &s.Proposal, subject, s.Now)
		for _, f := range spoil {
			f(&a)
		}
		return a
	}
	for _, tc := range []struct {
		name     string
		approval writ.Approval
		want     writ.Code
		approver string
	}{
		{"one who may", by("sam"), "", `User::"sam"`},
		{"the principal", by("ria"), writ.CodeSelfApproval, `User::"ria"`},
		{"the actor", by("bot"), writ.CodeSelfApproval, `User::"bot"`},
		{"the caller", by("desk"), writ.CodeSelfApproval, `User::"desk"`},
		{"one who may not", by("gus"), writ.CodeApproverDenied, `User::"gus"`},
		{"nobody that is known", by("sam", func(a *writ.Approval) { a.Approver.Issuer = "https://evil.example" }), writ.CodeApproverDenied, ""},
		{"of another review", by("sam", func(a *writ.Approval) { a.ReviewDigest[0] ^= 1 }), writ.CodeStaleApproval, `User::"sam"`},
		{"of another proposal", by("sam", func(a *writ.Approval) { a.ProposalDigest[0] ^= 1 }), writ.CodeStaleApproval, `User::"sam"`},
		{"expired", by("sam", func(a *writ.Approval) { a.ExpiresAt = s.Now }), writ.CodeApprovalExpired, `User::"sam"`},
		{"revoked", by("sam", func(a *writ.Approval) { a.ID = "a-9" }), writ.CodeApprovalRevoked, `User::"sam"`},
		{"forged", by("sam", func(a *writ.Approval) { a.Forged = true }), writ.CodeApprovalInvalid, ""},
		{"of nobody", by(""), writ.CodeMalformedProposal, ""},
	} {
		before := s.Proposal.Approvals
		got := decide.CheckApproval(b.Snapshot, caller, &s.Proposal, &tc.approval, s.Now)
		if got.Counts != (tc.want == "") || got.Code != tc.want || (got.Why == "") != got.Counts || got.Approver != tc.approver {
			t.Errorf("%s: %+v", tc.name, got)
		}
		if got.Counts != slices.Equal(got.Policies, []string{"four-eyes"}) {
			t.Errorf("%s: counts for %v", tc.name, got.Policies)
		}
		if !reflect.DeepEqual(s.Proposal.Approvals, before) {
			t.Fatalf("%s: the proposal has changed", tc.name)
		}
	}
	sam := by("sam")
	changed := func(f func(*writ.Proposal)) *writ.Proposal {
		p := s.Proposal
		f(&p)
		return &p
	}
	late := s.Proposal.Intent.ExpiresAt
	for _, tc := range []struct {
		name string
		got  decide.Standing
		want writ.Code
	}{
		{"the intent is over", decide.CheckApproval(b.Snapshot, caller, &s.Proposal, &sam, late), writ.CodeIntentExpired},
		{"the token is over", decide.CheckApproval(b.Snapshot, caller, changed(func(p *writ.Proposal) {
			token := *p.Token
			token.ExpiresAt = s.Now.Add(-time.Hour)
			p.Token = &token
		}), &sam, s.Now), writ.CodeTokenExpired},
		{"denied by now", decide.CheckApproval(b.Snapshot, caller, changed(func(p *writ.Proposal) { p.Principal.Subject = "gus" }), &sam, s.Now), writ.CodeSubjectMismatch},
		{"nobody is asked any more", decide.CheckApproval(b.Snapshot, caller, changed(func(p *writ.Proposal) {
			p.ArgumentsJSON, p.Evidence = []byte(`{"supplier":"ACME","amount":500,"reason":"x"}`), amounts(p.Evidence, "500")
		}), &sam, s.Now), writ.CodeStaleApproval},
		{"others' approvals are forged", decide.CheckApproval(b.Snapshot, caller, changed(func(p *writ.Proposal) {
			p.Approvals = []writ.Approval{by("tom", func(a *writ.Approval) { a.Forged = true })}
		}), &sam, s.Now), ""},
		{"no world", decide.CheckApproval(nil, caller, &s.Proposal, &sam, s.Now), writ.CodeMalformedProposal},
		{"no caller", decide.CheckApproval(b.Snapshot, nil, &s.Proposal, &sam, s.Now), writ.CodeMalformedProposal},
		{"no proposal", decide.CheckApproval(b.Snapshot, caller, nil, &sam, s.Now), writ.CodeMalformedProposal},
		{"no approval", decide.CheckApproval(b.Snapshot, caller, &s.Proposal, nil, s.Now), writ.CodeMalformedProposal},
	} {
		if tc.got.Code != tc.want || tc.got.Counts != (tc.want == "") {
			t.Errorf("%s: %+v", tc.name, tc.got)
		}
	}
	if (decide.Standing{}).Counts {
		t.Error("the zero Standing counts")
	}
}

// TestApprovalsAgree: what CheckApproval says of one is what a decision makes
// of it.
func TestApprovalsAgree(t *testing.T) {
	b := loadCase(t, "approval")
	s := scenarioOf(t, b, "needs two")
	caller := b.Snapshot.Callers[s.Caller]
	s.Proposal.Approvals = nil
	d := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
	var people []writ.Approval
	for _, subject := range []string{"sam", "tom", "ria", "gus", "sam"} {
		people = append(people, approvalOf(d, &s.Proposal, subject, s.Now))
	}
	people[4].ID = "a-again"
	for mask := range 1 << len(people) {
		p := s.Proposal
		counting := map[string]bool{}
		for i := range people {
			if mask&(1<<i) == 0 {
				continue
			}
			p.Approvals = append(p.Approvals, people[i])
			if decide.CheckApproval(b.Snapshot, caller, &s.Proposal, &people[i], s.Now).Counts {
				counting[people[i].Approver.Subject] = true
			}
		}
		want := []writ.ReviewPolicy{
			{ID: "four-eyes", People: 1, Targets: []string{`Supplier::"ACME"`}, Agreed: len(counting)},
			{ID: "six-eyes", People: 2, Targets: []string{`Supplier::"ACME"`}, Agreed: len(counting)},
		}
		got, code, why := decide.Agreed(b.Snapshot, caller, &p, s.Now)
		if code != "" || why != "" || !reflect.DeepEqual(got, want) {
			t.Errorf("%b: %s %+v, want %+v", mask, code, got, want)
		}
		d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil)
		checkDecision(t, d)
		if (d.Outcome == writ.Allow) != (len(counting) == 2) {
			t.Errorf("%b: %s", mask, d.Code)
		}
		if d.Review != nil && !reflect.DeepEqual(d.Review.Policies, want) {
			t.Errorf("%b: shown %+v, want %+v", mask, d.Review.Policies, want)
		}
	}
}

func TestAgreed(t *testing.T) {
	b := loadCase(t, "approval")
	for name, want := range map[string]struct {
		policies int
		code     writ.Code
	}{
		"needs nobody":                    {0, ""},
		"needs one":                       {1, ""},
		"what is forbidden is not asked":  {0, "AMOUNT_DENIED"},
		"who may not ask is not reviewed": {0, writ.CodeNoPermit},
	} {
		s := scenarioOf(t, b, name)
		policies, code, why := decide.Agreed(b.Snapshot, b.Snapshot.Callers[s.Caller], &s.Proposal, s.Now)
		if len(policies) != want.policies || code != want.code || (why == "") != (code == "") {
			t.Errorf("%s: %v %s %q", name, policies, code, why)
		}
	}
	s := scenarioOf(t, b, "needs one")
	s.Proposal.Approvals = []writ.Approval{{Approver: writ.Principal{Issuer: "x", Subject: "y"}, Forged: true}}
	if _, code, _ := decide.Agreed(b.Snapshot, b.Snapshot.Callers[s.Caller], &s.Proposal, s.Now); code != writ.CodeApprovalInvalid {
		t.Errorf("a forged approval: %s", code)
	}
	if _, code, _ := decide.Agreed(nil, nil, nil, s.Now); code != writ.CodeMalformedProposal {
		t.Errorf("nothing: %s", code)
	}
}

// TestExplainForged: explaining a proposal with forged approvals shows that they
// are, and goes no further.
func TestExplainForged(t *testing.T) {
	b := loadCase(t, "approval")
	s := scenarioOf(t, b, "needs one")
	caller := b.Snapshot.Callers[s.Caller]
	d := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
	for _, subject := range []string{"sam", "tom"} {
		a := approvalOf(d, &s.Proposal, subject, s.Now)
		a.Forged = true
		s.Proposal.Approvals = append(s.Proposal.Approvals, a)
	}
	e := decide.Explain(b.Snapshot, caller, &s.Proposal, s.Now)
	if e.Decision.Code != writ.CodeApprovalInvalid {
		t.Errorf("%s", e.Decision.Code)
	}
}

// TestApprovalOfSomeTargets: an approval may count at some targets of a call,
// which is not yet what its policy asks.
func TestApprovalOfSomeTargets(t *testing.T) {
	b := loadEdited(t, "policies/b-forbids.cedar", func(text string) string {
		return text + `@id("moving") @review("1") forbid (principal, action == Action::"files/move", resource);
			@id("gus-approves") permit (principal == User::"gus", action in Action::"approve", resource == Path::"/srv/work/a");`
	}, "approval")
	s := scenarioOf(t, b, "a method of its own")
	caller := b.Snapshot.Callers[s.Caller]
	for _, arguments := range []string{`{"source":"/srv/work/a","destination":"/srv/work/b"}`, `{"source":"/srv/work/b","destination":"/srv/work/a"}`} {
		p := writ.Proposal{
			RequestID: "r", Principal: s.Proposal.Principal, Server: writ.ServerRef{ID: "files", PackageHash: b.Snapshot.Servers["files"].PackageHash},
			Tool: "move", DefinitionDigest: b.Snapshot.Contract("files", "move").Tool.Digest, ArgumentsJSON: []byte(arguments),
		}
		d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil)
		gus, sam := approvalOf(d, &p, "gus", s.Now), approvalOf(d, &p, "sam", s.Now)
		if got := decide.CheckApproval(b.Snapshot, caller, &p, &gus, s.Now); !got.Counts || len(got.Policies) != 0 {
			t.Errorf("at one target: %+v", got)
		}
		if got := decide.CheckApproval(b.Snapshot, caller, &p, &sam, s.Now); !got.Counts || !slices.Equal(got.Policies, []string{"moving"}) {
			t.Errorf("at both: %+v", got)
		}
		for _, tc := range []struct {
			approvals []writ.Approval
			agreed    int
			want      writ.Outcome
		}{{[]writ.Approval{gus}, 0, writ.ReviewRequired}, {[]writ.Approval{gus, sam}, 1, writ.Allow}} {
			p.Approvals = tc.approvals
			policies, _, _ := decide.Agreed(b.Snapshot, caller, &p, s.Now)
			if len(policies) != 1 || policies[0].Agreed != tc.agreed {
				t.Errorf("%d approvals: %+v", len(tc.approvals), policies)
			}
			if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Outcome != tc.want {
				t.Errorf("%d approvals: %s", len(tc.approvals), d.Code)
			}
		}
	}
}
