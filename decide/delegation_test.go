package decide_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
)

// decideChanged decides a scenario with its proposal changed.
func decideChanged(b *bundle.Bundle, s bundle.Scenario, change func(*writ.Proposal)) writ.Decision {
	p := s.Proposal
	if p.Token != nil {
		token := *p.Token
		p.Token = &token
	}
	p.Actors, p.Evidence = slices.Clone(p.Actors), slices.Clone(p.Evidence)
	change(&p)
	return decide.Decide(b.Snapshot, b.Snapshot.Callers[s.Caller], &p, s.Now, nil)
}

// TestPartyIsNamed: whoever of the principal and the actors lacks something is
// named, for people and for programs.
func TestPartyIsNamed(t *testing.T) {
	b := loadCase(t, "delegation")
	for name, want := range map[string]struct {
		party string
		field string
	}{
		"nobody acts":                                 {"", ""},
		"one who may not":                             {`Agent::"x"`, "/owner"},
		"one who may not is the current actor":        {`Agent::"x"`, "/owner"},
		"one who may not acted before":                {`Agent::"x"`, "/owner"},
		"a sub-agent that may less":                   {`Agent::"reader"`, "/owner"},
		"actors lend nothing":                         {`User::"gus"`, "/owner"},
		"too late":                                    {`Agent::"temp"`, "/owner"},
		"who has left acts":                           {`User::"left"`, "/owner"},
		"a revoked agent":                             {`Agent::"gone"`, "actors[0].subject"},
		"a revoked agent by the token":                {`Agent::"gone"`, "token.actors[1].subject"},
		"a revoked person acts":                       {`User::"fired"`, "actors[0].subject"},
		"another one":                                 {`Agent::"reader"`, "actors[0].subject"},
		"forbidden to the agent":                      {`Agent::"bot"`, "/owner"},
		"another issuer's of that subject":            {`Agent::"bot"`, "actors[0].subject"},
		"an actor who may lends nothing":              {`User::"gus"`, "/owner"},
		"two who may":                                 {"", ""},
		"somebody who may not twice":                  {`Agent::"x"`, "/owner"},
		"not forbidden to her":                        {"", ""},
		"who acts already is not asked":               {"", ""},
		"the principal acts for herself":              {"", ""},
		"the principal between":                       {"", ""},
		"an actor of the token again":                 {"", ""},
		"one who may by the token":                    {"", ""},
		"the principal acts for herself by the token": {"", ""},
	} {
		s := scenarioOf(t, b, name)
		d := decideChanged(b, s, func(*writ.Proposal) {})
		if d.Party != want.party || d.Field != want.field {
			t.Errorf("%s: %s: party %s at %q, want %s at %q", name, d.Code, d.Party, d.Field, want.party, want.field)
		}
		if d.Code == writ.CodeNoPermit || d.Code == writ.CodeActorRevoked {
			if !strings.Contains(d.Explanation, want.party) {
				t.Errorf("%s: the explanation doesn't name %s: %s", name, want.party, d.Explanation)
			}
			if who := scenarioOf(t, b, name).Proposal.Principal.Subject; want.party != `User::"`+who+`"` && !strings.Contains(d.Explanation, "who acts") {
				t.Errorf("%s: the explanation doesn't say that it is an actor: %s", name, d.Explanation)
			}
		}
	}
}

// TestDepth: eight actors together are as many as are judged.
func TestDepth(t *testing.T) {
	b := loadCase(t, "delegation")
	s := scenarioOf(t, b, "nobody acts")
	bot := writ.Actor{Issuer: "https://agents.example", Subject: "bot", Claims: map[string]string{"client_id": "bot"}}
	for inToken := range 10 {
		for appended := range 10 {
			d := decideChanged(b, s, func(p *writ.Proposal) {
				p.Token.Actors, p.Actors = slices.Repeat([]writ.Actor{bot}, inToken), slices.Repeat([]writ.Actor{bot}, appended)
			})
			want := writ.CodeAllow
			if inToken+appended > 8 {
				want = writ.CodeMalformedProposal
			}
			if d.Code != want || want == writ.CodeAllow && len(d.Actors) != inToken+appended {
				t.Errorf("%d in the token and %d appended: %s with %d actors, want %s", inToken, appended, d.Code, len(d.Actors), want)
			}
		}
	}
	// The ninth is not merely left out, wherever it stands.
	for i := range 9 {
		chain := slices.Repeat([]writ.Actor{bot}, 9)
		chain[i].Claims = map[string]string{"client_id": "x"}
		for own := range 10 {
			d := decideChanged(b, s, func(p *writ.Proposal) { p.Token.Actors, p.Actors = chain[:own], chain[own:] })
			if d.Code != writ.CodeMalformedProposal {
				t.Errorf("a stranger at %d of nine, %d in the token: %s", i, own, d.Code)
			}
		}
	}
}

