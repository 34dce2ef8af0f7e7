package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/policy"
)

// TestRecovery: a policy that can't be read hides no other, and each fault is
// reported once, where it is.
func TestRecovery(t *testing.T) {
	const (
		good   = `@id("good") permit (principal, action == Action::"payments/get_payment", resource);` + "\n"
		typed  = `@id("typed") permit (principal, action == Action::"payments/get_payment", resource) when { context.arguments.x == 1 };` + "\n"
		typeAt = `110: payments/get_payment has no argument ` + "`x`"
		nested = `((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((true))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))`
	)
	tests := []struct{ name, source, want string }{
		{"faults of several kinds", `permit (principal, action == Action::"payments/get_payment", resource) when { context.arguments.x == 1 };` + "\n" + typed +
			`@id("dup") @cod("X") permit (principal, action == Action::"payments/get_paymant", resource);` + "\n" +
			`@id("dup") permit (principal, action == Action::"payments/get_payment", resource) when { context.arguments.payment_id like "x" };` + "\n" +
			`@id("s") permit (principal, action, resource) when { 1 = 2 };` + "\n" +
			`@id("f") forbid (principal, action == Action::"payments/get_payment", resource) when { context.local.hour == 24 };`,
			"1:1: every policy needs an @id\n1:97: payments/get_payment has no argument `x`\n2:" + typeAt + "\n" +
				"3:17: @cod means nothing here\n3:51: no tool has action\n4:5: the id \"dup\" is taken by the policy at p.cedar:3\n" +
				"4:108: `payment_id` may be absent\n5:56: expected `}`, found `=`\n6:1: a forbid needs @code\n6:110: 24 is no hour"},
		{"before others", "@id(\"a\") permit (principal, action, resource) when { 1 = 2 };\n" + typed, "1:56: expected `}`, found `=`\n2:" + typeAt},
		{"after others", typed + "@id(\"a\") permit (principal, action, resource) when { 1 = 2 };\n", "1:" + typeAt + "\n2:56: expected `}`, found `=`"},
		{"two of them", "@id(\"a\") permit (principal, action, resource) when { 1 = 2 };\n" + typed + "@id(\"b\") allow (principal, action, resource);",
			"1:56: expected `}`, found `=`\n2:" + typeAt + "\n3:10: a policy starts with permit or forbid, not with `allow`"},
		{"without its semicolon", strings.ReplaceAll(typed, ";", "") + typed, "1:" + typeAt + "\n2:1: the policy before this `@` lacks its `;`\n2:5: the id \"typed\" is taken\n2:" + typeAt},
		{"without its semicolon, at the end", good + strings.ReplaceAll(typed, ";", ""), "2:" + typeAt + "\n2:118: the text ends where `;` should follow"},
		{"without its semicolon, before a bare policy", strings.ReplaceAll(typed, ";", "") + strings.ReplaceAll(good, `@id("good") `, ""),
			"1:" + typeAt + "\n2:1: every policy needs an @id\n2:1: the policy before this `permit` lacks its `;`"},
		{"without its closing brace", "@id(\"a\") permit (principal, action, resource)\nwhen { true\n" + typed, "3:1: expected `}`, found `@`\n3:" + typeAt},
		{"without a closing bracket", "@id(\"a\") permit (principal, action, resource)\nwhen { (true };\n" + typed, "2:14: expected `)`, found `}`\n3:" + typeAt},
		{"an open string", "@id(\"a\") permit (principal, action, resource)\nwhen { context.purpose == \"x };\n" + typed, "2:27: this string has no end\n3:" + typeAt},
		{"an open string inside", "@id(\"a\") permit (principal, action, resource)\nwhen { context.purpose == \"x\n};\n" + typed, "2:27: this string has no end\n4:" + typeAt},
		{"an open comment", typed + "/* " + typed, "1:" + typeAt + "\n2:1: this comment has no end: close it with */; the rest of this file was not checked"},
		{"an escape", "@id(\"a\") permit (principal, action, resource) when { \"\\q\" == \"\" };\n" + typed, "1:55: \\q is not an escape\n2:" + typeAt},
		{"semicolons in strings and comments", "@id(\"a\") permit (principal, action, resource) when { context.purpose = \"; @id permit (\" /* ; */ };\n// ; permit (\n" + typed,
			"1:70: expected `}`, found `=`\n3:" + typeAt},
		{"words that look like a start", "@id(\"a\") permit (principal, action, resource) when { context.permit(1) && context has forbid };\n" + typed, "1:62: permit is not a method\n2:" + typeAt},
		{"a stray semicolon", good + ";\n" + typed, "2:1: a policy starts with permit or forbid, not with `;`\n3:" + typeAt},
		{"words between", good + "hello;\n" + typed, "2:1: a policy starts with permit or forbid, not with `hello`\n3:" + typeAt},
		{"a byte order mark", "\ufeff" + typed + typed, "1:1: the file starts with a byte order mark: remove it\n1:111: payments/get_payment has no argument `x`\n2:5: the id \"typed\" is taken\n2:" + typeAt},
		{"a policy that is too deep", "@id(\"a\") permit (principal, action, resource) when { " + nested + " };\n" + typed, "1:117: more than 64 brackets\n2:" + typeAt},
		{"the id of one that can't be read", "@id(\"r\") @review(\"1\") forbid (principal, action, resource) when { 1 = 2 };\n" +
			`@id("b") permit (principal, action in Action::"approve", resource) when { context.review == Policy::"r" };`, "1:69: expected `}`, found `=`"},
		{"no text", good + "@id(\"a\") permit (principal, action, resource) when { \"\xff\" == \"\" };", "2:55: this is not valid UTF-8; the rest of this file was not checked"},
		{"an annotation", "@id(a) permit (principal, action, resource);\n" + typed, "1:5: an annotation's value is text in double quotes\n2:" + typeAt},
		{"an annotation without a policy", good + "@id(\"x\")", "2:9: a policy starts with permit or forbid, not with the end of the text"},
	}
	s := testSchema(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, faults := policy.Compile(s, nil, []policy.Source{file("p.cedar", tt.source)})
			compareFaults(t, "p.cedar", faults, tt.want)
			if set != nil {
				t.Error("there is a set")
			}
		})
	}
}

