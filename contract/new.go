package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/definition"
)

// builder makes the contracts of one declaration.
type builder struct {
	faults
	declaration *Declaration
	server      *Server
	lines       []*line // nil where a line is faulty
	tools       map[string]*definition.Tool
	// known holds the names of every tool's arguments.
	known map[string]bool
}

// New makes the contracts of the tools that d reviews, in the order of their
// names, from the definitions that tools/list gave. It reports every fault at
// once; with any, there are no contracts. Warnings don't keep anything from
// loading: among them are the tools that nobody reviewed, which have no contract
// and are refused.
//
// Neither d nor the definitions may be changed afterwards.
func New(d Declaration, tools []*definition.Tool) ([]*Contract, FieldErrors, []FieldError) {
	b := &builder{declaration: &d, tools: map[string]*definition.Tool{}, known: map[string]bool{}}
	b.server = b.faults.server(&d)
	b.definitions(tools)
	for i, r := range d.Resources {
		b.lines = append(b.lines, b.resourceLine(item("resources", i), r))
	}
	b.defaults()
	if d.Defaults.Partial {
		b.errorf("defaults", ReasonPartial)
	}
	if len(d.Tools) == 0 {
		b.errorf("tools", "no tool is reviewed: declare the effect of at least one")
	}
	var contracts []*Contract
	for _, name := range sortedKeys(d.Tools) {
		if c := b.tool(name); c != nil {
			contracts = append(contracts, c)
		}
	}
	b.unreviewed()
	b.unused()
	warnings := once(b.warnings)
	if len(b.errors) > 0 {
		return nil, once(b.errors), warnings
	}
	return contracts, nil, warnings
}

// ReasonPartial is the message of the error that keeps what is partial from
// becoming a contract. Whoever could not read it whole has said why.
const ReasonPartial = "it could not be read whole"

// definitions indexes the definitions by name.
func (b *builder) definitions(tools []*definition.Tool) {
	for _, t := range tools {
		switch {
		case t == nil:
			b.errorf("tools", "a definition is missing")
		case b.tools[t.Name] != nil:
			b.errorf(member("tools", t.Name), "the tool is defined twice")
		default:
			b.tools[t.Name] = t
		}
	}
}

// defaults checks the defaults by themselves.
func (b *builder) defaults() {
	r := &b.declaration.Defaults
	b.shape("defaults", r)
	b.arguments("defaults", r)
	for _, only := range [...]struct {
		field string
		set   bool
	}{
		{"resource", r.Resource != nil}, {"methods", r.Methods != nil}, {"method_argument", r.MethodArgument != ""},
		{"postconditions", r.Postconditions != nil},
	} {
		if only.set {
			b.errorf(member("defaults", only.field), "this belongs to one tool: write it there")
		}
	}
}

// arguments checks argument lines whatever the tool is.
func (b *builder) arguments(field string, r *Review) {
	for _, name := range sortedKeys(r.Arguments) {
		at, a := member(member(field, "arguments"), name), r.Arguments[name]
		said := 0
		for _, is := range [...]bool{a.Entity != "", a.Long, a.Opaque} {
			if is {
				said++
			}
		}
		if said != 1 {
			b.errorf(at, "write exactly one of entity, long and opaque")
		}
		if a.MayBeNew && a.Entity == "" {
			b.errorf(member(at, "may_be_new"), "only an entity can be new")
		}
		if a.BoundTo != "" && a.Entity == "" {
			b.errorf(member(at, "bound_to"), "only an entity can be somebody's: write entity, too")
		}
		if a.Entity == "" {
			continue
		}
		if a.BoundTo != "" && a.MayBeNew {
			b.errorf(member(at, "bound_to"), "what may be new is nobody's yet, so anybody could name it: leave may_be_new or bound_to out")
		}
		if _, made := roleOf(a.Entity, name); made {
			if a.BoundTo != "" {
				b.errorf(member(at, "bound_to"), "a %s is made of the argument alone and is nobody's", a.Entity)
			}
			if a.MayBeNew {
				b.errorf(member(at, "may_be_new"), "a %s is made of the argument alone and is never looked up", a.Entity)
			}
		} else if why := badEntityType(a.Entity); why != "" {
			b.errorf(member(at, "entity"), "%q: %s", a.Entity, why)
		}
	}
	for _, name := range sortedKeys(r.WhenAbsent) {
		at, v := member(member(field, "when_absent"), name), r.WhenAbsent[name]
		if v == nil {
			b.errorf(at, "null means nothing: write a value of the argument's type")
		} else if why := notCanonical(v); why != "" {
			b.errorf(at, "%s", why)
		}
	}
}

