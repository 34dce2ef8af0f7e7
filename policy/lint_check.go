package policy

import (
	"fmt"
	"iter"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/writ-pdp/writ/contract"
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
		return entityTyp(typeAction)
	case "resource":
		t := entityTyp(c.env.resource)
		t.fold = c.resourceFold(c.env.resource)
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
	return then, both
}

// has types e, which asks whether something has an attribute.
func (c *checker) has(e *expr, name types.String, g guards) (typ, guards) {
	owner, _ := c.typeOf(e.args[0], g)
	if !owner.known() {
		return boolType(either), g
	}
	attribute, there, ok := c.in.schema.attribute(owner.t, name)
	if !ok {
		c.note(topicOperand, e, "`has` asks a record or an entity for an attribute, and "+c.named(e.args[0])+" is "+describe(owner.t))
		return boolType(either), g
	}
	key := guardKey(e.args[0], string(name))
	_, record := owner.t.(resolved.RecordType)
	switch {
	case !there:
		n := c.note(topicUndeclared, e, "")
		n.owners[ownerName(owner)] = true
		return boolType(alwaysFalse), g.with(key)
	case record && !attribute.Optional, g.has(key):
		return boolType(alwaysTrue), g.with(key)
	}
	return boolType(either), g.with(key)
}

// ownerName names what an attribute belongs to: an entity type, or nothing
// for a record.
func ownerName(t typ) string {
	et, _ := t.entity()
	return string(et)
}

// access types e, which reads an attribute.
func (c *checker) access(e *expr, name types.String, g guards) typ {
	owner, _ := c.typeOf(e.args[0], g)
	if !owner.known() {
		return typ{}
	}
	attribute, there, ok := c.in.schema.attribute(owner.t, name)
	switch {
	case !ok:
		c.note(topicOperand, e, c.named(e.args[0])+" is "+describe(owner.t)+", which has no attributes")
		return typ{}
	case !there:
		n := c.note(topicMissing, e, "")
		n.owners[ownerName(owner)] = true
		return typ{}
	case attribute.Optional && !g.has(guardKey(e.args[0], string(name))):
		n := c.note(topicOptional, e, "")
		n.owners[ownerName(owner)] = true
	}
	out := typ{t: attribute.Type}
	switch {
	case owner.root && name == "arguments":
		out.c = c.env.class.contract.Arguments
	case owner.root && name == "element":
		out.c = c.env.class.contract.Element
	case owner.c != nil && owner.c.Kind == contract.Record:
		if f := owner.c.Field(string(name)); f != nil {
			out.c = f.Type
			out.fold = foldOf(f.Type)
		}
	}
	if et, ok := owner.entity(); ok {
		out.fold = attributeFold(et, name, owner.fold)
	}
	return out
}

// attributeFold says in which case Writ gives an attribute of one of its own
// entity types.
func attributeFold(owner types.EntityType, name types.String, f fold) fold {
	switch {
	case owner == typePath && (name == "text" || name == "name" || name == "segments"):
		return f
	case owner == typeHost && name == "text", owner == typeURL && name == "scheme":
		return foldASCII
	}
	return noFold
}

func (c *checker) hasTag(e *expr, g guards) (typ, guards) {
	owner, _ := c.typeOf(e.args[0], g)
	tag, _ := c.typeOf(e.args[1], g)
	c.wantTags(e, owner, tag)
	if et, ok := owner.entity(); ok && c.in.schema.whole.Entities[et].Tags == nil {
		c.note(topicNever, e, "").owners[string(et)] = true
		return boolType(alwaysFalse), g
	}
	return boolType(either), g.with(guardKey(e.args[0], "\x00"+e.args[1].text()))
}

// wantTags notes whatever keeps e from reading a tag.
func (c *checker) wantTags(e *expr, owner, tag typ) {
	if tag.known() && !sameType(tag.t, stringType.t) {
		c.note(topicOperand, e.args[1], "a tag's name is text, and "+c.named(e.args[1])+" is "+describe(tag.t))
	}
	if _, ok := owner.entity(); owner.known() && !ok {
		c.note(topicOperand, e, "entities have tags, and "+c.named(e.args[0])+" is "+describe(owner.t))
	}
}

func noTags(of ...string) string {
	return fmt.Sprintf("entities of type %s have no tags: declare `entity %s tags String;` in schema.cedarschema", list(of), of[0])
}

// wantBool notes a condition or operand that is no Bool.
func (c *checker) wantBool(e *expr, t typ) {
	if t.known() && !sameType(t.t, resolved.BoolType{}) {
		c.note(topicOperand, e, c.named(e)+" is "+describe(t.t)+", where something true or false is wanted")
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
