package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

// renderTargets writes targets as text: Repository::"a/b" in Org::"a" @/owner.
func renderTargets(targets []contract.Target) string {
	var lines []string
	for _, tg := range targets {
		s := tg.Entity.UID.String()
		if !tg.BuiltIn {
			var parents []string
			for p := range tg.Entity.Parents.All() {
				parents = append(parents, p.String())
			}
			slices.Sort(parents)
			if len(parents) > 0 {
				s += " in " + strings.Join(parents, ",")
			}
		}
		if tg.MayBeNew {
			s += " new"
		}
		s += " @" + tg.Pointer
		if tg.Element != nil {
			s += fmt.Sprintf(" %v", tg.Element)
		}
		lines = append(lines, s)
	}
	return strings.Join(lines, "; ")
}

func TestTargets(t *testing.T) {
	const text = `{"type":"string"}`
	repo := contract.Resource{Entity: "Repository", ID: "{owner}/{repo}", In: map[string]string{"Org": "{owner}"}, Fold: "ascii", MayBeNew: true}
	repoSchema := `{"type":"object","required":["owner"],"properties":{"owner":` + text + `,"repo":` + text + `}}`
	pathSchema := `{"type":"object","properties":{"path":` + text + `}}`
	pathsSchema := `{"type":"object","properties":{"paths":{"type":"array","items":` + text + `}}}`
	itemsSchema := `{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"from":` + text + `,"to":` + text +
		`,"n":{"type":"integer"}},"required":["from","to","n"]}},"owner":` + text + `}}`
	for _, c := range []struct {
		name     string
		schema   string
		review   contract.Review
		resource contract.Resource
		args     string
		want     string // targets, or code and pointer of a failure
	}{
		{"entity", repoSchema, contract.Review{}, repo, `{"owner":"acme","repo":"site"}`, `Repository::"acme/site" in Org::"acme" new @/owner`},
		{"fold", repoSchema, contract.Review{}, repo, `{"owner":"ACME","repo":"Süte"}`, `Repository::"acme/süte" in Org::"acme" new @/owner`},
		{"fold leaves other letters", repoSchema, contract.Review{}, repo, `{"owner":"ÄCME","repo":"\u212aite"}`, "Repository::\"Äcme/\u212aite\" in Org::\"Äcme\" new @/owner"},
		{"an optional part is absent", repoSchema, contract.Review{}, repo, `{"owner":"acme"}`, ``},
		{"an optional part means something", repoSchema, contract.Review{WhenAbsent: map[string]any{"repo": "Home"}}, repo, `{"owner":"acme"}`,
			`Repository::"acme/home" in Org::"acme" new @/owner`},
		{"a slash", repoSchema, contract.Review{}, repo, `{"owner":"acme/x","repo":"site"}`, `TARGET_OUT_OF_BOUNDS /owner`},
		{"an empty part", repoSchema, contract.Review{}, repo, `{"owner":"acme","repo":""}`, `TARGET_OUT_OF_BOUNDS /repo`},
		{"a part that climbs", repoSchema, contract.Review{}, repo, `{"owner":"acme","repo":".."}`, `TARGET_OUT_OF_BOUNDS /repo`},
		{"a part of the wrong type", repoSchema, contract.Review{}, repo, `{"owner":"acme","repo":7}`, `INVALID_ARGUMENTS /repo`},
		{"an integer in an id", `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`, contract.Review{},
			contract.Resource{Entity: "Issue", ID: "acme:{n}"}, `{"n":7}`, `Issue::"acme:7" @/n`},
		{"a number called long in an id", `{"type":"object","required":["n"],"properties":{"n":{"type":"number"}}}`,
			contract.Review{Arguments: map[string]contract.Argument{"n": {Long: true}}},
			contract.Resource{Entity: "Issue", ID: "{n}"}, `{"n":7.0}`, `Issue::"7" @/n`},
		{"a fraction in an id", `{"type":"object","required":["n"],"properties":{"n":{"type":"number"}}}`,
			contract.Review{Arguments: map[string]contract.Argument{"n": {Long: true}}},
			contract.Resource{Entity: "Issue", ID: "{n}"}, `{"n":7.5}`, `INVALID_ARGUMENTS /n`},
		{"a separator of the template in a part", repoSchema, contract.Review{},
			contract.Resource{Entity: "R", ID: "{owner}:{repo}"}, `{"owner":"a:b","repo":"c"}`, `TARGET_OUT_OF_BOUNDS /owner`},
		{"the same character where nothing is separated", `{"type":"object","required":["id"],"properties":{"id":` + text + `}}`, contract.Review{},
			contract.Resource{Entity: "R", ID: "x:{id}"}, `{"id":"a:b"}`, `R::"x:a:b" @/id`},
		{"a nested argument", `{"type":"object","properties":{"filter":{"type":"object","properties":{"owner":` + text + `},"required":["owner"]}}}`,
			contract.Review{}, contract.Resource{Entity: "Org", ID: "{filter.owner}"}, `{"filter":{"owner":"acme"}}`, `Org::"acme" @/filter/owner`},
		{"a nested argument in an absent record", `{"type":"object","properties":{"filter":{"type":"object","properties":{"owner":` + text + `},"required":["owner"]}}}`,
			contract.Review{}, contract.Resource{Entity: "Org", ID: "{filter.owner}"}, `{}`, ``},
		{"not inside an object", `{"type":"object","properties":{"filter":{"type":"object","properties":{"owner":` + text + `},"required":["owner"]}}}`,
			contract.Review{}, contract.Resource{Entity: "Org", ID: "{filter.owner}"}, `{"filter":"acme"}`, `INVALID_ARGUMENTS /filter/owner`},
		{"an entity for each element", itemsSchema, contract.Review{}, contract.Resource{Entity: "Doc", ID: "{owner}/{items[].n}", In: map[string]string{"Folder": "{items[].from}"}},
			`{"owner":"o","items":[{"from":"a","to":"b","n":1},{"from":"a","to":"b","n":2}]}`,
			`Doc::"o/1" in Folder::"a" @/items/0 map[from:a n:1 to:b]; Doc::"o/2" in Folder::"a" @/items/1 map[from:a n:2 to:b]`},
		{"an entity twice", itemsSchema, contract.Review{}, contract.Resource{Entity: "Doc", ID: "{items[].from}"},
			`{"items":[{"from":"a","to":"b","n":1},{"from":"a","to":"c","n":2}]}`, `INVALID_ARGUMENTS /items/1`},
		{"an argument beside the array is absent", itemsSchema, contract.Review{}, contract.Resource{Entity: "Doc", ID: "{owner}/{items[].n}"},
			`{"items":[{"from":"a","to":"b","n":1}]}`, ``},
		{"a bad part in an element", itemsSchema, contract.Review{}, contract.Resource{Entity: "Doc", ID: "{items[].from}"},
			`{"items":[{"from":"a","to":"b","n":1},{"from":"a/b","to":"c","n":2}]}`, `TARGET_OUT_OF_BOUNDS /items/1/from`},

		{"path", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}}, `{"path":"/a//b/./c/"}`, `Path::"/a/b/c" @/path`},
		{"path absent", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}}, `{}`, ``},
		{"path when absent", pathSchema, contract.Review{WhenAbsent: map[string]any{"path": "/home"}}, contract.Resource{Path: []string{"path"}}, `{}`, `Path::"/home" @/path`},
		{"path climbs", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}}, `{"path":"/a/../b"}`, `TARGET_OUT_OF_BOUNDS /path`},
		{"path of the wrong type", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}}, `{"path":["/a"]}`, `INVALID_ARGUMENTS /path`},
		{"relative path", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}}, `{"path":"a"}`, `TARGET_OUT_OF_BOUNDS /path`},
		{"relative path with a base", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}, Base: "/srv"}, `{"path":"a"}`, `Path::"/srv/a" @/path`},
		{"path in capitals", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}, Case: "insensitive"}, `{"path":"/SRV/A"}`, `Path::"/srv/a" @/path`},
		{"within", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}, Within: []string{"/srv/work", "/tmp"}}, `{"path":"/tmp/x"}`, `Path::"/tmp/x" @/path`},
		{"the bound itself", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}, Within: []string{"/srv/work"}}, `{"path":"/srv/work/"}`, `Path::"/srv/work" @/path`},
		{"a sibling with the bound's prefix", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}, Within: []string{"/srv/work"}}, `{"path":"/srv/workshop"}`, `TARGET_OUT_OF_BOUNDS /path`},
		{"capitals within a folding bound", pathSchema, contract.Review{}, contract.Resource{Path: []string{"path"}, Within: []string{"/srv"}, Case: "insensitive"}, `{"path":"/SRV/x"}`, `Path::"/srv/x" @/path`},

		{"each element", pathsSchema, contract.Review{}, contract.Resource{Path: []string{"paths[]"}}, `{"paths":["/a","/b"]}`, `Path::"/a" @/paths/0; Path::"/b" @/paths/1`},
		{"no element", pathsSchema, contract.Review{}, contract.Resource{Path: []string{"paths[]"}}, `{"paths":[]}`, `INVALID_ARGUMENTS /paths`},
		{"no array", pathsSchema, contract.Review{}, contract.Resource{Path: []string{"paths[]"}}, `{}`, ``},
		{"an element twice", pathsSchema, contract.Review{}, contract.Resource{Path: []string{"paths[]"}}, `{"paths":["/a/b","/c","/a//b"]}`, `INVALID_ARGUMENTS /paths/2`},
		{"an element outside", pathsSchema, contract.Review{}, contract.Resource{Path: []string{"paths[]"}}, `{"paths":["/a","b"]}`, `TARGET_OUT_OF_BOUNDS /paths/1`},
		{"invalid outranks outside", pathsSchema, contract.Review{}, contract.Resource{Path: []string{"paths[]"}}, `{"paths":["b","/a","/a"]}`, `INVALID_ARGUMENTS /paths/2`},
		{"an element of the wrong type", pathsSchema, contract.Review{}, contract.Resource{Path: []string{"paths[]"}}, `{"paths":["/a",1]}`, `INVALID_ARGUMENTS /paths/1`},

		{"two arguments", `{"type":"object","required":["source","destination"],"properties":{"source":` + text + `,"destination":` + text + `}}`, contract.Review{},
			contract.Resource{Path: []string{"source", "destination"}}, `{"destination":"/b","source":"/a"}`, `Path::"/a" @/source; Path::"/b" @/destination`},
		{"the same in two arguments is no array", `{"type":"object","required":["source","destination"],"properties":{"source":` + text + `,"destination":` + text + `}}`, contract.Review{},
			contract.Resource{Path: []string{"source", "destination"}}, `{"destination":"/a","source":"/a"}`, `Path::"/a" @/source; Path::"/a" @/destination`},
		{"one of two is absent", `{"type":"object","properties":{"source":` + text + `,"destination":` + text + `}}`, contract.Review{},
			contract.Resource{Path: []string{"source", "destination"}}, `{"destination":"/b"}`, `Path::"/b" @/destination`},
		{"members of elements", itemsSchema, contract.Review{}, contract.Resource{Path: []string{"items[].from", "items[].to"}},
			`{"items":[{"from":"/a","to":"/b","n":1},{"from":"/b","to":"/c","n":2}]}`,
			`Path::"/a" @/items/0/from map[from:/a n:1 to:/b]; Path::"/b" @/items/1/from map[from:/b n:2 to:/c]; ` +
				`Path::"/b" @/items/0/to map[from:/a n:1 to:/b]; Path::"/c" @/items/1/to map[from:/b n:2 to:/c]`},
		{"a member of elements twice", itemsSchema, contract.Review{}, contract.Resource{Path: []string{"items[].from"}},
			`{"items":[{"from":"/a","to":"/b","n":1},{"from":"/a/","to":"/c","n":2}]}`, `INVALID_ARGUMENTS /items/1/from`},
		{"an element without the member", itemsSchema, contract.Review{}, contract.Resource{Path: []string{"items[].from"}},
			`{"items":[{"to":"/b","n":1}]}`, `INVALID_ARGUMENTS /items/0/from`},

		{"host", pathSchema, contract.Review{}, contract.Resource{Host: []string{"path"}}, `{"path":"A.B.example."}`, `Host::"a.b.example" @/path`},
		{"url", pathSchema, contract.Review{}, contract.Resource{URL: []string{"path"}}, `{"path":"HTTPS://A.example:443"}`, `Url::"https://a.example/" @/path`},
		{"email", pathSchema, contract.Review{}, contract.Resource{Email: []string{"path"}}, `{"path":"Ann@A.Example"}`, `Email::"Ann@a.example" @/path`},
		{"no host", pathSchema, contract.Review{}, contract.Resource{Host: []string{"path"}}, `{"path":"user@a.example"}`, `TARGET_OUT_OF_BOUNDS /path`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.review.Effect = "read"
			con := make1(t, c.schema, c.review, c.resource)
			targets, f := con.Targets(args(t, c.args))
			got := renderTargets(targets)
			if f != nil {
				if targets != nil {
					t.Errorf("targets %v beside a failure", targets)
				}
				got = string(f.Code) + " " + f.Pointer
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s (%v)", got, c.want, f)
			}
			wantType, optional := con.TargetType()
			for _, tg := range targets {
				if tg.Entity.UID.Type != wantType {
					t.Errorf("target %s, want type %s", tg.Entity.UID, wantType)
				}
			}
			if f == nil && len(targets) == 0 && !optional {
				t.Error("no target, though the contract says there always is one")
			}
		})
	}
}

