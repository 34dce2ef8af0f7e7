package contract_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
	"github.com/writ-pdp/writ/grant"
)

// base returns a sound declaration of two tools and its definitions: faults are
// planted in it.
func base(t testing.TB) (contract.Declaration, []*definition.Tool) {
	pay := define(t, "pay", `{"type":"object","required":["supplier","method"],"properties":{
		"supplier":{"type":"string"},"amount":{"type":"number"},"page":{"type":"number"},"urgent":{"type":"boolean"},
		"currency":{"enum":["GBP","EUR"]},"method":{"type":"string","enum":["create","delete"]},"path":{"type":"string"},
		"reason":{"type":"string"},"free":{"type":"object"},"state":{"type":"string","minLength":2},
		"filter":{"type":"object","properties":{"query":{"type":"string"}}},
		"rows":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}},
		"other":{"type":"array","items":{"type":"string"}},
		"a.b":{"type":"string"},"a":{"type":"object","properties":{"b":{"type":"string"}}}}}`)
	get := define(t, "get", `{"type":"object","properties":{"id":{"type":"string"}}}`)
	return contract.Declaration{
		ID: "payments", Endpoint: "https://pay.example/mcp", Classifications: []string{"internal"}, Purposes: []string{"pay"},
		Resources: []contract.Resource{{Entity: "Supplier", ID: "{supplier}"}},
		Tools: map[string]contract.Review{
			"pay": {Effect: "write", Opaque: []string{"free"}, Evidence: map[string]contract.EvidenceLine{"supplier": {From: []writ.SourceKind{"human"}}}},
			"get": {Effect: "read"},
		},
	}, []*definition.Tool{pay, get}
}

func TestNewOfASoundDeclaration(t *testing.T) {
	d, tools := base(t)
	made, faults, warnings := contract.New(d, tools)
	if faults != nil || len(warnings) > 0 || len(made) != 2 || made[0].Tool.Name != "get" || made[1].Tool.Name != "pay" {
		t.Fatalf("made %v, faults %v, warnings %v", made, faults, warnings)
	}
	s := made[0].Server
	if s.Audience != "https://pay.example/mcp" || s.RedeemedBy != "payments" || !s.TokenRequired {
		t.Errorf("defaults of the server: %+v", s)
	}
	c := made[1]
	if c.Reversible || c.OnChange != "strict" || c.DecideAt != "pdp" || c.IntentRequired || c.Scope != "" || c.UndeclaredAllowed {
		t.Errorf("defaults of a write: %+v", c)
	}
	if got := c.Evidence["/supplier"].Independent; got != 1 {
		t.Errorf("independent is %d by default, want 1", got)
	}
	if !made[0].Reversible {
		t.Error("a read has nothing to undo, so it is reversible")
	}
}

// pay changes the review of the tool pay.
func pay(change func(*contract.Review)) func(*contract.Declaration) {
	return func(d *contract.Declaration) {
		r := d.Tools["pay"]
		change(&r)
		d.Tools["pay"] = r
	}
}

