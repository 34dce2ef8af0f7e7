package bundle

import (
	"iter"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/entities"
	"github.com/writ-pdp/writ/policy"
)

// readEntities reads the entities of all files and joins them.
func (b *builder) readEntities() {
	ok := true
	parts := make([][]entities.Held, 0, len(b.layout.entities))
	for _, f := range b.layout.entities {
		m := b.files[f.Name]
		if m.held == nil {
			data, err := f.Content()
			if err != nil {
				b.fault(f.Name, 0, 0, "the file can't be read: "+err.Error())
				ok = false
				continue
			}
			held, faults := entities.Decode(f.Name, data)
			b.faults = append(b.faults, faults...)
			ok = ok && len(faults.Errors()) == 0
			m.held = held
		}
		parts = append(parts, m.held)
	}
	if !ok {
		return
	}
	var before *entities.Store
	if b.before != nil {
		before = b.before.store
	}
	store, faults := entities.Join(parts, before)
	b.faults = append(b.faults, faults...)
	b.store = store
}

// checkReviews warns of reviews that too few could lift.
func (b *builder) checkReviews() {
	people := policy.People{
		All:   b.people(),
		Among: func(uid types.EntityUID) bool { return b.store.Has(uid) && b.isPerson(uid) },
		In:    b.store.Within,
	}
	var likely []types.EntityUID
	if b.before != nil {
		likely = b.before.likely
	}
	var faults writ.Faults
	faults, b.likely = b.policies.UnliftedReviews(people, likely)
	b.faults = append(b.faults, faults...)
}

// people are the entities of the bundle that some issuer could name.
func (b *builder) people() iter.Seq[types.EntityUID] {
	return func(yield func(types.EntityUID) bool) {
		for h := range b.store.All() {
			if b.isPerson(h.UID) && !yield(h.UID) {
				return
			}
		}
	}
}

func (b *builder) isPerson(uid types.EntityUID) bool {
	for _, issuer := range b.issuers {
		if _, _, ok := issuer.Principal.Match(uid); ok {
			return true
		}
	}
	return false
}

// entityOf is the Cedar entity, with its direct parents.
func entityOf(h *entities.Held) types.Entity {
	parents := make([]types.EntityUID, len(h.Parents))
	for i, p := range h.Parents {
		parents[i] = p.UID
	}
	return types.Entity{UID: h.UID, Parents: types.NewEntityUIDSet(parents...), Attributes: h.Attributes, Tags: h.Tags}
}
