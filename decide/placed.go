package decide

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// A contract may say where a target lies by arguments: in {Group: "{team}"}.
// Where the target is somebody who acts or approves, or a group of theirs, that
// is the call's word of what it is about, and must not become their standing:
// who looks at herself in the team of bosses is no boss.

// ask puts a question to the policies. Where the call itself places one of the
// parties, a permit must also hold, and a forbid holds also, with the target
// alone where the call says. One entity can't lie in two places, so that is put
// together: nothing lies where the call says; the target does, as another entity
// than the party; and, to tell which of the two made a policy change, neither.
func (c *call) ask(q policy.Query) policy.Verdict {
	v := c.world.Policies.Judge(q)
	if !c.places(q.Principal) {
		return v
	}
	target := q.Resource
	standIn := types.NewEntityUID(q.Resource.Type, q.Resource.ID+standIn)
	judge := func(resource types.EntityUID, there bool) policy.Verdict {
		q.Resource, q.Entities = resource, &unplaced{call: c, target: target, standIn: standIn, there: there}
		return c.world.Policies.Judge(q)
	}
	itself, apart, neither := judge(target, false), judge(standIn, true), judge(standIn, false)
	return policy.Verdict{
		Permits:      common(v.Permits, together(itself.Permits, apart.Permits, neither.Permits)),
		Forbids:      union(v.Forbids, together(itself.Forbids, apart.Forbids, neither.Forbids)),
		Reviews:      union(v.Reviews, together(itself.Reviews, apart.Reviews, neither.Reviews)),
		ForbidErrors: slices.Concat(v.ForbidErrors, itself.ForbidErrors, apart.ForbidErrors, neither.ForbidErrors),
		PermitErrors: slices.Concat(v.PermitErrors, itself.PermitErrors, apart.PermitErrors, neither.PermitErrors),
	}
}

// together lists what holds of a target that is a party, and lies where the call
// says: what holds of both halves, and what holds of one and not without it.
func together(itself, apart, neither []*policy.Policy) []*policy.Policy {
	return slices.DeleteFunc(slices.Clone(union(itself, apart)), func(p *policy.Policy) bool {
		return slices.Contains(itself, p) != slices.Contains(apart, p) && slices.Contains(neither, p)
	})
}

// consider explains, policy by policy, what ask answers.
func (c *call) consider(q policy.Query) []policy.Considered {
	out := c.world.Policies.Consider(q)
	if !c.places(q.Principal) {
		return out
	}
	v := c.ask(q)
	apply := slices.Concat(v.Permits, v.Forbids, v.Reviews)
	for i := range out {
		switch x := &out[i]; {
		case slices.Contains(apply, x.Policy):
			x.Principal, x.Resource, x.Condition = true, true, true
		case x.Satisfied():
			x.Principal = false // who is not where the call says
		}
	}
	return out
}

// places reports whether the call places who, or anybody who acts.
func (c *call) places(who types.EntityUID) bool {
	return c.lifted || who != c.principal && !slices.Contains(c.actors, who) && c.touches(who)
}

// touches reports whether the call places an entity, or what that lies in by
// what the snapshot and the token say; or one that its attributes or tags name,
// since policies ask where that lies, too: principal.team in Group::"bosses".
func (c *call) touches(uid types.EntityUID) bool {
	if !slices.ContainsFunc(c.targets, placed) {
		return false
	}
	named := []types.EntityUID{uid}
	for n := 0; n < len(named); n++ {
		if n == maxNamed {
			return true // it is not known that it does not
		}
		e, _ := c.held(named[n])
		if c.placesIn(named[n], e.Parents) {
			return true
		}
		named = addNamed(addNamed(named, e.Attributes), e.Tags)
	}
	if c.member == nil || uid != c.principal {
		return false // the snapshot's parents are all that they lie in
	}
	e, _ := c.held(uid)
	for parent := range e.Parents.All() {
		if group, _ := c.world.Entities.Get(parent, c.now); c.placesIn(parent, group.Parents) {
			return true
		}
	}
	return false
}

// maxNamed is how many entities are looked at that one names.
const maxNamed = 64

// addNamed adds the entities that a value names, and that are not there yet.
func addNamed(named []types.EntityUID, v types.Value) []types.EntityUID {
	switch v := v.(type) {
	case types.EntityUID:
		if !slices.Contains(named, v) {
			named = append(named, v)
		}
	case types.Record:
		for _, member := range v.All() {
			named = addNamed(named, member)
		}
	case types.Set:
		for element := range v.All() {
			named = addNamed(named, element)
			if len(named) > maxNamed {
				return named
			}
		}
	}
	return named
}

// placesIn reports whether the call places an entity or one of its parents.
func (c *call) placesIn(uid types.EntityUID, parents types.EntityUIDSet) bool {
	return slices.ContainsFunc(c.targets, func(t contract.Target) bool {
		return placed(t) && (t.Entity.UID == uid || parents.Contains(t.Entity.UID))
	})
}

// puts reports whether the call places an entity itself.
func (c *call) puts(uid types.EntityUID) bool {
	if c.put == nil {
		c.put = make(map[types.EntityUID]bool, len(c.targets))
		for _, t := range c.targets {
			c.put[t.Entity.UID] = placed(t)
		}
	}
	return c.put[uid]
}

// placed reports whether a target lies somewhere by the call's word.
func placed(t contract.Target) bool { return !t.BuiltIn && t.Entity.Parents.Len() > 0 }

// unplaced is the view in which nothing lies where the call says. The target is
// in it a second time, there if need be. It implements types.EntityGetter.
type unplaced struct {
	*call
	target, standIn types.EntityUID
	there           bool
}

// standIn is what the id of the second one ends in: no id of a bundle, of an
// issuer or of a policy ends so.
const standIn = "\x00target"

func (u *unplaced) Get(uid types.EntityUID) (types.Entity, bool) {
	if uid == u.standIn {
		get := u.Get
		if u.there {
			get = u.view.Get
		}
		e, ok := get(u.target)
		e.UID = uid
		return e, ok
	}
	if !u.puts(uid) {
		return u.view.Get(uid)
	}
	e, ok := u.held(uid)
	return e, ok || u.member != nil && uid == u.principal
}

// common is the policies that are in both lists, in order.
func common(a, b []*policy.Policy) []*policy.Policy {
	return slices.DeleteFunc(slices.Clone(a), func(p *policy.Policy) bool { return !slices.Contains(b, p) })
}
