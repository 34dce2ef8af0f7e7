package contract_test

import (
	"slices"
	"testing"

	"github.com/writ-pdp/writ/contract"
)

const tellingSchema = `{"type":"object","required":["method"],"properties":{
	"method":{"type":"string","enum":["a","b"]},"account":{"type":"string"},"branch":{"type":"string"},"a/b":{"type":"string"},
	"who":{"type":"object","properties":{"name":{"type":"string"},"pin":{"type":"string"}}},
	"rows":{"type":"array","items":{"type":"object","required":["id","note"],"properties":{"id":{"type":"string"},"note":{"type":"string"}}}},
	"free":{"type":"object"}}}`

// TestTelling: what records may tell and what is secret, by JSON Pointer.
func TestTelling(t *testing.T) {
	c := make1(t, tellingSchema, contract.Review{
		Effect: "read", Opaque: []string{"free"}, Undeclared: "allow",
		Loggable: []string{"branch", "a/b", "who.name", "free"}, Secret: []string{"who.pin", "account", "rows[].id"},
	})
	if want := []string{"/a~1b", "/branch", "/free", "/who/name"}; !slices.Equal(c.Loggable, want) {
		t.Errorf("loggable %q, want %q", c.Loggable, want)
	}
	if want := []string{"account", "rows[].id", "who.pin"}; !slices.Equal(c.Secret, want) {
		t.Errorf("secret %q, want %q", c.Secret, want)
	}
	for pointer, want := range map[string]bool{
		"/account": true, "/account/x": true, "/branch": false, "/a~1b": false, "/method": false,
		"/who": true, "/who/pin": true, "/who/pin/0": true, "/who/name": false, "/who/age": false,
		"/rows": true, "/rows/0": true, "/rows/17/id": true, "/rows/0/note": false, "/free": false, "/free/x": false,
		"":       true,                                                                     // all of them
		"/other": true, "/a/b": true, "/a~0b": true, "account": true, "/": true, "#": true, // nobody declared it, or it is no pointer
	} {
		if got := c.IsSecret(pointer); got != want {
			t.Errorf("%q is secret: %t, want %t", pointer, got, want)
		}
	}
	plain := make1(t, tellingSchema, contract.Review{Effect: "read", Opaque: []string{"free"}})
	if plain.IsSecret("") || plain.IsSecret("/account") || !plain.IsSecret("/other") || plain.Loggable != nil || plain.Secret != nil {
		t.Errorf("without a word: %+v", plain)
	}
	var zero contract.Contract
	if !zero.IsSecret("/account") {
		t.Error("the zero contract tells")
	}
}

// TestSecretTargets: whether a secret is part of what calls are about.
func TestSecretTargets(t *testing.T) {
	for _, tc := range []struct {
		name     string
		secret   string
		resource *contract.Resource
		want     bool
	}{
		{"the tool itself", "account", nil, false},
		{"part of the id", "account", &contract.Resource{Entity: "Account", ID: "{branch}-{account}"}, true},
		{"part of a parent", "branch", &contract.Resource{Entity: "Account", ID: "{account}", In: map[string]string{"Branch": "{branch}"}}, true},
		{"no part of it", "branch", &contract.Resource{Entity: "Account", ID: "{account}"}, false},
		{"what holds it", "who", &contract.Resource{Entity: "Person", ID: "{who.name}"}, true},
		{"beside it", "who.pin", &contract.Resource{Entity: "Person", ID: "{who.name}"}, false},
		{"in an array", "rows", &contract.Resource{Path: []string{"rows[].id"}}, true},
		{"in each element", "rows[].id", &contract.Resource{Path: []string{"rows[].id"}}, true},
		{"one of several", "account", &contract.Resource{Host: []string{"branch", "account"}}, true},
	} {
		c := make1(t, tellingSchema, contract.Review{Effect: "read", Opaque: []string{"free"}, Secret: []string{tc.secret}, Resource: tc.resource})
		if got := c.SecretTargets(); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
	}
	// A line of the server's counts as one of the tool's own does.
	c := make1(t, tellingSchema, contract.Review{Effect: "read", Opaque: []string{"free"}, Secret: []string{"account"}},
		contract.Resource{Entity: "Account", ID: "{account}"})
	if !c.SecretTargets() {
		t.Error("a server's line tells")
	}
}

