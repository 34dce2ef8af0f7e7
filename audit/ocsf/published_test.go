package ocsf_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// published is testdata/api_activity.json.
type published struct {
	Source, Version string
	Class           struct {
		Name, Caption string
		UID           float64
		CategoryUID   float64 `json:"category_uid"`
		CategoryName  string  `json:"category_name"`
		Profiles      []string
	}
	Entities map[string]*entity
	Types    map[string]*scalar
	patterns map[string]*regexp.Regexp
}

type entity struct {
	AtLeastOne []string `json:"at_least_one"`
	Attributes map[string]*attribute
}

type attribute struct {
	Type, Requirement         string
	Object, Array, Deprecated bool
	Profiles                  []string // it is there with one of them only; none: always
	Enum                      map[string]string
	Sibling                   string // attribute that has the caption of the value
}

// scalar is a type; one without a type of its own is a base type.
type scalar struct {
	Type, Regex string
	MaxLen      int `json:"max_len"`
	Range       []float64
}

func readPublished(t testing.TB) *published {
	t.Helper()
	data, err := os.ReadFile("testdata/api_activity.json")
	if err != nil {
		t.Fatal(err)
	}
	p := &published{patterns: map[string]*regexp.Regexp{}}
	if err := json.Unmarshal(data, p); err != nil {
		t.Fatal(err)
	}
	for name, s := range p.Types {
		if s.Regex != "" {
			p.patterns[name] = regexp.MustCompile(s.Regex)
		}
	}
	return p
}

// validate says what of an event is not as the class was published.
func (p *published) validate(event []byte) (faults []string) {
	var tree map[string]any
	if err := json.Unmarshal(event, &tree); err != nil {
		return []string{err.Error()}
	}
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	var profiles []string
	meta, _ := tree["metadata"].(map[string]any)
	list, _ := meta["profiles"].([]any)
	for _, v := range list {
		name, _ := v.(string)
		if !slices.Contains(p.Class.Profiles, name) || slices.Contains(profiles, name) {
			say("metadata.profiles: %v is no profile of the class, or there twice", v)
		}
		profiles = append(profiles, name)
	}
	p.object(say, profiles, "", p.Class.Name, tree)

	// What must agree.
	for name, want := range map[string]any{
		"class_uid": p.Class.UID, "class_name": p.Class.Caption, "category_uid": p.Class.CategoryUID, "category_name": p.Class.CategoryName,
	} {
		if tree[name] != want {
			say("%s is %v, want %v", name, tree[name], want)
		}
	}
	activity, _ := tree["activity_id"].(float64)
	if tree["type_uid"] != p.Class.UID*100+activity {
		say("type_uid is %v, with the activity %v", tree["type_uid"], activity)
	}
	if meta["version"] != p.Version {
		say("metadata.version is %v, want %s", meta["version"], p.Version)
	}
	return faults
}

type sayer func(format string, args ...any)

func (p *published) object(say sayer, profiles []string, at, name string, tree map[string]any) {
	e := p.Entities[name]
	if e == nil {
		say("%s: the object %s is not among the published ones that are held here", at, name)
		return
	}
	if len(e.Attributes) == 0 {
		return // of any form
	}
	in := func(a *attribute) bool {
		return len(a.Profiles) == 0 || slices.ContainsFunc(a.Profiles, func(s string) bool { return slices.Contains(profiles, s) })
	}
	for _, key := range slices.Sorted(maps.Keys(e.Attributes)) {
		a := e.Attributes[key]
		if _, there := tree[key]; !there && a.Requirement == "required" && in(a) {
			say("%s.%s is required", at, key)
		}
	}
	if len(e.AtLeastOne) > 0 && !slices.ContainsFunc(e.AtLeastOne, func(s string) bool { return tree[s] != nil && tree[s] != "" }) {
		say("%s needs one of %v", at, e.AtLeastOne)
	}
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		a, place := e.Attributes[key], at+"."+key
		switch {
		case a == nil:
			say("%s: there is no such attribute", place)
			continue
		case a.Deprecated:
			say("%s is deprecated", place)
		case !in(a):
			say("%s belongs to a profile of %v, and the event has %v", place, a.Profiles, profiles)
		}
		values := []any{tree[key]}
		if a.Array {
			var ok bool
			if values, ok = tree[key].([]any); !ok || len(values) == 0 {
				say("%s must be an array, and not empty", place)
				continue
			}
		}
		for _, v := range values {
			p.value(say, profiles, place, a, v)
		}
		if number, ok := tree[key].(float64); ok && a.Sibling != "" {
			caption := a.Enum[strconv.Itoa(int(number))]
			if have, there := tree[a.Sibling]; there && number != 99 && have != caption {
				say("%s.%s is %v, want %s", at, a.Sibling, have, caption)
			} else if number == 99 && key != "type_uid" && (have == nil || have == "" || have == "Other") {
				say("%s is Other: what it is must be in %s", place, a.Sibling)
			}
		}
	}
}

