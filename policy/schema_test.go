package policy_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"

	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// TestSchemaActions checks the actions, their groups and what they apply to
// against the mapping that design.md gives.
func TestSchemaActions(t *testing.T) {
	s := reparsed(t, testSchema(t))
	for _, c := range []struct {
		action, groups, resources string
	}{
		{"payments/create_payment", "payments payments:write write", "Supplier"},
		{"payments/get_payment", "payments payments:read read", "Tool"},
		{"files/read_file", "files files:read read", "Path"},
		{"files/move_file", "files files:write write", "Path"},
		{"files/delete_many", "files files:write write", "Path"},
		{"files/list_roots", "files files:read read", "Tool"},
		{"files/search", "files files:read read", "Path Tool"}, // the path may be absent
		{"github/get_me", "github github:read read", "Tool"},
		{"github/label_write", "github", ""}, // a group of its methods
		{"github/label_write#create", "github github/label_write github:write write", "Repository"},
		{"github/label_write#delete", "github github/label_write github:write write", "Repository"},
		{"approve:github/label_write", "approve", "Repository"},
		{"approve:payments/create_payment", "approve", "Supplier"},
		{"payments", "", ""},
		{"payments:pure", "", ""},
		{"pure", "", ""},
		{"write", "", ""},
		{"approve", "", ""},
	} {
		a, ok := s.Actions[action(c.action)]
		if !ok {
			t.Errorf("no action %s", c.action)
			continue
		}
		var groups, resources []string
		for parent := range a.Entity.Parents.All() {
			groups = append(groups, string(parent.ID))
		}
		slices.Sort(groups)
		if got := strings.Join(groups, " "); got != c.groups {
			t.Errorf("%s in %s, want %s", c.action, got, c.groups)
		}
		if a.AppliesTo == nil {
			if c.resources != "" {
				t.Errorf("%s applies to nothing", c.action)
			}
			continue
		}
		for _, r := range a.AppliesTo.Resources {
			resources = append(resources, string(r))
		}
		slices.Sort(resources)
		if got := strings.Join(resources, " "); got != c.resources {
			t.Errorf("%s applies to %s, want %s", c.action, got, c.resources)
		}
		if !reflect.DeepEqual(a.AppliesTo.Principals, []types.EntityType{"Agent", "User"}) {
			t.Errorf("%s: principals %v, want every type that issuers make", c.action, a.AppliesTo.Principals)
		}
		if _, review := a.AppliesTo.Context["review"]; review != strings.HasPrefix(c.action, "approve:") {
			t.Errorf("%s: context.review is there: %t", c.action, review)
		}
	}
}

func TestSchemaArguments(t *testing.T) {
	s := reparsed(t, testSchema(t))
	attribute := func(t resolved.IsType, optional bool) resolved.Attribute {
		return resolved.Attribute{Type: t, Optional: optional}
	}
	for _, c := range []struct {
		action string
		want   resolved.RecordType
	}{
		{"payments/create_payment", resolved.RecordType{
			"invoice": attribute(resolved.EntityType("Invoice"), false), "supplier": attribute(resolved.StringType{}, false),
			"amount_gbp": attribute(resolved.ExtensionType("decimal"), false), "currency": attribute(resolved.StringType{}, false),
			"urgent": attribute(resolved.BoolType{}, false), // absent means false
		}},
		{"payments/get_payment", resolved.RecordType{
			"payment_id": attribute(resolved.StringType{}, true), "limit": attribute(resolved.LongType{}, true),
		}},
		{"files/delete_many", resolved.RecordType{"items": attribute(resolved.SetType{Element: resolved.RecordType{
			"path": attribute(resolved.EntityType("Path"), false), "force": attribute(resolved.BoolType{}, false),
		}}, false)}},
		{"files/list_roots", resolved.RecordType{}},
	} {
		for _, id := range []string{c.action, "approve:" + c.action} {
			got := s.Actions[action(id)].AppliesTo.Context["arguments"]
			if !reflect.DeepEqual(got, attribute(c.want, false)) {
				t.Errorf("%s: arguments are\n %#v, want\n %#v", id, got.Type, c.want)
			}
		}
	}
	element, ok := s.Actions[action("files/delete_many")].AppliesTo.Context["element"]
	if !ok || !element.Optional {
		t.Errorf("context.element of files/delete_many: %#v, want an optional record", element)
	}
	if _, ok := s.Actions[action("files/read_file")].AppliesTo.Context["element"]; ok {
		t.Error("a tool without an array of objects has context.element")
	}
}

