package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/contract"
)

// render writes a type as text: {a: String, b?: Set<Long>, c=true: Bool}.
func render(t *contract.Type) string {
	var s string
	switch t.Kind {
	case contract.Entity:
		s = "<" + string(t.Entity) + ">"
		if t.MayBeNew {
			s += "new"
		}
	case contract.Record:
		var fields []string
		for _, f := range t.Fields {
			name := f.Name
			if f.Optional {
				name += "?"
			}
			if f.Default != nil {
				name += fmt.Sprintf("=%v", f.Default)
			}
			fields = append(fields, name+": "+render(f.Type))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case contract.Set:
		return "Set<" + render(t.Elem) + ">"
	default:
		s = map[contract.Kind]string{
			contract.String: "String", contract.Long: "Long", contract.Decimal: "decimal", contract.Bool: "Bool",
			contract.Opaque: "opaque",
		}[t.Kind]
	}
	if t.Fold {
		s += "fold"
	}
	if t.Enum != nil {
		s += "(" + strings.Join(t.Enum, "|") + ")"
	}
	return s
}

// TestTypes is the table of design.md, "Arguments".
func TestTypes(t *testing.T) {
	deep := func(n int) string {
		return strings.Repeat(`{"type":"object","required":["a"],"properties":{"a":`, n) + `{"type":"string"}` + strings.Repeat(`}}`, n)
	}
	doubling := `{"d0":{"type":"string"}`
	for i := 1; i <= 20; i++ {
		doubling += fmt.Sprintf(`,"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}}`, i, i-1, i-1)
	}
	doubling += "}"
	chain := `{"d0":{"type":"string"}`
	for i := 1; i <= 40; i++ {
		chain += fmt.Sprintf(`,"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"}}}`, i, i-1)
	}
	chain += "}"
	for _, c := range []struct {
		name, schema, defs string
		want               string // the type, or
		why                string // a piece of the reason why it is unsettled
	}{
		{name: "string", schema: `{"type":"string"}`, want: "String"},
		{name: "string enum", schema: `{"type":"string","enum":["b","a"]}`, want: "String(b|a)"},
		{name: "enum of strings without type", schema: `{"enum":["b","a"]}`, want: "String(b|a)"},
		{name: "const string", schema: `{"const":"a"}`, want: "String(a)"},
		{name: "format and pattern narrow", schema: `{"type":"string","format":"date","pattern":"^2"}`, want: "String"},
		{name: "integer", schema: `{"type":"integer","minimum":1}`, want: "Long"},
		{name: "enum of integers", schema: `{"type":"integer","enum":[1,2]}`, want: "Long"},
		{name: "number", schema: `{"type":"number"}`, want: "decimal"},
		{name: "boolean", schema: `{"type":"boolean"}`, want: "Bool"},
		{name: "type in a list", schema: `{"type":["string"]}`, want: "String"},
		{name: "nullable string", schema: `{"type":["string","null"]}`, want: "String"},
		{name: "nullable integer, null first", schema: `{"type":["null","integer"]}`, want: "Long"},
		{name: "nullable enum", schema: `{"type":["string","null"],"enum":["a",null]}`, want: "String(a)"},
		{name: "nullable as in OpenAPI", schema: `{"type":"string","nullable":true}`, want: "String"},
		{name: "record", schema: `{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["a"]}`,
			want: "{a: Long, b?: String}"},
		{name: "record without members", schema: `{"type":"object","properties":{}}`, want: "{}"},
		{name: "names are just names", schema: `{"type":"object","properties":{"x-y":{"type":"string"},"\"] || true //":{"type":"string"},"":{"type":"string"}}}`,
			want: `{?: String, "] || true //?: String, x-y?: String}`},
		{name: "nested record", schema: deep(3), want: "{a: {a: {a: String}}}"},
		{name: "array of strings", schema: `{"type":"array","items":{"type":"string"}}`, want: "Set<String>"},
		{name: "array of an enum", schema: `{"type":"array","items":{"enum":["a","b"]}}`, want: "Set<String(a|b)>"},
		{name: "array of numbers", schema: `{"type":"array","items":{"type":"number"}}`, want: "Set<decimal>"},
		{name: "array of booleans", schema: `{"type":"array","items":{"type":"boolean"}}`, want: "Set<Bool>"},
		{name: "array of records", schema: `{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}`,
			want: "Set<{a: String}>"},
		{name: "$ref", schema: `{"$ref":"#/$defs/a"}`, defs: `{"a":{"type":"string"}}`, want: "String"},
		{name: "$ref of a $ref", schema: `{"$ref":"#/$defs/a"}`, defs: `{"a":{"$ref":"#/$defs/b"},"b":{"type":"integer"}}`, want: "Long"},
		{name: "$ref deeper", schema: `{"$ref":"#/$defs/a/properties/b~1c"}`,
			defs: `{"a":{"properties":{"b/c":{"type":"integer"}}}}`, want: "Long"},
		{name: "$ref percent-encoded", schema: `{"$ref":"#/$defs/a%20b"}`, defs: `{"a b":{"type":"integer"}}`, want: "Long"},
		{name: "$ref beside a description and bounds", schema: `{"$ref":"#/$defs/a","description":"d","maxLength":3}`,
			defs: `{"a":{"type":"string"}}`, want: "String"},
		{name: "$ref in a schema with an identity", schema: `{"$ref":"#/$defs/a"}`, defs: `{"a":{"type":"string"}},"$id":"https://a.example/s.json"`, want: "String"},
		{name: "the same $ref twice is no recursion", schema: `{"type":"object","properties":{"a":{"$ref":"#/$defs/s"},"b":{"$ref":"#/$defs/s"}}}`,
			defs: `{"s":{"type":"string"}}`, want: "{a?: String, b?: String}"},

		{name: "several types", schema: `{"type":["string","number"]}`, why: "type lists several types"},
		{name: "no type", schema: `{"description":"anything"}`, why: "it has no type"},
		{name: "anything", schema: `{}`, why: "it has no type"},
		{name: "a boolean schema", schema: `true`, why: "its schema is a boolean"},
		{name: "null", schema: `{"type":"null"}`, why: `type "null"`},
		{name: "properties without type", schema: `{"properties":{"a":{"type":"string"}}}`, why: "it has no type"},
		{name: "free-form object", schema: `{"type":"object"}`, why: "an object without properties"},
		{name: "map", schema: `{"type":"object","additionalProperties":{"type":"string"}}`, why: "an object without properties"},
		{name: "oneOf", schema: `{"oneOf":[{"type":"string"}]}`, why: "(oneOf)"},
		{name: "anyOf", schema: `{"type":"string","anyOf":[{"minLength":1}]}`, why: "(anyOf)"},
		{name: "allOf", schema: `{"allOf":[{"type":"string"}]}`, why: "(allOf)"},
		{name: "not", schema: `{"type":"string","not":{"const":"a"}}`, why: "(not)"},
		{name: "if", schema: `{"type":"string","if":{"const":"a"}}`, why: "(if)"},
		{name: "dependentSchemas", schema: `{"type":"object","properties":{"a":{"type":"string"}},"dependentSchemas":{"a":{}}}`, why: "(dependentSchemas)"},
		{name: "enum of mixed types", schema: `{"enum":["a",1]}`, why: "mixed"},
		{name: "enum against its type", schema: `{"type":"string","enum":["a",1]}`, why: "mixed"},
		{name: "enum of numbers without type", schema: `{"enum":[1,2]}`, why: "it has no type"},
		{name: "enum of objects", schema: `{"type":"object","properties":{},"enum":[{}]}`, why: "composite"},
		{name: "const null", schema: `{"const":null}`, why: "it has no type"},
		{name: "array without items", schema: `{"type":"array"}`, why: "an array without items"},
		{name: "untyped items", schema: `{"type":"array","items":{}}`, why: "items: it has no type"},
		{name: "boolean items", schema: `{"type":"array","items":true}`, why: "items: its schema is a boolean"},
		{name: "tuple", schema: `{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"string"}}`, why: "prefixItems"},
		{name: "set of sets", schema: `{"type":"array","items":{"type":"array","items":{"type":"string"}}}`, why: "an array inside an array"},
		{name: "set of records with optional members",
			schema: `{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}`, why: `member "a" is optional`},
		{name: "recursion", schema: `{"type":"object","properties":{"a":{"$ref":"#/properties/x"}}}`, why: `$ref "#/properties/x" does not lead into $defs`},
		{name: "a $ref to itself", schema: `{"$ref":"#/$defs/a"}`, defs: `{"a":{"$ref":"#/$defs/a"}}`, why: "recursion"},
		{name: "$ref beside properties", schema: `{"$ref":"#/$defs/a","properties":{}}`, defs: `{"a":{"type":"object","properties":{}}}`,
			why: "properties beside $ref"},
		{name: "$ref to the root", schema: `{"$ref":"#"}`, why: `$ref "#"`},
		{name: "a $id changes what pointers mean", schema: `{"$ref":"#/$defs/a/$defs/b"}`,
			defs: `{"a":{"$id":"https://a.example/","$defs":{"b":{"type":"string"}}}}`, why: "does not lead"},
		{name: "a $id in the argument", schema: `{"$id":"https://a.example/","type":"string"}`, why: "$id"},
		{name: "deeper than any argument needs", schema: `{"$ref":"#/$defs/d40"}`, defs: chain, why: "nests deeper than 32"},
		{name: "a small schema that expands", schema: `{"$ref":"#/$defs/d20"}`, defs: doubling, why: "more than 4096 types"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.defs == "" {
				c.defs = "{}"
			}
			schema := `{"type":"object","properties":{"x":` + c.schema + `},"$defs":` + c.defs + `}`
			tool := define(t, "t", schema)
			made, faults, _ := contract.New(remote("t", contract.Review{Effect: "read"}), toolList(tool))
			unsettled := contract.Unsettled(tool)
			if c.want != "" {
				if faults != nil || len(unsettled) > 0 {
					t.Fatalf("faults %v, unsettled %q, want type %s", faults, unsettled, c.want)
				}
				if got := render(made[0].Arguments.Field("x").Type); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				return
			}
			if len(faults) == 0 || !strings.HasPrefix(faults[0].Message, `argument "x`) || !strings.Contains(faults[0].Message, c.why) ||
				!strings.Contains(faults[0].Message, "opaque: [x") || faults[0].Field != "tools.t" {
				t.Fatalf("faults %v, want x unsettled: %s", faults, c.why)
			}
			_, faults, _ = contract.New(remote("t", contract.Review{Effect: "read", Opaque: unsettled}), toolList(tool))
			if faults != nil {
				t.Errorf("with opaque %.80q: %v", unsettled, faults)
			}
		})
	}
}

