package entities

import (
	"maps"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
)

// join makes a store from the one before.
type join struct {
	before  *Store
	s       *Store
	groups  *groupEdit
	removed []int // slots of parts that are gone
	fresh   []int // slots of parts that are new

	stale []int32            // groups whose closure must be found again
	dirty map[int32]bool     // groups whose closure, or whose timing, differs
	made  map[string]closure // by the groups of a list
	key   []byte             // to look into made with
}

// closure is what a list's entities are members of.
type closure struct {
	above   []int32            // the groups; nil where they aren't kept
	set     types.EntityUIDSet // the same as Cedar's set, if made
	settled bool               // set is made
}

// extend makes the store of some files from the one before, and looks at
// nothing that it has of them but at what may differ. It returns nil if
// anything is wrong; what that is, [report] finds out.
func extend(before *Store, files [][]Held) *Store {
	j := &join{before: before, s: &Store{
		seed: before.seed, parts: slices.Clone(before.parts), kinds: before.kinds, groups: before.groups, members: before.members,
	}}
	j.place(files)
	if len(j.fresh)+len(j.removed) == 0 {
		if slices.Equal(j.s.order, before.order) {
			return before
		}
		return j.s
	}
	j.groups = editGroups(before)
	if !j.index() || !j.regroup() || !j.closeGroups() {
		return nil
	}
	j.s.groups.vector, j.s.groups.free = j.groups.vector, slices.Clip(j.groups.free)
	if !j.closeLists() {
		return nil
	}
	return j.s
}

// place finds the files that the store before has, and gives the others
// slots: a file's new content that of its old one, so that most of its
// entities keep their refs.
func (j *join) place(files [][]Held) {
	known := make(map[*Held]int, len(j.before.parts))
	for slot, p := range j.before.parts {
		if p != nil {
			known[&p.held[0]] = slot
		}
	}
	kept := make([]bool, len(j.before.parts))
	slots := make([]int, len(files))
	for i, held := range files {
		slots[i] = -1
		if len(held) == 0 {
			continue
		}
		if slot, ok := known[&held[0]]; ok && !kept[slot] && len(j.before.parts[slot].held) == len(held) {
			slots[i], kept[slot] = slot, true
		}
	}
	gone := map[string]int{}
	var free []int
	for slot, p := range j.before.parts {
		switch {
		case p == nil:
			free = append(free, slot)
		case !kept[slot]:
			j.removed = append(j.removed, slot)
			j.s.parts[slot] = nil
			if _, twice := gone[p.held[0].File]; twice {
				free = append(free, slot)
			} else {
				gone[p.held[0].File] = slot
			}
		}
	}
	for i, held := range files {
		if len(held) == 0 || slots[i] >= 0 {
			continue
		}
		if slot, ok := gone[held[0].File]; ok {
			delete(gone, held[0].File)
			slots[i] = slot
		}
	}
	for _, slot := range gone {
		free = append(free, slot)
	}
	slices.Sort(free)
	for i, held := range files {
		if len(held) == 0 {
			continue
		}
		if slots[i] < 0 {
			if len(free) == 0 {
				free = append(free, len(j.s.parts))
				j.s.parts = append(j.s.parts, nil)
			}
			slots[i], free = free[0], free[1:]
		}
		slot := slots[i]
		j.s.order = append(j.s.order, slot)
		j.s.count += len(held)
		if j.s.parts[slot] == nil {
			j.s.parts[slot] = &part{held: held}
			j.fresh = append(j.fresh, slot)
		}
	}
}

// kindEdit is what changes of one kind.
type kindEdit struct {
	tableEdit
	gone, come []string // ids
}

