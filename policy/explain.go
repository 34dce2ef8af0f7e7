package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// Considered is one policy whose action matched, as it was evaluated for one
// query: which of its parts hold. It is for explanations; [Set.Judge] decides.
type Considered struct {
	Policy *Policy
	// Principal and Resource say whether these parts of the scope hold.
	Principal, Resource bool
	// Condition says whether all conditions hold. It is looked at whatever the
	// scope says, and false where Err is set.
	Condition bool
	// Err is why the conditions could not be evaluated. Its text can hold
	// values of arguments and attributes. It counts only where the scope holds.
	Err error
}

// Satisfied reports whether the policy applied.
func (c *Considered) Satisfied() bool { return c.Principal && c.Resource && c.Condition }

// Failed reports whether the policy had to be evaluated and could not be.
func (c *Considered) Failed() bool { return c.Principal && c.Resource && c.Err != nil }

// Consider evaluates every policy whose action scope covers q's action, part
// by part, in order of file and position. It costs far more than [Set.Judge].
func (s *Set) Consider(q Query) []Considered {
	if s == nil {
		return nil
	}
	var all []*Policy
	for _, shelf := range s.index.actions[q.Action] {
		all = append(append(all, shelf.forbids.all...), shelf.permits.all...)
	}
	slices.SortFunc(all, Compare)
	all = slices.Compact(all)
	r := s.index.request(&q)
	out := make([]Considered, len(all))
	for i, p := range all {
		out[i] = Considered{
			Policy:    p,
			Principal: r.holds(p.ast.Principal, p.principal, &r.principal),
			Resource:  r.holds(p.ast.Resource, p.resource, &r.resource),
		}
		out[i].Condition, out[i].Err = considerConditions(p, q)
	}
	return out
}

// considerConditions evaluates the conditions of p alone.
func considerConditions(p *Policy, q Query) (bool, error) {
	if len(p.ast.Conditions) == 0 {
		return true, nil
	}
	bare := *p.ast
	bare.Effect = ast.EffectPermit
	bare.Principal, bare.Action, bare.Resource = ast.ScopeTypeAll{}, ast.ScopeTypeAll{}, ast.ScopeTypeAll{}
	conditions := newPolicy(p.PolicyRef, 0, &bare)
	satisfied, errs := evaluate(candidates{{PolicyRef: p.PolicyRef, eval: conditions.eval}}, q)
	if len(errs) > 0 {
		return false, errs[0].Err
	}
	return len(satisfied) > 0, nil
}

// Wants says in words what the policy's scope asks of principal and resource,
// as Cedar: principal in Group::"team". A part that asks nothing is empty.
func (p *Policy) Wants() (principal, resource string) {
	return scopeText("principal", p.ast.Principal), scopeText("resource", p.ast.Resource)
}

func scopeText(variable string, scope ast.IsScopeNode) string {
	switch scope := scope.(type) {
	case ast.ScopeTypeEq:
		return variable + " == " + scope.Entity.String()
	case ast.ScopeTypeIn:
		return variable + " in " + scope.Entity.String()
	case ast.ScopeTypeIs:
		return variable + " is " + string(scope.Type)
	case ast.ScopeTypeIsIn:
		return variable + " is " + string(scope.Type) + " in " + scope.Entity.String()
	}
	return ""
}

// WantsIn returns the groups that the scope asks principal and resource to be
// in, zero where it asks for none.
func (p *Policy) WantsIn() (principal, resource types.EntityUID) {
	return scopeGroup(p.ast.Principal), scopeGroup(p.ast.Resource)
}

func scopeGroup(scope ast.IsScopeNode) types.EntityUID {
	switch scope := scope.(type) {
	case ast.ScopeTypeIn:
		return scope.Entity
	case ast.ScopeTypeIsIn:
		return scope.Entity
	}
	return types.EntityUID{}
}
