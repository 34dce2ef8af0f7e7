package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/writ-pdp/writ/contract"
)

// class is those actions in a policy's scope that are alike in everything
// that the policy reads, so that one of them stands for all.
type class struct {
	action   types.EntityUID
	applies  *resolved.AppliesTo
	contract *contract.Contract
	tools    []string // S/T, sorted, of all actions in the class
	// contracts are those of all actions in the class.
	contracts []*contract.Contract
	// closed holds what is known of the context's members, once it was asked
	// for, and bounds where the targets are.
	closed  map[types.String]*closed
	bounds  *bounds
	bounded bool // bounds are known
}

// classes parts the actions of a policy's scope.
func classes(in *lintInput, l *located) []*class {
	r := &readPaths{paths: map[string][]string{}}
	for _, c := range l.conditions {
		r.visit(c.body)
	}
	paths := slices.Sorted(maps.Keys(r.paths))
	var key strings.Builder
	fmt.Fprintf(&key, "classes %t %d", r.whole || r.action, len(in.actions)) // an open scope can cover approvals or not
	for _, shelf := range shelfKeys(in.policy.Action) {
		key.WriteString("\n" + shelf.String())
	}
	for _, path := range paths {
		key.WriteString("\n" + path)
	}
	return remember(in, key.String(), func() []*class { return r.part(in.schema, in.actions, paths) })
}

// remember returns what make makes, or what it made for an earlier policy.
func remember[T any](in *lintInput, key string, make func() T) T {
	if known, ok := in.memo[key].(T); ok {
		return known
	}
	made := make()
	if in.memo != nil {
		in.memo[key] = made
	}
	return made
}

// part parts actions into classes.
func (r *readPaths) part(s *Schema, actions []types.EntityUID, paths []string) []*class {
	var out []*class
	index := map[string]*class{}
	var b strings.Builder
	for _, uid := range actions {
		applies, c := s.whole.Actions[uid].AppliesTo, s.contract(uid)
		if isRight(uid) {
			c = noTool
		}
		if applies == nil || c == nil {
			continue
		}
		b.Reset()
		if r.whole || r.action {
			b.WriteString(string(uid.ID))
		}
		fmt.Fprint(&b, applies.Principals, applies.Resources, isApproval(uid), foldOfResource(c))
		for _, path := range paths {
			b.WriteByte('\n')
			writePath(&b, applies.Context, c, r.paths[path])
		}
		at := index[b.String()]
		if at == nil {
			at = &class{action: uid, applies: applies, contract: c}
			index[b.String()] = at
			out = append(out, at)
		}
		if last := len(at.contracts) - 1; last < 0 || at.contracts[last] != c { // actions are in order
			at.contracts = append(at.contracts, c)
			at.tools = append(at.tools, c.ID())
		}
	}
	for _, at := range out {
		slices.Sort(at.tools)
		at.tools = slices.Compact(at.tools)
	}
	return out
}

// foldOfResource says in which case a contract's targets and their parents
// are.
func foldOfResource(c *contract.Contract) string {
	if c.Resource == nil {
		return ""
	}
	return c.Resource.Entity + " " + c.Resource.Fold + " " + c.Resource.Case + " " + strings.Join(slices.Sorted(maps.Keys(c.Resource.In)), " ")
}

// writePath describes what an action's context has at a path.
func writePath(b *strings.Builder, context resolved.RecordType, c *contract.Contract, path []string) {
	var t resolved.IsType = context
	var argument *contract.Type
	for i, name := range path {
		record, ok := t.(resolved.RecordType)
		if !ok {
			break
		}
		attribute, there := record[types.String(name)]
		switch {
		case i == 0 && name == "arguments":
			argument = c.Arguments
		case i == 0 && name == "element":
			argument = c.Element
		case argument != nil && argument.Field(name) != nil:
			argument = argument.Field(name).Type
		default:
			argument = nil
		}
		if !there {
			fmt.Fprint(b, "-", argument != nil)
			return
		}
		b.WriteString(optionality(attribute))
		t = attribute.Type
	}
	if _, record := t.(resolved.RecordType); !record || len(path) > 1 {
		b.WriteString(typeText(t))
	}
	for ; argument != nil; argument = argument.Elem {
		fmt.Fprintf(b, " %d %q %v %t", argument.Kind, argument.Enum, foldOf(argument), argument.MayBeNew)
		if argument.Role != nil {
			fmt.Fprintf(b, " %q", argument.Role.Within)
		}
	}
}

// readPaths are the paths below context that a policy reads or asks for.
type readPaths struct {
	paths map[string][]string
	// whole says that the context, its arguments or element, or a record in
	// them is used as a value; action that conditions depend on the action.
	whole, action bool
}

func (r *readPaths) visit(e *expr) {
	switch n := e.node.(type) {
	case ast.NodeTypeVariable:
		r.whole = r.whole || n.Name == "context"
		r.action = r.action || n.Name == "action"
	case ast.NodeValue:
		uid, ok := n.Value.(types.EntityUID)
		r.action = r.action || ok && uid.Type == typeAction
	}
	if path := contextPath(e); path != nil {
		r.paths[strings.Join(path, "\x00")] = path
		if _, access := e.node.(ast.NodeTypeAccess); access && len(path) == 1 && (path[0] == "arguments" || path[0] == "element") {
			r.whole = true
		}
		for len(e.args) > 0 { // its own parts are the path's
			e = e.args[0]
			if path := contextPath(e); path != nil {
				r.paths[strings.Join(path, "\x00")] = path
			}
		}
		return
	}
	for _, arg := range e.args {
		r.visit(arg)
	}
}

// contextPath returns the names that lead from context to what e reads or asks
// for; nil for anything else.
func contextPath(e *expr) []string {
	var name types.String
	switch n := e.node.(type) {
	case ast.NodeTypeAccess:
		name = n.Value
	case ast.NodeTypeHas:
		name = n.Value
	default:
		return nil
	}
	if v, ok := e.args[0].node.(ast.NodeTypeVariable); ok && v.Name == "context" {
		return []string{string(name)}
	}
	if _, has := e.args[0].node.(ast.NodeTypeHas); has {
		return nil
	}
	if before := contextPath(e.args[0]); before != nil {
		return append(before, string(name))
	}
	return nil
}

// scopeParts is a principal or resource scope.
type scopeParts struct {
	is         types.EntityType // "" if there is no `is`
	equals, in bool
	uid        types.EntityUID
}

func partsOf(scope ast.IsScopeNode) scopeParts {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return scopeParts{equals: true, uid: s.Entity}
	case ast.ScopeTypeIn:
		return scopeParts{in: true, uid: s.Entity}
	case ast.ScopeTypeIs:
		return scopeParts{is: s.Type}
	case ast.ScopeTypeIsIn:
		return scopeParts{is: s.Type, in: true, uid: s.Entity}
	}
	return scopeParts{}
}
