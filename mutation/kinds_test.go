package mutation

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/snapshot"
)

// mutantsOfText are the mutants of a policy that is in no bundle.
func mutantsOfText(t *testing.T, text string) []policyMutant {
	t.Helper()
	p := &policy.Policy{Text: []byte(text), Effect: types.Forbid}
	p.ID = "p"
	if strings.Contains(text, "permit") {
		p.Effect = types.Permit
	}
	if i := strings.Index(text, `@review("`); i >= 0 {
		p.Review = int(text[i+len(`@review("`)] - '0')
	}
	out, err := mutantsOf(p, false, func(types.EntityType) []string { return []string{"a", "b"} })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPolicyKinds: for each kind of expression and scope, the mutants by name,
// and the text of each but the first, "policy dropped".
func TestPolicyKinds(t *testing.T) {
	for _, tt := range []struct {
		name, policy string
		want         []string
	}{
		{"scopes", `@id("p") permit (principal == User::"a", action == Action::"s/t", resource is Doc in Folder::"a");`, []string{
			"policy dropped",
			"effect flipped: permit → forbid",
			`principal widened: principal == User::"a" → principal is User`,
			`principal widened: principal == User::"a" → principal`,
			`action widened: action == Action::"s/t" → action in Action::"s"`,
			`action widened: action == Action::"s/t" → action`,
			`resource widened: resource is Doc in Folder::"a" → resource is Doc`,
			`resource widened: resource is Doc in Folder::"a" → resource in Folder::"a"`,
		}},
		{"more scopes", `@id("p") permit (principal in Group::"a", action in [Action::"s:read", Action::"s/t#m"], resource is Doc);`, []string{
			"policy dropped",
			"effect flipped: permit → forbid",
			`principal widened: principal in Group::"a" → principal`,
			`action widened: action in [Action::"s:read", Action::"s/t#m"] → action`,
			`action dropped: Action::"s:read"`,
			`action dropped: Action::"s/t#m"`,
			`resource widened: resource is Doc → resource`,
		}},
		{"review", `@id("p") @review("2") forbid (principal, action, resource) when { context.arguments.n > 5 };`, []string{
			"policy dropped",
			"effect flipped: forbid → permit",
			"@review 2 → 3",
			"@review 2 → 1",
			"@review → @code",
			"when removed: context.arguments.n > 5",
			"when and unless exchanged: context.arguments.n > 5",
			"> → >=: context.arguments.n > 5",
			"5 → 6",
			"5 → 4",
		}},
		{"code", `@id("p") @code("NO") forbid (principal, action, resource) unless { context.arguments has a && context.arguments.a == "x" };`, []string{
			"policy dropped",
			"effect flipped: forbid → permit",
			`@code → @review("1")`,
			`unless removed: context.arguments has a && context.arguments.a == "x"`,
			`when and unless exchanged: context.arguments has a && context.arguments.a == "x"`,
			`&& → ||: context.arguments has a && context.arguments.a == "x"`,
			"guard dropped: context.arguments has a",
			`conjunct dropped: context.arguments.a == "x"`,
			`== → !=: context.arguments.a == "x"`,
			`"x" → "x~"`,
		}},
		{"extensions", `@id("p") permit (principal, action, resource) when { context.arguments.n.lessThanOrEqual(decimal("0.5")) };`, []string{
			"policy dropped",
			"effect flipped: permit → forbid",
			`when removed: context.arguments.n.lessThanOrEqual(decimal("0.5"))`,
			`when and unless exchanged: context.arguments.n.lessThanOrEqual(decimal("0.5"))`,
			`lessThanOrEqual → lessThan: context.arguments.n.lessThanOrEqual(decimal("0.5"))`,
			`decimal("0.5") → decimal("0.5001")`,
			`decimal("0.5") → decimal("0.4999")`,
		}},
		{"the rest", `@id("p") permit (principal, action, resource) when { !(["u", "v"].contains(resource.a)) || principal == User::"a" || context.principal == User::"b" || resource.name like "*.env" || (if resource.t then true else resource.u) || context.now.durationSince(resource.at) < duration("14d") };`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mutants := mutantsOfText(t, tt.policy)
			var got []string
			for _, m := range mutants {
				got = append(got, m.name)
				if m.text != nil {
					if again, err := parse(m.text); err != nil || !bytes.Equal(write(again), m.text) {
						t.Errorf("%s can't be read back: %v\n%s", m.name, err, m.text)
					}
				}
			}
			if tt.want != nil && !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if tt.want != nil {
				return
			}
			for _, want := range []string{
				`! removed: !["u", "v"].contains(resource.a)`, `element dropped: "u"`, `"v" → "v~"`, `User::"a" → User::"b"`, `User::"b" → User::"a"`,
				"principal → context.principal", "context.principal → principal", `resource.name like "*.env" → resource.name like "*.env*"`,
				`resource.name like "*.env" → resource.name like ".env"`, "then and else exchanged: if resource.t then true else resource.u", "true → false",
				`< → <=: context.now.durationSince(resource.at) < duration("14d")`, `duration("14d") → duration("14d1s")`, `duration("14d") → duration("13d23h59m59s")`,
				`disjunct dropped: principal == User::"a"`,
			} {
				if !slices.Contains(got, want) {
					t.Errorf("no mutant %q in\n%s", want, strings.Join(got, "\n"))
				}
			}
		})
	}
}

