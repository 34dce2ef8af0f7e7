package contract

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/definition"
)

// toolBuilder makes one contract.
type toolBuilder struct {
	*builder
	name       string
	review     *review
	definition *definition.Tool
	own        *line // the review's own resource; nil: none, or faulty
	catalog    *catalog
	contract   *Contract
	typed      map[string]Argument // what is said about arguments that are there
	meant      map[string]any      // what absent arguments mean
}

// build fills in the contract. The order matters: types come from the schema
// and from opaque, long and when_absent; then arguments and the resource say
// what text names; then values are checked against the finished types.
func (t *toolBuilder) build() {
	d := newDeriver(t.definition)
	d.opaque = func(name string) bool { _, ok := t.review.opaque[name]; return ok }
	d.long = func(name string) bool { return t.review.arguments[name].value.Long }
	d.defaulted = func(name string) bool { _, ok := t.review.whenAbsent[name]; return ok }
	root, missing := d.arguments()
	t.catalog, t.contract.Arguments = d.catalog, root
	for name := range d.catalog.byName {
		t.known[name] = true
	}
	if len(missing) > 0 && t.review.undeclared != "allow" {
		t.errorf(t.review.field, "inputSchema/required names %s, which properties lacks: no call could be valid (undeclared: allow lets such arguments through, unseen by policies)",
			quoteAll(missing))
	}
	t.hidden()
	t.opaque()
	t.unsettled()
	t.absent()
	t.arguments()
	t.telling(t.resource())
	t.defaultValues()
	if !t.review.partial { // what chooses the method may be unread
		t.methods()
	}
	t.evidence()
	t.shows()
	t.postconditions()
	t.grants()
	t.contradictions()
	if t.contract.UndeclaredAllowed {
		t.contract.allow = map[string]string{}
		for _, f := range root.Fields {
			t.contract.allow[canon.Fold(f.Name)] = f.Name
		}
	}
}

// find returns the argument that a line names. A line of the defaults whose
// argument the tool lacks is ignored; one of the tool's own is a fault. (What
// is unread could only make a further argument opaque, and take names away.)
func (t *toolBuilder) find(name, field string, own bool) *argument {
	a := t.catalog.byName[name]
	switch {
	case a == nil && own:
		t.certainf(field, "the tool has no argument %q%s", name, nearest(name, t.catalog.names()))
	case a == nil:
	case t.catalog.twice[name]:
		t.errorf(field, "%q can be read as two different arguments: call the outer one opaque", name)
		return nil
	}
	return a
}

// hidden warns of arguments that only keywords beside the root's properties
// declare: calls with them are refused.
func (t *toolBuilder) hidden() {
	schema := t.definition.InputSchema
	properties := asObject(schema["properties"])
	var names []string
	var look func(v any, depth int)
	look = func(v any, depth int) {
		sub, ok := v.(map[string]any)
		if !ok || depth > 4 {
			return
		}
		for _, name := range sortedKeys(asObject(sub["properties"])) {
			if _, declared := properties[name]; !declared {
				names = appendNew(names, name)
			}
		}
		for _, k := range [...]string{"allOf", "anyOf", "oneOf"} {
			list, _ := sub[k].([]any)
			for _, s := range list {
				look(s, depth+1)
			}
		}
		for _, k := range [...]string{"then", "else"} {
			look(sub[k], depth+1)
		}
	}
	look(schema, 0)
	if len(names) > 0 && t.review.undeclared != "allow" {
		t.warnf(t.review.field, "inputSchema declares %s only beside properties, so calls with them are refused (undeclared: allow lets them through, unseen by policies)", quoteAll(names))
	}
}

// opaque checks that what is called opaque is there, and lists it.
func (t *toolBuilder) opaque() {
	for _, name := range sortedKeys(t.review.opaque) {
		e := t.review.opaque[name]
		a := t.find(name, e.field, e.own)
		switch {
		case a == nil:
		case a.element():
			t.errorf(e.field, "an element cannot be opaque: write %q", a.parent.name)
		case !a.lost():
			t.contract.Opaque = append(t.contract.Opaque, name)
		}
	}
}

