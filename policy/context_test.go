package policy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// TestContext checks each attribute of the context.
func TestContext(t *testing.T) {
	s := testSchema(t)
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here:", err)
	}
	now := time.Date(2026, 11, 29, 23, 30, 0, 999_999_999, time.UTC) // a Sunday; Monday in Berlin
	user, agent, tool := types.NewEntityUID("User", "dana"), types.NewEntityUID("Agent", "copilot"), types.NewEntityUID("Tool", "files/search")
	set := func(list ...types.Value) types.Set { return types.NewSet(list...) }
	rec := func(m types.RecordMap) types.Record { return types.NewRecord(m) }
	ms := func(t time.Time) types.Datetime { return types.NewDatetimeFromMillis(t.UnixMilli()) }
	arguments := rec(types.RecordMap{"query": types.String("x")})
	element := rec(types.RecordMap{"force": types.True})

	least := types.RecordMap{
		"now": ms(now), "local": rec(types.RecordMap{"weekday": types.String("sunday"), "hour": types.Long(23)}),
		"principal": user, "actors": set(), "tool": tool, "arguments": arguments,
		"evidence": set(), "unsupported": set(), "classifications": set(), "unknown": set(),
	}
	got := s.Context(policy.ContextInput{Now: now, Principal: user, Tool: tool, Arguments: arguments})
	if want := rec(least); !got.Equal(want) {
		t.Errorf("the least context is\n %v, want\n %v", got, want)
	}

	declared, expires := now.Add(-time.Minute), now.Add(time.Hour)
	got = s.Context(policy.ContextInput{
		Now: now, Zone: zone,
		Intent:    &writ.Intent{ID: "i1", Purpose: "pay-invoice", DeclaredAt: declared, ExpiresAt: expires},
		Token:     &writ.Token{Issuer: "https://login.example", Scopes: []string{"a", "b"}, IssuedAt: declared, ExpiresAt: expires},
		Principal: user, Actors: []types.EntityUID{agent}, Tool: tool, Arguments: arguments, Element: &element,
		Evidence:    []policy.EvidenceSeen{{Argument: "/supplier", Kind: "document", Classification: "internal", Trusted: true}},
		Unsupported: func() []string { return []string{"/a"} }, Classifications: []string{"internal"}, Unknown: []string{"/b"},
		Review: types.NewEntityUID("Policy", "merge"),
	})
	most := types.RecordMap{
		"now": ms(now), "local": rec(types.RecordMap{"weekday": types.String("monday"), "hour": types.Long(0)}),
		"intent": rec(types.RecordMap{
			"id": types.String("i1"), "purpose": types.String("pay-invoice"), "declared_at": ms(declared), "expires_at": ms(expires),
		}),
		"purpose": types.String("pay-invoice"),
		"token": rec(types.RecordMap{
			"issuer": types.String("https://login.example"), "scopes": set(types.String("a"), types.String("b")),
			"issued_at": ms(declared), "expires_at": ms(expires),
		}),
		"principal": user, "actors": set(agent), "tool": tool, "arguments": arguments, "element": element,
		"evidence": set(rec(types.RecordMap{
			"argument": types.String("/supplier"), "kind": types.String("document"),
			"classification": types.String("internal"), "trusted": types.True,
		})),
		"unsupported": set(types.String("/a")), "classifications": set(types.String("internal")), "unknown": set(types.String("/b")),
		"review": types.NewEntityUID("Policy", "merge"),
	}
	if want := rec(most); !got.Equal(want) {
		t.Errorf("the greatest context is\n %v, want\n %v", got, want)
	}
}

// TestContextManyTypes: context.principal and context.actors have one type
// or are not there at all.
func TestContextManyTypes(t *testing.T) {
	in := testTypes(t)
	in.Principals, in.Actors = []types.EntityType{"User", "Group"}, []types.EntityType{"Agent", "User"}
	many := mustSchema(t, in)
	q := policy.ContextInput{
		Now: time.Unix(0, 0), Principal: types.NewEntityUID("User", "dana"),
		Actors: []types.EntityUID{types.NewEntityUID("Agent", "a")}, Tool: types.NewEntityUID("Tool", "github/get_me"),
	}
	for _, name := range []types.String{"principal", "actors"} {
		if _, ok := reparsed(t, many).Actions[action("github/get_me")].AppliesTo.Context[name]; ok {
			t.Errorf("the schema has context.%s, of several types", name)
		}
		if v, ok := many.Context(q).Get(name); ok {
			t.Errorf("context.%s is %v, and the schema has none", name, v)
		}
	}
	one := testSchema(t)
	q.Principal, q.Actors = types.NewEntityUID("Group", "g"), []types.EntityUID{types.NewEntityUID("User", "u")}
	for _, name := range []types.String{"principal", "actors"} {
		if v, ok := one.Context(q).Get(name); ok {
			t.Errorf("context.%s is %v, which is not of the schema's type", name, v)
		}
	}
}

