package contract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

func TestValidate(t *testing.T) {
	const schema = `{"type":"object","required":["amount"],"properties":{
		"amount":{"type":"number","exclusiveMinimum":0,"maximum":100,"multipleOf":0.01},
		"count":{"type":"integer","minimum":1,"exclusiveMaximum":5},
		"currency":{"enum":["GBP","EUR"]},
		"createdAt":{"type":"string","format":"date-time"},
		"note":{"type":["string","null"],"minLength":2,"maxLength":4,"pattern":"^[a-z]*$"},
		"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true,"maxItems":2000},
		"filter":{"type":"object","properties":{"query":{"type":"string"},"deep":{"type":"object","properties":{"a":{"type":"boolean"}}}},
			"additionalProperties":true},
		"rows":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}},
		"free":{"type":"object","additionalProperties":{"type":"integer"},"minProperties":1},
		"union":{"oneOf":[{"type":"string"},{"type":"integer"}]}}}`
	c := make1(t, schema, contract.Review{Effect: "read", Opaque: []string{"free", "union"}})
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"t%d"`, i)
		}
		return b.String()[1:]
	}
	for _, tc := range []struct {
		name, args       string
		pointer, message string // of the failure; message empty: none
	}{
		{"least", `{"amount":1}`, "", ""},
		{"everything", `{"amount":99.99,"count":4,"currency":"EUR","createdAt":"2026-11-30T10:00:00Z","note":"abc","tags":["a","b"],
			"filter":{"query":"q","deep":{"a":true}},"rows":[{"id":1},{"id":2}],"free":{"anything":1},"union":7}`, "", ""},
		{"equal numbers are equal", `{"amount":1.0e1}`, "", ""},
		{"required", `{}`, "", `"amount" is missing`},
		{"undeclared", `{"amount":1,"other":1}`, "/other", "does not declare"},
		{"undeclared where additionalProperties allows it", `{"amount":1,"filter":{"other":1}}`, "/filter/other", "does not declare"},
		{"undeclared deeper", `{"amount":1,"filter":{"deep":{"b":true}}}`, "/filter/deep/b", "does not declare"},
		{"undeclared in an element", `{"amount":1,"rows":[{"id":1},{"id":2,"x":1}]}`, "/rows/1/x", "does not declare"},
		{"look-alike in case", `{"amount":1,"createdat":"x"}`, "/createdat", `taken for "createdAt"`},
		{"look-alike beyond ASCII", `{"amount":1,"ra` + "\u017f" + `":1,"row` + "\u017f" + `":[]}`, "/ra\u017f", "does not declare"},
		{"look-alike by case folding", `{"amount":1,"row` + "\u017f" + `":[]}`, "/row\u017f", `taken for "rows"`},
		{"look-alike deeper", `{"amount":1,"filter":{"QUERY":"q"}}`, "/filter/QUERY", `taken for "query"`},
		{"null", `{"amount":null}`, "/amount", "null"},
		{"null where the schema allows it", `{"amount":1,"note":null}`, "/note", "null"},
		{"null element", `{"amount":1,"tags":[null]}`, "/tags/0", "null"},
		{"null in an opaque argument is the schema's to judge", `{"amount":1,"free":{"unheard":null}}`, "/free", "must be a number"},
		{"type", `{"amount":"1"}`, "/amount", "must be a number"},
		{"type of a boolean", `{"amount":1,"filter":{"deep":{"a":"true"}}}`, "/filter/deep/a", "must be true or false"},
		{"type of a record", `{"amount":1,"filter":[]}`, "/filter", "must be an object"},
		{"type of a set", `{"amount":1,"tags":"a"}`, "/tags", "must be an array"},
		{"type of text", `{"amount":1,"note":7}`, "/note", "must be a string"},
		{"type of an element", `{"amount":1,"tags":["a",2]}`, "/tags/1", "must be a string"},
		{"no integer", `{"amount":1,"count":1.5}`, "/count", "must be a whole number"},
		{"exclusiveMinimum", `{"amount":0}`, "/amount", "must be more than 0"},
		{"maximum", `{"amount":100.01}`, "/amount", "must be at most 100"},
		{"maximum itself", `{"amount":100}`, "", ""},
		{"multipleOf", `{"amount":0.001}`, "/amount", "must be a multiple of 0.01"},
		{"minimum", `{"amount":1,"count":0}`, "/count", "must be at least 1"},
		{"minimum itself", `{"amount":1,"count":1}`, "", ""},
		{"exclusiveMaximum", `{"amount":1,"count":5}`, "/count", "must be less than 5"},
		{"enum", `{"amount":1,"currency":"USD"}`, "/currency", "must be one of GBP, EUR"},
		{"format", `{"amount":1,"createdAt":"yesterday"}`, "/createdAt", "must have the format date-time"},
		{"minLength", `{"amount":1,"note":"a"}`, "/note", "must have at least 2 characters"},
		{"maxLength in characters", `{"amount":1,"note":"abcde"}`, "/note", "must have at most 4 characters"},
		{"pattern", `{"amount":1,"note":"A1"}`, "/note", "must match the pattern ^[a-z]*$"},
		{"uniqueItems", `{"amount":1,"tags":["a","a"]}`, "/tags", "must not hold the same element twice"},
		{"a set of 1024", `{"amount":1,"tags":[` + many(1024) + `]}`, "", ""},
		{"a set of 1025", `{"amount":1,"tags":[` + many(1025) + `]}`, "/tags", "more than 1024"},
		{"an object in an opaque argument", `{"amount":1,"free":{"secret name":"x"}}`, "/free", "must be a number"},
		{"minProperties", `{"amount":1,"free":{}}`, "/free", "must have at least 1 member"},
		{"oneOf", `{"amount":1,"union":true}`, "/union", "oneOf"},
		{"required in an element", `{"amount":1,"rows":[{}]}`, "/rows/0", `"id" is missing`},
		{"the first of two broken keywords", `{"amount":0,"count":0,"note":"A"}`, "/amount", "must be more than 0"},
		{"the first of two in order", `{"amount":1,"zz":1,"yy":1,"count":"x"}`, "/count", "must be a whole number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 20 { // maps are walked in random order
				f := c.Validate(args(t, tc.args))
				if tc.message == "" {
					if f != nil {
						t.Fatalf("refused: %v", f)
					}
					continue
				}
				if f == nil {
					t.Fatalf("passes, want %s: %s", tc.pointer, tc.message)
				}
				if f.Code != writ.CodeInvalidArguments || f.Pointer != tc.pointer || !strings.Contains(f.Message, tc.message) {
					t.Fatalf("got %s %q %q, want %q, %q", f.Code, f.Pointer, f.Message, tc.pointer, tc.message)
				}
			}
		})
	}
}

// TestFailuresHoldNoValues: whatever is refused, neither values nor names that
// nobody declared come out of opaque arguments.
func TestFailuresHoldNoValues(t *testing.T) {
	const secret = "hunter2"
	c := make1(t, `{"type":"object","properties":{
		"s":{"type":"string","enum":["a"]},"p":{"type":"string","pattern":"^[0-9]$"},"f":{"type":"string","format":"email"},
		"l":{"type":"string","maxLength":3},"n":{"type":"integer"},
		"o":{"additionalProperties":{"type":"integer"},"propertyNames":{"maxLength":9}},
		"u":{"anyOf":[{"type":"integer"},{"const":"x"}]},
		"d":{"type":"object","additionalProperties":false,"properties":{"known":{"type":"integer"}}}}}`,
		contract.Review{Effect: "read", Opaque: []string{"o", "u", "d"}})
	for _, text := range []string{
		`{"s":"hunter2"}`, `{"p":"hunter2"}`, `{"f":"hunter2"}`, `{"l":"hunter2"}`, `{"n":"hunter2"}`,
		`{"o":{"hunter2":"x"}}`, `{"o":{"hunter2hunter2":1}}`, `{"u":"hunter2"}`, `{"d":{"hunter2":1}}`, `{"d":{"known":"hunter2"}}`,
		`{"o":{"a":{"hunter2":[{"hunter2":1}]}}}`,
	} {
		f := c.Validate(args(t, text))
		if f == nil {
			t.Errorf("%s passes", text)
		} else if s := f.String(); strings.Contains(s, secret) {
			t.Errorf("%s: the failure says %q", text, s)
		}
	}
}

// TestUndeclaredAllowed: with undeclared: allow, what the schema does not
// declare goes through at the top, and nowhere else; look-alikes never do.
func TestUndeclaredAllowed(t *testing.T) {
	const schema = `{"type":"object","required":["hidden"],"properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}},"Name":{"type":"string"}}%s}`
	review := contract.Review{Effect: "read", Undeclared: "allow"}
	open := make1(t, fmt.Sprintf(schema, ""), review)
	shut := make1(t, fmt.Sprintf(schema, `,"additionalProperties":{"type":"integer"}`), review)
	for _, tc := range []struct {
		c    *contract.Contract
		args string
		ok   bool
	}{
		{open, `{"hidden":{"any":[null]}}`, true},
		{open, `{"hidden":1,"x":null}`, true},
		{open, `{}`, false},
		{open, `{"hidden":1,"a":{"c":1}}`, false},
		{open, `{"hidden":1,"name":"x"}`, false},
		{open, `{"hidden":1,"A":{}}`, false},
		{shut, `{"hidden":1}`, true},
		{shut, `{"hidden":"x"}`, false},
	} {
		if f := tc.c.Validate(args(t, tc.args)); (f == nil) != tc.ok {
			t.Errorf("%s: got %v, want ok %v", tc.args, f, tc.ok)
		}
	}
}

// TestDialects: the dialect that $schema names decides what keywords mean.
func TestDialects(t *testing.T) {
	tuple := func(dialect, keyword, rest string) string {
		return `{"$schema":"` + dialect + `","type":"object","properties":{"x":{"type":"array","` + keyword + `":[{"type":"string"}],"` + rest + `":false}}}`
	}
	for _, tc := range []struct{ name, schema string }{
		{"2020-12", tuple("https://json-schema.org/draft/2020-12/schema", "prefixItems", "items")},
		{"2019-09", tuple("https://json-schema.org/draft/2019-09/schema", "items", "additionalItems")},
		{"draft-07", tuple("http://json-schema.org/draft-07/schema#", "items", "additionalItems")},
		{"draft-06", tuple("http://json-schema.org/draft-06/schema#", "items", "additionalItems")},
		{"draft-04", tuple("http://json-schema.org/draft-04/schema#", "items", "additionalItems")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := make1(t, tc.schema, contract.Review{Effect: "read", Opaque: []string{"x"}})
			if f := c.Validate(args(t, `{"x":["a"]}`)); f != nil {
				t.Errorf("a string: %v", f)
			}
			for _, bad := range []string{`{"x":[1]}`, `{"x":["a",1]}`} {
				if c.Validate(args(t, bad)) == nil {
					t.Errorf("%s passes", bad)
				}
			}
		})
	}
	t.Run("draft-04 knows no const, and policies rely on it", func(t *testing.T) {
		c := make1(t, `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"x":{"type":"string","const":"a"}}}`,
			contract.Review{Effect: "read"})
		if c.Validate(args(t, `{"x":"b"}`)) == nil {
			t.Error("a value outside const passes")
		}
	})
	t.Run("before 2019-09 everything beside $ref is ignored", func(t *testing.T) {
		c := make1(t, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
			"properties":{"x":{"$ref":"#/definitions/a","type":"object","properties":{"b":{"type":"string"}}}},"definitions":{"a":{"type":"string"}}}`,
			contract.Review{Effect: "read"})
		if f := c.Validate(args(t, `{"x":"b"}`)); f != nil {
			t.Error(f)
		}
		if got := render(c.Arguments); got != "{x?: String}" {
			t.Errorf("type %s", got)
		}
	})
}

// TestBadSchemas: a schema that cannot be checked exactly is a fault that says
// where and what.
func TestBadSchemas(t *testing.T) {
	objects := strings.TrimSuffix(strings.Repeat(`{"type":"string"},`, 2001), ",")
	for _, tc := range []struct{ name, schema, message string }{
		{"a network $ref", `{"type":"object","properties":{"a":{"$ref":"https://evil.example/schema.json#/x"}}}`,
			`inputSchema/properties/a: $ref "https://evil.example/schema.json#/x" leads out of the schema`},
		{"a file $ref", `{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
			`inputSchema/properties/a: $ref "file:///etc/passwd" leads out of the schema`},
		{"a relative $ref", `{"type":"object","properties":{"a":{"anyOf":[{"$ref":"other.json"}]}}}`,
			`inputSchema/properties/a/anyOf/0: $ref "other.json" leads out of the schema`},
		{"a network $dynamicRef", `{"type":"object","properties":{"a":{"$dynamicRef":"https://evil.example/s#a"}}}`, "leads out of the schema"},
		{"a $ref to nothing", `{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`, "not found"},
		{"an unknown dialect", `{"$schema":"https://evil.example/dialect","type":"object"}`,
			`inputSchema/$schema: "https://evil.example/dialect" is a dialect that is not known here`},
		{"an unknown type", `{"type":"object","properties":{"a":{"type":"strin"}}}`, "inputSchema/properties/a/type: "},
		{"a keyword of the wrong type", `{"type":"object","properties":{"a":{"type":"string","maxLength":"3"}}}`, "inputSchema/properties/a/maxLength"},
		{"a format that is no text", `{"type":"object","properties":{"a":{"type":"string","format":5}}}`, "inputSchema/properties/a/format: it is no text"},
		{"a length beyond integers", `{"type":"object","properties":{"a":{"type":"string","minLength":10000000000000000000}}}`, "inputSchema/properties/a/minLength: it is more than 2^31"},
		{"a pattern beyond RE2", `{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=x)"}}}`, "inputSchema/properties/a/pattern"},
		{"a patternProperties beyond RE2", `{"type":"object","patternProperties":{"(?!x)":{"type":"string"}}}`, "inputSchema: the pattern (?!x) is refused: "},
		{"a huge pattern", `{"type":"object","properties":{"a":{"type":"string","pattern":"` + strings.Repeat("a", 3000) + `"}}}`, "longer than 2048 bytes"},
		{"a pattern that expands", `{"type":"object","properties":{"a":{"type":"string","pattern":"[a-z]{1000}.{1000}x{1000}.{1000}y{1000}"}}}`, "instructions"},
		{"many patterns that expand", `{"type":"object","properties":{"a":{"anyOf":[` +
			strings.TrimSuffix(strings.Repeat(`{"pattern":".{1000}"},`, 80), ",") + `]}}}`, "the patterns of the schema compile to more"},
		{"a property that is no schema", `{"type":"object","properties":{"a":5}}`, "inputSchema/properties/a"},
		{"too many schemas", `{"type":"object","properties":{"a":{"anyOf":[` + objects + `]}}}`, "more than the 2000"},
		{"required that is not declared", `{"type":"object","properties":{},"required":["a"]}`, `inputSchema/required names "a"`},
		{"two $ids alike", `{"type":"object","$defs":{"a":{"$id":"x","type":"string"},"b":{"$id":"x","type":"string"}}}`, "duplicate id"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, faults, _ := contract.New(remote("t", contract.Review{Effect: "read", Opaque: []string{}}), toolList(define(t, "t", tc.schema)))
			if !has(faults, "tools.t", tc.message) {
				t.Errorf("got %v, want %s", faults, tc.message)
			}
		})
	}
}
