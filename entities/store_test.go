package entities_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/entities"
)

// at returns an instant n seconds after some beginning.
func at(n int) time.Time { return time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC) }

// during is the window from..until in seconds after the beginning; -1 is open.
func during(from, until int) entities.Window {
	var w entities.Window
	if from >= 0 {
		w.From = at(from)
	}
	if until >= 0 {
		w.Until = at(until)
	}
	return w
}

func uid(text string) types.EntityUID {
	t, id, _ := strings.Cut(text, ":")
	return types.NewEntityUID(types.EntityType(t), types.String(id))
}

// held makes an entity of "T:id", its window, and its parents.
func held(name string, w entities.Window, parents ...entities.Parent) entities.Held {
	return entities.Held{UID: uid(name), Window: w, Parents: parents, File: "f.json", Line: 1, Column: 1}
}

func in(name string, w entities.Window) entities.Parent {
	return entities.Parent{UID: uid(name), Window: w}
}

var always entities.Window

func mustNew(t testing.TB, held []entities.Held) *entities.Store {
	t.Helper()
	s, faults := entities.New(held)
	if errs := faults.Errors(); errs != nil {
		t.Fatal(errs)
	}
	return s
}

func members(set types.EntityUIDSet) string {
	var names []string
	for u := range set.All() {
		names = append(names, string(u.Type)+":"+string(u.ID))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		w    entities.Window
		now  time.Time
		want bool
	}{
		{always, at(5), true},
		{always, time.Time{}, true},
		{during(5, -1), at(4), false},
		{during(5, -1), at(5).Add(-1), false},
		{during(5, -1), at(5), true},
		{during(-1, 5), at(5).Add(-1), true},
		{during(-1, 5), at(5), false},
		{during(5, 6), at(5), true},
		{during(5, 6), at(6), false},
		{during(5, 6), at(5).In(time.FixedZone("", 3600)), true},
		{during(-1, 5), time.Time{}, false}, // no clock: nothing that could have expired
		{during(5, -1), time.Time{}, false},
	} {
		if got := c.w.Contains(c.now); got != c.want {
			t.Errorf("%v contains %v: %v", c.w, c.now, got)
		}
	}
}

