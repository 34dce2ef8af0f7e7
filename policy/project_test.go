package policy_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// field makes a record of one field, x.
func field(t *contract.Type) *contract.Type {
	return &contract.Type{Kind: contract.Record, Fields: []contract.Field{{Name: "x", Type: t}}}
}

// args parses the arguments of a call.
func args(t testing.TB, text string) map[string]any {
	t.Helper()
	m, err := canon.ParseObject([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func decimal(t testing.TB, text string) types.Decimal {
	t.Helper()
	d, err := types.ParseDecimal(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestProjectValues checks each kind's values against Cedar's own: decimals
// have four places and an int64 of ten-thousandths, Longs are int64.
func TestProjectValues(t *testing.T) {
	text := func(k contract.Kind) *contract.Type { return &contract.Type{Kind: k} }
	set := func(elem *contract.Type) *contract.Type { return &contract.Type{Kind: contract.Set, Elem: elem} }
	dec := func(s string) types.Value { return decimal(t, s) }
	const longs, decimals = "must be a whole number", "must be a number with at most four"
	for _, c := range []struct {
		t      *contract.Type
		x      string // JSON
		want   types.Value
		reason string // of INVALID_ARGUMENTS
	}{
		{t: text(contract.String), x: `"Ab"`, want: types.String("Ab")},
		{t: text(contract.String), x: `""`, want: types.String("")},
		{t: text(contract.String), x: `1`, reason: "must be a string"},
		{t: text(contract.String), x: `null`, reason: "null"},
		{t: &contract.Type{Kind: contract.String, Fold: true}, x: `"AbZ-ÄÉ_K"`, want: types.String("abz-ÄÉ_k")}, // a Kelvin sign is no K

		{t: text(contract.Long), x: `0`, want: types.Long(0)},
		{t: text(contract.Long), x: `-0`, want: types.Long(0)},
		{t: text(contract.Long), x: `-5`, want: types.Long(-5)},
		{t: text(contract.Long), x: `1.0`, want: types.Long(1)},
		{t: text(contract.Long), x: `1e3`, want: types.Long(1000)},
		{t: text(contract.Long), x: `9007199254740992`, want: types.Long(9007199254740992)},
		{t: text(contract.Long), x: `9223372036854775000`, want: types.Long(9223372036854775000)}, // RFC 8785's text of the double below 2^63
		{t: text(contract.Long), x: `-9223372036854775000`, want: types.Long(-9223372036854775000)},
		{t: text(contract.Long), x: `9223372036854776000`, reason: longs}, // and of 2^63
		{t: text(contract.Long), x: `-9223372036854776000`, reason: longs},
		{t: text(contract.Long), x: `1e21`, reason: longs},
		{t: text(contract.Long), x: `-1e300`, reason: longs},
		{t: text(contract.Long), x: `1.5`, reason: longs},
		{t: text(contract.Long), x: `1e-7`, reason: longs},
		{t: text(contract.Long), x: `"1"`, reason: longs},
		{t: text(contract.Long), x: `null`, reason: "null"},

		{t: text(contract.Decimal), x: `0`, want: dec("0.0")},
		{t: text(contract.Decimal), x: `900`, want: dec("900.0")},
		{t: text(contract.Decimal), x: `900.0`, want: dec("900.0")},
		{t: text(contract.Decimal), x: `1e3`, want: dec("1000.0")},
		{t: text(contract.Decimal), x: `0.0001`, want: dec("0.0001")},
		{t: text(contract.Decimal), x: `-0.5`, want: dec("-0.5")},
		{t: text(contract.Decimal), x: `500.01`, want: dec("500.01")},
		{t: text(contract.Decimal), x: `922337203685477`, want: dec("922337203685477.0")},
		{t: text(contract.Decimal), x: `-922337203685477`, want: dec("-922337203685477.0")},
		{t: text(contract.Decimal), x: `1.00001`, reason: decimals},
		{t: text(contract.Decimal), x: `1e-5`, reason: decimals},
		{t: text(contract.Decimal), x: `1e-7`, reason: decimals},
		{t: text(contract.Decimal), x: `922337203685478`, reason: decimals},
		{t: text(contract.Decimal), x: `-922337203685478`, reason: decimals},
		{t: text(contract.Decimal), x: `1e21`, reason: decimals},
		{t: text(contract.Decimal), x: `1e300`, reason: decimals},
		{t: text(contract.Decimal), x: `"1.0"`, reason: decimals},
		{t: text(contract.Decimal), x: `null`, reason: "null"},

		{t: text(contract.Bool), x: `true`, want: types.True},
		{t: text(contract.Bool), x: `0`, reason: "must be true or false"},
		{t: text(contract.Bool), x: `null`, reason: "null"},

		{t: &contract.Type{Kind: contract.Entity, Entity: "Supplier"}, x: `"A-1"`, want: types.NewEntityUID("Supplier", "A-1")},
		{t: &contract.Type{Kind: contract.Entity, Entity: "Supplier"}, x: `{"type":"User","id":"root"}`, reason: "must be a string"},
		{t: &contract.Type{Kind: contract.Entity, Entity: "Supplier"}, x: `null`, reason: "null"},

		{t: set(text(contract.String)), x: `[]`, want: types.NewSet()},
		{t: set(text(contract.String)), x: `["b","a","b"]`, want: types.NewSet(types.String("a"), types.String("b"))},
		{t: set(text(contract.String)), x: `["a",1]`, reason: "must be a string"},
		{t: set(text(contract.String)), x: `["a",null]`, reason: "null"},
		{t: set(text(contract.String)), x: `"a"`, reason: "must be an array"},
		{t: set(text(contract.Long)), x: many(1024), want: longSet(1024)},
		{t: set(text(contract.Long)), x: many(1025), reason: "more than 1024"},
		{t: set(set(text(contract.Long))), x: `[[1]]`, reason: "a list inside a list"},
		{t: set(field(set(text(contract.Long)))), x: `[{"x":[1]}]`, reason: "a list inside a list"},
		{t: set(field(text(contract.Long))), x: `[{"x":1}]`, want: types.NewSet(types.NewRecord(types.RecordMap{"x": types.Long(1)}))},

		{t: field(text(contract.Long)), x: `{"x":1}`, want: types.NewRecord(types.RecordMap{"x": types.Long(1)})},
		{t: field(text(contract.Long)), x: `{}`, reason: "is missing"},
		{t: field(text(contract.Long)), x: `[1]`, reason: "must be an object"},
		{t: field(text(contract.Long)), x: `null`, reason: "null"},
		// What Cedar's JSON form would read as an entity or a decimal is an object.
		{
			t: &contract.Type{Kind: contract.Record, Fields: []contract.Field{{Name: "__entity", Type: field(text(contract.String))}}},
			x: `{"__entity":{"x":"root"}}`,
			want: types.NewRecord(types.RecordMap{"__entity": types.NewRecord(types.RecordMap{
				"x": types.String("root"),
			})}),
		},
		{t: text(contract.String), x: `{"__extn":{"fn":"decimal","arg":"1.0"}}`, reason: "must be a string"},
		{t: &contract.Type{}, x: `1`, reason: "has a kind"},
		{t: &contract.Type{Kind: 200}, x: `1`, reason: "has a kind"},
	} {
		t.Run(fmt.Sprintf("%v %.60s", c.t.Kind, c.x), func(t *testing.T) {
			p, failure := policy.Project(field(c.t), args(t, `{"x":`+c.x+`}`))
			if c.reason != "" {
				if failure == nil || failure.Code != writ.CodeInvalidArguments || !strings.Contains(failure.Message, c.reason) ||
					!strings.HasPrefix(failure.Pointer, "/x") {
					t.Fatalf("got %v, %v, want INVALID_ARGUMENTS %q", p.Record, failure, c.reason)
				}
				if p.Record.Len() > 0 {
					t.Errorf("a failure comes with a record: %v", p.Record)
				}
				return
			}
			if failure != nil {
				t.Fatal(failure)
			}
			want := types.NewRecord(types.RecordMap{"x": c.want})
			if !p.Record.Equal(want) {
				t.Errorf("got %v, want %v", p.Record, want)
			}
		})
	}
}

func many(n int) string {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	text, _ := json.Marshal(list)
	return string(text)
}

func longSet(n int) types.Set {
	var list []types.Value
	for i := range n {
		list = append(list, types.Long(i))
	}
	return types.NewSet(list...)
}

// TestProjectAbsent checks what the absence of an argument means.
func TestProjectAbsent(t *testing.T) {
	long := &contract.Type{Kind: contract.Long}
	record := &contract.Type{Kind: contract.Record, Fields: []contract.Field{
		{Name: "default", Type: &contract.Type{Kind: contract.Bool}, Default: false},
		{Name: "hidden", Type: &contract.Type{Kind: contract.Opaque}},
		{Name: "list", Type: &contract.Type{Kind: contract.Set, Elem: &contract.Type{Kind: contract.Opaque}}},
		{Name: "number", Type: &contract.Type{Kind: contract.Decimal}, Default: json.Number("1.5")},
		{Name: "option", Type: long, Optional: true},
		{Name: "required", Type: long},
	}}
	for _, c := range []struct{ args, want, failure string }{
		{`{"required":1}`, `{"default":false, "number":decimal("1.5"), "required":1}`, ""},
		{`{"required":1,"default":true,"option":2,"number":3}`, `{"default":true, "number":decimal("3.0"), "option":2, "required":1}`, ""},
		{`{"required":1,"hidden":null,"list":[[1]]}`, `{"default":false, "number":decimal("1.5"), "required":1}`, ""},
		{`{"required":1,"beyond":{"a":1}}`, `{"default":false, "number":decimal("1.5"), "required":1}`, ""},
		{`{}`, "", "/required: is missing"},
		{`{"required":1,"option":null}`, "", "/option: null"},
		{`{"required":1,"default":null}`, "", "/default: null"},
	} {
		p, failure := policy.Project(record, args(t, c.args))
		switch {
		case c.failure != "":
			if failure == nil || !strings.HasPrefix(failure.Pointer+": "+failure.Message, c.failure) {
				t.Errorf("%s: got %v, want %s", c.args, failure, c.failure)
			}
		case failure != nil:
			t.Errorf("%s: %v", c.args, failure)
		case p.Record.String() != c.want:
			t.Errorf("%s:\n got %v\nwant %s", c.args, p.Record, c.want)
		}
	}
}

// TestProjectTargets checks that built-in entities come with what policies
// read of them, and that INVALID_ARGUMENTS comes before TARGET_OUT_OF_BOUNDS.
func TestProjectTargets(t *testing.T) {
	builtIn := func(name types.EntityType) *contract.Type {
		return &contract.Type{Kind: contract.Entity, Entity: name, Role: &contract.Resource{}}
	}
	record := &contract.Type{Kind: contract.Record, Fields: []contract.Field{
		{Name: "number", Type: &contract.Type{Kind: contract.Long}, Optional: true},
		{Name: "owner", Type: &contract.Type{Kind: contract.Entity, Entity: "User", MayBeNew: true}, Optional: true},
		{Name: "paths", Type: &contract.Type{Kind: contract.Set, Elem: builtIn("Path")}, Optional: true},
		{Name: "url", Type: builtIn("Url"), Optional: true},
		{Name: "z", Type: &contract.Type{Kind: contract.Long}, Optional: true},
	}}
	p, failure := policy.Project(record, args(t, `{"paths":["/srv//work/"],"url":"https://API.example.com/x","owner":"dana"}`))
	if failure != nil || p.Target != nil {
		t.Fatal(failure, p.Target)
	}
	made := map[string]types.Entity{}
	for _, e := range p.Made {
		made[e.UID.String()] = e
	}
	path, host := made[`Path::"/srv/work"`], made[`Host::"api.example.com"`]
	if !path.Parents.Contains(types.NewEntityUID("Path", "/srv")) || !path.Parents.Contains(types.NewEntityUID("Path", "/")) {
		t.Errorf("the path lacks its ancestors: %v", made)
	}
	if text, _ := host.Attributes.Get("text"); text != types.String("api.example.com") {
		t.Errorf("the url's host is not there for policies to read: %v", made)
	}
	if !slices.Equal(p.Entities, []policy.EntityArgument{{Pointer: "/owner", UID: types.NewEntityUID("User", "dana"), MayBeNew: true}}) {
		t.Errorf("entities of the bundle: %v", p.Entities)
	}

	p, failure = policy.Project(record, args(t, `{"paths":["/ok","/a/../b","relative"],"number":1}`))
	if failure != nil || p.Target == nil || p.Target.Code != writ.CodeTargetOutOfBounds || p.Target.Pointer != "/paths/1" {
		t.Errorf("got %v, %v, want the first path that is out of bounds, at /paths/1", p.Target, failure)
	}
	if p.Record.Len() != 0 {
		t.Errorf("a call whose target is out of bounds has arguments for policies: %v", p.Record)
	}
	_, failure = policy.Project(record, args(t, `{"paths":["/a/../b"],"z":1.5}`))
	if failure == nil || failure.Code != writ.CodeInvalidArguments || failure.Pointer != "/z" {
		t.Errorf("got %v, want INVALID_ARGUMENTS at /z", failure)
	}
}

// TestEveryKind walks the kinds that package contract declares: each has a
// value here, or is opaque. A kind that is added there and forgotten here
// fails.
func TestEveryKind(t *testing.T) {
	sample := map[string]struct {
		t *contract.Type
		x string
	}{
		"String":  {&contract.Type{Kind: contract.String}, `"a"`},
		"Long":    {&contract.Type{Kind: contract.Long}, `1`},
		"Decimal": {&contract.Type{Kind: contract.Decimal}, `1`},
		"Bool":    {&contract.Type{Kind: contract.Bool}, `true`},
		"Entity":  {&contract.Type{Kind: contract.Entity, Entity: "User"}, `"a"`},
		"Record":  {&contract.Type{Kind: contract.Record}, `{}`},
		"Set":     {&contract.Type{Kind: contract.Set, Elem: &contract.Type{Kind: contract.Long}}, `[1]`},
		"Opaque":  {&contract.Type{Kind: contract.Opaque}, `{"any":[1,null]}`},
	}
	kinds := constants(t, "../contract", "Kind")
	if len(kinds) < 8 {
		t.Fatalf("found only these kinds: %v", kinds)
	}
	for _, kind := range kinds {
		s, ok := sample[kind]
		if !ok {
			t.Errorf("kind %s has no sample here: give it a type and a value in kinds.go, then a sample", kind)
			continue
		}
		p, failure := policy.Project(field(s.t), args(t, `{"x":`+s.x+`}`))
		if failure != nil {
			t.Errorf("%s: %v", kind, failure)
		}
		typ, faults := policy.CedarType(s.t)
		if len(faults) > 0 {
			t.Errorf("%s: %v", kind, faults)
		}
		if seen, typed := p.Record.Len() == 1, typ != nil; seen != typed || typed == (kind == "Opaque") {
			t.Errorf("%s: policies see a value: %t, the schema has a type: %t", kind, seen, typed)
		}
	}
}

// constants lists the constants of a type that the package in dir declares
// by iota.
func constants(t testing.TB, dir, typ string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				return true
			}
			current := ""
			for _, spec := range decl.Specs {
				value := spec.(*ast.ValueSpec)
				if ident, ok := value.Type.(*ast.Ident); ok {
					current = ident.Name
				} else if len(value.Values) > 0 {
					current = ""
				}
				if current == typ {
					names = append(names, value.Names[0].Name)
				}
			}
			return false
		})
	}
	return names
}
