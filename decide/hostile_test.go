package decide_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/decide"
)

// TestExtraParamsLookAlike: what a server's decoder may take for the name or
// the arguments may not ride beside them.
func TestExtraParamsLookAlike(t *testing.T) {
	b := loadCase(t, "policy")
	s := scenarioOf(t, b, "permitted")
	caller := b.Snapshot.Callers[s.Caller]
	for extra, want := range map[string]writ.Code{
		`{"inputResponses":{"a":1}}`:                        writ.CodeAllow,
		`{"Arguments":{"path":"/etc/passwd"}}`:              writ.CodeMalformedProposal,
		`{"argumentſ":{"path":"/etc/passwd"}}`:              writ.CodeMalformedProposal,
		`{"NAME":"write"}`:                                  writ.CodeMalformedProposal,
		`{"_Meta":{"dev.writ/grant":"x"}}`:                  writ.CodeMalformedProposal,
		`{"inputResponses":1,"arguments":{"path":"/etc/"}}`: writ.CodeMalformedProposal,
	} {
		p := s.Proposal
		p.ExtraParamsJSON = []byte(extra)
		if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != want {
			t.Errorf("%s: %s, want %s", extra, d.Code, want)
		}
	}
}

// TestActorRevokedByAnyName: an actor can't shed a revocation by another
// subject, and a revoked principal can't come back as an actor.
func TestActorRevokedByAnyName(t *testing.T) {
	b := loadCase(t, "revocation")
	s := scenarioOf(t, b, "nothing of it")
	caller := b.Snapshot.Callers[s.Caller]
	later := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) // the actor's revocation is in force
	for name, c := range map[string]struct {
		actor writ.Actor
		want  writ.Code
	}{
		"another agent":             {writ.Actor{Subject: "x", Claims: map[string]string{"client_id": "other"}}, writ.CodeNoPermit},
		"by its subject":            {writ.Actor{Subject: "bot", Claims: map[string]string{"client_id": "other"}}, writ.CodeActorRevoked},
		"by its entity":             {writ.Actor{Subject: "whatever", Claims: map[string]string{"client_id": "bot"}}, writ.CodeActorRevoked},
		"a revoked principal":       {writ.Actor{Subject: "sam", Claims: map[string]string{"client_id": "other"}}, writ.CodeActorRevoked},
		"of an unknown issuer":      {writ.Actor{Issuer: "https://evil.example", Subject: "x"}, writ.CodeTokenInvalid},
		"that no template can name": {writ.Actor{Subject: "x"}, writ.CodeTokenInvalid},
	} {
		s := s.At(s.Now)
		p := s.Proposal
		token := *p.Token
		token.IssuedAt, token.ExpiresAt = later.Add(-time.Minute), later.Add(time.Hour)
		p.Token = &token
		p.Actors = []writ.Actor{c.actor}
		if d := decide.Decide(b.Snapshot, caller, &p, later, nil); d.Code != c.want {
			t.Errorf("%s: %s, want %s", name, d.Code, c.want)
		}
	}
}

// TestIssuedInTheFuture: a time of issue that lies ahead is the caller's word,
// and doesn't escape an "issued before".
func TestIssuedInTheFuture(t *testing.T) {
	b := loadCase(t, "revocation")
	s := scenarioOf(t, b, "the issuer from then on")
	caller := b.Snapshot.Callers[s.Caller]
	p := s.Proposal
	token := *p.Token
	p.Token = &token
	if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeAllow {
		t.Fatalf("%s", d.Code)
	}
	token.IssuedAt = s.Now.Add(999 * time.Hour)
	if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeIssuerRevoked {
		t.Errorf("issued in the future: %s", d.Code)
	}
}

