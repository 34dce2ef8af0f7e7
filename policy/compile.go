package policy

import (
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
	if known == nil {
		known = noEntities{}
	}
	c := &compiler{
		schema: s, known: known, cutter: newCutter(s), ids: map[string]*entry{}, actions: newActionNames(s),
		memo: map[string]any{},
	}
	sources = slices.Clone(sources)
	slices.SortStableFunc(sources, func(a, b Source) int { return strings.Compare(a.File, b.File) })
	for i, src := range sources {
		if i > 0 && sources[i-1].File == src.File {
			c.faults = append(c.faults, writ.Fault{File: src.File, Message: "the file is there twice"})
			continue
		}
		c.parse(src)
	}
	ids := make(map[string]bool, len(c.ids))
	for id := range c.ids {
		ids[id] = true
	}
	policies := make([]*Policy, len(c.entries))
	for i, e := range c.entries {
		c.check(e, ids)
		policies[i] = e.policy
	}
	faults := c.faults.Sort()
	if len(faults.Errors()) > 0 {
		return nil, faults
	}
	return newSet(s, policies), faults
}

// noEntities is a bundle without entities.
type noEntities struct{}

func (noEntities) Has(types.EntityUID) bool      { return false }
func (noEntities) IDs(types.EntityType) []string { return nil }

// compiler compiles the policies of one bundle.
type compiler struct {
	schema  *Schema
	known   EntitySet
	cutter  *cutter
	entries []*entry
	ids     map[string]*entry
	faults  writ.Faults
	memo    map[string]any // of the lints
	actions *actionNames
	// incomplete says that some policies couldn't be read.
	incomplete bool
}

// entry is one policy on its way.
type entry struct {
	policy      *Policy
	source      Source
	offset      int // of the policy in the source
	annotations map[string]string
}

// declare reads a policy's annotations and notes the policy.
func (c *compiler) declare(e *entry, p *ast.Policy, text []byte) {
	ref := writ.PolicyRef{File: e.source.File, Line: p.Position.Line}
	e.annotations = make(map[string]string, len(p.Annotations))
	for _, a := range p.Annotations {
		e.annotations[string(a.Key)] = string(a.Value)
	}
	a := annotations{entry: e, policy: p, text: text}
	absent := a.read(&ref)
	if first := c.ids[ref.ID]; first != nil {
		a.fault("id", "the id %q is taken by the policy at %s:%d: choose another", ref.ID, first.policy.File, first.policy.Line)
	}
	c.faults = append(c.faults, a.faults...)
	e.policy = newPolicy(ref, len(c.entries), p)
	e.policy.Text, e.policy.AbsentAllowed = text, absent
	c.entries = append(c.entries, e)
	if ref.ID != "" && c.ids[ref.ID] == nil {
		c.ids[ref.ID] = e
	}
}

// check validates and lints one policy.
func (c *compiler) check(e *entry, ids map[string]bool) {
	p := e.policy
	actions, ok := c.scope(e)
	if !ok {
		return
	}
	in := lintInput{
		policy: p.ast, ref: p.PolicyRef, source: e.source, text: p.Text, offset: e.offset,
		annotations: e.annotations, actions: actions, schema: c.schema,
		known: c.known, supplied: c.schema.supplied, policies: ids, incomplete: c.incomplete, names: c.actions, memo: c.memo,
	}
	if len(actions) == 0 {
		p.Inactive = true
		what := "is inactive"
		if p.Effect == types.Forbid {
			what = "is inactive and forbids nothing"
		}
		c.warn(e, "%s %s: %s", c.name(e), what, c.schema.inactive(p.ast.Action))
		return
	}
	cut := c.cutter.cut(p.ast, actions)
	in.cut = cut.schema
	if err := cut.validate(p.ast); err != nil {
		c.faults = append(c.faults, explain(in, err)...)
		return
	}
	c.faults = append(c.faults, lint(in)...)
}

// scope lists the actions of calls and approvals that a policy's action scope
// covers. It reports a scope that names what isn't there.
func (c *compiler) scope(e *entry) (actions []types.EntityUID, ok bool) {
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
	c.fail(e, i, "%s", c.actions.unknown(uid))
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