// TestRecursion: recursion is found through several schemas, and only what
// recurses is unsettled.
func TestRecursion(t *testing.T) {
	tool := define(t, "t", `{"type":"object","properties":{"tree":{"$ref":"#/definitions/node"},"name":{"type":"string"}},
		"definitions":{"node":{"type":"object","properties":{"label":{"type":"string"},"next":{"$ref":"#/definitions/link"}}},
		               "link":{"type":"object","properties":{"to":{"$ref":"#/definitions/node"}}}}}`)
	if got, want := contract.Unsettled(tool), []string{"tree.next.to"}; !slices.Equal(got, want) {
		t.Errorf("unsettled %q, want %q", got, want)
	}
	made, faults, _ := contract.New(remote("t", contract.Review{Effect: "read", Opaque: []string{"tree.next.to"}}), toolList(tool))
	if faults != nil {
		t.Fatal(faults)
	}
	if got, want := render(made[0].Arguments), "{name?: String, tree?: {label?: String, next?: {to?: opaque}}}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestReviewedTypes: what a review says about arguments changes their types.
func TestReviewedTypes(t *testing.T) {
	const schema = `{"type":"object","required":["owner"],"properties":{
		"owner":{"type":"string","enum":["Acme","ACME","Other"]},"page":{"type":"number"},"text":{"type":"string"},
		"private":{"type":"boolean"},"link":{"type":"string"},
		"filter":{"type":"object","properties":{"query":{"type":"string"},"by":{"type":"string"},"limit":{"type":"number"}},"required":["query"]},
		"reviewers":{"type":"array","items":{"type":"string"}},
		"files":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"mode":{"type":"string"}},"required":["path"]}}}}`
	for _, c := range []struct {
		name     string
		review   contract.Review
		resource contract.Resource
		want     string
	}{
		{"entity, long, opaque, when_absent",
			contract.Review{
				Effect: "read", Opaque: []string{"text", "filter.query", "files[].content"},
				Arguments: map[string]contract.Argument{
					"page": {Long: true}, "filter.limit": {Long: true}, "filter.by": {Entity: "User", MayBeNew: true}, "reviewers[]": {Entity: "User"},
					"link": {Entity: "Url"},
				},
				WhenAbsent: map[string]any{"private": false, "files[].mode": "644"},
			},
			contract.Resource{Entity: "Org", ID: "{owner}", Fold: "ascii"},
			"{files?: Set<{content?: opaque, mode=644: String, path: String}>, filter?: {by?: <User>new, limit?: Long, query: opaque}, " +
				"link?: <Url>, owner: Stringfold(acme|other), page?: Long, private=false: Bool, reviewers?: Set<<User>>, text?: opaque}",
		},
		{"a whole array opaque, targets elsewhere",
			contract.Review{Effect: "read", Opaque: []string{"files"}},
			contract.Resource{URL: []string{"link"}},
			"{files?: opaque, filter?: {by?: String, limit?: decimal, query: String}, link?: <Url>, " +
				"owner: String(Acme|ACME|Other), page?: decimal, private?: Bool, reviewers?: Set<String>, text?: String}",
		},
		{"what names a target is an entity, not a word of an enum",
			contract.Review{Effect: "read", Opaque: []string{"files", "filter", "reviewers", "text", "page"}},
			contract.Resource{Host: []string{"owner"}},
			"{files?: opaque, filter?: opaque, link?: String, owner: <Host>, page?: opaque, private?: Bool, reviewers?: opaque, text?: opaque}",
		},
		{"opaque said with the argument",
			contract.Review{Effect: "read", Arguments: map[string]contract.Argument{"files": {Opaque: true}, "filter": {Opaque: true}}},
			contract.Resource{Email: []string{"reviewers[]"}},
			"{files?: opaque, filter?: opaque, link?: String, owner: String(Acme|ACME|Other), page?: decimal, private?: Bool, " +
				"reviewers?: Set<<Email>>, text?: String}",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			con := make1(t, schema, c.review, c.resource)
			if got := render(con.Arguments); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
