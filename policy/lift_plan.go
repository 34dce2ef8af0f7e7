package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
)

// parsedConditions are a policy's conditions, and whether they depend on the
// action or the tool.
type parsedConditions struct {
	conditions []condition
	ofAction   bool
}

// liftPlan is what of the question who lifts reviews depends on policies and
// schema alone.
type liftPlan struct {
	set       *Set
	parsed    map[*Policy]*parsedConditions
	approvals map[string][]approvalPlan // by review
}

// approvalPlan is an approval of a review, and the policies about it.
type approvalPlan struct {
	action           types.EntityUID
	permits, forbids []*Policy
}

// newLiftPlan finds, for each review, the approvals that different people may
// give.
func newLiftPlan(s *Set) *liftPlan {
	l := &liftPlan{set: s, parsed: map[*Policy]*parsedConditions{}, approvals: map[string][]approvalPlan{}}
	for _, review := range s.policies {
		if review.Review == 0 {
			continue
		}
		seen := map[string]bool{}
		for _, approval := range l.stopped(review) {
			permits, forbids := l.about(approval)
			if key := l.key(approval, permits, forbids); !seen[key] {
				seen[key] = true
				l.approvals[review.ID] = append(l.approvals[review.ID], approvalPlan{approval, permits, forbids})
			}
		}
	}
	return l
}

// stopped lists the approve actions of the tools that a review policy stops.
func (l *liftPlan) stopped(review *Policy) []types.EntityUID {
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
func (l *liftPlan) about(approval types.EntityUID) (permits, forbids []*Policy) {
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
func (l *liftPlan) key(approval types.EntityUID, permits, forbids []*Policy) string {
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

func (l *liftPlan) parse(p *Policy) *parsedConditions {
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
