package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	cedarschema "github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

func when(condition string) string {
	return "permit (principal, action, resource) when { " + condition + " };"
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

// numbered returns f(0) … f(n-1), joined.
func numbered(n int, separator string, f func(int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, separator)
}

// TestLimits holds checkLimits to both sides of each limit. The condition
// starts at column 45 of its line.
func TestLimits(t *testing.T) {
	const start = 45
	tests := []struct {
		name   string
		source string
		want   string // place and words; empty: within limits
	}{
		{"parens in", when(repeat("(", 62) + "true" + repeat(")", 62)), ""},
		// The condition's own brace counts: 63 of 64 are left.
		{"parens out", when(repeat("(", 64) + "true" + repeat(")", 64)), fmt.Sprintf("1:%d: more than 64 brackets", start+63)},
		{"parens by the thousand", when(repeat("(", 30000) + "true" + repeat(")", 30000)), fmt.Sprintf("1:%d: more than 64 brackets", start+63)},
		{"sets", when(repeat("[", 70) + "1" + repeat("]", 70) + " == 1"), "more than 64 brackets"},
		{"records", when(repeat("{a:", 70) + "1" + repeat("}", 70) + " == 1"), "more than 64 brackets"},
		{"signs in", when(repeat("!", 63) + "true"), ""},
		{"signs out", when(repeat("!", 64) + "true"), fmt.Sprintf("1:%d: more than 64 brackets", start+63)},
		{"minus", when(repeat("-", 70) + "1 == 1"), "more than 64 brackets"},
		{"minus between operands is no sign", when("1" + repeat(" - 1", 200) + " == 1"), ""},
		{"signs across brackets", when(repeat("!(", 40) + "true" + repeat(")", 40)), "more than 64 brackets"},
		{"signs start anew", when(repeat("!true && ", 100) + "true"), ""},
		{"members in", when("context" + repeat(".a", 12)), ""},
		{"members out", when("context" + repeat(".a", 13)), fmt.Sprintf("1:%d: a chain of more than 12 members", start+len("context")+2*12)},
		{"members in arguments", when("context" + repeat(".a", 6) + ".contains(context" + repeat(".a", 11) + ").b.c"), "a chain of more than 12 members"},
		{"indices", when("context" + repeat(`["a"]`, 17)), "a chain of more than 12 members"},
		{"members across brackets", when("(((context" + repeat(".a", 6) + ")" + repeat(".a", 6) + ")" + repeat(".a", 6) + ")"), "a chain of more than 12 members"},
		{"members across if", when("(if true == true then context" + repeat(".a", 9) + " else context)" + repeat(".a", 9)), "a chain of more than 12 members"},
		{"methods", when("context" + repeat(".contains(1)", 17)), "a chain of more than 12 members"},
		{"many short chains", when(numbered(200, " && ", func(int) string { return "context.arguments.invoice.supplier.limit" })), ""},
		{"many long chains", when(numbered(33, " && ", func(int) string { return "context" + repeat(".a", 12) })), "too many long chains"},
		{"has in", when("context has a" + repeat(".a", 11)), ""},
		{"has out", when("context has a" + repeat(".a", 12)), "a chain of more than 12 members"},
		{"has inside has", when(repeat("(", 4) + "context" + repeat(" has a.b.c)", 4)), "`has` with several members, inside others"},
		{"64 guards", when(numbered(64, " && ", func(i int) string { return fmt.Sprintf("context has a%d", i) })), ""},
		{"65 guards", when(numbered(65, " && ", func(i int) string { return fmt.Sprintf("context has a%d", i) })), "more than 64 `has`"},
		{"guards of many members", when(numbered(22, " && ", func(i int) string { return "context has a.b.c" })), "more than 64 `has`"},
		{"tags", when(numbered(65, " && ", func(i int) string { return fmt.Sprintf("resource.hasTag(\"%d\")", i) })), "more than 64 `has`"},
		{"256 operators", when("true" + repeat(" && true", 256)), ""},
		{"257 operators", when("true" + repeat(" && true", 257)), fmt.Sprintf("1:%d: more than 256 operators in a row", start+5+256*8)},
		{"sums", when("1" + repeat("+1", 257) + " == 1"), "more than 256 operators in a row"},
		{"products", when("1" + repeat("*1", 257) + " == 1"), "more than 256 operators in a row"},
		{"operators in all", when(numbered(6, " && ", func(int) string { return "(true" + repeat(" || true", 200) + ")" })), "more than 1024 operators in one policy"},
		{"if ladder in", when(repeat("if principal == resource then true else ", 60) + "true"), ""},
		{"if ladder out", when(repeat("if principal == resource then true else ", 64) + "true"), "more than 64 brackets"},
		{"if in if", when(repeat("if ", 64) + "principal == resource" + repeat(" then true else true", 64)), "more than 64 brackets"},
		{"ifs side by side", when("[" + numbered(100, ", ", func(int) string { return "if principal == resource then 1 else 2" }) + "].contains(1)"), ""},
		{"constant if", when(`resource.getTag(if ((true)) then "a" else "b") == "c"`), "1:61: this `if` always takes the same branch"},
		{"constant comparison in if", when(`if true == false then true else false`), ""},
		{"is in, three inside another", when(repeat("(", 4) + "principal" + repeat(` is User in Group::"a")`, 4)), ""},
		{"is in, four inside another", when(repeat("(", 5) + "principal" + repeat(` is User in Group::"a")`, 5)), "`is … in` inside more than 3 others"},
		{"is in, side by side", when(numbered(40, " && ", func(int) string { return `(principal is User in Group::"a")` })), ""},
		{"64 conditions", "permit (principal, action, resource)" + repeat(" when {true}", 64) + ";", ""},
		{"65 conditions", "permit (principal, action, resource)" + repeat(" when {true}", 65) + ";", "more than 64 conditions"},
		{"256 actions", "permit (principal, action in [" + numbered(256, ", ", func(i int) string { return fmt.Sprintf(`Action::"%d"`, i) }) + "], resource);", ""},
		{"257 actions", "permit (principal, action in [" + numbered(257, ", ", func(i int) string { return fmt.Sprintf(`Action::"%d"`, i) }) + "], resource);", "more than 256 actions in one list"},
		{"a large set", when("[" + numbered(5000, ",", func(i int) string { return fmt.Sprintf("%d", i) }) + "].contains(1)"), ""},
		{"256 sets in a set", when("[" + numbered(256, ",", func(int) string { return "[1]" }) + "].contains([1])"), ""},
		{"257 sets in a set", when("[" + numbered(257, ",", func(int) string { return "{a: [1]}" }) + "].contains({a: [1]})"), "more than 256 sets inside sets"},
		{"sets side by side", when(numbered(200, " && ", func(int) string { return "[1].contains(1)" })), ""},
		{"long names", when("principal is A" + repeat("::A", 65)), "a name of more than 64 parts"},
		{"64 KiB", "permit (principal, action, resource) when { \"" + repeat("x", 64<<10-49) + "\" };", ""},
		{"64 KiB and 1", "permit (principal, action, resource) when { \"" + repeat("x", 64<<10-48) + "\" };", "goes on for more than 65536 bytes"},
		{"many policies", repeat(when("true"), 10000), ""},
		{"policies are measured one by one", repeat(when("context"+repeat(".a", 12)), 100), ""},
		{"a megabyte", "//" + repeat("x", 1<<20-2), ""},
		{"a megabyte and 1", "//" + repeat("x", 1<<20-1), "the file has 1048577 bytes"},
		{"brackets in strings", when(`"` + repeat("(", 1000) + `" like "` + repeat(`\"[`, 1000) + `"`), ""},
		{"brackets in comments", "// " + repeat("(", 1000) + "\n/* " + repeat("((\n", 1000) + "*/" + when("true"), ""},
		{"brackets after a comment", "// \"\n" + when(repeat("(", 64)), fmt.Sprintf("2:%d: more than 64", start+63)},
		{"columns count characters", when(`"äöü🙂" == ` + repeat("(", 64)), fmt.Sprintf("1:%d: more than 64", start+len(`"1234" == `)+63)},
		{"not UTF-8", "permit (\n principal \xff", "2:12: this is not valid UTF-8"},
		{"NUL", "// a\x00", "1:5: a NUL character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := checkLimits(Source{File: "p.cedar", Text: []byte(tt.source)})
			switch {
			case f == nil && tt.want != "":
				t.Fatalf("accepted, want %q", tt.want)
			case f != nil && (tt.want == "" || !strings.Contains(f.Error(), tt.want)):
				t.Fatalf("got %s, want %q", f, tt.want)
			}
		})
	}
}

