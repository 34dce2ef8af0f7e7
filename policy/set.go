package policy

import (
	"slices"
	"sync"

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
	files    []*policyFile                // in order; what [Recompile] goes on from
	scopes   map[shelfKey]scopeSummary    // by what action scopes name
	law      *lawOfCallers
	lifting  func() *liftPlan // made when first asked for
}

// scopeSummary is what the policies of one action scope add to the actions
// that it covers.
type scopeSummary struct {
	digest canon.Digest
	reads  fieldSet
}

// newSet indexes policies, which are in order, have distinct ids, and are of
// no other set. Of a previous set, which may be nil, it takes over what is known
// of actions whose policies are the same.
func newSet(s *Schema, policies []*Policy, files []*policyFile, previous *Set) *Set {
	set := &Set{policies: policies, byID: make(map[string]*Policy, len(policies)), schema: s, files: files}
	for _, p := range policies {
		set.byID[p.ID] = p
	}
	// The open action scope of permits and reviews covers calls only: who may
	// approve is said by naming the actions of approving.
	isCall := func(action types.EntityUID) bool { return !isApproval(action) }
	set.lifting = sync.OnceValue(func() *liftPlan { return newLiftPlan(set) })
	set.index = newIndex(policies, s.closure, isCall)
	set.law = newLawOfCallers(s, policies, previous)
	set.scopes = summarise(policies)
	set.digests = make(map[types.EntityUID]canon.Digest, len(s.closure))
	set.reads = make(map[types.EntityUID]fieldSet, len(s.closure))
	changed := set.changedScopes(previous)
	for action, in := range s.closure {
		keys := actionKeys(action, in, isCall(action))
		if changed != nil && !slices.ContainsFunc(keys, func(k shelfKey) bool { return changed[k] }) {
			set.digests[action], set.reads[action] = previous.digests[action], previous.reads[action]
			continue
		}
		set.digests[action], set.reads[action] = set.summary(keys)
	}
	return set
}

// changedScopes lists the action scopes whose policies are not those of a set
// with the same schema; nil: there is no such set.
func (s *Set) changedScopes(previous *Set) map[shelfKey]bool {
	if previous == nil || previous.schema != s.schema {
		return nil
	}
	changed := map[shelfKey]bool{}
	for key, now := range s.scopes {
		if was, ok := previous.scopes[key]; !ok || was != now {
			changed[key] = true
		}
	}
	for key := range previous.scopes {
		if _, ok := s.scopes[key]; !ok {
			changed[key] = true
		}
	}
	return changed
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

// summarise computes what each action scope has.
func summarise(policies []*Policy) map[shelfKey]scopeSummary {
	lists := map[shelfKey][]any{}
	reads := map[shelfKey]fieldSet{}
	for _, p := range policies {
		digest := p.digest.String()
		for _, key := range shelvesOf(p) {
			lists[key] = append(lists[key], digest)
			reads[key] |= p.reads
		}
	}
	out := make(map[shelfKey]scopeSummary, len(lists))
	for key, list := range lists {
		out[key] = scopeSummary{canon.Sum(canon.Append(nil, map[string]any{"type": "writ.scope.v1", "policies": list})), reads[key]}
	}
	return out
}

// summary computes the digest of the candidates of an action, and the fields
// of the context that they read.
func (s *Set) summary(keys []shelfKey) (canon.Digest, fieldSet) {
	candidates := map[string]any{}
	var reads fieldSet
	for _, key := range keys {
		if scope, ok := s.scopes[key]; ok {
			candidates[key.String()] = scope.digest.String()
			reads |= scope.reads
		}
	}
	return canon.Sum(canon.Append(nil, map[string]any{"type": "writ.candidates.v1", "scopes": candidates})), reads
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