func bankRunner(t *testing.T) *runner { return runnerOf(t, "testdata/bank") }

func runnerOf(t *testing.T, dir string) *runner {
	t.Helper()
	files, err := bundle.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	make := func(world *snapshot.Snapshot) bundle.Decider {
		return func(caller *writ.Caller, p *writ.Proposal, now time.Time) writ.Decision {
			return decide.Decide(world, caller, p, now, nil)
		}
	}
	r := &runner{Options: Options{Bundle: b, Files: files, Decide: make, Clock: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)}, ctx: t.Context(), world: b.Snapshot}
	r.decide = make(r.world)
	if faults := r.baseline(); len(faults) > 0 {
		t.Fatal(faults)
	}
	r.reviews()
	return r
}

// TestProposalKinds: every mutant of three scenarios, and the answer that it
// gets, written by hand.
func TestProposalKinds(t *testing.T) {
	r := bankRunner(t)
	mutants := r.proposalMutants()
	r.tryProposals(mutants)
	got := map[string][]string{}
	for _, m := range mutants {
		answer := string(m.got.Code)
		if m.skipped != "" {
			answer = "skipped"
		}
		got[m.of.Name] = append(got[m.of.Name], m.name+" = "+answer)
	}
	common := `server id: another = SERVER_IDENTITY
tool: another name = TOOL_UNREGISTERED
server endpoint: another, same tool = SERVER_IDENTITY
package hash: one where there is none = SERVER_IDENTITY
definition: one sentence of the description = DEFINITION_CHANGED
definition: one keyword of the schema = DEFINITION_CHANGED
token absent = TOKEN_INVALID
token audience: another = AUDIENCE_MISMATCH
token audience: one more = AUDIENCE_MISMATCH
token subject: another = SUBJECT_MISMATCH
token issuer: another = SUBJECT_MISMATCH
token and principal of an unknown issuer = TOKEN_INVALID
token expired = TOKEN_EXPIRED
token not valid yet = TOKEN_EXPIRED
token scope dropped = SCOPE_MISSING
`
	evidence := `evidence of /amount: removed = UNTRUSTED_SOLE_SOURCE
evidence of /amount: from a document only = EVIDENCE_MISSING
evidence of /amount: from a model only = UNTRUSTED_SOLE_SOURCE
evidence of /amount: of another value = UNTRUSTED_SOLE_SOURCE
evidence of /amount: all derived from one source = EVIDENCE_MISSING
evidence of /payee: removed = UNTRUSTED_SOLE_SOURCE
evidence of /payee: from a document only = UNTRUSTED_SOLE_SOURCE
evidence of /payee: from a model only = UNTRUSTED_SOLE_SOURCE
evidence of /payee: of another value = UNTRUSTED_SOLE_SOURCE
evidence of /payee: stale = EVIDENCE_STALE
evidence of /payee: from the future = EVIDENCE_STALE
evidence classified as what the server may not have = CLASSIFICATION_DENIED
`
	for name, want := range map[string]string{
		"balance": common + `intent absent = ALLOW
intent expired = INTENT_EXPIRED
purpose: another = ALLOW
principal: unknown = NO_PERMIT
caller: one that vouches for nothing = ALLOW
an extra argument = INVALID_ARGUMENTS
a look-alike beside ledger = MALFORMED_PROPOSAL
a look-alike in place of ledger = INVALID_ARGUMENTS
ledger: another type = INVALID_ARGUMENTS
ledger: text changed = TARGET_UNKNOWN
ledger: another Ledger of the bundle = NO_PERMIT
request id changed = ALLOW
everything expired = INTENT_EXPIRED
`,
		"through the agent": common + `intent absent = INTENT_REQUIRED
intent expired = INTENT_EXPIRED
purpose: another = ALLOW
principal: unknown = NO_PERMIT
actor 1: unknown = NO_PERMIT
caller: one that vouches for nothing = UNTRUSTED_SOLE_SOURCE
an extra argument = INVALID_ARGUMENTS
a look-alike beside amount = MALFORMED_PROPOSAL
a look-alike in place of amount = INVALID_ARGUMENTS
amount: another type = INVALID_ARGUMENTS
amount: one step more = UNTRUSTED_SOLE_SOURCE
amount: one step more, and so say its sources = ALLOW
amount: one step less = UNTRUSTED_SOLE_SOURCE
amount: one step less, and so say its sources = ALLOW
amount: far more = UNTRUSTED_SOLE_SOURCE
amount: far more, and so say its sources = LIMIT_DENIED
amount: its negative = INVALID_ARGUMENTS
amount: its negative, and so say its sources = INVALID_ARGUMENTS
a look-alike beside method = MALFORMED_PROPOSAL
a look-alike in place of method = INVALID_ARGUMENTS
method: another type = INVALID_ARGUMENTS
method: enum value card = ALLOW
a look-alike beside payee = MALFORMED_PROPOSAL
a look-alike in place of payee = INVALID_ARGUMENTS
payee: another type = INVALID_ARGUMENTS
payee: text changed = TARGET_UNKNOWN
payee: text changed, and so say its sources = TARGET_UNKNOWN
payee: another Payee of the bundle = UNTRUSTED_SOLE_SOURCE
payee: another Payee of the bundle, and so say its sources = ALLOW
` + evidence + `request id changed = ALLOW
everything expired = INTENT_EXPIRED
`,
		"reviewed": common + `intent absent = INTENT_REQUIRED
intent expired = INTENT_EXPIRED
purpose: another = ALLOW
principal: unknown = NO_PERMIT
caller: one that vouches for nothing = UNTRUSTED_SOLE_SOURCE
an extra argument = INVALID_ARGUMENTS
a look-alike beside amount = MALFORMED_PROPOSAL
a look-alike in place of amount = INVALID_ARGUMENTS
amount: another type = INVALID_ARGUMENTS
amount: one step more = UNTRUSTED_SOLE_SOURCE
amount: one step more, and so say its sources = ALLOW
amount: one step more, after approval = STALE_APPROVAL
amount: one step less = UNTRUSTED_SOLE_SOURCE
amount: one step less, and so say its sources = ALLOW
amount: one step less, after approval = ALLOW
amount: far more = UNTRUSTED_SOLE_SOURCE
amount: far more, and so say its sources = LIMIT_DENIED
amount: far more, after approval = LIMIT_DENIED
amount: its negative = INVALID_ARGUMENTS
amount: its negative, and so say its sources = INVALID_ARGUMENTS
amount: its negative, after approval = INVALID_ARGUMENTS
a look-alike beside method = MALFORMED_PROPOSAL
a look-alike in place of method = INVALID_ARGUMENTS
method: another type = INVALID_ARGUMENTS
method: enum value card = ALLOW
method: enum value card, after approval = STALE_APPROVAL
a look-alike beside payee = MALFORMED_PROPOSAL
a look-alike in place of payee = INVALID_ARGUMENTS
payee: another type = INVALID_ARGUMENTS
payee: text changed = TARGET_UNKNOWN
payee: text changed, and so say its sources = TARGET_UNKNOWN
payee: text changed, after approval = TARGET_UNKNOWN
payee: another Payee of the bundle = UNTRUSTED_SOLE_SOURCE
payee: another Payee of the bundle, and so say its sources = LIMIT_DENIED
payee: another Payee of the bundle, after approval = LIMIT_DENIED
` + evidence + `approval by nobody = APPROVAL_REQUIRED
approval without User::"cy" = APPROVAL_REQUIRED
approval by the principal in place of User::"cy" = SELF_APPROVAL
approval of another review = STALE_APPROVAL
approval of another proposal = STALE_APPROVAL
approval used for another request = STALE_APPROVAL
approval expired = APPROVAL_EXPIRED
approval forged = APPROVAL_INVALID
request id changed = ALLOW
everything expired = INTENT_EXPIRED
`,
	} {
		lines := strings.Split(strings.TrimSpace(want), "\n")
		if !slices.Equal(got[name], lines) {
			for i := range max(len(lines), len(got[name])) {
				w, g := "", ""
				if i < len(lines) {
					w = lines[i]
				}
				if i < len(got[name]) {
					g = got[name][i]
				}
				if w != g {
					t.Errorf("%s, mutant %d:\ngot  %s\nwant %s", name, i+1, g, w)
				}
			}
		}
	}
}