func TestSchemaLimits(t *testing.T) {
	chain := func(n int) string {
		return "entity T0;" + numbered(n-1, "", func(i int) string { return fmt.Sprintf("entity T%d in T%d;", i+1, i) })
	}
	tests := []struct {
		name, source, want string
	}{
		{"sets in", "entity A = {a: " + repeat("Set<", 63) + "Long" + repeat(">", 63) + "};", ""},
		{"sets out", "entity A = {a: " + repeat("Set<", 64) + "Long" + repeat(">", 64) + "};", "1:271: more than 64 brackets"},
		{"a hundred kilobytes of sets", "entity A = {a: " + repeat("Set<", 25000), "more than 64 brackets"},
		{"records", "entity A = " + repeat("{a:", 65) + "Long" + repeat("}", 65) + ";", "more than 64 brackets"},
		{"records side by side", numbered(100, "", func(i int) string { return fmt.Sprintf("entity A%d = {a: {b: Set<Long>}};", i) }), ""},
		{"brackets in strings", `entity A enum ["` + repeat("{", 100) + `"];`, ""},
		{"long names", "entity A in A" + repeat("::A", 65) + ";", "a name of as many parts"},
		{"256 types", chain(256), ""},
		{"257 types", chain(257), "257 entity types, and 256 are allowed"},
		{"parents", "entity A;" + numbered(200, "", func(i int) string { return fmt.Sprintf("entity B%d in [A,A,A,A,A,A];", i) }), "`in` 1200 others"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := checkLimits(Source{File: "schema.cedarschema", Text: []byte(tt.source)})
			switch {
			case f == nil && tt.want != "":
				t.Fatalf("accepted, want %q", tt.want)
			case f != nil && (tt.want == "" || !strings.Contains(f.Error(), tt.want)):
				t.Fatalf("got %s, want %q", f, tt.want)
			}
		})
	}
}

