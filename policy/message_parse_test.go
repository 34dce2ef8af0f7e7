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
		{"no semicolon at the end", "@id(\"a\") permit (principal, action, resource) ", "1:46: the text ends where `;` should follow"},
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
		{"a byte order mark", "\ufeff@id(\"a\") permit (principal, action, resource);", "1:1: the file starts with a byte order mark: remove it"},
		{"a second byte order mark", "@id(\"a\") permit (principal, action, resource);\n\ufeff@id(\"b\") permit (principal, action, resource);",
			"2:1: a policy starts with permit or forbid, not with the invisible character U+FEFF: remove it"},
		{"an invisible space", "@id(\"a\")\u00a0permit (principal, action, resource);", "1:9: a policy starts with permit or forbid, not with the invisible character U+00A0: remove it"},
		{"a fraction", "@id(\"a\") permit (principal, action, resource)\nwhen { context.x > 16.0 };",
			"2:20: fractions are written decimal(\"16.0\"), and compared by a method: `….greaterThan(decimal(\"16.0\"))`"},
		{"a fraction as a decimal", "@id(\"a\") permit (principal, action, resource)\nwhen { context.x == decimal(16.0) };",
			"2:29: fractions are written decimal(\"16.0\")"},
		{"a fraction on the left", "@id(\"a\") permit (principal, action, resource)\nwhen { 2 - 1.25 == context.x };", "2:12: fractions are written decimal(\"1.25\")"},
		{"a negative fraction", "@id(\"a\") permit (principal, action, resource)\nwhen { context.x.lessThan(-0.5) };", "2:27: fractions are written decimal(\"-0.5\")"},
		{"a fraction without its zero", "@id(\"a\") permit (principal, action, resource)\nwhen { context.x == .5 };", "2:21: fractions are written decimal(\"0.5\")"},
		{"a long fraction", "@id(\"a\") permit (principal, action, resource)\nwhen { context.x == 0.12345 };", "2:21: fractions are written like decimal(\"16.25\"), with 1–4 digits after the point"},
		{"no fraction", "@id(\"a\") permit (principal, action, resource)\nwhen { context.x.5 == 1 };", "2:18: expected a name, found `5`"},
		{"text for a principal", "@id(\"a\") permit (principal in \"clerks\", action, resource);", "1:31: expected a name, found `\"clerks\"`: an entity is written with its type, as in Group::\"clerks\""},
		{"text for one principal", "@id(\"a\") permit (principal == \"ann\", action, resource);", "1:31: an entity is written with its type, as in User::\"ann\""},
		{"text for an action", "@id(\"a\") permit (principal, action in [\"read\"], resource);", "1:40: expected a name, found `\"read\"`: an entity is written with its type, as in Action::\"read\""},
		{"text for a path", "@id(\"a\") permit (principal, action, resource in \"/srv\");", "1:49: an entity is written with its type, as in Path::\"/srv\""},
		{"text for a resource", "@id(\"a\") permit (principal, action, resource == \"x\");", "1:49: an entity is written with its type, as in Path::\"/srv/work\" or Repository::\"acme/site\""},
		{"a list of principals", "@id(\"a\") permit (principal in [User::\"a\"], action, resource);", "1:31: expected a name, found `[`: only `action in` takes a list. Write `principal` alone here, and `when { principal in [ … ] }`"},
		{"a condition in the scope", "@id(\"a\") permit (principal.tenant == \"x\", action, resource);", "1:27: expected `,`, found `.`: a scope compares the whole principal, action or resource; anything else stands in `when { … }`"},
		{"a condition behind the scope", "@id(\"a\") permit (principal, action, resource && true);", "1:46: expected `)`, found `&&`: a scope compares"},
		{"a condition without braces", "@id(\"a\") permit (principal, action, resource) when context.x;", "1:52: expected `{`, found `context`: a condition stands in braces, as in `when { … }`"},
		{"if", "@id(\"a\") permit (principal, action, resource) if { true };", "1:47: expected `;`, found `if`: conditions start with when or unless"},
		{"joined conditions", "@id(\"a\") permit (principal, action, resource) when { true } && { true };", "1:61: expected `;`, found `&&`: several conditions are written one after the other"},
		{"a method of other languages", "@id(\"a\") permit (principal, action, resource)\nwhen { context.s.endsWith(\".pdf\") };", "2:18: endsWith is not a method: write `like \"*end\"`"},
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
		{"no semicolon", "entity A\nentity B;", "1:9: expected ';', found \"entity\""},
		{"the end", "entity A", "1:9: expected ';', the file ends"},
		{"a word", "entitiy A;", "1:1: expected declaration (entity, action, or type), found \"entitiy\""},
		{"a byte order mark", "\ufeffentity A;", "1:1: the file starts with a byte order mark: remove it"},
		{"an open string", "entity A enum [\"x];", "1:16: unterminated string literal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, faults := policy.NewSchema(policy.Types{Schema: file("schema.cedarschema", tt.source)})
			compareFaults(t, "schema.cedarschema", faults, tt.want)
		})
	}
}
