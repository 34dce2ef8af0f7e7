package policy

import (
	"iter"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
)

// environment is what a condition is evaluated in, as far as types go.
type environment struct {
	class               *class
	principal, resource types.EntityType
}

// checker works out the types of all expressions of one policy, in every
// environment that its scope leaves.
type checker struct {
	in      lintInput
	located *located
	classes []*class
	parents map[*expr]*expr

	env     environment
	reached map[*expr]int             // environments in which an expression was looked at
	inside  map[*expr]map[*class]bool // their classes
	notes   []*note
	byKey   map[noteKey]*note
	// silent says that notes are not wanted: an expression is looked at again.
	silent bool
	// bodies holds, by condition, in how many environments it is always true
	// or never, of how many.
	bodies []bodyTruth
}

type bodyTruth struct{ always, never, of int }

// check looks at every condition in every environment.
func check(in lintInput) *checker {
	l := locate(in.policy, in.source, in.text, in.offset)
	c := &checker{
		in: in, located: l,
		classes: classes(&in, l),
		parents: map[*expr]*expr{}, reached: map[*expr]int{}, inside: map[*expr]map[*class]bool{},
		byKey:  map[noteKey]*note{},
		bodies: make([]bodyTruth, len(l.conditions)),
	}
	for _, condition := range l.conditions {
		c.adopt(condition.body)
	}
	for env := range c.environments() {
		c.look(env)
	}
	return c
}

// environments yields every environment that the policy's scope leaves.
func (c *checker) environments() iter.Seq[environment] {
	s := c.in.schema
	principal, resource := partsOf(c.in.policy.Principal), partsOf(c.in.policy.Resource)
	return func(yield func(environment) bool) {
		for _, class := range c.classes {
			for _, p := range c.principals(class) {
				for _, r := range class.applies.Resources {
					if s.scopeAllows(principal, p) && s.scopeAllows(resource, r) && !yield(environment{class, p, r}) {
						return
					}
				}
			}
		}
	}
}

// adopt notes the parent of every expression below e.
func (c *checker) adopt(e *expr) {
	for _, arg := range e.args {
		c.parents[arg] = e
		c.adopt(arg)
	}
}

// principals lists the types of principals, those for whom calls are made
// first, because messages speak of the first.
func (c *checker) principals(of *class) []types.EntityType {
	list, first := of.applies.Principals, c.in.schema.principal
	if first == "" || len(list) == 0 || list[0] == first {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b types.EntityType) int {
		switch {
		case a == first && b != first:
			return -1
		case b == first && a != first:
			return 1
		}
		return 0
	})
	return list
}

// look types every condition in one environment.
func (c *checker) look(env environment) {
	c.env = env
	for i, condition := range c.located.conditions {
		t, _ := c.typeOf(condition.body, nil)
		c.wantBool(condition.body, t)
		c.bodies[i].of++
		switch t.truth {
		case alwaysTrue:
			c.bodies[i].always++
		case alwaysFalse:
			c.bodies[i].never++
		case either:
		}
	}
}

// typeOf returns the type of e, and what is known to be there once e is true.
// What is wrong with e is noted, and then its type is not known. It looks only
// where Cedar's validator looks: not behind a guard that is never true.
func (c *checker) typeOf(e *expr, g guards) (typ, guards) {
	if !c.silent {
		c.reached[e]++
		if c.inside[e] == nil {
			c.inside[e] = map[*class]bool{}
		}
		c.inside[e][c.env.class] = true
	}
	switch n := e.node.(type) {
	case ast.NodeValue:
		return c.literal(e, n.Value), g
	case ast.NodeTypeVariable:
		return c.variable(string(n.Name)), g
	case ast.NodeTypeAnd:
		return c.and(e, g)
	case ast.NodeTypeOr:
		return c.or(e, g)
	case ast.NodeTypeNot:
		t, _ := c.typeOf(e.args[0], g)
		c.wantBool(e.args[0], t)
		return boolType(t.truth.not()), g
	case ast.NodeTypeIfThenElse:
		return c.branch(e, g)
	case ast.NodeTypeHas:
		return c.has(e, n.Value, g)
	case ast.NodeTypeAccess:
		return c.access(e, n.Value, g), g
	case ast.NodeTypeHasTag:
		return c.hasTag(e, g)
	}
	args := make([]typ, len(e.args))
	for i, arg := range e.args {
		args[i], _ = c.typeOf(arg, g)
	}
	return c.operation(e, args, g), g
}

func (c *checker) literal(e *expr, v types.Value) typ {
	switch v := v.(type) {
	case types.Boolean:
		return boolType(truthOf(bool(v)))
	case types.Long:
		return longType
	case types.String:
		return stringType
	case types.EntityUID:
		if !c.in.schema.declaredType(v.Type) {
			c.note(topicType, e, "")
			return typ{}
		}
		if _, known := c.in.schema.whole.Actions[v]; v.Type == typeAction && !known {
			c.note(topicType, e, "")
			return typ{}
		}
		return entityTyp(v.Type)
	}
	return typ{}
}

