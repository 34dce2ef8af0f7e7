package contract_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
)

const digestSchema = `{"type":"object","required":["method","owner"],"properties":{
	"method":{"type":"string","enum":["a","b"]},"owner":{"type":"string"},"repo":{"type":"string"},
	"page":{"type":"number"},"limit":{"type":"number"},"urgent":{"type":"boolean"},"body":{"type":"string"},"more":{"type":"string"},
	"invoice":{"type":"string"},"source":{"type":"string"},"target":{"type":"string"},"h":{"type":"string"},"u":{"type":"string"},"e":{"type":"string"}}}`

// full returns a declaration in which everything is said, with the defaults
// under one tool.
func full() contract.Declaration {
	return contract.Declaration{
		ID: "s", Endpoint: "https://s.example/mcp", Audience: "https://s.example/mcp", Version: "1", Owner: "o", Provenance: "p",
		Token: "required", RedeemedBy: "guard", Classifications: []string{"internal", "public"}, Purposes: []string{"x", "y"},
		Tools: map[string]contract.Review{"t": {
			Effect: "write", Reversible: ptr(false), Scope: ptr("scope"), Intent: "required",
			MethodArgument: "method", Methods: map[string]contract.Method{"b": {Effect: "read", Reversible: ptr(true), Scope: ptr("other")}},
			Resource:    &contract.Resource{Entity: "Repository", ID: "{owner}", In: map[string]string{"Org": "{owner}"}, Fold: "ascii", MayBeNew: true},
			Opaque:      []string{"body", "more"},
			Arguments:   map[string]contract.Argument{"invoice": {Entity: "Invoice", MayBeNew: true}, "page": {Long: true}},
			WhenAbsent:  map[string]any{"urgent": false},
			Evidence:    map[string]contract.EvidenceLine{"owner": {From: []writ.SourceKind{"human", "user"}, Fresh: time.Hour, Independent: 2}},
			ReviewShows: []string{"owner", "body"},
			Loggable:    []string{"limit", "page"},
			Secret:      []string{"invoice", "source"},
			Postconditions: &contract.Postconditions{Observer: "s", Tool: "get", Within: time.Second, Checks: []contract.Check{
				{At: "/a", Equals: "/arguments/page", Tolerance: "0.1"}, {At: "/b", In: []any{"x", json.Number("1"), true}}, {At: "/c", Present: ptr(true)},
			}},
			OnChange: "strict", DecideAt: "server", Undeclared: "allow",
		}},
	}
}

func digestOf(t testing.TB, d contract.Declaration) canon.Digest {
	t.Helper()
	// A tool that nobody reviewed has the argument of a line that never applies.
	return makeAll(t, d, define(t, "t", digestSchema), define(t, "unreviewed", `{"type":"object","properties":{"nothing":{"type":"string"}}}`))["t"].Digest
}

// tool changes the one tool of a declaration.
func tool(change func(*contract.Review)) func(*contract.Declaration) {
	return func(d *contract.Declaration) {
		r := d.Tools["t"]
		change(&r)
		d.Tools["t"] = r
	}
}

func local(d *contract.Declaration) {
	d.Endpoint, d.PackageHash, d.Package, d.Command = "", "sha256:"+strings.Repeat("0", 64), "npm:s", []string{"npx", "s"}
}

func paths(d *contract.Declaration) {
	tool(func(r *contract.Review) {
		r.Resource = &contract.Resource{Path: []string{"source", "target"}, Within: []string{"/a", "/b"}, Base: "/a", Case: "sensitive"}
	})(d)
}

