package entities

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"
)

// maxMembers bounds the members of all closures together; as Cedar's sets
// they take about 40 bytes each, so that the bound is some 700 MB. A store made
// from another doesn't know who else had the closures that are gone, and takes
// them for still there: where that exceeds the bound, the store is made anew.
const maxMembers = 16 << 20

// closeGroups finds what the stale groups are in, those above first. It
// returns false if there is a cycle, or one is in too many.
func (j *join) closeGroups() bool {
	const (
		unseen uint8 = iota
		onTheWay
		done
	)
	j.dirty, j.made = map[int32]bool{}, map[string]closure{}
	state := make(map[int32]uint8, len(j.stale))
	for _, n := range j.stale {
		state[n] = unseen
	}
	type visit struct {
		group   int32
		parents []int32 // that are not visited yet
	}
	var way []visit
	for _, root := range j.stale {
		if state[root] != unseen {
			continue
		}
		way = append(way[:0], visit{root, j.parentsOf(root)})
		state[root] = onTheWay
		for len(way) > 0 {
			v := &way[len(way)-1]
			if len(v.parents) == 0 {
				if !j.closeGroup(v.group) {
					return false
				}
				state[v.group] = done
				way = way[:len(way)-1]
				continue
			}
			p := v.parents[0]
			v.parents = v.parents[1:]
			switch s, isStale := state[p]; {
			case !isStale || s == done:
			case s == unseen:
				state[p] = onTheWay
				way = append(way, visit{p, j.parentsOf(p)})
			default:
				return false
			}
		}
	}
	return true
}

// parentsOf returns the groups that a group's entity is in.
func (j *join) parentsOf(n int32) []int32 {
	r := j.groups.at(n).entity
	if r == 0 {
		return nil
	}
	p := j.s.parts[r.slot()]
	return p.parents(p.list[r.index()])
}

// parentsBefore is parentsOf in the store before.
func (j *join) parentsBefore(n int32) []int32 {
	if int(n) >= j.before.groups.n {
		return nil
	}
	r := j.before.groups.at(n).entity
	if r == 0 {
		return nil
	}
	p := j.before.parts[r.slot()]
	return p.parents(p.list[r.index()])
}

// closeGroup finds what a group is in, once that is known of its parents.
func (j *join) closeGroup(n int32) bool {
	var parents []int32
	var flags uint8
	if r := j.groups.at(n).entity; r != 0 {
		p := j.s.parts[r.slot()]
		l := p.list[r.index()]
		parents = p.parents(l)
		if !j.open(p, l) {
			flags = timed
		}
		if !p.held[r.index()].Window.IsZero() {
			flags |= windowed
		}
	}
	j.key = appendKey(j.key[:0], parents)
	known, again := j.made[string(j.key)]
	if !again {
		known.above = j.union(parents)
		j.made[string(j.key)] = known
	}
	if len(known.above) > MaxAncestors {
		return false
	}
	g := j.groups.at(n)
	if g.flags == flags && slices.Equal(g.above, known.above) {
		return true
	}
	j.dirty[n] = true
	if !again {
		j.s.members += len(known.above)
		if slices.Equal(parents, j.parentsBefore(n)) {
			j.s.members -= len(g.above)
		}
	}
	g = j.groups.change(n)
	g.above, g.flags = known.above, flags
	return j.s.members <= maxMembers
}

// open reports whether what a list's entities are in is the same at every
// instant.
func (j *join) open(p *part, l int32) bool {
	return p.flags[l]&windowed == 0 && !slices.ContainsFunc(p.parents(l), func(g int32) bool { return j.groups.at(g).timing() != 0 })
}

// union joins groups with those above them, sorted.
func (j *join) union(parents []int32) []int32 {
	return unite(&j.groups.vector, parents)
}