// TestChangerIsCompile holds the cheap world of a mutant against the whole
// bundle compiled with the mutant's text in place.
func TestChangerIsCompile(t *testing.T) {
	r := bankRunner(t)
	trials, err := r.policyMutants()
	if err != nil {
		t.Fatal(err)
	}
	changer := policy.NewChanger(r.world.Policies, r.world.Entities)
	compared := 0
	for _, m := range trials {
		var sources []policy.Source
		for _, f := range r.Files {
			if strings.HasPrefix(f.Name, "policies/") {
				sources = append(sources, policy.Source{File: f.Name, Text: bytes.Replace(f.Data, m.of.Text, m.text, 1)})
			}
		}
		whole, _ := policy.Compile(r.world.Schema, r.world.Entities, sources)
		r.try(changer, m)
		if (whole == nil) != (m.set == nil) {
			t.Errorf("%s: %s: Compile makes a set: %t, the Changer: %t", m.of.ID, m.name, whole != nil, m.set != nil)
			continue
		}
		if whole == nil {
			continue
		}
		compared++
		for _, c := range r.world.Contracts {
			for _, action := range append(c.Actions(), "approve:"+c.ID()) {
				uid := types.NewEntityUID("Action", types.String(action))
				if whole.Digest(uid) != m.set.Digest(uid) {
					t.Errorf("%s: %s: the candidates for %s differ", m.of.ID, m.name, action)
				}
			}
		}
		for i := range r.cases {
			c := &r.cases[i]
			a := c.Run(r.in(whole), r.Clock, r.Decide(r.in(whole)))
			b := c.Run(r.in(m.set), r.Clock, r.Decide(r.in(m.set)))
			if fmt.Sprint(a.Code, ids(a.Policies)) != fmt.Sprint(b.Code, ids(b.Policies)) {
				t.Errorf("%s: %s: %s gets %s %v, and %s %v", m.of.ID, m.name, c.Name, a.Code, ids(a.Policies), b.Code, ids(b.Policies))
			}
		}
	}
	if compared < 50 {
		t.Errorf("only %d compared", compared)
	}
}

func TestLookalike(t *testing.T) {
	for name, want := range map[string]string{"path": "Path", "_a": "_A", "URL": "uRL", "42": "", "é1": ""} {
		if got := lookalike(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestDecimals(t *testing.T) {
	for text, want := range map[string]int64{"0.5": 5000, "-0.5": -5000, "10000.0": 100_000_000, "1.0001": 10_001} {
		n, ok := tenThousandths(text)
		if !ok || n != want || decimalText(n) != text {
			t.Errorf("%s: %d %s", text, n, decimalText(n))
		}
	}
}
