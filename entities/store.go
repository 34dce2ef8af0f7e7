package entities

import (
	"iter"
	"time"

	"github.com/cedar-policy/cedar-go/types"
)

// Store holds the entities of one bundle. It never changes and is safe for
// concurrent use. A nil Store holds nothing.
type Store struct {
	held  []Held
	kinds map[types.EntityType]*kind

	// closure[i] is the index in closures of everything that held[i] is a
	// member of, or timed if that depends on the instant. Entities with the
	// same parents share one closure.
	closure  []int32
	closures []types.EntityUIDSet
}

// timed marks an entity with a window somewhere on its way up.
const timed = -1

// kind holds the entities of one type.
type kind struct {
	index map[types.String]int32 // into held
	ids   func() []string        // sorted; made when first asked for
}

// Get returns the entity as it is at now. Its Parents are its whole closure:
// everything that it is a member of, directly or not. ok is false if the
// store doesn't hold it or now is outside its window.
//
// Where no membership and no ancestor on the way up has a window, the closure
// was made once, by [New], and Get allocates nothing. Otherwise it walks up.
func (s *Store) Get(uid types.EntityUID, now time.Time) (entity types.Entity, ok bool) {
	i, ok := s.find(uid)
	if !ok {
		return types.Entity{}, false
	}
	h := &s.held[i]
	if !h.Window.Contains(now) {
		return types.Entity{}, false
	}
	entity = types.Entity{UID: h.UID, Attributes: h.Attributes, Tags: h.Tags}
	if c := s.closure[i]; c != timed {
		entity.Parents = s.closures[c]
	} else {
		entity.Parents = s.closureAt(i, now)
	}
	return entity, true
}

// closureAt walks up from entity i along what is valid at now.
func (s *Store) closureAt(i int32, now time.Time) types.EntityUIDSet {
	seen := map[types.EntityUID]struct{}{}
	var reached []types.EntityUID
	add := func(uid types.EntityUID) bool {
		if _, ok := seen[uid]; ok {
			return false
		}
		seen[uid] = struct{}{}
		reached = append(reached, uid)
		return true
	}
	todo := []int32{i}
	for len(todo) > 0 {
		h := &s.held[todo[len(todo)-1]]
		todo = todo[:len(todo)-1]
		for _, p := range h.Parents {
			if !p.Window.Contains(now) {
				continue
			}
			j, held := s.find(p.UID)
			if held && !s.held[j].Window.Contains(now) {
				continue
			}
			if !add(p.UID) || !held {
				continue
			}
			if c := s.closure[j]; c == timed {
				todo = append(todo, j)
			} else {
				for uid := range s.closures[c].All() {
					add(uid)
				}
			}
		}
	}
	return types.NewEntityUIDSet(reached...)
}

func (s *Store) find(uid types.EntityUID) (int32, bool) {
	if s == nil {
		return 0, false
	}
	k := s.kinds[uid.Type]
	if k == nil {
		return 0, false
	}
	i, ok := k.index[uid.ID]
	return i, ok
}

// Has reports whether the store holds the entity, at whatever time.
func (s *Store) Has(uid types.EntityUID) bool {
	_, ok := s.find(uid)
	return ok
}

// IDs returns the ids of all entities of a type, sorted bytewise, to suggest
// what a mistyped one was meant to be. The slice is shared: not to be changed.
func (s *Store) IDs(t types.EntityType) []string {
	if s == nil || s.kinds[t] == nil {
		return nil
	}
	return s.kinds[t].ids()
}

// Len returns how many entities the store holds, at whatever time.
func (s *Store) Len() int {
	if s == nil {
		return 0
	}
	return len(s.held)
}

// All yields every entity as its file states it, in the order in which [New]
// was given them. They are shared: not to be changed.
func (s *Store) All() iter.Seq[*Held] {
	return func(yield func(*Held) bool) {
		if s == nil {
			return
		}
		for i := range s.held {
			if !yield(&s.held[i]) {
				return
			}
		}
	}
}
