package entities

import (
	"encoding/binary"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
)

// maxMembers bounds the members of all closures together; as Cedar's sets
// they take about 40 bytes each, so that the bound is some 700 MB.
const maxMembers = 16 << 20

// closer computes the closures of a graph without cycles, in the order in
// which parents come before their members.
type closer struct {
	*graph
	byParents map[string]int32 // direct parents, sorted, 4 bytes each -> index in lists
	lists     [][]int32        // closures, whatever the windows; lists[0] is empty
	list      []int32          // entity -> index in lists
	timed     []bool           // entity -> a window lies on its way up
	total     int              // members of all lists

	// met[n] == round says that n is in the list being made.
	met   []int32
	round int32
	key   []byte
}

// close fills closure and closures.
func (s *Store) close(g *graph) writ.Faults {
	c := &closer{
		graph:     g,
		byParents: map[string]int32{},
		lists:     [][]int32{nil},
		list:      make([]int32, len(s.held)),
		timed:     make([]bool, len(s.held)),
		met:       make([]int32, len(s.held)+len(g.outside)),
	}
	var faults writ.Faults
	for _, i := range g.order {
		h := &s.held[i]
		if !c.entity(i) && len(faults) <= MaxFaults {
			faults = append(faults, h.fault(writ.Error, "%s is in more than %d groups and groups of groups: make the nesting shallower",
				showUID(h.UID), MaxAncestors))
		}
		if c.total > maxMembers {
			return append(faults, h.fault(writ.Error,
				"the memberships up to here reach %d ancestors in all, more than %d: use fewer levels of groups, or more entities with the same parents", c.total, maxMembers))
		}
	}
	if len(faults) == 0 {
		s.closure, s.closures = c.sets()
	}
	return faults
}

// entity finds or makes the closure of entity i, whose parents' are there. It
// returns false if it exceeds [MaxAncestors]; then its members don't count as
// its descendants' ancestors, so that they aren't reported too.
func (c *closer) entity(i int32) bool {
	parents := c.parents(i)
	if len(parents) == 0 {
		return true
	}
	c.timed[i] = c.hasWindow(i, parents)
	direct := slices.Clone(parents)
	slices.Sort(direct)
	direct = slices.Compact(direct)
	c.key = c.key[:0]
	for _, p := range direct {
		c.key = binary.LittleEndian.AppendUint32(c.key, uint32(p))
	}
	if at, ok := c.byParents[string(c.key)]; ok {
		c.list[i] = at
		return true
	}
	closure := c.union(direct)
	if len(closure) > MaxAncestors {
		return false
	}
	at := int32(len(c.lists))
	c.lists = append(c.lists, closure)
	c.total += len(closure)
	c.byParents[string(c.key)] = at
	c.list[i] = at
	return true
}

// hasWindow reports whether a window lies on the way up from entity i: on a
// membership, on a parent, or on a parent's way up. Its own is not.
func (c *closer) hasWindow(i int32, parents []int32) bool {
	h := &c.store.held[i]
	for k, p := range parents {
		if !h.Parents[k].Window.IsZero() {
			return true
		}
		if int(p) < len(c.timed) && (c.timed[p] || !c.store.held[p].Window.IsZero()) {
			return true
		}
	}
	return false
}

// union joins the parents with their closures. It stops above [MaxAncestors].
func (c *closer) union(parents []int32) []int32 {
	c.round++
	var closure []int32
	add := func(n int32) {
		if c.met[n] != c.round {
			c.met[n] = c.round
			closure = append(closure, n)
		}
	}
	for _, p := range parents {
		add(p)
		if int(p) < len(c.list) {
			for _, n := range c.lists[c.list[p]] {
				add(n)
			}
		}
		if len(closure) > MaxAncestors {
			break
		}
	}
	return slices.Clip(closure)
}

// sets turns the closures of entities that no window touches into Cedar's
// sets, each once.
func (c *closer) sets() (closure []int32, closures []types.EntityUIDSet) {
	closure = make([]int32, len(c.list))
	made := make([]int32, len(c.lists)) // list -> index in closures, 0: not yet
	closures = []types.EntityUIDSet{{}} // that of lists[0]
	var uids []types.EntityUID
	for i, l := range c.list {
		switch {
		case c.timed[i]:
			closure[i] = timed
			continue
		case l != 0 && made[l] == 0:
			uids = uids[:0]
			for _, n := range c.lists[l] {
				uids = append(uids, c.uid(n))
			}
			made[l] = int32(len(closures))
			closures = append(closures, types.NewEntityUIDSet(uids...))
		}
		closure[i] = made[l]
	}
	return closure, slices.Clip(closures)
}