// TestSetContext: leaving out what no policy of the action reads changes no
// verdict.
func TestSetContext(t *testing.T) {
	s := testSchema(t)
	set := mustCompileHeld(t, s, file("p.cedar", `
@id("purpose") permit (principal, action == Action::"files/search", resource) when { context has purpose && context.purpose == "x" };
@id("arguments") permit (principal, action == Action::"files/read_file", resource) when { context.arguments has head && context.arguments.head > 3 };
@id("whole") permit (principal, action == Action::"files/move_file", resource) when { [context].contains(context) };
@id("branch") permit (principal, action == Action::"files/list_roots", resource) when { (if principal is User then context else context).local.hour < 23 };
@id("evidence") @code("NEVER_EVER") forbid (principal, action in Action::"payments", resource) unless { context.evidence.isEmpty() && context["unsupported"].isEmpty() };
@id("review") permit (principal, action in Action::"approve", resource) when { context.review == Policy::"review" };`))
	in := policy.ContextInput{
		Now: time.Unix(0, 0), Principal: types.NewEntityUID("User", "u"), Tool: types.NewEntityUID("Tool", "t"),
		Intent:    &writ.Intent{ID: "i", Purpose: "x"},
		Arguments: types.NewRecord(types.RecordMap{"head": types.Long(4)}),
		Evidence:  []policy.EvidenceSeen{{Argument: "/a"}},
		Review:    types.NewEntityUID("Policy", "review"),
	}
	for id, want := range map[string]string{
		"files/search": "purpose", "files/read_file": "arguments", "files/move_file": "whole", "files/list_roots": "branch",
		"payments/get_payment": "evidence", "approve:files/search": "review", "github/get_me": "",
	} {
		q := policy.Query{Principal: in.Principal, Action: action(id), Resource: in.Tool, Context: s.Context(in)}
		all := set.Judge(q)
		q.Context = set.Context(q.Action, in)
		some := set.Judge(q)
		if got := strings.Join(idsOf(append(some.Permits, some.Forbids...)), " "); got != want || len(some.ForbidErrors)+len(some.PermitErrors) > 0 {
			t.Errorf("%s: satisfied %q, want %q; errors %v %v", id, got, want, some.ForbidErrors, some.PermitErrors)
		}
		if !slices.Equal(all.Permits, some.Permits) || !slices.Equal(all.Forbids, some.Forbids) {
			t.Errorf("%s: the whole context gives another verdict", id)
		}
	}
	if got := set.Context(action("files/search"), in); got.Len() != 1 {
		t.Errorf("only the purpose is read of %v", got)
	}
}

// TestProjectionConforms makes random contracts and calls: Cedar's own
// validator accepts every context that they lead to.
func TestProjectionConforms(t *testing.T) {
	seen := 0
	for seed := range uint64(300) {
		seen += conforms(t, seed)
	}
	if seen < 1000 {
		t.Errorf("only %d calls came as far as a context: too few to mean anything", seen)
	}
	t.Logf("%d contexts", seen)
}

func FuzzProjectionConforms(f *testing.F) {
	for _, seed := range []uint64{0, 7, 1 << 50} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { conforms(t, seed) })
}

// conforms checks the calls of one random contract, and returns how many of
// them came as far as a context.
func conforms(t testing.TB, seed uint64) (seen int) {
	t.Helper()
	g := &callMaker{r: rand.New(rand.NewPCG(seed, 2))}
	review := contract.Review{Effect: "write", NoEvidence: "a test", Arguments: map[string]contract.Argument{}, WhenAbsent: map[string]any{}}
	root := g.object(&review, "", 0)
	schema, err := json.Marshal(map[string]any{"name": "t", "inputSchema": root})
	if err != nil {
		t.Fatal(err)
	}
	cs := contracts(t, contract.Declaration{
		ID: "s", Endpoint: "https://s.example", Tools: map[string]contract.Review{"t": review},
	}, "["+string(schema)+"]")
	s := mustSchema(t, policy.Types{
		Contracts: cs, Principals: []types.EntityType{"User"}, Actors: []types.EntityType{"Agent"},
	})
	v := validator(t, s)
	for range 10 {
		text, err := json.Marshal(g.value(root))
		if err != nil {
			t.Fatal(err)
		}
		args := args(t, string(text))
		if cs[0].Validate(args) != nil {
			continue
		}
		p, failure := policy.Project(cs[0].Arguments, args)
		if failure != nil || p.Target != nil {
			continue
		}
		in := policy.ContextInput{
			Now: time.Unix(g.r.Int64N(1<<33), 0), Principal: types.NewEntityUID("User", "u"),
			Tool: policy.ToolUID(cs[0]), Arguments: p.Record, Unknown: []string{"/x"},
		}
		q := types.Request{Principal: in.Principal, Action: action("s/t"), Resource: in.Tool, Context: s.Context(in)}
		if err := v.Request(q); err != nil {
			t.Fatalf("seed %d: %v\ncall %s\ncontext %v\nschema\n%s", seed, err, text, q.Context, s.Cedar())
		}
		in.Review = types.NewEntityUID("Policy", "r")
		q.Action, q.Context = action("approve:s/t"), s.Context(in)
		if err := v.Request(q); err != nil {
			t.Fatalf("seed %d: an approval: %v\ncall %s", seed, err, text)
		}
		seen++
	}
	return seen
}

