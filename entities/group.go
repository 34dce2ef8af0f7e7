package entities

import (
	"hash/maphash"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
)

// group is an entity that others are in, declared or not. It keeps its number
// as long as a list names it.
type group struct {
	uid      types.EntityUID
	mentions int32   // lists that name it; 0: the number is free
	entity   ref     // 0: nobody declares it
	above    []int32 // the groups that it is in, directly or not, whatever the windows; sorted
	flags    uint8   // timed: of its list; windowed: it has a window of its own
}

// timing is what a membership in the group makes of a list.
func (g *group) timing() uint8 {
	if g.flags != 0 {
		return timed
	}
	return 0
}

// groups are those of one store.
type groups struct {
	vector[group]
	free  []int32
	index table // index() of its refs is the number
}

// group returns the number of a group.
func (s *Store) group(uid types.EntityUID) (int32, bool) {
	p := s.groups.index.probe(s.hashUID(uid))
	for r, more := p.next(); more; r, more = p.next() {
		if n := int32(r.index()); s.groups.at(n).uid == uid {
			return n, true
		}
	}
	return 0, false
}

// hashID is the hash of an id among those of its type.
func (s *Store) hashID(id types.String) uint64 { return maphash.String(s.seed, string(id)) }

func (s *Store) hashUID(uid types.EntityUID) uint64 { return maphash.Comparable(s.seed, uid) }

// groupEdit makes the groups of a store from those of the one before.
type groupEdit struct {
	*draft[group]
	before         *Store
	fresh          map[types.EntityUID]int32 // groups that weren't there before
	numbered       []int32                   // their numbers
	free           []int32
	removed, added []entry
}

func editGroups(before *Store) *groupEdit {
	return &groupEdit{
		draft: before.groups.edit(), before: before,
		fresh: map[types.EntityUID]int32{}, free: slices.Clone(before.groups.free),
	}
}

// number gives a parent its group.
func (e *groupEdit) number(uid types.EntityUID) int32 {
	if n, ok := e.before.group(uid); ok {
		return n
	}
	if n, ok := e.fresh[uid]; ok {
		return n
	}
	var n int32
	if last := len(e.free) - 1; last >= 0 {
		n, e.free = e.free[last], e.free[:last]
		*e.change(n) = group{uid: uid}
	} else {
		n = e.push(group{uid: uid})
	}
	e.fresh[uid] = n
	e.numbered = append(e.numbered, n)
	e.added = append(e.added, entry{e.before.hashUID(uid), refOf(0, int(n))})
	return n
}

// mention counts the lists of a part, n times each.
func (e *groupEdit) mention(p *part, n int32) {
	for _, g := range p.up {
		e.change(g).mentions += n
	}
}

// drop frees the groups of a part that nobody names any more.
func (e *groupEdit) drop(p *part) {
	for _, n := range p.up {
		if g := e.at(n); g.mentions == 0 && g.uid != (types.EntityUID{}) {
			e.removed = append(e.removed, entry{e.before.hashUID(g.uid), refOf(0, int(n))})
			*e.change(n) = group{}
			e.free = append(e.free, n)
		}
	}
}

// table returns the index of the groups.
func (e *groupEdit) table() (table, bool) {
	uid := func(r ref) types.EntityUID { return e.at(int32(r.index())).uid }
	return e.before.groups.index.with(tableEdit{
		removed: e.removed, added: e.added,
		hash: func(r ref) uint64 { return e.before.hashUID(uid(r)) },
		same: func(a, b ref) bool { return uid(a) == uid(b) },
	})
}
