package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// The benchmarks' bundle: 100 servers of 20 tools each, and n policies. Ten
// concern s0/tool1. The others name one other tool (two thirds), a server's
// group (a quarter), two tools, or an effect and so also s0/tool1.
const benchServers, benchTools, benchGroups = 100, 20, 200

func benchTypes(b testing.TB) policy.Types {
	var made []*contract.Contract
	for server := range benchServers {
		var tools []string
		reviews := map[string]contract.Review{}
		for tool := range benchTools {
			name := fmt.Sprintf("tool%d", tool)
			tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object","required":["path","amount","kind"],"properties":{
"path":{"type":"string"},"amount":{"type":"number"},"kind":{"type":"string","enum":["a","b"]},"limit":{"type":"integer"},
"own_%d_%d":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},"options":{"type":"object","properties":{"force":{"type":"boolean"}}}}}}`,
				name, server, tool))
			reviews[name] = contract.Review{Effect: []string{"read", "write"}[tool%2], NoEvidence: "a benchmark"}
		}
		made = append(made, contracts(b, contract.Declaration{
			ID: fmt.Sprintf("s%d", server), Endpoint: fmt.Sprintf("https://s%d.example", server),
			Resources: []contract.Resource{{Path: []string{"path"}}}, Tools: reviews,
		}, "["+strings.Join(tools, ",")+"]")...)
	}
	return policy.Types{Contracts: made, Principals: []types.EntityType{"User"}, Actors: []types.EntityType{"Agent"}}
}

func benchPolicies(n int) []policy.Source {
	r := rand.New(rand.NewPCG(1, 5))
	var sources []policy.Source
	var text strings.Builder
	for i := range n {
		tool := func() string {
			return fmt.Sprintf(`Action::"s%d/tool%d"`, 1+r.IntN(benchServers-1), r.IntN(benchTools))
		}
		scope := "action == " + tool()
		switch k := r.IntN(100); {
		case i < 10:
			scope = `action == Action::"s0/tool1"`
		case k < 25:
			scope = fmt.Sprintf(`action in Action::"s%d:%s"`, 1+r.IntN(benchServers-1), []string{"read", "write"}[r.IntN(2)])
		case k < 32:
			scope = "action in [" + tool() + ", " + tool() + "]"
		case k < 34:
			scope = fmt.Sprintf(`action in Action::"%s"`, []string{"read", "write"}[r.IntN(2)])
		}
		principal := fmt.Sprintf(`principal in Group::"g%d"`, r.IntN(benchGroups))
		switch {
		case i < 10:
			principal = []string{`principal in Group::"g1"`, "principal"}[i%2]
		case r.IntN(3) == 0:
			principal = fmt.Sprintf(`principal == User::"u%d"`, r.IntN(1000))
		}
		resource := fmt.Sprintf(`resource in Path::"/srv/%d"`, r.IntN(50))
		if i < 10 {
			resource = "resource"
		}
		effect := "permit"
		if i%4 == 1 {
			effect = `@code("AMOUNT_DENIED") forbid`
		}
		fmt.Fprintf(&text, "@id(\"p%d\") %s (%s, %s, %s)\nwhen { context.arguments.amount.greaterThan(decimal(\"%d.0\")) && context.arguments.kind == \"a\" };\n",
			i, effect, principal, scope, resource, r.IntN(1000))
		if i%100 == 99 || i == n-1 {
			sources = append(sources, file(fmt.Sprintf("policies/%04d.cedar", i/100), text.String()))
			text.Reset()
		}
	}
	return sources
}

// benchQuery is a call of s0/tool1 by a user of two groups.
func benchQuery(b testing.TB, s *policy.Schema) policy.Query {
	t := &contract.Type{Kind: contract.Entity, Entity: "Path", Role: &contract.Resource{}}
	target, failure := t.NewEntity("/srv/1/a/b.txt")
	if failure != nil {
		b.Fatal(failure)
	}
	user := types.NewEntityUID("User", "u1")
	call, _ := s.Static(action("s0/tool1"))
	return policy.Query{
		Principal: user, Action: call.UID, Resource: target.UID,
		Entities: types.EntityMap{
			user:       {UID: user, Parents: types.NewEntityUIDSet(types.NewEntityUID("Group", "g1"), types.NewEntityUID("Group", "g2"))},
			target.UID: target, call.UID: call,
		},
		Context: s.Context(policy.ContextInput{
			Now: time.Unix(0, 0), Principal: user, Tool: types.NewEntityUID("Tool", "s0/tool1"),
			Arguments: types.NewRecord(types.RecordMap{
				"path": target.UID, "amount": decimal(b, "500.0"), "kind": types.String("a"),
			}),
		}),
	}
}

// BenchmarkJudge judges a call that ten policies concern, among 10 to 10,000
// policies over 2,000 tools.
func BenchmarkJudge(b *testing.B) {
	s := mustSchema(b, benchTypes(b))
	q := benchQuery(b, s)
	for _, n := range []int{10, 100, 1000, 10000} {
		set := mustCompileHeld(b, s, benchPolicies(n)...)
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				set.Judge(q)
			}
		})
	}
}

// BenchmarkJudgeSmall judges a payment under the policies of a small bundle.
func BenchmarkJudgeSmall(b *testing.B) {
	s := testSchema(b)
	set := mustCompileHeld(b, s, file("pay.cedar", payPolicies+`
