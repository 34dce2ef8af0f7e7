package policy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// TestCutFindsTheSame validates random policies against the cut of the schema
// and against the whole: the findings are the same, up to which of several
// like actions they name.
func TestCutFindsTheSame(t *testing.T) {
	accepted, refused, spared := 0, 0, 0
	for seed := range uint64(12) {
		a, r, s := cutFindsTheSame(t, seed)
		accepted, refused, spared = accepted+a, refused+r, spared+s
	}
	if accepted < 100 || refused < 100 || spared < 1000 {
		t.Errorf("%d accepted, %d refused, %d actions spared: too few to mean anything", accepted, refused, spared)
	}
	t.Logf("%d accepted, %d refused, %d actions spared", accepted, refused, spared)
}

func cutFindsTheSame(t testing.TB, seed uint64) (accepted, refused, spared int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	in := testTypes(t)
	in.Contracts = append(in.Contracts, randomTools(t, r, "many", 40)...)
	s := mustSchema(t, in)
	whole, cutter := validator(t, s), policy.NewCutter(s)
	for range 60 {
		text := randomPolicy(r)
		var parsed cedar.Policy
		if err := parsed.UnmarshalCedar([]byte(text)); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		p := (*ast.Policy)(parsed.AST())
		actions, represented, got := cutter.Validate(p)
		if len(actions) == 0 {
			continue
		}
		spared += len(actions) - represented
		full := *p
		full.Action = ast.ScopeTypeInSet{Entities: actions} // an open scope means calls, here as there
		want := whole.Policy("", &full)
		if !slices.Equal(findings(got), findings(want)) {
			t.Errorf("seed %d: %s\n got %q\nwant %q", seed, text, findings(got), findings(want))
		}
		if want == nil {
			accepted++
		} else {
			refused++
		}
	}
	return accepted, refused, spared
}

var anyAction = regexp.MustCompile(`Action::"[^"]*"`)

// findings are a validator's messages, without the names of actions.
func findings(err error) []string {
	if err == nil {
		return nil
	}
	list := strings.Split(anyAction.ReplaceAllString(err.Error(), "ACTION"), "\n")
	slices.Sort(list)
	return slices.Compact(list)
}

// randomTools makes a server with n tools.
func randomTools(t testing.TB, r *rand.Rand, server string, n int) []*contract.Contract {
	t.Helper()
	g := &callMaker{r: r}
	reviews, tools := map[string]contract.Review{}, []any{}
	for i := range n {
		name := fmt.Sprintf("tool_%d", i)
		review := contract.Review{
			Effect: []string{"pure", "read", "write"}[r.IntN(3)], NoEvidence: "a test",
			Arguments: map[string]contract.Argument{}, WhenAbsent: map[string]any{},
		}
		tools = append(tools, map[string]any{"name": name, "inputSchema": g.object(&review, "", 1)})
		reviews[name] = review
	}
	text, err := json.Marshal(tools)
	if err != nil {
		t.Fatal(err)
	}
	return contracts(t, contract.Declaration{ID: server, Endpoint: "https://s.example", Tools: reviews}, string(text))
}

func randomPolicy(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name := func() string { return pick("a", "b", "type", "id", "path", "currency") }
	read := func() string { return "context.arguments." + name() }
	condition := func() string {
		n := name()
		return pick(
			read()+` == "one"`, read()+" > 3", read()+` like "a*"`, read()+" in Group::\"g\"", read()+".b",
			"context.arguments has "+n, "context.arguments has "+n+" && context.arguments."+n+` == "one"`,
			"context.arguments has "+n+" && context.arguments."+n+" == context.arguments."+n,
			`context.arguments["x-y"] == 1`, "context.arguments == {a: 1}", `[context.arguments].contains({"type": "x"})`, "context.arguments has a.b",
			`context.purpose == "x"`, `context has purpose && context.purpose == "x"`, "context has element", "context has review",
			`resource.status == "x"`, "resource is Tool", "resource is Path && resource.name == \"x\"", `resource.effect == "read"`,
			"principal.tenant == \"x\"", "principal is User", `action in Action::"many:read"`, `action == Action::"payments/get_payment"`,
			`action in [Action::"read", Action::"files"]`, `(if action in Action::"many" then context.arguments else context.arguments).a == 1`,
			`[context.arguments].contains(context.arguments)`, `{x: context}.x.purpose == "a"`, "true", "false",
			`action in Action::"many:pure" && context.arguments.a == 1`,
		)
	}
	conditions := ""
	for range 1 + r.IntN(2) {
		conditions += fmt.Sprintf(" %s { %s %s %s }", pick("when", "unless"), condition(), pick("&&", "||"), condition())
	}
	scope := pick("action", `action in Action::"many"`, `action in Action::"many:read"`, `action in Action::"read"`, `action in Action::"write"`,
		`action in [Action::"many:write", Action::"approve"]`, `action in Action::"approve"`, fmt.Sprintf(`action == Action::"many/tool_%d"`, r.IntN(40)),
		`action in Action::"files"`, `action in [Action::"payments", Action::"github/label_write"]`)
	return fmt.Sprintf("permit (%s, %s, %s)%s;", pick("principal", "principal is User", `principal in Group::"g"`), scope,
		pick("resource", "resource is Tool", `resource in Path::"/srv"`, "resource is Supplier"), conditions)
}

// TestCutIsSmall: a policy over thousands of tools that reads little is
// validated against few.
func TestCutIsSmall(t *testing.T) {
	in := testTypes(t)
	in.Contracts = append(in.Contracts, randomTools(t, rand.New(rand.NewPCG(1, 1)), "many", 500)...)
	cutter := policy.NewCutter(mustSchema(t, in))
	var p cedar.Policy
	if err := p.UnmarshalCedar([]byte(`permit (principal, action, resource) when { context.arguments has a && resource in Path::"/" };`)); err != nil {
		t.Fatal(err)
	}
	actions, represented, err := cutter.Validate((*ast.Policy)(p.AST()))
	if err != nil || len(actions) < 500 || represented > 60 {
		t.Errorf("%v: %d actions, %d of them validated", err, len(actions), represented)
	}
}
