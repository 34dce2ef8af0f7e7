package entities

import (
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
)

// graph is the memberships of a store as numbers, whatever their windows. It
// lives while [New] works. Numbers below len(store.held) are entities; those
// from there on are parents that nobody declares.
type graph struct {
	store   *Store
	begin   []int32 // parents of entity i are up[begin[i]:begin[i+1]]
	up      []int32
	outside []outside
	order   []int32 // every entity after its parents; made by cycles
}

// outside is a parent that nobody declares.
type outside struct {
	uid     types.EntityUID
	first   int32 // the first entity that names it
	members int   // how many name it
}

func newGraph(s *Store) *graph {
	g := &graph{store: s, begin: make([]int32, 1, len(s.held)+1)}
	edges := 0
	for i := range s.held {
		edges += len(s.held[i].Parents)
	}
	g.up = make([]int32, 0, edges)
	numbers := map[types.EntityUID]int{} // of outside
	for i := range s.held {
		for _, p := range s.held[i].Parents {
			j, ok := s.find(p.UID)
			if !ok {
				j = int32(len(s.held) + g.outsider(numbers, p.UID, int32(i)))
			}
			g.up = append(g.up, j)
		}
		g.begin = append(g.begin, int32(len(g.up)))
	}
	return g
}

// outsider counts entity i as a member of a parent that nobody declares.
func (g *graph) outsider(numbers map[types.EntityUID]int, uid types.EntityUID, i int32) int {
	n, ok := numbers[uid]
	if !ok {
		n = len(g.outside)
		numbers[uid] = n
		g.outside = append(g.outside, outside{uid: uid, first: i})
	}
	g.outside[n].members++
	return n
}

func (g *graph) parents(i int32) []int32 { return g.up[g.begin[i]:g.begin[i+1]] }

// uid returns the name behind a number.
func (g *graph) uid(n int32) types.EntityUID {
	if int(n) < len(g.store.held) {
		return g.store.held[n].UID
	}
	return g.outside[int(n)-len(g.store.held)].uid
}

// visit is an entity whose ancestors are being visited.
type visit struct {
	entity int32
	next   int32 // index in up of the next parent
}

// cycles searches depth first, each entity once, and returns a fault for each
// membership that leads back to an entity on the way: without those there
// would be no cycle. It keeps its own stack, because a chain of memberships
// may be as long as the bundle. It fills order.
func (g *graph) cycles() writ.Faults {
	const (
		unseen = iota
		onTheWay
		done
	)
	var faults writ.Faults
	state := make([]uint8, len(g.store.held))
	g.order = make([]int32, 0, len(state))
	var way []visit
	for root := range state {
		if state[root] != unseen {
			continue
		}
		way = append(way[:0], visit{int32(root), g.begin[root]})
		state[root] = onTheWay
		for len(way) > 0 {
			v := &way[len(way)-1]
			if v.next == g.begin[v.entity+1] {
				state[v.entity] = done
				g.order = append(g.order, v.entity)
				way = way[:len(way)-1]
				continue
			}
			p := g.up[v.next]
			v.next++
			switch {
			case int(p) >= len(state) || state[p] == done:
			case state[p] == unseen:
				state[p] = onTheWay
				way = append(way, visit{p, g.begin[p]})
			default:
				faults = append(faults, g.cycle(way, p))
				if len(faults) > MaxFaults {
					return faults
				}
			}
		}
	}
	return faults
}

// cycle makes the fault of the cycle that ends where the way first met
// entity p, told from whichever of its entities comes first in the files.
func (g *graph) cycle(way []visit, p int32) writ.Fault {
	from := len(way) - 1
	for way[from].entity != p {
		from--
	}
	round := way[from:]
	first := 0
	for i := range round {
		if round[i].entity < round[first].entity {
			first = i
		}
	}
	const shown = 8
	var path strings.Builder
	for i := range round {
		if i == shown && len(round) > shown+1 {
			path.WriteString(" in …")
			break
		}
		if i > 0 {
			path.WriteString(" in ")
		}
		path.WriteString(showUID(g.uid(round[(first+i)%len(round)].entity)))
	}
	start := &g.store.held[round[first].entity]
	return start.fault(writ.Error, "memberships form a cycle of %d: %s in %s. Remove one of them", len(round), &path, showUID(start.UID))
}
