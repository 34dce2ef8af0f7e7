package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// TestContradictionsAreCertain holds what is said about random conditions
// against Cedar's evaluation of them with every value of their few terms.
func TestContradictionsAreCertain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	number := func() string { return fmt.Sprint(r.IntN(5)) }
	leaf := func() string {
		switch r.IntN(8) {
		case 0:
			return "context.n" + pick(" < ", " <= ", " > ", " >= ", " == ", " != ") + number()
		case 1:
			return number() + pick(" < ", " <= ", " > ", " >= ", " == ", " != ") + "context.n"
		case 2:
			return "[" + number() + ", " + number() + "].contains(context.n)"
		case 3:
			return "context.d" + pick(".lessThan(", ".lessThanOrEqual(", ".greaterThan(", ".greaterThanOrEqual(", " == (", " != (") + "decimal(\"" + number() + pick(".0", ".5") + "\"))"
		case 4:
			return pick(`context.s == "a"`, `context.s != "ab"`, `context.s like "a*"`, `context.s like "*b"`, `["a", "b"].contains(context.s)`)
		case 5:
			return pick("context.b", "context.b == true", "false != context.b", "context.b != true")
		case 6:
			return pick(`context has o`, `context has p`)
		}
		return "context.local.hour" + pick(" < ", " >= ", " == ") + pick("2", "3", "22")
	}
	var tree func(depth int) string
	tree = func(depth int) string {
		if depth == 0 {
			return leaf()
		}
		text := "(" + tree(r.IntN(depth)) + pick(" && ", " || ") + tree(r.IntN(depth)) + ")"
		if r.IntN(3) == 0 {
			text = "!" + text
		}
		return text
	}
	worlds := everyContext(t)
	never, always := 0, 0
	for range 1200 {
		body := tree(3)
		text := "permit (principal, action, resource) when { " + body + " };"
		parsed, err := cedar.NewPolicyListFromBytes("p.cedar", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		l := locate((*ast.Policy)(parsed[0].AST()), Source{File: "p.cedar", Text: []byte(text)}, []byte(text), 0)
		said := func(holds bool) bool {
			f := &contradictions{checker: &checker{located: l}, reported: map[*expr]bool{}}
			f.check(f.flatten(nil, l.conditions[0].body, holds), func(_, b *fact) string { return b.text() })
			return len(f.found) > 0
		}
		saysNever, saysAlways := said(true), said(false)
		if !saysNever && !saysAlways {
			continue
		}
		set := cedar.NewPolicySet()
		set.Add("p", parsed[0])
		for _, context := range worlds {
			decision, diagnostic := cedar.Authorize(set, types.EntityMap{}, types.Request{Context: context})
			if len(diagnostic.Errors) > 0 {
				t.Fatalf("%s: %v", text, diagnostic.Errors)
			}
			if saysNever && decision == types.Allow || saysAlways && decision == types.Deny {
				t.Fatalf("%s\nsaid to be never %t, always %t, and %s with %s", body, saysNever, saysAlways, decision, context)
			}
		}
		if saysNever {
			never++
		} else {
			always++
		}
	}
	if never < 30 || always < 30 {
		t.Errorf("never %d, always %d: too few to mean anything", never, always)
	}
}

// everyContext lists contexts with every combination of few values.
func everyContext(t *testing.T) []types.Record {
	var out []types.Record
	for n := range 7 {
		for _, d := range []string{"-1.0", "0.0", "0.3", "0.5", "1.0", "2.5", "4.5"} {
			value, err := types.ParseDecimal(d)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []string{"a", "b", "ab", "c"} {
				for bits := range 8 {
					for _, hour := range []types.Long{0, 2, 3, 21, 22, 23} {
						m := types.RecordMap{
							"n": types.Long(n - 1), "d": value, "s": types.String(s), "b": types.Boolean(bits&1 > 0),
							"local": types.NewRecord(types.RecordMap{"hour": hour}),
						}
						if bits&2 > 0 {
							m["o"] = types.Long(1)
						}
						if bits&4 > 0 {
							m["p"] = types.Long(1)
						}
						out = append(out, types.NewRecord(m))
					}
				}
			}
		}
	}
	return out
}

// TestNegatedText: what is written for the opposite is the opposite.
func TestNegatedText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"context.a == 1", "context.a != 1"},
		{"context.a != 1", "context.a == 1"},
		{"context.a < 1", "context.a >= 1"},
		{"context.a <= 1", "context.a > 1"},
		{"context.a > 1", "context.a <= 1"},
		{"context.a >= 1", "context.a < 1"},
		{`context.a.lessThan(decimal("1.0"))`, `context.a.greaterThanOrEqual(decimal("1.0"))`},
		{`context.a.greaterThan(decimal("1.0"))`, `context.a.lessThanOrEqual(decimal("1.0"))`},
		{"!context.a", "context.a"},
		{"context.a", "!context.a"},
		{`context.a like "x*"`, `!(context.a like "x*")`},
		{"context has a", "!(context has a)"},
		{"context.a.contains(1)", "!context.a.contains(1)"},
		{"context.a && context.b", "!(context.a && context.b)"},
		{"principal in resource", "!(principal in resource)"},
		{"context.a.isIpv4()", "!context.a.isIpv4()"},
	} {
		text := "permit (principal, action, resource) when { " + c.text + " };"
		parsed, err := cedar.NewPolicyListFromBytes("p.cedar", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		l := locate((*ast.Policy)(parsed[0].AST()), Source{}, []byte(text), 0)
		if got := negatedText(l.conditions[0].body); got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
		if got := quotedText(l.conditions[0].body, true); got != "`"+c.text+"`" {
			t.Errorf("%s: quoted as %s", c.text, got)
		}
	}
	long := strings.Repeat("é", maxQuoted+1)
	e := &expr{node: ast.NodeTypeVariable{Name: types.String(long)}}
	if got := quotedText(e, true); got != "`"+strings.Repeat("é", maxQuoted)+"…`" {
		t.Errorf("a long text is quoted as %s", got)
	}
}