func TestGet(t *testing.T) {
	s := mustNew(t, []entities.Held{
		held("User:ann", always, in("Group:a", always)),
		held("Group:a", always, in("Group:b", always), in("Group:undeclared", always)),
		held("Group:b", always, in("Group:c", always)),
		held("Group:c", always),

		// Membership windows apply to each edge.
		held("User:bob", always, in("Group:a", during(10, 20)), in("Group:c", during(15, 30))),
		// One parent, two windows.
		held("User:cleo", always, in("Group:c", during(10, 20)), in("Group:c", during(30, 40))),
		// The entity's own window.
		held("User:dan", during(10, 20), in("Group:a", always)),
		// An ancestor with a window of its own: absent outside it, with all that is reached through it only.
		held("User:eve", always, in("Group:timed", always)),
		held("User:fay", always, in("Group:timed", always), in("Group:b", always)),
		held("Group:timed", during(10, 20), in("Group:b", always)),
		// The window far up.
		held("User:gus", always, in("Group:low", always)),
		held("Group:low", always, in("Group:mid", during(10, 20))),
		held("Group:mid", always, in("Group:a", always)),
		// Windows that don't meet: a way that is never open.
		held("User:hal", always, in("Group:early", during(10, 20))),
		held("Group:early", always, in("Group:c", during(20, 30))),
	})
	const all = "Group:a Group:b Group:c Group:undeclared"
	for _, c := range []struct {
		name string
		now  int
		want string // "absent", or the closure
	}{
		{"User:ann", 0, all},
		{"Group:a", 0, "Group:b Group:c Group:undeclared"},
		{"Group:c", 0, ""},
		{"Group:undeclared", 0, "absent"},
		{"User:nobody", 0, "absent"},
		{"Nothing:ann", 0, "absent"},

		{"User:bob", 9, ""},
		{"User:bob", 10, all},
		{"User:bob", 19, all},
		{"User:bob", 20, "Group:c"},
		{"User:bob", 30, ""},

		{"User:cleo", 9, ""},
		{"User:cleo", 19, "Group:c"},
		{"User:cleo", 20, ""},
		{"User:cleo", 30, "Group:c"},
		{"User:cleo", 40, ""},

		{"User:dan", 9, "absent"},
		{"User:dan", 10, all},
		{"User:dan", 20, "absent"},

		{"User:eve", 9, ""},
		{"User:eve", 10, "Group:b Group:c Group:timed"},
		{"User:eve", 20, ""},
		{"User:fay", 9, "Group:b Group:c"},
		{"User:fay", 10, "Group:b Group:c Group:timed"},
		{"Group:timed", 9, "absent"},
		{"Group:timed", 10, "Group:b Group:c"},

		{"User:gus", 9, "Group:low"},
		{"User:gus", 10, "Group:a Group:b Group:c Group:low Group:mid Group:undeclared"},
		{"User:gus", 20, "Group:low"},

		{"User:hal", 15, "Group:early"},
		{"User:hal", 25, ""},
	} {
		e, ok := s.Get(uid(c.name), at(c.now))
		got := "absent"
		if ok {
			got = members(e.Parents)
			if e.UID != uid(c.name) {
				t.Errorf("%s is %v", c.name, e.UID)
			}
		}
		if got != c.want {
			t.Errorf("%s at %d: %q, want %q", c.name, c.now, got, c.want)
		}
	}
	// Without a clock nothing with a window is there.
	if e, _ := s.Get(uid("User:bob"), time.Time{}); e.Parents.Len() != 0 {
		t.Errorf("at the zero time bob is in %s", members(e.Parents))
	}
	if !s.Has(uid("User:dan")) || s.Has(uid("Group:undeclared")) || s.Has(uid("User:nobody")) {
		t.Error("Has")
	}
	if got := strings.Join(s.IDs("Group"), " "); got != "a b c early low mid timed" {
		t.Errorf("IDs: %s", got)
	}
	if s.IDs("Nothing") != nil || s.Len() != 15 {
		t.Errorf("%v, %d", s.IDs("Nothing"), s.Len())
	}
	n := 0
	for h := range s.All() {
		if n++; h.UID == uid("User:bob") {
			break
		}
	}
	if n != 5 {
		t.Errorf("bob is number %d of All", n)
	}
}

func TestGetAttributes(t *testing.T) {
	h := held("User:ann", always, in("Group:a", always))
	h.Attributes = types.NewRecord(types.RecordMap{"tenant": types.String("acme")})
	h.Tags = types.NewRecord(types.RecordMap{"tag": types.Long(1)})
	e, ok := mustNew(t, []entities.Held{h}).Get(h.UID, at(0))
	want := types.Entity{UID: h.UID, Parents: types.NewEntityUIDSet(uid("Group:a")), Attributes: h.Attributes, Tags: h.Tags}
	if !ok || !e.Equal(want) {
		t.Errorf("%v %v", e, ok)
	}
}

func TestNilStore(t *testing.T) {
	var s *entities.Store
	if _, ok := s.Get(uid("User:ann"), at(0)); ok || s.Has(uid("User:ann")) || s.IDs("User") != nil || s.Len() != 0 {
		t.Error("a nil store holds something")
	}
	for range s.All() {
		t.Error("a nil store yields something")
	}
}

func TestGetAllocations(t *testing.T) {
	s := mustNew(t, []entities.Held{
		held("User:ann", during(0, 100), in("Group:a", always)),
		held("Group:a", always, in("Group:b", always)),
	})
	for _, name := range []string{"User:ann", "Group:a", "User:nobody"} {
		u := uid(name)
		if n := testing.AllocsPerRun(100, func() { s.Get(u, at(5)) }); n != 0 {
			t.Errorf("Get(%s) allocates %v times", name, n)
		}
	}
}