// TestTellingRefuses: names that are none, and words that contradict each other.
func TestTellingRefuses(t *testing.T) {
	review := func(loggable, secret []string) contract.Review {
		return contract.Review{Effect: "read", Opaque: []string{"free"}, Loggable: loggable, Secret: secret}
	}
	for _, tc := range []struct {
		name           string
		defaults, tool contract.Review
		method         string
		field, message string
	}{
		{name: "loggable nothing", tool: review([]string{"acount"}, nil), field: "tools.t.loggable[0]", message: `did you mean "account"?`},
		{name: "secret nothing", tool: review(nil, []string{"branch", "acount"}), field: "tools.t.secret[1]", message: `did you mean "account"?`},
		{name: "loggable twice", tool: review([]string{"account", "account"}, nil), field: "tools.t.loggable[1]", message: "twice"},
		{name: "secret twice", tool: review(nil, []string{"account", "account"}), field: "tools.t.secret[1]", message: "twice"},
		{name: "loggable in an array", tool: review([]string{"rows[].id"}, nil), field: "tools.t.loggable[0]", message: "name the array"},
		{name: "both", tool: review([]string{"branch", "account"}, []string{"account"}), field: "tools.t.loggable[1]", message: "keep one of them"},
		{name: "loggable with a secret in it", tool: review([]string{"who"}, []string{"who.pin"}), field: "tools.t.loggable[0]", message: `"who.pin", which is secret`},
		{name: "loggable with a secret in its elements", tool: review([]string{"rows"}, []string{"rows[].id"}), field: "tools.t.loggable[0]", message: "keep one of them"},
		{name: "loggable in a secret", tool: review([]string{"who.name"}, []string{"who"}), field: "tools.t.loggable[0]", message: "keep one of them"},
		{name: "both in the defaults", defaults: contract.Review{Loggable: []string{"account"}, Secret: []string{"account"}}, tool: review(nil, nil),
			field: "defaults.loggable[0]", message: "keep one of them"},
		{name: "loggable what the defaults keep secret", defaults: contract.Review{Secret: []string{"account"}}, tool: review([]string{"account"}, nil),
			field: "tools.t.loggable[0]", message: "keep one of them"},
		{name: "a default secret that applies nowhere", defaults: contract.Review{Secret: []string{"acount"}}, tool: review(nil, nil),
			field: "defaults.secret[0]", message: `did you mean "account"?`},
		{name: "a secret method", tool: review(nil, []string{"method"}), method: "method", field: "tools.t.secret[0]", message: "records name the action"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.tool.MethodArgument = tc.method
			d := remote("t", tc.tool)
			d.Defaults = tc.defaults
			made, faults, _ := contract.New(d, toolList(define(t, "t", tellingSchema)))
			if made != nil || !has(faults, tc.field, tc.message) {
				t.Errorf("%d contracts, faults:\n%v\nwant %s: …%s…", len(made), faults, tc.field, tc.message)
			}
		})
	}
}

// TestTellingDefaults: the lists add up, and the tool's own secret replaces
// what the defaults call loggable.
func TestTellingDefaults(t *testing.T) {
	d := remote("t", contract.Review{Effect: "read", Opaque: []string{"free"}, Loggable: []string{"who.name"}, Secret: []string{"account"}})
	d.Defaults = contract.Review{Loggable: []string{"branch", "account", "gone"}, Secret: []string{"who.pin"}}
	made, faults, warnings := contract.New(d, toolList(define(t, "t", tellingSchema)))
	if faults != nil {
		t.Fatal(faults)
	}
	if c := made[0]; !slices.Equal(c.Loggable, []string{"/branch", "/who/name"}) || !slices.Equal(c.Secret, []string{"account", "who.pin"}) {
		t.Errorf("loggable %q, secret %q", c.Loggable, c.Secret)
	}
	if !has(warnings, "defaults.loggable[2]", "no tool has an argument") {
		t.Errorf("warnings: %v", warnings)
	}
}
