package policy

import (
	"cmp"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// An index finds the policies that can say anything about a request, without
// looking at the others. Policies are kept on shelves by what their action
// scope names: one action, a group, or nothing. For an action, the shelves of
// the action, of its groups and, where the open scope covers it, of the open
// scope hold all policies whose action scope is true. Within a shelf, policies
// are found by principal or resource.
//
// A policy that the index leaves out is one whose scope is false. Cedar
// evaluates a policy's scope before its conditions, and scopes can't fail: such
// a policy would neither have decided nor erred.
type index struct {
	// actions holds the shelves of every known action. An unknown action has
	// none, so that nothing permits it.
	actions map[types.EntityUID][]*shelf
}

// A shelf holds the policies whose action scope names one thing, forbids and
// permits apart.
type shelf struct {
	forbids, permits drawer
}

// A drawer holds policies of one effect from one shelf, in order.
type drawer struct {
	all []*Policy
	// open holds the policies that are looked at for every request. Each of
	// the others is in keyed once, under the entity that its principal or its
	// resource scope names.
	open  []*Policy
	keyed map[scopeKey][]*Policy
	has   [scopeKinds]bool // kinds of key in keyed
}

// scopeKey is the part of a policy's scope by which a drawer finds it.
type scopeKey struct {
	kind scopeKind
	uid  types.EntityUID
}

type scopeKind uint8

const (
	principalEquals scopeKind = iota
	resourceEquals
	principalIn
	resourceIn
	scopeKinds
)

// openLimit is how many policies of a drawer may be looked at one by one
// before finding them by key is cheaper.
const openLimit = 4

// shelfKey is what an action scope names. Both parts are zero for the open
// scope.
type shelfKey struct {
	uid    types.EntityUID
	equals bool // action == uid, not action in uid
}

// shelfKeys lists the shelves that a policy belongs on.
func shelfKeys(scope ast.IsActionScopeNode) []shelfKey {
	switch scope := scope.(type) {
	case ast.ScopeTypeAll:
		return []shelfKey{{}}
	case ast.ScopeTypeEq:
		return []shelfKey{{scope.Entity, true}}
	case ast.ScopeTypeIn:
		return []shelfKey{{scope.Entity, false}}
	case ast.ScopeTypeInSet:
		out := make([]shelfKey, len(scope.Entities))
		for i, uid := range scope.Entities {
			out[i] = shelfKey{uid, false}
		}
		return out
	}
	return nil
}

// actionKeys lists the shelves of an action that is in groups, and that the
// open scope covers or not.
func actionKeys(action types.EntityUID, groups []types.EntityUID, open bool) []shelfKey {
	out := make([]shelfKey, 0, len(groups)+3)
	out = append(out, shelfKey{action, true}, shelfKey{action, false})
	for _, g := range groups {
		out = append(out, shelfKey{g, false})
	}
	if open {
		out = append(out, shelfKey{})
	}
	return out
}

// newIndex indexes policies, which are in order. groups holds every known
// action with the groups that it is in, directly or not; open says which
// actions the open action scope covers.
func newIndex(policies []*Policy, groups map[types.EntityUID][]types.EntityUID, open func(types.EntityUID) bool) *index {
	shelves := map[shelfKey]*shelf{}
	for _, p := range policies {
		for _, key := range shelfKeys(p.ast.Action) {
			s := shelves[key]
			if s == nil {
				s = &shelf{}
				shelves[key] = s
			}
			d := &s.permits
			if p.Effect == types.Forbid {
				d = &s.forbids
			}
			if n := len(d.all); n == 0 || d.all[n-1] != p { // a set may name an action twice
				d.all = append(d.all, p)
			}
		}
	}
	for _, s := range shelves {
		s.forbids.arrange()
		s.permits.arrange()
	}
	x := &index{actions: make(map[types.EntityUID][]*shelf, len(groups))}
	for action, in := range groups {
		var list []*shelf
		for _, key := range actionKeys(action, in, open(action)) {
			if s := shelves[key]; s != nil {
				list = append(list, s)
			}
		}
		x.actions[action] = list
	}
	return x
}

// arrange decides how each policy of the drawer is found: under the rarer of
// its keys, or by looking at it.
func (d *drawer) arrange() {
	d.open = d.all
	if len(d.all) <= openLimit {
		return
	}
	count := map[scopeKey]int{}
	for _, p := range d.all {
		for _, key := range scopeKeys(p.ast) {
			count[key]++
		}
	}
	d.open, d.keyed = nil, map[scopeKey][]*Policy{}
	for _, p := range d.all {
		keys := scopeKeys(p.ast)
		if len(keys) == 0 {
			d.open = append(d.open, p)
			continue
		}
		key := slices.MinFunc(keys, func(a, b scopeKey) int {
			return cmp.Or(cmp.Compare(count[a], count[b]), cmp.Compare(a.kind, b.kind))
		})
		d.keyed[key] = append(d.keyed[key], p)
		d.has[key.kind] = true
	}
}

// scopeKeys lists the keys under which a policy can be found.
func scopeKeys(p *ast.Policy) []scopeKey {
	var out []scopeKey
	switch scope := p.Principal.(type) {
	case ast.ScopeTypeEq:
		out = append(out, scopeKey{principalEquals, scope.Entity})
	case ast.ScopeTypeIn:
		out = append(out, scopeKey{principalIn, scope.Entity})
	case ast.ScopeTypeIsIn:
		out = append(out, scopeKey{principalIn, scope.Entity})
	}
	switch scope := p.Resource.(type) {
	case ast.ScopeTypeEq:
		out = append(out, scopeKey{resourceEquals, scope.Entity})
	case ast.ScopeTypeIn:
		out = append(out, scopeKey{resourceIn, scope.Entity})
	case ast.ScopeTypeIsIn:
		out = append(out, scopeKey{resourceIn, scope.Entity})
	}
	return out
}

// collect appends to dst the policies of the drawer whose scope is true.
func (d *drawer) collect(dst []*Policy, r *request) []*Policy {
	dst = r.matching(dst, d.open)
	if d.keyed == nil {
		return dst
	}
	if d.has[principalEquals] {
		dst = r.matching(dst, d.keyed[scopeKey{principalEquals, r.principal.uid}])
	}
	if d.has[resourceEquals] {
		dst = r.matching(dst, d.keyed[scopeKey{resourceEquals, r.resource.uid}])
	}
	if d.has[principalIn] {
		for _, uid := range r.principal.ancestors(r.entities) {
			dst = r.matching(dst, d.keyed[scopeKey{principalIn, uid}])
		}
	}
	if d.has[resourceIn] {
		for _, uid := range r.resource.ancestors(r.entities) {
			dst = r.matching(dst, d.keyed[scopeKey{resourceIn, uid}])
		}
	}
	return dst
}

// inOrder sorts policies by rank and drops repetitions.
func inOrder(policies []*Policy) []*Policy {
	byRank := func(a, b *Policy) int { return cmp.Compare(a.ordinal, b.ordinal) }
	if !slices.IsSortedFunc(policies, byRank) {
		slices.SortFunc(policies, byRank)
	}
	return slices.Compact(policies)
}

// request is what a drawer is searched with.
type request struct {
	principal, resource lineage
	entities            types.EntityGetter
}

// matching appends to dst those of policies whose principal and resource
// scopes are true. Cedar would find out too, but walks the ancestors anew for
// every policy.
func (r *request) matching(dst, policies []*Policy) []*Policy {
	for _, p := range policies {
		if r.principal.holds(p.ast.Principal, r.entities) && r.resource.holds(p.ast.Resource, r.entities) {
			dst = append(dst, p)
		}
	}
	return dst
}

// lineage is an entity and, once somebody asks, its ancestors.
type lineage struct {
	uid   types.EntityUID
	known []types.EntityUID
}

// holds reports whether a principal or resource scope is true of the entity.
func (l *lineage) holds(scope ast.IsScopeNode, entities types.EntityGetter) bool {
	switch scope := scope.(type) {
	case ast.ScopeTypeAll:
		return true
	case ast.ScopeTypeEq:
		return scope.Entity == l.uid
	case ast.ScopeTypeIs:
		return scope.Type == l.uid.Type
	case ast.ScopeTypeIn:
		return slices.Contains(l.ancestors(entities), scope.Entity)
	case ast.ScopeTypeIsIn:
		return scope.Type == l.uid.Type && slices.Contains(l.ancestors(entities), scope.Entity)
	}
	return true // a scope of a kind that isn't known here: let Cedar see
}

// ancestors returns the entity and everything that it is in: what Cedar's
// `in` is true of.
func (l *lineage) ancestors(entities types.EntityGetter) []types.EntityUID {
	if l.known != nil {
		return l.known
	}
	out := append(make([]types.EntityUID, 0, 16), l.uid)
	var seen map[types.EntityUID]bool // of out, once an ancestor has parents of its own
	for i := 0; i < len(out); i++ {
		e, ok := entities.Get(out[i])
		if !ok || e.Parents.Len() == 0 {
			continue
		}
		if i > 0 && seen == nil {
			seen = make(map[types.EntityUID]bool, len(out))
			for _, uid := range out {
				seen[uid] = true
			}
		}
		for parent := range e.Parents.All() {
			if i == 0 && parent != l.uid || i > 0 && !seen[parent] {
				out = append(out, parent)
				if seen != nil {
					seen[parent] = true
				}
			}
		}
	}
	l.known = out
	return out
}
