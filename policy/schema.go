package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/cedar-policy/cedar-go/types"
	cedarschema "github.com/cedar-policy/cedar-go/x/exp/schema"
	schemaast "github.com/cedar-policy/cedar-go/x/exp/schema/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

// Types is what a bundle's Cedar schema is made from.
type Types struct {
	Contracts []*contract.Contract
	// Schema is schema.cedarschema: the bundle's own entity types. Empty text
	// means none.
	Schema Source
	// Principals and Actors are the entity types that the issuers' templates
	// make. At least one principal type is required; every type must be
	// declared.
	Principals, Actors []types.EntityType
	// Supplied are further entity types that issuers supply, such as the
	// groups of an identity provider. The bundle needn't hold such entities.
	Supplied []types.EntityType
}

// Schema is the Cedar schema of one bundle: its own entity types, Writ's, and
// an action for everything that its contracts let a call do. It doesn't
// change once made.
type Schema struct {
	source *schemaast.Schema
	whole  *resolved.Schema
	// contracts holds, by each action of a call or an approval, its contract.
	contracts map[types.EntityUID]*contract.Contract
	// covers holds, by each action and group, the actions of calls and
	// approvals that it covers, in order.
	covers map[types.EntityUID][]types.EntityUID
	// calls are the actions of calls, in order: what an open action scope
	// covers. actions are those of calls and approvals.
	calls, actions []types.EntityUID
	// closure holds, by each action of a call or an approval, its groups.
	closure map[types.EntityUID][]types.EntityUID
	static  map[types.EntityUID]types.Entity
	// principal and actor are the one type that context.principal and the
	// elements of context.actors have; empty when there are several.
	principal, actor types.EntityType
	// principals are the types of those for whom calls are made, and who may
	// approve; actors are not among them.
	principals map[types.EntityType]bool
	supplied   map[types.EntityType]bool
	rights     rights
	entities   *validate.Validator
}

// NewSchema makes the schema of a bundle. It is built as a syntax tree, never
// as text, so that no name in a contract can become schema syntax. Faults are
// located in t.Schema.File, in the server's file or in issuers.yaml.
func NewSchema(t Types) (*Schema, writ.Faults) {
	b := &schemaBuilder{
		s: &Schema{
			contracts: map[types.EntityUID]*contract.Contract{},
			covers:    map[types.EntityUID][]types.EntityUID{},
			closure:   map[types.EntityUID][]types.EntityUID{},
			supplied:  map[types.EntityType]bool{},

			principals: map[types.EntityType]bool{},
			rights:     rights{covers: map[types.EntityUID][]types.EntityUID{}, closure: map[types.EntityUID][]types.EntityUID{}},
		},
	}
	own, faults := parseOwnTypes(t.Schema)
	if len(faults) > 0 {
		return nil, faults
	}
	if b.s.rights.own, faults = readOwnRights(); len(faults) > 0 {
		return nil, faults
	}
	b.ast = own
	if b.ast.Actions == nil {
		b.ast.Actions = schemaast.Actions{}
	}
	b.issuerTypes(t)
	b.actionGroups(t.Contracts)
	b.rightActions()
	for _, c := range t.Contracts {
		b.contract(c)
	}
	if len(b.faults) > 0 {
		return nil, b.faults.Sort()
	}
	whole, err := resolved.Resolve(b.ast)
	if err != nil {
		return nil, writ.Faults{{File: t.Schema.File, Message: "the schema can't be resolved: " + err.Error()}}
	}
	return b.finish(whole, t.Contracts), nil
}

// Cedar returns the whole schema in Cedar's schema language, for people.
func (s *Schema) Cedar() []byte {
	text, err := cedarschema.NewSchemaFromAST(s.source).MarshalCedar()
	if err != nil {
		return nil
	}
	return text
}

// contract returns the contract whose calls, or whose approvals, have action
// uid; nil for groups and unknown actions.
func (s *Schema) contract(uid types.EntityUID) *contract.Contract { return s.contracts[uid] }

// schemaBuilder gathers one schema and what is wrong with it.
type schemaBuilder struct {
	s          *Schema
	ast        *schemaast.Schema
	principals []schemaast.EntityTypeRef
	faults     writ.Faults
}

func (b *schemaBuilder) declared(t types.EntityType) bool {
	_, entity := b.ast.Entities[schemaast.Ident(t)]
	_, enum := b.ast.Enums[schemaast.Ident(t)]
	return entity || enum
}

// issuerTypes checks the types that issuers make and notes who may be a
// principal: everybody for whom a call is made, and everybody who acts.
func (b *schemaBuilder) issuerTypes(t Types) {
	check := func(role string, list []types.EntityType) []types.EntityType {
		list = slices.Compact(slices.Sorted(slices.Values(list)))
		for _, et := range list {
			b.s.supplied[et] = true
			if _, err := types.NewEntityType(string(et)); err != nil {
				b.fault("issuers.yaml", "", "%s type %q is not the name of an entity type", role, string(et))
			} else if !b.declared(et) {
				b.fault("issuers.yaml", "", "%s type %s is not declared: add `entity %s;` to schema.cedarschema", role, et, et)
			} else if isReserved(string(et)) {
				b.fault("issuers.yaml", "", "%s type %s is Writ's own: choose another", role, et)
			}
		}
		return list
	}
	principals := check("principal", t.Principals)
	actors := check("actor", t.Actors)
	check("supplied", t.Supplied)
	if len(principals) == 0 {
		b.fault("issuers.yaml", "", "no issuer makes a principal: give one a principal template, such as User::\"{sub}\"")
	}
	if len(principals) == 1 {
		b.s.principal = principals[0]
	}
	if len(actors) == 1 {
		b.s.actor = actors[0]
	}
	for _, et := range principals {
		b.s.principals[et] = true
	}
	for _, et := range slices.Compact(slices.Sorted(slices.Values(append(principals, actors...)))) {
		b.principals = append(b.principals, schemaast.EntityType(et))
	}
}

