package mutation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/snapshot"
)

// trial is one policy mutant and what became of it.
type trial struct {
	policyMutant
	set  *policy.Set // nil: invalid
	fate Fate
}

// policyMutants lists the mutants of every policy that is in force.
func (r *runner) policyMutants() ([]*trial, error) {
	var out []*trial
	ids := func(t types.EntityType) []string {
		if t != "Policy" {
			return r.world.Entities.IDs(t)
		}
		var out []string
		for _, p := range r.world.Policies.Policies() {
			if p.Review > 0 {
				out = append(out, p.ID)
			}
		}
		slices.Sort(out)
		return out
	}
	for _, p := range r.world.Policies.Policies() {
		if p.AboutRights() { // no proposal is answered by it
			continue
		}
		mutants, err := mutantsOf(p, p.AboutApproval(), ids)
		if err != nil {
			return nil, err
		}
		for _, m := range mutants {
			out = append(out, &trial{policyMutant: m})
		}
	}
	return out, nil
}

// tryPolicies makes the world of each mutant and decides in it every scenario
// whose answer could differ.
func (r *runner) tryPolicies(trials []*trial) {
	r.eachWorker(len(trials), func() func(int) {
		changer := policy.NewChanger(r.world.Policies, r.world.Entities)
		return func(i int) {
			r.try(changer, trials[i])
			r.step()
		}
	})
}

func (r *runner) try(changer *policy.Changer, t *trial) {
	if t.text == nil {
		t.set = changer.Drop(t.of.ID)
	} else if t.set, _ = changer.Replace(t.of.ID, t.text); t.set == nil {
		t.fate = Invalid
		return
	}
	if t.same || r.equivalent(t) {
		t.fate = Equivalent
		return
	}
	world := r.in(t.set)
	decide := r.Decide(world)
	// Those whose answer rests on the policy are the likeliest to notice.
	for _, named := range [...]bool{true, false} {
		for i := range r.cases {
			c := &r.cases[i]
			if mentions(c.baseline.Policies, t.of.ID) != named || !r.concerns(t.set, &c.baseline) {
				continue
			}
			if c.Expect.Check(c.Run(world, r.Clock, decide)) != "" {
				t.fate = Killed
				return
			}
		}
	}
	t.fate = Survived
}

// in is the world with other policies.
func (r *runner) in(set *policy.Set) *snapshot.Snapshot {
	world := *r.world
	world.Policies = set
	return &world
}

// judged are the controls that look at policies.
var judged = [...]writ.Control{writ.ControlPolicy, writ.ControlApproval, ""}

// concerns reports whether a decision could be another under set: it got as
// far as the policies, and the candidates for the call, or for its approval,
// differ.
func (r *runner) concerns(set *policy.Set, d *writ.Decision) bool {
	if d.Code != writ.CodeAllow && !slices.Contains(judged[:], d.Control) {
		return false
	}
	for _, action := range [...]string{d.Action, "approve:" + d.Server + "/" + d.Tool} {
		uid := types.NewEntityUID("Action", types.String(action))
		if set.Digest(uid) != r.world.Policies.Digest(uid) {
			return true
		}
	}
	return false
}

// equivalent reports whether a mutant that loads can differ in no call: it is
// of a policy that is never asked and stays so, or only its scope was widened
// by nothing that there is.
func (r *runner) equivalent(t *trial) bool {
	now := t.set.Policy(t.of.ID)
	if t.of.Inactive && (now == nil || now.Inactive) {
		return true
	}
	if now == nil {
		return false
	}
	switch {
	case strings.HasPrefix(t.name, "action widened: "), strings.HasPrefix(t.name, "action dropped: "):
		return slices.Equal(r.mattering(r.world.Policies.Covers(t.of)), r.mattering(t.set.Covers(now)))
	case strings.HasPrefix(t.name, "principal widened: "):
		was, to, _ := strings.Cut(strings.TrimPrefix(t.name, "principal widened: "), " → ")
		typ, ok := strings.CutPrefix(was, "principal is ")
		if !ok || to != "principal" {
			return false
		}
		for _, issuer := range r.world.Issuers {
			if string(issuer.Principal.Type()) != typ || !t.of.AboutApproval() && string(issuer.Actor.Type()) != typ {
				return false
			}
		}
		return true
	}
	return false
}

// mattering leaves out, of actions, the approvals that no review asks for.
func (r *runner) mattering(actions []types.EntityUID) []types.EntityUID {
	return slices.DeleteFunc(actions, func(uid types.EntityUID) bool {
		id, approval := strings.CutPrefix(string(uid.ID), "approve:")
		return approval && !r.reviewed[id]
	})
}

// reviews finds the tools whose calls some review can stop.
func (r *runner) reviews() {
	r.reviewed = map[string]bool{}
	for _, p := range r.world.Policies.Policies() {
		if p.Review == 0 {
			continue
		}
		for _, uid := range r.world.Policies.Covers(p) {
			tool, _, _ := strings.Cut(string(uid.ID), "#")
			r.reviewed[tool] = true
		}
	}
}