// flips holds for each exported field that a digest is about how to change it,
// sometimes after an arrangement in which it means something.
var flips = map[string]struct{ arrange, flip func(*contract.Declaration) }{
	"Declaration.ID":                {flip: func(d *contract.Declaration) { d.ID = "s2" }},
	"Declaration.Endpoint":          {flip: func(d *contract.Declaration) { d.Endpoint = "https://s.example/mcp2" }},
	"Declaration.PackageHash":       {local, func(d *contract.Declaration) { d.PackageHash = "sha256:" + strings.Repeat("1", 64) }},
	"Declaration.Audience":          {flip: func(d *contract.Declaration) { d.Audience = "a" }},
	"Declaration.Version":           {flip: func(d *contract.Declaration) { d.Version = "2" }},
	"Declaration.RedeemedBy":        {flip: func(d *contract.Declaration) { d.RedeemedBy = "other" }},
	"Declaration.Classifications":   {flip: func(d *contract.Declaration) { d.Classifications = []string{"internal"} }},
	"Declaration.Purposes":          {flip: func(d *contract.Declaration) { d.Purposes = []string{"x", "z"} }},
	"Declaration.ProofOfPossession": {flip: func(d *contract.Declaration) { d.ProofOfPossession = true }},
	"Declaration.Token": {
		func(d *contract.Declaration) {
			d.Audience = ""
			tool(func(r *contract.Review) {
				r.Scope = nil
				r.Methods = map[string]contract.Method{"b": {Effect: "read"}}
			})(d)
		},
		func(d *contract.Declaration) { d.Token = "none" },
	},
	"Declaration.Valid": {flip: func(d *contract.Declaration) { d.Valid = &contract.Window{From: time.Unix(1, 0)} }},
	"Declaration.Resources": {
		tool(func(r *contract.Review) { r.Resource = nil }),
		func(d *contract.Declaration) { d.Resources = []contract.Resource{{Entity: "X", ID: "{owner}"}} },
	},
	"Declaration.Defaults": {flip: func(d *contract.Declaration) { d.Defaults.Opaque = []string{"limit"} }},
	"Declaration.Tools":    {flip: tool(func(r *contract.Review) { r.Effect, r.Postconditions, r.Methods = "read", nil, nil })},

	"Review.Valid":          {flip: tool(func(r *contract.Review) { r.Valid = &contract.Window{From: time.Unix(2, 0)} })},
	"Window.From":           {tool(func(r *contract.Review) { r.Valid = &contract.Window{From: time.Unix(2, 0)} }), tool(func(r *contract.Review) { r.Valid.From = time.Unix(3, 0) })},
	"Window.Until":          {tool(func(r *contract.Review) { r.Valid = &contract.Window{Until: time.Unix(2, 0)} }), tool(func(r *contract.Review) { r.Valid.Until = time.Unix(3, 0) })},
	"Review.Effect":         {tool(func(r *contract.Review) { r.Postconditions, r.Methods = nil, nil }), tool(func(r *contract.Review) { r.Effect = "read" })},
	"Review.Reversible":     {flip: tool(func(r *contract.Review) { r.Reversible = ptr(true) })},
	"Review.Scope":          {flip: tool(func(r *contract.Review) { r.Scope = nil })},
	"Review.Intent":         {flip: tool(func(r *contract.Review) { r.Intent = "" })},
	"Review.MethodArgument": {tool(func(r *contract.Review) { r.Methods = nil }), tool(func(r *contract.Review) { r.MethodArgument = "" })},
	"Review.Methods":        {flip: tool(func(r *contract.Review) { r.Methods = nil })},
	"Review.Resource":       {flip: tool(func(r *contract.Review) { r.Resource = nil })},
	"Review.Opaque":         {flip: tool(func(r *contract.Review) { r.Opaque = []string{"body"} })},
	"Review.Arguments":      {flip: tool(func(r *contract.Review) { r.Arguments = nil })},
	"Review.WhenAbsent":     {flip: tool(func(r *contract.Review) { r.WhenAbsent = map[string]any{"urgent": true} })},
	"Review.Evidence":       {flip: tool(func(r *contract.Review) { r.Evidence = nil })},
	"Review.ReviewShows":    {flip: tool(func(r *contract.Review) { r.ReviewShows = []string{"body", "owner"} })},
	"Review.Loggable":       {flip: tool(func(r *contract.Review) { r.Loggable = []string{"page"} })},
	"Review.Secret":         {flip: tool(func(r *contract.Review) { r.Secret = []string{"invoice"} })},
	"Review.Postconditions": {flip: tool(func(r *contract.Review) { r.Postconditions = nil })},
	"Review.DecideAt":       {flip: tool(func(r *contract.Review) { r.DecideAt = "" })},
	"Review.Grant":          {tool(func(r *contract.Review) { r.DecideAt = "" }), tool(func(r *contract.Review) { r.Grant = "always" })},
	"Review.Undeclared":     {flip: tool(func(r *contract.Review) { r.Undeclared = "" })},

	"Resource.Entity":   {flip: tool(func(r *contract.Review) { r.Resource.Entity = "R" })},
	"Resource.ID":       {flip: tool(func(r *contract.Review) { r.Resource.ID = "x{owner}" })},
	"Resource.In":       {flip: tool(func(r *contract.Review) { r.Resource.In = map[string]string{"Org": "x"} })},
	"Resource.Fold":     {flip: tool(func(r *contract.Review) { r.Resource.Fold = "" })},
	"Resource.MayBeNew": {flip: tool(func(r *contract.Review) { r.Resource.MayBeNew = false })},
	"Resource.Path":     {paths, tool(func(r *contract.Review) { r.Resource.Path = []string{"target", "source"} })},
	"Resource.Within":   {paths, tool(func(r *contract.Review) { r.Resource.Within = []string{"/a"} })},
	"Resource.Base":     {paths, tool(func(r *contract.Review) { r.Resource.Base = "" })},
	"Resource.Case":     {paths, tool(func(r *contract.Review) { r.Resource.Case = "insensitive" })},
	"Resource.Host": {tool(func(r *contract.Review) { r.Resource = &contract.Resource{Host: []string{"h"}} }),
		tool(func(r *contract.Review) { r.Resource.Host = []string{"u"} })},
	"Resource.URL": {tool(func(r *contract.Review) { r.Resource = &contract.Resource{URL: []string{"h"}} }),
		tool(func(r *contract.Review) { r.Resource.URL = []string{"u"} })},
	"Resource.Email": {tool(func(r *contract.Review) { r.Resource = &contract.Resource{Email: []string{"h"}} }),
		tool(func(r *contract.Review) { r.Resource.Email = []string{"u"} })},

	"Method.Effect": {flip: tool(func(r *contract.Review) {
		r.Methods["b"] = contract.Method{Reversible: ptr(true), Scope: ptr("other")}
	})},
	"Method.Reversible": {flip: tool(func(r *contract.Review) {
		r.Methods["b"] = contract.Method{Effect: "read", Scope: ptr("other")}
	})},
	"Method.Scope": {flip: tool(func(r *contract.Review) {
		r.Methods["b"] = contract.Method{Effect: "read", Reversible: ptr(true)}
	})},

	"Argument.Entity":   {flip: setArgument("invoice", contract.Argument{Entity: "Bill", MayBeNew: true})},
	"Argument.MayBeNew": {flip: setArgument("invoice", contract.Argument{Entity: "Invoice"})},
	"Argument.Long":     {flip: setArgument("limit", contract.Argument{Long: true})},
	"Argument.BoundTo": {
		tool(func(r *contract.Review) { r.Arguments["invoice"] = contract.Argument{Entity: "Invoice"} }),
		setArgument("invoice", contract.Argument{Entity: "Invoice", BoundTo: "owner"}),
	},
	"Argument.Opaque": {flip: setArgument("limit", contract.Argument{Opaque: true})},

	"EvidenceLine.From":        {flip: setEvidence(contract.EvidenceLine{From: []writ.SourceKind{"user"}, Fresh: time.Hour, Independent: 2})},
	"EvidenceLine.Fresh":       {flip: setEvidence(contract.EvidenceLine{From: []writ.SourceKind{"human", "user"}, Fresh: time.Minute, Independent: 2})},
	"EvidenceLine.Independent": {flip: setEvidence(contract.EvidenceLine{From: []writ.SourceKind{"human", "user"}, Fresh: time.Hour})},

	"Postconditions.Observer": {flip: tool(func(r *contract.Review) { r.Postconditions.Observer = "o" })},
	"Postconditions.Tool":     {flip: tool(func(r *contract.Review) { r.Postconditions.Tool = "o" })},
	"Postconditions.Within":   {flip: tool(func(r *contract.Review) { r.Postconditions.Within = time.Minute })},
	"Postconditions.Checks":   {flip: tool(func(r *contract.Review) { r.Postconditions.Checks = r.Postconditions.Checks[:2] })},

	"Check.At":        {flip: tool(func(r *contract.Review) { r.Postconditions.Checks[0].At = "/z" })},
	"Check.Equals":    {flip: tool(func(r *contract.Review) { r.Postconditions.Checks[0].Equals = "/arguments/owner" })},
	"Check.Tolerance": {flip: tool(func(r *contract.Review) { r.Postconditions.Checks[0].Tolerance = "" })},
	"Check.In":        {flip: tool(func(r *contract.Review) { r.Postconditions.Checks[1].In = []any{"x", json.Number("2"), true} })},
	"Check.Present":   {flip: tool(func(r *contract.Review) { r.Postconditions.Checks[2].Present = ptr(false) })},
}