// naive is the rule of the package's documentation and nothing else: what
// some chain of memberships leads to, each valid at now, through entities
// that are all valid at now.
func naive(all map[types.EntityUID]entities.Held, u types.EntityUID, now time.Time) (string, bool) {
	valid := func(u types.EntityUID) bool {
		h, ok := all[u]
		return !ok || h.Window.Contains(now)
	}
	if _, ok := all[u]; !ok || !valid(u) {
		return "", false
	}
	reached := map[types.EntityUID]bool{u: true}
	for grown := true; grown; {
		grown = false
		for v := range reached {
			for _, p := range all[v].Parents {
				if p.Window.Contains(now) && valid(p.UID) && !reached[p.UID] {
					reached[p.UID] = true
					grown = true
				}
			}
		}
	}
	delete(reached, u)
	var uids []types.EntityUID
	for v := range reached {
		uids = append(uids, v)
	}
	return members(types.NewEntityUIDSet(uids...)), true
}

func TestClosureEqualsNaiveWalk(t *testing.T) {
	compared := 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		const span = 8
		window := func(chance float64) entities.Window {
			if random.Float64() >= chance {
				return always
			}
			from, until := random.IntN(span+1)-1, random.IntN(span+1)-1
			if from >= 0 && until >= 0 && from >= until {
				until = -1
			}
			return during(from, until)
		}
		chance := []float64{0, 0.05, 0.5, 1}[seed%4]
		n := 1 + random.IntN(40)
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("%s:%d", []string{"User", "Group"}[random.IntN(2)], i)
		}
		list := make([]entities.Held, 0, n)
		all := map[types.EntityUID]entities.Held{}
		for i, name := range names {
			h := held(name, window(chance))
			for range random.IntN(5) {
				// Only to earlier names: no cycles.
				if p := random.IntN(i + 2); p < i {
					h.Parents = append(h.Parents, in(names[p], window(chance)))
				} else {
					h.Parents = append(h.Parents, in(fmt.Sprintf("Group:outside%d", p-i), window(chance)))
				}
			}
			list = append(list, h)
			all[h.UID] = h
		}
		random.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
		s := mustNew(t, list)
		for range 12 {
			now := at(random.IntN(span + 1)).Add(time.Duration(random.IntN(3)-1) * time.Nanosecond)
			for u := range all {
				want, wantOK := naive(all, u, now)
				e, ok := s.Get(u, now)
				if got := members(e.Parents); ok != wantOK || got != want {
					t.Fatalf("seed %d, %v at %v: %q %v, want %q %v", seed, u, now, got, ok, want, wantOK)
				}
				if want != "" {
					compared++
				}
			}
		}
	}
	if compared < 10_000 {
		t.Errorf("only %d closures that are not empty", compared)
	}
}

