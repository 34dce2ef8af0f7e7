package policy

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
)

// What callers may do at the PDP is said by policies of their own: those whose
// action scope names a method or vouching. They stand beside the policies about
// calls of tools, and neither ever answers for the other.

const (
	groupMethods = "pdp"   // the group of every method
	actionVouch  = "vouch" // what a caller does who brings evidence that counts as trusted
	methodStart  = groupMethods + ":"
)

// CallerType is the type of callers' entities.
const CallerType = typeCaller

const (
	typeCaller  types.EntityType = "Caller"
	typeRole    types.EntityType = "Role"
	typeService types.EntityType = "Service"
	typeSource  types.EntityType = "Source"
)

var roles = [...]writ.Role{writ.RoleHost, writ.RoleServer, writ.RoleApprover, writ.RoleOperator}

// CallerUID is the entity of a caller: Caller::"ap-host".
func CallerUID(name string) types.EntityUID {
	return types.NewEntityUID(typeCaller, types.String(name))
}

// ServerUID is the entity of a server: Server::"payments".
func ServerUID(id string) types.EntityUID {
	return types.NewEntityUID(typeServer, types.String(id))
}

// SourceUID is the entity of a kind of evidence, or of access tokens, for which
// a caller may vouch: Source::"document".
func SourceUID(kind writ.SourceKind) types.EntityUID {
	return types.NewEntityUID(typeSource, types.String(kind))
}

// UID is the entity of the method's service: Service::"DecisionService".
func (m Method) UID() types.EntityUID {
	return types.NewEntityUID(typeService, types.String(m.Service))
}

// Action is what a caller of the method does: Action::"pdp:Decide".
func (m Method) Action() types.EntityUID { return actionUID(methodStart + m.Name) }

// Vouch is what a caller does that vouches for a source.
func Vouch() types.EntityUID { return actionUID(actionVouch) }

// CallerEntity is the caller as policies see it: in its roles.
func CallerEntity(c *writ.Caller) types.Entity {
	parents := make([]types.EntityUID, len(c.Roles))
	for i, r := range c.Roles {
		parents[i] = types.NewEntityUID(typeRole, types.String(r))
	}
	return types.Entity{UID: CallerUID(c.Name), Parents: types.NewEntityUIDSet(parents...)}
}

// isRight reports whether uid is what a caller does at the PDP, or a group of
// that: no call of a tool, nor its approval. No server can have such a name.
func isRight(uid types.EntityUID) bool {
	return uid.Type == typeAction && (uid.ID == actionVouch || uid.ID == groupMethods || strings.HasPrefix(string(uid.ID), methodStart))
}

// rightActions declares what callers do. The context is empty: who may do what
// is worked out once, when a bundle is loaded, so that nothing of a single call
// can be asked for.
func (b *schemaBuilder) rightActions() {
	caller := []schemaast.EntityTypeRef{schemaast.EntityType(typeCaller)}
	add := func(id string, resource types.EntityType, parents ...schemaast.ParentRef) {
		b.ast.Actions[types.String(id)] = schemaast.Action{
			Parents: parents,
			AppliesTo: &schemaast.AppliesTo{
				Principals: caller, Resources: []schemaast.EntityTypeRef{schemaast.EntityType(resource)}, Context: schemaast.RecordType{},
			},
		}
	}
	b.ast.Actions[groupMethods] = schemaast.Action{}
	for _, m := range Methods {
		resource := typeService
		if m.OfServer {
			resource = typeServer
		}
		add(methodStart+m.Name, resource, schemaast.ParentRefFromID(groupMethods))
	}
	add(actionVouch, typeSource)
}

// rights is what a schema knows of the callers' actions.
type rights struct {
	// covers and closure are, of these actions, what a schema has of calls.
	covers, closure map[types.EntityUID][]types.EntityUID
	own             []*Policy // Writ's; each set has its own copies
}

// add notes an action, which is in groups.
func (r *rights) add(uid types.EntityUID, groups []types.EntityUID, applies bool) {
	if r.covers[uid] == nil {
		r.covers[uid] = []types.EntityUID{}
	}
	if !applies {
		return
	}
	r.closure[uid] = groups
	for _, g := range append(slices.Clip(groups), uid) {
		r.covers[g] = append(r.covers[g], uid)
	}
}

