package entities

import (
	"slices"
	"sync"

	"github.com/cedar-policy/cedar-go/types"
)

// kind holds the entities of one type. It never changes.
type kind struct {
	table
	ids *idList
}

// idList is the sorted ids of one type, made when somebody first asks. A
// million take a second to sort, so that the list of a store is made of the
// one before where that was made.
type idList struct {
	mu     sync.Mutex
	made   bool     // guarded by mu, like what follows
	sorted []string // once made

	// What sorted is made of: the ids before, if their list was there.
	base           []string
	removed, added []string // sorted
}

// list returns the ids; all yields them in any order.
func (l *idList) list(all func(yield func(string) bool), count int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made {
		return l.sorted
	}
	if l.base != nil {
		l.sorted = merged(l.base, l.removed, l.added)
	} else {
		l.sorted = make([]string, 0, count)
		for id := range all {
			l.sorted = append(l.sorted, id)
		}
		slices.Sort(l.sorted)
	}
	l.made, l.base, l.removed, l.added = true, nil, nil, nil
	return l.sorted
}

// next returns the list of ids after a change. What only moved is in both.
func (l *idList) next(removed, added []string) *idList {
	slices.Sort(removed)
	slices.Sort(added)
	removed, added = without(removed, added), without(added, removed)
	if len(removed)+len(added) == 0 {
		return l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.made {
		return &idList{}
	}
	return &idList{base: l.sorted, removed: removed, added: added}
}

// without returns what of one sorted list is not in another.
func without(list, other []string) []string {
	var out []string
	for _, s := range list {
		if _, there := slices.BinarySearch(other, s); !there {
			out = append(out, s)
		}
	}
	return out
}

// merged returns base without removed and with added; all are sorted.
func merged(base, removed, added []string) []string {
	out := make([]string, 0, len(base)+len(added)-len(removed))
	for _, s := range base {
		for len(added) > 0 && added[0] < s {
			out, added = append(out, added[0]), added[1:]
		}
		if len(removed) > 0 && removed[0] == s {
			removed = removed[1:]
			continue
		}
		out = append(out, s)
	}
	return append(out, added...)
}

// IDs returns the ids of all entities of a type, sorted bytewise, to suggest
// what a mistyped one was meant to be. The slice is shared: not to be changed.
func (s *Store) IDs(t types.EntityType) []string {
	if s == nil || s.kinds[t] == nil {
		return nil
	}
	k := s.kinds[t]
	return k.ids.list(s.idsOf(k), k.count)
}

// idsOf yields the ids of a kind, in no order.
func (s *Store) idsOf(k *kind) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for r := range k.all {
			if !yield(string(s.held(r).UID.ID)) {
				return
			}
		}
	}
}
