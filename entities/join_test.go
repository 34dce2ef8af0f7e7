package entities_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/entities"
)

// randomFiles are files of few entities with few names, so that they often
// collide, go in circles, and name what isn't there.
type randomFiles struct {
	*rand.Rand
	names []string // of files
	files map[string][]entities.Held
}

func (r *randomFiles) edit() {
	name := r.names[r.IntN(len(r.names))]
	old := r.files[name]
	switch r.IntN(8) {
	case 0:
		delete(r.files, name)
		return
	case 1: // an order of its own
		held := slices.Clone(old)
		r.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		r.files[name] = held
		return
	case 2, 3, 4: // one entity differs
		if len(old) > 0 {
			held := slices.Clone(old)
			i := r.IntN(len(held))
			held[i] = r.entity(name, i)
			switch r.IntN(3) {
			case 0:
				held[i].UID = old[i].UID
			case 1: // its window alone
				held[i].UID, held[i].Parents = old[i].UID, old[i].Parents
			}
			r.files[name] = held
			return
		}
	}
	held := []entities.Held{}
	for i := range r.IntN(5) {
		held = append(held, r.entity(name, i))
	}
	r.files[name] = held
}

func (r *randomFiles) entity(file string, i int) entities.Held {
	window := func() (w entities.Window) {
		if r.IntN(6) == 0 {
			w = during(r.IntN(3)*10, 20+r.IntN(3)*10)
		}
		return w
	}
	level := r.IntN(4)
	h := entities.Held{UID: uid(fmt.Sprintf("T%d:%d", level, r.IntN(30))), File: file, Line: i + 1, Column: 1, Window: window()}
	for range r.IntN(4) {
		up := level + 1
		if r.IntN(12) == 0 {
			up = r.IntN(4) // perhaps a cycle
		}
		p := entities.Parent{UID: uid(fmt.Sprintf("T%d:%d", up, r.IntN(8))), Window: window()}
		if !slices.ContainsFunc(h.Parents, func(q entities.Parent) bool { return q.UID == p.UID }) {
			h.Parents = append(h.Parents, p)
		}
	}
	return h
}

func (r *randomFiles) list() [][]entities.Held {
	var out [][]entities.Held
	for _, name := range r.names {
		if held, ok := r.files[name]; ok {
			out = append(out, held)
		}
	}
	return out
}

// content is all that a store says.
func content(s *entities.Store) string {
	var b strings.Builder
	fmt.Fprintln(&b, s.Len())
	kinds := map[types.EntityType]bool{}
	for h := range s.All() {
		kinds[h.UID.Type] = true
		fmt.Fprintf(&b, "%s %s:%d %v\n", h.UID, h.File, h.Line, s.Has(h.UID))
		for _, now := range []time.Time{{}, at(0), at(15), at(25), at(35)} {
			e, ok := s.Get(h.UID, now)
			fmt.Fprintf(&b, "  %v %s %s\n", ok, e.UID, members(e.Parents))
		}
	}
	for level := range 5 {
		t := types.EntityType(fmt.Sprintf("T%d", level))
		fmt.Fprintln(&b, s.IDs(t))
	}
	return b.String()
}

// What a store says, and what is wrong, doesn't depend on how it came about.
func TestJoinEqualsJoinFromNothing(t *testing.T) {
	good, bad := 0, 0
	for seed := range uint64(25) {
		r := &randomFiles{Rand: rand.New(rand.NewPCG(seed, 1)), files: map[string][]entities.Held{}}
		for i := range 6 {
			r.names = append(r.names, fmt.Sprintf("%d.json", i))
		}
		var previous *entities.Store
		was := ""
		for step := range 60 {
			before := r.files
			r.files = map[string][]entities.Held{}
			for name, held := range before {
				r.files[name] = held
			}
			for range 1 + r.IntN(2) {
				r.edit()
			}
			got, faults := entities.Join(r.list(), previous)
			want, wanted := entities.Join(r.list(), nil)
			if !reflect.DeepEqual(faults, wanted) {
				t.Fatalf("seed %d, step %d: faults\n%s\nwant\n%s", seed, step, faults, wanted)
			}
			if (got == nil) != (want == nil) {
				t.Fatalf("seed %d, step %d: store %v", seed, step, got)
			}
			if previous != nil && content(previous) != was {
				t.Fatalf("seed %d, step %d: the previous store has changed", seed, step)
			}
			if got == nil {
				bad++
				if r.IntN(2) == 0 {
					r.files = before // else the next step starts from what is wrong
				}
				continue
			}
			good++
			now := content(got)
			if from := content(want); now != from {
				t.Fatalf("seed %d, step %d: got\n%s\nwant\n%s", seed, step, now, from)
			}
			previous, was = got, now
		}
	}
	if good < 300 || bad < 300 {
		t.Errorf("%d good stores and %d bad ones: not much of a test", good, bad)
	}
}

// Whoever decides by the previous store isn't disturbed.
func TestJoinBesideReaders(t *testing.T) {
	files := [][]entities.Held{chain(50)}
	for i := range 20 {
		files = append(files, []entities.Held{held(fmt.Sprintf("User:%d", i), always, in("Group:0", always))})
	}
	first, faults := entities.Join(files, nil)
	if first == nil {
		t.Fatal(faults)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for i := range 20 {
					if e, ok := first.Get(uid(fmt.Sprintf("User:%d", i)), at(0)); !ok || e.Parents.Len() != 50 {
						t.Errorf("user %d is in %d groups", i, e.Parents.Len())
						return
					}
				}
				first.IDs("User")
			}
		})
	}
	s := first
	for round := range 40 {
		changed := slices.Clone(files)
		changed[1+round%20] = []entities.Held{held(fmt.Sprintf("User:%d", round%20), always, in(fmt.Sprintf("Group:%d", round%50), always))}
		groups := chain(50 - round%10)
		changed[0] = groups
		next, faults := entities.Join(changed, s)
		if next == nil {
			t.Fatal(faults)
		}
		s = next
		s.IDs("User")
	}
	close(done)
	readers.Wait()
}

// A window is all that differs of a group that others are in.
func TestJoinWindowOfAGroup(t *testing.T) {
	people := []entities.Held{held("User:ann", always, in("Group:a", always))}
	groups := func(w entities.Window) []entities.Held { return []entities.Held{held("Group:a", w)} }
	s := mustNew(t, nil)
	for i, w := range []entities.Window{always, during(10, 20), always, during(-1, 20)} {
		var faults writ.Faults
		if s, faults = entities.Join([][]entities.Held{people, groups(w)}, s); s == nil {
			t.Fatal(faults)
		}
		for _, now := range []int{5, 15, 25} {
			e, _ := s.Get(uid("User:ann"), at(now))
			if got := e.Parents.Len() == 1; got != w.Contains(at(now)) {
				t.Errorf("window %d, at %d: ann is a member: %v", i, now, got)
			}
		}
	}
}
