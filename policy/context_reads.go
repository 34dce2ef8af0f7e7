package policy

import (
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// fieldSet is a set of contextFields, by index.
type fieldSet uint32

// allFields is every context field: what a policy reads that uses the context
// as a whole.
const allFields = 1<<len(contextFields) - 1

// contextReads returns the fields of the context that a policy's conditions
// mention. Whatever it leaves out can't change what the policy says.
func contextReads(p *ast.Policy) fieldSet {
	var read fieldSet
	field := func(arg ast.IsNode, name types.String) bool {
		if !isContext(arg) {
			return true
		}
		for i := range contextFields {
			if contextFields[i].name == name {
				read |= 1 << i
			}
		}
		return false
	}
	for _, c := range p.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeAccess:
				return field(n.Arg, n.Value)
			case ast.NodeTypeHas:
				return field(n.Arg, n.Value)
			case ast.NodeTypeVariable:
				if isContext(n) {
					read = allFields
				}
			}
			return true
		})
	}
	return read
}

// Context returns the context of one evaluation of action: of [Schema.Context]
// those attributes that the action's policies read. The others could not
// change what any of them says, and are not made.
func (s *Set) Context(action types.EntityUID, in ContextInput) types.Record {
	return s.schema.context(s.reads[action], &in)
}
