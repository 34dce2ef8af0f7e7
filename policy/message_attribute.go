package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/writ-pdp/writ/contract"
)

// attributeMessage says what is wrong with e, which reads an attribute or asks
// for one: it is not there, or may be absent.
func (c *checker) attributeMessage(e *expr, missing, optional *note) string {
	if path := contextPath(e); len(path) > 1 && (path[0] == "arguments" || path[0] == "element") && !ofEntity(missing) && !ofEntity(optional) {
		return c.argumentMessage(e, path, missing, optional)
	} else if len(path) == 1 {
		return c.contextMessage(e, path[0], missing)
	}
	return c.entityMessage(e, missing, optional)
}

// ofEntity reports whether a note is about an attribute of an entity.
func ofEntity(n *note) bool {
	if n == nil {
		return false
	}
	for owner := range n.owners {
		if owner != "" {
			return true
		}
	}
	return false
}

// argumentMessage is about an argument, or a member of one.
func (c *checker) argumentMessage(e *expr, path []string, missing, optional *note) string {
	name := strings.Join(path[1:], ".")
	wrong, without := map[*class]bool{}, map[*class]bool{}
	if missing != nil {
		maps.Copy(wrong, missing.classes)
		maps.Copy(without, missing.classes)
	}
	if optional != nil {
		maps.Copy(wrong, optional.classes)
	}
	tools, all := toolsOf(wrong), toolsOf(c.inside[e])
	forbid := c.in.policy.Effect == ast.EffectForbid && !c.inUnless(e)
	guard := fmt.Sprintf("`%s has %s && …`", e.args[0].text(), nameText(types.String(path[len(path)-1])))
	switch {
	case len(without) > 0 && len(toolsOf(without)) == len(all):
		return c.undeclared(path, all)
	case len(tools) == len(all) && len(without) == 0 && forbid:
		return c.absentInForbid(e, path)
	case len(tools) == len(all) && len(without) == 0:
		return fmt.Sprintf("`%s` may be absent: write %s", name, guard)
	}
	message := fmt.Sprintf("`%s` is missing or optional in %d of %d tools (%s): narrow the action scope", name, len(tools), len(all), c.someTools(tools))
	if t := c.sureType(path); t != "" {
		message += fmt.Sprintf(" or write `resource is %s`", t)
	} else if message += " or write " + guard; forbid {
		message += ", with which the others pass this forbid"
	}
	return message
}

// inUnless reports whether e stands in an `unless`.
func (c *checker) inUnless(e *expr) bool {
	for c.parents[e] != nil {
		e = c.parents[e]
	}
	return slices.ContainsFunc(c.located.conditions, func(condition condition) bool {
		return condition.body == e && condition.unless
	})
}

// undeclared says that none of the tools has an argument, or why policies
// don't see it.
func (c *checker) undeclared(path, tools []string) string {
	name := strings.Join(path[1:], ".")
	if hiddenIn := c.hiddenIn(path); hiddenIn != "" {
		return fmt.Sprintf("`%s` is opaque in the contract of %s: policies never see it", name, hiddenIn)
	}
	what := "argument"
	if path[0] == "element" {
		what = "element member"
	}
	near := backquoted(nearest(path[len(path)-1], c.namesBeside(path)))
	if len(tools) == 1 {
		return fmt.Sprintf("%s has no %s `%s`%s", tools[0], what, name, near)
	}
	return fmt.Sprintf("no tool in this policy's scope has %s `%s`%s", article(what), name, near)
}

func backquoted(near string) string {
	if near == "" {
		return ""
	}
	return "; did you mean `" + near + "`?"
}

// hiddenIn returns a tool that has the argument and whose contract keeps it
// from policies.
func (c *checker) hiddenIn(path []string) string {
	for _, uid := range c.in.actions {
		at := c.in.schema.contract(uid)
		if at == nil {
			continue
		}
		t := at.Arguments
		if path[0] == "element" {
			t = at.Element
		}
		for _, name := range path[1:] {
			if t == nil || t.Kind != contract.Record || t.Field(name) == nil {
				t = nil
				break
			}
			t = t.Field(name).Type
			if hidden(t) {
				return at.Server.ID + "/" + at.Tool.Name
			}
		}
	}
	return ""
}

