package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
)

// randomPolicy writes policies, mostly well-typed, over the bundle of
// testdata/messages/payments.txtar.
type randomPolicy struct{ *rand.Rand }

func (r randomPolicy) pick(from ...string) string { return from[r.IntN(len(from))] }

// of writes an expression that is of a type, or now and then of another.
func (r randomPolicy) of(want string, depth int) string {
	if r.IntN(40) == 0 {
		want = r.pick("Bool", "Long", "String", "decimal", "entity", "set", "datetime")
	}
	sub := func(want string) string { return r.of(want, depth-1) }
	leaf := depth <= 0 || r.IntN(4) == 0
	switch want {
	case "Bool":
		if leaf {
			return "(" + r.pick("true", "false", "context.tool.reversible", "context.arguments has due", "resource has note",
				"context has purpose", "resource is Supplier", "principal is User", "context.arguments has amount_gbp", "context.arguments has nothing") + ")"
		}
		switch r.IntN(20) {
		case 13:
			return `(resource.hasTag("t") && resource.getTag("t") == ` + sub("String") + ")"
		case 14:
			return "(" + sub("entity") + ` is ` + r.pick("User", "Supplier", "Nobody") + ` in ` + r.pick(`Group::"finance"`, sub("entity")) + ")"
		case 15:
			return "({a: " + sub("Long") + ", b: " + sub("String") + "}." + r.pick("a", "b", "c") + " == " + sub("Long") + ")"
		case 16:
			return r.pick("(context has token.issuer)", "(context has nothing.more)", `(context.arguments["due"] == "x")`, "(context has arguments.invoice.state)")
		case 17:
			return "((if " + sub("Bool") + " == true then " + sub("entity") + " else " + sub("entity") + ") == " + sub("entity") + ")"
		case 18:
			return sub("decimal") + r.pick(".lessThan()", ".isIpv4()")
		case 0:
			return "(" + sub("Bool") + " && " + sub("Bool") + ")"
		case 1:
			return "(" + sub("Bool") + " || " + sub("Bool") + ")"
		case 2:
			return "!" + sub("Bool")
		case 3:
			return "(if " + sub("Bool") + " == true then " + sub("Bool") + " else " + sub("Bool") + ")"
		case 4:
			t := r.pick("Long", "String", "decimal", "entity", "set")
			return "(" + sub(t) + r.pick(" == ", " != ") + sub(t) + ")"
		case 5:
			return "(" + sub("Long") + r.pick(" < ", " <= ", " > ", " >= ") + sub("Long") + ")"
		case 6:
			return sub("decimal") + r.pick(".lessThan(", ".greaterThan(", ".lessThanOrEqual(", ".greaterThanOrEqual(") + sub("decimal") + ")"
		case 7:
			return "(" + sub("entity") + " in " + r.pick(sub("entity"), "["+sub("entity")+"]") + ")"
		case 8:
			return "(" + sub("String") + ` like "*a*")`
		case 9:
			return sub("set") + ".contains(" + sub("String") + ")"
		case 10:
			return sub("set") + r.pick(".containsAny(", ".containsAll(") + sub("set") + ")"
		case 11:
			return sub("set") + ".isEmpty()"
		case 12:
			return "(context.arguments has due && context.arguments.due == " + sub("String") + ")"
		}
		return "(" + sub("datetime") + " < " + sub("datetime") + ")"
	case "Long":
		if leaf {
			return r.pick("1", "(-7)", "context.arguments.copies", "context.local.hour")
		}
		return "(" + sub("Long") + r.pick(" + ", " - ", " * ") + sub("Long") + ")"
	case "String":
		if leaf {
			return r.pick(`"a"`, `"GBP"`, "context.arguments.currency", "context.arguments.due", "resource.status", "resource.note", "context.purpose", `resource.getTag("t")`)
		}
		return "(if " + sub("Bool") + " == true then " + sub("String") + " else " + sub("String") + ")"
	case "decimal":
		return r.pick(`decimal("1.5")`, `decimal("1")`, "context.arguments.amount_gbp", "resource.limit_gbp")
	case "entity":
		return r.pick("principal", "resource", "context.tool", "context.principal", "context.arguments.invoice", "context.arguments.invoice.supplier",
			`User::"ann"`, `Group::"finance"`, `Supplier::"ACME"`, `Nobody::"x"`, "resource.onboarded_by", `Method::"card"`, "context.arguments.method")
	case "set":
		return r.pick(`["a", "b"]`, `["GBP"]`, "context.arguments.tags", "context.unknown", "[]", `["a", 1]`)
	case "datetime":
		return r.pick("context.now", `datetime("2026-01-01")`, `datetime("x")`)
	}
	panic(want)
}

