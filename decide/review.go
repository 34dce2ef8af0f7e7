package decide

import (
	"cmp"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/canon"
)

// reviewDigest binds an approval to what the approver was shown: the
// proposal, the review policies, and every attribute and parent that the
// snapshot holds of the targets and of the other entities that arguments
// name. When any of it changes, the approval is stale.
//
// It is the digest of
//
//	{"entities":[{"attributes":…,"entity":…,"parents":[…],"tags":…},…],
//	 "policies":[{"id":…,"people":…},…],"proposal_digest":…,"type":"writ.review.v1"}
//
// with Cedar values as Cedar text.
func (c *call) reviewDigest() canon.Digest {
	var entities []any
	for i := range c.targets {
		entities = append(entities, c.shown(c.targets[i].Entity.UID))
	}
	for _, a := range c.projection.Entities {
		entities = append(entities, c.shown(a.UID))
	}
	var policies []any
	for _, v := range c.verdicts {
		for _, p := range v.reviews {
			policies = append(policies, map[string]any{"id": p.ID, "people": p.Review})
		}
	}
	return canon.Sum(canon.Append(nil, map[string]any{
		"type":            "writ.review.v1",
		"proposal_digest": c.decision.ProposalDigest.String(),
		"policies":        policies,
		"entities":        entities,
	}))
}

// shown is one entity as a review shows it.
func (c *call) shown(uid types.EntityUID) any {
	e, _ := c.view.Get(uid)
	parents := slices.SortedFunc(e.Parents.All(), func(a, b types.EntityUID) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID))
	})
	names := make([]string, len(parents))
	for i, p := range parents {
		names[i] = p.String()
	}
	return map[string]any{
		"entity": uid.String(), "attributes": string(e.Attributes.MarshalCedar()), "tags": string(e.Tags.MarshalCedar()), "parents": names,
	}
}
