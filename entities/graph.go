package entities

import (
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
)

// graph is the memberships of all entities as numbers, whatever their windows,
// in order to say what is wrong with them: it is made only where something is.
// Numbers below len(held) are entities; those from there on are parents that
// nobody declares.
type graph struct {
	held    []*Held
	numbers map[types.EntityUID]int32
	begin   []int32 // parents of entity i are up[begin[i]:begin[i+1]]
	up      []int32
	order   []int32 // every entity after its parents; made by cycles
}

// newGraph numbers the entities. Of those declared twice it knows the first.
func newGraph(files [][]Held) *graph {
	g := &graph{numbers: map[types.EntityUID]int32{}, begin: []int32{0}}
	for _, held := range files {
		for i := range held {
			if _, twice := g.numbers[held[i].UID]; !twice {
				g.numbers[held[i].UID] = int32(len(g.held))
			}
			g.held = append(g.held, &held[i])
		}
	}
	outside := int32(len(g.held))
	for _, h := range g.held {
		for _, p := range h.Parents {
			n, ok := g.numbers[p.UID]
			if !ok {
				n = outside
				g.numbers[p.UID] = n
				outside++
			}
			g.up = append(g.up, n)
		}
		g.begin = append(g.begin, int32(len(g.up)))
	}
	return g
}

func (g *graph) parents(i int32) []int32 { return g.up[g.begin[i]:g.begin[i+1]] }

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
	state := make([]uint8, len(g.held))
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
		path.WriteString(showUID(g.held[round[(first+i)%len(round)].entity].UID))
	}
	start := g.held[round[first].entity]
	return start.fault(writ.Error, "memberships form a cycle of %d: %s in %s. Remove one of them", len(round), &path, showUID(start.UID))
}