// unsettled reports arguments that policies could not see exactly.
func (t *toolBuilder) unsettled() {
	for _, a := range t.catalog.order {
		if a.unsettled != "" && !a.lost() {
			t.errorf(t.review.field, "argument %q has no exact type for policies (%s): write opaque: [%s], and policies will not see it", a.name, a.unsettled, a.name)
		}
	}
}

// absent gives optional members their meaning when absent.
func (t *toolBuilder) absent() {
	for _, name := range sortedKeys(t.review.whenAbsent) {
		e := t.review.whenAbsent[name]
		a := t.find(name, e.field, e.own)
		if a == nil || a.unsettled != "" || a.lost() {
			continue
		}
		f := a.field(t.contract.Arguments)
		switch {
		case f == nil:
			t.errorf(e.field, "an element is never absent: name a member")
		case !a.optional:
			if e.own {
				t.errorf(e.field, "%q is required, so it is never absent", name)
			}
		case a.typ.Kind == Opaque:
			if e.own {
				t.errorf(e.field, "%q is opaque, so policies never see what it means", name)
			}
		default:
			f.Default, f.Optional = e.value, false
			t.meant[name] = e.value
		}
	}
}

// arguments applies what is said about single arguments.
func (t *toolBuilder) arguments() {
	for _, name := range sortedKeys(t.review.arguments) {
		e := t.review.arguments[name]
		a := t.find(name, e.field, e.own)
		if a == nil || a.unsettled != "" || a.lost() || e.value.Opaque {
			continue
		}
		switch {
		case a.typ.Kind == Opaque:
			if e.own {
				t.errorf(e.field, "%q is opaque, so policies see no type of it", name)
			}
			continue
		case e.value.Long && a.typ.Kind != Long:
			t.errorf(member(e.field, "long"), "%q is a %s: only a number can be long", name, a.typ.Kind)
		case e.value.Entity == "":
		case a.typ.Kind != String:
			hint := ""
			if a.typ.Kind == Set && a.typ.Elem.Kind == String {
				hint = fmt.Sprintf("; write %q for its elements", name+"[]")
			}
			t.errorf(member(e.field, "entity"), "%q is a %s: only text names an entity%s", name, a.typ.Kind, hint)
		default:
			e.value.apply(a)
		}
		t.typed[name] = e.value
	}
}

func (v Argument) apply(a *argument) {
	a.typ.Kind, a.typ.Enum, a.typ.MayBeNew, a.typ.BoundTo = Entity, nil, v.MayBeNew, v.BoundTo
	a.typ.Entity = types.EntityType(v.Entity)
	a.typ.Role, _ = roleOf(v.Entity, a.name)
}

// resource finds the line that says what a call is about, and returns it; nil:
// there is none that could be used.
func (t *toolBuilder) resource() *line {
	b := &binder{faults: &t.faults, tool: t.name, catalog: t.catalog, root: t.contract.Arguments}
	if t.review.resource != nil {
		b.line = t.own
	} else {
		for _, l := range t.lines {
			if l != nil && l.resource.Partial {
				return nil // it may be the one
			}
			if l != nil && l.appliesTo(t.catalog) {
				l.matches = true
				if b.line == nil {
					b.line, l.applies = l, true
				}
			}
		}
	}
	if b.line == nil || b.line.resource.Partial {
		return nil
	}
	t.contract.resourceField = b.line.field
	if t.contract.target, t.contract.Element = b.bind(); t.contract.target != nil {
		r := b.line.resource
		t.contract.Resource = &r
	}
	return b.line
}

// defaultValues checks the values of when_absent against the finished types.
func (t *toolBuilder) defaultValues() {
	for _, name := range sortedKeys(t.review.whenAbsent) {
		e := t.review.whenAbsent[name]
		a := t.catalog.byName[name]
		if a == nil || t.catalog.twice[name] || a.element() || a.lost() {
			continue
		}
		if f := a.field(t.contract.Arguments); f != nil && f.Default != nil {
			if why := unfit(f.Type, f.Default); why != "" {
				t.errorf(e.field, "%s", why)
			} else if why := t.contract.schema.refusal(a.steps, f.Default); why != "" {
				t.errorf(e.field, "%s", why)
			}
		}
	}
}

