package decide_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
)

// authorityWorlds is how many random worlds are tried: WRIT_AUTHORITY_WORLDS,
// by default 20.
func authorityWorlds() int {
	if n, err := strconv.Atoi(os.Getenv("WRIT_AUTHORITY_WORLDS")); err == nil {
		return n
	}
	return 20
}

const (
	worldGroups = 6
	worldUsers  = 4
	worldAgents = 4
)

var worldTools = [...]string{"look", "put", "drop"}

// randomWorld is the text of a bundle with random groups, people, agents and
// policies. No policy of it asks who acts: then a further actor takes authority
// away and never brings any.
type randomWorld struct {
	r        *rand.Rand
	parents  [worldGroups][]int // of groups, all of higher number
	members  [worldUsers][]int  // the groups that the bundle holds a user to be in
	policies strings.Builder
	forbids  bool
}

func newRandomWorld(seed uint64, forbids bool) *randomWorld {
	w := &randomWorld{r: rand.New(rand.NewPCG(seed, 7)), forbids: forbids}
	for g := range worldGroups {
		for up := g + 1; up < worldGroups; up++ {
			if w.r.IntN(3) == 0 {
				w.parents[g] = append(w.parents[g], up)
			}
		}
	}
	for u := range worldUsers {
		w.members[u] = w.some(worldGroups, 5)
	}
	for i := range 4 + w.r.IntN(6) {
		w.policy(i)
	}
	return w
}

// some picks numbers below n, each with a chance of one in chance.
func (w *randomWorld) some(n, chance int) []int {
	var out []int
	for i := range n {
		if w.r.IntN(chance) == 0 {
			out = append(out, i)
		}
	}
	return out
}

func (w *randomWorld) policy(i int) {
	one := w.r.IntN(worldGroups)
	group := fmt.Sprintf(`Group::"okta|g%d"`, one)
	other := fmt.Sprintf(`Group::"okta|g%d"`, (one+1+w.r.IntN(worldGroups-1))%worldGroups)
	who := pick(w.r, "principal in "+group, "principal in "+group, "principal is Agent", fmt.Sprintf(`principal == Agent::"a%d"`, w.r.IntN(worldAgents)), "principal")
	action := pick(w.r, "action", `action in Action::"s:read"`, `action in Action::"s:write"`, `action == Action::"s/`+pick(w.r, worldTools[:]...)+`"`)
	when := pick(w.r, "", "", " when { context.principal in "+other+" }", " unless { context.principal in "+other+" }", ` when { context.arguments.n < 5 }`)
	switch {
	case !w.forbids || w.r.IntN(3) > 0:
		if !w.forbids && strings.Contains(when, "unless") {
			when = ""
		}
		fmt.Fprintf(&w.policies, "@id(\"p%d\") permit (%s, %s, resource)%s;\n", i, who, action, when)
	default:
		fmt.Fprintf(&w.policies, "@id(\"p%d\") %s forbid (%s, %s, resource)%s;\n", i, pick(w.r, `@code("NO_WAY")`, `@review("1")`), who, action, when)
	}
}

// files are the bundle's. Users whose groups are given here are held with
// these, as if their tokens named them; of groups that aren't held in held, no
// entity is.
func (w *randomWorld) files(groupsOf map[int][]int, held [worldGroups]bool) []bundle.File {
	type uid struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	type entity struct {
		UID     uid            `json:"uid"`
		Attrs   map[string]any `json:"attrs"`
		Parents []uid          `json:"parents"`
	}
	group := func(g int) uid { return uid{"Group", fmt.Sprintf("okta|g%d", g)} }
	var all []entity
	for g := range worldGroups {
		if !held[g] {
			continue
		}
		e := entity{UID: group(g), Attrs: map[string]any{}, Parents: []uid{}}
		for _, up := range w.parents[g] {
			e.Parents = append(e.Parents, group(up))
		}
		all = append(all, e)
	}
	for u := range worldUsers {
		e := entity{UID: uid{"User", fmt.Sprintf("u%d", u)}, Attrs: map[string]any{}, Parents: []uid{}}
		in := slices.Concat(w.members[u], groupsOf[u])
		slices.Sort(in)
		for _, g := range slices.Compact(in) {
			e.Parents = append(e.Parents, group(g))
		}
		all = append(all, e)
	}
	for a := range worldAgents {
		all = append(all, entity{UID: uid{"Agent", fmt.Sprintf("a%d", a)}, Attrs: map[string]any{}, Parents: []uid{}})
	}
	entities, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return []bundle.File{
		{Name: "issuers.yaml", Data: []byte(`issuers: [{issuer: i, principal: 'User::"{sub}"', actor: 'Agent::"{sub}"', groups: {claim: groups, parent: 'Group::"okta|{group}"'}}]`)},
		{Name: "callers.yaml", Data: []byte(`callers: [{name: desk, role: host, local: true, vouches_for: [token]}]`)},
		{Name: "servers/s.yaml", Data: []byte("id: s\nendpoint: https://s.example/mcp\ntools: {look: {effect: read}, put: {effect: write, reversible: true}, drop: {effect: write, reversible: true}}\n")},
		{Name: "servers/s.tools.json", Data: []byte(`{"tools":[` +
			`{"name":"look","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}},` +
			`{"name":"put","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}},` +
			`{"name":"drop","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}]}`)},
		{Name: "entities/all.json", Data: entities},
		{Name: "policies/p.cedar", Data: []byte(w.policies.String())},
	}
}

