package contract

import (
	"fmt"
	"slices"

	"github.com/writ-pdp/writ"
)

// strength orders effects.
var strength = map[writ.Effect]int{writ.Pure: 1, writ.Read: 2, writ.Write: 3}

// methods makes an action of each value of the method argument, or the one
// action of a tool without.
func (t *toolBuilder) methods() {
	c, r := t.contract, t.review
	if r.methodArgument == "" {
		c.actions = []string{c.action}
		return
	}
	field := member(r.field, "method_argument")
	if t.declaration.Tools[t.name].MethodArgument == "" {
		field = member(r.field, "methods")
	}
	a := t.find(r.methodArgument, field, true)
	switch {
	case a == nil || a.unsettled != "" || a.lost():
		return
	case a.typ.Kind == Opaque:
		t.errorf(field, "%q is opaque, so actions cannot depend on it", a.name)
		return
	case a.parent != nil || a.optional || a.typ.Kind != String || a.typ.allowed == nil:
		t.errorf(field, "%q does not choose a method: that takes a required text argument at the top with an enum", a.name)
		return
	}
	c.MethodArgument = a.name
	c.Methods = make(map[string]MethodRule, len(a.typ.allowed))
	c.methods = make(map[string]method, len(a.typ.allowed))
	for _, value := range a.typ.allowed {
		rule := t.rule(r.methods[value])
		id := c.action + "#" + value
		c.Methods[value], c.methods[value] = rule, method{id, rule}
		c.actions = appendNew(c.actions, id)
	}
	slices.Sort(c.actions)
	for _, value := range sortedKeys(r.methods) {
		t.method(member(member(r.field, "methods"), value), value, r.methods[value], a.typ.allowed)
	}
}

// rule fills in what a method does not say.
func (t *toolBuilder) rule(m Method) MethodRule {
	effect := first(m.Effect, t.review.effect)
	rule := MethodRule{
		Effect:     writ.Effect(effect),
		Reversible: reversible(effect, firstSet(m.Reversible, t.review.reversible)),
		Scope:      t.contract.Scope,
	}
	if m.Scope != nil {
		rule.Scope = *m.Scope
	}
	return rule
}

// method checks one line of methods.
func (t *toolBuilder) method(field, value string, m Method, allowed []string) {
	if !slices.Contains(allowed, value) {
		t.errorf(field, "%q is no value of %s (%s)%s", value, t.review.methodArgument, quoteAll(allowed), nearest(value, allowed))
	}
	t.oneOf(member(field, "effect"), m.Effect, "", string(writ.Pure), string(writ.Read), string(writ.Write))
	if strength[writ.Effect(m.Effect)] > strength[t.contract.Effect] {
		t.errorf(member(field, "effect"), "a method is no stronger than its tool, which is declared %s: declare the tool %s, and its other methods weaker",
			t.contract.Effect, m.Effect)
	}
	t.scope(member(field, "scope"), m.Scope)
	if m.Scope != nil && *m.Scope != "" && !t.server.TokenRequired {
		t.errorf(member(field, "scope"), "with token: none nobody has a scope: leave one of them out")
	}
	if m == (Method{}) {
		t.errorf(field, "%s", fmt.Sprintf("it says nothing that differs for %q: leave it out", value))
	}
}