// contract adds the actions of one contract: one for each thing that a call
// of the tool can do, and the one that approves such a call.
func (b *schemaBuilder) contract(c *contract.Contract) {
	base := c.ID()
	if b.s.contracts[actionUID("approve:"+base)] != nil {
		b.fault(serverFile(c), member("tools", c.Tool.Name), "tool %s is declared twice", base)
		return
	}
	resources, arguments, element := b.resources(c), b.argumentTypes(c, c.Arguments, "arguments"), b.argumentTypes(c, c.Element, "element")
	call, approval := b.contextType(arguments, element, false), b.contextType(arguments, element, true)
	for id, effect := range callActions(c) {
		b.add(id, c, resources, call, c.Server.ID, c.Server.ID+":"+string(effect), string(effect))
		if id != base {
			action := b.ast.Actions[types.String(id)]
			action.Parents = append(action.Parents, schemaast.ParentRefFromID(types.String(base)))
			b.ast.Actions[types.String(id)] = action
		}
	}
	if _, ok := b.ast.Actions[types.String(base)]; !ok { // a group of methods, never a call's action itself
		b.ast.Actions[types.String(base)] = schemaast.Action{
			Parents: []schemaast.ParentRef{schemaast.ParentRefFromID(types.String(c.Server.ID))},
		}
	}
	b.add("approve:"+base, c, resources, approval, groupApprove)
}

// add adds one action that calls or approvals of c have.
func (b *schemaBuilder) add(id string, c *contract.Contract, resources []schemaast.EntityTypeRef, context schemaast.RecordType, groups ...string) {
	action := schemaast.Action{AppliesTo: &schemaast.AppliesTo{
		Principals: b.principals, Resources: resources, Context: context,
	}}
	for _, g := range groups {
		action.Parents = append(action.Parents, schemaast.ParentRefFromID(types.String(g)))
	}
	b.ast.Actions[types.String(id)] = action
	b.s.contracts[actionUID(id)] = c
}

// argumentTypes returns the record type of a call's arguments or of one
// element of them; nil when there is none.
func (b *schemaBuilder) argumentTypes(c *contract.Contract, t *contract.Type, what string) schemaast.IsType {
	if t == nil {
		if what == "arguments" {
			return schemaast.RecordType{}
		}
		return nil
	}
	return b.typer(c, what).cedarType(t, "", false)
}

// resources lists the types that the target of a call of c can have. The
// Tool stands in where there is no target or it may be absent.
func (b *schemaBuilder) resources(c *contract.Contract) []schemaast.EntityTypeRef {
	tool := schemaast.EntityType(typeTool)
	target, absent := c.TargetType()
	if target == "" {
		return []schemaast.EntityTypeRef{tool}
	}
	y := b.typer(c, "resource")
	if y.entityType(target, "") == nil {
		return []schemaast.EntityTypeRef{tool}
	}
	for _, parent := range slices.Sorted(maps.Keys(c.Resource.In)) {
		if y.entityType(types.EntityType(parent), "in") == nil {
			continue
		}
		if !slices.Contains(b.ast.Entities[schemaast.Ident(target)].ParentTypes, schemaast.EntityTypeRef(parent)) {
			y.report("in", fmt.Sprintf("is in %s, and no %s can be: declare `entity %s in [%s]` in schema.cedarschema", parent, target, target, parent))
		}
	}
	if absent {
		return []schemaast.EntityTypeRef{tool, schemaast.EntityType(target)}
	}
	return []schemaast.EntityTypeRef{schemaast.EntityType(target)}
}

// typer returns a typer whose reports name the server and the argument.
func (b *schemaBuilder) typer(c *contract.Contract, what string) *typer {
	return &typer{
		declared: b.declared,
		report: func(path, message string) {
			field := member("tools", c.Tool.Name) + "." + what
			if path != "" {
				field = member(field, path)
			}
			subject := "the resource of " + c.ID()
			if what != "resource" {
				subject = "argument " + path + " of " + c.ID()
			}
			b.fault(serverFile(c), field, "%s %s", subject, message)
		},
	}
}

func (b *schemaBuilder) fault(file, field, format string, args ...any) {
	b.faults = append(b.faults, writ.Fault{File: file, Field: field, Message: fmt.Sprintf(format, args...)})
}

// member returns the field path of a named member, as package contract writes
// it: a name that isn't plain is quoted.
func member(parent, name string) string {
	for _, c := range []byte(name) {
		if !isWordByte(c) && c != '-' {
			return parent + "[" + strconv.Quote(name) + "]"
		}
	}
	return parent + "." + name
}