// groupsOf lists the groups that the action of a call, an approval or a caller
// is in.
func (s *Schema) groupsOf(uid types.EntityUID) []types.EntityUID {
	if isRight(uid) {
		return s.rights.closure[uid]
	}
	return s.closure[uid]
}

// rightsFile is the file of Writ's own policies. No bundle has one of that name.
const rightsFile = "rights.cedar"

//go:embed rights.cedar
var rightsText []byte

// ownStart is what the ids of Writ's own policies start with, and no other's.
const ownStart = "pdp:"

// readOwnRights reads Writ's own policies about callers.
func readOwnRights() ([]*Policy, writ.Faults) {
	file := readFile(Source{File: rightsFile, Text: rightsText})
	out := make([]*Policy, len(file.entries))
	for i, e := range file.entries {
		out[i] = e.policy
	}
	return out, file.faults
}

// noTool is what stands, for the lints, where actions of callers have no
// contract: it declares nothing.
var noTool = &contract.Contract{Server: &contract.Server{}, Tool: &definition.Tool{}}

// AboutRights reports whether the policy says what callers may do at the PDP:
// such a policy answers no call of a tool.
func (p *Policy) AboutRights() bool { return aboutRights(p.ast.Action) }

func aboutRights(scope ast.IsActionScopeNode) bool {
	return slices.ContainsFunc(shelfKeys(scope), func(k shelfKey) bool { return isRight(k.uid) })
}

// rightsScope is scope for a policy about callers.
func (c *compiler) rightsScope(e *entry) (actions []types.EntityUID, ok bool) {
	keys := shelfKeys(e.policy.ast.Action)
	ok = true
	covered := map[types.EntityUID]bool{}
	for i, k := range keys {
		list, known := c.schema.rights.covers[k.uid]
		switch {
		case !isRight(k.uid):
			c.fail(e, i, "%s is no method of the PDP: a policy is about what callers do at the PDP, or about calls of tools; write two", k.uid)
			ok = false
		case !known:
			c.fail(e, i, "%s", c.actionNames().unknown(k.uid))
			ok = false
		case k.equals && k.uid.ID == groupMethods:
			c.fail(e, i, "%s is a group of actions, which no call is itself: write `action in %s`", k.uid, k.uid)
			ok = false
		}
		for _, uid := range list {
			covered[uid] = true
		}
	}
	return slices.SortedFunc(maps.Keys(covered), compareUIDs), ok
}

// unknownRight says that no method has an action's name, and which one was
// meant.
func unknownRight(uid types.EntityUID) string {
	name := strings.TrimPrefix(string(uid.ID), methodStart)
	names := make([]string, len(Methods))
	for i, m := range Methods {
		names[i] = m.Name
	}
	message := fmt.Sprintf("the PDP has no method %q", name)
	if near := nearest(name, names); near != "" {
		return message + "; did you mean " + actionUID(methodStart+near).String() + "?"
	}
	return message + ": the methods are " + strings.Join(names, ", ")
}

// strangers reports entities, named in the conditions of a policy about callers,
// that are not there when it is evaluated: when the bundle is loaded no principal,
// no group and no tool is looked at.
func (c *checker) strangers() writ.Faults {
	if !aboutRights(c.in.policy.Action) {
		return nil
	}
	var out writ.Faults
	var visit func(e *expr)
	visit = func(e *expr) {
		if v, ok := e.node.(ast.NodeValue); ok {
			if uid, ok := v.Value.(types.EntityUID); ok && c.in.schema.declaredType(uid.Type) && !ofCallers(uid.Type) {
				out = append(out, c.located.fault(e.at, fmt.Sprintf(
					"what callers may do follows from callers, roles, services, servers and sources alone: %s is none of these", uid)))
			}
		}
		for _, arg := range e.args {
			visit(arg)
		}
	}
	for _, condition := range c.located.conditions {
		visit(condition.body)
	}
	return out
}

// ofCallers reports whether policies about callers may name entities of type t.
func ofCallers(t types.EntityType) bool {
	switch t {
	case typeCaller, typeRole, typeService, typeServer, typeSource, typeAction:
		return true
	}
	return false
}
