package decide

import (
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/snapshot"
)

// view is what policies of one call see of the world: the snapshot's entities
// at one instant, and those that the call's own arguments made. It implements
// types.EntityGetter.
type view struct {
	world *snapshot.Snapshot
	now   time.Time
	made  []types.Entity // the first of an id counts
	// index finds made by id, once there are too many to walk.
	index map[types.EntityUID]int
}

// walkable is how many entities are found as fast by walking.
const walkable = 16

func (v *view) add(e types.Entity) {
	v.made = append(v.made, e)
	switch n := len(v.made); {
	case n == walkable+1:
		v.index = make(map[types.EntityUID]int, 4*walkable)
		for i := n - 1; i >= 0; i-- {
			v.index[v.made[i].UID] = i
		}
	case n > walkable:
		if _, ok := v.index[e.UID]; !ok {
			v.index[e.UID] = n - 1
		}
	}
}

// Get returns the entity of uid. An absent entity has neither attributes nor
// parents.
func (v *view) Get(uid types.EntityUID) (types.Entity, bool) {
	if v.index != nil {
		if i, ok := v.index[uid]; ok {
			return v.made[i], true
		}
	} else {
		for i := range v.made {
			if v.made[i].UID == uid {
				return v.made[i], true
			}
		}
	}
	if e, ok := v.world.Policies.Static(uid); ok {
		return e, true
	}
	return v.world.Entities.Get(uid, v.now)
}

// entityText is uid as Cedar writes it, User::"ana": what UID.String gives,
// without its cost where nothing needs escaping.
func entityText(uid types.EntityUID) string {
	for i := 0; i < len(uid.ID); i++ {
		if b := uid.ID[i]; b < 0x20 || b >= 0x7f || b == '"' || b == '\'' || b == '\\' {
			return uid.String()
		}
	}
	return string(uid.Type) + `::"` + string(uid.ID) + `"`
}