func (w *randomWorld) build(t *testing.T, groupsOf map[int][]int, held [worldGroups]bool) *bundle.Bundle {
	t.Helper()
	b, faults := bundle.Build(w.files(groupsOf, held), nil)
	if b == nil {
		t.Fatalf("%v\n%s", faults, w.policies.String())
	}
	return b
}

// worldCall is a random call.
type worldCall struct {
	user   int
	tool   string
	n      int
	groups []int // of the token
	actors []int // agents; below 0: users
	own    int   // how many of the actors are the token's
}

func (w *randomWorld) call() worldCall {
	c := worldCall{user: w.r.IntN(worldUsers), tool: pick(w.r, worldTools[:]...), n: w.r.IntN(10), groups: w.some(worldGroups, 3)}
	for range w.r.IntN(4) {
		c.actors = append(c.actors, w.actor())
	}
	c.own = w.r.IntN(len(c.actors) + 1)
	return c
}

// actor is one of the agents, now and then one that nobody knows.
func (w *randomWorld) actor() int { return w.r.IntN(worldAgents + 1) }

var worldNow = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func (c worldCall) decide(b *bundle.Bundle) writ.Decision {
	t := b.Snapshot.Contract("s", c.tool).Tool
	user := fmt.Sprintf("u%d", c.user)
	p := writ.Proposal{
		RequestID: "r", Principal: writ.Principal{Issuer: "i", Subject: user}, Server: writ.ServerRef{ID: "s", Endpoint: "https://s.example/mcp"},
		Tool: c.tool, DefinitionDigest: t.Digest, ArgumentsJSON: fmt.Appendf(nil, `{"n":%d}`, c.n),
		Token: &writ.Token{Verified: true, Issuer: "i", Subject: user, Audience: []string{"https://s.example/mcp"}, ExpiresAt: worldNow.Add(time.Hour)},
	}
	for _, g := range c.groups {
		p.Token.Groups = append(p.Token.Groups, fmt.Sprintf("g%d", g))
	}
	var chain []writ.Actor
	for _, a := range c.actors {
		chain = append(chain, writ.Actor{Subject: fmt.Sprintf("a%d", a)})
	}
	p.Token.Actors, p.Actors = chain[:c.own], chain[c.own:]
	return decide.Decide(b.Snapshot, b.Snapshot.Callers["desk"], &p, worldNow, nil)
}

// rank orders outcomes by what they give.
func rank(d writ.Decision) int {
	switch d.Outcome {
	case writ.Allow:
		return 2
	case writ.ReviewRequired:
		return 1
	default:
		return 0
	}
}

// allHeld is a world that holds all of its groups.
var allHeld = [worldGroups]bool{true, true, true, true, true, true}