func (p *published) value(say sayer, profiles []string, at string, a *attribute, v any) {
	if a.Object {
		if tree, ok := v.(map[string]any); ok {
			p.object(say, profiles, at, a.Type, tree)
		} else {
			say("%s must be an object", at)
		}
		return
	}
	s := p.Types[a.Type]
	if s == nil {
		say("%s: the type %s is not among the published ones", at, a.Type)
		return
	}
	base := s.Type
	if base == "" {
		base = a.Type
	}
	ok := false
	switch base {
	case "string_t":
		var text string
		if text, ok = v.(string); ok && (s.MaxLen > 0 && len(text) > s.MaxLen || p.patterns[a.Type] != nil && !p.patterns[a.Type].MatchString(text)) {
			say("%s: %q is no %s", at, text, a.Type)
		}
		if _, known := a.Enum[text]; ok && a.Enum != nil && !known {
			say("%s: %q is none of %v", at, text, a.Enum)
		}
	case "integer_t", "long_t":
		var number float64
		if number, ok = v.(float64); !ok {
			break
		}
		ok = number == math.Trunc(number) && (len(s.Range) == 0 || s.Range[0] <= number && number <= s.Range[1])
		if _, known := a.Enum[strconv.Itoa(int(number))]; ok && a.Enum != nil && !known {
			say("%s: %v is none of %v", at, number, a.Enum)
		}
	case "boolean_t":
		_, ok = v.(bool)
	case "float_t":
		_, ok = v.(float64)
	case "json_t":
		ok = true
	}
	if !ok {
		say("%s: %v is no %s", at, v, a.Type)
	}
}

// TestValidate: the validator sees what it is there to see.
func TestValidate(t *testing.T) {
	p := readPublished(t)
	const sound = `{"time":1,"category_uid":6,"category_name":"Application Activity","class_uid":6003,"class_name":"API Activity","activity_id":2,` +
		`"type_uid":600302,"severity_id":1,"actor":{"app_name":"h"},"api":{"operation":"read"},"src_endpoint":{"name":"h"},` +
		`"metadata":{"version":"1.8.0","product":{"name":"p"}}}`
	if faults := p.validate([]byte(sound)); faults != nil {
		t.Fatal(faults)
	}
	for _, tc := range []struct{ from, to, want string }{
		{`"time":1,`, ``, "time is required"},
		{`"time":1`, `"time":"1"`, "no timestamp_t"},
		{`"time":1`, `"time":1.5`, "no timestamp_t"},
		{`"time":1`, `"time":1,"surprise":1`, "no such attribute"},
		{`"time":1`, `"time":1,"status_id":7`, "none of"},
		{`"time":1`, `"time":1,"status_id":1,"status":"Failure"`, "want Success"},
		{`"time":1`, `"time":1,"status_id":99`, "is Other"},
		{`"time":1`, `"time":1,"resources":{}`, "must be an array"},
		{`"time":1`, `"time":1,"resources":[{"type":"x"}]`, "needs one of"},
		{`"time":1`, `"time":1,"resources":[7]`, "must be an object"},
		{`"time":1`, `"time":1,"action_id":1`, "belongs to a profile"},
		{`"time":1`, `"time":1,"trace":{"uid":"1"}`, "belongs to a profile"},
		{`"time":1`, `"time":1,"http_request":{}`, "not among the published"},
		{`"class_uid":6003`, `"class_uid":6001`, "class_uid"},
		{`600302`, `600303`, "type_uid"},
		{`{"app_name":"h"}`, `{"invoked_by":"h"}`, "deprecated"},
		{`{"app_name":"h"}`, `{}`, "needs one of"},
		{`{"operation":"read"}`, `{}`, "operation is required"},
		{`"name":"h"`, `"ip":"here"`, "no ip_t"},
		{`"1.8.0"`, `"1.6.0"`, "metadata.version"},
		{`"version"`, `"profiles":["mine"],"version"`, "no profile"},
	} {
		broken := strings.Replace(sound, tc.from, tc.to, 1)
		if faults := p.validate([]byte(broken)); !strings.Contains(strings.Join(faults, "\n"), tc.want) {
			t.Errorf("%s for %s: %q, want %q", tc.to, tc.from, faults, tc.want)
		}
	}
}
