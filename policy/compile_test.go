package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/policy"
)

const payPolicies = `// Who
@id("clerks-pay")
@explain("Clerks pay.")
permit (principal in Group::"ap-clerks", action == Action::"payments/create_payment", resource);

// To whom
@id("active-suppliers")
@code("RECIPIENT_DENIED")
@explain("The supplier is not active.")
forbid (principal, action == Action::"payments/create_payment", resource)
unless { resource.status == "active" };

/* How much */ @id("above-500") @review("1")
forbid (principal, action == Action::"payments/create_payment", resource)
when { context.arguments.amount_gbp.greaterThan(decimal("500.00")) }; // trailing
`

func TestCompile(t *testing.T) {
	s := testSchema(t)
	set, faults := policy.Compile(s, held{types.NewEntityUID("Group", "ap-clerks"): true, types.NewEntityUID("Group", "g"): true}, []policy.Source{
		file("policies/b.cedar", payPolicies),
		file("policies/a.cedar", `@id("me") permit (principal in Group::"g", action in Action::"github:read", resource);`),
		file("policies/none.cedar", "// nothing yet\n"),
	})
	if len(faults.Errors()) > 0 {
		t.Fatal(faults)
	}
	type summary struct {
		ID, File string
		Line     int
		Code     writ.Code
		Review   int
		Explain  string
		Forbid   bool
	}
	var got []summary
	for _, p := range set.Policies() {
		got = append(got, summary{p.ID, p.File, p.Line, p.Code, p.Review, p.Explain, p.Effect == types.Forbid})
		if set.Policy(p.ID) != p {
			t.Errorf("Policy(%q) is another", p.ID)
		}
		if text := string(p.Text); !strings.HasPrefix(text, "@id(\""+p.ID) || !strings.HasSuffix(text, ";") {
			t.Errorf("the text of %s is %q", p.ID, text)
		}
	}
	want := []summary{
		{ID: "me", File: "policies/a.cedar", Line: 1},
		{ID: "clerks-pay", File: "policies/b.cedar", Line: 2, Explain: "Clerks pay."},
		{ID: "active-suppliers", File: "policies/b.cedar", Line: 7, Code: "RECIPIENT_DENIED", Explain: "The supplier is not active.", Forbid: true},
		{ID: "above-500", File: "policies/b.cedar", Line: 13, Review: 1, Forbid: true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if set.Len() != 4 || set.Policy("none") != nil {
		t.Errorf("Len is %d, Policy(none) is %v", set.Len(), set.Policy("none"))
	}
}

// held is a bundle's entities.
type held map[types.EntityUID]bool

func (h held) Has(uid types.EntityUID) bool { return h[uid] }

func (h held) IDs(t types.EntityType) []string {
	var ids []string
	for uid := range h {
		if uid.Type == t {
			ids = append(ids, string(uid.ID))
		}
	}
	slices.Sort(ids)
	return ids
}

// TestCompileFaults checks annotations and action scopes. Validation and
// lints have tests of their own.
func TestCompileFaults(t *testing.T) {
	const permit, forbid = "permit (principal, action, resource);", "forbid (principal, action, resource);"
	long := strings.Repeat("x", 129)
	for _, c := range []struct{ text, want string }{
		{permit, `p.cedar:1:1: every policy needs an @id`},
		{`@id("") ` + permit, `p.cedar:1:5: id "": an id is 1 to 128`},
		{`@id ` + permit, `p.cedar:1:2: id "": an id is 1 to 128`},
		{`@id("a b") ` + permit, `p.cedar:1:5: id "a b": an id is`},
		{`@id("` + long + `") ` + permit, `p.cedar:1:5: id "` + long},
		{`@id("é") ` + permit, `p.cedar:1:5: id "é"`},
		{`@id("a") ` + permit + "\n\n@id(\"a\") " + permit, `p.cedar:3:5: the id "a" is taken by the policy at p.cedar:1`},
		{`@id("a") @explian("x") ` + permit, `p.cedar:1:19: @explian means nothing here; did you mean @explain?`},
		{`@id("a") @severity("x") ` + permit, `p.cedar:1:20: @severity means nothing here: the annotations are`},
		{`@id("a") @id("b") ` + permit, `p.cedar:1:`},
		{`@id("a") @code("DENIED_HERE") ` + permit, `p.cedar:1:16: @code belongs to a forbid`},
		{`@id("a") @review("1") ` + permit, `p.cedar:1:18: @review belongs to a forbid`},
		{`@id("a") @absent("allowed") ` + permit, `p.cedar:1:18: @absent belongs to a forbid`},
		{`@id("a") ` + forbid, `p.cedar:1:1: a forbid needs @code`},
		{`@id("a") @code("X_Y") @review("1") ` + forbid, `p.cedar:1:31: a forbid has either @code or @review`},
		{`@id("a") @code("NO_PERMIT") ` + forbid, `p.cedar:1:16: NO_PERMIT is Writ's own code`},
		{`@id("a") @code("GRANT_INVALID") ` + forbid, `p.cedar:1:16: GRANT_INVALID is Writ's own code`},
		{`@id("a") @code("lower") ` + forbid, `p.cedar:1:16: code "lower": a code is`},
		{`@id("a") @code ` + forbid, `p.cedar:1:11: code ""`},
		{`@id("a") @review("0") ` + forbid, `p.cedar:1:18: @review says how many`},
		{`@id("a") @review("10") ` + forbid, `p.cedar:1:18: @review says how many`},
		{`@id("a") @review("two") ` + forbid, `p.cedar:1:18: @review says how many`},
		{`@id("a") @code("X_Y") @absent("fine") ` + forbid, `p.cedar:1:31: @absent has one value`},

		{`@id("a") permit (principal == ?principal, action, resource);`, `p.cedar:1:`},
		{`@id("a") permit (principal, action, resource in ?resource);`, `p.cedar:1:`},
		{`@id("a") permit (principal, action, resource) when { ;`, `p.cedar:1:`},
		{strings.Repeat("(", 100000), `p.cedar:`},
		{"@id(\"a\")\npermit (principal, action == Action::\"payments/create_paymet\", resource);",
			`p.cedar:2:30: no tool has action Action::"payments/create_paymet"; did you mean Action::"payments/create_payment"?`},
		{`@id("a") permit (principal, action in [Action::"payments", Action::"pdp:decide"], resource);`,
			"p.cedar:1:40: Action::\"payments\" is no method of the PDP: a policy is about what callers do at the PDP, or about calls of tools; write two\n" +
				`p.cedar:1:60: the PDP has no method "decide"; did you mean Action::"pdp:Decide"?`},
		{`@id("a") permit (principal, action in Action::"paymnts", resource);`, `did you mean Action::"payments"?`},
		{`@id("a") permit (principal, action == Action::"write", resource);`,
			`p.cedar:1:39: Action::"write" is a group of actions, which no call is itself: write ` + "`action in Action::\"write\"`"},
		{`@id("a") permit (principal, action == Action::"github/label_write", resource);`, `write ` + "`action in Action::\"github/label_write\"`"},
		{`@id("a") permit (principal, action in [], resource);`, `p.cedar:1:29: the list of actions is empty`},
		{`@id("a") permit (principal, action == User::"x", resource);`, `p.cedar:1:39: no tool has action User::"x"`},
	} {
		set, faults := policy.Compile(testSchema(t), nil, []policy.Source{file("p.cedar", c.text)})
		got := strings.Join(lines(faults.Errors()), "\n")
		if set != nil || !strings.Contains(got, c.want) {
			t.Errorf("%.200s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
	_, faults := policy.Compile(testSchema(t), nil, []policy.Source{file("p.cedar", ""), file("p.cedar", "")})
	if got := strings.Join(lines(faults), "\n"); got != "p.cedar: the file is there twice" {
		t.Errorf("got %s", got)
	}
}

// TestCompileInactive: a policy whose groups cover no tool stays out, and
// says so.
func TestCompileInactive(t *testing.T) {
	s := testSchema(t)
	set, faults := policy.Compile(s, nil, []policy.Source{file("p.cedar", `
@id("none") permit (principal, action in [Action::"payments:pure", Action::"pure"], resource);
@id("some") permit (principal, action in [Action::"payments:pure", Action::"payments:read"], resource);`)})
	if got := lines(faults); len(got) != 1 || !strings.HasPrefix(got[0], `p.cedar:2:1: warning: policy "none" is inactive`) {
		t.Fatalf("got %v", got)
	}
	if !set.Policy("none").Inactive || set.Policy("some").Inactive {
		t.Errorf("inactive: none %t, some %t", set.Policy("none").Inactive, set.Policy("some").Inactive)
	}
}

// TestCompileValidates: what Cedar's strict validator refuses does not load,
// also where only one of many tools is concerned.
func TestCompileValidates(t *testing.T) {
	s := testSchema(t)
	for _, c := range []struct {
		policy string
		ok     bool
	}{
		{`permit (principal, action == Action::"payments/create_payment", resource) when { resource.status == "active" };`, true},
		{`permit (principal, action == Action::"payments/create_payment", resource) when { resource.statos == "active" };`, false},
		{`permit (principal, action, resource) when { resource.status == "active" };`, false},
		{`permit (principal, action, resource is Supplier) when { resource.status == "active" };`, true},
		{`permit (principal, action in Action::"payments", resource) when { context.arguments.amount_gbp.lessThan(decimal("1.0")) };`, false},
		{`permit (principal, action in Action::"files", resource) when { context.arguments has path && context.arguments.path in Path::"/srv" };`, true},
		{`permit (principal, action in Action::"files", resource) when { context.arguments.path in Path::"/srv" };`, false},
		{`permit (principal, action in Action::"read", resource) when { context.arguments == {} };`, false},
		{`permit (principal, action, resource) when { principal.tenant == "acme" };`, false},
		{`permit (principal, action, resource) when { principal has tenant && principal.tenant == "acme" };`, true},
		{`permit (principal, action, resource) when { context.review == Policy::"a" };`, false},
		{`permit (principal, action in Action::"approve", resource) when { context.review == Policy::"a" };`, true},
		{`permit (principal is Robot, action, resource);`, false},
		{`permit (principal, action, resource) when { context.tool.server == Server::"files" };`, true},
		{`permit (principal, action, resource) when { action in Action::"files:read" };`, true},
		{`permit (principal, action, resource) when { action in Action::"file:read" };`, false},
		{`permit (principal, action == Action::"files/read_file", resource) when { context.arguments.path.text like "/srv/*" };`, true},
		{`permit (principal, action, resource) when { 1 };`, false},
	} {
		set, faults := policy.Compile(s, everything{}, []policy.Source{file("p.cedar", `@id("a") `+c.policy)})
		if ok := set != nil; ok != c.ok {
			t.Errorf("%s\naccepted: %t, want %t: %v", c.policy, ok, c.ok, faults)
		}
		if set == nil && len(faults.Errors()) == 0 {
			t.Errorf("%s: no set, and no fault", c.policy)
		}
	}
}

// everything is a bundle that holds every entity.
type everything struct{}

func (everything) Has(types.EntityUID) bool      { return true }
func (everything) IDs(types.EntityType) []string { return nil }

// TestOpenScope: a permit that names no action means calls, never approvals;
// a forbid means both.
func TestOpenScope(t *testing.T) {
	set := mustCompile(t, testSchema(t), file("p.cedar", `
@id("all") permit (principal, action, resource);
@id("approvers") permit (principal, action in Action::"approve", resource);
@id("one") permit (principal, action == Action::"approve:files/search", resource);
@id("never") @code("NEVER_EVER") forbid (principal, action, resource);`))
	for _, c := range []struct{ action, permits, forbids string }{
		{"files/search", "all", "never"},
		{"github/label_write#delete", "all", "never"},
		{"approve:files/search", "approvers one", "never"},
		{"approve:files/read_file", "approvers", "never"},
		{"files/none", "", ""},
		{"files", "", ""}, // a group is no call
		{"approve", "", ""},
		{"github/label_write", "", ""},
	} {
		v := set.Judge(policy.Query{
			Principal: types.NewEntityUID("User", "u"), Action: action(c.action), Resource: types.NewEntityUID("Tool", "t"),
		})
		if got := strings.Join(idsOf(v.Permits), " "); got != c.permits {
			t.Errorf("%s: permits %q, want %q", c.action, got, c.permits)
		}
		if got := strings.Join(idsOf(v.Forbids), " "); got != c.forbids {
			t.Errorf("%s: forbids %q, want %q", c.action, got, c.forbids)
		}
	}
}

func TestDigest(t *testing.T) {
	s := testSchema(t)
	const (
		a = `@id("a") permit (principal, action in Action::"files:read", resource);`
		b = `@id("b") permit (principal, action == Action::"files/search", resource);`
		c = `@id("c") permit (principal, action == Action::"payments/get_payment", resource);`
	)
	of := func(id string, sources ...policy.Source) string {
		return mustCompile(t, s, sources...).Digest(action(id)).String()
	}
	base := of("files/search", file("p.cedar", a+b+c))
	if base == "" {
		t.Fatal("no digest")
	}
	for _, same := range [][]policy.Source{
		{file("p.cedar", a+b)},
		{file("p.cedar", "// moved\n"+c+a+"\n"+b)},
		{file("a.cedar", a), file("b.cedar", b)},
	} {
		if got := of("files/search", same...); got != base {
			t.Errorf("%s: another digest, though the candidates are the same", same)
		}
	}
	for _, other := range []string{
		a, b, "", strings.Replace(a, `"a"`, `"a2"`, 1) + b, strings.Replace(a, "principal", "principal is User", 1) + b,
		a + b + `@id("d") permit (principal, action, resource);`,
		a + b + `@id("d") @code("NEVER_EVER") forbid (principal, action in Action::"read", resource);`,
	} {
		if got := of("files/search", file("p.cedar", other)); got == base || got == "" {
			t.Errorf("%s: the digest is the same or none", other)
		}
	}
	if got := of("files/none", file("p.cedar", a)); got != "" {
		t.Errorf("an action that no contract has has digest %s", got)
	}
	if of("approve:files/search", file("p.cedar", a)) != of("approve:files/search", file("p.cedar", a+`@id("d") permit (principal, action, resource);`)) {
		t.Error("an open permit is a candidate for an approval")
	}
	if of("approve:files/search", file("p.cedar", a)) == of("approve:files/search", file("p.cedar", a+`@id("d") @code("NEVER_EVER") forbid (principal, action, resource);`)) {
		t.Error("an open forbid is no candidate for an approval")
	}
}

// FuzzCompile: whatever the text, Compile returns, soon.
func FuzzCompile(f *testing.F) {
	f.Add(payPolicies)
	f.Add(`@id("a") permit (principal, action, resource) when { context has arguments && context.arguments has path };`)
	f.Add(`@id("a") @code("X_Y") forbid (principal is User in Group::"g", action in [Action::"files", Action::"read"], resource is Path in Path::"/x") unless { if context.now < datetime("2026-01-01") then true else [1, "a"].contains(context["arguments"]) };`)
	f.Add(`permit (principal == ?principal, action, resource);`)
	f.Add("@id(\"\\u{1F600}\") permit(principal,action,resource)when{\"\\0\" like \"\\*\"};")
	s := testSchema(f)
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		set, faults := policy.Compile(s, everything{}, []policy.Source{file("p.cedar", text)})
		if took := time.Since(start); took > time.Minute {
			t.Errorf("took %v", took)
		}
		if (set == nil) != (len(faults.Errors()) > 0) {
			t.Errorf("set %v, faults %v", set, faults)
		}
		if set == nil {
			return
		}
		for _, id := range []string{"payments/create_payment", "files/read_file", "approve:files/search"} {
			q := policy.Query{Principal: types.NewEntityUID("User", "u"), Action: action(id), Resource: types.NewEntityUID("Path", "/srv")}
			set.Judge(q)
			set.Nearest(q)
		}
	})
}

func ExampleCompile() {
	// A schema comes from a bundle's contracts; this one has none.
	schema, faults := policy.NewSchema(policy.Types{Principals: []types.EntityType{"User"}})
	if faults != nil {
		fmt.Println(faults)
		return
	}
	_, faults = policy.Compile(schema, nil, []policy.Source{{
		File: "policies/all.cedar",
		Text: []byte(`@id("engineers-read") permit (principal, action in Action::"read", resource);`),
	}})
	fmt.Println(faults)
	// Output:
	// policies/all.cedar:1:1: warning: policy "engineers-read" is inactive: Action::"read" covers no tool: the bundle has no tools
}
