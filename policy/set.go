package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/canon"
)

// Set is the compiled policies of one bundle. It doesn't change and is safe
// for concurrent use. A nil Set permits nothing.
type Set struct {
	policies []*Policy
	byID     map[string]*Policy
	schema   *Schema
	index    *index
	digests  map[types.EntityUID]canon.Digest
	reads    map[types.EntityUID]fieldSet // of the context, by action
}

// newSet indexes policies, which are in order and have distinct ids.
func newSet(s *Schema, policies []*Policy) *Set {
	set := &Set{policies: policies, byID: make(map[string]*Policy, len(policies)), schema: s}
	for _, p := range policies {
		set.byID[p.ID] = p
	}
	// The open action scope of permits and reviews covers calls only: who may
	// approve is said by naming the actions of approving.
	isCall := func(action types.EntityUID) bool { return !isApproval(action) }
	set.index = newIndex(policies, s.closure, isCall)
	set.digests = digests(policies, s.closure, isCall)
	set.reads = contextFieldsRead(policies, s.closure, isCall)
	return set
}

// Policies returns every policy, inactive ones too, in order of file and
// position.
func (s *Set) Policies() []*Policy { return slices.Clone(s.policies) }

// Policy returns the policy with the @id, or nil.
func (s *Set) Policy(id string) *Policy { return s.byID[id] }

// Len returns the number of policies.
func (s *Set) Len() int { return len(s.policies) }

// Digest returns the digest of the policies that can say anything about the
// action; zero for an action that no contract has. It is over
// {"type":"writ.candidates.v1","scopes":{scope:digest...}}, where a scope is
// what action scopes say, such as "action in Action::\"read\"". A scope's digest
// is over {"type":"writ.scope.v1","policies":[digest...]} in order, and a
// policy's over {"type":"writ.policy.v1","id":...,"text":...} with the text as
// its author wrote it.
func (s *Set) Digest(action types.EntityUID) canon.Digest { return s.digests[action] }

// Static returns the entities that follow from the bundle's contracts and
// schema alone: see [Schema.Static].
func (s *Set) Static(uid types.EntityUID) (types.Entity, bool) { return s.schema.Static(uid) }

// digests computes the digest of the candidates of every known action.
func digests(policies []*Policy, groups map[types.EntityUID][]types.EntityUID, open func(types.EntityUID) bool) map[types.EntityUID]canon.Digest {
	scopes := map[shelfKey][]any{}
	for _, p := range policies {
		p.digest = policyDigest(p)
		for _, key := range shelvesOf(p) {
			scopes[key] = append(scopes[key], p.digest.String())
		}
	}
	ofScope := make(map[shelfKey]string, len(scopes))
	for key, list := range scopes {
		ofScope[key] = canon.Sum(canon.Append(nil, map[string]any{"type": "writ.scope.v1", "policies": list})).String()
	}
	out := make(map[types.EntityUID]canon.Digest, len(groups))
	for action, in := range groups {
		candidates := map[string]any{}
		for _, key := range actionKeys(action, in, open(action)) {
			if digest, ok := ofScope[key]; ok {
				candidates[key.String()] = digest
			}
		}
		out[action] = canon.Sum(canon.Append(nil, map[string]any{"type": "writ.candidates.v1", "scopes": candidates}))
	}
	return out
}

func policyDigest(p *Policy) canon.Digest {
	return canon.Sum(canon.Append(nil, map[string]any{"type": "writ.policy.v1", "id": p.ID, "text": string(p.Text)}))
}

// String returns the action scope as Cedar writes it.
func (k shelfKey) String() string {
	switch {
	case k == everyAction:
		return "every action"
	case k.uid.IsZero():
		return "action"
	case k.equals:
		return "action == " + k.uid.String()
	}
	return "action in " + k.uid.String()
}
