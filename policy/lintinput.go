package policy

import (
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/writ-pdp/writ"
)

// lintInput is one policy and everything that is known about it when it is
// linted, or when the validator's findings about it are explained.
type lintInput struct {
	// policy is as its author wrote it, action scope and all.
	policy *ast.Policy
	ref    writ.PolicyRef
	source Source
	// text is the policy's own slice of the source, from its first annotation
	// to its semicolon; offset is where it starts.
	text        []byte
	offset      int
	annotations map[string]string
	// actions are the actions that the policy's scope covers and that a call
	// or an approval can have, in order; never groups. It is empty when the
	// policy is inactive.
	actions []types.EntityUID
	schema  *Schema
	// cut is what the policy was validated against: the entity types, and of
	// the actions one for each way in which the covered tools differ in what
	// the policy reads. Schema.whole has them all.
	cut *resolved.Schema
	// names knows every action.
	names *actionNames
	// memo is kept from one policy of the bundle to the next, for what lints
	// work out once: 10,000 policies over 2,000 tools load within two seconds,
	// lints included.
	memo map[string]any
}