// undigested are the fields that no digest covers, and why.
var undigested = map[string]string{
	"Declaration.Owner":      "for people; design.md does not list it",
	"Declaration.Provenance": "for people; design.md does not list it",
	"Declaration.Package":    "where a package came from; its identity is the hash",
	"Declaration.Command":    "how a package is started; its identity is the hash",
	"Review.NoEvidence":      "silences a warning; no decision reads it",
	"Review.OnChange":        "strict is the only word that it can hold",
	"Review.Partial":         "New makes no contract of a partial declaration",
	"Resource.Partial":       "New makes no contract of a partial declaration",
}

func setArgument(name string, a contract.Argument) func(*contract.Declaration) {
	return tool(func(r *contract.Review) { r.Arguments[name] = a })
}

func setEvidence(e contract.EvidenceLine) func(*contract.Declaration) {
	return tool(func(r *contract.Review) { r.Evidence["owner"] = e })
}

// TestDigestCoversEverything goes through every exported field of what a
// reviewer can declare: changing it changes the digest, or a reason says why not.
func TestDigestCoversEverything(t *testing.T) {
	var names []string
	for _, v := range []any{
		contract.Declaration{}, contract.Review{}, contract.Resource{}, contract.Method{}, contract.Argument{},
		contract.EvidenceLine{}, contract.Postconditions{}, contract.Check{}, contract.Window{},
	} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			names = append(names, typ.Name()+"."+typ.Field(i).Name)
		}
	}
	for _, name := range names {
		flip, covered := flips[name]
		reason, excluded := undigested[name]
		switch {
		case covered == excluded:
			t.Errorf("%s: covered %v, excluded %v: say one", name, covered, excluded)
			continue
		case excluded:
			if reason == "" {
				t.Errorf("%s: no reason", name)
			}
			continue
		}
		before, after := full(), full()
		if flip.arrange != nil {
			flip.arrange(&before)
			flip.arrange(&after)
		}
		if first, again := digestOf(t, before), digestOf(t, before); first != again {
			t.Fatalf("%s: the digest is not a function of the declaration", name)
		}
		flip.flip(&after)
		if digestOf(t, before) == digestOf(t, after) {
			t.Errorf("%s: a change leaves the digest as it is", name)
		}
	}
	for name := range flips {
		if !slices.Contains(names, name) {
			t.Errorf("%s is no field", name)
		}
	}
}

