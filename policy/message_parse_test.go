package policy_test

import (
	"testing"

	"github.com/writ-pdp/writ/policy"
)

// TestParseMessages holds what an author reads about a policy that can't be
// parsed to what is wrong with it, and where.
func TestParseMessages(t *testing.T) {
	tests := []struct {
		name, source, want string
	}{
		{"no semicolon", "@id(\"a\") permit (principal, action, resource)\n\n@id(\"b\") permit (principal, action, resource);",
			"3:1: the policy before this `@` lacks its `;`"},
		{"no semicolon at the end", "permit (principal, action, resource) ", "1:37: the text ends where `;` should follow"},
		{"an unclosed condition", "permit (principal, action, resource)\nwhen { true;", "2:12: expected `}`, found `;`"},
		{"an unclosed bracket", "permit (principal, action, resource)\nwhen { (true };", "2:14: expected `)`, found `}`"},
		{"an unclosed set", "permit (principal, action, resource)\nwhen { [1", "2:10: the text ends inside brackets"},
		{"single equals", "permit (principal, action, resource)\nwhen { resource.status = \"a\" };", "2:24: expected `}`, found `=`: write == to compare"},
		{"and", "permit (principal, action, resource)\nwhen { true and false };", "2:13: expected `}`, found `and`: write &&"},
		{"or", "permit (principal, action, resource)\nwhen { true or false };", "2:13: expected `}`, found `or`: write ||"},
		{"not", "permit (principal, action, resource)\nwhen { not true };", "2:8: `not` is not a variable"},
		{"single quotes", "permit (principal, action, resource)\nwhen { context.a == 'x' };", "2:21: expected a value before `'`: text stands in double quotes"},
		{"division", "permit (principal, action, resource)\nwhen { 4 / 2 == 2 };", "2:10: expected `}`, found `/`: Cedar doesn't divide"},
		{"chained comparisons", "permit (principal, action, resource)\nwhen { 1 < 2 < 3 };", "2:14: comparisons don't chain: put `&&` between two of them, or brackets around one, before this `<`"},
		{"an effect", "allow (principal, action, resource);", "1:1: a policy starts with permit or forbid, not with `allow`"},
		{"a misspelt effect", "permt (principal, action, resource);", "1:1: a policy starts with permit or forbid, not with `permt`; did you mean permit?"},
		{"a scope in the wrong order", "permit (principal, resource, action);", "1:20: the scope is (principal, action, resource): expected action, found `resource`"},
		{"a scope without a part", "permit (principal, action);", "1:26: expected `,`, found `)`"},
		{"a variable", "permit (principal, action, resource)\nwhen { arguments.amount > 5 };", "2:8: `arguments` is not a variable: write context.arguments"},
		{"a misspelt variable", "permit (principal, action, resource)\nwhen { contxt.now };", "2:8: `contxt` is not a variable; did you mean context?"},
		{"bare text", "permit (principal, action, resource)\nwhen { context.purpose == pay };", "2:27: `pay` is not a variable: there are principal, action, resource and context, and text stands in double quotes"},
		{"an empty condition", "permit (principal, action, resource)\nwhen { };", "2:8: expected a value before `}`"},
		{"a missing operand", "permit (principal, action, resource)\nwhen { true && };", "2:16: expected a value before `}`"},
		{"a reserved attribute", "permit (principal, action, resource)\nwhen { context.in };", "2:16: expected a name, found `in`, which Cedar reserves: write [\"in\"]"},
		{"a function", "permit (principal, action, resource)\nwhen { decimals(\"1.0\") == context.x };", "2:8: decimals is not a function; did you mean decimal?"},
		{"a method as function", "permit (principal, action, resource)\nwhen { lessThan(1, 2) };", "2:8: lessThan is a method: write value.lessThan(…)"},
		{"a method", "permit (principal, action, resource)\nwhen { context.s.contain(1) };", "2:18: contain is not a method; did you mean contains?"},
		{"arguments of a method", "permit (principal, action, resource)\nwhen { context.s.contains(1, 2) };", "2:18: contains takes one argument"},
		{"like an expression", "permit (principal, action, resource)\nwhen { context.s like context.t };", "2:23: `like` takes a pattern in double quotes, not an expression"},
		{"has an expression", "permit (principal, action, resource)\nwhen { context has (a) };", "2:20: expected a name, found `(`"},
		{"an index", "permit (principal, action, resource)\nwhen { context[1] };", "2:16: an index is a name in double quotes, not `1`"},
		{"an entity", "permit (principal == User::ann, action, resource);", "1:31: expected `::`, found `,`"},
		{"an entity without an id", "permit (principal == User::, action, resource);", "1:28: `::` is followed by a name, or by an id in double quotes, not by `,`"},
		{"an annotation twice", "@id(\"a\")\n@id(\"b\")\npermit (principal, action, resource);", "2:2: the annotation @id stands here for the second time"},
		{"an annotation without quotes", "@id(a) permit (principal, action, resource);", "1:5: an annotation's value is text in double quotes: @id(\"name\")"},
		{"a key twice", "permit (principal, action, resource)\nwhen { {a: 1, b: 2, a: 3} == context };", "2:21: the record has a twice"},
		{"a long number", "permit (principal, action, resource)\nwhen { 1 < 9223372036854775808 };", "2:12: the number 9223372036854775808 is beyond the range of a Long"},
		{"the least number", "permit (principal, action, resource)\nwhen { 1 < -9223372036854775809 };", "2:13: the number -9223372036854775809 is beyond the range of a Long"},
		{"an escape", "permit (principal, action, resource)\nwhen { context.s == \"a\\qb\" };", "2:23: \\q is not an escape"},
		{"a star outside a pattern", "permit (principal, action, resource)\nwhen { context.s == \"a\\*b\" };", "2:23: \\* is not an escape"},
		{"an open string", "permit (principal, action, resource)\nwhen { context.s == \"a };\n", "2:21: this string has no end"},
		{"an open comment", "/* permit (principal, action, resource);", "1:1: this comment has no end"},
		{"a byte order mark", "\ufeffpermit (principal, action, resource);", "1:1: the file starts with a byte order mark: save it without"},
		{"characters before the place", "permit (principal, action, resource)\nwhen { \"äöü🙂\" = 1 };", "2:15: expected `}`, found `=`"},
	}
	s := testSchema(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, faults := policy.Compile(s, nil, []policy.Source{file("p.cedar", tt.source)})
			compareFaults(t, "p.cedar", faults, tt.want)
		})
	}
}

// TestSchemaParseMessages does the same for schemas.
func TestSchemaParseMessages(t *testing.T) {
	tests := []struct {
		name, source, want string
	}{
		{"no semicolon", "entity A\nentity B;", "2:1: expected ';', found \"entity\""},
		{"the end", "entity A", "1:9: expected ';', the file ends"},
		{"a word", "entitiy A;", "1:1: expected declaration (entity, action, or type), found \"entitiy\""},
		{"a byte order mark", "\ufeffentity A;", "1:1: the file starts with a byte order mark: save it without"},
		{"an open string", "entity A enum [\"x];", "1:16: unterminated string literal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, faults := policy.NewSchema(policy.Types{Schema: file("schema.cedarschema", tt.source)})
			compareFaults(t, "schema.cedarschema", faults, tt.want)
		})
	}
}
