package contract_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
)

// fuzzed returns contracts of every shape: entities, paths, arrays, methods,
// unions, recursion, arguments beyond the schema.
func fuzzed(t testing.TB) []*contract.Contract {
	return []*contract.Contract{
		payment(t),
		make1(t, `{"type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string"},"n":{"type":"integer"}},"required":["owner"]}`,
			contract.Review{Effect: "read"},
			contract.Resource{Entity: "Issue", ID: "{owner}/{repo}#{n}", In: map[string]string{"Org": "{owner}"}, Fold: "ascii"}),
		make1(t, `{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"mode":{"type":"string"}},"required":["path"]}}}}`,
			contract.Review{Effect: "read", WhenAbsent: map[string]any{"items[].mode": "r"}},
			contract.Resource{Path: []string{"items[].path"}, Within: []string{"/srv"}, Base: "/srv", Case: "insensitive"}),
		make1(t, `{"type":"object","properties":{"method":{"enum":["a","b"]},"url":{"type":"string","format":"uri"}},"required":["method"]}`,
			contract.Review{Effect: "write", NoEvidence: "none", MethodArgument: "method", Undeclared: "allow"}, contract.Resource{URL: []string{"url"}}),
		make1(t, `{"type":"object","properties":{"to":{"type":"array","items":{"type":"string"}},"x":{"$ref":"#/$defs/tree"}},
			"$defs":{"tree":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/tree"},"uniqueItems":true},{"type":"object","additionalProperties":{"$ref":"#/$defs/tree"}},{"type":["string","integer"]}]}}}`,
			contract.Review{Effect: "read", Opaque: []string{"x"}}, contract.Resource{Email: []string{"to[]"}}),
	}
}

// FuzzArguments: no arguments make a contract panic or take long, answers are
// the same every time, and what passes is as it was promised to policies.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, smallPayment, `{"owner":"ACME","repo":"Site","n":7}`, `{"owner":"a/b"}`, `{"owner":7,"repo":null}`,
		`{"items":[{"path":"a"},{"path":"/srv/b","mode":"w"}]}`, `{"items":[]}`, `{"items":[{"path":"../x"}]}`, `{"items":"x"}`,
		`{"method":"a","url":"https://a.example/","more":{"b":null}}`, `{"method":"c"}`, `{"Method":"a"}`,
		`{"to":["ann@a.example","bob@b.example"],"x":[["a"],{"b":[1,2]}]}`, `{"x":[[1],[1]]}`, `{"x":` + nested(60, "1") + `}`,
	} {
		f.Add([]byte(seed))
	}
	contracts := fuzzed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := canon.ParseObject(data)
		if err != nil {
			return
		}
		for i, c := range contracts {
			start := time.Now()
			failure := c.Validate(a)
			targets, outside := c.Targets(a)
			if took := time.Since(start); took > time.Minute {
				t.Fatalf("contract %d took %v", i, took)
			}
			if again := c.Validate(a); fmt.Sprint(again) != fmt.Sprint(failure) {
				t.Fatalf("contract %d: %v, then %v", i, failure, again)
			}
			id, rule := c.Action(a)
			if failure != nil {
				if failure.Code != writ.CodeInvalidArguments {
					t.Fatalf("contract %d: Validate fails with %s", i, failure.Code)
				}
				continue
			}
			promised(t, c.Arguments, a, c.UndeclaredAllowed)
			if id == "" || rule.Effect == "" {
				t.Fatalf("contract %d: valid arguments without action", i)
			}
			if outside != nil {
				if outside.Code != writ.CodeInvalidArguments && outside.Code != writ.CodeTargetOutOfBounds || targets != nil {
					t.Fatalf("contract %d: %v and %v", i, outside, targets)
				}
				continue
			}
			typ, optional := c.TargetType()
			if len(targets) == 0 && !optional || len(targets) > contract.MaxTargets {
				t.Fatalf("contract %d: %d targets", i, len(targets))
			}
			for _, tg := range targets {
				if tg.Entity.UID.Type != typ || tg.Entity.UID.ID == "" || tg.Pointer == "" {
					t.Fatalf("contract %d: target %+v", i, tg)
				}
			}
		}
	})
}