// TestUndigested: what is excluded does not change the digest.
func TestUndigested(t *testing.T) {
	for name, change := range map[string]func(*contract.Declaration){
		"Declaration.Owner":      func(d *contract.Declaration) { d.Owner = "somebody" },
		"Declaration.Provenance": func(d *contract.Declaration) { d.Provenance = "somewhere" },
		"Declaration.Package":    func(d *contract.Declaration) { d.Package = "npm:other" },
		"Declaration.Command":    func(d *contract.Declaration) { d.Command = []string{"node"} },
		"Review.NoEvidence":      tool(func(r *contract.Review) { r.NoEvidence = "another reason" }),
		"Review.OnChange":        tool(func(r *contract.Review) { r.OnChange = "" }),
	} {
		before, after := full(), full()
		for _, d := range []*contract.Declaration{&before, &after} {
			local(d)
			tool(func(r *contract.Review) { r.Evidence, r.NoEvidence = nil, "a reason" })(d)
		}
		change(&after)
		if digestOf(t, before) != digestOf(t, after) {
			t.Errorf("%s changes the digest", name)
		}
	}
}

// TestDigestOfDefaults: what is spelled out and what is left to a default, or
// said in the defaults, is the same contract.
func TestDigestOfDefaults(t *testing.T) {
	for _, tc := range []struct {
		name          string
		spelled, left contract.Declaration
	}{
		{"words that are defaults",
			contract.Declaration{ID: "s", Endpoint: "https://s.example/", Audience: "https://s.example/", Token: "required", RedeemedBy: "s",
				Resources: []contract.Resource{{Path: []string{"source"}, Case: "sensitive"}},
				Tools: map[string]contract.Review{"t": {
					Effect: "write", Reversible: ptr(false), Scope: ptr(""), OnChange: "strict", DecideAt: "pdp", Undeclared: "refuse",
					MethodArgument: "method", Methods: map[string]contract.Method{"a": {Effect: "write"}},
					Evidence: map[string]contract.EvidenceLine{"owner": {From: []writ.SourceKind{"user", "human"}, Independent: 1}},
				}}},
			contract.Declaration{ID: "s", Endpoint: "https://s.example/", Resources: []contract.Resource{{Path: []string{"source"}}},
				Tools: map[string]contract.Review{"t": {
					Effect: "write", Methods: map[string]contract.Method{"b": {Effect: "write"}},
					Evidence: map[string]contract.EvidenceLine{"owner": {From: []writ.SourceKind{"human", "user"}}},
				}}},
		},
		{"said in the defaults",
			contract.Declaration{ID: "s", Endpoint: "https://s.example/", Tools: map[string]contract.Review{"t": {
				Effect: "read", Scope: ptr("x"), Opaque: []string{"body", "more"}, Arguments: map[string]contract.Argument{"page": {Long: true}},
				WhenAbsent: map[string]any{"urgent": false}, Resource: &contract.Resource{Entity: "Org", ID: "{owner}"},
			}}},
			contract.Declaration{ID: "s", Endpoint: "https://s.example/",
				Resources: []contract.Resource{{Entity: "None", ID: "{nothing}"}, {Entity: "Org", ID: "{owner}"}},
				Defaults: contract.Review{
					Effect: "read", Scope: ptr("x"), Opaque: []string{"more", "nothing"}, Arguments: map[string]contract.Argument{"page": {Long: true}, "nothing": {Long: true}},
					WhenAbsent: map[string]any{"urgent": false, "nothing": true},
				},
				Tools: map[string]contract.Review{"t": {Arguments: map[string]contract.Argument{"body": {Opaque: true}}}}},
		},
		{"order of sets",
			contract.Declaration{ID: "s", Endpoint: "https://s.example/", Classifications: []string{"a", "b"}, Purposes: []string{"c", "d"},
				Tools: map[string]contract.Review{"t": {Effect: "read", Opaque: []string{"body", "more"}, Loggable: []string{"page", "limit"}, Secret: []string{"h", "e"}}}},
			contract.Declaration{ID: "s", Endpoint: "https://s.example/", Classifications: []string{"b", "a"}, Purposes: []string{"d", "c"},
				Tools: map[string]contract.Review{"t": {Effect: "read", Opaque: []string{"more", "body"}, Loggable: []string{"limit", "page"}, Secret: []string{"e", "h"}}}},
		},
	} {
		if digestOf(t, tc.spelled) != digestOf(t, tc.left) {
			t.Errorf("%s: the digests differ", tc.name)
		}
	}
}

