package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/mutation"
	"github.com/writ-pdp/writ/snapshot"
)

// mutate is check --mutate, on a bundle that loads.
func (k *checkCmd) mutate(c *console, r *report, b *bundle.Bundle, files []bundle.File) error {
	show := newProgress(c.err, "mutants")
	out, err := mutation.Run(c.ctx, mutation.Options{
		Bundle: b, Files: files, Clock: time.Now().UTC().Truncate(time.Second), Progress: show.done,
		Decide: func(world *snapshot.Snapshot) bundle.Decider {
			return func(caller *writ.Caller, p *writ.Proposal, now time.Time) writ.Decision {
				return decide.Decide(world, caller, p, now, nil)
			}
		},
	})
	show.end()
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted: not every mutant was tried")
	case err != nil:
		return err
	}
	r.Mutation = out
	r.OK = r.OK && out.OK
	for _, f := range out.Faults {
		r.Faults = append(r.Faults, fault{f.File, f.Line, f.Column, f.Field, "error", f.Message})
	}
	return nil
}

// printMutation prints what survived, and counts.
func printMutation(w io.Writer, m *mutation.Report) {
	for _, f := range m.Faults {
		fmt.Fprintln(w, f)
	}
	if m.Proposals.Mutants+m.Policies.Mutants == 0 {
		fmt.Fprintln(w, "nothing was mutated")
		return
	}
	printCounts(w, "proposals", m.Proposals)
	printCounts(w, "policies", m.Policies)
	printed := map[string]bool{}
	for _, s := range m.Survivors {
		if s.Policy != "" {
			fmt.Fprintf(w, "%s:%d %s: %s\n   %s\n", s.File, s.Line, s.Policy, s.Mutation, s.Why)
			if printed[s.Case] {
				fmt.Fprintf(w, "   The case would notice that is printed above: %s\n", s.CaseName)
			} else if s.Case != "" {
				printed[s.Case] = true
				fmt.Fprintf(w, "   A case that would notice, if this is what you mean (%s):\n   %s\n", s.CaseFile, s.Case)
			}
			continue
		}
		more := ""
		if s.More > 0 {
			more = " and in " + count(s.More, "more scenario")
		}
		fmt.Fprintf(w, "%s:%d scenario %q%s (%s): %s\n   %s\n", s.File, s.Line, s.Scenario, more, s.Tool, s.Mutation, s.Why)
	}
}

func printCounts(w io.Writer, what string, c mutation.Counts) {
	fmt.Fprintf(w, "%s: %s", what, count(c.Mutants, "mutant"))
	for _, fate := range mutation.Fates {
		if n := c.By[fate]; n > 0 || fate == mutation.Killed || fate == mutation.Survived {
			fmt.Fprintf(w, ", %d %s", n, fate)
		}
	}
	fmt.Fprintln(w)
}
