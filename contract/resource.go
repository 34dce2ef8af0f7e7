package contract

import (
	"iter"
	"slices"

	"github.com/writ-pdp/writ/target"
)

// line is a resource line whose shape is right.
type line struct {
	field    string
	resource Resource
	id       []piece
	in       map[string][]piece
	roots    []target.Path
	matches  bool // some tool declares all of its arguments
	applies  bool // and the line is the first that some tool matches
}

// resourceLine checks a resource line whatever the tool is, and returns it, or
// nil when it is faulty. One that is partial is returned with its faults: what
// it is about is not known.
func (f *faults) resourceLine(field string, r Resource) *line {
	before := len(f.errors)
	l := &line{field: field, resource: r, in: map[string][]piece{}}
	kinds := 0
	for _, is := range [...]bool{r.Entity != "", r.Path != nil, r.Host != nil, r.URL != nil, r.Email != nil} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		f.errorf(field, "write exactly one of entity, path, host, url and email")
	case r.Entity != "":
		f.entityLine(l)
	default:
		f.builtInLine(l)
	}
	if r.Partial {
		f.errorf(field, ReasonPartial)
		return l
	}
	if len(f.errors) > before {
		return nil
	}
	return l
}

func (f *faults) entityLine(l *line) {
	r := &l.resource
	if why := badEntityType(r.Entity); why != "" {
		f.errorf(member(l.field, "entity"), "%q: %s", r.Entity, why)
	}
	if len(r.Within) > 0 || r.Base != "" || r.Case != "" {
		f.errorf(l.field, "within, base and case belong to paths")
	}
	f.oneOf(member(l.field, "fold"), r.Fold, "", "ascii")
	var err error
	if l.id, err = parseTemplate(r.ID); err != nil {
		f.errorf(member(l.field, "id"), "%q: %v", r.ID, err)
	} else if len(argumentsOf(l.id)) == 0 {
		f.errorf(member(l.field, "id"), "%q names no argument: every call would have the same target", r.ID)
	}
	for _, t := range sortedKeys(r.In) {
		at := member(member(l.field, "in"), t)
		if why := badEntityType(t); why != "" {
			f.errorf(at, "%q: %s", t, why)
		}
		if l.in[t], err = parseTemplate(r.In[t]); err != nil {
			f.errorf(at, "%q: %v", r.In[t], err)
		}
	}
}

func (f *faults) builtInLine(l *line) {
	r := &l.resource
	if r.ID != "" || len(r.In) > 0 || r.Fold != "" || r.MayBeNew {
		f.errorf(l.field, "id, in, fold and may_be_new belong to entities of the bundle")
	}
	list, names := r.names()
	if len(names) == 0 {
		f.errorf(member(l.field, list), "name an argument")
	}
	f.distinct(member(l.field, list), names)
	if list != "path" {
		if len(r.Within) > 0 || r.Base != "" || r.Case != "" {
			f.errorf(l.field, "within, base and case belong to paths")
		}
		return
	}
	f.oneOf(member(l.field, "case"), r.Case, "", "sensitive", "insensitive")
	f.distinct(member(l.field, "within"), r.Within)
	for i, text := range r.Within {
		if root, ok := f.normalPath(item(member(l.field, "within"), i), text, r.Case == "insensitive"); ok {
			l.roots = append(l.roots, root)
		}
	}
	if r.Base != "" {
		f.normalPath(member(l.field, "base"), r.Base, false)
	}
}

// normalPath reports a directory that is not written in normal form: a reader
// of the declaration should see the bound that is enforced.
func (f *faults) normalPath(field, text string, fold bool) (target.Path, bool) {
	p, err := target.NewPath(text, target.PathOptions{Fold: fold})
	switch {
	case err != nil:
		f.errorf(field, "%q: %v", text, err)
	case p.Text != text:
		f.errorf(field, "%q is not in normal form: write %q", text, p.Text)
	default:
		return p, true
	}
	return target.Path{}, false
}

// names returns which list of r is set, in snake case, and the arguments in it.
func (r *Resource) names() (list string, names []string) {
	switch {
	case r.Path != nil:
		return "path", r.Path
	case r.Host != nil:
		return "host", r.Host
	case r.URL != nil:
		return "url", r.URL
	}
	return "email", r.Email
}

// mentions yields every argument that the line names, with the field where it
// does.
func (l *line) mentions() iter.Seq2[string, string] {
	return func(yield func(name, field string) bool) {
		if l.resource.Entity == "" {
			list, names := l.resource.names()
			for i, name := range names {
				if !yield(name, item(member(l.field, list), i)) {
					return
				}
			}
			return
		}
		for _, name := range argumentsOf(l.id) {
			if !yield(name, member(l.field, "id")) {
				return
			}
		}
		for _, t := range sortedKeys(l.in) {
			for _, name := range argumentsOf(l.in[t]) {
				if !yield(name, member(member(l.field, "in"), t)) {
					return
				}
			}
		}
	}
}

// arguments returns every argument that the line names.
func (l *line) arguments() []string {
	var names []string
	for name := range l.mentions() {
		names = appendNew(names, name)
	}
	return names
}

// appliesTo reports whether a tool declares every argument that l names.
func (l *line) appliesTo(c *catalog) bool {
	for name := range l.mentions() {
		if c.byName[name] == nil {
			return false
		}
	}
	return true
}

// unusedLines reports the resource lines that apply to no tool: their author
// believes that calls are aimed at a target, and policies see the Tool. One
// that names an argument which no tool has can apply to none, now or with
// another review: an error. One that merely finds no tool with all of its
// arguments is a warning.
func (b *builder) unusedLines() {
	if slices.ContainsFunc(b.lines, func(l *line) bool { return l != nil && l.resource.Partial }) {
		return // what applies where is not known
	}
	unused := slices.DeleteFunc(slices.Clone(b.lines), func(l *line) bool { return l == nil || l.applies })
	if len(unused) == 0 {
		return
	}
	all, known := b.everyArgument()
	for _, l := range unused {
		before := len(b.errors)
		for name, field := range l.mentions() {
			if _, ok := slices.BinarySearch(all, name); known && !ok {
				b.errorf(field, "no tool of the server has an argument %q%s", name, nearest(name, all))
			}
		}
		switch {
		case len(b.errors) > before:
		case l.matches && len(l.resource.Within) > 0:
			b.errorf(l.field, "an earlier line comes first for every tool that has these arguments (%s), so this bound is never held: put it first, or remove it", quoteAll(l.arguments()))
		case l.matches:
			b.warnf(l.field, "an earlier line comes first for every tool that has these arguments (%s): this one is never used", quoteAll(l.arguments()))
		default:
			b.warnf(l.field, "no tool without a resource of its own declares all of its arguments (%s)", quoteAll(l.arguments()))
		}
	}
}

// everyArgument returns the names of the arguments of every tool, reviewed or
// not, sorted. They are not known where a reviewed tool has no definition.
func (b *builder) everyArgument() (names []string, known bool) {
	for name := range b.declaration.Tools {
		if b.tools[name] == nil {
			return nil, false
		}
	}
	all := map[string]bool{}
	for _, t := range b.tools {
		d := newDeriver(t)
		d.arguments()
		for name := range d.catalog.byName {
			all[name] = true
		}
	}
	return sortedKeys(all), true
}
