package entities

import (
	"slices"

	"github.com/writ-pdp/writ"
)

// report says what is wrong with entities of which there can be no store.
func report(files [][]Held) writ.Faults {
	g := newGraph(files)
	faults := append(g.repeated(), g.cycles()...)
	if len(faults) == 0 {
		faults = g.tooMany()
	}
	if len(faults) == 0 { // nothing that is known here: refuse them all the same
		faults = writ.Faults{{Message: "the entities of the bundle can't be joined"}}
	}
	return faults
}

// repeated reports the entities that are declared twice.
func (g *graph) repeated() writ.Faults {
	var faults writ.Faults
	for i, h := range g.held {
		first := g.held[g.numbers[h.UID]]
		if int(g.numbers[h.UID]) != i && len(faults) <= MaxFaults {
			faults = append(faults, h.fault(writ.Error, "%s is declared twice, first at %s:%d:%d: keep one",
				showUID(h.UID), first.File, first.Line, first.Column))
		}
	}
	return faults
}

// tooMany reports the entities with too many ancestors, but not those that
// have them by an entity that is reported; or that all have too many together.
// There are no cycles.
func (g *graph) tooMany() writ.Faults {
	var faults writ.Faults
	total := 0
	lists := map[string][]int32{} // closures, by direct parents
	list := make([][]int32, len(g.held))
	for _, i := range g.order {
		direct := slices.Clone(g.parents(i))
		slices.Sort(direct)
		direct = slices.Compact(direct)
		key := string(appendKey(nil, direct))
		closure, known := lists[key]
		if !known {
			closure = slices.Clone(direct)
			for _, p := range direct {
				if int(p) < len(list) {
					closure = append(closure, list[p]...)
				}
			}
			slices.Sort(closure)
			closure = slices.Clip(slices.Compact(closure))
		}
		h := g.held[i]
		if len(closure) > MaxAncestors {
			if len(faults) <= MaxFaults {
				faults = append(faults, h.fault(writ.Error, "%s is in more than %d groups and groups of groups: make the nesting shallower",
					showUID(h.UID), MaxAncestors))
			}
			continue
		}
		list[i] = closure
		if !known {
			lists[key] = closure
			total += len(closure)
		}
		if total > maxMembers {
			return append(faults, h.fault(writ.Error,
				"the memberships up to here reach %d ancestors in all, more than %d: use fewer levels of groups, or more entities with the same parents", total, maxMembers))
		}
	}
	return faults
}