func (c *checker) variable(name string) typ {
	switch name {
	case "principal":
		return entityTyp(c.env.principal)
	case "action":
		t := entityTyp(typeAction)
		t.closed = &closed{words: []string{string(c.env.class.action.ID)}, what: "is the action of no call in this policy's scope"}
		return t
	case "resource":
		t := entityTyp(c.env.resource)
		t.fold = c.resourceFold(c.env.resource)
		switch c.env.resource {
		case typeTool:
			t.tool, t.closed = true, c.env.class.member("tool")
		case typePath:
			t.bounds = c.env.class.targetBounds()
		}
		return t
	}
	return typ{t: c.env.class.applies.Context, root: true}
}

// resourceFold says in which case the ids of a target, or of the parents that
// the contract gives it, are.
func (c *checker) resourceFold(t types.EntityType) fold {
	r := c.env.class.contract.Resource
	switch {
	case r == nil:
	case r.Fold == "ascii" && (string(t) == r.Entity || r.In[string(t)] != ""):
		return foldASCII
	case r.Case == "insensitive" && t == typePath:
		return foldPath
	}
	return noFold
}

func (c *checker) and(e *expr, g guards) (typ, guards) {
	left, leftGuards := c.typeOf(e.args[0], g)
	c.wantBool(e.args[0], left)
	if left.truth == alwaysFalse {
		return boolType(alwaysFalse), g
	}
	right, rightGuards := c.typeOf(e.args[1], g.with(leftGuards...))
	c.wantBool(e.args[1], right)
	switch {
	case right.truth == alwaysFalse:
		return boolType(alwaysFalse), rightGuards
	case left.truth == alwaysTrue:
		return boolType(right.truth), rightGuards
	}
	return boolType(either), rightGuards
}

func (c *checker) or(e *expr, g guards) (typ, guards) {
	left, leftGuards := c.typeOf(e.args[0], g)
	c.wantBool(e.args[0], left)
	if left.truth == alwaysTrue {
		return boolType(alwaysTrue), leftGuards
	}
	right, rightGuards := c.typeOf(e.args[1], g)
	c.wantBool(e.args[1], right)
	switch {
	case left.truth == alwaysFalse:
		return boolType(right.truth), rightGuards
	case right.truth == alwaysTrue:
		return boolType(alwaysTrue), rightGuards
	case right.truth == alwaysFalse:
		return boolType(left.truth), leftGuards
	}
	return boolType(either), leftGuards.both(rightGuards)
}

func (c *checker) branch(e *expr, g guards) (typ, guards) {
	condition, guarded := c.typeOf(e.args[0], g)
	c.wantBool(e.args[0], condition)
	if condition.truth == alwaysFalse {
		return c.typeOf(e.args[2], g)
	}
	then, thenGuards := c.typeOf(e.args[1], g.with(guarded...))
	if condition.truth == alwaysTrue {
		return then, thenGuards
	}
	otherwise, otherGuards := c.typeOf(e.args[2], g)
	both := thenGuards.both(otherGuards)
	a, isA := then.entity()
	b, isB := otherwise.entity()
	switch {
	case !then.known() || !otherwise.known():
		return typ{}, both
	case !sameType(then.t, otherwise.t) || isA && isB && a != b:
		c.note(topicSet, e, "the branches give "+describe(then.t)+" and "+describe(otherwise.t)+": they must give values of one type")
		return typ{}, both
	case then.truth != otherwise.truth:
		then.truth = either
	}
	if then.c != otherwise.c || then.closed != otherwise.closed || then.bounds != otherwise.bounds ||
		then.fold != otherwise.fold || then.root != otherwise.root || then.tool != otherwise.tool {
		return typ{t: then.t, truth: then.truth}, both // of two origins: only the type is common
	}
	return then, both
}

// wantBool notes a condition or operand that is no Bool.
func (c *checker) wantBool(e *expr, t typ) {
	if t.known() && !sameType(t.t, resolved.BoolType{}) {
		message := c.named(e) + " is " + describe(t.t) + ", where something true or false is wanted"
		if _, isSet := t.elem(); isSet {
			message += ": ask isEmpty() or contains(…)"
		}
		c.note(topicOperand, e, message)
	}
}

// named names an expression for people: an attribute by its name, anything
// else as it is written.
func (c *checker) named(e *expr) string {
	if n, ok := e.node.(ast.NodeTypeAccess); ok {
		return "`" + string(n.Value) + "`"
	}
	if text := e.text(); len(text) <= 60 {
		return "`" + text + "`"
	}
	return "this"
}
