package entities

import (
	"cmp"
	"slices"
)

// ref names an entity: the slot of its part and its index there. Zero names
// none.
type ref uint64

func refOf(slot, index int) ref { return ref(slot+1)<<32 | ref(index) }

func (r ref) slot() int  { return int(r>>32) - 1 }
func (r ref) index() int { return int(r & (1<<32 - 1)) }

// table finds refs by a hash of what they name. It doesn't know the names:
// whoever asks compares them. A table never changes: with makes another, which
// shares all shards but those that differ.
//
// The hash's upper bits choose the shard. Its last 16 bits are where the
// search in the shard begins, and are kept with the ref, so that hardly
// another entity is looked at.
type table struct {
	shards [][]uint64 // a power of two of them; each empty, or a power of two of slots, of which some are 0
	shift  uint       // of the hash, to the number of its shard
	count  int
}

const (
	tagBits   = 16
	refBits   = 64 - tagBits
	perShard  = 256  // refs, on average, of a table that is made whole
	fullShard = 2048 // from this average on a table is made whole again
)

// probe is a search for one hash.
type probe struct {
	shard   []uint64
	at, tag uint64
}

func (t *table) probe(hash uint64) probe {
	if t.count == 0 {
		return probe{}
	}
	tag := hash & (1<<tagBits - 1)
	return probe{t.shards[hash>>t.shift], tag, tag}
}

// next returns the next ref that may be the one; false: there is none.
func (p *probe) next() (ref, bool) {
	if len(p.shard) == 0 {
		return 0, false
	}
	for mask := uint64(len(p.shard) - 1); ; {
		v := p.shard[p.at&mask]
		if v == 0 {
			return 0, false
		}
		p.at++
		if v>>refBits == p.tag {
			return ref(v & (1<<refBits - 1)), true
		}
	}
}

// all yields every ref, in no order.
func (t *table) all(yield func(ref) bool) {
	for _, shard := range t.shards {
		for _, v := range shard {
			if v != 0 && !yield(ref(v&(1<<refBits-1))) {
				return
			}
		}
	}
}

// entry is a ref to put into a table or to take out.
type entry struct {
	hash uint64
	ref  ref
}

// tableEdit says what to change, and how to tell names.
type tableEdit struct {
	removed, added []entry // sorted by with
	hash           func(ref) uint64
	same           func(a, b ref) bool // the two have one name
}

// with returns a table with the changes. ok is false if two refs in it would
// have one name.
func (t *table) with(e tableEdit) (out table, ok bool) {
	count := t.count - len(e.removed) + len(e.added)
	if t.count == 0 || count > len(t.shards)*fullShard {
		return t.whole(e, count)
	}
	out = table{shards: slices.Clone(t.shards), shift: t.shift, count: count}
	byHash := func(a, b entry) int { return cmp.Compare(a.hash, b.hash) }
	slices.SortFunc(e.removed, byHash)
	slices.SortFunc(e.added, byHash)
	for len(e.removed) > 0 || len(e.added) > 0 {
		n := ^uint64(0)
		if len(e.removed) > 0 {
			n = e.removed[0].hash >> t.shift
		}
		if len(e.added) > 0 {
			n = min(n, e.added[0].hash>>t.shift)
		}
		var removed, added []entry
		removed, e.removed = ofShard(e.removed, n, t.shift)
		added, e.added = ofShard(e.added, n, t.shift)
		if out.shards[n], ok = edited(out.shards[n], removed, added, e.same); !ok {
			return table{}, false
		}
	}
	return out, true
}

// ofShard cuts what belongs to shard n off the front of sorted entries.
func ofShard(entries []entry, n uint64, shift uint) (of, rest []entry) {
	i := 0
	for i < len(entries) && entries[i].hash>>shift == n {
		i++
	}
	return entries[:i], entries[i:]
}

// edited returns a shard with the changes.
func edited(shard []uint64, removed, added []entry, same func(a, b ref) bool) ([]uint64, bool) {
	kept := make([]uint64, 0, len(shard))
	for _, v := range shard {
		if v != 0 && !slices.ContainsFunc(removed, func(e entry) bool { return uint64(e.ref) == v&(1<<refBits-1) }) {
			kept = append(kept, v)
		}
	}
	out := make([]uint64, slotsFor(len(kept)+len(added)))
	for _, v := range kept {
		insert(out, v)
	}
	for _, e := range added {
		if !insertNew(out, e, same) {
			return nil, false
		}
	}
	return out, true
}

// whole makes the table anew, with as many shards as its size asks for.
func (t *table) whole(e tableEdit, count int) (out table, ok bool) {
	out = table{shards: make([][]uint64, 1), shift: 64, count: count}
	for len(out.shards)*perShard < count {
		out.shards, out.shift = make([][]uint64, 2*len(out.shards)), out.shift-1
	}
	gone := make(map[ref]bool, len(e.removed))
	for _, r := range e.removed {
		gone[r.ref] = true
	}
	kept := make([]entry, 0, t.count)
	for r := range t.all {
		if !gone[r] {
			kept = append(kept, entry{e.hash(r), r})
		}
	}
	sizes := make([]int, len(out.shards))
	for _, list := range [...][]entry{kept, e.added} {
		for _, x := range list {
			sizes[x.hash>>out.shift]++
		}
	}
	for n, size := range sizes {
		out.shards[n] = make([]uint64, slotsFor(size))
	}
	for _, list := range [...][]entry{kept, e.added} {
		for _, x := range list {
			if !insertNew(out.shards[x.hash>>out.shift], x, e.same) {
				return table{}, false
			}
		}
	}
	return out, true
}

// slotsFor is how many slots a shard of n refs has: a fifth of them or more
// stay free, so that every search ends.
func slotsFor(n int) int {
	if n == 0 {
		return 0
	}
	size := 2
	for size*4 < n*5 {
		size *= 2
	}
	return size
}

func insert(shard []uint64, v uint64) {
	mask := uint64(len(shard) - 1)
	at := v >> refBits & mask
	for shard[at] != 0 {
		at = (at + 1) & mask
	}
	shard[at] = v
}

// insertNew inserts an entry unless its name is there.
func insertNew(shard []uint64, e entry, same func(a, b ref) bool) bool {
	tag := e.hash & (1<<tagBits - 1)
	p := probe{shard, tag, tag}
	for other, more := p.next(); more; other, more = p.next() {
		if same(other, e.ref) {
			return false
		}
	}
	insert(shard, tag<<refBits|uint64(e.ref))
	return true
}
