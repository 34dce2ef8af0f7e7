package decide

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

// checkTarget settles what the call is about. Everything that an argument
// names must be held by the snapshot, unless the contract says that it may be
// new.
func (c *call) checkTarget() failure {
	if c.outOfBound != nil {
		return argument(c.outOfBound)
	}
	c.view = view{world: c.world, now: c.now}
	for _, e := range c.projection.Made {
		c.view.add(e)
	}
	for _, a := range c.projection.Entities {
		e, held := c.view.Get(a.UID)
		switch {
		case held && (a.BoundTo == "" || c.owns(e, a.BoundTo)):
		case held || !a.MayBeNew || c.world.Entities.Has(a.UID):
			// Of what is somebody else's this says what it says of nothing.
			return failure{writ.CodeTargetUnknown, "The bundle holds no such " + string(a.UID.Type) + ".", a.Pointer}
		default:
			c.unknown = append(c.unknown, a.Pointer)
		}
	}
	if f := c.findTargets(); f.code != "" {
		return f
	}
	c.lifted = c.touches(c.principal) || slices.ContainsFunc(c.actors, c.touches)
	if c.member != nil {
		c.view.add(*c.member) // last: a target that is the principal has its groups, too
	}
	return passed
}

// owns reports whether an attribute of e names the principal: it is the
// principal's entity, or a set that holds it.
func (c *call) owns(e types.Entity, attribute types.String) bool {
	v, _ := e.Attributes.Get(attribute)
	switch owner := v.(type) {
	case types.EntityUID:
		return owner == c.principal
	case types.Set:
		return owner.Contains(c.principal)
	}
	return false
}

// findTargets looks up what the call is about.
func (c *call) findTargets() failure {
	if len(c.targets) == 0 {
		c.targets = []contract.Target{{Entity: types.Entity{UID: c.tool()}, BuiltIn: true}}
		c.decision.Resources = []string{entityText(c.tool())}
		return passed
	}
	c.decision.Resources = make([]string, len(c.targets))
	for i := range c.targets {
		t := &c.targets[i]
		c.decision.Resources[i] = entityText(t.Entity.UID)
		if t.BuiltIn {
			c.view.add(t.Entity)
			continue
		}
		held, ok := c.held(t.Entity.UID)
		if !ok {
			if !t.MayBeNew || c.world.Entities.Has(t.Entity.UID) { // held, but not valid now
				return failure{writ.CodeTargetUnknown, "The bundle holds no such " + string(t.Entity.UID.Type) + ".", t.Pointer}
			}
			c.unknown = append(c.unknown, t.Pointer)
		}
		if t.Entity.Parents.Len() > 0 {
			c.view.add(c.adopt(held, t.Entity))
		}
	}
	return passed
}

// tool is the Cedar entity of the tool itself: the resource of a call that
// has no target.
func (c *call) tool() types.EntityUID {
	return types.NewEntityUID("Tool", types.String(c.contract.ID()))
}

// adopt gives a target the parents that its contract derives from the
// arguments, with everything above them, beside what the snapshot holds.
func (c *call) adopt(held, target types.Entity) types.Entity {
	var all []types.EntityUID
	for p := range held.Parents.All() {
		all = append(all, p)
	}
	for p := range target.Parents.All() {
		all = append(all, p)
		if e, ok := c.world.Entities.Get(p, c.now); ok {
			for up := range e.Parents.All() {
				all = append(all, up)
			}
		}
	}
	held.UID = target.UID
	held.Parents = types.NewEntityUIDSet(all...)
	return held
}
