package policy

import (
	"github.com/cedar-policy/cedar-go"
	cedarast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// Source is one file of the bundle.
type Source struct {
	File string // relative to the bundle, with forward slashes
	Text []byte
}

// EntitySet says which entities the bundle holds, whatever their validity
// windows say.
type EntitySet interface {
	Has(uid types.EntityUID) bool
	// IDs lists the ids of the type's entities, sorted.
	IDs(t types.EntityType) []string
}

// Policy is one policy of a bundle. It doesn't change once compiled.
type Policy struct {
	writ.PolicyRef
	Effect types.Effect
	Column int // with Line: where the policy starts, from 1, in characters
	// AbsentAllowed is @absent("allowed"): the author of this forbid means to
	// let calls through that lack an optional argument.
	AbsentAllowed bool
	// Inactive says that the policy's action scope covers no tool, so that it
	// is never a candidate.
	Inactive bool
	// Text is the policy as its author wrote it.
	Text []byte

	// ordinal is the policy's rank in order of file and position.
	ordinal int
	ast     *ast.Policy
	// principal and resource number the entities that the policy's scopes
	// name. The index sets them.
	principal, resource entityNumber
	// eval is the policy without its action scope, which the index has
	// already applied.
	eval *cedar.Policy
	// condition is, for a permit with conditions, these alone; else nil.
	condition *cedar.Policy
	digest    canon.Digest
	reads     fieldSet // of the context
}

// newPolicy compiles p for evaluation.
func newPolicy(ref writ.PolicyRef, ordinal int, p *ast.Policy) *Policy {
	out := &Policy{
		PolicyRef: ref,
		Effect:    types.Effect(p.Effect),
		Column:    p.Position.Column,
		ordinal:   ordinal,
		ast:       p,
		reads:     contextReads(p),
	}
	bare := *p
	bare.Action = ast.ScopeTypeAll{}
	out.eval = cedar.NewPolicyFromAST((*cedarast.Policy)(&bare))
	if p.Effect == ast.EffectPermit && len(p.Conditions) > 0 {
		condition := bare
		condition.Principal, condition.Resource = ast.ScopeTypeAll{}, ast.ScopeTypeAll{}
		out.condition = cedar.NewPolicyFromAST((*cedarast.Policy)(&condition))
	}
	return out
}