// namesBeside lists what the tools in scope have beside the last name of a
// path.
func (c *checker) namesBeside(path []string) []string {
	names := map[string]bool{}
	for _, uid := range c.in.actions {
		applies := c.in.schema.whole.Actions[uid].AppliesTo
		if applies == nil {
			continue
		}
		if t, ok := typeAt(applies.Context, path[:len(path)-1]); ok {
			for _, name := range c.in.schema.attributeNames(t) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// sureType returns an entity type such that every tool whose resource may be
// of this type always has the argument; "" if there is none, or nothing else.
// The Tool doesn't count: it says nothing about what a call is about.
func (c *checker) sureType(path []string) string {
	sure, others := map[string]bool{}, false
	for env := range c.environments() {
		t := string(env.resource)
		if _, there := typeAt(env.class.applies.Context, path); !there || optionalAt(env.class.applies.Context, path) {
			sure[t], others = false, true
		} else if _, seen := sure[t]; !seen {
			sure[t] = true
		}
	}
	for _, t := range slices.Sorted(maps.Keys(sure)) {
		if sure[t] && others && t != string(typeTool) {
			return t
		}
	}
	return ""
}

// contextMessage is about an attribute of the context itself.
func (c *checker) contextMessage(e *expr, name string, missing *note) string {
	switch {
	case aboutRights(c.in.policy.Action):
		return "what callers may do at the PDP is worked out when the bundle is loaded: the context of these actions is empty"
	case missing == nil && c.in.policy.Effect == ast.EffectForbid && !c.inUnless(e):
		return c.absentInForbid(e, nil)
	case missing == nil:
		return fmt.Sprintf("`%s` may be absent: write `context has %s && …`", name, name)
	case name == "review":
		return "context.review is there for approvals only: name their actions, such as `action in Action::\"approve\"`"
	case name == "element":
		return "context.element is there only for tools whose targets are the members of an array of objects: no tool in this policy's scope has any"
	case name == "principal" || name == "actors":
		return fmt.Sprintf("context.%s is there only when issuers make one type of %s: this bundle has several", name, map[string]string{"principal": "principal", "actors": "actor"}[name])
	}
	for class := range c.inside[e] {
		if _, ok := typeAt(class.applies.Context, []string{"arguments", name}); ok {
			return fmt.Sprintf("the context has no `%s`, but the arguments do: write context.arguments%s", name, memberText(types.String(name)))
		}
	}
	var names []string
	for _, f := range contextFields {
		names = append(names, string(f.name))
	}
	if near := nearest(name, names); near != "" {
		return fmt.Sprintf("the context has no `%s`; did you mean `%s`?", name, near)
	}
	return fmt.Sprintf("the context has no `%s`; it has %s", name, list(names))
}

// entityMessage is about an attribute of an entity, or of a record in one.
func (c *checker) entityMessage(e *expr, missing, optional *note) string {
	name := attributeName(e)
	guard := fmt.Sprintf("`%s has %s && …`", e.args[0].text(), nameText(types.String(name)))
	if missing == nil {
		if c.in.policy.Effect == ast.EffectForbid && !c.inUnless(e) {
			return c.absentInForbid(e, nil)
		}
		return fmt.Sprintf("`%s` may be absent: write %s", name, guard)
	}
	lacking := slices.Sorted(maps.Keys(missing.owners))
	variable, _ := e.args[0].node.(ast.NodeTypeVariable)
	having := c.having(string(variable.Name), name)
	switch {
	case variable.Name == "principal" && len(having) > 0:
		return fmt.Sprintf("`%s` is an attribute of %s, and actors are judged by this policy too, which are %s: write `principal is %s`, or `context.principal` for whom the call is made",
			name, list(having), plurals(lacking), having[0])
	case variable.Name == "resource" && len(having) > 0:
		return fmt.Sprintf("`%s` is an attribute of %s, and the resource may be %s too: write `resource is %s`", name, list(having), alternatives(articles(lacking)), having[0])
	case lacking[0] == "":
		return fmt.Sprintf("%s has no `%s`", c.named(e.args[0]), name)
	}
	if tool := c.in.schema.whole.Entities[typeTool].Shape; slices.Equal(lacking, []string{string(typeAction)}) {
		if _, there := tool[types.String(name)]; there {
			return fmt.Sprintf("actions have no attributes, but the tool has this one: write context.tool.%s", name)
		}
		return "actions have no attributes: ask `action in …`, or context.tool for the tool's"
	}
	return c.noAttribute(name, lacking)
}

// noAttribute says that entities of some types have no attribute called name,
// and which ones they have.
func (c *checker) noAttribute(name string, of []string) string {
	all := map[string]bool{}
	for _, t := range of {
		for _, attribute := range c.in.schema.attributeNames(entityTyp(types.EntityType(t)).t) {
			all[attribute] = true
		}
	}
	names := slices.Sorted(maps.Keys(all))
	message, have := article(of[0])+" has no attribute", "it has"
	if len(of) > 1 {
		message, have = plurals(of)+" have no attribute", "they have"
	}
	message += fmt.Sprintf(" `%s`", name)
	switch near := nearest(name, names); {
	case len(names) == 0:
		return message + ", nor any other"
	case near != "":
		message += fmt.Sprintf("; did you mean `%s`? %s%s ", near, strings.ToUpper(have[:1]), have[1:])
	default:
		message += "; " + have + " "
	}
	if len(names) > maxWords {
		return message + strings.Join(names[:maxWords], ", ") + ", …"
	}
	return message + list(names)
}

func articles(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = article(name)
	}
	return out
}

// having lists the types of principals or resources in scope that have an
// attribute.
func (c *checker) having(variable, name string) []string {
	found := map[string]bool{}
	for env := range c.environments() {
		t := env.principal
		if variable == "resource" {
			t = env.resource
		}
		if _, there, _ := c.in.schema.attribute(entityTyp(t).t, types.String(name)); there {
			found[string(t)] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func attributeName(e *expr) string {
	switch n := e.node.(type) {
	case ast.NodeTypeAccess:
		return string(n.Value)
	case ast.NodeTypeHas:
		return string(n.Value)
	}
	return ""
}

// list writes names as a, b and c.
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func plurals(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name + "s"
	}
	return list(out)
}

// allTools lists every tool in the policy's scope, sorted.
func (c *checker) allTools() []string {
	all := map[*class]bool{}
	for _, class := range c.classes {
		all[class] = true
	}
	return toolsOf(all)
}

// toolsOf lists the tools of classes, sorted.
func toolsOf(of map[*class]bool) []string {
	var out []string
	for class := range of {
		out = append(out, class.tools...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxNamed is how many tools a message names.
const maxNamed = 3

// someTools names the first few of tools, without their server where all
// tools in scope have the same.
func (c *checker) someTools(tools []string) string {
	server := ""
	for i, tool := range c.allTools() {
		s, _, _ := strings.Cut(tool, "/")
		if i > 0 && s != server {
			server = ""
			break
		}
		server = s
	}
	var names []string
	for _, tool := range tools[:min(len(tools), maxNamed)] {
		if server != "" {
			tool = strings.TrimPrefix(tool, server+"/")
		}
		names = append(names, tool)
	}
	if len(tools) > maxNamed {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