// index makes the kinds. It returns false if an entity is declared twice.
func (j *join) index() bool {
	edits := map[types.EntityType]*kindEdit{}
	of := func(t types.EntityType) *kindEdit {
		if edits[t] == nil {
			edits[t] = &kindEdit{}
		}
		return edits[t]
	}
	for _, slot := range j.removed {
		for i := range j.before.parts[slot].held {
			if uid := j.before.parts[slot].held[i].UID; !j.stays(slot, i) {
				e := of(uid.Type)
				e.removed = append(e.removed, entry{j.s.hashID(uid.ID), refOf(slot, i)})
				e.gone = append(e.gone, string(uid.ID))
			}
		}
	}
	for _, slot := range j.fresh {
		for i := range j.s.parts[slot].held {
			if uid := j.s.parts[slot].held[i].UID; !j.stays(slot, i) {
				e := of(uid.Type)
				e.added = append(e.added, entry{j.s.hashID(uid.ID), refOf(slot, i)})
				e.come = append(e.come, string(uid.ID))
			}
		}
	}
	j.s.kinds = maps.Clone(j.before.kinds)
	if j.s.kinds == nil {
		j.s.kinds = make(map[types.EntityType]*kind, len(edits))
	}
	for t, e := range edits {
		old := j.s.kinds[t]
		if old == nil {
			old = &kind{ids: &idList{}}
		}
		e.hash = func(r ref) uint64 { return j.s.hashID(j.s.held(r).UID.ID) }
		e.same = func(a, b ref) bool { return j.s.held(a).UID.ID == j.s.held(b).UID.ID }
		made, ok := old.with(e.tableEdit)
		if !ok {
			return false
		}
		if made.count == 0 {
			delete(j.s.kinds, t)
			continue
		}
		j.s.kinds[t] = &kind{made, old.ids.next(e.gone, e.come)}
	}
	return true
}

// stays reports whether a ref names the same entity as before.
func (j *join) stays(slot, i int) bool {
	if slot >= len(j.before.parts) || j.before.parts[slot] == nil || j.s.parts[slot] == nil {
		return false
	}
	a, b := j.before.parts[slot].held, j.s.parts[slot].held
	return i < len(a) && i < len(b) && a[i].UID == b[i].UID
}

// regroup makes the lists of fresh parts, and finds the groups that are stale:
// those that are new, or all where what one of them is in differs.
func (j *join) regroup() bool {
	for _, slot := range j.fresh {
		p := newPart(j.s.parts[slot].held, j.groups.number)
		j.s.parts[slot] = p
		j.groups.mention(p, 1)
	}
	for _, slot := range j.removed {
		j.groups.mention(j.before.parts[slot], -1)
	}
	for _, slot := range j.removed {
		j.groups.drop(j.before.parts[slot])
	}
	var ok bool
	if j.s.groups.index, ok = j.groups.table(); !ok {
		return false
	}
	for _, n := range j.groups.numbered {
		g := j.groups.change(n)
		g.entity, _ = j.s.find(g.uid)
	}
	j.stale = j.groups.numbered
	changed := false
	for _, slot := range j.removed {
		for i := range j.before.parts[slot].held {
			changed = j.replaced(j.before.parts[slot].held[i].UID) || changed
		}
	}
	for _, slot := range j.fresh {
		for i := range j.s.parts[slot].held {
			changed = j.replaced(j.s.parts[slot].held[i].UID) || changed
		}
	}
	if changed {
		j.stale = make([]int32, 0, j.groups.n)
		for n := range int32(j.groups.n) {
			if j.groups.at(n).mentions > 0 {
				j.stale = append(j.stale, n)
			}
		}
	}
	return true
}

// replaced finds the entity of a group that was there before, if uid is one,
// and reports whether its memberships or its window differ from before.
func (j *join) replaced(uid types.EntityUID) bool {
	n, ok := j.before.group(uid)
	if !ok || j.groups.at(n).uid != uid {
		return false
	}
	was := j.before.groups.at(n).entity
	now, _ := j.s.find(uid)
	if j.groups.at(n).entity != now {
		j.groups.change(n).entity = now
	}
	if was == 0 || now == 0 {
		return was != now
	}
	a, b := j.before.held(was), j.s.held(now)
	return a.Window != b.Window || !slices.Equal(a.Parents, b.Parents)
}
