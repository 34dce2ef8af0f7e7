package bundle

import (
	"maps"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/snapshot"
)

// entitle works out what the callers may do, and puts it into the world. The
// callers that callers.yaml describes may vouch for what it says; those of the
// world, for what the policies leave of that.
func (b *builder) entitle(world *snapshot.Snapshot) {
	var before *snapshot.Rights
	if b.before != nil {
		before = b.before.rights
	}
	b.rights = snapshot.NewRights(b.policies, b.callers, b.redeemers(), before)
	world.Rights = b.rights
	changed := map[*writ.Caller]*writ.Caller{}
	if b.rights == before && b.sameCallers {
		changed = b.before.reduced
	} else {
		for name, c := range b.callers {
			if vouches := b.rights.Vouches(name); !sameKinds(c.Vouches, vouches) {
				now := *c
				now.Vouches = vouches
				changed[c] = &now
			}
		}
	}
	b.reduced = changed
	if len(changed) == 0 {
		return
	}
	world.Callers = replaced(world.Callers, changed)
	world.Identities = replaced(world.Identities, changed)
	if now := changed[world.LocalHost]; now != nil {
		world.LocalHost = now
	}
	if now := changed[world.LocalServer]; now != nil {
		world.LocalServer = now
	}
	if now := changed[world.LocalOperator]; now != nil {
		world.LocalOperator = now
	}
}

// replaced is a map of callers with others in the place of some.
func replaced[K comparable](of map[K]*writ.Caller, by map[*writ.Caller]*writ.Caller) map[K]*writ.Caller {
	out := maps.Clone(of)
	for k, c := range out {
		if now := by[c]; now != nil {
			out[k] = now
		}
	}
	return out
}

func sameKinds(a, b []writ.SourceKind) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(k writ.SourceKind) bool { return !slices.Contains(b, k) })
}

// holdings are the entities that policies may name: those of the bundle, and
// its callers.
type holdings struct {
	policy.EntitySet
	callers map[string]*writ.Caller
}

// holdings returns what the bundle holds. Where callers.yaml could not be read
// nobody knows which callers there are.
func (b *builder) holdings() policy.EntitySet {
	if !b.callersRead {
		return b.store
	}
	return holdings{b.store, b.callers}
}

func (h holdings) Has(uid types.EntityUID) bool {
	if uid.Type == policy.CallerType {
		return h.callers[string(uid.ID)] != nil
	}
	return h.EntitySet.Has(uid)
}

func (h holdings) IDs(t types.EntityType) []string {
	if t == policy.CallerType {
		return keys(h.callers)
	}
	return h.EntitySet.IDs(t)
}
