package entities

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
)

// New joins what [Decode] read from the files of a bundle, in the order of
// the files. It keeps held, which must not be changed afterwards.
//
// Errors, with which there is no store: an entity declared twice (placed at
// the second, naming the first), a cycle of memberships even if their windows
// never meet (placed at its first entity, naming the way round), more than
// [MaxAncestors] ancestors, closures that together would take gigabytes.
// Warnings, with which there is one: parents that nobody declares.
func New(held []Held) (*Store, writ.Faults) {
	s := &Store{held: held}
	faults := s.index()
	g := newGraph(s)
	faults = append(faults, g.cycles()...)
	if len(faults) == 0 {
		faults = s.close(g)
	}
	if len(faults) > 0 {
		return nil, limit(faults.Sort())
	}
	return s, limit(g.undeclared().Sort())
}

// index fills kinds and refuses entities declared twice.
func (s *Store) index() writ.Faults {
	var faults writ.Faults
	s.kinds = map[types.EntityType]*kind{}
	for i := range s.held {
		h := &s.held[i]
		k := s.kinds[h.UID.Type]
		if k == nil {
			k = &kind{index: map[types.String]int32{}}
			k.ids = sync.OnceValue(func() []string { return sortedIDs(k.index) })
			s.kinds[h.UID.Type] = k
		}
		first, twice := k.index[h.UID.ID]
		if !twice {
			k.index[h.UID.ID] = int32(i)
			continue
		}
		if len(faults) <= MaxFaults {
			f := &s.held[first]
			faults = append(faults, h.fault(writ.Error, "%s is declared twice, first at %s:%d:%d: keep one",
				showUID(h.UID), f.File, f.Line, f.Column))
		}
	}
	return faults
}

func sortedIDs(index map[types.String]int32) []string {
	ids := make([]string, 0, len(index))
	for id := range index {
		ids = append(ids, string(id))
	}
	slices.Sort(ids)
	return ids
}

// fault makes a fault at the entity's place.
func (h *Held) fault(severity writ.Severity, format string, args ...any) writ.Fault {
	return writ.Fault{
		File: h.File, Line: h.Line, Column: h.Column, Severity: severity, Message: fmt.Sprintf(format, args...),
	}
}

// limit cuts sorted faults after [MaxFaults] and says so.
func limit(faults writ.Faults) writ.Faults {
	if len(faults) <= MaxFaults {
		return faults
	}
	last := faults[MaxFaults]
	last.Field = ""
	last.Message = fmt.Sprintf("more than %d faults like these: mend them first, the rest is not listed", MaxFaults)
	return append(slices.Clip(faults[:MaxFaults]), last)
}

// maxComparisons bounds the search for what undeclared parents were meant to
// be: a bundle of a million users that declares no group must still load.
const maxComparisons = 1 << 20

// undeclared warns once of each parent that nobody declares.
func (g *graph) undeclared() writ.Faults {
	var faults writ.Faults
	budget := maxComparisons
	for _, u := range g.outside {
		if len(faults) > MaxFaults {
			break
		}
		near := ""
		if k := g.store.kinds[u.uid.Type]; k != nil && len(k.index) <= budget {
			budget -= len(k.index)
			near = nearest(string(u.uid.ID), func(yield func(string) bool) {
				maps.Keys(k.index)(func(id types.String) bool { return yield(string(id)) })
			})
		}
		child, others, remedy := &g.store.held[u.first], "", "declare it if it is meant"
		if u.members > 1 {
			others = fmt.Sprintf(" (as %d others are)", u.members-1)
			if u.members == 2 {
				others = " (as another is)"
			}
		}
		if near != "" {
			remedy = fmt.Sprintf("did you mean %s? If not, declare it", showUID(types.NewEntityUID(u.uid.Type, types.String(near))))
		}
		faults = append(faults, child.fault(writ.Warning, "%s is in %s%s, which no file declares: %s",
			showUID(child.UID), showUID(u.uid), others, remedy))
	}
	return faults
}
