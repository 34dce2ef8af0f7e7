package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/canon"
)

// lawOfCallers is what a set says of callers: Writ's own policies, which come
// first, and the bundle's.
type lawOfCallers struct {
	index  *index
	digest canon.Digest // of the bundle's
}

// newLawOfCallers indexes the policies about callers. It takes over that of a
// set which has the same.
func newLawOfCallers(s *Schema, policies []*Policy, previous *Set) *lawOfCallers {
	var digests []any
	list := slices.Clone(s.rights.own)
	for _, p := range policies {
		if p.AboutRights() {
			digests = append(digests, p.digest.String())
			list = append(list, p)
		}
	}
	digest := canon.Sum(canon.Append(nil, map[string]any{"type": "writ.rights.v1", "policies": digests}))
	if previous != nil && previous.schema == s && previous.law.digest == digest {
		return previous.law
	}
	for i, p := range list {
		own := *p
		own.ordinal = i
		list[i] = &own
	}
	return &lawOfCallers{newIndex(list, s.rights.closure, func(types.EntityUID) bool { return false }), digest}
}

// Entitles reports whether the policies let a caller do q.Action to q.Resource:
// a permit is satisfied, and no forbid is, nor could fail to be evaluated. The
// context of such a query is empty. For actions of calls it is false.
func (s *Set) Entitles(q Query) bool {
	if s == nil {
		return false
	}
	v := s.law.index.judge(q)
	return len(v.Permits) > 0 && !s.stopped(v)
}

// Forbids reports whether a forbid keeps a caller from doing q.Action to
// q.Resource, or could not be evaluated.
func (s *Set) Forbids(q Query) bool { return s == nil || s.stopped(s.law.index.judge(q)) }

func (s *Set) stopped(v Verdict) bool { return len(v.Forbids)+len(v.Reviews)+len(v.ForbidErrors) > 0 }

// LawOfCallers is the digest of the bundle's policies about what callers may do
// at the PDP.
func (s *Set) LawOfCallers() canon.Digest {
	if s == nil {
		return canon.Digest{}
	}
	return s.law.digest
}

// OwnPermitsAlone reports whether no permit of the bundle covers an action of
// callers: then only Writ's own can let anybody do it.
func (s *Set) OwnPermitsAlone(action types.EntityUID) bool {
	return s == nil || !slices.ContainsFunc(s.law.index.actions[action], func(s *shelf) bool {
		return slices.ContainsFunc(s.permits.all, func(p *Policy) bool { return p.File != rightsFile })
	})
}