// TestMayActNamesTheEntity: an actor with the subject that may act gives itself
// no other entity by a claim that the template and may_act name.
func TestMayActNamesTheEntity(t *testing.T) {
	b := loadCase(t, "delegation")
	s := scenarioOf(t, b, "the one who may act")
	for name, test := range map[string]struct {
		claims map[string]string // of the actor
		may    map[string]string // of may_act
		want   writ.Code
	}{
		"the same":                      {map[string]string{"client_id": "bot"}, map[string]string{"client_id": "bot"}, writ.CodeAllow},
		"other claims don't matter":     {map[string]string{"client_id": "bot", "x": "y"}, map[string]string{"client_id": "bot"}, writ.CodeAllow},
		"another client":                {map[string]string{"client_id": "reader"}, map[string]string{"client_id": "bot"}, writ.CodeTokenInvalid},
		"a client that is no text":      {map[string]string{"client_id": "reader"}, map[string]string{"client_id": ""}, writ.CodeTokenInvalid},
		"may_act has the subject alone": {map[string]string{"client_id": "reader"}, nil, writ.CodeAllow},
	} {
		d := decideChanged(b, s, func(p *writ.Proposal) {
			may := *p.Token.MayAct
			may.Claims = test.may
			p.Token.MayAct = &may
			p.Actors[0].Claims = test.claims
		})
		if d.Code != test.want {
			t.Errorf("%s: %s, want %s: %s", name, d.Code, test.want, d.Explanation)
		}
	}
}

// TestActorsOfOtherIssuers: an actor is who its own issuer's template makes of
// it, and nobody where the bundle has no such issuer.
func TestActorsOfOtherIssuers(t *testing.T) {
	b := loadCase(t, "delegation")
	s := scenarioOf(t, b, "nobody acts")
	for _, test := range []struct {
		issuer, subject, client string
		want                    writ.Code
		entity                  string
	}{
		{"https://agents.example", "whatever", "bot", writ.CodeAllow, `Agent::"bot"`},
		{"", "ria", "bot", writ.CodeAllow, `User::"ria"`}, // the principal's issuer, and there claims name nobody
		{"", "bot", "bot", writ.CodeNoPermit, `User::"bot"`},
		{"https://agents.example", "bot", "", writ.CodeTokenInvalid, ""},
		{"https://evil.example", "bot", "bot", writ.CodeTokenInvalid, ""},
		{"https://agents.example/", "bot", "bot", writ.CodeTokenInvalid, ""},
	} {
		actor := writ.Actor{Issuer: test.issuer, Subject: test.subject, Claims: map[string]string{"client_id": test.client}}
		for where, put := range map[string]func(*writ.Proposal){
			"appended": func(p *writ.Proposal) { p.Actors = []writ.Actor{actor} },
			"of token": func(p *writ.Proposal) { p.Token.Actors = []writ.Actor{actor} },
		} {
			d := decideChanged(b, s, put)
			if d.Code != test.want || test.entity != "" && !slices.Equal(d.Actors, []string{test.entity}) {
				t.Errorf("%+v, %s: %s for %v, want %s", actor, where, d.Code, d.Actors, test.want)
			}
		}
	}
}

// TestNobodyIsNamedByArguments: who asks and who acts come from the token and
// the chain. Whatever arguments, evidence and extra parameters say of them
// changes nothing about it.
func TestNobodyIsNamedByArguments(t *testing.T) {
	b := loadCase(t, "named")
	ria, gus := scenarioOf(t, b, "ria"), scenarioOf(t, b, "gus")
	hostile := []string{
		"ria", `User::"ria"`, `{"__entity":{"type":"User","id":"ria"}}`, `[{"sub":"ria"}]`, `Agent::"bot"`, "staff", `Group::"staff"`, "https://login.example",
	}
	names := []string{"principal", "subject", "sub", "act", "actors", "token", "groups", "context", "issuer"}
	tried := 0
	for _, name := range names {
		for _, value := range hostile {
			arguments, err := json.Marshal(map[string]string{name: value})
			if err != nil {
				t.Fatal(err)
			}
			for where, put := range map[string]func(*writ.Proposal){
				"argument": func(p *writ.Proposal) { p.ArgumentsJSON = arguments },
				"extra":    func(p *writ.Proposal) { p.ExtraParamsJSON = arguments },
				"evidence": func(p *writ.Proposal) {
					text, _ := json.Marshal(value)
					p.ArgumentsJSON = arguments
					p.Evidence = []writ.Evidence{{Argument: "/" + name, ValueJSON: text, Kind: writ.SourceUser, Reference: "x"}}
				},
				"claim": func(p *writ.Proposal) { p.Token.Claims = map[string]string{name: value} },
			} {
				tried++
				if d := decideChanged(b, ria, put); d.Code != writ.CodeAllow || d.Principal != `User::"ria"` || !slices.Equal(d.Actors, []string{`Agent::"bot"`}) {
					t.Errorf("%s %s=%s: %s for %s by %v: %s", where, name, value, d.Code, d.Principal, d.Actors, d.Explanation)
				}
				if d := decideChanged(b, gus, put); d.Code != "NOT_RIA" || d.Principal != `User::"gus"` || !slices.Equal(d.Actors, []string{`Agent::"bot"`}) {
					t.Errorf("%s %s=%s: %s for %s by %v", where, name, value, d.Code, d.Principal, d.Actors)
				}
			}
		}
	}
	if tried != len(names)*len(hostile)*4 {
		t.Fatalf("%d tried", tried)
	}
}

