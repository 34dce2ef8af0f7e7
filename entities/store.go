package entities

import (
	"hash/maphash"
	"iter"
	"slices"
	"time"

	"github.com/cedar-policy/cedar-go/types"
)

// Store holds the entities of one bundle. It never changes and is safe for
// concurrent use. A nil Store holds nothing.
//
// A store that was made from another shares with it all that didn't change,
// and doesn't keep it alive.
type Store struct {
	seed   maphash.Seed // of all hashes; a store made from another has its seed
	parts  []*part      // by slot; nil: the slot is free
	order  []int        // slots in order of the files
	kinds  map[types.EntityType]*kind
	groups groups
	count  int // entities
	// members is how many members all closures have together, at most: see
	// maxMembers.
	members int
}

// held returns an entity.
func (s *Store) held(r ref) *Held { return &s.parts[r.slot()].held[r.index()] }

// Get returns the entity as it is at now. Its Parents are its whole closure:
// everything that it is a member of, directly or not. ok is false if the
// store doesn't hold it or now is outside its window.
//
// Where no membership and no ancestor on the way up has a window, the closure
// was made once, by [Join], and Get allocates nothing. Otherwise it walks up.
func (s *Store) Get(uid types.EntityUID, now time.Time) (entity types.Entity, ok bool) {
	p, i := s.locate(uid)
	if p == nil {
		return types.Entity{}, false
	}
	h := &p.held[i]
	if p.windows && !h.Window.Contains(now) {
		return types.Entity{}, false
	}
	entity.UID, entity.Attributes, entity.Tags = h.UID, h.Attributes, h.Tags
	if l := p.list[i]; p.flags[l]&timed == 0 {
		entity.Parents = p.sets[l]
	} else {
		entity.Parents = s.closureAt(h, now)
	}
	return entity, true
}

// Changes reports whether anything begins or ends after one instant and not
// after another: whether Get may answer otherwise at to than at from.
func (s *Store) Changes(from, to time.Time) bool {
	if s == nil {
		return false
	}
	for _, p := range s.parts {
		if p == nil || len(p.instants) == 0 {
			continue
		}
		next, _ := slices.BinarySearchFunc(p.instants, from, func(t, from time.Time) int {
			if t.After(from) {
				return 1
			}
			return -1
		})
		if next < len(p.instants) && !p.instants[next].After(to) {
			return true
		}
	}
	return false
}

// closureAt walks up from an entity along what is valid at now.
func (s *Store) closureAt(h *Held, now time.Time) types.EntityUIDSet {
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
	todo := []*Held{h}
	for len(todo) > 0 {
		h := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, parent := range h.Parents {
			if !parent.Window.Contains(now) {
				continue
			}
			p, i := s.locate(parent.UID)
			if p != nil && !p.held[i].Window.Contains(now) {
				continue
			}
			if !add(parent.UID) || p == nil {
				continue
			}
			if l := p.list[i]; p.flags[l]&timed != 0 {
				todo = append(todo, &p.held[i])
			} else {
				for uid := range p.sets[l].All() {
					add(uid)
				}
			}
		}
	}
	return types.NewEntityUIDSet(reached...)
}

// locate returns the part of an entity and its index there, or nil.
func (s *Store) locate(uid types.EntityUID) (*part, int) {
	if s == nil {
		return nil, 0
	}
	k := s.kinds[uid.Type]
	if k == nil {
		return nil, 0
	}
	probe := k.probe(s.hashID(uid.ID))
	for r, more := probe.next(); more; r, more = probe.next() {
		if p, i := s.parts[r.slot()], r.index(); p.held[i].UID.ID == uid.ID {
			return p, i
		}
	}
	return nil, 0
}

// find returns the ref of an entity.
func (s *Store) find(uid types.EntityUID) (ref, bool) {
	k := s.kinds[uid.Type]
	if k == nil {
		return 0, false
	}
	probe := k.probe(s.hashID(uid.ID))
	for r, more := probe.next(); more; r, more = probe.next() {
		if s.held(r).UID.ID == uid.ID {
			return r, true
		}
	}
	return 0, false
}

// Has reports whether the store holds the entity, at whatever time.
func (s *Store) Has(uid types.EntityUID) bool {
	p, _ := s.locate(uid)
	return p != nil
}

// Lookup returns the entity as its file states it, at whatever time. It is
// shared: not to be changed.
func (s *Store) Lookup(uid types.EntityUID) (*Held, bool) {
	p, i := s.locate(uid)
	if p == nil {
		return nil, false
	}
	return &p.held[i], true
}

// Len returns how many entities the store holds, at whatever time.
func (s *Store) Len() int {
	if s == nil {
		return 0
	}
	return s.count
}

// All yields every entity as its file states it, in the order in which [Join]
// was given them. They are shared: not to be changed.
func (s *Store) All() iter.Seq[*Held] {
	return func(yield func(*Held) bool) {
		if s == nil {
			return
		}
		for _, slot := range s.order {
			p := s.parts[slot]
			for i := range p.held {
				if !yield(&p.held[i]) {
					return
				}
			}
		}
	}
}

// Within reports whether an entity is, at any time, a group or a member of it:
// whatever the windows say.
func (s *Store) Within(uid, group types.EntityUID) bool {
	if uid == group {
		return true
	}
	p, i := s.locate(uid)
	if p == nil {
		return false
	}
	n, ok := s.group(group)
	if !ok {
		return false
	}
	for _, direct := range p.parents(p.list[i]) {
		if _, above := slices.BinarySearch(s.groups.at(direct).above, n); above || direct == n {
			return true
		}
	}
	return false
}
