package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

// finish works out, from the resolved schema, what evaluations and
// validations will look up.
func (b *schemaBuilder) finish(whole *resolved.Schema, contracts []*contract.Contract) *Schema {
	s := b.s
	s.source, s.whole = b.ast, whole
	s.entities = validate.New(&resolved.Schema{Entities: whole.Entities, Enums: whole.Enums})
	s.static = make(map[types.EntityUID]types.Entity, len(whole.Actions)+len(contracts))
	for uid, action := range whole.Actions {
		groups := closureOf(whole, uid)
		s.static[uid] = types.Entity{UID: uid, Parents: types.NewEntityUIDSet(groups...)}
		if isRight(uid) {
			s.rights.add(uid, groups, action.AppliesTo != nil)
			continue
		}
		if s.covers[uid] == nil {
			s.covers[uid] = []types.EntityUID{}
		}
		if action.AppliesTo == nil {
			continue
		}
		s.closure[uid] = groups
		s.actions = append(s.actions, uid)
		s.covers[uid] = append(s.covers[uid], uid)
		for _, g := range groups {
			s.covers[g] = append(s.covers[g], uid)
		}
		if !isApproval(uid) {
			s.calls = append(s.calls, uid)
		}
	}
	slices.SortFunc(s.calls, compareUIDs)
	slices.SortFunc(s.actions, compareUIDs)
	for _, covers := range [...]map[types.EntityUID][]types.EntityUID{s.covers, s.rights.covers} {
		for _, covered := range covers {
			slices.SortFunc(covered, compareUIDs)
		}
	}
	for _, c := range contracts {
		tool, server := toolEntity(c), ServerEntity(c.Server)
		s.static[tool.UID], s.static[server.UID] = tool, server
	}
	for _, enum := range whole.Enums {
		for _, uid := range enum.Values {
			s.static[uid] = types.Entity{UID: uid}
		}
	}
	s.shareTypes()
	return s
}

// closureOf lists the groups that action uid is in, nearest first.
func closureOf(whole *resolved.Schema, uid types.EntityUID) []types.EntityUID {
	var out []types.EntityUID
	for todo := []types.EntityUID{uid}; len(todo) > 0; todo = todo[1:] {
		parents := slices.SortedFunc(whole.Actions[todo[0]].Entity.Parents.All(), compareUIDs)
		for _, p := range parents {
			if p != uid && !slices.Contains(out, p) {
				out, todo = append(out, p), append(todo, p)
			}
		}
	}
	return out
}

// toolEntity is the Tool that context.tool names and that stands in as
// resource where a call has no target. Where a tool has methods, effect,
// reversible and scope are the tool's own, not a method's.
func toolEntity(c *contract.Contract) types.Entity {
	effect := c.Effect
	if !slices.Contains(effects[:], effect) {
		effect = writ.Write
	}
	server := types.NewEntityUID(typeServer, types.String(c.Server.ID))
	return types.Entity{
		UID:     ToolUID(c),
		Parents: types.NewEntityUIDSet(server),
		Attributes: types.NewRecord(types.RecordMap{
			"server":     server,
			"name":       types.String(c.Tool.Name),
			"effect":     types.String(effect),
			"scope":      types.String(c.Scope),
			"version":    types.String(c.Server.Version),
			"reversible": types.Boolean(c.Reversible),
		}),
	}
}

// ServerEntity is the server as policies see it.
func ServerEntity(s *contract.Server) types.Entity {
	return types.Entity{
		UID: ServerUID(s.ID),
		Attributes: types.NewRecord(types.RecordMap{
			"endpoint":    types.String(s.Endpoint),
			"owner":       types.String(s.Owner),
			"redeemed_by": CallerUID(s.RedeemedBy),
		}),
	}
}

// ToolUID is the entity of c's tool: Tool::"payments/create_payment".
func ToolUID(c *contract.Contract) types.EntityUID {
	return types.NewEntityUID(typeTool, types.String(c.ID()))
}

// Static returns the entities that follow from the bundle's contracts and
// schema alone: actions with all their groups as parents, Tools, Servers, and
// the values of the bundle's enumerated types.
func (s *Schema) Static(uid types.EntityUID) (types.Entity, bool) {
	e, ok := s.static[uid]
	return e, ok
}

// shareTypes makes the actions' contexts share the types that they have in
// common: all of them, but for arguments and element, which those of one
// contract share. Resolving made a copy of each for every action.
func (s *Schema) shareTypes() {
	var common resolved.RecordType
	own := map[*contract.Contract]resolved.RecordType{}
	for uid, c := range s.contracts {
		context := s.whole.Actions[uid].AppliesTo.Context
		if common == nil {
			common = context
		}
		if own[c] == nil {
			own[c] = context
		}
		for name := range context {
			from := common
			if name == "arguments" || name == "element" {
				from = own[c]
			}
			if attribute, ok := from[name]; ok {
				context[name] = attribute
			}
		}
	}
}