func TestFaults(t *testing.T) {
	type D = contract.Declaration
	type R = contract.Review
	arg := func(name string, a contract.Argument) func(*D) {
		return pay(func(r *R) { r.Arguments = map[string]contract.Argument{name: a} })
	}
	absent := func(name string, v any) func(*D) {
		return pay(func(r *R) { r.WhenAbsent = map[string]any{name: v} })
	}
	line := func(r contract.Resource) func(*D) {
		return func(d *D) { d.Resources = []contract.Resource{r} }
	}
	own := func(res contract.Resource) func(*D) {
		return pay(func(r *R) { r.Resource = &res })
	}
	evidence := func(name string, e contract.EvidenceLine) func(*D) {
		return pay(func(r *R) { r.Evidence = map[string]contract.EvidenceLine{name: e} })
	}
	method := func(name string, m contract.Method) func(*D) {
		return pay(func(r *R) { r.Methods = map[string]contract.Method{name: m} })
	}
	post := func(change func(*contract.Postconditions)) func(*D) {
		return pay(func(r *R) {
			p := &contract.Postconditions{Observer: "payments", Tool: "get", Within: time.Second, Checks: []contract.Check{{At: "/state", Equals: "/arguments/supplier"}}}
			change(p)
			r.Postconditions = p
		})
	}
	check := func(c contract.Check) func(*D) {
		return post(func(p *contract.Postconditions) { p.Checks = []contract.Check{c} })
	}
	human := []writ.SourceKind{writ.SourceHuman}
	for _, tc := range []struct {
		name    string
		change  func(*D)
		field   string
		message string
	}{
		{"no id", func(d *D) { d.ID = "" }, "id", "needs an id"},
		{"a slash in the id", func(d *D) { d.ID = "a/b" }, "id", `holds no "/"`},
		{"a colon in the id", func(d *D) { d.ID = "a:b" }, "id", `holds no "/"`},
		{"a hash in the id", func(d *D) { d.ID = "a#b" }, "id", `holds no "/"`},
		{"a space in the id", func(d *D) { d.ID = "a b" }, "id", "no spaces"},
		{"an invisible character in the id", func(d *D) { d.ID = "a\u200bb" }, "id", "no spaces"},
		{"a long id", func(d *D) { d.ID = strings.Repeat("a", 129) }, "id", "at most 128"},
		{"an id that is an effect", func(d *D) { d.ID = "write" }, "id", "names a group of actions"},
		{"an id that is an action group", func(d *D) { d.ID = "approve" }, "id", "names a group of actions"},

		{"neither endpoint nor package hash", func(d *D) { d.Endpoint = "" }, "endpoint", "write one of them"},
		{"both endpoint and package hash", func(d *D) { d.PackageHash = "sha256:" + strings.Repeat("0", 64) }, "package_hash", "keep one"},
		{"plain http", func(d *D) { d.Endpoint = "http://pay.example/mcp" }, "endpoint", "loopback only"},
		{"another scheme", func(d *D) { d.Endpoint = "ws://pay.example/mcp" }, "endpoint", "https"},
		{"a relative endpoint", func(d *D) { d.Endpoint = "/mcp" }, "endpoint", "absolute URL"},
		{"an endpoint without a host", func(d *D) { d.Endpoint = "https:///mcp" }, "endpoint", "absolute URL"},
		{"an endpoint in capitals", func(d *D) { d.Endpoint = "https://Pay.example/mcp" }, "endpoint", "lower case"},
		{"a scheme in capitals", func(d *D) { d.Endpoint = "HTTPS://pay.example/mcp" }, "endpoint", "lower case"},
		{"user information", func(d *D) { d.Endpoint = "https://u:p@pay.example/mcp" }, "endpoint", "user information"},
		{"a fragment", func(d *D) { d.Endpoint = "https://pay.example/mcp#" }, "endpoint", "fragment"},
		{"the scheme's own port", func(d *D) { d.Endpoint = "https://pay.example:443/mcp" }, "endpoint", "own port"},
		{"an empty port", func(d *D) { d.Endpoint = "https://pay.example:/mcp" }, "endpoint", "own port"},
		{"a remote package", func(d *D) { d.Package = "npm:x" }, "package", "only a local server"},
		{"a remote command", func(d *D) { d.Command = []string{"npx"} }, "command", "only a local server"},
		{"a package hash with a space", func(d *D) { d.Endpoint, d.PackageHash, d.Token = "", "sha256: 0", "none" }, "package_hash", "spaces"},
		{"a local server with tokens and no audience", func(d *D) { d.Endpoint, d.PackageHash = "", "sha256:"+strings.Repeat("0", 64) }, "audience", "needs an audience"},
		{"an audience nothing is compared with", func(d *D) { d.Token, d.Audience = "none", "x" }, "audience", "leave one of them out"},
		{"an unknown word for token", func(d *D) { d.Token = "optional" }, "token", `"optional" is not one of required, none`},
		{"a scope without tokens", func(d *D) { d.Token = "none"; pay(func(r *R) { r.Scope = ptr("s") })(d) }, "tools.pay.scope", "nobody has a scope"},
		{"a control character", func(d *D) { d.Owner = "a\nb" }, "owner", "control"},
		{"an empty classification", func(d *D) { d.Classifications = []string{"a", ""} }, "classifications[1]", "write a word"},
		{"a purpose twice", func(d *D) { d.Purposes = []string{"a", "a"} }, "purposes[1]", "twice"},

		{"no tools", func(d *D) { d.Tools = nil }, "tools", "no tool is reviewed"},
		{"a tool without definition", func(d *D) { d.Tools["gett"] = R{Effect: "read"} }, "tools.gett", `: add what tools/list says, or take the tool out; did you mean "get"?`},
		{"a tool name with a hash", func(d *D) { d.Tools["a#b"] = R{Effect: "read"} }, `tools["a#b"]`, `holds no "#"`},
		{"no effect", pay(func(r *R) { r.Effect = "" }), "tools.pay", "declare its effect"},
		{"an unknown effect", pay(func(r *R) { r.Effect = "append" }), "tools.pay.effect", "pure, read, write"},
		{"an unknown word for intent", pay(func(r *R) { r.Intent = "yes" }), "tools.pay.intent", "required"},
		{"an unknown word for on_change", pay(func(r *R) { r.OnChange = "semantic" }), "tools.pay.on_change", "only strict exists"},
		{"an unknown word for decide_at", pay(func(r *R) { r.DecideAt = "host" }), "tools.pay.decide_at", "pdp, server"},
		{"an unknown word for grant", pay(func(r *R) { r.Grant = "never" }), "tools.pay.grant", "always"},
		{"a grant for what only writes", pay(func(r *R) { r.Grant = "always" }), "tools.pay.grant", "needs a grant anyway"},
		{"a grant where the server decides", pay(func(r *R) { r.Grant, r.DecideAt = "always", "server" }), "tools.pay.grant", "leave one of them out"},
		{"a grant for a computation", pay(func(r *R) { r.Effect, r.Grant, r.Postconditions = "pure", "always", nil }), "tools.pay.grant", "never needs a grant"},
		{"an unknown word for undeclared", pay(func(r *R) { r.Undeclared = "yes" }), "tools.pay.undeclared", "refuse, allow"},
		{"two scopes", pay(func(r *R) { r.Scope = ptr("a b") }), "tools.pay.scope", "is not one scope"},

		{"unsettled", pay(func(r *R) { r.Opaque = nil }), "tools.pay", `argument "free" has no exact type`},
		{"an opaque name that is not there", pay(func(r *R) { r.Opaque = []string{"free", "reson"} }), "tools.pay.opaque[1]", `did you mean "reason"?`},
		{"an opaque name twice", pay(func(r *R) { r.Opaque = []string{"free", "free"} }), "tools.pay.opaque[1]", "twice"},
		{"an opaque element", pay(func(r *R) { r.Opaque = []string{"free", "rows[]"} }), "tools.pay.opaque[1]", `write "rows"`},
		{"inside an opaque argument", pay(func(r *R) { r.Opaque = []string{"free", "filter", "filter.query"} }), "tools.pay.opaque[2]", "no argument"},
		{"a name that can be read in two ways", pay(func(r *R) { r.Opaque = []string{"free", "a.b"} }), "tools.pay.opaque[1]", "two different arguments"},

		{"an argument that is not there", arg("suplier", contract.Argument{Entity: "S"}), "tools.pay.arguments.suplier", `did you mean "supplier"?`},
		{"an argument line that says nothing", arg("supplier", contract.Argument{}), "tools.pay.arguments.supplier", "exactly one of"},
		{"an argument line that says two things", arg("page", contract.Argument{Long: true, Opaque: true}), "tools.pay.arguments.page", "exactly one of"},
		{"may_be_new without entity", arg("page", contract.Argument{Long: true, MayBeNew: true}), "tools.pay.arguments.page.may_be_new", "only an entity"},
		{"bound_to without entity", arg("page", contract.Argument{Long: true, BoundTo: "owner"}), "tools.pay.arguments.page.bound_to", "only an entity"},
		{"bound_to of what may be new", arg("source", contract.Argument{Entity: "Source", MayBeNew: true, BoundTo: "owner"}), "tools.pay.arguments.source.bound_to", "anybody could name it"},
		{"bound_to of a path", arg("path", contract.Argument{Entity: "Path", BoundTo: "owner"}), "tools.pay.arguments.path.bound_to", "is nobody's"},
		{"may_be_new of a path", arg("path", contract.Argument{Entity: "Path", MayBeNew: true}), "tools.pay.arguments.path.may_be_new", "never looked up"},
		{"a reserved entity type", arg("supplier", contract.Argument{Entity: "Tool"}), "tools.pay.arguments.supplier.entity", "Writ's own"},
		{"no entity type", arg("supplier", contract.Argument{Entity: "my type"}), "tools.pay.arguments.supplier.entity", "no Cedar entity type"},
		{"a number as entity", arg("amount", contract.Argument{Entity: "S"}), "tools.pay.arguments.amount.entity", "only text names an entity"},
		{"an array as entity", arg("other", contract.Argument{Entity: "S"}), "tools.pay.arguments.other.entity", `write "other[]"`},
		{"a long text", arg("supplier", contract.Argument{Long: true}), "tools.pay.arguments.supplier.long", "only a number"},
		{"a type for an opaque argument", arg("free", contract.Argument{Entity: "S"}), "tools.pay.arguments.free", "opaque"},

		{"when absent: not there", absent("urgnt", true), "tools.pay.when_absent.urgnt", `did you mean "urgent"?`},
		{"when absent: required", absent("supplier", "x"), "tools.pay.when_absent.supplier", "is required"},
		{"when absent: opaque", absent("free", map[string]any{}), "tools.pay.when_absent.free", "opaque"},
		{"when absent: null", absent("urgent", nil), "tools.pay.when_absent.urgent", "null"},
		{"when absent: a wrong type", absent("urgent", "yes"), "tools.pay.when_absent.urgent", "is a string"},
		{"when absent: outside the enum", absent("currency", "USD"), "tools.pay.when_absent.currency", "is not one of"},
		{"when absent: the schema refuses it", absent("state", "x"), "tools.pay.when_absent.state", "must have at least 2 characters"},
		{"when absent: no JSON value", absent("urgent", 1), "tools.pay.when_absent.urgent", "no JSON value"},
		{"when absent: five places", absent("amount", number("0.00001")), "tools.pay.when_absent.amount", "no decimal"},
		{"when absent: not canonical", absent("amount", number("1.0")), "tools.pay.when_absent.amount", "not exact"},
		{"when absent: a set with a wrong element", absent("other", []any{"a", true}), "tools.pay.when_absent.other", "is a boolean"},
		{"when absent: no set", absent("other", "a"), "tools.pay.when_absent.other", "is a string"},
		{"when absent: an incomplete record", absent("rows", []any{map[string]any{}}), "tools.pay.when_absent.rows", `"id" is missing`},
		{"when absent: a wrong member", absent("rows", []any{map[string]any{"id": true}}), "tools.pay.when_absent.rows", "id: it is a boolean"},
		{"when absent: a fraction for a long", func(d *D) {
			arg("page", contract.Argument{Long: true})(d)
			absent("page", number("1.5"))(d)
		}, "tools.pay.when_absent.page", "no Long"},
		{"when absent: a path that climbs", func(d *D) {
			arg("path", contract.Argument{Entity: "Path"})(d)
			absent("path", "/a/../b")(d)
		}, "tools.pay.when_absent.path", ""},
		{"when absent: an element", absent("other[]", "x"), `tools.pay.when_absent["other[]"]`, "never absent"},
		{"when absent: an undeclared member", absent("filter", map[string]any{"x": "y"}), "tools.pay.when_absent.filter", "no member"},

		{"a resource of nothing", line(contract.Resource{}), "resources[0]", "exactly one of"},
		{"a resource of two kinds", line(contract.Resource{Entity: "A", ID: "{supplier}", Path: []string{"path"}}), "resources[0]", "exactly one of"},
		{"a reserved resource", line(contract.Resource{Entity: "Path", ID: "{path}"}), "resources[0].entity", "Writ's own"},
		{"no template", line(contract.Resource{Entity: "A"}), "resources[0].id", "empty"},
		{"a constant template", line(contract.Resource{Entity: "A", ID: "x"}), "resources[0].id", "names no argument"},
		{"an open brace", line(contract.Resource{Entity: "A", ID: "{supplier"}), "resources[0].id", `"{" without its "}"`},
		{"a stray brace", line(contract.Resource{Entity: "A", ID: "supplier}"}), "resources[0].id", `"}" without its "{"`},
		{"an empty brace", line(contract.Resource{Entity: "A", ID: "{}"}), "resources[0].id", "names no argument"},
		{"arguments side by side", line(contract.Resource{Entity: "A", ID: "{supplier}{path}"}), "resources[0].id", "side by side"},
		{"a reserved parent", line(contract.Resource{Entity: "A", ID: "{supplier}", In: map[string]string{"Host": "{path}"}}), "resources[0].in.Host", "Writ's own"},
		{"a bad parent template", line(contract.Resource{Entity: "A", ID: "{supplier}", In: map[string]string{"Org": "{"}}), "resources[0].in.Org", "without"},
		{"an unknown fold", line(contract.Resource{Entity: "A", ID: "{supplier}", Fold: "unicode"}), "resources[0].fold", "ascii"},
		{"within of an entity", line(contract.Resource{Entity: "A", ID: "{supplier}", Within: []string{"/a"}}), "resources[0]", "belong to paths"},
		{"an id of a path", line(contract.Resource{Path: []string{"path"}, ID: "{path}"}), "resources[0]", "belong to entities"},
		{"within of a host", line(contract.Resource{Host: []string{"path"}, Within: []string{"/a"}}), "resources[0]", "belong to paths"},
		{"no name", line(contract.Resource{Path: []string{}}), "resources[0].path", "name an argument"},
		{"a name twice", line(contract.Resource{Path: []string{"path", "path"}}), "resources[0].path[1]", "twice"},
		{"an unknown case", line(contract.Resource{Path: []string{"path"}, Case: "ignore"}), "resources[0].case", "insensitive"},
		{"a bound that climbs", line(contract.Resource{Path: []string{"path"}, Within: []string{"/a/../b"}}), "resources[0].within[0]", ""},
		{"a bound not in normal form", line(contract.Resource{Path: []string{"path"}, Within: []string{"/a", "/b/"}}), "resources[0].within[1]", `write "/b"`},
		{"a bound in capitals where case does not count", line(contract.Resource{Path: []string{"path"}, Within: []string{"/A"}, Case: "insensitive"}), "resources[0].within[0]", `write "/a"`},
		{"a relative base", line(contract.Resource{Path: []string{"path"}, Base: "work"}), "resources[0].base", ""},
		{"a line's argument that no tool has", line(contract.Resource{Entity: "A", ID: "{suplier}"}), "resources[0].id", `no tool of the server has an argument "suplier"; did you mean "supplier"?`},
		{"a parent's argument that no tool has", line(contract.Resource{Entity: "A", ID: "{supplier}", In: map[string]string{"B": "{idd}"}}), "resources[0].in.B", `did you mean "id"?`},
		{"a path that no tool has", line(contract.Resource{Path: []string{"path", "pth"}}), "resources[0].path[1]", `no tool of the server has an argument "pth"; did you mean "path"?`},
		{"a member that no tool has", line(contract.Resource{Host: []string{"rows[].di"}}), "resources[0].host[0]", `did you mean "rows[].id"?`},
		{"a target that is not there", own(contract.Resource{Path: []string{"pth"}}), "tools.pay.resource.path[0]", `did you mean "path"?`},
		{"a target that is opaque", own(contract.Resource{Entity: "A", ID: "{free}"}), "tools.pay.resource.id", "a target may not rest on it"},
		{"a path that is opaque", own(contract.Resource{Path: []string{"free"}}), "tools.pay.resource.path[0]", "a target may not rest on it"},
		{"a target that is a number", own(contract.Resource{Entity: "A", ID: "{amount}"}), "tools.pay.resource.id", "say long"},
		{"a target that is a boolean", own(contract.Resource{Entity: "A", ID: "{urgent}"}), "tools.pay.resource.id", "text and integers"},
		{"a path that is an array", own(contract.Resource{Path: []string{"other"}}), "tools.pay.resource.path[0]", "other[]"},
		{"targets from two arrays", own(contract.Resource{Path: []string{"other[]", "rows[].id"}}), "tools.pay.resource.path[1]", "two arrays"},
		{"a target that can be read in two ways", own(contract.Resource{Path: []string{"a.b"}}), "tools.pay.resource.path[0]", "two different arguments"},
		{"a path that is an entity too", func(d *D) {
			arg("path", contract.Argument{Entity: "Doc"})(d)
			own(contract.Resource{Path: []string{"path"}})(d)
		}, "tools.pay.resource.path[0]", "keep one"},

		{"methods without their argument", func(d *D) {
			r := d.Tools["get"]
			r.Methods = map[string]contract.Method{"x": {Effect: "pure"}}
			d.Tools["get"] = r
		}, "tools.get.methods", `no argument "method"`},
		{"a method argument that is free text", pay(func(r *R) { r.MethodArgument = "supplier" }), "tools.pay.method_argument", "does not choose"},
		{"a method argument that is optional", pay(func(r *R) { r.MethodArgument = "currency" }), "tools.pay.method_argument", "does not choose"},
		{"a method argument that is opaque", pay(func(r *R) { r.MethodArgument, r.Opaque = "method", []string{"free", "method"} }), "tools.pay.method_argument", "opaque"},
		{"a method that is not there", method("delte", contract.Method{Reversible: ptr(true)}), "tools.pay.methods.delte", `did you mean "delete"?`},
		{"a method that says nothing", method("delete", contract.Method{}), "tools.pay.methods.delete", "nothing that differs"},
		{"a method of unknown effect", method("delete", contract.Method{Effect: "destroy"}), "tools.pay.methods.delete.effect", "pure, read, write"},
		{"a method stronger than its tool", func(d *D) {
			pay(func(r *R) { r.Effect, r.Evidence = "read", nil })(d)
			method("delete", contract.Method{Effect: "write"})(d)
		}, "tools.pay.methods.delete.effect", "no stronger than its tool"},
		{"two scopes of a method", method("delete", contract.Method{Scope: ptr("a b")}), "tools.pay.methods.delete.scope", "is not one scope"},

		{"evidence for nothing", evidence("suplier", contract.EvidenceLine{From: human}), "tools.pay.evidence.suplier", `did you mean "supplier"?`},
		{"evidence from nobody", evidence("supplier", contract.EvidenceLine{}), "tools.pay.evidence.supplier.from", "at least one"},
		{"evidence from an unknown kind", evidence("supplier", contract.EvidenceLine{From: []writ.SourceKind{"oracle"}}), "tools.pay.evidence.supplier.from[0]", "no kind of source"},
		{"evidence from a kind twice", evidence("supplier", contract.EvidenceLine{From: []writ.SourceKind{"human", "human"}}), "tools.pay.evidence.supplier.from[1]", "twice"},
		{"evidence from the future", evidence("supplier", contract.EvidenceLine{From: human, Fresh: -1}), "tools.pay.evidence.supplier.fresh", "less than nothing"},
		{"evidence from too many", evidence("supplier", contract.EvidenceLine{From: human, Independent: 65}), "tools.pay.evidence.supplier.independent", "1 to 64"},
		{"evidence in an array", evidence("rows[].id", contract.EvidenceLine{From: human}), "tools.pay.evidence[\"rows[].id\"]", "name the array"},
		{"evidence and a reason for none", pay(func(r *R) { r.NoEvidence = "because" }), "tools.pay.evidence", "keep one"},
		{"showing what is not there", pay(func(r *R) { r.ReviewShows = []string{"supplier", "amnt"} }), "tools.pay.review_shows[1]", "no argument"},
		{"showing part of an array", pay(func(r *R) { r.ReviewShows = []string{"rows[].id"} }), "tools.pay.review_shows[0]", "name the array"},
		{"showing something twice", pay(func(r *R) { r.ReviewShows = []string{"supplier", "supplier"} }), "tools.pay.review_shows[1]", "twice"},

		{"postconditions nobody observes", post(func(p *contract.Postconditions) { p.Observer = "" }), "tools.pay.postconditions.observer", "name the server"},
		{"postconditions without a tool", post(func(p *contract.Postconditions) { p.Tool = "" }), "tools.pay.postconditions.tool", "name the observer's tool"},
		{"postconditions at no time", post(func(p *contract.Postconditions) { p.Within = 0 }), "tools.pay.postconditions.within", "how long"},
		{"postconditions for longer than any ledger remembers", post(func(p *contract.Postconditions) { p.Within = grant.MaxRetention + 1 }), "tools.pay.postconditions.within", "at most 87840h"},
		{"more checks than a ledger keeps", post(func(p *contract.Postconditions) { p.Checks = slices.Repeat(p.Checks, 1025) }), "tools.pay.postconditions.checks", "at most 1024"},
		{"longer checks than a ledger keeps", post(func(p *contract.Postconditions) {
			p.Checks = append(p.Checks, contract.Check{At: "/a", In: []any{"x"}}, contract.Check{At: "/b", In: []any{strings.Repeat("x", 63<<10)}})
		}), "tools.pay.postconditions.checks[2]", "a ledger keeps"},
		{"postconditions without checks", post(func(p *contract.Postconditions) { p.Checks = nil }), "tools.pay.postconditions.checks", "nothing to check"},
		{"postconditions of a read", func(d *D) {
			post(func(*contract.Postconditions) {})(d)
			pay(func(r *R) { r.Effect = "read" })(d)
		}, "tools.pay.postconditions", "only a write"},
		{"a check nowhere", check(contract.Check{At: "state", In: []any{"a"}}), "tools.pay.postconditions.checks[0].at", "no JSON Pointer"},
		{"a check with a bad escape", check(contract.Check{At: "/a~2", In: []any{"a"}}), "tools.pay.postconditions.checks[0].at", "no JSON Pointer"},
		{"a check of nothing", check(contract.Check{At: "/a"}), "tools.pay.postconditions.checks[0]", "exactly one of"},
		{"a check of two things", check(contract.Check{At: "/a", Equals: "/arguments/supplier", Present: ptr(true)}), "tools.pay.postconditions.checks[0]", "exactly one of"},
		{"a check against something else", check(contract.Check{At: "/a", Equals: "/result/supplier"}), "tools.pay.postconditions.checks[0].equals", "to an argument"},
		{"a check against an argument that is not there", check(contract.Check{At: "/a", Equals: "/arguments/suplier"}), "tools.pay.postconditions.checks[0].equals", `did you mean "supplier"?`},
		{"a check against no value", check(contract.Check{At: "/a", In: []any{}}), "tools.pay.postconditions.checks[0].in", "no value"},
		{"a check against an object", check(contract.Check{At: "/a", In: []any{"x", map[string]any{}}}), "tools.pay.postconditions.checks[0].in[1]", "only text"},
		{"a check against an inexact number", check(contract.Check{At: "/a", In: []any{number("9007199254740993")}}), "tools.pay.postconditions.checks[0].in[0]", "not exact"},
		{"a tolerance that is none", check(contract.Check{At: "/a", Equals: "/arguments/amount", Tolerance: "-0.1"}), "tools.pay.postconditions.checks[0].tolerance", "not a decimal"},
		{"a tolerance for a list", check(contract.Check{At: "/a", In: []any{"x"}, Tolerance: "0.1"}), "tools.pay.postconditions.checks[0].tolerance", "only equals"},

		{"a default resource", func(d *D) { d.Defaults.Resource = &contract.Resource{Path: []string{"path"}} }, "defaults.resource", "belongs to one tool"},
		{"default methods", func(d *D) { d.Defaults.Methods = map[string]contract.Method{"delete": {Effect: "write"}} }, "defaults.methods", "belongs to one tool"},
		{"a default method argument", func(d *D) { d.Defaults.MethodArgument = "method" }, "defaults.method_argument", "belongs to one tool"},
		{"default postconditions", func(d *D) { d.Defaults.Postconditions = &contract.Postconditions{} }, "defaults.postconditions", "belongs to one tool"},
		{"an unknown default effect", func(d *D) { d.Defaults.Effect = "x" }, "defaults.effect", "pure, read, write"},
		{"default evidence that applies nowhere", func(d *D) {
			d.Defaults.Evidence = map[string]contract.EvidenceLine{"suplier": {From: human}}
		}, "defaults.evidence.suplier", "nothing would be checked"},
		{"a default that fits no type", func(d *D) { d.Defaults.WhenAbsent = map[string]any{"urgent": "x"} }, "defaults.when_absent.urgent", "is a string"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, tools := base(t)
			tc.change(&d)
			made, faults, _ := contract.New(d, tools)
			if made != nil {
				t.Error("there are contracts beside the fault")
			}
			if !has(faults, tc.field, tc.message) {
				t.Errorf("got:\n%v\nwant %s: …%s…", faults, tc.field, tc.message)
			}
		})
	}
}

