package contract

import (
	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/target"
)

// targetPlan is how the targets of a call are found in its arguments.
type targetPlan struct {
	entity   types.EntityType
	optional bool // there may be none: then the Tool itself
	mayBeNew bool

	// For Path, Host, Url and Email: the places of their texts.
	places  []place
	options target.PathOptions
	roots   []target.Path

	// For an entity of the bundle: its templates. With an array there is one
	// target for each element.
	array      *place
	id         template
	parents    []parentTemplate
	separators string
	foldsIDs   bool
}

// place is where a value is in the arguments: before leads from the top to it,
// or to an array, and then after leads on from each element.
type place struct {
	before, after []hop
	each          bool
	pointer       string // of what before leads to
	afterPointer  string
	kind          Kind // of the value
}

// hop is one step to a member, and what an absent one means.
type hop struct {
	member   string
	fallback any // when_absent; nil: nothing
}

// template makes an id of text and arguments.
type template []templatePart

type templatePart struct {
	literal string
	place   *place // nil: literal
}

type parentTemplate struct {
	entity types.EntityType
	id     template
}

// binder binds one resource line to one tool.
type binder struct {
	*faults
	tool    string
	catalog *catalog
	root    *Type
	line    *line
	array   *argument
}

// bind returns the plan of l for a tool, and the type of context.element. It
// marks the types of the arguments that it uses. Faults are reported.
func (b *binder) bind() (plan *targetPlan, element *Type) {
	before := len(b.errors)
	plan = &targetPlan{mayBeNew: b.line.resource.MayBeNew, optional: true}
	if b.line.resource.Entity == "" {
		b.bindBuiltIn(plan)
	} else {
		b.bindEntity(plan)
	}
	if len(b.errors) > before {
		return nil, nil
	}
	if b.array != nil && b.array.typ.Elem.Kind == Record {
		element = b.array.typ.Elem
	}
	return plan, element
}

func (b *binder) bindBuiltIn(plan *targetPlan) {
	r := &b.line.resource
	list, names := r.names()
	plan.entity = map[string]types.EntityType{"path": PathType, "host": HostType, "url": URLType, "email": EmailType}[list]
	plan.options, plan.roots = pathOptions(r), b.line.roots
	for i, name := range names {
		field := item(member(b.line.field, list), i)
		a := b.argument(field, name)
		if a == nil {
			continue
		}
		switch {
		case a.typ.Kind == Entity:
			b.errorf(field, "%s: %q is a %s here and under arguments something else: keep one of them", b.tool, name, plan.entity)
			continue
		case a.typ.Kind != String:
			b.errorf(field, "%s: %q is a %s, and only text names a %s%s", b.tool, name, a.typ.Kind, plan.entity, b.elementHint(a))
			continue
		}
		a.typ.Kind, a.typ.Entity, a.typ.Role, a.typ.Enum = Entity, plan.entity, r, nil
		plan.places = append(plan.places, *b.place(a))
		plan.optional = plan.optional && b.mayBeAbsent(a)
	}
}

func (b *binder) bindEntity(plan *targetPlan) {
	r := &b.line.resource
	plan.entity, plan.optional = types.EntityType(r.Entity), false
	plan.separators, plan.foldsIDs = separators(b.line.id), r.Fold == "ascii"
	for _, t := range sortedKeys(b.line.in) {
		plan.separators += separators(b.line.in[t])
	}
	plan.id = b.template(plan, member(b.line.field, "id"), b.line.id)
	for _, t := range sortedKeys(b.line.in) {
		id := b.template(plan, member(member(b.line.field, "in"), t), b.line.in[t])
		plan.parents = append(plan.parents, parentTemplate{types.EntityType(t), id})
	}
	if b.array != nil {
		plan.array = b.place(b.array)
	}
}

func (b *binder) template(plan *targetPlan, field string, pieces []piece) template {
	fold := b.line.resource.Fold == "ascii"
	var t template
	for _, p := range pieces {
		if p.argument == "" {
			literal := p.literal
			if fold {
				literal = foldASCII(literal)
			}
			t = append(t, templatePart{literal: literal})
			continue
		}
		a := b.argument(field, p.argument)
		if a == nil {
			continue
		}
		switch {
		case a.typ.Kind == String || a.typ.Kind == Entity && a.typ.Role == nil:
			if fold {
				b.fold(a.typ)
			}
		case a.typ.Kind == Decimal:
			b.errorf(field, "%s: %q is a number that may have a fraction: if it never has, say long: true under arguments", b.tool, a.name)
			continue
		case a.typ.Kind != Long:
			b.errorf(field, "%s: %q is a %s, and an id is made of text and integers%s", b.tool, a.name, a.typ.Kind, b.elementHint(a))
			continue
		}
		t = append(t, templatePart{place: b.place(a)})
		plan.optional = plan.optional || b.mayBeAbsent(a)
	}
	return t
}

// fold marks that policies see the text of t in lower case.
func (b *binder) fold(t *Type) {
	if t.Fold {
		return
	}
	t.Fold = true
	if t.Enum != nil {
		folded := make([]string, 0, len(t.Enum))
		seen := map[string]bool{}
		for _, e := range t.Enum {
			if e = foldASCII(e); !seen[e] {
				folded, seen[e] = append(folded, e), true
			}
		}
		t.Enum = folded
	}
}

// argument returns the argument that a resource line names, or reports why it
// cannot be part of a target.
func (b *binder) argument(field, name string) *argument {
	a := b.catalog.byName[name]
	switch {
	case a == nil:
		b.certainf(field, "%s has no argument %q%s", b.tool, name, nearest(name, b.catalog.names()))
		return nil
	case b.catalog.twice[name]:
		b.errorf(field, "%s: %q can be read as two different arguments: give the tool another resource", b.tool, name)
		return nil
	case a.unsettled != "" || a.lost():
		return nil // reported where it belongs
	case a.typ.Kind == Opaque:
		b.errorf(field, "%s: %q is opaque, so a target may not rest on it: take it off opaque, or give the tool another resource", b.tool, name)
		return nil
	}
	if in := a.array(); in != nil {
		if b.array != nil && b.array != in {
			b.errorf(field, "%s: the targets come from two arrays, %q and %q: name one", b.tool, b.array.name, in.name)
			return nil
		}
		b.array = in
	}
	return a
}

// elementHint suggests name[] for an array of text.
func (b *binder) elementHint(a *argument) string {
	if a.typ.Kind == Set && a.typ.Elem.Kind == String {
		return "; its elements are " + a.name + "[]"
	}
	return ""
}

// place returns how to get to a.
func (b *binder) place(a *argument) *place {
	p := &place{kind: a.typ.Kind}
	if p.kind == Entity {
		p.kind = String
	}
	record := b.root
	for _, s := range a.steps {
		if s.each {
			p.each, record = true, record.Elem
			continue
		}
		field := record.Field(s.member)
		h := hop{s.member, field.Default}
		if p.each {
			p.after = append(p.after, h)
			p.afterPointer = string(canon.AppendPointer([]byte(p.afterPointer), s.member))
		} else {
			p.before = append(p.before, h)
			p.pointer = string(canon.AppendPointer([]byte(p.pointer), s.member))
		}
		record = field.Type
	}
	return p
}

// mayBeAbsent reports whether a call may leave a out, or the array that it is
// in, so that it names no target.
func (b *binder) mayBeAbsent(a *argument) bool {
	for ; a != nil; a = a.parent {
		if a.element() {
			continue
		}
		if f := a.field(b.root); f == nil || f.Optional {
			return true
		}
	}
	return false
}
