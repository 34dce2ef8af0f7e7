package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/policy"
)

// world is a random bundle: entities, some of them missing, and policies
// with every kind of scope.
type world struct {
	r        *rand.Rand
	entities types.EntityMap
	groups   map[types.EntityUID][]types.EntityUID
	set      *cedar.PolicySet
	ids      []string
	policies []*cedar.Policy
}

func newWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	w := &world{r: rand.New(rand.NewPCG(seed, 1)), entities: types.EntityMap{}, set: cedar.NewPolicySet()}
	for _, typ := range []types.EntityType{"User", "Group", "Doc", "Folder"} {
		for i := range 6 {
			if w.r.IntN(6) == 0 {
				continue // an entity that nobody holds
			}
			parent := map[types.EntityType]types.EntityType{"User": "Group", "Group": "Group", "Doc": "Folder", "Folder": "Folder"}[typ]
			var parents []types.EntityUID
			for range w.r.IntN(4) {
				parents = append(parents, uid(parent, w.r.IntN(6))) // cycles too
			}
			e := types.Entity{UID: uid(typ, i), Parents: types.NewEntityUIDSet(parents...)}
			if w.r.IntN(2) == 0 {
				e.Attributes = types.NewRecord(types.RecordMap{"level": types.Long(w.r.IntN(5))})
			}
			w.entities[e.UID] = e
		}
	}
	// Actions 0 to 5 in groups 6 to 9, groups in groups, never in a circle.
	for i := range 10 {
		var parents []types.EntityUID
		for range w.r.IntN(3) {
			if first := max(i+1, 6); first < 10 {
				parents = append(parents, uid("Action", first+w.r.IntN(10-first)))
			}
		}
		w.entities[uid("Action", i)] = types.Entity{UID: uid("Action", i), Parents: types.NewEntityUIDSet(parents...)}
	}
	w.groups = map[types.EntityUID][]types.EntityUID{}
	for i := range 6 {
		action := uid("Action", i)
		w.groups[action] = groupsOf(w.entities, action)
	}
	for i := range 1 + w.r.IntN(60) {
		var p cedar.Policy
		text := w.policy()
		if err := p.UnmarshalCedar([]byte(text)); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		id := fmt.Sprintf("p%03d", i)
		w.set.Add(cedar.PolicyID(id), &p)
		w.ids, w.policies = append(w.ids, id), append(w.policies, &p)
	}
	return w
}

func uid(t types.EntityType, i int) types.EntityUID {
	return types.NewEntityUID(t, types.String(fmt.Sprint(i)))
}

func (w *world) policy() string {
	effect := []string{"permit", "forbid"}[w.r.IntN(2)]
	action := func() string { return uid("Action", w.r.IntN(10)).String() }
	actions := []string{
		"action", "action == " + action(), "action in " + action(),
		"action in [" + strings.Join([]string{action(), action(), action()}[:w.r.IntN(4)], ", ") + "]",
	}[w.r.IntN(4)]
	var conditions string
	for range w.r.IntN(3) {
		conditions += fmt.Sprintf(" %s { %s }", []string{"when", "unless"}[w.r.IntN(2)], []string{
			"true", "false", "principal.level > 2", "resource.level == context.level", `context.level < 3`,
			`decimal("10000") == decimal("1.0")`, `action in Action::"7"`, `principal in Group::"1" || resource has level`,
		}[w.r.IntN(8)])
	}
	return fmt.Sprintf("%s (%s, %s, %s)%s;", effect, w.scope("principal", "User", "Group"), actions, w.scope("resource", "Doc", "Folder"), conditions)
}

func (w *world) scope(variable string, leaf, group types.EntityType) string {
	one, all := uid(leaf, w.r.IntN(6)), uid(group, w.r.IntN(6))
	switch w.r.IntN(6) {
	case 0:
		return variable
	case 1:
		return fmt.Sprintf("%s == %s", variable, one)
	case 2:
		return fmt.Sprintf("%s is %s", variable, []types.EntityType{leaf, group}[w.r.IntN(2)])
	case 3:
		return fmt.Sprintf("%s is %s in %s", variable, leaf, all)
	}
	return fmt.Sprintf("%s in %s", variable, []types.EntityUID{one, all, all}[w.r.IntN(3)])
}