// TestEveryFaultAtOnce: one faulty value hides no other.
func TestEveryFaultAtOnce(t *testing.T) {
	d, tools := base(t)
	d.ID, d.Endpoint = "a/b", "ftp://x"
	d.Resources = append(d.Resources, contract.Resource{})
	pay(func(r *contract.Review) {
		r.Effect, r.Opaque, r.Intent = "", []string{"reson"}, "maybe"
	})(&d)
	d.Tools["none"] = contract.Review{}
	_, faults, _ := contract.New(d, append(tools, nil, tools[0]))
	var fields []string
	for _, f := range faults {
		fields = append(fields, f.Field)
	}
	slices.Sort(fields)
	want := []string{"endpoint", "id", "resources[1]", "tools", "tools.none", "tools.none", "tools.pay", "tools.pay", "tools.pay", "tools.pay.intent", "tools.pay.opaque[0]"}
	if !slices.Equal(fields, want) {
		t.Errorf("fields\n%q, want\n%q\n%v", fields, want, faults)
	}
	if lines := strings.Count(faults.Error(), "\n") + 1; lines != len(faults) {
		t.Errorf("%d lines of text for %d faults", lines, len(faults))
	}
}

// TestFaultsOfDefaultsOnce: a fault of the defaults is one fault, however many
// tools have the argument.
func TestFaultsOfDefaultsOnce(t *testing.T) {
	d := remote("a", contract.Review{Effect: "read"})
	d.Tools["b"] = contract.Review{Effect: "read"}
	d.Defaults.WhenAbsent = map[string]any{"x": true}
	schema := `{"type":"object","properties":{"x":{"type":"string"}}}`
	_, faults, _ := contract.New(d, toolList(define(t, "a", schema), define(t, "b", schema)))
	if len(faults) != 1 || faults[0].Field != "defaults.when_absent.x" {
		t.Errorf("got %v", faults)
	}
}

