package revocation

import (
	"hash/maphash"
	"maps"
)

// shardCount is over how many maps the names are spread: of 100,000 names,
// about a hundred are copied when one is changed.
const shardCount = 1024

// names finds what stands under a name. It never changes, and the next one is
// cheap to make: that shares all maps but those of the names that changed. The
// zero value has no names.
type names struct {
	seed maphash.Seed // valid where by is not nil
	by   *[shardCount]map[name]standing
}

// standing is what the log says under one name.
type standing struct {
	line   timeline // of the entries that no lift withdrew
	lifted uint64   // sequence of the last lift; 0: there is none
}

func (n *names) find(of name) (standing, bool) {
	if n.by == nil {
		return standing{}, false
	}
	s, ok := n.by[n.shard(of)][of]
	return s, ok
}

func (n *names) shard(of name) uint64 { return maphash.String(n.seed, of.id) % shardCount }

// editor makes the next names of a given one. Each map is copied once.
type editor struct {
	names
	own map[uint64]bool // the shards that are copied
}

func edit(n names) *editor {
	e := &editor{names: n, own: make(map[uint64]bool)}
	if n.by == nil {
		e.seed, e.by = maphash.MakeSeed(), new([shardCount]map[name]standing)
	} else {
		by := *n.by
		e.by = &by
	}
	return e
}

func (e *editor) set(of name, s standing) {
	shard := e.shard(of)
	if !e.own[shard] {
		e.own[shard] = true
		if e.by[shard] == nil {
			e.by[shard] = make(map[name]standing)
		} else {
			e.by[shard] = maps.Clone(e.by[shard])
		}
	}
	e.by[shard][of] = s
}