func (w *world) query() policy.Query {
	q := policy.Query{
		Principal: uid([]types.EntityType{"User", "Group"}[w.r.IntN(2)], w.r.IntN(6)),
		Action:    uid("Action", w.r.IntN(6)),
		Resource:  uid([]types.EntityType{"Doc", "Folder"}[w.r.IntN(2)], w.r.IntN(6)),
		Entities:  w.entities,
	}
	if w.r.IntN(3) > 0 {
		q.Context = types.NewRecord(types.RecordMap{"level": types.Long(w.r.IntN(5))})
	}
	return q
}

// checkWorld compares the index with a scan of all policies.
func checkWorld(t testing.TB, seed uint64) (allowed, denied, failed int) {
	t.Helper()
	w := newWorld(t, seed)
	indexed := policy.NewIndexed(w.ids, w.policies, w.groups)
	for range 30 {
		q := w.query()
		v := indexed.Judge(q)
		got, want := outcomeOf(t, v), scan(w.set, q)
		if !got.equal(want) {
			t.Fatalf("seed %d: %v %v %v:\n got %v\nscan %v\n%s", seed, q.Principal, q.Action, q.Resource, got, want, w.set.MarshalCedar())
		}
		if len(got.errors) > 0 {
			failed++
		}
		if want.decision == types.Allow {
			allowed++
		} else {
			denied++
		}
		checkNearest(t, w, indexed, q, v)
	}
	return allowed, denied, failed
}

// checkNearest compares what Nearest says of each permit with what Cedar says
// of its parts.
func checkNearest(t testing.TB, w *world, indexed *policy.Indexed, q policy.Query, v policy.Verdict) {
	t.Helper()
	near := indexed.Nearest(q)
	for _, n := range near {
		if n.Policy.Effect != types.Permit || slices.Contains(v.Permits, n.Policy) {
			t.Fatalf("%s is near, and forbids or permits", n.Policy.ID)
		}
		head, conditions := partsOf(w.set.Get(cedar.PolicyID(n.Policy.ID)))
		want := policy.Near{
			Policy:    n.Policy,
			Principal: alone(t, "permit ("+head[0]+", action, resource);", q),
			Resource:  alone(t, "permit (principal, action, "+head[2]+");", q),
			Condition: alone(t, "permit (principal, action, resource)"+conditions+";", q),
		}
		if n != want {
			t.Fatalf("%s: got %+v, want %+v\n%s", n.Policy.ID, n, want, w.set.Get(cedar.PolicyID(n.Policy.ID)).MarshalCedar())
		}
		if !alone(t, "permit (principal, "+head[1]+", resource);", q) {
			t.Fatalf("%s is near, but its action doesn't match", n.Policy.ID)
		}
	}
	if len(near) > 8 {
		t.Fatalf("%d are near, more than 8", len(near))
	}
	score := func(n policy.Near) (s int) {
		for _, ok := range []bool{n.Principal, n.Resource, n.Condition} {
			if ok {
				s++
			}
		}
		return s
	}
	if !slices.IsSortedFunc(near, func(a, b policy.Near) int { return score(b) - score(a) }) {
		t.Fatalf("the nearest don't come first: %v", near)
	}
}

// partsOf splits a policy that Cedar has printed into its three scopes and
// its conditions.
func partsOf(p *cedar.Policy) (head [3]string, conditions string) {
	text := strings.TrimSuffix(string(p.MarshalCedar()), ";")
	_, text, _ = strings.Cut(text, "(")
	scopes, conditions, _ := strings.Cut(text, "\n)")
	if i := strings.Index(text, "\n)"); i < 0 {
		scopes, conditions, _ = strings.Cut(text, " )")
	}
	scopes = strings.NewReplacer("\n", " ").Replace(scopes)
	first, rest, _ := strings.Cut(scopes, ", ")
	i := strings.LastIndex(rest, ",")
	return [3]string{first, rest[:i], rest[i+1:]}, conditions
}

func alone(t testing.TB, text string, q policy.Query) bool {
	t.Helper()
	var p cedar.Policy
	if err := p.UnmarshalCedar([]byte(text)); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return scan(cedar.PolicyMap{"p": &p}, q).decision == types.Allow
}

func TestIndexEqualsScan(t *testing.T) {
	t.Parallel()
	var allowed, denied, failed int
	for seed := range uint64(150) {
		a, d, f := checkWorld(t, seed)
		allowed, denied, failed = allowed+a, denied+d, failed+f
	}
	if allowed < 300 || denied < 300 || failed < 300 {
		t.Errorf("%d allowed, %d denied, %d with errors: too one-sided to mean anything", allowed, denied, failed)
	}
}

func FuzzIndexEqualsScan(f *testing.F) {
	for _, seed := range []uint64{0, 1, 42, 1 << 40} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkWorld(t, seed) })
}