// TestWhenAbsentOfEveryType: what an absent argument means is a value of its type.
func TestWhenAbsentOfEveryType(t *testing.T) {
	d, tools := base(t)
	pay(func(r *contract.Review) {
		r.Arguments = map[string]contract.Argument{"page": {Long: true}, "path": {Entity: "Path"}, "reason": {Entity: "Doc"}}
		r.WhenAbsent = map[string]any{
			"amount": number("-0.05"), "page": number("1"), "urgent": true, "currency": "EUR", "path": "/a", "reason": "d",
			"other": []any{"a"}, "rows": []any{map[string]any{"id": "x"}}, "filter": map[string]any{"query": "q"}, "a": map[string]any{},
		}
	})(&d)
	c := makeAll(t, d, tools...)["pay"]
	if got, want := render(c.Arguments), `{a=map[]: {b?: String}, a.b?: String, amount=-0.05: decimal, currency=EUR: String(GBP|EUR), `+
		`filter=map[query:q]: {query?: String}, free?: opaque, method: String(create|delete), other=[a]: Set<String>, page=1: Long, `+
		`path=/a: <Path>, reason=d: <Doc>, rows=[map[id:x]]: Set<{id: String}>, state?: String, supplier: String, urgent=true: Bool}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEndpoints(t *testing.T) {
	for _, endpoint := range []string{
		"https://api.example/mcp/", "https://api.example", "https://api.example:8443/mcp?x=1", "http://localhost:8080/mcp",
		"http://127.0.0.1:1/", "http://[::1]:1/mcp", "https://192.0.2.1/mcp",
	} {
		d, tools := base(t)
		d.Endpoint = endpoint
		if _, faults, _ := contract.New(d, tools); faults != nil {
			t.Errorf("%s: %v", endpoint, faults)
		}
	}
}