// hostile are texts with which cedar-go overflows its stack, or for which it
// needs exponential or cubic time or memory, when nothing stops them.
var hostile = []string{
	when(repeat("(", 30000) + "true" + repeat(")", 30000)),
	when(repeat("[", 64) + "1" + repeat("]", 64) + " == 1"),
	when(repeat("!", 60000) + "true"),
	when(repeat("-", 60000) + "1 == 1"),
	when("context" + repeat(".a", 30000)),
	when("principal" + repeat(".a", 12) + " == 1"),
	when(numbered(30, " && ", func(int) string { return "context" + repeat(".a", 12) + " == 1" })),
	when("resource.getTag([" + repeat("1,", 20000) + "])" + repeat(".a", 11) + " == 1"),
	when(repeat("resource.getTag(", 30) + `"a"` + repeat(").a.a.a", 30) + " == 1"),
	when("context" + repeat(`["a"]`, 10000)),
	when("true" + repeat("&&true", 10000)),
	when("1" + repeat("+1", 30000) + " == 1"),
	when("context has a" + repeat(".a", 30000)),
	when(repeat("(", 60) + "context" + repeat(" has a.b)", 60)),
	when(numbered(2000, "&&", func(i int) string { return fmt.Sprintf("{a%d:1} has a%d", i, i) })),
	when(numbered(64, "&&", func(i int) string { return fmt.Sprintf("{a%d:1} has a%d", i, i) })),
	when(repeat("(", 20) + "principal.zz" + repeat(` is User in R::"x").zz`, 20)),
	when(repeat("(", 4) + "principal.zz" + repeat(` is User in R::"x").zz`, 4)),
	when(`resource.getTag(` + repeat(`if false then "a" else `, 40) + `"b") == "x"`),
	when(`resource.getTag(` + repeat(`if principal == principal then "a" else `, 40) + `"b") == "x"`),
	when(repeat("if principal == principal then true else ", 60) + "true"),
	"permit (principal, action, resource)" + repeat(" when {true}", 5000) + ";",
	when("[" + numbered(4000, ",", func(i int) string { return fmt.Sprintf("[%d,%d]", i, 8000-i) }) + "].contains([1])"),
	when(numbered(300, "||", func(int) string { return "(context==1)" })),
	when("principal is A" + repeat("::A", 20000)),
	`@id("x") @code("y") ` + when(`context.arguments has "a b" && context["a b"] like "*\*" || -9223372036854775808 < - -1`),
	when(`principal is User in R::"x" && if action in [Action::"x"] then {a: 1}.a == 1 else ip("::1").isLoopback()`),
	"/* \" */ permit (principal is User in R::\"\\\"\", action in [Action::\"x\",], resource == R::\"\\u{41}\") unless { [] == [1,] };",
}

var hostileSchema = `
entity User = {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: Long}}}}}}}}}}}}}}}};
entity R tags {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: String}}}}}}}}}}};
action x appliesTo {principal: User, resource: R, context: {
	a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: {a?: Long}}}}}}}}}}}}}}}
}};`

// TestHostile runs everything that checkLimits lets through.
func TestHostile(t *testing.T) {
	for _, text := range hostile {
		digest(t, []byte(text))
	}
}

