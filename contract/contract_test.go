package contract_test

import (
	"slices"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

const methodSchema = `{"type":"object","required":["method"],"properties":{"method":{"type":"string","enum":["list","update","delete"]}}}`

func TestActions(t *testing.T) {
	plain := make1(t, methodSchema, contract.Review{Effect: "write", Reversible: ptr(true), Scope: ptr("repo")})
	if id, rule := plain.Action(args(t, `{"method":"delete"}`)); id != "s/t" || rule != (contract.MethodRule{Effect: writ.Write, Reversible: true, Scope: "repo"}) {
		t.Errorf("a tool without methods: %q %+v", id, rule)
	}
	if got := plain.Actions(); !slices.Equal(got, []string{"s/t"}) {
		t.Errorf("its actions: %q", got)
	}
	c := make1(t, methodSchema, contract.Review{Effect: "write", Reversible: ptr(true), Scope: ptr("repo"), Methods: map[string]contract.Method{
		"delete": {Reversible: ptr(false), Scope: ptr("delete")}, "list": {Effect: "read", Scope: ptr("")},
	}})
	want := map[string]contract.MethodRule{
		"list":   {Effect: writ.Read, Reversible: true, Scope: ""},
		"update": {Effect: writ.Write, Reversible: true, Scope: "repo"},
		"delete": {Effect: writ.Write, Reversible: false, Scope: "delete"},
	}
	if got := c.Actions(); !slices.Equal(got, []string{"s/t#delete", "s/t#list", "s/t#update"}) {
		t.Errorf("actions: %q", got)
	}
	if len(c.Methods) != len(want) || c.MethodArgument != "method" || c.ID() != "s/t" {
		t.Errorf("methods %v of %q of %q", c.Methods, c.MethodArgument, c.ID())
	}
	for name, rule := range want {
		id, got := c.Action(args(t, `{"method":"`+name+`"}`))
		if id != "s/t#"+name || got != rule || c.Methods[name] != rule {
			t.Errorf("%s: %q %+v and %+v, want %+v", name, id, got, c.Methods[name], rule)
		}
	}
	for _, bad := range []string{`{}`, `{"method":"destroy"}`, `{"method":["list"]}`, `{"method":"List"}`} {
		if id, rule := c.Action(args(t, bad)); id != "" || rule != (contract.MethodRule{Effect: writ.Write}) {
			t.Errorf("%s: %q %+v, want no action and the strictest rule", bad, id, rule)
		}
	}
}

// TestIrreversibleByDefault: a method that becomes a write is irreversible
// unless somebody says otherwise, whatever a read of the same tool is.
func TestIrreversibleByDefault(t *testing.T) {
	c := make1(t, methodSchema, contract.Review{Effect: "write", NoEvidence: "none", Methods: map[string]contract.Method{"list": {Effect: "read"}}})
	if c.Methods["update"].Reversible || !c.Methods["list"].Reversible {
		t.Errorf("got %+v", c.Methods)
	}
}

func TestActionAllocatesNothing(t *testing.T) {
	plain := make1(t, methodSchema, contract.Review{Effect: "read"})
	several := make1(t, methodSchema, contract.Review{Effect: "read", MethodArgument: "method"})
	a := args(t, `{"method":"delete"}`)
	if n := testing.AllocsPerRun(100, func() { plain.Action(a); several.Action(a) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestZeroContract: a contract that New did not make refuses every call.
func TestZeroContract(t *testing.T) {
	var c contract.Contract
	if f := c.Validate(nil); f == nil || f.Code != writ.CodeInvalidArguments {
		t.Errorf("Validate: %v", f)
	}
	if id, rule := c.Action(nil); id != "" || rule.Effect == writ.Read || rule.Effect == writ.Pure || rule.Reversible {
		t.Errorf("Action: %q %+v", id, rule)
	}
}

// TestDefaults: what lies under a tool's review and what replaces it.
func TestDefaults(t *testing.T) {
	const schema = `{"type":"object","properties":{"body":{"type":"string"},"page":{"type":"number"},"private":{"type":"boolean"},"owner":{"type":"string"},"x":{"type":"object"}}}`
	line := contract.EvidenceLine{From: []writ.SourceKind{writ.SourceHuman}}
	d := remote("t", contract.Review{})
	d.Defaults = contract.Review{
		Effect: "write", Reversible: ptr(true), Scope: ptr("repo"), Intent: "required", Undeclared: "allow", DecideAt: "server",
		Opaque:      []string{"body", "absent"},
		Arguments:   map[string]contract.Argument{"page": {Long: true}, "absent": {Long: true}},
		WhenAbsent:  map[string]any{"private": false, "absent": true},
		Evidence:    map[string]contract.EvidenceLine{"owner": line},
		ReviewShows: []string{"owner", "absent"},
	}
	inherits := makeAll(t, withTool(d, contract.Review{Opaque: []string{"x"}}), define(t, "t", schema))["t"]
	if got, want := render(inherits.Arguments), "{body?: opaque, owner?: String, page?: Long, private=false: Bool, x?: opaque}"; got != want {
		t.Errorf("types %s, want %s", got, want)
	}
	if inherits.Effect != writ.Write || !inherits.Reversible || inherits.Scope != "repo" || !inherits.IntentRequired ||
		!inherits.UndeclaredAllowed || inherits.DecideAt != "server" || len(inherits.Evidence) != 1 ||
		!slices.Equal(inherits.ReviewShows, []string{"/owner"}) || !slices.Equal(inherits.Opaque, []string{"body", "x"}) {
		t.Errorf("inherits %+v", inherits)
	}
	replaces := makeAll(t, withTool(d, contract.Review{
		Effect: "read", Reversible: ptr(false), Scope: ptr(""), Undeclared: "refuse", DecideAt: "pdp", Opaque: []string{"x"},
		Arguments: map[string]contract.Argument{"owner": {Entity: "Org"}}, WhenAbsent: map[string]any{"private": true},
		NoEvidence: "a read", ReviewShows: []string{"page"},
	}), define(t, "t", schema))["t"]
	if got, want := render(replaces.Arguments), "{body?: opaque, owner?: <Org>, page?: Long, private=true: Bool, x?: opaque}"; got != want {
		t.Errorf("types %s, want %s", got, want)
	}
	if replaces.Effect != writ.Read || replaces.Reversible || replaces.Scope != "" || replaces.UndeclaredAllowed ||
		replaces.DecideAt != "pdp" || len(replaces.Evidence) != 0 || replaces.NoEvidence != "a read" ||
		!slices.Equal(replaces.ReviewShows, []string{"/page"}) {
		t.Errorf("replaces %+v", replaces)
	}
}

func withTool(d contract.Declaration, r contract.Review) contract.Declaration {
	d.Tools = map[string]contract.Review{"t": r}
	return d
}