@id("own") @code("SEGREGATION_OF_DUTIES") forbid (principal is User, action == Action::"payments/create_payment", resource) when { resource.onboarded_by == principal };
@id("currency") @code("CURRENCY_DENIED") forbid (principal, action == Action::"payments/create_payment", resource) unless { context.arguments.currency == resource.currency };
@id("ceiling") @code("AMOUNT_DENIED") forbid (principal, action == Action::"payments/create_payment", resource)
when { context.arguments.amount_gbp.greaterThan(decimal("10000.00")) || context.arguments.amount_gbp.greaterThan(resource.limit_gbp) };
@id("above-5000") @review("2") forbid (principal, action == Action::"payments/create_payment", resource) when { context.arguments.amount_gbp.greaterThan(decimal("5000.00")) };
@id("agents") permit (principal is Agent, action in [Action::"read", Action::"write"], resource);`))
	q := payQuery(b, s, "raj", "125", "active")
	if v := set.Judge(q); len(v.Permits) != 1 || len(v.Forbids)+len(v.Reviews)+len(v.ForbidErrors) != 0 {
		b.Fatal(v)
	}
	b.ReportAllocs()
	for b.Loop() {
		set.Judge(q)
	}
}

func BenchmarkNewSchema(b *testing.B) {
	in := benchTypes(b)
	for b.Loop() {
		mustSchema(b, in)
	}
}

// BenchmarkCompile loads policies over 2,000 tools.
func BenchmarkCompile(b *testing.B) {
	s := mustSchema(b, benchTypes(b))
	for _, n := range []int{100, 10000} {
		sources := benchPolicies(n)
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			for b.Loop() {
				mustCompileHeld(b, s, sources...)
			}
		})
	}
}

// BenchmarkContext makes what one evaluation is judged in.
func BenchmarkContext(b *testing.B) {
	s := testSchema(b)
	in := policy.ContextInput{
		Now: time.Unix(0, 0), Principal: types.NewEntityUID("User", "u"), Actors: []types.EntityUID{types.NewEntityUID("Agent", "a")},
		Tool: types.NewEntityUID("Tool", "payments/create_payment"),
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Context(in)
	}
}

// BenchmarkProject projects the arguments of a payment.
func BenchmarkProject(b *testing.B) {
	t := payments(b)[0].Arguments
	call := args(b, `{"invoice":"I","supplier":"ACME-01","amount_gbp":125.5,"currency":"GBP","reason":"x"}`)
	b.ReportAllocs()
	for b.Loop() {
		policy.Project(t, call)
	}
}
