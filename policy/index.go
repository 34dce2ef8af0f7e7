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
	// entities numbers, from 1, the entities that principal and resource
	// scopes name.
	entities map[types.EntityUID]entityNumber
}

// entityNumber stands for an entity that a scope names. Zero stands for none.
type entityNumber int32

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
	kind   scopeKind
	entity entityNumber
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

// everyAction is the shelf of plain forbids with an open action scope. They cover
// every action, approving among them: who may do nothing may not approve
// either. Other policies with an open scope are on the shelf with the zero
// key, and cover calls only.
var everyAction = shelfKey{equals: true}

// shelvesOf lists the shelves that a policy belongs on.
func shelvesOf(p *Policy) []shelfKey {
	if _, open := p.ast.Action.(ast.ScopeTypeAll); open && p.Effect == types.Forbid && p.Review == 0 {
		return []shelfKey{everyAction}
	}
	return shelfKeys(p.ast.Action)
}

// shelfKeys lists the shelves that an action scope names.
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
	out := make([]shelfKey, 0, len(groups)+4)
	out = append(out, shelfKey{action, true}, shelfKey{action, false}, everyAction)
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
// actions the open action scope covers, beside that of plain forbids.
func newIndex(policies []*Policy, groups map[types.EntityUID][]types.EntityUID, open func(types.EntityUID) bool) *index {
	x := &index{
		actions:  make(map[types.EntityUID][]*shelf, len(groups)),
		entities: map[types.EntityUID]entityNumber{},
	}
	shelves := map[shelfKey]*shelf{}
	for _, p := range policies {
		p.principal, p.resource = x.number(p.ast.Principal), x.number(p.ast.Resource)
		for _, key := range shelvesOf(p) {
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

// number returns the number of the entity that a principal or resource scope
// names.
func (x *index) number(scope ast.IsScopeNode) entityNumber {
	var uid types.EntityUID
	switch scope := scope.(type) {
	case ast.ScopeTypeEq:
		uid = scope.Entity
	case ast.ScopeTypeIn:
		uid = scope.Entity
	case ast.ScopeTypeIsIn:
		uid = scope.Entity
	default:
		return 0
	}
	n, ok := x.entities[uid]
	if !ok {
		n = entityNumber(len(x.entities) + 1)
		x.entities[uid] = n
	}
	return n
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
		for _, key := range scopeKeys(p) {
			count[key]++
		}
	}
	d.open, d.keyed = nil, map[scopeKey][]*Policy{}
	for _, p := range d.all {
		keys := scopeKeys(p)
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
func scopeKeys(p *Policy) []scopeKey {
	var out []scopeKey
	switch p.ast.Principal.(type) {
	case ast.ScopeTypeEq:
		out = append(out, scopeKey{principalEquals, p.principal})
	case ast.ScopeTypeIn, ast.ScopeTypeIsIn:
		out = append(out, scopeKey{principalIn, p.principal})
	}
	switch p.ast.Resource.(type) {
	case ast.ScopeTypeEq:
		out = append(out, scopeKey{resourceEquals, p.resource})
	case ast.ScopeTypeIn, ast.ScopeTypeIsIn:
		out = append(out, scopeKey{resourceIn, p.resource})
	}
	return out
}

// collect appends to dst the policies of the drawer whose scope is true.
func (d *drawer) collect(dst []*Policy, r *request) []*Policy {
	dst = r.matching(dst, d.open)
	if d.has[principalEquals] {
		dst = r.matching(dst, d.keyed[scopeKey{principalEquals, r.principal.number}])
	}
	if d.has[resourceEquals] {
		dst = r.matching(dst, d.keyed[scopeKey{resourceEquals, r.resource.number}])
	}
	if d.has[principalIn] {
		for _, n := range r.ancestors(&r.principal) {
			dst = r.matching(dst, d.keyed[scopeKey{principalIn, n}])
		}
	}
	if d.has[resourceIn] {
		for _, n := range r.ancestors(&r.resource) {
			dst = r.matching(dst, d.keyed[scopeKey{resourceIn, n}])
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

// request is what an index is searched with.
type request struct {
	index               *index
	entities            types.EntityGetter
	principal, resource lineage
}

// lineage is an entity and, once somebody asks, its ancestors.
type lineage struct {
	uid    types.EntityUID
	number entityNumber
	// within are the entities that the entity is in, itself included, as far
	// as scopes name them.
	within []entityNumber
	looked bool // within is there
}

// request prepares a search of the index.
func (x *index) request(q *Query) request {
	r := request{
		index: x, entities: q.Entities,
		principal: lineage{uid: q.Principal, number: x.entities[q.Principal]},
		resource:  lineage{uid: q.Resource, number: x.entities[q.Resource]},
	}
	if r.entities == nil {
		r.entities = types.EntityMap(nil)
	}
	return r
}

// matching appends to dst those of policies whose principal and resource
// scopes are true. Cedar would find out too, but walks the ancestors anew for
// every policy.
func (r *request) matching(dst, policies []*Policy) []*Policy {
	for _, p := range policies {
		if r.holds(p.ast.Principal, p.principal, &r.principal) && r.holds(p.ast.Resource, p.resource, &r.resource) {
			dst = append(dst, p)
		}
	}
	return dst
}

// holds reports whether a principal or resource scope, which names entity n,
// is true of l.
func (r *request) holds(scope ast.IsScopeNode, n entityNumber, l *lineage) bool {
	switch scope := scope.(type) {
	case ast.ScopeTypeAll:
		return true
	case ast.ScopeTypeEq:
		return n == l.number
	case ast.ScopeTypeIs:
		return scope.Type == l.uid.Type
	case ast.ScopeTypeIn:
		return slices.Contains(r.ancestors(l), n)
	case ast.ScopeTypeIsIn:
		return scope.Type == l.uid.Type && slices.Contains(r.ancestors(l), n)
	}
	return true // a kind of scope that isn't known here: Cedar sees to it
}

// ancestors returns everything that the entity is in, itself included, as
// far as scopes name it: what Cedar's `in` is true of.
func (r *request) ancestors(l *lineage) []entityNumber {
	if l.looked {
		return l.within
	}
	var few [16]types.EntityUID
	all := append(few[:0], l.uid)
	var seen map[types.EntityUID]bool // of all, once an ancestor has parents of its own
	for i := 0; i < len(all); i++ {
		if i == 1 && isTargetType(l.uid.Type) {
			break // a Path has all its ancestors as parents: see package contract
		}
		e, ok := r.entities.Get(all[i])
		if !ok || e.Parents.Len() == 0 {
			continue
		}
		if i > 0 && seen == nil {
			seen = make(map[types.EntityUID]bool, len(all))
			for _, uid := range all {
				seen[uid] = true
			}
		}
		for parent := range e.Parents.All() {
			if i == 0 && parent != l.uid || i > 0 && !seen[parent] {
				all = append(all, parent)
				if seen != nil {
					seen[parent] = true
				}
			}
		}
	}
	for _, uid := range all {
		if n := r.index.entities[uid]; n != 0 {
			l.within = append(l.within, n)
		}
	}
	l.looked = true
	return l.within
}
