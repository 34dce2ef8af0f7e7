package policy

import (
	"fmt"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/writ-pdp/writ/contract"
)

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
		message := c.named(e.args[0]) + " is " + describe(owner.t) + ", which has no attributes"
		if _, local := closedLocal.fields[name]; local && owner.isExtension("datetime") {
			message += fmt.Sprintf(": write context.local.%s, in the bundle's time zone", name)
		}
		c.note(topicOperand, e, message)
		return typ{}
	case !there:
		n := c.note(topicMissing, e, "")
		n.owners[ownerName(owner)] = true
		return typ{}
	case attribute.Optional && !g.has(guardKey(e.args[0], string(name))):
		n := c.note(topicOptional, e, "")
		n.owners[ownerName(owner)] = true
	}
	out := typ{t: attribute.Type, closed: owner.closed.field(name)}
	if owner.root {
		out.closed, out.tool = c.env.class.member(name), name == "tool"
	}
	switch {
	case owner.root && name == "arguments":
		out.c = c.env.class.contract.Arguments
	case owner.root && name == "element":
		out.c = c.env.class.contract.Element
	case owner.c != nil && owner.c.Kind == contract.Record:
		if f := owner.c.Field(string(name)); f != nil {
			out.c = f.Type
			out.fold, out.bounds = foldOf(f.Type), boundsOf(f.Type)
		}
	}
	if et, ok := owner.entity(); ok {
		out.fold = attributeFold(et, name, owner.fold)
		switch {
		case et == typeTool && name == "effect":
			out.closed = closedEffects
		case owner.tool:
			out.closed = c.env.class.toolMember(name)
		}
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