// promised fails unless v is what t says.
func promised(t *testing.T, typ *contract.Type, v any, open bool) {
	t.Helper()
	switch typ.Kind {
	case contract.Opaque:
	case contract.Record:
		object, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%T is no record", v)
		}
		for name := range object {
			if typ.Field(name) == nil && !open {
				t.Fatalf("undeclared %q", name)
			}
		}
		for _, f := range typ.Fields {
			if member, there := object[f.Name]; there {
				promised(t, f.Type, member, false)
			} else if !f.Optional && f.Default == nil && f.Type.Kind != contract.Opaque {
				t.Fatalf("%q is missing", f.Name)
			}
		}
	case contract.Set:
		list, ok := v.([]any)
		if !ok || len(list) > contract.MaxSet {
			t.Fatalf("%T of %d is no set", v, len(list))
		}
		for _, e := range list {
			promised(t, typ.Elem, e, false)
		}
	default:
		want := map[contract.Kind]string{
			contract.String: "string", contract.Entity: "string", contract.Bool: "bool", contract.Long: "json.Number", contract.Decimal: "json.Number",
		}[typ.Kind]
		if got := fmt.Sprintf("%T", v); got != want {
			t.Fatalf("%s is no %v", got, typ.Kind)
		}
	}
}

// FuzzSchema: no definition makes New panic or take long, and calling opaque
// what Unsettled names settles every argument.
func FuzzSchema(f *testing.F) {
	for _, seed := range keywordSchemas {
		f.Add([]byte(`{"type":"object","properties":{"x":` + seed + `},"$defs":` + keywordDefs + `}`))
	}
	for _, seed := range []string{
		paymentSchema, digestSchema, methodSchema, `{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"properties":{"b":{"$ref":"#"}}}}}`,
		`{"type":"object","properties":{"a.b":{"type":"string"},"a":{"type":"object","properties":{"b":{}}}}}`,
		`{"$id":"https://a.example/","type":"object","properties":{"a":{"$ref":"b#/c"}},"$defs":{"b":{"$id":"b","c":{"type":"string"}}}}`,
		`{"type":"object","$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"array","items":{"type":"string"}}}}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tool, err := definition.Parse([]byte(`{"name":"t","inputSchema":` + string(data) + `}`))
		if err != nil {
			return
		}
		start := time.Now()
		made, faults, _ := contract.New(remote("t", contract.Review{Effect: "read", Undeclared: "allow", Opaque: contract.Unsettled(tool)}), toolList(tool))
		for _, fault := range faults {
			if has([]contract.FieldError{fault}, fault.Field, "has no exact type") {
				t.Fatalf("%s: %v", data, fault)
			}
		}
		for _, c := range made {
			for _, a := range []string{`{}`, `{"x":1,"a":{"b":["c"]}}`, `{"x":` + nested(50, "[1]") + `}`} {
				c.Validate(args(t, a))
			}
		}
		if took := time.Since(start); took > time.Minute {
			t.Fatalf("%s took %v", data, took)
		}
	})
}

// FuzzTemplate: a template that is accepted makes different targets of
// different arguments.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"{a}/{b}", "{a}", "x{a}-{b}y", "{a}{b}", "{", "}", "{}", "{a}}", "{{a}}", "{a}/{a}", "", "{b}\x00{a}"} {
		f.Add(seed, "p", "q", "r", "s")
	}
	tool := define(f, "t", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`)
	f.Fuzz(func(t *testing.T, template, a1, b1, a2, b2 string) {
		d := remote("t", contract.Review{Effect: "read", Resource: &contract.Resource{Entity: "E", ID: template}})
		made, faults, _ := contract.New(d, toolList(tool))
		if faults != nil {
			return
		}
		one, f1 := made[0].Targets(map[string]any{"a": a1, "b": b1})
		two, f2 := made[0].Targets(map[string]any{"a": a2, "b": b2})
		if f1 != nil || f2 != nil || one[0].Entity.UID != two[0].Entity.UID {
			return
		}
		names := made[0].Resource.ID
		if usesA := strings.Contains(names, "{a}"); usesA && a1 != a2 {
			t.Errorf("%q: a is %q and %q, and the target is %s", template, a1, a2, one[0].Entity.UID)
		}
		if usesB := strings.Contains(names, "{b}"); usesB && b1 != b2 {
			t.Errorf("%q: b is %q and %q, and the target is %s", template, b1, b2, one[0].Entity.UID)
		}
	})
}