// TestDigestOfDefinition: another definition is another contract, and nothing
// that is declared about other tools or servers is.
func TestDigestOfDefinition(t *testing.T) {
	d := full()
	one := makeAll(t, d, define(t, "t", digestSchema))["t"].Digest
	other := makeAll(t, d, define(t, "t", digestSchema, `,"description":"x"`))["t"].Digest
	if one == other {
		t.Error("a changed definition leaves the digest as it is")
	}
	d.Tools["second"] = contract.Review{Effect: "read"}
	beside := makeAll(t, d, define(t, "t", digestSchema), define(t, "second", `{"type":"object"}`))["t"].Digest
	if one != beside {
		t.Error("another tool changes the digest")
	}
}

// TestDigestVector pins the digest of a small contract: the form that other
// implementations have to write.
func TestDigestVector(t *testing.T) {
	def, err := definition.Parse([]byte(`{"name":"t","inputSchema":{"type":"object"}}`))
	if err != nil {
		t.Fatal(err)
	}
	d := contract.Declaration{ID: "s", Endpoint: "https://s.example/", Tools: map[string]contract.Review{"t": {Effect: "read"}}}
	text := fmt.Sprintf(`{"definition":%q,"server":{"audience":"https://s.example/","endpoint":"https://s.example/","id":"s","redeemed_by":"s","token_required":true},`+
		`"tool":{"decide_at":"pdp","effect":"read","intent_required":false,"on_change":"strict","reversible":true,"undeclared_allowed":false},"type":"writ.contract.v1"}`, def.Digest)
	if got, want := makeAll(t, d, def)["t"].Digest, canon.Sum([]byte(text)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
