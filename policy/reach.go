package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// AnyPermit reports whether any permit names the action, directly, by a group
// or by an open action scope. Where there is none, nobody may do it.
func (s *Set) AnyPermit(action types.EntityUID) bool {
	return slices.ContainsFunc(s.index.actions[action], func(s *shelf) bool { return len(s.permits.all) > 0 })
}

// AnyReview reports whether any forbid with @review names the action of an id,
// likewise. Where there is none, nobody is ever asked to approve it.
func (s *Set) AnyReview(action string) bool {
	return slices.ContainsFunc(s.index.actions[types.NewEntityUID("Action", types.String(action))], func(s *shelf) bool {
		return slices.ContainsFunc(s.forbids.all, func(p *Policy) bool { return p.Review > 0 })
	})
}

// AboutApproval reports whether the policy's action scope names nothing but
// approving: such a policy answers no call.
func (p *Policy) AboutApproval() bool {
	about := func(uid types.EntityUID) bool {
		return uid.ID == groupApprove || strings.HasPrefix(string(uid.ID), groupApprove+":")
	}
	switch scope := p.ast.Action.(type) {
	case ast.ScopeTypeEq:
		return about(scope.Entity)
	case ast.ScopeTypeIn:
		return about(scope.Entity)
	case ast.ScopeTypeInSet:
		return !slices.ContainsFunc(scope.Entities, func(uid types.EntityUID) bool { return !about(uid) })
	}
	return false
}
