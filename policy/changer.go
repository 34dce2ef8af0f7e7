package policy

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
)

// A Changer makes sets that differ from one set in one policy, and checks
// that policy alone: what [Compile] would make of the changed text, at a
// fraction of its cost. It is for asking "what if", as mutation tests do. It
// is not safe for concurrent use; the sets that it makes are.
type Changer struct {
	set *Set
	// base has what compiling keeps from one policy to the next.
	base compiler
}

// NewChanger returns a Changer for s. known is what s was compiled with.
func NewChanger(s *Set, known EntitySet) *Changer {
	if known == nil {
		known = noEntities{}
	}
	policies := make(map[string]bool, len(s.policies))
	for _, p := range s.policies {
		policies[p.ID] = true
	}
	return &Changer{set: s, base: compiler{
		schema: s.schema, cutter: newCutter(s.schema), actions: newActionNames(s.schema), memo: map[string]any{},
		census: &census{known: known, policies: policies},
	}}
}

// Replace returns the set in which text stands in place of the policy id, and
// at its place; the @id must stay. Places in the faults are within text. The
// set is nil when any of them is an error.
//
// The other policies are not checked again: they may name a policy that
// changed.
func (c *Changer) Replace(id string, text []byte) (*Set, writ.Faults) {
	old := c.set.byID[id]
	if old == nil {
		return nil, writ.Faults{{Message: fmt.Sprintf("there is no policy %q", id)}}
	}
	one := c.base
	one.ids = map[string]*entry{}
	one.enter(readFile(Source{File: old.File, Text: text}))
	if len(one.faults.Errors()) > 0 {
		return nil, one.faults.Sort()
	}
	if len(one.entries) != 1 || one.entries[0].policy.ID != id {
		return nil, writ.Faults{{File: old.File, Message: fmt.Sprintf("the text is not one policy with @id(%q)", id)}}
	}
	one.check(one.entries[0])
	faults := one.faults.Sort()
	if len(faults.Errors()) > 0 {
		return nil, faults
	}
	made := one.policies()[0]
	made.Line, made.Column, made.ordinal = old.Line, old.Column, old.ordinal
	return c.with(func(p *Policy) *Policy {
		if p.ID == id {
			return made
		}
		return p
	}), faults
}

// Drop returns the set without the policy id.
func (c *Changer) Drop(id string) *Set {
	return c.with(func(p *Policy) *Policy {
		if p.ID == id {
			return nil
		}
		return p
	})
}

// Alone returns the set of the one policy, beside a permit of every call that
// has no id: with it a decision shows whether the policy is satisfied,
// whatever the others say.
func (c *Changer) Alone(id string) *Set {
	set := c.with(func(p *Policy) *Policy {
		if p.ID != id {
			return nil
		}
		return p
	})
	open := newPolicy(writ.PolicyRef{}, -1, &ast.Policy{
		Effect: ast.EffectPermit, Principal: ast.ScopeTypeAll{}, Action: ast.ScopeTypeAll{}, Resource: ast.ScopeTypeAll{},
	})
	open.digest = policyDigest(open)
	return newSet(c.set.schema, append([]*Policy{open}, set.policies...), nil, nil)
}

// with makes a set of what change gives for each policy; nil leaves it out.
// An index numbers what its policies name in the policies themselves, so that
// every set has its own.
func (c *Changer) with(change func(*Policy) *Policy) *Set {
	policies := make([]*Policy, 0, len(c.set.policies))
	for _, p := range c.set.policies {
		if p = change(p); p != nil {
			own := *p
			policies = append(policies, &own)
		}
	}
	return newSet(c.set.schema, policies, nil, c.set)
}

// Covers lists the actions of calls and approvals that p is a candidate for,
// in order.
func (s *Set) Covers(p *Policy) []types.EntityUID {
	var out []types.EntityUID
	for action := range s.schema.closure {
		if slices.ContainsFunc(s.index.actions[action], func(s *shelf) bool {
			return slices.ContainsFunc(s.forbids.all, p.same) || slices.ContainsFunc(s.permits.all, p.same)
		}) {
			out = append(out, action)
		}
	}
	slices.SortFunc(out, compareUIDs)
	return out
}

func (p *Policy) same(q *Policy) bool { return p.ID == q.ID && bytes.Equal(p.Text, q.Text) }
