package decide_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/decide"
)

// loadEdited is loadCase with one file changed.
func loadEdited(t testing.TB, file string, edit func(string) string, archives ...string) *bundle.Bundle {
	t.Helper()
	var files []bundle.File
	for _, name := range append([]string{"base"}, archives...) {
		archive, err := txtar.ParseFile("testdata/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			data := f.Data
			if f.Name == file {
				data = []byte(edit(string(data)))
			}
			files = withFile(files, f.Name, data)
		}
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatalf("%v", faults)
	}
	return b
}

// asked decides a scenario that needs people, and returns what it asks them.
func asked(t testing.TB, b *bundle.Bundle, s bundle.Scenario) *writ.Review {
	t.Helper()
	d := decide.Decide(b.Snapshot, b.Snapshot.Callers[s.Caller], &s.Proposal, s.Now, nil)
	if d.Review == nil {
		t.Fatalf("%s: %s: nobody is asked", d.Code, d.Explanation)
	}
	return d.Review
}

// TestReview: what people are shown of a payment.
func TestReview(t *testing.T) {
	b := loadCase(t, "approval")
	s := scenarioOf(t, b, "needs one")
	p := &s.Proposal
	d := decide.Decide(b.Snapshot, b.Snapshot.Callers[s.Caller], p, s.Now, nil)
	got := *d.Review
	source := func(kind writ.SourceKind, ref string, trusted, agrees bool) writ.ReviewSource {
		return writ.ReviewSource{Kind: kind, Reference: ref, ObservedAt: p.Evidence[0].ObservedAt, Trusted: trusted, Agrees: agrees}
	}
	want := writ.Review{
		Digest: d.ReviewDigest, ProposalDigest: d.ProposalDigest, RequestID: p.RequestID, Caller: "desk",
		Principal: p.Principal, PrincipalEntity: `User::"ria"`, Actors: []string{`Agent::"bot"`}, Intent: p.Intent,
		Server: "pay", Tool: "create", Action: "pay/create", Effect: writ.Write, Reversible: false, ContractDigest: d.ContractDigest,
		Entities: []writ.ReviewEntity{{
			Entity: `Supplier::"ACME"`, Argument: "/supplier", Target: true, Held: true,
			Attributes: map[string]string{"status": `"active"`, "limit": `decimal("9000.0")`, "owner": `User::"sam"`},
		}},
		Arguments: []writ.ReviewArgument{
			{Pointer: "/amount", ValueJSON: "500.0001", NeedsSupport: true, Supported: true, Sources: []writ.ReviewSource{
				source(writ.SourceDocument, "in/1.pdf", true, true), source(writ.SourceSystemOfRecord, "erp:I-1", true, true),
			}},
			{Pointer: "/reason", ValueJSON: `"x"`},
			{Pointer: "/supplier", ValueJSON: `"ACME"`, NeedsSupport: true, Supported: true, Sources: []writ.ReviewSource{
				source(writ.SourceSystemOfRecord, "erp:ACME", true, true),
			}},
		},
		Policies: []writ.ReviewPolicy{{ID: "four-eyes", People: 1, Targets: []string{`Supplier::"ACME"`}}},
		Revision: b.Snapshot.Revision,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// shows makes a bundle whose payment tool has the given lines in its review.
func shows(t testing.TB, lines string) *bundle.Bundle {
	t.Helper()
	return loadEdited(t, "servers/pay.yaml", func(text string) string {
		changed := strings.Replace(text, "    opaque: [reason]\n", "    opaque: [reason]\n"+lines, 1)
		if lines != "" && changed == text {
			t.Fatal("the base bundle has changed")
		}
		return changed
	}, "approval", "open-changed")
}

// TestReviewShows: which arguments are shown, and how.
func TestReviewShows(t *testing.T) {
	for _, tc := range []struct {
		name, lines, arguments string
		want                   []string // pointer value warnings
	}{
		{"all, by default", "", `{"supplier":"ACME","amount":600,"reason":"x"}`, []string{"/amount 600", `/reason "x"`, `/supplier "ACME"`}},
		{"what the contract names, in its order", "    review_shows: [supplier, amount, invoice]\n", `{"supplier":"ACME","amount":600,"reason":"x"}`,
			[]string{`/supplier "ACME"`, "/amount 600", "/invoice  It is absent, and the contract does not say what that means."}},
		{"what an absent one means", "    when_absent: {invoice: I-1}\n    review_shows: [invoice]\n", `{"supplier":"ACME","amount":600,"reason":"x"}`,
			[]string{`/invoice  It is absent, which the contract takes as "I-1".`}},
		{"secrets by default", "    secret: [reason]\n", `{"supplier":"ACME","amount":600,"reason":"x"}`,
			[]string{"/amount 600", "/reason  It is secret, and is shown only where the contract's review_shows names it.", `/supplier "ACME"`}},
		{"secrets that the contract names", "    secret: [reason]\n    review_shows: [reason]\n", `{"supplier":"ACME","amount":600,"reason":"x"}`, []string{`/reason "x"`}},
		{"what nobody declared", "    undeclared: allow\n    review_shows: [amount]\n", `{"supplier":"ACME","amount":600,"reason":"x","cc":["a",1.0]}`,
			[]string{"/amount 600", `/cc ["a",1]`}},
		{"numbers as they count", "    review_shows: [amount]\n", `{"supplier":"ACME","amount":6.0e2,"reason":"x"}`, []string{"/amount 600"}},
		{"a text to look at twice", "    review_shows: [reason]\n", `{"supplier":"ACME","amount":600,"reason":"pay \u202e10 "}`,
			[]string{"/reason \"pay \u202e10 \" It holds characters that change the direction of writing. It begins or ends with white space."}},
	} {
		b := shows(t, tc.lines)
		s := scenarioOf(t, b, "has one")
		s.Proposal.Approvals = nil
		s.Proposal.ArgumentsJSON = []byte(tc.arguments)
		var got []string
		for _, a := range asked(t, b, s).Arguments {
			got = append(got, strings.TrimRight(a.Pointer+" "+a.ValueJSON+" "+strings.Join(a.Warnings, " "), " "))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s:\n%q\nwant\n%q", tc.name, got, tc.want)
		}
	}
}

// TestReviewSources: whose word stands behind a value.
func TestReviewSources(t *testing.T) {
	b := loadCase(t, "approval")
	s := scenarioOf(t, b, "needs one")
	at := s.Proposal.Evidence[0].ObservedAt
	s.Proposal.Evidence = append(slices.Clone(s.Proposal.Evidence),
		writ.Evidence{Argument: "/reason", ValueJSON: []byte(`"y"`), Kind: writ.SourceUser, Reference: "said", ObservedAt: at},
		writ.Evidence{Argument: "/reason", ValueJSON: []byte(`"x"`), Kind: writ.SourceModel, Reference: "guess", ObservedAt: at, Classification: "internal"},
	)
	find := func() writ.ReviewArgument {
		for _, a := range asked(t, b, s).Arguments {
			if a.Pointer == "/reason" {
				return a
			}
		}
		t.Fatal("no reason")
		return writ.ReviewArgument{}
	}
	want := writ.ReviewArgument{Pointer: "/reason", ValueJSON: `"x"`, Sources: []writ.ReviewSource{
		{Kind: writ.SourceUser, Reference: "said", ObservedAt: at, Trusted: true},
		{Kind: writ.SourceModel, Reference: "guess", Classification: "internal", ObservedAt: at, Agrees: true},
	}}
	if got := find(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.Proposal.Evidence[len(s.Proposal.Evidence)-2].ValueJSON = []byte(`"x"`)
	if got := find(); !got.Supported || got.NeedsSupport {
		t.Errorf("a trusted source agrees: %+v", got)
	}
}

// TestReviewOfNewAndBuiltIn: an entity that the bundle does not hold is new; a
// path never is.
func TestReviewOfNewAndBuiltIn(t *testing.T) {
	b := loadEdited(t, "policies/b-forbids.cedar", func(text string) string {
		return text + `@id("moving") @review("1") forbid (principal, action == Action::"files/move", resource);`
	}, "approval")
	s := scenarioOf(t, b, "a method of its own")
	for name, held := range map[string]bool{"site": true, "other": false} {
		s.Proposal.ArgumentsJSON = []byte(`{"owner":"acme","name":"` + name + `","method":"delete"}`)
		r := asked(t, b, s)
		want := []writ.ReviewEntity{{
			Entity: `Repository::"acme/` + name + `"`, Argument: "/owner", Target: true, Held: held, Parents: []string{`Org::"acme"`},
		}}
		if !reflect.DeepEqual(r.Entities, want) {
			t.Errorf("%s: %+v", name, r.Entities)
		}
		if r.Reversible || r.Effect != writ.Write || r.Action != "repo/label#delete" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	move := s
	move.Proposal = writ.Proposal{
		RequestID: "r", Principal: s.Proposal.Principal, Server: writ.ServerRef{ID: "files", PackageHash: b.Snapshot.Servers["files"].PackageHash},
		Tool: "move", DefinitionDigest: b.Snapshot.Contract("files", "move").Tool.Digest,
		ArgumentsJSON: []byte(`{"source":"/srv/work/a","destination":"/srv/work/b"}`), ExtraParamsJSON: []byte(`{"task": {"ttl": 1.0}}`),
	}
	r := asked(t, b, move)
	if want := []writ.ReviewEntity{
		{Entity: `Path::"/srv/work/a"`, Argument: "/source", Target: true, Held: true},
		{Entity: `Path::"/srv/work/b"`, Argument: "/destination", Target: true, Held: true},
	}; !reflect.DeepEqual(r.Entities, want) {
		t.Errorf("%+v", r.Entities)
	}
	if want := []writ.ReviewPolicy{{ID: "moving", People: 1, Targets: []string{`Path::"/srv/work/a"`, `Path::"/srv/work/b"`}}}; !reflect.DeepEqual(r.Policies, want) {
		t.Errorf("%+v", r.Policies)
	}
	if !r.Reversible || r.ExtraParamsJSON != `{"task":{"ttl":1}}` {
		t.Errorf("%+v", r)
	}
}

// TestReviewDigestFollowsTheWorld: what changes in the bundle, or in the
// proposal, and is shown, makes another review; the rest does not.
func TestReviewDigestFollowsTheWorld(t *testing.T) {
	digest := func(b *bundle.Bundle, change func(*bundle.Scenario)) canon.Digest {
		s := scenarioOf(t, b, "needs one")
		if change != nil {
			change(&s)
		}
		return asked(t, b, s).Digest
	}
	before := digest(loadCase(t, "approval"), nil)
	edit := func(file, old, changed string) func() canon.Digest {
		return func() canon.Digest {
			return digest(loadEdited(t, file, func(text string) string {
				out := strings.Replace(text, old, changed, 1)
				if out == text {
					t.Fatalf("%s does not hold %s", file, old)
				}
				return out
			}, "approval"), nil)
		}
	}
	with := func(change func(*bundle.Scenario)) func() canon.Digest {
		return func() canon.Digest { return digest(loadCase(t, "approval"), change) }
	}
	for _, tc := range []struct {
		name    string
		another bool
		digest  func() canon.Digest
	}{
		{"an attribute of the target", true, edit("entities/supplier.json", `"9000.0"`, `"9000.5"`)},
		{"how many people", true, edit("policies/b-forbids.cedar", `@review("1")`, `@review("2")`)},
		{"what the policy says to people", true, edit("policies/b-forbids.cedar", `@review("1")`, `@review("1") @explain("Large.")`)},
		{"whether it can be undone", true, edit("servers/pay.yaml", "reversible: false", "reversible: true")},
		{"what is shown", true, edit("servers/pay.yaml", "opaque: [reason]", "opaque: [reason]\n    review_shows: [amount]")},
		{"for whom the caller vouches", true, with(func(s *bundle.Scenario) {
			s.Proposal.Evidence = append(slices.Clone(s.Proposal.Evidence), writ.Evidence{Argument: "/reason", ValueJSON: []byte(`"x"`), Kind: writ.SourceHuman, Reference: "r", ObservedAt: s.Now})
		})},
		{"the proposal that it retries", true, with(func(s *bundle.Scenario) { s.Proposal.Retries = canon.Sum([]byte("x")) })},
		{"the request", true, with(func(s *bundle.Scenario) { s.Proposal.RequestID += "x" })},
		{"another entity", false, edit("entities/all.json", `"status":"closed"`, `"status":"shut"`)},
		{"where the policy stands", false, edit("policies/b-forbids.cedar", `@id("four-eyes")`, "\n\n@id(\"four-eyes\")")},
		{"another policy", false, edit("policies/b-forbids.cedar", `"SECRET_FILE"`, `"SECRET_FILES"`)},
		{"the time", false, with(func(s *bundle.Scenario) { s.Now = s.Now.Add(time.Second) })},
	} {
		if got := tc.digest(); (got != before) != tc.another {
			t.Errorf("%s: another review: %v", tc.name, got != before)
		}
	}
}
