package policy

import (
	"fmt"
	"iter"
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
)

// Lifters says who might lift a review policy.
type Lifters struct {
	// Action is the approval that the fewest might give, of those of all tools
	// that the policy stops. It is zero for a policy that stops none.
	Action types.EntityUID
	// Known are those who might be permitted Action for this policy: of the
	// candidates, in their order, and then of those whom permits name.
	Known []types.EntityUID
	// Others says that further people might be, whom only issuers know.
	Others bool
}

// Lifters returns who, of the candidates, might be permitted to approve calls
// that a review policy stops. entities holds what the bundle holds.
//
// It leaves nobody out who could: what depends on a call's target, arguments
// or time counts as fulfilled. Only scopes, principals, actions and
// context.review are looked at, and forbids that hold for every such approval.
func (s *Set) Lifters(review *Policy, candidates []types.EntityUID, entities types.EntityGetter) Lifters {
	among := make(map[types.EntityUID]bool, len(candidates))
	for _, uid := range candidates {
		among[uid] = true
	}
	l := newLifting(s, People{
		All:   slices.Values(candidates),
		Among: func(uid types.EntityUID) bool { return among[uid] },
		In:    ancestry(entities),
	})
	return l.lifters(review)
}

// ancestry says who is in which group, by the parents of entities.
func ancestry(entities types.EntityGetter) func(who, group types.EntityUID) bool {
	if entities == nil {
		entities = types.EntityMap(nil)
	}
	ancestors := map[types.EntityUID]map[types.EntityUID]bool{}
	return func(who, group types.EntityUID) bool {
		known := ancestors[who]
		if known == nil {
			known = map[types.EntityUID]bool{}
			for todo := []types.EntityUID{who}; len(todo) > 0; todo = todo[1:] {
				if known[todo[0]] {
					continue
				}
				known[todo[0]] = true
				if e, ok := entities.Get(todo[0]); ok {
					todo = append(todo, slices.Collect(e.Parents.All())...)
				}
			}
			ancestors[who] = known
		}
		return known[group]
	}
}

// People are those who might approve. There may be a million.
type People struct {
	All   iter.Seq[types.EntityUID]             // in order
	Among func(uid types.EntityUID) bool        // reports whether All yields uid
	In    func(who, group types.EntityUID) bool // reports whether who is group, or a member of it at any time
}

// UnliftedReviews warns of each review policy that too few people, or nobody,
// might lift: see [Set.Lifters]. It looks no further once it has found enough
// of them, and begins with likely: those whom it returned when it was asked
// before.
func (s *Set) UnliftedReviews(people People, likely []types.EntityUID) (faults writ.Faults, found []types.EntityUID) {
	l := newLifting(s, people)
	for _, p := range s.policies {
		if p.Review == 0 || p.Inactive || p.AboutApproval() {
			continue
		}
		l.enough, l.likely = p.Review, likely
		fewest := l.lifters(p)
		if fewest.Action.IsZero() || fewest.Others || len(fewest.Known) >= p.Review {
			continue
		}
		who := "no entity in the bundle is"
		if len(fewest.Known) > 0 {
			names := make([]string, len(fewest.Known))
			for i, uid := range fewest.Known {
				names[i] = uid.String()
			}
			who = "only " + list(names) + " might be"
		}
		faults = append(faults, writ.Fault{
			File: p.File, Line: p.Line, Column: p.Column, Severity: writ.Warning,
			Message: fmt.Sprintf("%s permitted %s for %q (needs %d)", who, fewest.Action, p.ID, p.Review),
		})
	}
	return faults, l.sufficient
}

// lifting looks for those who might lift reviews.
type lifting struct {
	set    *Set
	plan   *liftPlan
	people People
	// enough is how many people will do; 0: all are wanted.
	enough int
	likely []types.EntityUID
	// sufficient are those who were enough, each once.
	sufficient []types.EntityUID
}

func newLifting(s *Set, people People) *lifting {
	return &lifting{set: s, plan: s.lifting(), people: people}
}

func (l *lifting) lifters(review *Policy) Lifters {
	var fewest Lifters
	for _, approval := range l.plan.approvals[review.ID] {
		found := l.forApproval(review, approval)
		if fewest.Action.IsZero() || fewest.Others && !found.Others ||
			fewest.Others == found.Others && len(found.Known) < len(fewest.Known) {
			fewest = found
		}
	}
	return fewest
}

func (l *lifting) forApproval(review *Policy, approval approvalPlan) Lifters {
	out := Lifters{Action: approval.action}
	a := &approving{lifting: l, review: review, action: approval.action}
	forbids := approval.forbids
	permits := slices.DeleteFunc(slices.Clone(approval.permits), func(p *Policy) bool { return !a.resourceFits(p) })
	out.Others = slices.ContainsFunc(permits, func(p *Policy) bool { return a.scopeHolds(p) && a.conditions(p).yes }) &&
		!slices.ContainsFunc(forbids, a.surely)
	if out.Others && l.enough > 0 {
		return out
	}
	var one types.EntityUID
	a.who = &one
	might := func(uid types.EntityUID) bool {
		one = uid
		return slices.ContainsFunc(permits, func(p *Policy) bool { return a.scopeHolds(p) && a.conditions(p).yes }) &&
			!slices.ContainsFunc(forbids, a.surely)
	}
	if l.enough > 0 && l.shortcut(&out, might) {
		return out
	}
	if len(permits) > 0 {
		for uid := range l.people.All {
			if might(uid) {
				out.Known = append(out.Known, uid)
			}
			if l.satisfied(out.Known) {
				return out
			}
		}
	}
	for _, p := range permits {
		parts := partsOf(p.ast.Principal)
		if parts.equals && l.set.schema.principals[parts.uid.Type] && !l.people.Among(parts.uid) && !slices.Contains(out.Known, parts.uid) && might(parts.uid) {
			out.Known = append(out.Known, parts.uid)
		}
	}
	return out
}