// callMaker makes random input schemas and calls that more or less fit them.
type callMaker struct{ r *rand.Rand }

func (g *callMaker) object(review *contract.Review, path string, depth int) map[string]any {
	properties, required := map[string]any{}, []any{}
	for range 1 + g.r.IntN(4) {
		name := []string{"a", "b", "x-y", "in", "__entity", "Ärger", `q"uote`, "type", "id"}[g.r.IntN(9)]
		if properties[name] != nil {
			continue
		}
		full := name
		if path != "" {
			full = path + "." + name
		}
		must := strings.HasSuffix(path, "[]") || g.r.IntN(2) == 0
		properties[name] = g.schema(review, full, must, depth)
		if must {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

func (g *callMaker) schema(review *contract.Review, path string, must bool, depth int) map[string]any {
	kinds := 6
	if depth < 3 {
		kinds = 10
	}
	inSet := strings.Contains(path, "[]")
	switch k := g.r.IntN(kinds); k {
	case 0:
		if !inSet && !must {
			review.WhenAbsent[path] = g.r.IntN(2) == 0
		}
		return map[string]any{"type": "boolean"}
	case 1:
		return map[string]any{"type": "integer"}
	case 2:
		if g.r.IntN(3) == 0 {
			review.Arguments[path] = contract.Argument{Long: true}
		}
		return map[string]any{"type": "number"}
	case 3:
		return map[string]any{"type": "string", "enum": []any{"one", "Two", "3"}}
	case 4:
		a := contract.Argument{Entity: []string{"User", "Group", "Path", "Host", "Url", "Email"}[g.r.IntN(6)]}
		a.MayBeNew = (a.Entity == "User" || a.Entity == "Group") && g.r.IntN(2) == 0
		review.Arguments[path] = a
		return map[string]any{"type": "string"}
	case 5:
		return map[string]any{"type": "string"}
	case 6:
		return g.object(review, path, depth+1)
	case 7:
		review.Opaque = append(review.Opaque, path)
		return map[string]any{"type": []any{"string", "number"}}
	default:
		if inSet {
			return map[string]any{"type": "integer"}
		}
		if k == 8 {
			return map[string]any{"type": "array", "items": g.schema(review, path+"[]", true, 3)}
		}
		return map[string]any{"type": "array", "items": g.object(review, path+"[]", 3)}
	}
}

// value makes a value that fits the schema, mostly.
func (g *callMaker) value(schema map[string]any) any {
	odd := g.r.IntN(40) == 0
	switch typ := schema["type"]; typ {
	case "boolean":
		return g.r.IntN(2) == 0
	case "integer":
		return json.Number([]string{"0", "-3", "9007199254740991", "1e3", "1e21", "2.5"}[g.r.IntN(4+2*oddly(odd))])
	case "number":
		return json.Number([]string{"0", "-3", "1.5", "0.0001", "12345.25", "1e-5", "1e300"}[g.r.IntN(5+2*oddly(odd))])
	case "string":
		if list, ok := schema["enum"].([]any); ok {
			return list[g.r.IntN(len(list))]
		}
		return []string{"a", "/srv/work/../x", "/srv/work", "api.example.com", "https://api.example.com/x?y", "me@example.com", "ÄÖ", "{\"__extn\":1}", ""}[g.r.IntN(9)]
	case "object":
		out := map[string]any{}
		for name, s := range schema["properties"].(map[string]any) {
			if g.r.IntN(4) > 0 || strings.Contains(fmt.Sprint(schema["required"]), name) {
				out[name] = g.value(s.(map[string]any))
			}
		}
		return out
	case "array":
		out := []any{}
		for range g.r.IntN(4) {
			out = append(out, g.value(schema["items"].(map[string]any)))
		}
		return out
	default:
		return []any{"text", json.Number("1")}[g.r.IntN(2)]
	}
}

func oddly(odd bool) int {
	if odd {
		return 1
	}
	return 0
}
