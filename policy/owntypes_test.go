package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/writ-pdp/writ/policy"
)

// TestDeclaredTwice: a second declaration is shown where it stands, with the
// place of the first.
func TestDeclaredTwice(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		want         []string // place: message
	}{
		{"entity types", "entity A;\nentity B;\nentity A;\n", []string{"3:8: entity type A is declared twice, first at 1:8: keep one"}},
		{"in a list", "entity A, B;\n\n  entity C, B = {};\nentity A;", []string{
			"3:13: entity type B is declared twice, first at 1:11: keep one", "4:8: entity type A is declared twice, first at 1:8: keep one"}},
		{"an enumerated type", "entity A enum [\"x\"];\nentity A in [B];\nentity B;", []string{"2:8: entity type A is declared twice, first at 1:8: keep one"}},
		{"behind an annotation", "@doc(\"one\")\nentity A;\n@doc(\"two\") entity A;", []string{"3:20: entity type A is declared twice, first at 2:8: keep one"}},
		{"behind a record", "entity A { x: String };\nentity A;", []string{"2:8: entity type A is declared twice, first at 1:8: keep one"}},
		{"types", "type T = String;\ntype T = { a: Long };", []string{"2:6: type T is declared twice, first at 1:6: keep one"}},
		{"attributes", "entity A = {\n  a: String,\n  b?: Long,\n  \"a\"?: Long };", []string{"4:3: attribute a is declared twice, first at 2:3: keep one"}},
		{"attributes of an inner record", "type T = { a: { a: Long, b: Long, b: String } };", []string{"1:35: attribute b is declared twice, first at 1:26: keep one"}},
		{"an error elsewhere", "entity A;\nentity A;\nentity = ;", []string{"2:8: entity type A is declared twice, first at 1:8: keep one"}},
		{"nothing", "entity A { a: String, b: { a: String } };\ntype T = Long;\nentity B = { entity: A, \"type\": Long, A?: Set<A> } tags String;\n// entity A;\n", nil},
		{"types of both kinds", "entity A;\ntype A = Long;", []string{"2:6: type A has the name of an entity type: choose another"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, faults := policy.NewSchema(policy.Types{Schema: file("schema.cedarschema", tt.source), Principals: nil})
			var got []string
			for _, f := range faults {
				if f.File == "schema.cedarschema" {
					got = append(got, fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Message))
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// TestMissingSemicolon: it is missed where it belongs.
func TestMissingSemicolon(t *testing.T) {
	for source, want := range map[string]string{
		"entity A\nentity B;":                         "1:9",
		"entity A = { a: String }\n\n// c\nentity B;": "1:25",
		"type T = String\ntype U = Long;":             "1:16",
		"entity A entity B;":                          "1:9",
		"entity A // one\n":                           "1:9",
	} {
		_, faults := policy.NewSchema(policy.Types{Schema: file("schema.cedarschema", source)})
		got := ""
		for _, f := range faults {
			if f.Message[:min(12, len(f.Message))] == "expected ';'" {
				got = fmt.Sprintf("%d:%d", f.Line, f.Column)
			}
		}
		if got != want {
			t.Errorf("%q: at %q, want %q (%v)", source, got, want, faults)
		}
	}
}
