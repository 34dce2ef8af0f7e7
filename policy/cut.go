package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

// Cedar's validator checks a policy's conditions once for each action of its
// schema with each principal and resource type, and searches all actions at
// every step. So each policy is validated against a cut of the schema: all
// entity types, and of the actions in the policy's scope one for each way in
// which what the policy reads is typed. A condition sees nothing of an action
// but its uid and the types of its context, so that the others would only
// repeat the same findings.

// cut is a part of the schema, and the validator for it.
type cut struct {
	schema    *resolved.Schema
	validator *validate.Validator
}

// validate returns what Cedar's strict validator finds wrong with p. The cut
// has no actions that apply but those in p's scope, so that p's own action
// scope needn't be looked up again.
func (c *cut) validate(p *ast.Policy) error {
	open := *p
	open.Action = ast.ScopeTypeAll{}
	return c.validator.Policy("", &open)
}

// cutter makes cuts of one schema, each once. It is not safe for concurrent
// use.
type cutter struct {
	schema *Schema
	cuts   map[string]*cut
	shapes map[types.EntityUID]*shape
	types  map[string]int // numbers of types, by their text
}

func newCutter(s *Schema) *cutter {
	return &cutter{schema: s, cuts: map[string]*cut{}, shapes: map[types.EntityUID]*shape{}, types: map[string]int{}}
}

// cut returns the cut for p, whose scope covers actions.
func (c *cutter) cut(p *ast.Policy, actions []types.EntityUID) *cut {
	r := readsOf(p)
	key := r.key(p.Action, len(actions))
	if known := c.cuts[key]; known != nil {
		return known
	}
	made := c.make(c.representatives(actions, r), r.actions)
	c.cuts[key] = made
	return made
}

// make cuts the schema to actions. The other actions that conditions name are
// there too, but apply to nothing; so are all groups of any of them.
func (c *cutter) make(actions, named []types.EntityUID) *cut {
	whole := c.schema.whole
	part := &resolved.Schema{
		Namespaces: whole.Namespaces, Entities: whole.Entities, Enums: whole.Enums,
		Actions: make(map[types.EntityUID]resolved.Action, 8*len(actions)),
	}
	for _, uid := range slices.Concat(actions, named) {
		for _, group := range append(closureOf(whole, uid), uid) {
			if action, ok := whole.Actions[group]; ok {
				part.Actions[group] = resolved.Action{Entity: action.Entity, Annotations: action.Annotations}
			}
		}
	}
	for _, uid := range actions {
		part.Actions[uid] = whole.Actions[uid]
	}
	return &cut{schema: part, validator: validate.New(part)}
}

// fewActions is how many actions are validated one by one. Looking for
// representatives among so few isn't worth it.
const fewActions = 4

// representatives returns, of actions, the first of each kind: those that
// apply to the same types, and in whose context the attributes that r names
// have the same types.
func (c *cutter) representatives(actions []types.EntityUID, r *reads) []types.EntityUID {
	if len(actions) <= fewActions || r.whole {
		return actions
	}
	var out []types.EntityUID
	seen := map[string]bool{}
	var signature []byte
	for _, uid := range actions {
		s := c.shape(uid)
		signature = fmt.Appendf(signature[:0], "%d", s.applies)
		for _, name := range r.names {
			signature = fmt.Appendf(signature, ",%d.%d.%d", s.context[name], s.arguments[name], s.element[name])
		}
		for _, group := range r.actions {
			signature = fmt.Appendf(signature, ",%t", uid == group || slices.Contains(c.schema.groupsOf(uid), group))
		}
		if !seen[string(signature)] {
			seen[string(signature)] = true
			out = append(out, uid)
		}
	}
	return out
}

// shape numbers the types of one action: equal types have equal numbers, and
// an attribute that isn't there has 0.
type shape struct {
	applies                     int
	context, arguments, element map[types.String]int
}

func (c *cutter) shape(uid types.EntityUID) *shape {
	if s := c.shapes[uid]; s != nil {
		return s
	}
	applies := c.schema.whole.Actions[uid].AppliesTo
	s := &shape{
		applies: c.number(fmt.Sprint(applies.Principals, applies.Resources)),
		context: make(map[types.String]int, len(applies.Context)),
	}
	for name, attribute := range applies.Context {
		switch record, _ := attribute.Type.(resolved.RecordType); name {
		case "arguments":
			s.context[name], s.arguments = c.number(optionality(attribute)), c.attributes(record)
		case "element":
			s.context[name], s.element = c.number(optionality(attribute)), c.attributes(record)
		default:
			s.context[name] = c.number(optionality(attribute) + typeText(attribute.Type))
		}
	}
	c.shapes[uid] = s
	return s
}

