package contract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/writ-pdp/writ/canon"
)

// keywordSchemas are schemas of one argument, for keywords that contracts check
// beside the library.
var keywordSchemas = []string{
	`{"enum":["a",1,true,null,[1,{"b":2}],{"a":[1]}]}`, `{"const":1}`, `{"const":"a"}`, `{"const":null}`, `{"const":[1,"a"]}`, `{"enum":[0]}`,
	`{"type":"integer"}`, `{"type":["integer","string"]}`, `{"type":["integer","number"]}`, `{"type":["null","integer"]}`, `{"type":"number"}`,
	`{"minimum":1}`, `{"maximum":1}`, `{"exclusiveMinimum":1}`, `{"exclusiveMaximum":1}`, `{"minimum":0.1,"maximum":1e300}`, `{"minimum":-1e-7}`,
	`{"exclusiveMinimum":1e21}`, `{"multipleOf":0.1}`, `{"uniqueItems":true}`, `{"uniqueItems":true,"maxItems":3,"items":{"enum":[1,2,"a"]}}`,
	`{"not":{"enum":["a",1]}}`, `{"not":{"uniqueItems":true}}`, `{"not":{"type":"integer"}}`, `{"not":{"minimum":1}}`,
	`{"anyOf":[{"const":1},{"type":"string","pattern":"^a"}]}`, `{"oneOf":[{"minimum":1},{"maximum":1}]}`, `{"if":{"type":"integer"},"then":{"minimum":2},"else":{"type":"string"}}`,
	`{"format":"ipv4"}`, `{"format":"no-such-format"}`, `{"type":"string","format":"date","enum":["2026-11-30"]}`, `{"pattern":"b$"}`,
	`{"contains":{"const":1}}`, `{"prefixItems":[{"const":1}],"items":{"type":"string"}}`, `{"patternProperties":{"^a":{"const":1}},"additionalProperties":{"type":"integer"}}`,
	`{"propertyNames":{"enum":["a","b"]}}`, `{"dependentSchemas":{"a":{"required":["b"]}}}`, `{"properties":{"a":{"const":1}},"unevaluatedProperties":false}`,
	`{"$ref":"#/$defs/list"}`, `{"minLength":2}`, `false`, `true`, `{}`, `{"allOf":[{"enum":[1,2]},{"enum":[2,3]}]}`,
}

const keywordDefs = `{"list":{"type":"object","properties":{"a":{"$ref":"#/$defs/list"}},"uniqueItems":true,"const":{"a":{}}}}`

var keywordValues = []string{
	`"a"`, `"ab"`, `""`, `"2026-11-30"`, `"192.0.2.1"`, `1`, `0`, `-1`, `2`, `1.5`, `0.1`, `0.3`, `-1e-7`, `-2e-7`, `1e21`, `1.5e300`, `1e301`, `9007199254740992`,
	`5e-324`, `true`, `false`, `[]`, `[1]`, `[1,1]`, `[1,"1"]`, `["a","a"]`, `[1,{"b":2}]`, `[{"b":2,"a":1},{"a":1,"b":2}]`, `[[1,"a"],[1,"a"]]`, `[1,"a"]`,
	`[1,2,"a",2]`, `[null,null]`, `[0,-0]`, `{}`, `{"a":1}`, `{"a":[1]}`, `{"a":2}`, `{"b":1}`, `{"a":1,"b":1}`, `{"a":{}}`, `{"ab":1}`, `{"c":"x"}`, `null`,
}

// plain compiles a schema with the library alone.
func plain(t testing.TB, schema string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("https://schema.invalid/x", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("https://schema.invalid/x")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAgainstTheLibrary: what contracts check themselves, to bound its cost,
// comes out as the library alone has it, for every schema and value of the
// lists and in every dialect that has the keyword.
func TestAgainstTheLibrary(t *testing.T) {
	passed, refused := 0, 0
	for _, dialect := range []string{
		"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema#",
	} {
		for _, schema := range keywordSchemas {
			whole := fmt.Sprintf(`{"$schema":%q,"type":"object","properties":{"x":%s},"$defs":%s}`, dialect, schema, keywordDefs)
			c := opaqueSchema(t, whole)
			library := plain(t, whole)
			for _, value := range keywordValues {
				v, err := canon.ParseObject([]byte(`{"x":` + value + `}`))
				if err != nil {
					t.Fatal(err)
				}
				want := library.Validate(v)
				if want == nil {
					passed++
				} else {
					refused++
				}
				if got := c.Validate(v); (got == nil) != (want == nil) {
					t.Errorf("%s of %s with %s: got %v, the library says %v", dialect, schema, value, got, want)
				}
			}
		}
	}
	if passed < 1000 || refused < 1000 {
		t.Errorf("%d passed and %d were refused: the lists show too little", passed, refused)
	}
}