// digest takes a policy file through everything that cedar-go does with it,
// if checkLimits lets it, and fails if that takes long.
func digest(t *testing.T, text []byte) {
	t.Helper()
	src := Source{File: "p.cedar", Text: text}
	if checkLimits(src) != nil {
		return
	}
	begin := time.Now()
	parsed, err := cedar.NewPolicyListFromBytes("p.cedar", text)
	if err != nil {
		if f := parseFault(src, err); f.Message == "" || f.File == "" {
			t.Fatalf("%q: no message for %q", text, err)
		}
		return
	}
	var s cedarschema.Schema
	if err := s.UnmarshalCedar([]byte(hostileSchema)); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	validator := validate.New(resolved)
	for i, p := range parsed {
		tree := (*ast.Policy)(p.AST())
		if err := validator.Policy("", tree); err != nil {
			if size := len(err.Error()); size > 16<<20 {
				t.Errorf("the validator says %d bytes about %q", size, clip(text))
			}
		}
		_ = p.MarshalCedar()
		_, _ = cedar.Authorize(cedar.PolicyMap{"p": p}, types.EntityMap{}, types.Request{})
		start, end := p.Position().Offset, len(text)
		if i+1 < len(parsed) {
			end = parsed[i+1].Position().Offset
		}
		if l := locate(tree, src, text[start:end], start); !l.exact {
			t.Errorf("can't locate the parts of %q", clip(text[start:end]))
		} else {
			checkPlaces(t, l, text[start:end])
		}
	}
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("%v for %q", d, clip(text))
	}
}

func clip(text []byte) []byte { return text[:min(len(text), 200)] }

// checkPlaces checks that each variable, member and operator is where it is
// said to be.
func checkPlaces(t *testing.T, l *located, text []byte) {
	t.Helper()
	var visit func(e *expr)
	visit = func(e *expr) {
		want := []string{""}
		switch n := e.node.(type) {
		case ast.NodeTypeVariable:
			want = []string{string(n.Name)}
		case ast.NodeTypeAccess:
			want = []string{string(n.Value), `"`}
		case ast.NodeTypeHas:
			want = []string{string(n.Value), `"`}
		case ast.NodeTypeAnd:
			want = []string{"&&", ""} // or a member of has a.b
		case ast.NodeTypeOr:
			want = []string{"||"}
		case ast.NodeTypeLike:
			want = []string{"like"}
		case ast.NodeTypeSet:
			want = []string{"["}
		case ast.NodeTypeRecord:
			want = []string{"{"}
		}
		here := string(text[e.at:])
		if !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(here, w) }) {
			t.Errorf("%T %q is said to be at %q", e.node, want, clip([]byte(here)))
		}
		for _, arg := range e.args {
			visit(arg)
		}
	}
	for _, c := range l.conditions {
		visit(c.body)
	}
}

// FuzzLimits feeds cedar-go whatever checkLimits accepts: nothing of it may
// overflow the stack, hang, or be impossible to locate.
func FuzzLimits(f *testing.F) {
	for _, text := range hostile {
		if len(text) < 2<<10 { // mutating longer ones gets nowhere
			f.Add([]byte(text))
		}
	}
	f.Fuzz(digest)
}

// FuzzSchemaLimits does the same for schemas.
func FuzzSchemaLimits(f *testing.F) {
	f.Add([]byte(hostileSchema))
	f.Add([]byte("entity A = {a: " + repeat("Set<", 63) + "Long" + repeat(">", 63) + "};"))
	f.Add([]byte("type T = Set<U>; type U = {a: Long, \"b c\"?: Bool}; @doc(\"x\") entity A, B in [C, A] = {t: T} tags U; entity C enum [\"x\"];"))
	f.Add([]byte("// \"\n/* { */ entity A tags Set<__cedar::String>; namespace N { entity A in N::A; }"))
	f.Fuzz(func(t *testing.T, text []byte) {
		src := Source{File: "schema.cedarschema", Text: text}
		begin := time.Now()
		own, faults := parseOwnTypes(src)
		for _, fault := range faults {
			if fault.Message == "" || fault.File == "" {
				t.Errorf("%q: %v", text, fault)
			}
		}
		if len(faults) == 0 {
			s := cedarschema.NewSchemaFromAST(own)
			if _, err := s.Resolve(); err != nil {
				t.Errorf("%q: accepted, but %v", text, err)
			}
			if _, err := s.MarshalCedar(); err != nil {
				t.Errorf("%q: accepted, but %v", text, err)
			}
		}
		if d := time.Since(begin); d > time.Minute {
			t.Errorf("%v for %q", d, clip(text))
		}
	})
}
