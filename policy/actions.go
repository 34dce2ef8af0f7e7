package policy

import (
	"iter"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

// groupApprove is the group of every action that approves a call.
const groupApprove = "approve"

// effects are the effects that a call can have; each is a group of actions.
var effects = [...]writ.Effect{writ.Pure, writ.Read, writ.Write}

// actionGroups declares the groups of actions: one for each effect, one for
// each server, one for each effect of each server, and approve. They are
// there whether or not they cover a tool. A server can't have the name of a
// group: contract.New refuses it.
func (b *schemaBuilder) actionGroups(contracts []*contract.Contract) {
	group := func(id string) { b.ast.Actions[types.String(id)] = schemaast.Action{} }
	group(groupApprove)
	for _, e := range effects {
		group(string(e))
	}
	for _, c := range contracts {
		id := c.Server.ID
		if _, seen := b.ast.Actions[types.String(id+":"+string(writ.Pure))]; seen {
			continue
		}
		group(id)
		for _, e := range effects {
			group(id + ":" + string(e))
		}
	}
}

// callActions yields, in order, the action of every call that c allows and
// that call's effect.
func callActions(c *contract.Contract) iter.Seq2[string, writ.Effect] {
	return func(yield func(string, writ.Effect) bool) {
		for _, id := range c.Actions() {
			effect := c.Effect
			if method, ok := strings.CutPrefix(id, c.ID()+"#"); ok {
				effect = c.Methods[method].Effect
			}
			if !slices.Contains(effects[:], effect) {
				effect = writ.Write
			}
			if !yield(id, effect) {
				return
			}
		}
	}
}

// serverFile is the bundle's file that declares c.
func serverFile(c *contract.Contract) string { return "servers/" + c.Server.ID + ".yaml" }

func actionUID(id string) types.EntityUID { return types.NewEntityUID(typeAction, types.String(id)) }

// isApproval reports whether uid is the action of an approval.
func isApproval(uid types.EntityUID) bool {
	return uid.Type == typeAction && strings.HasPrefix(string(uid.ID), groupApprove+":")
}

// compareUIDs orders entity ids by type, then id, bytewise.
func compareUIDs(a, b types.EntityUID) int {
	if c := strings.Compare(string(a.Type), string(b.Type)); c != 0 {
		return c
	}
	return strings.Compare(string(a.ID), string(b.ID))
}
