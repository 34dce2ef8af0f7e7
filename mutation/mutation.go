package mutation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/snapshot"
)

// Options say what to mutate.
type Options struct {
	Bundle *bundle.Bundle
	// Files are what Bundle was built from: cases to add are made of them, and
	// built with them. Without files none are proposed.
	Files []bundle.File
	// Decide makes the decider of a world. It is called from several goroutines.
	Decide func(*snapshot.Snapshot) bundle.Decider
	// Clock is the time of scenarios that have none of their own.
	Clock time.Time
	// Workers is how many mutants are tried at once; 0: GOMAXPROCS.
	Workers int
	// Progress, if set, is told how many of the mutants are done. It is called
	// from several goroutines.
	Progress func(done, total int)
}

// Fate is what became of a mutant.
type Fate string

// Fates.
const (
	Killed     Fate = "killed"     // somebody noticed
	Survived   Fate = "survived"   // nobody did
	Accepted   Fate = "accepted"   // nobody did, and bundle.yaml says why that is right
	Invalid    Fate = "invalid"    // the changed policy would not load
	Equivalent Fate = "equivalent" // it is the same policy, or one that can't differ
	Allowed    Fate = "allowed"    // a value that policies allow, of a field that they decide on
	Skipped    Fate = "skipped"    // it could not be made
)

// Fates lists every fate, in the order in which reports count them.
var Fates = [...]Fate{Killed, Allowed, Accepted, Equivalent, Invalid, Skipped, Survived}

// Counts counts mutants by fate.
type Counts struct {
	Mutants int          `json:"mutants"`
	By      map[Fate]int `json:"by_fate"`
}

func (c *Counts) add(f Fate) {
	if c.By == nil {
		c.By = map[Fate]int{}
	}
	c.Mutants++
	c.By[f]++
}

// Report is what mutation testing found. It is the same for the same files and
// the same clock.
type Report struct {
	// OK says that nothing survived and there are no faults.
	OK        bool        `json:"ok"`
	Proposals Counts      `json:"proposals"`
	Policies  Counts      `json:"policies"`
	Survivors []Survivor  `json:"survivors"`
	Faults    writ.Faults `json:"-"`
}

// Survivor is a mutant that nobody noticed.
type Survivor struct {
	File string `json:"file"`
	Line int    `json:"line"`
	// Policy is the @id of the policy that was changed; empty: a proposal was.
	Policy string `json:"policy,omitempty"`
	// Tool and Field are what was changed of a proposal, in the form of
	// not_decision_bearing; Field is empty where a contract, not a policy,
	// decides on it.
	Tool  string `json:"tool,omitempty"`
	Field string `json:"field,omitempty"`
	// Scenario is the one that the proposal comes from.
	Scenario string `json:"scenario,omitempty"`
	// More is in how many other scenarios the same change survives.
	More int `json:"more,omitempty"`
	// Mutation is the change, by the name that accepted_mutants uses.
	Mutation string `json:"mutation"`
	// Why says what was seen, for people.
	Why string `json:"why"`
	// Fires are the scenarios in which the policy is satisfied, and Shadows the
	// policies that answer there.
	Fires   []string `json:"fires_in,omitempty"`
	Shadows []string `json:"answered_by,omitempty"`
	// Case is a scenario that would notice, as YAML to add to CaseFile.
	Case     string `json:"case,omitempty"`
	CaseFile string `json:"case_file,omitempty"`
	CaseName string `json:"case_name,omitempty"`
}

// Errors for bundles that can't be mutated.
var (
	ErrNoScenarios = errors.New("the bundle has no scenarios, so that nothing would notice a change: write scenarios/NAME.yaml")
	ErrNoAllowed   = errors.New("no scenario is allowed, so that there is no call to change: write one with expect: ALLOW")
)