func TestTargetCount(t *testing.T) {
	c := make1(t, `{"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"}},"more":{"type":"array","items":{"type":"string"}},"one":{"type":"string"}}}`,
		contract.Review{Effect: "read"}, contract.Resource{Path: []string{"one", "paths[]"}})
	list := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"/p%d"`, i)
		}
		return b.String()[1:]
	}
	for _, tc := range []struct {
		args string
		n    int
		code writ.Code
	}{
		{`{"paths":[` + list(256) + `]}`, 256, ""},
		{`{"paths":[` + list(257) + `]}`, 0, writ.CodeInvalidArguments},
		{`{"one":"/x","paths":[` + list(256) + `]}`, 0, writ.CodeInvalidArguments},
		{`{"one":"/x","paths":[` + list(255) + `]}`, 256, ""},
	} {
		targets, f := c.Targets(args(t, tc.args))
		code := writ.Code("")
		if f != nil {
			code = f.Code
		}
		if len(targets) != tc.n || code != tc.code {
			t.Errorf("%.30s…: %d targets, %q; want %d, %q", tc.args, len(targets), code, tc.n, tc.code)
		}
	}
}

// TestFirstLineWins: the first resource line all of whose arguments a tool
// declares applies, and a tool's own replaces the lines.
func TestFirstLineWins(t *testing.T) {
	lines := []contract.Resource{
		{Entity: "Repository", ID: "{owner}/{repo}"}, {Entity: "Org", ID: "{owner}"}, {Path: []string{"path"}},
	}
	for _, tc := range []struct {
		properties string
		own        *contract.Resource
		want       types.EntityType
		optional   bool
	}{
		{`"owner":{"type":"string"},"repo":{"type":"string"},"path":{"type":"string"}`, nil, "Repository", false},
		{`"owner":{"type":"string"},"path":{"type":"string"}`, nil, "Org", false},
		{`"path":{"type":"string"},"optional":{"type":"string"}`, nil, "Path", false},
		{`"other":{"type":"string"}`, nil, "", true},
		{`"owner":{"type":"string"},"optional":{"type":"string"}`, &contract.Resource{Entity: "Org", ID: "{optional}"}, "Org", true},
	} {
		required := strings.Join(regexpNames(tc.properties), `","`)
		d := remote("t", contract.Review{Effect: "read", Resource: tc.own})
		d.Resources = lines
		c := makeAll(t, d, define(t, "t", `{"type":"object","properties":{`+tc.properties+`},"required":["`+required+`"]}`),
			define(t, "unreviewed", `{"type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string"},"path":{"type":"string"}}}`))["t"]
		got, optional := c.TargetType()
		if got != tc.want || optional != tc.optional {
			t.Errorf("%s: %q optional %v, want %q %v", tc.properties, got, optional, tc.want, tc.optional)
		}
	}
}

// regexpNames returns the names in a list of properties, but "optional".
func regexpNames(properties string) []string {
	var names []string
	for _, p := range strings.Split(properties, `"},`) {
		if name, _, _ := strings.Cut(p[1:], `"`); name != "optional" {
			names = append(names, name)
		}
	}
	return names
}

