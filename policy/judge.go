package policy

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

// Query is one question to the policies: may this principal do this to that
// resource?
type Query struct {
	Principal, Action, Resource types.EntityUID
	Context                     types.Record
	Entities                    types.EntityGetter // nil: there are none
}

// Verdict is what the policies say. Lists are in order of file and position.
// The zero Verdict permits nothing.
type Verdict struct {
	// Permits, Forbids and Reviews are the satisfied policies. Reviews are
	// forbids that approvals can lift, and are not among Forbids.
	Permits, Forbids, Reviews []*Policy
	// ForbidErrors and PermitErrors are the policies that could not be
	// evaluated. A forbid that errs must deny: Cedar itself would skip it.
	ForbidErrors, PermitErrors []EvalError
}

// EvalError says why a policy could not be evaluated. Its text can hold
// values of arguments and attributes.
type EvalError struct {
	Policy *Policy
	Err    error
}

// Judge evaluates the policies that can say anything about q, forbids and
// permits apart. An action that no contract has is permitted nothing.
func (s *Set) Judge(q Query) Verdict {
	if s == nil {
		return Verdict{}
	}
	return s.index.judge(q)
}

func (x *index) judge(q Query) Verdict {
	shelves := x.actions[q.Action]
	if len(shelves) == 0 {
		return Verdict{}
	}
	r := x.request(&q)
	candidates := make([]*Policy, 0, 16)
	for _, s := range shelves {
		candidates = s.forbids.collect(candidates, &r)
	}
	var v Verdict
	v.Forbids, v.ForbidErrors = evaluate(inOrder(candidates), q)
	v.Forbids, v.Reviews = splitReviews(v.Forbids)

	candidates = candidates[:0]
	for _, s := range shelves {
		candidates = s.permits.collect(candidates, &r)
	}
	v.Permits, v.PermitErrors = evaluate(inOrder(candidates), q)
	return v
}

// candidates are policies of one effect, in order.
type candidates []*Policy

// All yields the policies to Cedar in order.
func (c candidates) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, p := range c {
			if !yield(cedar.PolicyID(p.ID), p.eval) {
				return
			}
		}
	}
}

// evaluate has Cedar evaluate policies of one effect, and returns those that
// are satisfied and those that err, in order.
func evaluate(policies candidates, q Query) (satisfied []*Policy, errs []EvalError) {
	if len(policies) == 0 {
		return nil, nil
	}
	_, diagnostic := cedar.Authorize(policies, q.Entities, types.Request{
		Principal: q.Principal, Action: q.Action, Resource: q.Resource, Context: q.Context,
	})
	// Cedar reports in the order of evaluation, so that one pass finds each.
	next := 0
	for _, reason := range diagnostic.Reasons {
		for policies[next].ID != string(reason.PolicyID) {
			next++
		}
		satisfied = append(satisfied, policies[next])
	}
	next = 0
	for _, e := range diagnostic.Errors {
		for policies[next].ID != string(e.PolicyID) {
			next++
		}
		errs = append(errs, EvalError{policies[next], errors.New(e.Message)})
	}
	return satisfied, errs
}

// splitReviews parts forbids that nobody can lift from those that approvals
// can.
func splitReviews(forbids []*Policy) (hard, reviews []*Policy) {
	for i, p := range forbids {
		if p.Review == 0 {
			continue
		}
		hard = append(hard, forbids[:i]...)
		for _, p := range forbids[i:] {
			if p.Review > 0 {
				reviews = append(reviews, p)
			} else {
				hard = append(hard, p)
			}
		}
		return hard, reviews
	}
	return forbids, nil
}

// maxNear is how many permits Nearest returns.
const maxNear = 8

// Near is a permit that didn't permit, although its action matched. The parts
// say which of its other conditions hold. Condition is false also when it could
// not be evaluated.
type Near struct {
	Policy                         *Policy
	Principal, Resource, Condition bool
}

// score is how near the permit is.
func (n Near) score() int {
	score := 0
	for _, ok := range [...]bool{n.Principal, n.Resource, n.Condition} {
		if ok {
			score++
		}
	}
	return score
}

// Nearest returns the permits whose action is q's and that come closest to
// permitting q, the closest first: at most eight, and none that permits q.
func (s *Set) Nearest(q Query) []Near {
	if s == nil {
		return nil
	}
	return s.index.nearest(q)
}

func (x *index) nearest(q Query) []Near {
	var permits []*Policy
	for _, s := range x.actions[q.Action] {
		permits = append(permits, s.permits.all...)
	}
	r := x.request(&q)
	near := make([]Near, 0, len(permits))
	for _, p := range inOrder(permits) {
		near = append(near, Near{
			Policy:    p,
			Principal: r.holds(p.ast.Principal, p.principal, &r.principal),
			Resource:  r.holds(p.ast.Resource, p.resource, &r.resource),
		})
	}
	closest := func(a, b Near) int { return cmp.Compare(b.score(), a.score()) }
	// Conditions are evaluated only where the scope comes close: a bundle may
	// have thousands of permits for one action.
	slices.SortStableFunc(near, closest)
	out := make([]Near, 0, maxNear)
	for _, n := range near {
		if len(out) == maxNear {
			break
		}
		if n.Condition = conditionHolds(n.Policy, q); n.score() < 3 {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, closest)
	return out
}

// conditionHolds reports whether all conditions of a permit are true.
func conditionHolds(p *Policy, q Query) bool {
	if p.condition == nil {
		return true
	}
	decision, _ := cedar.Authorize(cedar.PolicyMap{"": p.condition}, q.Entities, types.Request{
		Principal: q.Principal, Action: q.Action, Resource: q.Resource, Context: q.Context,
	})
	return decision == types.Allow
}
