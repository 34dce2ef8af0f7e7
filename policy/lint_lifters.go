package policy

import (
	"fmt"
	"slices"
	"strings"

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
	return newLifting(s, candidates, entities).lifters(review)
}

// UnliftedReviews warns of each review policy that too few people, or nobody,
// might lift: see [Set.Lifters].
func (s *Set) UnliftedReviews(candidates []types.EntityUID, entities types.EntityGetter) writ.Faults {
	l := newLifting(s, candidates, entities)
	var out writ.Faults
	for _, p := range s.policies {
		if p.Review == 0 || p.Inactive || p.AboutApproval() {
			continue
		}
		found := l.lifters(p)
		if found.Action.IsZero() || found.Others || len(found.Known) >= p.Review {
			continue
		}
		who := "no entity in the bundle is"
		if len(found.Known) > 0 {
			names := make([]string, len(found.Known))
			for i, uid := range found.Known {
				names[i] = uid.String()
			}
			who = "only " + list(names) + " might be"
		}
		out = append(out, writ.Fault{
			File: p.File, Line: p.Line, Column: p.Column, Severity: writ.Warning,
			Message: fmt.Sprintf("%s permitted %s for %q (needs %d)", who, found.Action, p.ID, p.Review),
		})
	}
	return out
}

// lifting looks for those who might lift reviews.
type lifting struct {
	set        *Set
	candidates []types.EntityUID
	entities   types.EntityGetter
	ancestors  map[types.EntityUID]map[types.EntityUID]bool
	parsed     map[*Policy]*parsedConditions
}

// parsedConditions are a policy's conditions, and whether they depend on the
// action or the tool.
type parsedConditions struct {
	conditions []condition
	ofAction   bool
}

func newLifting(s *Set, candidates []types.EntityUID, entities types.EntityGetter) *lifting {
	if entities == nil {
		entities = types.EntityMap(nil)
	}
	return &lifting{
		set: s, candidates: candidates, entities: entities,
		ancestors: map[types.EntityUID]map[types.EntityUID]bool{}, parsed: map[*Policy]*parsedConditions{},
	}
}

func (l *lifting) lifters(review *Policy) Lifters {
	var fewest Lifters
	seen := map[string]bool{}
	for _, approval := range l.approvals(review) {
		permits, forbids := l.about(approval)
		key := l.key(approval, permits, forbids)
		if seen[key] {
			continue
		}
		seen[key] = true
		found := l.forApproval(review, approval, permits, forbids)
		if fewest.Action.IsZero() || fewest.Others && !found.Others ||
			fewest.Others == found.Others && len(found.Known) < len(fewest.Known) {
			fewest = found
		}
	}
	return fewest
}

// approvals lists the approve actions of the tools that a review policy stops.
func (l *lifting) approvals(review *Policy) []types.EntityUID {
	schema := l.set.schema
	var stopped []types.EntityUID
	for _, key := range shelfKeys(review.ast.Action) {
		if key.uid.IsZero() {
			stopped = append(stopped, schema.calls...)
		} else {
			stopped = append(stopped, schema.covers[key.uid]...)
		}
	}
	var out []types.EntityUID
	for _, uid := range stopped {
		if c := schema.contract(uid); c != nil && !isApproval(uid) {
			out = append(out, actionUID(groupApprove+":"+c.Server.ID+"/"+c.Tool.Name))
		}
	}
	slices.SortFunc(out, compareUIDs)
	return slices.Compact(out)
}

// about lists the policies whose action scope covers an approval: permits, and
// forbids that nobody can lift.
func (l *lifting) about(approval types.EntityUID) (permits, forbids []*Policy) {
	for _, s := range l.set.index.actions[approval] {
		permits = append(permits, s.permits.all...)
		for _, p := range s.forbids.all {
			if p.Review == 0 {
				forbids = append(forbids, p)
			}
		}
	}
	return inOrder(permits), inOrder(forbids)
}

// key tells approvals apart that different people may give.
func (l *lifting) key(approval types.EntityUID, permits, forbids []*Policy) string {
	var b strings.Builder
	fmt.Fprint(&b, l.set.schema.whole.Actions[approval].AppliesTo.Resources)
	for _, p := range slices.Concat(permits, forbids) {
		fmt.Fprint(&b, " ", p.ordinal)
		if l.parse(p).ofAction {
			b.WriteString(string(approval.ID))
		}
	}
	return b.String()
}

func (l *lifting) parse(p *Policy) *parsedConditions {
	if known := l.parsed[p]; known != nil {
		return known
	}
	r := &readPaths{paths: map[string][]string{}}
	out := &parsedConditions{conditions: locate(p.ast, Source{}, p.Text, 0).conditions}
	for _, c := range out.conditions {
		r.visit(c.body)
	}
	out.ofAction = r.action || r.paths["tool"] != nil
	l.parsed[p] = out
	return out
}

func (l *lifting) forApproval(review *Policy, approval types.EntityUID, permits, forbids []*Policy) Lifters {
	out := Lifters{Action: approval}
	a := &approving{lifting: l, review: review, action: approval}
	permits = slices.DeleteFunc(permits, func(p *Policy) bool { return !a.resourceFits(p) })
	consider := func(uid types.EntityUID) {
		a.who = &uid
		might := slices.ContainsFunc(permits, func(p *Policy) bool { return a.scopeHolds(p) && a.conditions(p).yes })
		if might && !slices.ContainsFunc(forbids, a.surely) {
			out.Known = append(out.Known, uid)
		}
	}
	for _, uid := range l.candidates {
		consider(uid)
	}
	for _, p := range permits {
		parts := partsOf(p.ast.Principal)
		if parts.equals && l.set.schema.principals[parts.uid.Type] && !slices.Contains(l.candidates, parts.uid) && !slices.Contains(out.Known, parts.uid) {
			consider(parts.uid)
		}
	}
	a.who = nil
	out.Others = slices.ContainsFunc(permits, func(p *Policy) bool { return a.scopeHolds(p) && a.conditions(p).yes }) &&
		!slices.ContainsFunc(forbids, a.surely)
	return out
}

// approving asks what policies say of one approval by one person.
type approving struct {
	*lifting
	review *Policy
	action types.EntityUID
	// who approves; nil: somebody of whom the bundle knows nothing, but who may
	// be in groups that issuers supply.
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
		return !parts.equals && (parts.is == "" || a.set.schema.principals[parts.is]) && (!parts.in || a.set.schema.supplied[parts.uid.Type])
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
func (a *approving) in(group types.EntityUID) bool {
	known := a.ancestors[*a.who]
	if known == nil {
		known = map[types.EntityUID]bool{}
		for todo := []types.EntityUID{*a.who}; len(todo) > 0; todo = todo[1:] {
			if known[todo[0]] {
				continue
			}
			known[todo[0]] = true
			if e, ok := a.entities.Get(todo[0]); ok {
				todo = append(todo, slices.Collect(e.Parents.All())...)
			}
		}
		a.ancestors[*a.who] = known
	}
	return known[group]
}

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
	return f.holds(a.parse(p).conditions)
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
		case v.Name == "principal" && a.who == nil && in && !a.set.schema.supplied[uid.Type]:
			return settled(false)
		case v.Name == "principal" && a.who == nil && !in && !a.set.schema.principals[uid.Type]:
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