func (c *cutter) attributes(record resolved.RecordType) map[types.String]int {
	out := make(map[types.String]int, len(record))
	for name, attribute := range record {
		out[name] = c.number(optionality(attribute) + typeText(attribute.Type))
	}
	return out
}

func (c *cutter) number(text string) int {
	n, ok := c.types[text]
	if !ok {
		n = len(c.types) + 1
		c.types[text] = n
	}
	return n
}

func optionality(a resolved.Attribute) string {
	if a.Optional {
		return "?"
	}
	return "!"
}

// typeText writes a type so that equal types, and no others, have equal texts.
func typeText(t resolved.IsType) string {
	switch t := t.(type) {
	case resolved.StringType:
		return "String"
	case resolved.LongType:
		return "Long"
	case resolved.BoolType:
		return "Bool"
	case resolved.ExtensionType:
		return "extension " + string(t)
	case resolved.EntityType:
		return "entity " + string(t)
	case resolved.SetType:
		return "Set<" + typeText(t.Element) + ">"
	case resolved.RecordType:
		var b strings.Builder
		b.WriteByte('{')
		for _, name := range slices.Sorted(maps.Keys(t)) {
			fmt.Fprintf(&b, "%q%s%s,", string(name), optionality(t[name]), typeText(t[name].Type))
		}
		b.WriteByte('}')
		return b.String()
	}
	return fmt.Sprintf("%T", t)
}

// reads is what a policy's conditions read of the context, and which actions
// they name.
type reads struct {
	// names are the names of all attributes that conditions mention, of
	// whatever they may be.
	names   []types.String
	actions []types.EntityUID
	// whole says that the context, its arguments or its element are used as a
	// value, so that the type of the whole record matters.
	whole bool
}

func readsOf(p *ast.Policy) *reads {
	r := &reads{}
	for _, c := range p.Conditions {
		ast.Inspect(ast.NewNode(c.Body), r.visit)
	}
	slices.Sort(r.names)
	r.names = slices.Compact(r.names)
	slices.SortFunc(r.actions, compareUIDs)
	r.actions = slices.Compact(r.actions)
	return r
}

// visit notes what node n reads. It is given to ast.Inspect.
func (r *reads) visit(n ast.IsNode) bool {
	switch n := n.(type) {
	case ast.NodeTypeAccess:
		if isContext(n.Arg) && (n.Value == "arguments" || n.Value == "element") {
			r.whole = true
		}
		r.member(n.Arg, n.Value)
		return false
	case ast.NodeTypeHas:
		r.member(n.Arg, n.Value)
		return false
	case ast.NodeTypeVariable:
		r.whole = r.whole || isContext(n)
	case ast.NodeValue:
		if uid, ok := n.Value.(types.EntityUID); ok && uid.Type == typeAction {
			r.actions = append(r.actions, uid)
		}
	}
	return true
}

// member notes that attribute name of arg is read or asked for.
func (r *reads) member(arg ast.IsNode, name types.String) {
	r.names = append(r.names, name)
	if isContext(arg) {
		return
	}
	if inner, ok := arg.(ast.NodeTypeAccess); ok && isContext(inner.Arg) {
		r.names = append(r.names, inner.Value)
		return
	}
	ast.Inspect(ast.NewNode(arg), r.visit)
}

func isContext(n ast.IsNode) bool {
	v, ok := n.(ast.NodeTypeVariable)
	return ok && v.Name == "context"
}

// key names the cut for a policy with this action scope.
func (r *reads) key(scope ast.IsActionScopeNode, covered int) string {
	var b strings.Builder
	fmt.Fprintln(&b, covered) // an open scope can cover approvals or not
	for _, key := range shelfKeys(scope) {
		b.WriteString(key.String())
		b.WriteByte('\n')
	}
	for _, uid := range r.actions {
		b.WriteString("; ")
		b.WriteString(uid.String())
	}
	if covered > fewActions && !r.whole {
		for _, name := range r.names {
			fmt.Fprintf(&b, "; %q", string(name))
		}
	} else if r.whole {
		b.WriteString("; whole")
	}
	return b.String()
}
