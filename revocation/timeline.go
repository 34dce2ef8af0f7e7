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
	// the answer to those who have no clock. None: nothing stands.
	widest int32
	// spans are in order of time; before the first one nothing is in force.
	// Nil: widest is in force always.
	spans []span
}

// span begins at from and ends where the next begins.
type span struct {
	from  time.Time // zero: the beginning of time
	entry int32     // index in View.log, or none
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
func newTimeline(all *chunks, standing []int32) timeline {
	t := timeline{widest: standing[0]}
	windows := false
	for _, i := range standing {
		if wider(all, i, t.widest) {
			t.widest = i
		}
		windows = windows || all.at(i).windowed()
	}
	if !windows || !all.at(t.widest).windowed() {
		return t // nothing ever reaches further
	}
	instants := make([]time.Time, 0, 2*len(standing))
	for _, i := range standing {
		instants = append(instants, all.at(i).From) // a zero From: the beginning of time
		if until := all.at(i).Until; !until.IsZero() {
			instants = append(instants, until)
		}
	}
	slices.SortFunc(instants, time.Time.Compare)
	instants = slices.CompactFunc(instants, time.Time.Equal)

	byFrom := slices.Clone(standing)
	slices.SortStableFunc(byFrom, func(a, b int32) int { return all.at(a).From.Compare(all.at(b).From) })
	force := inForce{all: all}
	for _, now := range instants {
		for len(byFrom) > 0 && !all.at(byFrom[0]).From.After(now) {
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
func wider(all *chunks, i, j int32) bool {
	a, b := all.at(i), all.at(j)
	if a.reaches(b) && b.reaches(a) {
		return i > j
	}
	return a.reaches(b)
}

// windowed reports whether the entry is in force only at times.
func (a *Entry) windowed() bool { return !a.From.IsZero() || !a.Until.IsZero() }

// with returns the timeline of what stands and of entry i, which comes after
// all of it in the log. It costs as much as there are spans. t stays as it is.
func (t timeline) with(all *chunks, i int32) timeline {
	e := all.at(i)
	if t.widest == none {
		return newTimeline(all, []int32{i})
	}
	out := timeline{widest: t.widest}
	if wider(all, i, t.widest) {
		out.widest = i
	}
	if !all.at(out.widest).windowed() {
		return out // nothing ever reaches further
	}
	spans := t.spans
	if spans == nil {
		spans = []span{{entry: t.widest}}
	} else if !spans[0].from.IsZero() {
		spans = slices.Insert(slices.Clone(spans), 0, span{entry: none})
	}
	out.spans = make([]span, 0, len(spans)+2)
	emit := func(from time.Time, entry int32) {
		if n := len(out.spans); n > 0 && out.spans[n-1].entry == entry || n == 0 && entry == none {
			return
		}
		out.spans = append(out.spans, span{from, entry})
	}
	for k, s := range spans {
		within := func(at time.Time) bool { return k == len(spans)-1 || at.Before(spans[k+1].from) }
		if s.from.Before(e.From) {
			emit(s.from, s.entry)
		}
		// The zero time comes before every other, so an open From begins here.
		begin := latest(s.from, e.From)
		if within(begin) && (e.Until.IsZero() || begin.Before(e.Until)) {
			entry := s.entry
			if entry == none || wider(all, i, entry) {
				entry = i
			}
			emit(begin, entry)
		}
		if end := latest(s.from, e.Until); !e.Until.IsZero() && within(end) {
			emit(end, s.entry)
		}
	}
	return out
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