// evidence keys the evidence lines by JSON Pointer, with their defaults.
func (t *toolBuilder) evidence() {
	for _, name := range sortedKeys(t.review.evidence) {
		e := t.review.evidence[name]
		a := t.find(name, e.field, e.own)
		if a == nil || a.lost() {
			continue
		}
		if a.array() != nil {
			t.errorf(e.field, "evidence is for one value, and %q is in an array: name the array", name)
			continue
		}
		line := e.value
		line.From = slices.Sorted(slices.Values(line.From))
		line.Independent = max(1, line.Independent)
		if t.contract.Evidence == nil {
			t.contract.Evidence = map[string]EvidenceLine{}
		}
		t.contract.Evidence[a.pointer()] = line
	}
}

func (t *toolBuilder) shows() {
	for _, e := range t.review.reviewShows {
		a := t.find(e.value, e.field, e.own)
		if a == nil || a.lost() {
			continue
		}
		if a.array() != nil {
			t.errorf(e.field, "%q is in an array: name the array", e.value)
			continue
		}
		t.contract.ReviewShows = appendNew(t.contract.ReviewShows, a.pointer())
	}
}

// postconditions checks that the arguments are there that they compare with.
func (t *toolBuilder) postconditions() {
	p := t.review.postconditions
	if p == nil {
		return
	}
	field := member(t.review.field, "postconditions")
	if t.contract.Effect != writ.Write {
		t.errorf(field, "only a write has something to verify afterwards")
	}
	for i, c := range p.Checks {
		pointer, ok := strings.CutPrefix(c.Equals, "/arguments")
		if !ok || !validPointer(pointer) {
			continue // reported
		}
		token, _, _ := strings.Cut(pointer[1:], "/")
		name := strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if t.contract.Arguments.Field(name) == nil {
			t.errorf(member(item(member(field, "checks"), i), "equals"), "the tool has no argument %q%s", name, nearest(name, t.topNames()))
		}
	}
}

// grants reports a tool whose own review asks for a grant that would never be
// given. (What the defaults ask for is for the tools that it fits.)
func (t *toolBuilder) grants() {
	if t.declaration.Tools[t.name].Grant == "" {
		return
	}
	c, field := t.contract, member(t.review.field, "grant")
	reads, pure := c.Effect == writ.Read, c.Effect == writ.Pure
	for _, m := range c.Methods {
		reads, pure = reads || m.Effect == writ.Read, pure && m.Effect == writ.Pure
	}
	switch {
	case c.DecideAt == "server":
		t.errorf(field, "with decide_at: server no grant is redeemed: leave one of them out")
	case pure:
		t.errorf(field, "what is pure never needs a grant: leave it out")
	case !reads:
		t.errorf(field, "the tool only writes, and a write needs a grant anyway: leave it out")
	}
}

func (t *toolBuilder) topNames() []string {
	var names []string
	for _, f := range t.contract.Arguments.Fields {
		names = append(names, f.Name)
	}
	return names
}

// contradictions warns where a reviewer may have overlooked something.
func (t *toolBuilder) contradictions() {
	c := t.contract
	irreversible := c.Effect == writ.Write && !c.Reversible
	for _, m := range c.Methods {
		irreversible = irreversible || m.Effect == writ.Write && !m.Reversible
	}
	if irreversible && len(c.Evidence) == 0 && c.NoEvidence == "" {
		t.warnf(t.review.field, "an irreversible write without evidence lines: a model alone may choose every value; add evidence, or say why there is none (no_evidence: REASON)")
	}
	says := func(hint *bool, value bool) bool { return hint != nil && *hint == value }
	a := t.definition.Annotations
	if c.Effect == writ.Write {
		return
	}
	switch {
	case says(a.ReadOnlyHint, false):
		t.warnf(t.review.field, "declared %s, but the definition says readOnlyHint false", c.Effect)
	case says(a.DestructiveHint, true) && !says(a.ReadOnlyHint, true): // it means nothing for read-only tools
		t.warnf(t.review.field, "declared %s, but the definition says destructiveHint true", c.Effect)
	case c.Effect == writ.Pure && says(a.OpenWorldHint, true):
		t.warnf(t.review.field, "declared pure, but the definition says openWorldHint true")
	}
}
