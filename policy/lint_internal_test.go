package policy

import (
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// TestPositiveGuards is the truth table of guards in a forbid. In a condition,
// x stands for `context.arguments has x` and P and Q for anything else.
func TestPositiveGuards(t *testing.T) {
	tests := []struct {
		conditions string
		want       bool // the forbid never applies to calls without x
	}{
		// when
		{"when { x }", true},
		{"when { x && P }", true},
		{"when { P && x }", true},
		{"when { P && (Q && x) }", true},
		{"when { x && (P || Q) }", true},
		{"when { x || P }", false},
		{"when { P || x }", false},
		{"when { P && x || Q }", false},
		{"when { P && x || Q && x }", true},
		{"when { P && (x || Q) }", false},
		{"when { P }", false},
		// negation
		{"when { !x }", false},
		{"when { !x && P }", false},
		{"when { !x || P }", false},
		{"when { !(x && P) }", false},
		{"when { !(x || P) }", false},
		{"when { !(!x || P) }", true},
		{"when { !(!x && P) }", false},
		{"when { !!x && P }", true},
		{"when { !!!x && P }", false},
		{"when { x && !x }", false}, // never applies to anything: another lint's
		{"when { (x || P) && !(!x) }", true},
		// unless
		{"unless { x }", false},
		{"unless { x && P }", false},
		{"unless { P && x }", false},
		{"unless { x || P }", false},
		{"unless { !x }", true},
		{"unless { !x || P }", true},
		{"unless { !x && P }", false},
		{"unless { !(x && P) }", true},
		{"unless { !(x || P) }", false},
		{"unless { P }", false},
		// several conditions hold together
		{"when { x } when { P }", true},
		{"when { P } unless { !x }", true},
		{"when { P } unless { x && Q }", false},
		{"when { x } unless { P }", true},
		{"when { x || P } unless { !x }", true},
		{"when { !x || P } unless { !x || Q }", true},
		{"unless { x && P } unless { Q }", false},
		// if
		{"when { if x then P else Q }", false},
		{"when { if x then P else false }", true},
		{"when { if x then P else true }", false},
		{"when { if x then false else P }", false},
		{"when { if !x then false else P }", true},
		{"when { if P then x else false }", true},
		{"when { if P then x else Q }", false},
		{"when { if P then x else x }", true},
		{"when { if x && P then Q else false }", true},
		{"when { if x || P then Q else false }", false},
		{"unless { if x then P else true }", true},
		{"unless { if x then P else false }", false},
		{"unless { if x then P else Q }", false},
		// comparison with a Bool
		{"when { x == true }", true},
		{"when { true == x && P }", true},
		{"when { x == false }", false},
		{"when { x != false }", true},
		{"when { x != true || P }", false},
		{"when { (x && P) == true }", true},
		{"when { (x && P) == Q }", false},
		{"unless { x == false }", true},
		// constants
		{"when { true && x }", true},
		{"when { false || x }", true},
		{"when { true || x }", false},
		{"when { false }", false},
		// not a connective: not looked into
		{"when { [x].contains(true) }", false},
	}
	for _, tt := range tests {
		t.Run(tt.conditions, func(t *testing.T) {
			got := positive(conditionsOf(t, tt.conditions), []string{"arguments", "x"}, anything)
			if got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

// TestPositiveGuardsOfMembers is about `has x.y`, and about y where x is
// there.
func TestPositiveGuardsOfMembers(t *testing.T) {
	tests := []struct {
		conditions string
		x, y       bool
	}{
		{"when { context.arguments has x.y && P }", true, true},
		{"when { !(context.arguments has x.y) || P }", false, false},
		{"when { !(context.arguments has x) || context.arguments.x has y && P }", false, true},
		{"when { context.arguments has x && !(context.arguments.x has y) }", true, false},
		{"unless { context.arguments has x.y && P }", false, false},
		{"unless { context.arguments has x && (!(context.arguments.x has y) || P) }", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.conditions, func(t *testing.T) {
			conditions := conditionsOf(t, tt.conditions)
			if got := positive(conditions, []string{"arguments", "x"}, anything); got != tt.x {
				t.Errorf("x: got %t, want %t", got, tt.x)
			}
			if got := positive(conditions, []string{"arguments", "x", "y"}, anything); got != tt.y {
				t.Errorf("y: got %t, want %t", got, tt.y)
			}
		})
	}
}

func anything(*expr) possible { return free }

// conditionsOf parses conditions in which x, P and Q stand for more.
func conditionsOf(t *testing.T, conditions string) []condition {
	t.Helper()
	tokens, _ := scan([]byte(conditions), policyLanguage)
	var b strings.Builder
	before := ""
	for _, token := range tokens {
		text := token.text([]byte(conditions))
		switch {
		case text == "x" && before != "has" && before != ".":
			text = "(context.arguments has x)"
		case text == "P" || text == "Q":
			text = "context." + text
		}
		b.WriteString(" " + text)
		before = text
	}
	text := "forbid (principal, action, resource)" + b.String() + ";"
	parsed, err := cedar.NewPolicyListFromBytes("p.cedar", []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	l := locate((*ast.Policy)(parsed[0].AST()), Source{File: "p.cedar", Text: []byte(text)}, []byte(text), 0)
	if !l.exact {
		t.Fatalf("%s: not located", text)
	}
	return l.conditions
}
