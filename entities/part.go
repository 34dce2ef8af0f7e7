package entities

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/cedar-policy/cedar-go/types"
)

// part is the entities of one file in a store. Entities with the same direct
// parents share one list of memberships; list 0 is empty.
//
// A part never changes. Where an ancestor does, the next store has another
// part that shares everything but sets and flags.
type part struct {
	held  []Held               // not empty
	list  []int32              // by entity: its list
	begin []int32              // the parents of list l are up[begin[l]:begin[l+1]]
	up    []int32              // groups, sorted, each once
	flags []uint8              // by list
	sets  []types.EntityUIDSet // by list: everything that its entities are members of; empty where that is timed

	windows  bool        // some entity has a window of its own
	instants []time.Time // bounds of all windows, of entities and of memberships, sorted
}

// Flags of a list.
const (
	windowed uint8 = 1 << iota // one of its memberships has a window
	timed                      // what its entities are members of depends on the instant
)

func (p *part) parents(list int32) []int32 { return p.up[p.begin[list]:p.begin[list+1]] }

// lists is how many lists there are.
func (p *part) lists() int32 { return int32(len(p.flags)) }

// newPart makes the lists of a file; number gives each parent its group. Sets
// are empty yet, and no list is marked as timed.
func newPart(held []Held, number func(types.EntityUID) int32) *part {
	p := &part{held: held, list: make([]int32, len(held)), begin: []int32{0, 0}, flags: []uint8{0}}
	type slice struct {
		first *Parent
		n     int
	}
	shared := map[slice]int32{} // by what the decoder gave to several entities
	byKey := map[string]int32{}
	var direct []int32
	var key []byte
	for i := range held {
		parents := held[i].Parents
		if w := held[i].Window; !w.IsZero() {
			p.windows = true
			p.instants = w.appendBounds(p.instants)
		}
		if len(parents) == 0 {
			continue
		}
		same := slice{&parents[0], len(parents)}
		if l, ok := shared[same]; ok {
			p.list[i] = l
			continue
		}
		direct = direct[:0]
		var flags uint8
		for _, parent := range parents {
			direct = append(direct, number(parent.UID))
			if !parent.Window.IsZero() {
				flags = windowed
				p.instants = parent.Window.appendBounds(p.instants)
			}
		}
		slices.Sort(direct)
		direct = slices.Compact(direct)
		key = appendKey(append(key[:0], flags), direct)
		l, ok := byKey[string(key)]
		if !ok {
			l = p.lists()
			byKey[string(key)] = l
			p.up = append(p.up, direct...)
			p.begin = append(p.begin, int32(len(p.up)))
			p.flags = append(p.flags, flags)
		}
		p.list[i] = l
		shared[same] = l
	}
	slices.SortFunc(p.instants, time.Time.Compare)
	p.instants = slices.Clip(slices.CompactFunc(p.instants, time.Time.Equal))
	p.up, p.begin, p.flags = slices.Clip(p.up), slices.Clip(p.begin), slices.Clip(p.flags)
	p.sets = make([]types.EntityUIDSet, len(p.flags))
	return p
}

// appendKey appends sorted groups so that equal ones, and no others, give
// equal keys.
func appendKey(key []byte, groups []int32) []byte {
	for _, g := range groups {
		key = binary.LittleEndian.AppendUint32(key, uint32(g))
	}
	return key
}
