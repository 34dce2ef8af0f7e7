package mutation_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/mutation"
	"github.com/writ-pdp/writ/snapshot"
)

var clock = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func decider(world *snapshot.Snapshot) bundle.Decider {
	return func(caller *writ.Caller, p *writ.Proposal, now time.Time) writ.Decision {
		return decide.Decide(world, caller, p, now, nil)
	}
}

func read(t testing.TB, dir string) []bundle.File {
	t.Helper()
	files, err := bundle.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// change replaces text that must be there once, in a copy.
func change(t testing.TB, files []bundle.File, name, old, text string) []bundle.File {
	t.Helper()
	out := slices.Clone(files)
	for i := range out {
		if out[i].Name != name {
			continue
		}
		if n := strings.Count(string(out[i].Data), old); n != 1 {
			t.Fatalf("%s holds %q %d times", name, old, n)
		}
		out[i].Data = []byte(strings.Replace(string(out[i].Data), old, text, 1))
		return out
	}
	t.Fatalf("there is no %s", name)
	return nil
}

func build(t testing.TB, files []bundle.File) *bundle.Bundle {
	t.Helper()
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	return b
}

func run(t testing.TB, files []bundle.File) *mutation.Report {
	t.Helper()
	r, err := mutation.Run(t.Context(), mutation.Options{Bundle: build(t, files), Files: files, Decide: decider, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	cedar     = "policies/bank.cedar"
	scenarios = "scenarios/bank.yaml"
	server    = "servers/bank.yaml"
	config    = "bundle.yaml"
)

// TestNothingSurvives: the bank's scenarios notice every change.
func TestNothingSurvives(t *testing.T) {
	r := run(t, read(t, "testdata/bank"))
	for _, s := range r.Survivors {
		t.Errorf("%+v", s)
	}
	for _, f := range r.Faults {
		t.Error(f)
	}
	if !r.OK || r.Policies.Mutants < 80 || r.Proposals.Mutants < 500 || r.Policies.By[mutation.Killed] < 70 {
		t.Errorf("%+v", r)
	}
}

// edit is one change of a file.
type edit struct{ file, old, text string }

// line takes the scenario with this name out.
func line(t *testing.T, files []bundle.File, name string) edit {
	for _, f := range files {
		for l := range strings.Lines(string(f.Data)) {
			if f.Name == scenarios && strings.HasPrefix(l, "- {name: "+name+",") {
				return edit{scenarios, l, ""}
			}
		}
	}
	t.Fatalf("no scenario %q", name)
	return edit{}
}

// TestSeededFaults puts mistakes into a bundle that is in order. Each must be
// found: by the loader, by a scenario that fails, or, where the scenarios that
// would notice are missing, by a mutant that survives.
func TestSeededFaults(t *testing.T) {
	bank := read(t, "testdata/bank")
	dropped := func(id string) string { // the text of a policy
		for _, f := range bank {
			if f.Name == cedar {
				_, rest, _ := strings.Cut(string(f.Data), `@id("`+id+`")`)
				text, _, _ := strings.Cut(rest, ";\n")
				return `@id("` + id + `")` + text + ";\n"
			}
		}
		return ""
	}
	for _, tt := range []struct {
		name  string
		edits []edit
		// without names scenarios that are taken out: nobody thought of them.
		without []string
		by      string // load, scenario or mutant
		want    string // in the fault, the scenario's name, or "policy: mutation"
	}{
		{"a forbid is dropped", []edit{{cedar, dropped("ceiling"), ""}}, nil, "load", `"AMOUNT_DENIED" is neither`},
		{"a forbid is dropped, and others have its code", []edit{{cedar, dropped("ceiling"), ""}, {cedar, `@code("LIMIT_DENIED")`, `@code("AMOUNT_DENIED")`},
			{scenarios, "expect: LIMIT_DENIED", "expect: AMOUNT_DENIED"}}, nil, "scenario", "over the ceiling"},
		{"greaterThanOrEqual for greaterThan", []edit{{cedar, `amount.greaterThan(decimal("500.0"))`, `amount.greaterThanOrEqual(decimal("500.0"))`}}, nil, "scenario", "no review"},
		{"the same, and no scenario at the bound", []edit{{cedar, `amount.greaterThan(decimal("500.0"))`, `amount.greaterThanOrEqual(decimal("500.0"))`}},
			[]string{"no review", "review"}, "mutant", "second-person: greaterThanOrEqual → greaterThan: context.arguments.amount.greaterThanOrEqual(decimal(\"500.0\"))"},
		{"<= for <", []edit{{cedar, "hour < 18", "hour <= 18"}}, nil, "scenario", "a card at six"},
		{"the same, and nobody comes at six", []edit{{cedar, "hour < 18", "hour <= 18"}}, []string{"a card at six", "a card before six"},
			"mutant", "no-cards-at-night: <= → <: context.local.hour <= 18"},
		{"a missing has guard", []edit{{cedar, "resource has added_by && ", ""}}, nil, "load", "added_by"},
		{"the wrong role", []edit{{cedar, `principal in Group::"approvers", action == Action::"approve`, `principal in Group::"clerks", action == Action::"approve`}}, nil, "scenario", "reviewed"},
		{"a role that there is not", []edit{{cedar, `principal in Group::"approvers", action == Action::"approve`, `principal in Group::"aprovers", action == Action::"approve`}}, nil, "load", "approvers"},
		{"a widened scope", []edit{{cedar, `permit (principal in Group::"clerks", action == Action::"bank/pay"`, `permit (principal, action == Action::"bank/pay"`}}, nil, "scenario", "a stranger"},
		{"a scope that nobody tests", nil, []string{"a stranger", "an approver", "through another agent"}, "mutant", `clerks-pay: principal widened: principal in Group::"clerks" → principal`},
		{"a widened resource", []edit{{cedar, `action == Action::"bank/balance", resource in Group::"open-ledgers"`, `action == Action::"bank/balance", resource`}}, nil, "scenario", "payroll"},
		{"a resource that nobody tests", nil, []string{"payroll"}, "mutant", `clerks-read: resource widened: resource in Group::"open-ledgers" → resource`},
		{"unless for when", []edit{{cedar, "unless { resource.active }", "when { resource.active }"}}, nil, "scenario", "pay"},
		{"a review for a hard forbid", []edit{{cedar, `@code("AMOUNT_DENIED")`, `@review("1")`}}, nil, "load", "AMOUNT_DENIED"},
		{"two people for one", []edit{{cedar, `@review("1")`, `@review("2")`}}, nil, "scenario", "reviewed"},
		{"a number of people that nobody tests", nil, []string{"reviewed", "reviewed by a clerk"}, "mutant", "second-person: @review 1 → 2"},
		{"a literal misspelt", []edit{{cedar, `method == "card"`, `method == "crad"`}}, nil, "load", "crad"},
		{"a zero too many", []edit{{cedar, `decimal("10000.0")`, `decimal("100000.0")`}}, nil, "scenario", "over the ceiling"},
		{"a condition that nobody tests", nil, []string{"urgent"}, "mutant", "second-person: disjunct dropped: context.arguments.urgent"},
		{"a forbid that another hides", []edit{{cedar, `amount.greaterThan(decimal("10000.0"))`, `amount.greaterThan(decimal("30000.0"))`}},
			[]string{"over the ceiling"}, "mutant", "ceiling: policy dropped"},
		{"or for and", []edit{{cedar, "hour >= 8 && ", "hour >= 8 || "}}, nil, "load", "write && between them"},
		{"evidence that is not needed any more", []edit{{server, "      payee: {from: [system_of_record], fresh: 24h}\n", ""}}, nil, "scenario", "a payee from a document"},
		{"evidence that may be old", []edit{{server, "from: [system_of_record], fresh: 24h", "from: [system_of_record]"}}, nil, "scenario", "an old lookup"},
		{"one source for two", []edit{{server, "document], independent: 2", "document]"}}, nil, "scenario", "one source"},
		{"another scope", []edit{{server, `"bank:pay"`, `"bank:read"`}}, nil, "scenario", "a token for reading"},
		{"no intent", []edit{{server, "    intent: required\n", ""}}, nil, "scenario", "no intent"},
		{"ceremony for a computation", []edit{{server, "convert: {effect: pure, ", "convert: {effect: pure, intent: required, "}}, nil, "load", "ceremony"},
		{"an argument that no policy sees", []edit{{cedar, dropped("no-cards-at-night"), ""}},
			[]string{"a card at eight", "a card before eight", "a card before six", "a card at six"}, "mutant", "arguments.method"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := bank
			for _, e := range tt.edits {
				files = change(t, files, e.file, e.old, e.text)
			}
			for _, name := range tt.without {
				e := line(t, files, name)
				files = change(t, files, e.file, e.old, e.text)
			}
			b, faults := bundle.Build(files, nil)
			if tt.by == "load" {
				if !slices.ContainsFunc(faults, func(f writ.Fault) bool { return strings.Contains(f.Error(), tt.want) }) {
					t.Fatalf("not found: %v", faults)
				}
				return
			}
			if b == nil {
				t.Fatal(faults)
			}
			r, err := mutation.Run(t.Context(), mutation.Options{Bundle: b, Files: files, Decide: decider, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			if r.OK {
				t.Fatal("nothing was found")
			}
			if tt.by == "scenario" {
				if !slices.ContainsFunc(r.Faults, func(f writ.Fault) bool { return strings.Contains(f.Message, `scenario "`+tt.want+`"`) }) {
					t.Fatalf("no scenario %q fails: %v", tt.want, r.Faults)
				}
				return
			}
			var found []string
			for _, s := range r.Survivors {
				found = append(found, s.Policy+": "+s.Mutation, s.Field)
			}
			if !slices.Contains(found, tt.want) {
				t.Fatalf("not found, but %q\n%v", found, r.Faults)
			}
		})
	}
}

// TestProposedCases adds what is proposed for survivors, and mutates again:
// those survivors are gone.
func TestProposedCases(t *testing.T) {
	files := read(t, "testdata/bank")
	for _, name := range []string{"no review", "review", "a stranger", "an approver", "through another agent", "payroll", "urgent", "over the ceiling", "ceiling", "reviewed", "a card at six"} {
		e := line(t, files, name)
		files = change(t, files, e.file, e.old, e.text)
	}
	first := run(t, files)
	if len(first.Survivors) < 10 {
		t.Fatalf("only %d survived", len(first.Survivors))
	}
	added := map[string]bool{}
	for i := range files {
		if files[i].Name == scenarios {
			text := string(files[i].Data)
			for _, s := range first.Survivors {
				if s.Case != "" && !added[s.CaseName] {
					added[s.CaseName] = true
					text += s.Case + "\n"
				}
			}
			files[i].Data = []byte(text)
		}
	}
	second := run(t, files)
	if len(second.Faults) > 0 {
		t.Fatalf("the proposed cases do not hold: %v", second.Faults)
	}
	left := map[string]bool{}
	for _, s := range second.Survivors {
		left[s.Policy+s.Mutation] = true
	}
	for _, s := range first.Survivors {
		if s.Case == "" {
			t.Logf("no case for %s: %s", s.Policy, s.Mutation)
		}
		if s.Case != "" && left[s.Policy+s.Mutation] {
			t.Errorf("%s: %s survives %s", s.Policy, s.Mutation, s.Case)
		}
	}
	if len(added) < 5 {
		t.Errorf("only %d cases were proposed", len(added))
	}
}

// TestDeterminism: equal files give equal reports, however many work.
func TestDeterminism(t *testing.T) {
	files := read(t, "testdata/bank")
	for _, name := range []string{"no review", "review", "a stranger", "an approver", "through another agent"} {
		e := line(t, files, name)
		files = change(t, files, e.file, e.old, e.text)
	}
	var first string
	for _, workers := range []int{1, 1, 2, 7} {
		r, err := mutation.Run(t.Context(), mutation.Options{Bundle: build(t, files), Files: files, Decide: decider, Clock: clock, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(data)
		}
		if string(data) != first {
			t.Errorf("with %d workers:\n%s\nthen\n%s", workers, data, first)
		}
	}
}

func TestNotDecisionBearing(t *testing.T) {
	bank := read(t, "testdata/bank")
	entry := "- {field: purpose, tool: bank/pay, reason: Any purpose will do in this test.}\n"
	r := run(t, change(t, bank, config, entry, ""))
	if len(r.Survivors) != 1 || r.Survivors[0].Field != "purpose" || r.Survivors[0].Tool != "bank/pay" {
		t.Errorf("%+v", r.Survivors)
	}
	for _, tt := range []struct{ old, text, want string }{
		{entry, entry + "- {field: arguments.amount, tool: bank/pay, reason: x}\n", "arguments.amount of bank/pay is declared for nothing (changing it is denied)"},
		{"not_decision_bearing:\n", "not_decision_bearing:\n- {field: actors, tool: bank/balance, reason: x}\n", "no allowed scenario"},
		{"accepted_mutants:\n", "accepted_mutants:\n- {policy: ceiling, mutation: policy dropped, reason: x}\n", `"policy dropped" of policy ceiling does not survive`},
		{"accepted_mutants:\n", "accepted_mutants:\n- {policy: ceiling, mutation: policy drooped, reason: x}\n", `policy ceiling has no mutation "policy drooped"`},
	} {
		r := run(t, change(t, bank, config, tt.old, tt.text))
		if r.OK || !strings.Contains(r.Faults.Error(), tt.want) {
			t.Errorf("%q: %v", tt.text, r.Faults)
		}
	}
	for _, tt := range []struct{ old, text, want string }{
		{"purpose, tool: bank/pay", "purpos, tool: bank/pay", "did you mean purpose?"},
		{"purpose, tool: bank/pay", "purpose, tool: bank/pa", "did you mean bank/pay?"},
		{"reason: Nothing but ledgers is in a group.\n- policy: clerks-read\n  mutation: 'action widened: action == Action::\"bank/balance\" → action'\n  reason: Nothing", "reason: ' '\n- policy: clerks-reed\n  mutation: 'action widened: action == Action::\"bank/balance\" → action'\n  reason: Nothing", "say why"},
		{"policy: not-your-own\n  mutation: principal", "policy: not-yours-own\n  mutation: principal", "did you mean not-your-own?"},
	} {
		if b, faults := bundle.Build(change(t, bank, config, tt.old, tt.text), nil); b != nil || !strings.Contains(faults.Error(), tt.want) {
			t.Errorf("%q: %v", tt.text, faults)
		}
	}
}

func TestBadInput(t *testing.T) {
	bank := read(t, "testdata/bank")
	none := slices.DeleteFunc(slices.Clone(bank), func(f bundle.File) bool { return f.Name == scenarios || f.Name == config })
	try := func(files []bundle.File) (*mutation.Report, error) {
		return mutation.Run(t.Context(), mutation.Options{Bundle: build(t, files), Files: files, Decide: decider, Clock: clock})
	}
	if _, err := try(none); !errors.Is(err, mutation.ErrNoScenarios) {
		t.Errorf("no scenarios: %v", err)
	}
	denied := append(slices.Clone(none), bundle.File{Name: scenarios, Data: []byte(
		`cases: [{name: x, principal: 'User::"eve"', tool: bank/balance, arguments: {ledger: cash}, expect: NO_PERMIT}]`)})
	if _, err := try(denied); !errors.Is(err, mutation.ErrNoAllowed) {
		t.Errorf("none allowed: %v", err)
	}
	r, err := try(change(t, bank, scenarios, "- {name: pay, expect: ALLOW}\n", "- {name: pay, expect: ALLOW}\n- {name: again, expect: NO_PERMIT}\n"))
	if err != nil || r.OK || len(r.Faults) != 1 || !strings.Contains(r.Faults[0].Error(), `scenarios/bank.yaml:12: scenario "again" expects NO_PERMIT of the call of which scenarios/bank.yaml:11 "pay" expects ALLOW`) {
		t.Errorf("contradiction: %v %v", err, r.Faults)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mutation.Run(ctx, mutation.Options{Bundle: build(t, bank), Decide: decider, Clock: clock}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	if _, err := mutation.Run(ctx, mutation.Options{Bundle: build(t, bank), Decide: decider, Clock: clock, Progress: func(done, total int) {
		if done == 100 {
			cancel()
		}
	}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled on the way: %v", err)
	}
}

// BenchmarkRun mutates the examples, without looking for cases to add.
func BenchmarkRun(b *testing.B) {
	for _, name := range []string{"lab", "accounts-payable"} {
		dir := filepath.Join("..", "examples", name)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		b.Run(name, func(b *testing.B) {
			made, faults := bundle.Build(read(b, dir), nil)
			if made == nil {
				b.Skip(faults)
			}
			mutants := 0
			for b.Loop() {
				r, err := mutation.Run(b.Context(), mutation.Options{Bundle: made, Decide: decider, Clock: clock})
				if err != nil {
					b.Fatal(err)
				}
				mutants += r.Proposals.Mutants + r.Policies.Mutants
			}
			b.ReportMetric(float64(mutants)/b.Elapsed().Seconds(), "mutants/s")
		})
	}
}