// judgePolicies counts the trials, and looks closer at those that survived.
func (r *runner) judgePolicies(report *Report, trials []*trial) {
	accepted := make([]bool, len(r.Bundle.AcceptedMutants))
	named := make([]bool, len(r.Bundle.AcceptedMutants))
	var survivors []*trial
	for _, t := range trials {
		for i, a := range r.Bundle.AcceptedMutants {
			if a.Policy == t.of.ID && a.Mutation == t.name {
				named[i] = true
				if t.fate == Survived {
					t.fate, accepted[i] = Accepted, true
				}
			}
		}
		report.Policies.add(t.fate)
		if t.fate == Survived {
			survivors = append(survivors, t)
		}
	}
	for i, a := range r.Bundle.AcceptedMutants {
		switch {
		case !named[i]:
			report.fault(a.Line, fmt.Sprintf("accepted_mutants: policy %s has no mutation %q: name it as --mutate prints it", a.Policy, a.Mutation))
		case !accepted[i]:
			report.fault(a.Line, fmt.Sprintf("accepted_mutants: %q of policy %s does not survive any more: remove the line", a.Mutation, a.Policy))
		}
	}
	if len(survivors) == 0 || r.ctx.Err() != nil {
		return
	}
	fires := r.firing(survivors)
	cases := r.propose(survivors)
	list := make([]Survivor, len(survivors))
	for i, t := range survivors {
		list[i] = Survivor{File: t.of.File, Line: t.of.Line, Policy: t.of.ID, Mutation: t.name}
		r.explain(&list[i], t, fires[t.of.ID])
		if c := cases[i]; c != nil {
			list[i].Case, list[i].CaseFile, list[i].CaseName = c.text, c.file, c.name
		}
	}
	order(list)
	report.Survivors = append(report.Survivors, list...)
}

func (report *Report) fault(line int, message string) {
	report.Faults = append(report.Faults, writ.Fault{File: "bundle.yaml", Line: line, Message: message})
}

// firing finds, for the policy of each survivor, the scenarios in which it is
// satisfied.
func (r *runner) firing(survivors []*trial) map[string][]int {
	var policies []*policy.Policy
	for _, t := range survivors {
		if len(policies) == 0 || policies[len(policies)-1] != t.of {
			policies = append(policies, t.of)
		}
	}
	found := make([][]int, len(policies))
	r.eachWorker(len(policies), func() func(int) {
		changer := policy.NewChanger(r.world.Policies, r.world.Entities)
		return func(i int) {
			p := policies[i]
			if p.AboutApproval() {
				return
			}
			world := r.in(changer.Alone(p.ID))
			decide := r.Decide(world)
			covered := r.world.Policies.Covers(p)
			for k := range r.cases {
				d := &r.cases[k].baseline
				uid := types.NewEntityUID("Action", types.String(d.Action))
				if !slices.Contains(covered, uid) {
					continue
				}
				c := r.cases[k]
				c.Approvers = nil
				if mentions(c.Run(world, r.Clock, decide).Policies, p.ID) {
					found[i] = append(found[i], k)
				}
			}
		}
	})
	out := map[string][]int{}
	for i, p := range policies {
		out[p.ID] = found[i]
	}
	return out
}

func mentions(refs []writ.PolicyRef, id string) bool {
	return slices.ContainsFunc(refs, func(p writ.PolicyRef) bool { return p.ID == id })
}

// explain says of a survivor where its policy fires and who answers there.
func (r *runner) explain(s *Survivor, t *trial, fires []int) {
	if t.of.AboutApproval() {
		s.Why = "no scenario with approvals gets another answer"
		return
	}
	if len(fires) == 0 {
		s.Why = "fires in no scenario"
		return
	}
	counts := map[string]int{} // by who else answers
	first, together := 0, 0
	for _, k := range fires {
		c := &r.cases[k]
		s.Fires = append(s.Fires, c.place())
		answered := c.baseline.Policies
		switch {
		case t.of.Effect == types.Permit && c.baseline.Outcome != writ.Allow:
			continue // whatever permits
		case !mentions(answered, t.of.ID):
			if first++; len(answered) > 0 {
				counts[answered[0].ID]++
			}
		case len(answered) > 1:
			together++
			for _, p := range answered {
				if p.ID != t.of.ID {
					counts[p.ID]++
				}
			}
		}
	}
	s.Shadows = slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(s.Shadows, func(a, b string) int { return counts[b] - counts[a] })
	s.Why = "fires in " + count(len(fires), "scenario")
	by := ""
	if len(s.Shadows) > 0 {
		by = " (" + strings.Join(s.Shadows[:min(len(s.Shadows), 3)], ", ")
		if len(s.Shadows) > 3 {
			by += ", …"
		}
		by += ")"
	}
	if first > 0 {
		s.Why += fmt.Sprintf("; another answers first in %d", first)
	}
	if together > 0 {
		s.Why += fmt.Sprintf("; others say the same in %d", together)
	}
	s.Why += by
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
