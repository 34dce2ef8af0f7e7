package bundle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go/types"
	cedarschema "github.com/cedar-policy/cedar-go/x/exp/schema"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/policy"
)

// How the schema says that a contract names an entity type which isn't there,
// or parents that its type can't have.
var (
	undeclaredType = regexp.MustCompile(`names entity type (\S+), which nothing declares`)
	foreignParent  = regexp.MustCompile(`is in (\S+), and no (\S+) can be`)
)

// locateContracts puts what the schema says of contracts where the review
// says it: it speaks of each tool, and a line of resources or defaults is
// there for many.
func (b *builder) locateContracts(faults writ.Faults) writ.Faults {
	var out writ.Faults
	shared := map[string]bool{}
	declared := sync.OnceValue(func() []string { return keys(b.ownTypes()) })
	for _, f := range faults {
		s := b.serverOf(f.File)
		if s == nil || f.Line > 0 {
			out = append(out, f)
			continue
		}
		f.Field = s.declaredAt(f)
		if f.Field == "" {
			continue
		}
		if m := undeclaredType.FindStringSubmatch(f.Message); m != nil {
			f.Message = fmt.Sprintf("nothing declares the entity type %s", m[1])
			if near := nearest(m[1], declared()); near != "" {
				f.Message += fmt.Sprintf(": did you mean %s?", near)
			} else {
				f.Message += fmt.Sprintf(": add `entity %s;` to schema.cedarschema", m[1])
			}
		}
		if place := f.File + " " + f.Field; !strings.HasPrefix(f.Field, "tools") {
			if shared[place] {
				continue
			}
			shared[place] = true
		}
		n := s.at(f.Field)
		f.Line, f.Column = n.Line, n.Column
		out = append(out, f)
	}
	return out
}

// serverOf returns the server whose review is in a file, or nil.
func (b *builder) serverOf(file string) *server {
	for _, s := range b.servers {
		if s.file == file && s.root != nil {
			return s
		}
	}
	return nil
}

// declaredAt returns the field of the review that a fault of the schema is
// about: tools.T.resource, tools.T.arguments.NAME or tools.T.element.NAME, each
// perhaps with further steps. It is empty where another fault says the same.
func (s *server) declaredAt(f writ.Fault) string {
	at := splitPath(f.Field)
	if len(at) < 3 || at[0] != "tools" {
		return f.Field
	}
	tool := member("tools", at[1])
	named := undeclaredType.FindStringSubmatch(f.Message)
	switch at[2] {
	case "resource":
		for _, c := range s.contracts {
			if c.Tool.Name != at[1] || c.Resource == nil {
				continue
			}
			line := c.ResourceField()
			if parent := foreignParent.FindStringSubmatch(f.Message); parent != nil {
				return member(line+".in", parent[1])
			}
			if named == nil {
				return line
			}
			if _, in := c.Resource.In[named[1]]; in && named[1] != c.Resource.Entity {
				return member(line+".in", named[1])
			}
			return line + ".entity"
		}
	case "arguments":
		if len(at) < 4 {
			return tool
		}
		for _, review := range []string{tool, "defaults"} {
			line := member(review+".arguments", at[3])
			if steps := splitPath(line); s.written(steps) < len(steps) {
				continue
			}
			if named == nil {
				return line
			}
			return line + ".entity"
		}
		return tool
	case "element": // of an array among the arguments, which are reported too
		return ""
	}
	return f.Field
}

// attributes are what entities of a type may have: by name, whether they
// must.
type attributes map[string]bool

// ownTypes are the types of entities that the bundle may hold; nil where its
// schema has faults.
func (b *builder) ownTypes() map[string]attributes {
	t := policy.Types{Principals: []types.EntityType{"User"}} // which is always there
	if f := b.layout.schema; f != nil {
		t.Schema = policy.Source{File: f.Name, Text: f.Data}
	}
	schema, _ := policy.NewSchema(t)
	if schema == nil {
		return nil
	}
	var parsed cedarschema.Schema
	if err := parsed.UnmarshalCedar(schema.Cedar()); err != nil {
		return nil
	}
	ast := parsed.AST()
	out := map[string]attributes{}
	for name, e := range ast.Entities {
		if slices.Contains(reserved[:], types.EntityType(name)) {
			continue
		}
		out[string(name)] = attributes{}
		for attribute, a := range e.Shape {
			out[string(name)][string(attribute)] = !a.Optional
		}
	}
	for name := range ast.Enums {
		out[string(name)] = attributes{}
	}
	return out
}
