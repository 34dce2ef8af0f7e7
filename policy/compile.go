package policy

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
)

// Compile parses, validates, lints and indexes the policies of one bundle.
// known says which entities the bundle holds; nil means none. The Set is nil
// when any of the faults is an error; warnings come with a Set.
//
// Policies are ordered by the bytewise path of their file, then by position.
func Compile(s *Schema, known EntitySet, sources []Source) (*Set, writ.Faults) {
	return Recompile(s, known, sources, nil)
}

// Recompile is Compile for a bundle of which a set was made before. What is
// the same it doesn't look at again: the files whose text hasn't changed are
// not parsed, and where the schema is the same one, too, not validated; it is
// only asked whether the entities and policies that they name are there. Set
// and faults are those of Compile. previous stays as it is, and may be nil.
func Recompile(s *Schema, known EntitySet, sources []Source, previous *Set) (*Set, writ.Faults) {
	if known == nil {
		known = noEntities{}
	}
	c := &compiler{
		schema: s, cutter: newCutter(s), ids: map[string]*entry{}, memo: map[string]any{},
		census: &census{known: known, policies: map[string]bool{}},
	}
	sources = slices.Clone(sources)
	slices.SortStableFunc(sources, func(a, b Source) int { return strings.Compare(a.File, b.File) })
	same := previous != nil && previous.schema == s && len(previous.files) == len(sources)
	for i, src := range sources {
		if i > 0 && sources[i-1].File == src.File {
			c.faults = append(c.faults, writ.Fault{File: src.File, Message: "the file is there twice"})
			same = false
			continue
		}
		file, known := previous.file(src, s)
		if !known {
			file = readFile(src)
		}
		same = same && known && file == previous.files[i]
		c.enter(file)
	}
	c.census.incomplete = c.incomplete
	for id := range c.ids {
		c.census.policies[id] = true
	}
	for _, e := range c.entries {
		c.check(e)
	}
	faults := c.faults.Sort()
	switch {
	case len(faults.Errors()) > 0:
		return nil, faults
	case same:
		return previous, faults
	}
	return newSet(s, c.policies(), c.files, previous), faults
}

// noEntities is a bundle without entities.
type noEntities struct{}

func (noEntities) Has(types.EntityUID) bool      { return false }
func (noEntities) IDs(types.EntityType) []string { return nil }

// compiler compiles the policies of one bundle.
type compiler struct {
	schema  *Schema
	cutter  *cutter
	census  *census
	files   []*policyFile
	entries []*entry
	ids     map[string]*entry
	faults  writ.Faults
	memo    map[string]any // of the lints
	actions *actionNames   // made by actionNames
	// incomplete says that some policies couldn't be read.
	incomplete bool
}

// policyFile is one file of policies as it was read.
type policyFile struct {
	source     Source
	entries    []*entry // in order
	faults     writ.Faults
	incomplete bool // some policies couldn't be read
}

// entry is one policy on its way. Once a set is made of it, it doesn't change.
type entry struct {
	policy      *Policy // its ordinal and what an index adds are not filled in
	source      Source
	offset      int // of the policy in the source
	annotations map[string]string
	found       *findings // nil: not looked at yet
}