// TestRecoveryEnds: a file of nothing but faults is given up, and says so.
func TestRecoveryEnds(t *testing.T) {
	s := testSchema(t)
	for _, c := range []struct {
		text string
		most int
	}{
		{"permit (;\n", 21}, {";", 21}, {"\"\n", 21}, {"@;", 21}, {"permit (principal, action, resource)\n", 60}, {"permit(", 21}, {"@id(\"a\") permit (principal, action, resource) when { 1 = 2 };\n", 21},
	} {
		start := time.Now()
		set, faults := policy.Compile(s, nil, []policy.Source{file("p.cedar", strings.Repeat(c.text, (1<<18)/len(c.text)))})
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%q: took %v", c.text, took)
		}
		if set != nil || len(faults) == 0 || len(faults) > c.most {
			t.Errorf("%q: %d faults, of at most %d", c.text, len(faults), c.most)
		}
		if last := faults.Error(); !strings.Contains(last, "the rest of this file was not checked") {
			t.Errorf("%q: nothing says that the rest was not checked: %.300s", c.text, last)
		}
	}
}

// TestRead finds the faults of policies without a schema, all of them.
func TestRead(t *testing.T) {
	faults := policy.Read([]policy.Source{file("p.cedar", "permit (principal, action, resource);\n@id(\"a\") permit (principal, action, resource) when { 1 = 2 };\n@id(\"b\") forbid (principal, action, resource);")}, nil)
	compareFaults(t, "p.cedar", faults, "1:1: every policy needs an @id\n2:56: expected `}`, found `=`\n3:1: a forbid needs @code")
}

func ExampleRead() {
	fmt.Println(policy.Read([]policy.Source{{File: "p.cedar", Text: []byte("permit (principal, action, resource)\nwhen { 1 = 2 };\n@id(\"b\") forbid (principal, action, resource);\n")}}, nil))
	// Output:
	// p.cedar:2:10: expected `}`, found `=`: write == to compare
	// p.cedar:3:1: a forbid needs @code("NAME_OF_THE_DENIAL"), or @review("1") if people can lift it
}