func unite(groups *vector[group], parents []int32) []int32 {
	if len(parents) == 0 {
		return nil
	}
	above := slices.Clone(parents)
	for _, p := range parents {
		above = append(above, groups.at(p).above...)
	}
	slices.Sort(above)
	return slices.Clip(slices.Compact(above))
}

// closeLists finds the closures of all lists of fresh parts, and of those of
// other parts that name a dirty group. It returns false if a limit is
// exceeded.
func (j *join) closeLists() bool {
	fresh := make([]bool, len(j.s.parts))
	for _, slot := range j.fresh {
		fresh[slot] = true
	}
	todo := make([][]int32, len(j.s.parts)) // lists by slot
	for _, slot := range j.s.order {
		p := j.s.parts[slot]
		if !fresh[slot] && len(j.dirty) == 0 {
			continue
		}
		for l := int32(1); l < p.lists(); l++ {
			if fresh[slot] || slices.ContainsFunc(p.parents(l), func(g int32) bool { return j.dirty[g] }) {
				todo[slot] = append(todo[slot], l)
			}
		}
	}
	j.reuse(todo)
	for _, slot := range j.s.order {
		if len(todo[slot]) == 0 {
			continue
		}
		p := j.s.parts[slot]
		if !fresh[slot] {
			own := *p
			own.sets, own.flags = slices.Clone(p.sets), slices.Clone(p.flags)
			p = &own
			j.s.parts[slot] = p
		}
		for _, l := range todo[slot] {
			if !j.closeList(p, l, fresh[slot]) {
				return false
			}
		}
	}
	return true
}

// reuse looks for sets of the store before that lists to do can share: those
// of lists with the same parents, none of which differs.
func (j *join) reuse(todo [][]int32) {
	if j.before.count == 0 {
		return
	}
	wanted := map[string]bool{}
	first := map[int32]bool{} // groups with which a wanted list begins
	var key []byte
	for slot, lists := range todo {
		for _, l := range lists {
			p := j.s.parts[slot]
			parents := p.parents(l)
			if j.open(p, l) && !slices.ContainsFunc(parents, func(g int32) bool { return j.dirty[g] }) {
				wanted[string(appendKey(key[:0], parents))] = true
				first[parents[0]] = true
			}
		}
	}
	look := func(p *part) {
		for l := int32(1); l < p.lists() && len(wanted) > 0; l++ {
			parents := p.parents(l)
			if p.flags[l] != 0 || !first[parents[0]] {
				continue
			}
			key = appendKey(key[:0], parents)
			if wanted[string(key)] {
				j.made[string(key)] = closure{set: p.sets[l], settled: true}
				delete(wanted, string(key))
			}
		}
	}
	for _, slot := range j.removed { // most likely: what the file said before
		look(j.before.parts[slot])
	}
	for _, slot := range j.before.order {
		look(j.before.parts[slot])
	}
}

// closeList finds what the entities of one list are members of.
func (j *join) closeList(p *part, l int32, fresh bool) bool {
	parents := p.parents(l)
	j.key = appendKey(j.key[:0], parents)
	c, known := j.made[string(j.key)]
	open := j.open(p, l)
	if !known || open && !c.settled {
		above := c.above
		if above == nil {
			above = j.union(parents)
		}
		if len(above) > MaxAncestors {
			return false
		}
		if !known {
			j.s.members += len(above)
			if !fresh {
				j.s.members -= len(unite(&j.before.groups.vector, parents))
			}
			if j.s.members > maxMembers {
				return false
			}
		}
		if open {
			uids := make([]types.EntityUID, len(above))
			for i, g := range above {
				uids[i] = j.groups.at(g).uid
			}
			c.set, c.settled = types.NewEntityUIDSet(uids...), true
		}
		j.made[string(j.key)] = c
	}
	p.flags[l] &= windowed
	p.sets[l] = types.EntityUIDSet{}
	if open {
		p.sets[l] = c.set
	} else {
		p.flags[l] |= timed
	}
	return true
}