// TestOnePersonTwoEntities: one person who goes by two entities is one
// approver.
func TestOnePersonTwoEntities(t *testing.T) {
	b := loadCase(t, "approval", "email-changed")
	s := scenarioOf(t, b, "needs one")
	p := s.Proposal
	p.ArgumentsJSON = []byte(`{"supplier":"ACME","amount":6000,"reason":"x"}`)
	p.Evidence = amounts(p.Evidence, "6000")
	caller := b.Snapshot.Callers[s.Caller]
	asked := decide.Decide(b.Snapshot, caller, &p, s.Now, nil)
	approval := func(subject, email string) writ.Approval {
		return writ.Approval{
			Approver: writ.Principal{Issuer: p.Principal.Issuer, Subject: subject}, Claims: map[string]string{"email": email},
			ProposalDigest: asked.ProposalDigest, ReviewDigest: asked.ReviewDigest, IssuedAt: s.Now, ExpiresAt: s.Now.Add(time.Hour),
		}
	}
	for name, c := range map[string]struct {
		a, b writ.Approval
		want writ.Code
	}{
		"two people":               {approval("1", "sam"), approval("2", "tom"), writ.CodeAllow},
		"one with two addresses":   {approval("1", "sam"), approval("1", "tom"), writ.CodeApprovalRequired},
		"two subjects, one entity": {approval("1", "sam"), approval("2", "sam"), writ.CodeApprovalRequired},
	} {
		p := p
		p.Approvals = []writ.Approval{c.a, c.b}
		if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != c.want {
			t.Errorf("%s: %s, want %s: %s", name, d.Code, c.want, d.Explanation)
		}
	}
}

// TestManyQuestions: targets and actors together are bounded.
func TestManyQuestions(t *testing.T) {
	b := loadCase(t, "policy")
	s := scenarioOf(t, b, "all targets pass")
	caller := b.Snapshot.Callers[s.Caller]
	p := s.Proposal
	var paths []string
	for i := range 256 {
		paths = append(paths, fmt.Sprintf(`"/srv/work/%d"`, i))
	}
	p.ArgumentsJSON = []byte(`{"paths":[` + strings.Join(paths, ",") + `]}`)
	bot := writ.Actor{Subject: "bot", Claims: map[string]string{"client_id": "bot"}}
	p.Actors = []writ.Actor{bot}
	if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeAllow {
		t.Errorf("256 targets and an actor: %s: %s", d.Code, d.Explanation)
	}
	p.Actors = []writ.Actor{bot, bot}
	if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeInvalidArguments {
		t.Errorf("256 targets and two actors: %s", d.Code)
	}
}

// TestIndependence: evidence for something else, and evidence that nobody may
// vouch for, still says where the rest came from.
func TestIndependence(t *testing.T) {
	b := loadCase(t, "dataflow")
	s := scenarioOf(t, b, "supported")
	caller := b.Snapshot.Callers[s.Caller]
	evidence := func(ref, kind, argument string, from ...string) writ.Evidence {
		value := `10`
		if argument != "/amount" {
			value = `"ACME"`
		}
		return writ.Evidence{Argument: argument, ValueJSON: []byte(value), Kind: writ.SourceKind(kind), Reference: ref, DerivedFrom: from, ObservedAt: s.Now}
	}
	supplier := evidence("erp:ACME", "system_of_record", "/supplier")
	for name, c := range map[string]struct {
		evidence []writ.Evidence
		want     writ.Code
	}{
		"two sources":                    {[]writ.Evidence{evidence("a", "document", "/amount"), evidence("b", "system_of_record", "/amount")}, writ.CodeAllow},
		"joined by a model's":            {[]writ.Evidence{evidence("a", "document", "/amount", "mid"), evidence("b", "system_of_record", "/amount", "mail"), evidence("mid", "model", "/amount", "mail")}, writ.CodeEvidenceMissing},
		"joined by another argument's":   {[]writ.Evidence{evidence("a", "document", "/amount", "mid"), evidence("b", "system_of_record", "/amount", "mail"), evidence("mid", "document", "/supplier", "mail")}, writ.CodeEvidenceMissing},
		"one number in another spelling": {[]writ.Evidence{{Argument: "/amount", ValueJSON: []byte("1e1"), Kind: "document", Reference: "a", ObservedAt: s.Now}, evidence("b", "system_of_record", "/amount")}, writ.CodeAllow},
		"one of them has another number": {[]writ.Evidence{{Argument: "/amount", ValueJSON: []byte("11"), Kind: "document", Reference: "a", ObservedAt: s.Now}, evidence("b", "system_of_record", "/amount")}, writ.CodeEvidenceMissing},
		"one of them is text":            {[]writ.Evidence{{Argument: "/amount", ValueJSON: []byte(`"10"`), Kind: "document", Reference: "a", ObservedAt: s.Now}, evidence("b", "system_of_record", "/amount")}, writ.CodeEvidenceMissing},
	} {
		p := s.Proposal
		p.Evidence = append([]writ.Evidence{supplier}, c.evidence...)
		if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != c.want {
			t.Errorf("%s: %s, want %s", name, d.Code, c.want)
		}
	}
}
