package revocation

import (
	"slices"
	"sort"
	"time"
)

// timeline says for one name which entry is in force when: of those whose
// window holds, the one that reaches furthest. Whatever any entry revokes at
// an instant, that one revokes too, so it alone decides.
type timeline struct {
	// widest is the entry that reaches furthest of all, whatever the windows:
	// the answer to those who have no clock.
	widest int32
	// spans are in order of time; before the first one nothing is in force.
	// Nil: widest is in force always.
	spans []span
}

// span begins at from and ends where the next begins.
type span struct {
	from  time.Time // zero: the beginning of time
	entry int32     // index in View.entries, or none
}

const none = -1

// at returns the entry in force at now, or none.
func (t *timeline) at(now time.Time) int32 {
	if t.spans == nil || now.IsZero() {
		return t.widest
	}
	after := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].from.After(now) })
	if after == 0 {
		return none
	}
	return t.spans[after-1].entry
}

// newTimeline computes the timeline of the standing entries of one name,
// which are indices in all, in the order of the log. There is at least one.
// It sweeps over the instants at which an entry begins or ends and keeps the
// entries in force in a heap: n entries cost n log n, whatever their windows.
func newTimeline(all []Entry, standing []int32) timeline {
	t := timeline{widest: standing[0]}
	windows := false
	for _, i := range standing {
		if wider(all, i, t.widest) {
			t.widest = i
		}
		windows = windows || !all[i].From.IsZero() || !all[i].Until.IsZero()
	}
	if w := &all[t.widest]; !windows || w.From.IsZero() && w.Until.IsZero() {
		return t // nothing ever reaches further
	}
	instants := make([]time.Time, 0, 2*len(standing))
	for _, i := range standing {
		instants = append(instants, all[i].From) // a zero From: the beginning of time
		if until := all[i].Until; !until.IsZero() {
			instants = append(instants, until)
		}
	}
	slices.SortFunc(instants, time.Time.Compare)
	instants = slices.CompactFunc(instants, time.Time.Equal)

	byFrom := slices.Clone(standing)
	slices.SortStableFunc(byFrom, func(a, b int32) int { return all[a].From.Compare(all[b].From) })
	force := inForce{all: all}
	for _, now := range instants {
		for len(byFrom) > 0 && !all[byFrom[0]].From.After(now) {
			force.push(byFrom[0])
			byFrom = byFrom[1:]
		}
		entry := force.widest(now)
		if n := len(t.spans); n == 0 || t.spans[n-1].entry != entry {
			t.spans = append(t.spans, span{now, entry})
		}
	}
	return t
}

// wider reports whether entry i is to decide before entry j: it reaches
// further, or as far and stands later in the log.
func wider(all []Entry, i, j int32) bool {
	a, b := &all[i], &all[j]
	if a.reaches(b) && b.reaches(a) {
		return i > j
	}
	return a.reaches(b)
}
