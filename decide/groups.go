package decide

import (
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/snapshot"
)

// What the groups of a token may be at most.
const (
	MaxGroups = 256  // groups of a token
	maxGroup  = 256  // bytes of one
	maxAbove  = 4096 // groups that they are and lie in, each counted apart
)

// joinGroups makes the principal a member of the groups that its token names,
// where the issuer's entry says which entities these are: beside what the
// snapshot holds of it. What lies above a group the snapshot says, where it is
// asked. A group outside of its validity window is no group, as everywhere.
func (c *call) joinGroups(t *writ.Token, issuer *snapshot.Issuer) failure {
	if t == nil || issuer.GroupsClaim == "" || len(t.Groups) == 0 {
		return passed
	}
	invalid := func(why string) failure { return failure{writ.CodeTokenInvalid, why, "token.groups"} }
	if len(t.Groups) > MaxGroups {
		return invalid(fmt.Sprintf("The token names more than %d groups.", MaxGroups))
	}
	held, _ := c.world.Entities.Get(c.principal, c.now)
	parents := slices.AppendSeq(make([]types.EntityUID, 0, held.Parents.Len()+len(t.Groups)), held.Parents.All())
	above := 0
	value := map[string]string{}
	for _, name := range t.Groups {
		if why := text(name, maxGroup); why != "" {
			return invalid("A group of the token can't be read. " + why)
		}
		value["group"] = name
		uid, err := issuer.Group.Entity("", value)
		if err != nil {
			return invalid("The issuer's template cannot name a group: " + err.Error() + ".")
		}
		group, valid := c.world.Entities.Get(uid, c.now)
		if !valid && c.world.Entities.Has(uid) {
			continue
		}
		parents = append(parents, uid)
		if above += 1 + group.Parents.Len(); above > maxAbove {
			return invalid(fmt.Sprintf("The token's groups lie in too many others: at most %d are looked at.", maxAbove))
		}
	}
	held.UID, held.Parents = c.principal, types.NewEntityUIDSet(parents...)
	c.member = &held
	return passed
}

// held returns what is known of an entity: what the snapshot holds, and of the
// principal its groups, too. ok says whether the snapshot holds it now.
func (c *call) held(uid types.EntityUID) (e types.Entity, ok bool) {
	e, ok = c.world.Entities.Get(uid, c.now)
	if c.member != nil && uid == c.principal {
		e = *c.member
	}
	return e, ok
}
