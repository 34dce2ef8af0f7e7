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
	made  []types.Entity // few: found by walking
}

func (v *view) add(e types.Entity) { v.made = append(v.made, e) }

// Get returns the entity of uid. An absent entity has neither attributes nor
// parents.
func (v *view) Get(uid types.EntityUID) (types.Entity, bool) {
	for i := range v.made {
		if v.made[i].UID == uid {
			return v.made[i], true
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