// TestBuiltInEntities: attributes and ancestors, as design.md lists them.
func TestBuiltInEntities(t *testing.T) {
	uid := types.NewEntityUID
	set := func(names ...types.Value) types.Set { return types.NewSet(names...) }
	for _, tc := range []struct {
		kind, text string
		attributes types.RecordMap
		parents    []types.EntityUID
	}{
		{"Path", "/srv/work/work/.env",
			types.RecordMap{"text": types.String("/srv/work/work/.env"), "name": types.String(".env"),
				"segments": set(types.String("srv"), types.String("work"), types.String(".env"))},
			[]types.EntityUID{uid("Path", "/srv/work/work"), uid("Path", "/srv/work"), uid("Path", "/srv"), uid("Path", "/")}},
		{"Path", "/", types.RecordMap{"text": types.String("/"), "name": types.String(""), "segments": set()}, nil},
		{"Host", "a.b.example", types.RecordMap{"text": types.String("a.b.example"), "ip": types.False},
			[]types.EntityUID{uid("Host", "b.example"), uid("Host", "example")}},
		{"Host", "192.0.2.1", types.RecordMap{"text": types.String("192.0.2.1"), "ip": types.True}, nil},
		{"Url", "https://a.example:8443/x",
			types.RecordMap{"text": types.String("https://a.example:8443/x"), "scheme": types.String("https"), "path": types.String("/x"),
				"port": types.Long(8443), "host": uid("Host", "a.example")},
			[]types.EntityUID{uid("Host", "a.example"), uid("Host", "example")}},
		{"Email", "ann@a.example",
			types.RecordMap{"text": types.String("ann@a.example"), "local": types.String("ann"), "host": uid("Host", "a.example")},
			[]types.EntityUID{uid("Host", "a.example"), uid("Host", "example")}},
	} {
		t.Run(tc.kind+" "+tc.text, func(t *testing.T) {
			c := make1(t, `{"type":"object","properties":{"x":{"type":"string"}}}`,
				contract.Review{Effect: "read", Arguments: map[string]contract.Argument{"x": {Entity: tc.kind}}})
			got, f := c.Arguments.Field("x").Type.NewEntity(tc.text)
			if f != nil {
				t.Fatal(f)
			}
			want := types.Entity{
				UID: uid(types.EntityType(tc.kind), types.String(tc.text)), Attributes: types.NewRecord(tc.attributes),
				Parents: types.NewEntityUIDSet(tc.parents...),
			}
			if !got.Equal(want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestNewEntity: what is no entity's text is out of bounds.
func TestNewEntity(t *testing.T) {
	c := make1(t, `{"type":"object","properties":{"e":{"type":"string"},"f":{"type":"string"},"s":{"type":"string"}}}`,
		contract.Review{Effect: "read", Arguments: map[string]contract.Argument{"e": {Entity: "Invoice"}, "f": {Entity: "Org"}}},
		contract.Resource{Entity: "Team", ID: "{f}", Fold: "ascii"})
	for _, tc := range []struct{ argument, text, want string }{
		{"e", "INV-17", `Invoice::"INV-17"`},
		{"f", "ACME", `Org::"acme"`},
		{"e", "", ""},
		{"s", "x", ""},
	} {
		e, f := c.Arguments.Field(tc.argument).Type.NewEntity(tc.text)
		switch {
		case tc.want == "" && (f == nil || f.Code != writ.CodeTargetOutOfBounds):
			t.Errorf("%s %q: got %v %v, want TARGET_OUT_OF_BOUNDS", tc.argument, tc.text, e.UID, f)
		case tc.want != "" && (f != nil || e.UID.String() != tc.want):
			t.Errorf("%s %q: got %v %v, want %s", tc.argument, tc.text, e.UID, f, tc.want)
		}
	}
}
