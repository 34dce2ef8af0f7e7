package bundle

import (
	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/entities"
)

// readEntities reads the entities of all files and joins them.
func (b *builder) readEntities() {
	ok := true
	for _, f := range b.layout.entities {
		held, faults := entities.Decode(f.Name, f.Data)
		b.faults = append(b.faults, faults...)
		ok = ok && len(faults.Errors()) == 0
		b.held = append(b.held, held...)
	}
	if !ok {
		return
	}
	store, faults := entities.New(b.held)
	b.faults = append(b.faults, faults...)
	b.store = store
}

// people are the entities of the bundle that some issuer could name.
func (b *builder) people() []types.EntityUID {
	var out []types.EntityUID
	for i := range b.held {
		for _, issuer := range b.issuers {
			if _, _, ok := issuer.Principal.Match(b.held[i].UID); ok {
				out = append(out, b.held[i].UID)
				break
			}
		}
	}
	return out
}

// always is what the bundle holds, with every window open: who could ever.
func (b *builder) always() types.EntityMap {
	out := make(types.EntityMap, len(b.held))
	for i := range b.held {
		out[b.held[i].UID] = entityOf(&b.held[i])
	}
	return out
}

// entityOf is the Cedar entity, with its direct parents.
func entityOf(h *entities.Held) types.Entity {
	parents := make([]types.EntityUID, len(h.Parents))
	for i, p := range h.Parents {
		parents[i] = p.UID
	}
	return types.Entity{UID: h.UID, Parents: types.NewEntityUIDSet(parents...), Attributes: h.Attributes, Tags: h.Tags}
}