// TestHandlesTellNothing: the answer about somebody else's handle is that about
// none, in every part, and so is its explanation.
func TestHandlesTellNothing(t *testing.T) {
	b := loadCase(t, "handles")
	for _, pair := range [][2]string{{"somebody else's", "nobody's"}, {"her own that is over", "nobody's"}} {
		var decisions [2]writ.Decision
		var explained [2]writ.Explanation
		for i, name := range pair {
			s := scenarioOf(t, b, name)
			s.Proposal.RequestID = "same"
			caller := b.Snapshot.Callers[s.Caller]
			decisions[i] = decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil)
			explained[i] = decide.Explain(b.Snapshot, caller, &s.Proposal, s.Now)
			// The digests are over what was sent.
			for _, d := range []*writ.Decision{&decisions[i], &explained[i].Decision} {
				if d.CallDigest.IsZero() || d.ProposalDigest.IsZero() {
					t.Fatalf("%s: no digests", name)
				}
				d.CallDigest, d.ProposalDigest = [32]byte{}, [32]byte{}
			}
		}
		if !reflect.DeepEqual(decisions[0], decisions[1]) {
			t.Errorf("%s: %+v\n%s: %+v", pair[0], decisions[0], pair[1], decisions[1])
		}
		if !reflect.DeepEqual(explained[0], explained[1]) {
			t.Errorf("%s: %+v\n%s: %+v", pair[0], explained[0], pair[1], explained[1])
		}
	}
}

// TestGroupBounds: a token with too many groups, or too long ones, is no token.
func TestGroupBounds(t *testing.T) {
	b := loadCase(t, "groups")
	s := scenarioOf(t, b, "one")
	numbered := func(n int) []string {
		out := []string{"engineers"}
		for i := range n - 1 {
			out = append(out, fmt.Sprint("g", i))
		}
		return out
	}
	for name, test := range map[string]struct {
		groups []string
		want   writ.Code
	}{
		"256 groups":            {numbered(256), writ.CodeAllow},
		"257 groups":            {numbered(257), writ.CodeTokenInvalid},
		"one of them 257 times": {slices.Repeat([]string{"engineers"}, 257), writ.CodeTokenInvalid},
		"256 bytes":             {[]string{"engineers", strings.Repeat("x", 256)}, writ.CodeAllow},
		"257 bytes":             {[]string{"engineers", strings.Repeat("x", 257)}, writ.CodeTokenInvalid},
		"no UTF-8":              {[]string{"engineers", "\xff"}, writ.CodeTokenInvalid},
	} {
		if d := decideChanged(b, s, func(p *writ.Proposal) { p.Token.Groups = test.groups }); d.Code != test.want {
			t.Errorf("%s: %s, want %s: %s", name, d.Code, test.want, d.Explanation)
		}
	}
	// Nobody's word, and none of the claims, makes a group.
	if d := decideChanged(b, s, func(p *writ.Proposal) { p.Token.Verified = false }); d.Code != writ.CodeTokenInvalid {
		t.Errorf("groups that nobody verified: %s", d.Code)
	}
	for _, claim := range []string{"groups", "group", "Groups", "token.groups"} {
		if d := decideChanged(b, s, func(p *writ.Proposal) {
			p.Token.Groups, p.Token.Claims = nil, map[string]string{claim: "engineers"}
		}); d.Code != writ.CodeNoPermit {
			t.Errorf("the claim %s makes a group: %s", claim, d.Code)
		}
	}
	// The groups of an issuer whose entry says nothing of them are none.
	if d := decideChanged(b, s, func(p *writ.Proposal) {
		p.Principal.Issuer, p.Token.Issuer, p.Principal.Tenant, p.Token.Tenant = "https://partner.example", "https://partner.example", "", ""
	}); d.Code != writ.CodeNoPermit || d.Principal != `Partner::"new"` {
		t.Errorf("the partner's groups: %s for %s", d.Code, d.Principal)
	}
}