// file returns the file of a set with this text, checked against this schema
// or not yet checked.
func (s *Set) file(src Source, schema *Schema) (*policyFile, bool) {
	if s == nil {
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(s.files, src.File, func(f *policyFile, name string) int { return strings.Compare(f.source.File, name) })
	if !ok || !bytes.Equal(s.files[i].source.Text, src.Text) {
		return nil, false
	}
	file := s.files[i]
	if s.schema == schema {
		return file, true
	}
	anew := *file
	anew.entries = make([]*entry, len(file.entries))
	for i, e := range file.entries {
		anew.entries[i] = &entry{policy: e.policy, source: e.source, offset: e.offset, annotations: e.annotations}
	}
	return &anew, true
}

// declare reads a policy's annotations and notes the policy.
func (f *policyFile) declare(e *entry, p *ast.Policy, text []byte) {
	ref := writ.PolicyRef{File: e.source.File, Line: p.Position.Line}
	e.annotations = make(map[string]string, len(p.Annotations))
	for _, a := range p.Annotations {
		e.annotations[string(a.Key)] = string(a.Value)
	}
	a := annotations{entry: e, policy: p, text: text}
	absent := a.read(&ref)
	f.faults = append(f.faults, a.faults...)
	e.policy = newPolicy(ref, 0, p)
	e.policy.Text, e.policy.AbsentAllowed = text, absent
	e.policy.digest = policyDigest(e.policy)
	f.entries = append(f.entries, e)
}

// enter adds the policies of a file to the bundle's.
func (c *compiler) enter(f *policyFile) {
	c.files = append(c.files, f)
	c.faults = append(c.faults, f.faults...)
	c.incomplete = c.incomplete || f.incomplete
	for _, e := range f.entries {
		id := e.policy.ID
		if first := c.ids[id]; first != nil {
			a := annotations{entry: e, policy: e.policy.ast, text: e.policy.Text}
			a.fault("id", "the id %q is taken by the policy at %s:%d: choose another", id, first.policy.File, first.policy.Line)
			c.faults = append(c.faults, a.faults...)
		} else if id != "" {
			c.ids[id] = e
		}
		c.entries = append(c.entries, e)
	}
}

// policies makes the policies of a set: each set has its own.
func (c *compiler) policies() []*Policy {
	out := make([]*Policy, len(c.entries))
	for i, e := range c.entries {
		p := *e.policy
		p.ordinal, p.Inactive = i, e.found.inactive
		out[i] = &p
	}
	return out
}

// check validates and lints one policy, unless that is done already, and asks
// whether what it names is there.
func (c *compiler) check(e *entry) {
	if e.found == nil {
		before := len(c.faults)
		found := c.examine(e)
		found.faults = append(slices.Clip(found.faults), c.faults[before:]...).Sort()
		c.faults = c.faults[:before]
		e.found = &found
	}
	faults := e.found.faults
	for _, n := range e.found.named {
		if f, absent := c.absent(e, n); absent {
			faults = append(slices.Clip(faults), f)
		}
	}
	if len(faults) > len(e.found.faults) {
		faults = faults.Sort()
	}
	c.faults = append(c.faults, faults...)
}

// examine validates and lints one policy.
func (c *compiler) examine(e *entry) findings {
	p := e.policy
	actions, ok := c.scope(e)
	if !ok {
		return findings{}
	}
	in := lintInput{
		policy: p.ast, ref: p.PolicyRef, source: e.source, text: p.Text, offset: e.offset,
		annotations: e.annotations, actions: actions, schema: c.schema, names: c.actionNames(), memo: c.memo,
	}
	if len(actions) == 0 {
		what := "is inactive"
		if p.Effect == types.Forbid {
			what = "is inactive and forbids nothing"
		}
		c.warn(e, "%s %s: %s", c.name(e), what, c.schema.inactive(p.ast.Action))
		return findings{inactive: true}
	}
	cut := c.cutter.cut(p.ast, actions)
	in.cut = cut.schema
	if err := cut.validate(p.ast); err != nil {
		return explain(in, err)
	}
	return lint(in)
}

func (c *compiler) actionNames() *actionNames {
	if c.actions == nil {
		c.actions = newActionNames(c.schema)
	}
	return c.actions
}

// scope lists the actions of calls and approvals that a policy's action scope
// covers. It reports a scope that names what isn't there.
func (c *compiler) scope(e *entry) (actions []types.EntityUID, ok bool) {
	if aboutRights(e.policy.ast.Action) {
		return c.rightsScope(e)
	}
	switch scope := e.policy.ast.Action.(type) {
	case ast.ScopeTypeAll:
		if slices.Contains(shelvesOf(e.policy), everyAction) {
			return c.schema.actions, true
		}
		return c.schema.calls, true
	case ast.ScopeTypeEq:
		if !c.knownAction(e, 0, scope.Entity) {
			return nil, false
		}
		if c.schema.contract(scope.Entity) == nil {
			c.fail(e, 0, "%s is a group of actions, which no call is itself: write `action in %s`", scope.Entity, scope.Entity)
			return nil, false
		}
		return []types.EntityUID{scope.Entity}, true
	case ast.ScopeTypeIn:
		return c.schema.covers[scope.Entity], c.knownAction(e, 0, scope.Entity)
	case ast.ScopeTypeInSet:
		if len(scope.Entities) == 0 {
			c.fail(e, -1, "the list of actions is empty, so that this policy never applies: name an action")
			return nil, false
		}
		covered := map[types.EntityUID]bool{}
		ok = true
		for i, uid := range scope.Entities {
			ok = c.knownAction(e, i, uid) && ok
			for _, action := range c.schema.covers[uid] {
				covered[action] = true
			}
		}
		return slices.SortedFunc(maps.Keys(covered), compareUIDs), ok
	}
	c.fail(e, -1, "this kind of action scope is not supported")
	return nil, false
}

// knownAction reports the i'th action of a scope unless some contract has it.
func (c *compiler) knownAction(e *entry, i int, uid types.EntityUID) bool {
	if _, ok := c.schema.covers[uid]; ok {
		return true
	}
	c.fail(e, i, "%s", c.actionNames().unknown(uid))
	return false
}

// fail reports an error in e's action scope, at the i'th action that it names
// or, if i is negative, at the scope as a whole.
func (c *compiler) fail(e *entry, i int, format string, args ...any) {
	places := locate(e.policy.ast, e.source, e.policy.Text, e.offset)
	at := places.action.variable
	if i >= 0 {
		at = places.action.entities[i]
	}
	c.faults = append(c.faults, places.fault(at, fmt.Sprintf(format, args...)))
}

// name names a policy in messages; one that lacks its @id too.
func (c *compiler) name(e *entry) string {
	if e.policy.ID == "" {
		return "this policy"
	}
	return fmt.Sprintf("policy %q", e.policy.ID)
}

// warn reports a warning at the start of the policy.
func (c *compiler) warn(e *entry, format string, args ...any) {
	f := faultAt(e.source, e.offset, fmt.Sprintf(format, args...))
	f.Severity = writ.Warning
	c.faults = append(c.faults, f)
}