// unreviewed warns of definitions without a review.
func (b *builder) unreviewed() {
	var names []string
	for _, name := range sortedKeys(b.tools) {
		if _, ok := b.declaration.Tools[name]; !ok {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		b.warnf("tools", "not reviewed, so never permitted (%d): %s", len(names), strings.Join(names, ", "))
	}
}

// once drops repetitions: a fault of the defaults shows in every tool.
func once[S ~[]FieldError](list S) S {
	seen := map[FieldError]bool{}
	return slices.DeleteFunc(list, func(e FieldError) bool {
		again := seen[e]
		seen[e] = true
		return again
	})
}

// unused reports names in the defaults and resource lines that no tool has. An evidence line or a
// secret that applies nowhere is an error: its author believes in a check that
// never runs.
func (b *builder) unused() {
	r := &b.declaration.Defaults
	warn := func(field, name string) {
		if !b.known[name] {
			b.warnf(field, "no tool has an argument %q", name)
		}
	}
	b.unusedLines()
	for i, name := range r.Opaque {
		warn(item("defaults.opaque", i), name)
	}
	for _, name := range sortedKeys(r.Arguments) {
		warn(member("defaults.arguments", name), name)
	}
	for _, name := range sortedKeys(r.WhenAbsent) {
		warn(member("defaults.when_absent", name), name)
	}
	for i, name := range r.ReviewShows {
		warn(item("defaults.review_shows", i), name)
	}
	for i, name := range r.Loggable {
		warn(item("defaults.loggable", i), name)
	}
	for i, name := range r.Secret {
		if !b.known[name] {
			b.errorf(item("defaults.secret", i), "no tool has an argument %q, so nothing would be kept secret%s",
				name, nearest(name, sortedKeys(b.known)))
		}
	}
	for _, name := range sortedKeys(r.Evidence) {
		if !b.known[name] {
			b.errorf(member("defaults.evidence", name), "no tool has an argument %q, so nothing would be checked%s",
				name, nearest(name, sortedKeys(b.known)))
		}
	}
}

// tool makes the contract of one tool, or reports why there is none.
func (b *builder) tool(name string) *Contract {
	own, field := b.declaration.Tools[name], member("tools", name)
	before := len(b.errors)
	if why := badToolName(name); why != "" {
		b.errorf(field, "%s", why)
	}
	b.shape(field, &own)
	b.arguments(field, &own)
	r := merge(field, own, b.declaration.Defaults)
	if own.Partial {
		b.errorf(field, ReasonPartial)
	}
	if r.effect == "" && !r.partial {
		b.errorf(field, "declare its effect: pure, read or write")
	}
	if r.scope != "" && !b.server.TokenRequired {
		b.errorf(member(field, "scope"), "with token: none nobody has a scope: leave one of them out")
	}
	var line *line
	if own.Resource != nil {
		line = b.resourceLine(member(field, "resource"), *own.Resource)
	}
	def := b.tools[name]
	if def == nil {
		b.errorf(field, "there is no definition of this tool: add what tools/list says, or take the tool out%s", nearest(name, sortedKeys(b.tools)))
		return nil
	}
	schema, err := newValidators(def.InputSchema)
	if err != nil {
		b.errors = append(b.errors, FieldError{Field: field, Pointer: "/inputSchema" + err.pointer, Message: err.Error()})
		return nil
	}
	t := &toolBuilder{
		builder: b, name: name, review: r, definition: def, own: line,
		typed: map[string]Argument{}, meant: map[string]any{},
		contract: &Contract{
			Server: b.server, Tool: def, Valid: r.valid,
			Effect: writ.Effect(r.effect), Scope: r.scope, IntentRequired: r.intentRequired,
			Reversible: reversible(r.effect, r.reversible),
			OnChange:   r.onChange, DecideAt: r.decideAt, Grant: r.grant, UndeclaredAllowed: r.undeclared == "allow",
			NoEvidence: r.noEvidence, Postconditions: r.postconditions,
			action: b.server.ID + "/" + name, schema: schema,
		},
	}
	errors, warnings := len(b.errors), len(b.warnings)
	t.build()
	if r.partial {
		b.errors = append(b.errors[:errors], slices.DeleteFunc(b.errors[errors:], func(e FieldError) bool { return !b.certain[e] })...)
		b.warnings = b.warnings[:warnings]
	}
	if len(b.errors) > before || r.partial {
		return nil
	}
	t.contract.supported = slices.Sorted(maps.Keys(t.contract.Evidence))
	t.contract.Digest = digest(t.contract, t.typed, t.meant)
	return t.contract
}

// reversible says whether an effect can be undone. A write can only if somebody
// says so; nothing has to be undone otherwise.
func reversible(effect string, declared *bool) bool {
	if declared != nil {
		return *declared
	}
	return effect == string(writ.Read) || effect == string(writ.Pure)
}

// roleOf returns how a Path, Host, Url or Email argument that is no target is
// read, and whether entity is one of these.
func roleOf(entity, argument string) (*Resource, bool) {
	switch entity {
	case string(PathType):
		return &Resource{Path: []string{argument}}, true
	case string(HostType):
		return &Resource{Host: []string{argument}}, true
	case string(URLType):
		return &Resource{URL: []string{argument}}, true
	case string(EmailType):
		return &Resource{Email: []string{argument}}, true
	}
	return nil, false
}

// appendNew appends s to list unless it is there.
func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, ", ")
}
