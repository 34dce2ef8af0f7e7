package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/mutation"
)

type checkCmd struct {
	Bundle    *directory `arg:"" optional:"" name:"dir" help:"Directory of the bundle; without it, the one that comes with Writ."`
	Also      *directory `name:"bundle" hidden:"" help:"The same as DIR."`
	JSON      bool       `help:"Print one JSON object."`
	Effective bool       `help:"Also print what is in force with every default filled in: servers, contracts, issuers, callers."`
	Schema    bool       `help:"Also print the Cedar schema that the policies are checked against."`
	Mutate    bool       `help:"Also change policies and calls, one thing at a time, and say which changes no scenario would notice."`
}

func (*checkCmd) Help() string {
	return `Every fault is printed as file:line:column: what is wrong and what to do.
Then every scenario is decided and held against what it expects.
With --mutate, the policies and the allowed calls are changed in one place at a
time: a change that no scenario notices survives. bundle.yaml may accept some,
with a reason: accepted_mutants, not_decision_bearing.
The exit code is 1 when anything is wrong or survives.`
}

// report is what check found, and its JSON form.
type report struct {
	OK        bool           `json:"ok"`
	Bundle    string         `json:"bundle"`
	Revision  string         `json:"revision,omitempty"`
	Servers   int            `json:"servers"`
	Tools     int            `json:"tools"`
	Policies  int            `json:"policies"`
	Entities  int            `json:"entities"`
	Faults    []fault        `json:"faults"`
	Scenarios []scenario     `json:"scenarios"`
	Coverage  *coverage      `json:"coverage,omitempty"`
	Effective *effectiveView `json:"effective,omitempty"`
	Schema    string         `json:"schema,omitempty"`

	Mutation *mutation.Report `json:"mutation,omitempty"`
}

type fault struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Field    string `json:"field,omitempty"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
}

type scenario struct {
	File   string    `json:"file"`
	Line   int       `json:"line"`
	Name   string    `json:"name"`
	Expect writ.Code `json:"expect"`
	Got    writ.Code `json:"got"`
	OK     bool      `json:"ok"`
	Why    string    `json:"why,omitempty"` // what differs
}

func (k *checkCmd) Run(c *console) error {
	if k.Bundle == nil {
		k.Bundle = k.Also
	}
	files, err := readBundle(k.Bundle)
	if err != nil {
		return err
	}
	b, faults := bundle.Build(files, nil)
	r := report{OK: b != nil, Bundle: place(k.Bundle), Faults: []fault{}, Scenarios: []scenario{}}
	for _, f := range faults {
		severity := "error"
		if f.Severity == writ.Warning {
			severity = "warning"
		}
		r.Faults = append(r.Faults, fault{f.File, f.Line, f.Column, f.Field, severity, f.Message})
	}
	if b != nil {
		k.examine(&r, b)
		if k.Mutate {
			if err := k.mutate(c, &r, b, files); err != nil {
				return err
			}
		}
	}
	if k.JSON {
		e := json.NewEncoder(c.out)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return err
		}
	} else {
		for _, f := range faults {
			fmt.Fprintln(c.out, f)
		}
		r.print(c.out)
	}
	if !r.OK {
		return exit(exitFailed)
	}
	return nil
}

// examine runs the scenarios of a bundle that loads, and looks at what they reach.
func (k *checkCmd) examine(r *report, b *bundle.Bundle) {
	world := b.Snapshot
	r.Revision, r.Servers, r.Tools = world.Revision, len(world.Servers), len(world.Contracts)
	r.Policies, r.Entities = world.Policies.Len(), world.Entities.Len()
	answer := func(caller *writ.Caller, p *writ.Proposal, now time.Time) writ.Decision {
		return decide.Decide(world, caller, p, now, nil)
	}
	clock := time.Now().UTC()
	reached := newReach(world)
	for _, s := range b.Scenarios {
		d := s.Run(world, clock, answer)
		reached.add(d)
		why := s.Expect.Check(d)
		r.Scenarios = append(r.Scenarios, scenario{s.File, s.Line, s.Name, s.Expect.Code, d.Code, why == "", why})
		r.OK = r.OK && why == ""
	}
	r.Coverage = reached.coverage(clock)
	if k.Effective {
		r.Effective = effective(world)
	}
	if k.Schema {
		r.Schema = string(world.Schema.Cedar())
	}
}

func (r *report) print(w io.Writer) {
	failed := 0
	for _, s := range r.Scenarios {
		if !s.OK {
			failed++
			fmt.Fprintf(w, "%s:%d: scenario %q: %s\n", s.File, s.Line, s.Name, s.Why)
		}
	}
	if r.Revision == "" {
		errors := 0
		for _, f := range r.Faults {
			if f.Severity == "error" {
				errors++
			}
		}
		fmt.Fprintf(w, "bundle %s can't be loaded: %s\n", r.Bundle, count(errors, "fault"))
		return
	}
	verdict := "bundle ok"
	if failed > 0 {
		verdict = "bundle loads, but not as its scenarios say"
	}
	scenarios := count(len(r.Scenarios), "scenario") + " passed"
	if failed > 0 {
		scenarios = fmt.Sprintf("%d of %s failed", failed, count(len(r.Scenarios), "scenario"))
	}
	fmt.Fprintf(w, "%s: %s, %s, %s, %s, %s (revision %s)\n", verdict, count(r.Servers, "server"), count(r.Tools, "tool"),
		count(r.Policies, "policy"), count(r.Entities, "entity"), scenarios, r.Revision)
	r.Coverage.print(w)
	if r.Mutation != nil {
		printMutation(w, r.Mutation)
	}
	if r.Effective != nil {
		fmt.Fprintln(w, "\nin force, with every default filled in:")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(r.Effective) // plain structs: only a failing writer can fail, and that shows at the next line
	}
	if r.Schema != "" {
		fmt.Fprintln(w, "\nCedar schema:\n"+strings.TrimSpace(r.Schema))
	}
}

// count is "1 policy", "2 policies".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if base, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, base)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