// shortcut reports whether enough of those who were found before still do.
func (l *lifting) shortcut(out *Lifters, might func(types.EntityUID) bool) bool {
	for _, uid := range l.likely {
		if l.people.Among(uid) && might(uid) {
			out.Known = append(out.Known, uid)
		}
		if l.satisfied(out.Known) {
			return true
		}
	}
	out.Known = nil
	return false
}

// satisfied reports whether these are enough, and remembers them.
func (l *lifting) satisfied(known []types.EntityUID) bool {
	if l.enough == 0 || len(known) < l.enough {
		return false
	}
	for _, uid := range known {
		if !slices.Contains(l.sufficient, uid) {
			l.sufficient = append(l.sufficient, uid)
		}
	}
	return true
}

// approving asks what policies say of one approval by one person.
type approving struct {
	*lifting
	review *Policy
	action types.EntityUID
	// who approves; nil: somebody of whom the bundle knows nothing, and who is in
	// no group then: the groups of a token are its principal's, not an approver's.
	who *types.EntityUID
}

// resourceFits reports whether a policy's resource scope can hold.
func (a *approving) resourceFits(p *Policy) bool {
	s, parts := a.set.schema, partsOf(p.ast.Resource)
	return slices.ContainsFunc(s.whole.Actions[a.action].AppliesTo.Resources, func(t types.EntityType) bool {
		return s.scopeAllows(parts, t)
	})
}

// scopeHolds reports whether a policy's principal scope can hold. A principal
// whom only a permit's own scope names is somebody else's.
func (a *approving) scopeHolds(p *Policy) bool {
	parts := partsOf(p.ast.Principal)
	if a.who == nil {
		return !parts.equals && !parts.in && (parts.is == "" || a.set.schema.principals[parts.is])
	}
	switch {
	case parts.is != "" && parts.is != a.who.Type:
		return false
	case parts.equals:
		return parts.uid == *a.who
	case parts.in:
		return a.in(parts.uid)
	}
	return true
}

// in reports whether the person is in a group.
func (a *approving) in(group types.EntityUID) bool { return a.people.In(*a.who, group) }

// surely reports whether a forbid holds for every such approval.
func (a *approving) surely(p *Policy) bool {
	if _, open := p.ast.Resource.(ast.ScopeTypeAll); !open {
		return false
	}
	if _, open := p.ast.Principal.(ast.ScopeTypeAll); !open && (a.who == nil || !a.scopeHolds(p)) {
		return false
	}
	return !a.conditions(p).no
}

// conditions returns what is possible of a policy's conditions.
func (a *approving) conditions(p *Policy) possible {
	f := formula{atom: a.atom}
	return f.holds(a.plan.parsed[p].conditions) // of a policy about the approval: the plan has it
}

// atom settles what depends on the person, the action and the review alone.
func (a *approving) atom(e *expr) possible {
	switch n := e.node.(type) {
	case ast.NodeTypeEquals:
		return a.equal(e)
	case ast.NodeTypeNotEquals:
		return a.equal(e).not()
	case ast.NodeTypeIn:
		return a.oneOf(e.args[0], e.args[1], true)
	case ast.NodeTypeContains:
		return a.oneOf(e.args[1], e.args[0], false)
	case ast.NodeTypeIs:
		switch {
		case !isPrincipal(e.args[0]):
		case a.who != nil:
			return settled(a.who.Type == n.EntityType)
		case !a.set.schema.principals[n.EntityType]:
			return settled(false)
		case len(a.set.schema.principals) == 1:
			return settled(true)
		}
	}
	return free
}

func isPrincipal(e *expr) bool {
	v, ok := e.node.(ast.NodeTypeVariable)
	return ok && v.Name == "principal"
}

// equal returns what is possible of the operands of e being equal.
func (a *approving) equal(e *expr) possible {
	x, y := e.args[0], e.args[1]
	if _, literal := x.node.(ast.NodeValue); literal {
		x, y = y, x
	}
	return a.oneOf(x, y, false)
}

// oneOf returns what is possible of e being, or being in, one of what the
// literals in a set name.
func (a *approving) oneOf(e, set *expr, in bool) possible {
	out := settled(false)
	for _, literal := range elements(set) {
		v, ok := literal.node.(ast.NodeValue)
		if !ok {
			return free
		}
		uid, ok := v.Value.(types.EntityUID)
		if !ok {
			return free
		}
		out = out.or(a.matches(e, uid, in))
	}
	return out
}

func (a *approving) matches(e *expr, uid types.EntityUID, in bool) possible {
	if v, ok := e.node.(ast.NodeTypeVariable); ok {
		switch {
		case v.Name == "action" && in:
			return settled(uid == a.action || slices.Contains(a.set.schema.closure[a.action], uid))
		case v.Name == "action":
			return settled(uid == a.action)
		case v.Name == "principal" && a.who == nil && in:
			return settled(false)
		case v.Name == "principal" && a.who == nil && !a.set.schema.principals[uid.Type]:
			return settled(false)
		case v.Name == "principal" && a.who != nil && in:
			return settled(a.in(uid))
		case v.Name == "principal" && a.who != nil:
			return settled(uid == *a.who)
		}
		return free
	}
	switch path := contextPath(e); {
	case slices.Equal(path, []string{"review"}):
		return settled(uid == types.NewEntityUID(typePolicy, types.String(a.review.ID)))
	case slices.Equal(path, []string{"tool"}) && !in:
		return settled(uid == ToolUID(a.set.schema.contract(a.action)))
	}
	return free
}