// TestRandomPolicies compares what is said about random policies with Cedar's
// validator: what it accepts has no mistake, and what it refuses has one.
func TestRandomPolicies(t *testing.T) {
	s := messageSchema(t, "testdata/messages/payments.txtar")
	cutter := newCutter(s)
	r := randomPolicy{rand.New(rand.NewPCG(7, 11))}
	accepted, refused, unexplained := 0, 0, 0
	for range 8000 {
		scope := r.pick(`principal, action == Action::"payments/create_payment", resource`,
			`principal is User, action in Action::"payments", resource is Supplier`, `principal, action in Action::"payments", resource`)
		effect := r.pick("permit", "forbid")
		text := fmt.Sprintf("%s (%s) %s { %s };", effect, scope, r.pick("when", "unless"), r.of("Bool", 3))
		src := Source{File: "p.cedar", Text: []byte(text)}
		if f := checkLimits(src); f != nil {
			t.Fatalf("%s: %v", text, f)
		}
		parsed, err := cedar.NewPolicyListFromBytes("p.cedar", src.Text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		p := (*ast.Policy)(parsed[0].AST())
		actions := s.covers[actionUID("payments")]
		if eq, ok := p.Action.(ast.ScopeTypeEq); ok {
			actions = []types.EntityUID{eq.Entity}
		}
		in := lintInput{policy: p, source: src, text: src.Text, actions: actions, schema: s, names: newActionNames(s)}
		err = cutter.cut(p, actions).validate(p)
		mistakes := check(in).mistakes()
		switch {
		case err == nil:
			accepted++
			if len(mistakes) > 0 {
				t.Fatalf("%s\nCedar accepts this, but:\n%v", text, mistakes)
			}
			lint(in)
		default:
			refused++
			faults := explain(in, err).faults
			if len(faults.Errors()) == 0 {
				t.Fatalf("%s\nCedar refuses this:\n%v\nbut nothing is said", text, err)
			}
			if strings.Contains(faults.Error(), "Cedar's validator:") {
				unexplained++
				if len(mistakes) == 0 {
					t.Logf("%s\n%v\n%v", text, err, faults)
				}
			}
		}
	}
	if accepted < 500 || refused < 500 {
		t.Errorf("%d accepted, %d refused: too few to mean anything", accepted, refused)
	}
	if unexplained*50 > refused {
		t.Errorf("%d of %d refusals are in the validator's words", unexplained, refused)
	}
}

// messageSchema makes the schema of an archive of testdata/messages with one
// server.
func messageSchema(t testing.TB, archive string) *Schema {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	all := Types{Principals: []types.EntityType{"User"}, Actors: []types.EntityType{"Agent"}}
	var d contract.Declaration
	var tools []*definition.Tool
	for _, f := range a.Files {
		switch {
		case strings.HasPrefix(f.Name, "servers/"):
			err = json.Unmarshal(f.Data, &d)
		case strings.HasPrefix(f.Name, "tools/"):
			tools, err = definition.ParseList(f.Data)
		case f.Name == "schema.cedarschema":
			all.Schema = Source{File: f.Name, Text: f.Data}
		}
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
	}
	var faults contract.FieldErrors
	if all.Contracts, faults, _ = contract.New(d, tools); faults != nil {
		t.Fatal(faults)
	}
	s, errs := NewSchema(all)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return s
}

// TestExplainUnknown makes sure that an error which nothing here knows about
// is passed on, once.
func TestExplainUnknown(t *testing.T) {
	s := messageSchema(t, "testdata/messages/payments.txtar")
	text := `permit (principal, action == Action::"payments/create_payment", resource) when { resource.status == "x" };`
	parsed, err := cedar.NewPolicyListFromBytes("p.cedar", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	in := lintInput{
		policy: (*ast.Policy)(parsed[0].AST()), source: Source{File: "p.cedar", Text: []byte("// x\n" + text)}, text: []byte(text), offset: 5,
		actions: []types.EntityUID{actionUID("payments/create_payment")}, schema: s, names: newActionNames(s),
	}
	unknown := errors.New("something about `status`")
	got := explain(in, errors.Join(unknown, fmt.Errorf("%s", strings.Repeat("x", 1000)), errors.Join(unknown))).faults.Sort()
	want := "p.cedar:2:1: Cedar's validator: " + strings.Repeat("x", maxMessage) + "…\n" +
		"p.cedar:2:91: Cedar's validator: something about `status`"
	if got.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", got.Error(), want)
	}
}
