package entities

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
)

// New joins entities that aren't parted into files: see [Join].
func New(held []Held) (*Store, writ.Faults) { return Join([][]Held{held}, nil) }

// Join joins what [Decode] read from the files of a bundle, in the order of
// the files. It keeps what it is given, which must not be changed afterwards.
//
// Of a previous store it takes over what is the same: a file that is the very
// slice that the previous store was made of is not looked at again, and costs
// nothing. Store and faults are those that there would be without it; it stays
// as it is, and the new store doesn't keep it alive. It may be nil.
//
// Errors, with which there is no store: an entity declared twice (placed at
// the second, naming the first), a cycle of memberships even if their windows
// never meet (placed at its first entity, naming the way round), more than
// [MaxAncestors] ancestors, closures that together would take gigabytes.
// Warnings, with which there is one: parents that nobody declares.
func Join(files [][]Held, previous *Store) (*Store, writ.Faults) {
	var s *Store
	if previous != nil {
		s = extend(previous, files)
	}
	if s == nil {
		s = extend(&Store{seed: maphash.MakeSeed()}, files)
	}
	if s == nil {
		return nil, limit(report(files).Sort())
	}
	return s, limit(s.undeclared().Sort())
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

// outside is a parent that nobody declares.
type outside struct {
	uid     types.EntityUID
	first   *Held // the first entity that names it
	members int   // how often it is named
}

// outsides lists the parents that nobody declares, in the order in which they
// are first named.
func (s *Store) outsides() []outside {
	numbers := map[int32]int{} // group -> 1 + index in out
	for n := range int32(s.groups.n) {
		if g := s.groups.at(n); g.mentions > 0 && g.entity == 0 {
			numbers[n] = 0
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	var out []outside
	for _, slot := range s.order {
		p := s.parts[slot]
		touched := make([]bool, p.lists())
		for l := range touched {
			touched[l] = slices.ContainsFunc(p.parents(int32(l)), func(g int32) bool { _, ok := numbers[g]; return ok })
		}
		if !slices.Contains(touched, true) {
			continue
		}
		for i := range p.held {
			if !touched[p.list[i]] {
				continue
			}
			for _, parent := range p.held[i].Parents {
				g, _ := s.group(parent.UID)
				at, ok := numbers[g]
				if !ok {
					continue
				}
				if at == 0 {
					out = append(out, outside{uid: parent.UID, first: &p.held[i]})
					at = len(out)
					numbers[g] = at
				}
				out[at-1].members++
			}
		}
	}
	return out
}

// maxComparisons bounds the search for what undeclared parents were meant to
// be: a bundle of a million users that declares no group must still load.
const maxComparisons = 1 << 20

// undeclared warns once of each parent that nobody declares.
func (s *Store) undeclared() writ.Faults {
	var faults writ.Faults
	budget := maxComparisons
	for _, u := range s.outsides() {
		if len(faults) > MaxFaults {
			break
		}
		near := ""
		if k := s.kinds[u.uid.Type]; k != nil && k.count <= budget {
			budget -= k.count
			near = nearest(string(u.uid.ID), s.idsOf(k))
		}
		others, remedy := "", "declare it if it is meant"
		if u.members > 1 {
			others = fmt.Sprintf(" (as %d others are)", u.members-1)
			if u.members == 2 {
				others = " (as another is)"
			}
		}
		if near != "" {
			remedy = fmt.Sprintf("did you mean %s? If not, declare it", showUID(types.NewEntityUID(u.uid.Type, types.String(near))))
		}
		faults = append(faults, u.first.fault(writ.Warning, "%s is in %s%s, which no file declares: %s",
			showUID(u.first.UID), showUID(u.uid), others, remedy))
	}
	return faults
}