// TestSchemaTypes checks the entity types that a bundle has without saying so.
func TestSchemaTypes(t *testing.T) {
	in := testTypes(t)
	s := reparsed(t, mustSchema(t, in))
	for name, attributes := range map[types.EntityType]string{
		"Tool":   "effect name reversible scope server version",
		"Server": "endpoint owner redeemed_by",
		"Path":   "name segments text",
		"Host":   "ip text",
		"Url":    "host path port scheme text",
		"Email":  "host local text",
		"Caller": "", "Role": "", "Service": "", "Policy": "", "Source": "",
		"User": "tenant", "Group": "", "Agent": "tenant",
	} {
		var got []string
		for attribute := range s.Entities[name].Shape {
			got = append(got, string(attribute))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != attributes {
			t.Errorf("%s has %v, want %s", name, got, attributes)
		}
	}
	in.Schema.Text = append([]byte("entity Team; entity User in [Team] = { email: String };\n"), in.Schema.Text...)
	s = reparsed(t, mustSchema(t, in))
	if user := s.Entities["User"]; !reflect.DeepEqual(user.ParentTypes, []types.EntityType{"Team"}) || len(user.Shape) != 1 {
		t.Errorf("the bundle's own User is %+v", user)
	}
}

// TestSchemaNames gives a tool properties whose names are Cedar schema
// syntax: they stay names.
func TestSchemaNames(t *testing.T) {
	const evil = `x: Long} }; entity Evil; type T = {"y`
	c := contracts(t, contract.Declaration{
		ID: "odd", Endpoint: "https://odd.example", Tools: map[string]contract.Review{"t": {Effect: "read"}},
	}, fmt.Sprintf(`[{"name":"t","inputSchema":{"type":"object","properties":{%q:{"type":"string"},"__entity":{"type":"string"},"in":{"type":"string"}}}}]`, evil))
	in := testTypes(t)
	in.Contracts = c
	s := reparsed(t, mustSchema(t, in))
	if _, ok := s.Entities["Evil"]; ok {
		t.Fatal("a property's name declared an entity type")
	}
	got := s.Actions[action("odd/t")].AppliesTo.Context["arguments"].Type.(resolved.RecordType)
	if len(got) != 3 || got[evil].Type != (resolved.StringType{}) {
		t.Errorf("arguments are %v", got)
	}
}

func TestSchemaFaults(t *testing.T) {
	base := func(text string) func(*policy.Types) {
		return func(in *policy.Types) { in.Schema.Text = []byte(text + "\n" + ownSchema) }
	}
	var bomb strings.Builder
	for i := range 60 {
		fmt.Fprintf(&bomb, "type T%d = { a: T%d, b: T%d };\n", i, i+1, i+1)
	}
	bomb.WriteString("type T60 = String;")
	for _, c := range []struct {
		name   string
		change func(*policy.Types)
		want   []string // how each fault starts
	}{
		{"syntax", base("entity X = {"), []string{"schema.cedarschema:"}},
		{"namespace", base("namespace N { entity X; }"), []string{"schema.cedarschema:1:11: namespace N: "}},
		{"action", base(`action "read";`), []string{`schema.cedarschema:1:8: action "read": `}},
		{"reserved", base("entity Tool;"), []string{"schema.cedarschema:1:8: entity type Tool: the name is reserved"}},
		{"reserved for callers", base("entity Role;\nentity Service in [Group];"), []string{"schema.cedarschema:1:8: entity type Role: the name is reserved", "schema.cedarschema:2:8: entity type Service: the name is reserved"}},
		{"reserved in another case", base("\n  entity URL;"), []string{"schema.cedarschema:2:10: entity type URL: the name is reserved"}},
		{"reserved enum", base(`entity Policy enum ["a"];`), []string{"schema.cedarschema:1:8: entity type Policy: "}},
		{"reserved type", base("type Path = String;"), []string{"schema.cedarschema:1:6: type Path: "}},
		{"Cedar's own", base("entity decimal;"), []string{"schema.cedarschema:1:8: entity type decimal: "}},
		{"type like entity", base("type Group = String;"), []string{"schema.cedarschema:1:6: type Group has the name of an entity type"}},
		{"type like own entity", base("type Org = String;"), []string{"schema.cedarschema:1:6: type Org has the name of an entity type"}},
		{"undeclared attribute", base("// Suplier\nentity X = { s: Set<Suplier> };"),
			[]string{"schema.cedarschema:2:21: X names Suplier, which nothing declares; did you mean Supplier?"}},
		{"undeclared parent", base("entity X in [Groop];"), []string{"schema.cedarschema:1:14: X names Groop, which nothing declares; did you mean Group?"}},
		{"in a path", base("entity X in [Org, Path];"), []string{"schema.cedarschema:1:8: X is in Path, which is Writ's own"}},
		{"undeclared tag", base("entity X tags Strin;"), []string{"schema.cedarschema:1:15: X names Strin, which nothing declares; did you mean String?"}},
		{"undeclared in type", base("type M = { x: Nothing };"), []string{"schema.cedarschema:1:15: M names Nothing, which nothing declares"}},
		{"an action type", base("entity X = { a: Action };"), []string{"schema.cedarschema:1:17: X names Action, which nothing declares"}},
		{"cycle", base("type A = { b: B }; type B = Set<A>;"), []string{"schema.cedarschema:1:6: type A contains itself"}},
		{"types that double", base(bomb.String()), []string{"schema.cedarschema:"}},
		{"no principal", func(in *policy.Types) { in.Principals = nil }, []string{"issuers.yaml: no issuer makes a principal"}},
		{"undeclared principal", func(in *policy.Types) { in.Principals = []types.EntityType{"Robot"} },
			[]string{"issuers.yaml: principal type Robot is not declared"}},
		{"undeclared actor", func(in *policy.Types) { in.Actors = []types.EntityType{"Robot"} },
			[]string{"issuers.yaml: actor type Robot is not declared"}},
		{"reserved principal", func(in *policy.Types) { in.Principals = []types.EntityType{"Tool"} },
			[]string{"issuers.yaml: principal type Tool is Writ's own"}},
		{"injected principal", func(in *policy.Types) { in.Principals = []types.EntityType{"User {}; entity Evil"} },
			[]string{`issuers.yaml: principal type "User {}; entity Evil" is not the name of an entity type`}},
		{"undeclared argument", func(in *policy.Types) {
			in.Schema.Text = []byte(strings.ReplaceAll(ownSchema, "entity Invoice", "entity Bill"))
		}, []string{"servers/payments.yaml: tools.create_payment.arguments.invoice: argument invoice of payments/create_payment names entity type Invoice, which nothing declares"}},
		{"undeclared target", func(in *policy.Types) {
			in.Schema.Text = []byte(strings.ReplaceAll(ownSchema, "Repository", "Repo"))
		}, []string{"servers/github.yaml: tools.label_write.resource: the resource of github/label_write names entity type Repository"}},
		{"target in nothing", func(in *policy.Types) {
			in.Schema.Text = []byte(strings.ReplaceAll(ownSchema, "Repository in [Org]", "Repository"))
		}, []string{"servers/github.yaml: tools.label_write.resource.in: the resource of github/label_write is in Org, and no Repository can be"}},
		{"tool twice", func(in *policy.Types) { in.Contracts = append(in.Contracts, in.Contracts[0]) },
			[]string{"servers/payments.yaml: tools.create_payment: tool payments/create_payment is declared twice"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := testTypes(t)
			c.change(&in)
			start := time.Now()
			s, faults := policy.NewSchema(in)
			if s != nil || len(faults) == 0 {
				t.Fatalf("accepted: %v", faults)
			}
			got := lines(faults)
			for _, want := range c.want {
				if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
				}
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestCheckEntity(t *testing.T) {
	s := testSchema(t)
	record := func(kv ...any) types.Record {
		m := types.RecordMap{}
		for i := 0; i < len(kv); i += 2 {
			m[types.String(kv[i].(string))] = kv[i+1].(types.Value)
		}
		return types.NewRecord(m)
	}
	uid := func(t, id string) types.EntityUID { return types.NewEntityUID(types.EntityType(t), types.String(id)) }
	supplier := record("status", types.String("active"), "currency", types.String("GBP"),
		"limit_gbp", decimal(t, "1.0"), "onboarded_by", uid("User", "olga"))
	for _, c := range []struct {
		name string
		e    types.Entity
		want string // part of the error; empty: none
	}{
		{"sound", types.Entity{UID: uid("Supplier", "A"), Attributes: supplier}, ""},
		{"bare", types.Entity{UID: uid("User", "dana")}, ""},
		{"tenant", types.Entity{UID: uid("User", "dana"), Attributes: record("tenant", types.String("acme"))}, ""},
		{"in a group", types.Entity{UID: uid("User", "dana"), Parents: types.NewEntityUIDSet(uid("Group", "g"))}, ""},
		{"value", types.Entity{UID: uid("State", "open")}, ""},
		{"undeclared", types.Entity{UID: uid("Suplier", "A")}, "did you mean Supplier?"},
		{"reserved", types.Entity{UID: uid("Tool", "a/b")}, "Writ makes them"},
		{"action", types.Entity{UID: uid("Action", "read")}, "Writ makes them"},
		{"path", types.Entity{UID: uid("Path", "/")}, "Writ makes them"},
		{"lacking", types.Entity{UID: uid("Supplier", "A")}, "missing required attribute"},
		{"beyond", types.Entity{UID: uid("User", "dana"), Attributes: record("admin", types.True)}, `unexpected attribute "admin"`},
		{"mistyped", types.Entity{UID: uid("User", "dana"), Attributes: record("tenant", types.Long(1))}, `"tenant": expected String, got Long`},
		{"parent", types.Entity{UID: uid("User", "dana"), Parents: types.NewEntityUIDSet(uid("Org", "o"))}, "declare `entity User in [Org]`"},
		{"tag", types.Entity{UID: uid("User", "dana"), Tags: record("a", types.True)}, "does not allow tags"},
		{"no value", types.Entity{UID: uid("State", "opn")}, "open, paid"},
		{"value with attributes", types.Entity{UID: uid("State", "open"), Attributes: record("a", types.True)}, "no attributes"},
		{"attribute with no value", types.Entity{UID: uid("Invoice", "I"), Attributes: record(
			"supplier", uid("Supplier", "A"), "state", uid("State", "opn"))}, "open, paid"},
	} {
		err := s.CheckEntity(c.e)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), c.e.UID.String()) {
			t.Errorf("%s: %v doesn't say which entity", c.name, err)
		}
	}
}

func TestStatic(t *testing.T) {
	s := testSchema(t)
	want := map[types.EntityUID]types.Entity{
		types.NewEntityUID("Server", "payments"): {
			Attributes: types.NewRecord(types.RecordMap{
				"endpoint": types.String("https://mcp.payments.acme.example"), "owner": types.String("treasury@acme.example"),
				"redeemed_by": types.NewEntityUID("Caller", "payments"),
			}),
		},
		types.NewEntityUID("Tool", "payments/create_payment"): {
			Parents: types.NewEntityUIDSet(types.NewEntityUID("Server", "payments")),
			Attributes: types.NewRecord(types.RecordMap{
				"server": types.NewEntityUID("Server", "payments"), "name": types.String("create_payment"),
				"effect": types.String("write"), "scope": types.String("payments:create"),
				"version": types.String("2.1"), "reversible": types.False,
			}),
		},
		action("github/label_write#delete"): {Parents: types.NewEntityUIDSet(
			action("github"), action("github/label_write"), action("github:write"), action("write"))},
		action("approve:files/search"):      {Parents: types.NewEntityUIDSet(action("approve"))},
		action("write"):                     {},
		types.NewEntityUID("State", "open"): {},
	}
	for uid, e := range want {
		e.UID = uid
		got, ok := s.Static(uid)
		if !ok || !got.Equal(e) {
			t.Errorf("%s is %v, want %v", uid, got, e)
		}
	}
	v := validator(t, s)
	for uid := range want {
		e, _ := s.Static(uid)
		if err := v.Entity(e); err != nil {
			t.Errorf("Cedar's validator refuses %s: %v", uid, err)
		}
	}
	for _, uid := range []types.EntityUID{types.NewEntityUID("User", "dana"), action("payments/none"), types.NewEntityUID("State", "x")} {
		if e, ok := s.Static(uid); ok {
			t.Errorf("made %v of nothing", e)
		}
	}
}