// TestActorsOnlyTakeAway: in random worlds, whoever is added to those who act,
// wherever, and in whatever order they stand, never makes an answer better.
func TestActorsOnlyTakeAway(t *testing.T) {
	allowed, worse := 0, 0
	for seed := range authorityWorlds() {
		w := newRandomWorld(uint64(seed), true)
		b := w.build(t, nil, allHeld)
		for range 60 {
			c := w.call()
			before := c.decide(b)
			more := c
			at := w.r.IntN(len(c.actors) + 1)
			more.actors = slices.Insert(slices.Clone(c.actors), at, w.actor())
			if at < c.own || at == c.own && w.r.IntN(2) == 0 {
				more.own++
			}
			after := more.decide(b)
			if rank(after) > rank(before) {
				t.Fatalf("seed %d: %+v is %s, and with one more, %v, %s\n%s", seed, c, before.Code, more.actors, after.Code, w.policies.String())
			}
			shuffled := more
			shuffled.actors = slices.Clone(more.actors)
			w.r.Shuffle(len(shuffled.actors), func(i, j int) {
				shuffled.actors[i], shuffled.actors[j] = shuffled.actors[j], shuffled.actors[i]
			})
			shuffled.own = w.r.IntN(len(shuffled.actors) + 1)
			if again := shuffled.decide(b); rank(again) != rank(after) {
				t.Fatalf("seed %d: %+v is %s, and in another order, %v, %s\n%s", seed, more, after.Code, shuffled.actors, again.Code, w.policies.String())
			}
			// The one who is named is one of them.
			if after.Party != "" && after.Party != after.Principal && !slices.Contains(after.Actors, after.Party) {
				t.Fatalf("seed %d: %s is named, and is none of %s, %v", seed, after.Party, after.Principal, after.Actors)
			}
			if after.Outcome == writ.Deny && after.Party == "" {
				t.Fatalf("seed %d: %s names nobody", seed, after.Code)
			}
			if rank(before) == 2 {
				allowed++
			}
			if rank(after) < rank(before) {
				worse++
			}
		}
	}
	if allowed < 5*authorityWorlds() || worse < authorityWorlds() {
		t.Errorf("only %d calls were allowed, and %d got worse: the worlds show too little", allowed, worse)
	}
}

// TestGroupsOfTokensAreGroups: that a token names a group is as good as that the
// bundle holds its principal to be in it, and as bad: permits, reviews, forbids.
// Some of the groups are not held by the bundle, and some are named twice.
func TestGroupsOfTokensAreGroups(t *testing.T) {
	seen := map[writ.Outcome]int{}
	mattered := 0
	for seed := range authorityWorlds() {
		w := newRandomWorld(uint64(1000+seed), true)
		var held [worldGroups]bool
		for g := range held {
			held[g] = w.r.IntN(4) > 0
		}
		byToken := w.build(t, nil, held)
		for range 4 {
			groupsOf := map[int][]int{}
			for u := range worldUsers {
				groupsOf[u] = w.some(worldGroups, 3)
			}
			byBundle := w.build(t, groupsOf, held)
			for range 12 {
				c := w.call()
				c.groups = groupsOf[c.user]
				without := c
				without.groups = nil
				want := without.decide(byBundle)
				if len(c.groups) > 0 && w.r.IntN(2) == 0 {
					c.groups = append(slices.Clone(c.groups), c.groups[0])
				}
				got := c.decide(byToken)
				if got.Code != want.Code || got.Party != want.Party || got.Explanation != want.Explanation {
					t.Fatalf("seed %d: %+v: %s by the token, %s by the bundle\n%s", seed, c, got.Code, want.Code, w.policies.String())
				}
				seen[got.Outcome]++
				if without.decide(byToken).Code != got.Code {
					mattered++
				}
			}
		}
	}
	if seen[writ.Allow] == 0 || seen[writ.Deny] == 0 || seen[writ.ReviewRequired] == 0 || mattered < authorityWorlds() {
		t.Errorf("%v, and groups mattered %d times: the worlds show too little", seen, mattered)
	}
}

// TestFewerGroupsPermitNoMore: where groups only permit, whoever is in fewer of
// them may no more.
func TestFewerGroupsPermitNoMore(t *testing.T) {
	fewer := 0
	for seed := range authorityWorlds() {
		w := newRandomWorld(uint64(2000+seed), false)
		b := w.build(t, nil, allHeld)
		for range 40 {
			c := w.call()
			if len(c.groups) == 0 {
				continue
			}
			less := c
			i := w.r.IntN(len(c.groups))
			less.groups = slices.Delete(slices.Clone(c.groups), i, i+1)
			before, after := c.decide(b), less.decide(b)
			if rank(after) > rank(before) {
				t.Fatalf("seed %d: %+v is %s, and with %v %s\n%s", seed, c, before.Code, less.groups, after.Code, w.policies.String())
			}
			if rank(after) < rank(before) {
				fewer++
			}
		}
	}
	if fewer < authorityWorlds()/4 {
		t.Errorf("groups mattered %d times: the worlds show too little", fewer)
	}
}