// Run mutates the bundle. The error says why nothing, or not everything, was
// tried; ctx ends it early.
func Run(ctx context.Context, o Options) (*Report, error) {
	if len(o.Bundle.Scenarios) == 0 {
		return nil, ErrNoScenarios
	}
	r := &runner{Options: o, ctx: ctx, world: o.Bundle.Snapshot, decide: o.Decide(o.Bundle.Snapshot)}
	faults := r.baseline()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		return &Report{Survivors: []Survivor{}, Faults: faults}, nil
	}
	if !slices.ContainsFunc(r.cases, func(c baseCase) bool { return c.Expect.Code == writ.CodeAllow }) {
		return nil, ErrNoAllowed
	}
	r.reviews()
	policies, err := r.policyMutants()
	if err != nil {
		return nil, err
	}
	proposals := r.proposalMutants()
	r.total = len(policies) + len(proposals)

	report := &Report{Survivors: []Survivor{}}
	r.tryProposals(proposals)
	r.judgeProposals(report, proposals)
	if ctx.Err() == nil {
		r.tryPolicies(policies)
		r.judgePolicies(report, policies)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report.Faults = report.Faults.Sort()
	report.OK = len(report.Survivors) == 0 && len(report.Faults) == 0
	return report, nil
}

// runner is one run.
type runner struct {
	Options
	ctx    context.Context
	world  *snapshot.Snapshot
	decide bundle.Decider
	cases  []baseCase
	// reviewed holds the tools, S/T, whose calls some review can stop.
	reviewed map[string]bool
	done     atomic.Int64
	total    int
}

// baseCase is a scenario and the answer that it gets from the bundle as it is.
type baseCase struct {
	bundle.Scenario // at its time
	baseline        writ.Decision
}

// place names the scenario in messages.
func (c *baseCase) place() string { return fmt.Sprintf("%s:%d %q", c.File, c.Line, c.Name) }

// baseline decides every scenario, and says which are not as they expect, or
// contradict one another.
func (r *runner) baseline() writ.Faults {
	var faults writ.Faults
	seen := map[string]int{}
	for _, s := range r.Bundle.Scenarios {
		c := baseCase{Scenario: s.At(r.Clock)}
		key := callOf(c.Scenario)
		if first, twice := seen[key]; twice {
			if other := r.cases[first]; other.Expect.Code != c.Expect.Code {
				faults = append(faults, writ.Fault{File: c.File, Line: c.Line, Message: fmt.Sprintf(
					"scenario %q expects %s of the call of which %s:%d %q expects %s: one of the two is wrong",
					c.Name, c.Expect.Code, other.File, other.Line, other.Name, other.Expect.Code)})
			}
		} else {
			seen[key] = len(r.cases)
		}
		r.cases = append(r.cases, c)
	}
	r.each(len(r.cases), func(i int) {
		r.cases[i].baseline = r.cases[i].Run(r.world, r.Clock, r.decide)
	})
	if len(faults) > 0 {
		return faults.Sort()
	}
	for i := range r.cases {
		c := &r.cases[i]
		if why := c.Expect.Check(c.baseline); why != "" {
			faults = append(faults, writ.Fault{File: c.File, Line: c.Line, Message: fmt.Sprintf(
				"scenario %q: %s: scenarios must hold before they can notice anything", c.Name, why)})
		}
	}
	return faults.Sort()
}

// callOf is a key of everything in a scenario that decides.
func callOf(s bundle.Scenario) string {
	p := s.Proposal
	p.RequestID = ""
	var b strings.Builder
	fmt.Fprintf(&b, "%q %s %v|", s.Caller, s.Now.Format(time.RFC3339Nano), s.Approvers)
	if p.Token != nil {
		fmt.Fprintf(&b, "%+v", *p.Token)
	}
	if p.Intent != nil {
		fmt.Fprintf(&b, "%+v", *p.Intent)
	}
	p.Token, p.Intent = nil, nil
	fmt.Fprintf(&b, "%+v", p)
	return b.String()
}

// each calls do for 0 to n-1 from several goroutines, until ctx ends.
func (r *runner) each(n int, do func(i int)) {
	r.eachWorker(n, func() func(int) { return do })
}

// eachWorker likewise, with one function a goroutine.
func (r *runner) eachWorker(n int, worker func() func(i int)) {
	workers := r.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(workers, n) {
		wait.Go(func() {
			do := worker()
			for {
				i := int(next.Add(1)) - 1
				if i >= n || r.ctx.Err() != nil {
					return
				}
				do(i)
			}
		})
	}
	wait.Wait()
}

// step tells that a mutant is done.
func (r *runner) step() {
	done := r.done.Add(1)
	if r.Progress != nil {
		r.Progress(int(done), r.total)
	}
}

// order sorts survivors by place.
func order(list []Survivor) {
	slices.SortStableFunc(list, func(a, b Survivor) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}
