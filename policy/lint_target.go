package policy

import (
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
)

// Where a call's target is optional and absent, the Tool itself is the
// resource. A forbid whose resource scope names targets alone lets such calls
// through: leaving an argument out must not be a way around it, unless its
// author means it.

// targetlessCalls reports a forbid that calls without their optional target
// would pass.
func (c *checker) targetlessCalls() writ.Faults {
	if c.in.policy.Effect != ast.EffectForbid || c.in.annotations[noteAbsent] != "" {
		return nil
	}
	var covers func(target types.EntityType) bool
	switch scope := c.in.policy.Resource.(type) {
	case ast.ScopeTypeIs:
		covers = func(t types.EntityType) bool { return t == scope.Type }
	case ast.ScopeTypeIsIn:
		covers = func(t types.EntityType) bool { return t == scope.Type }
	case ast.ScopeTypeEq:
		covers = func(t types.EntityType) bool { return t == scope.Entity.Type }
	case ast.ScopeTypeIn:
		if scope.Entity.Type == typeServer { // tools are in it
			return nil
		}
		covers = func(t types.EntityType) bool { return c.mayBeIn(t, scope.Entity.Type) }
	default:
		return nil
	}
	var tools []string
	for _, class := range c.classes {
		for _, ct := range class.contracts {
			if target, optional := ct.TargetType(); target != "" && optional && covers(target) {
				tools = append(tools, ct.ID())
			}
		}
	}
	if len(tools) == 0 {
		return nil
	}
	slices.Sort(tools)
	tools = slices.Compact(tools)
	return writ.Faults{c.located.fault(c.located.resource.variable, fmt.Sprintf(
		"this forbid lets calls without a target through in %d of %d tools (%s): their resource is the Tool itself. If that is meant, add @absent(\"allowed\"). "+
			"If not, write `resource` alone here and ask about it in the conditions, such as `unless { resource is Path && … }`, or require the argument",
		len(tools), len(c.allTools()), c.someTools(tools)))}
}

// mayBeIn reports whether entities of type t can be, or be in, one of type
// ancestor.
func (c *checker) mayBeIn(t, ancestor types.EntityType) bool {
	seen := map[types.EntityType]bool{}
	for open := []types.EntityType{t}; len(open) > 0; {
		at := open[0]
		if open = open[1:]; at == ancestor {
			return true
		}
		if !seen[at] {
			seen[at] = true
			open = append(open, c.in.schema.whole.Entities[at].ParentTypes...)
		}
	}
	return false
}