// A store is asked by many at once; the race detector watches.
func TestStoreConcurrently(t *testing.T) {
	s := mustNew(t, []entities.Held{
		held("User:ann", always, in("Group:a", during(0, 5))),
		held("Group:a", always, in("Group:b", always)),
	})
	done := make(chan struct{})
	for i := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for n := range 200 {
				s.Get(uid("User:ann"), at(n%8))
				if got := len(s.IDs("Group")); got != 1 {
					t.Errorf("goroutine %d: %d ids", i, got)
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
}

func TestNewFaults(t *testing.T) {
	placed := func(h entities.Held, file string, line int) entities.Held {
		h.File, h.Line, h.Column = file, line, 3
		return h
	}
	for _, c := range []struct {
		name string
		held []entities.Held
		want []string // errors and warnings, in full
	}{
		{"nothing", nil, nil},
		{"twice", []entities.Held{
			placed(held("User:ann", always), "a.json", 2),
			placed(held("Group:ann", always), "a.json", 3),
			placed(held("User:ann", during(0, 1)), "b.json", 7),
			placed(held("User:ann", always), "b.json", 8),
		}, []string{
			`b.json:7:3: User::"ann" is declared twice, first at a.json:2:3: keep one`,
			`b.json:8:3: User::"ann" is declared twice, first at a.json:2:3: keep one`,
		}},
		{"in itself", []entities.Held{
			placed(held("Group:a", always, in("Group:a", always)), "a.json", 2),
		}, []string{
			`a.json:2:3: memberships form a cycle of 1: Group::"a" in Group::"a". Remove one of them`,
		}},
		{"a cycle whose windows never meet, across files", []entities.Held{
			placed(held("User:ann", always, in("Group:c", always)), "a.json", 1),
			placed(held("Group:b", always, in("Group:c", during(0, 1))), "a.json", 2),
			placed(held("Group:c", always, in("Group:d", during(2, 3))), "b.json", 1),
			placed(held("Group:d", during(4, 5), in("Group:b", always)), "c.json", 1),
		}, []string{
			`a.json:2:3: memberships form a cycle of 3: Group::"b" in Group::"c" in Group::"d" in Group::"b". Remove one of them`,
		}},
		{"two cycles through one group", []entities.Held{
			placed(held("Group:a", always, in("Group:b", always), in("Group:c", always)), "a.json", 1),
			placed(held("Group:b", always, in("Group:a", always)), "a.json", 2),
			placed(held("Group:c", always, in("Group:a", always)), "a.json", 3),
		}, []string{
			`a.json:1:3: memberships form a cycle of 2: Group::"a" in Group::"b" in Group::"a". Remove one of them`,
			`a.json:1:3: memberships form a cycle of 2: Group::"a" in Group::"c" in Group::"a". Remove one of them`,
		}},
		{"a diamond is no cycle", []entities.Held{
			held("Group:a", always, in("Group:b", always), in("Group:c", always)),
			held("Group:b", always, in("Group:d", always)),
			held("Group:c", always, in("Group:d", always)),
			held("Group:d", always),
		}, nil},
		{"undeclared parents", []entities.Held{
			placed(held("Group:finance", always), "a.json", 1),
			placed(held("Group:fire", always), "a.json", 2),
			placed(held("User:ann", always, in("Group:finnance", always), in("Org:acme", always)), "a.json", 3),
			placed(held("User:bob", always, in("Group:finnance", during(0, 1))), "a.json", 4),
			placed(held("User:cleo", always, in("Group:finnance", always), in("Group:elsewhere", always)), "a.json", 5),
			placed(held("User:dan", always, in("Group:elsewhere", always)), "a.json", 6),
			placed(held("User:eve", always, in("Group:frie", always)), "a.json", 7),
		}, []string{
			`a.json:3:3: warning: User::"ann" is in Group::"finnance" (as 2 others are), which no file declares: did you mean Group::"finance"? If not, declare it`,
			`a.json:3:3: warning: User::"ann" is in Org::"acme", which no file declares: declare it if it is meant`,
			`a.json:5:3: warning: User::"cleo" is in Group::"elsewhere" (as another is), which no file declares: declare it if it is meant`,
			`a.json:7:3: warning: User::"eve" is in Group::"frie", which no file declares: did you mean Group::"fire"? If not, declare it`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, faults := entities.New(c.held)
			var got []string
			for _, f := range faults {
				got = append(got, f.Error())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if (s == nil) != (faults.Errors() != nil) {
				t.Errorf("store %v beside %d errors", s, len(faults.Errors()))
			}
		})
	}
}

// chain makes n groups, each in the next.
func chain(n int) []entities.Held {
	list := make([]entities.Held, n)
	for i := range list {
		list[i] = held(fmt.Sprintf("Group:%d", i), always)
		if i+1 < n {
			list[i].Parents = []entities.Parent{in(fmt.Sprintf("Group:%d", i+1), always)}
		}
	}
	return list
}

func TestNewLimits(t *testing.T) {
	s := mustNew(t, chain(1025))
	if e, _ := s.Get(uid("Group:0"), at(0)); e.Parents.Len() != 1024 {
		t.Errorf("%d ancestors", e.Parents.Len())
	}
	_, faults := entities.New(chain(1026))
	if len(faults) != 1 || !strings.Contains(faults[0].Message, `Group::"0" is in more than 1024 groups`) {
		t.Errorf("1,025 ancestors: %v", faults)
	}

	// An ancestor that is reached on several ways counts once.
	twoWays := append(chain(1000), held("User:ann", always, in("Group:0", always), in("Group:1", always), in("Group:2", always)))
	if e, _ := mustNew(t, twoWays).Get(uid("User:ann"), at(0)); e.Parents.Len() != 1000 {
		t.Errorf("%d ancestors on several ways", e.Parents.Len())
	}

	// A window doesn't take an ancestor out of the count.
	list := chain(1026)
	for i := range list {
		list[i].Window = during(i, i+1)
	}
	if _, faults := entities.New(list); len(faults) != 1 {
		t.Errorf("1,025 ancestors with windows: %v", faults)
	}

	// A long cycle is told in short, and doesn't overflow a stack.
	list = chain(300_000)
	list[len(list)-1].Parents = []entities.Parent{in("Group:0", always)}
	_, faults = entities.New(list)
	if len(faults) != 1 || !strings.Contains(faults[0].Message, "a cycle of 300000: ") || len(faults[0].Message) > 300 {
		t.Errorf("a long cycle: %v", faults)
	}

	// More than a hundred faults are cut, whatever they are.
	many := func(n int, parent func(i int) string) []entities.Held {
		list := make([]entities.Held, n)
		for i := range list {
			list[i] = held(fmt.Sprintf("Group:%d", i), always, in(parent(i), always))
			list[i].Line = i + 1
		}
		return list
	}
	_, cycles := entities.New(many(500, func(i int) string { return fmt.Sprintf("Group:%d", i) }))
	_, undeclared := entities.New(many(500, func(i int) string { return fmt.Sprintf("Org:%d", i) }))
	twice := many(500, func(int) string { return "Org:acme" })
	for i := range twice {
		twice[i].UID = uid("Group:same")
	}
	_, repeated := entities.New(twice)
	for name, faults := range map[string]writ.Faults{"cycles": cycles, "undeclared": undeclared, "repeated": repeated} {
		if len(faults) != 101 || !strings.Contains(faults[100].Message, "more than 100 faults") {
			t.Errorf("500 %s: %d faults", name, len(faults))
		}
	}
}

// Deep nesting that is shared by nobody must be refused before it takes all
// memory: 40 chains of 1,000 have 20 million ancestors in all.
func TestNewRefusesEnormousClosures(t *testing.T) {
	var list []entities.Held
	for c := range 40 {
		for i := range 1000 {
			h := held(fmt.Sprintf("Group:%d-%d", c, i), always)
			if i < 999 {
				h.Parents = []entities.Parent{in(fmt.Sprintf("Group:%d-%d", c, i+1), always)}
			}
			list = append(list, h)
		}
	}
	s, faults := entities.New(list)
	if s != nil || len(faults) != 1 || !strings.Contains(faults[0].Message, "ancestors in all") {
		t.Errorf("%v", faults)
	}
}

// TestChanges: each bound of a window, of an entity or of a membership, is an
// instant at which something changes; nothing else is.
func TestChanges(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 3, 1, 12, 0, s, 0, time.UTC) }
	uid := func(id string) types.EntityUID { return types.NewEntityUID("User", types.String(id)) }
	group := types.NewEntityUID("Group", "g")
	store, faults := entities.Join([][]entities.Held{
		{{UID: uid("plain"), File: "a.json"}},
		{
			{UID: uid("windowed"), File: "b.json", Window: entities.Window{From: at(10), Until: at(20)}},
			{UID: uid("member"), File: "b.json", Parents: []entities.Parent{{UID: group, Window: entities.Window{Until: at(30)}}}},
		},
	}, nil)
	if store == nil {
		t.Fatal(faults)
	}
	none, _ := entities.Join([][]entities.Held{{{UID: uid("plain"), File: "a.json"}}}, nil)
	for _, c := range []struct {
		name     string
		store    *entities.Store
		from, to int
		want     bool
	}{
		{"before all", store, 0, 9, false},
		{"it begins", store, 9, 10, true},
		{"it has begun", store, 10, 19, false},
		{"it ends", store, 19, 20, true},
		{"a membership ends", store, 20, 30, true},
		{"after all", store, 30, 60, false},
		{"over all", store, 0, 60, true},
		{"no windows", none, 0, 60, false},
		{"no store", nil, 0, 60, false},
	} {
		if got := c.store.Changes(at(c.from), at(c.to)); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
