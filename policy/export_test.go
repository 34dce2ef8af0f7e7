package policy

import (
	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

// Indexed is the indexed evaluator over plain Cedar policies, without a
// bundle around it.
type Indexed struct{ index *index }

// NewIndexed indexes policies under their ids, in order. groups holds every
// known action with all groups that it is in; the open scope covers them all.
func NewIndexed(ids []string, policies []*cedar.Policy, groups map[types.EntityUID][]types.EntityUID) *Indexed {
	var list []*Policy
	for i, p := range policies {
		list = append(list, newPolicy(writ.PolicyRef{ID: ids[i]}, i, (*ast.Policy)(p.AST())))
	}
	return &Indexed{newIndex(list, groups, func(types.EntityUID) bool { return true })}
}

func (x *Indexed) Judge(q Query) Verdict  { return x.index.judge(q) }
func (x *Indexed) Nearest(q Query) []Near { return x.index.nearest(q) }

// CedarType returns the schema type of t, and what is wrong with it. Every
// entity type counts as declared.
func CedarType(t *contract.Type) (typ schemaast.IsType, faults []string) {
	y := typer{
		declared: func(types.EntityType) bool { return true },
		report:   func(path, message string) { faults = append(faults, path+": "+message) },
	}
	return y.cedarType(t, "", false), faults
}

// Validate returns what the validator finds wrong with a policy against the
// cut that it is validated with, the actions in its scope, and how many of
// these the cut has.
func (c *Cutter) Validate(p *ast.Policy) (actions []types.EntityUID, represented int, err error) {
	comp := compiler{schema: c.cutter.schema, cutter: c.cutter}
	actions, ok := comp.scope(&entry{policy: newPolicy(writ.PolicyRef{}, 0, p)})
	if !ok || len(actions) == 0 {
		return nil, 0, nil
	}
	cut := c.cutter.cut(p, actions)
	for _, action := range cut.schema.Actions {
		if action.AppliesTo != nil {
			represented++
		}
	}
	return actions, represented, cut.validate(p)
}

// Cutter validates policies as Compile does.
type Cutter struct{ cutter *cutter }

func NewCutter(s *Schema) *Cutter { return &Cutter{newCutter(s)} }
