package contract_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
)

// soon is far above what a refused call takes here (some milliseconds), and far
// below what it takes without a budget (seconds to centuries).
const soon = 30 * time.Second

// nested returns {"x":{"x":...}} with depth members.
func nested(depth int, leaf string) string {
	return strings.Repeat(`{"x":`, depth) + leaf + strings.Repeat(`}`, depth)
}

// opaqueX makes a contract whose one argument x has the schema and is opaque.
func opaqueX(t testing.TB, schema, defs string) *contract.Contract {
	t.Helper()
	return opaqueSchema(t, `{"type":"object","properties":{"x":`+schema+`},"$defs":`+defs+`}`)
}

// opaqueSchema makes a contract whose one argument x is opaque.
func opaqueSchema(t testing.TB, schema string) *contract.Contract {
	t.Helper()
	return make1(t, schema, contract.Review{Effect: "read", Opaque: []string{"x"}})
}

// TestBudget: schemas and arguments that would take for ever are refused at
// once, whatever keyword multiplies the work.
func TestBudget(t *testing.T) {
	big := func(n int, element string) string {
		return `{"x":[` + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + `]}`
	}
	object := func(members int) string {
		var b strings.Builder
		for i := range members {
			fmt.Fprintf(&b, `,"m%d":1`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	numbers := make([]string, 8000)
	for i := range numbers {
		numbers[i] = fmt.Sprint(i)
	}
	crafted := make([]string, 1000) // distinct arrays that hash alike in the library: a, b|c is a|b, c
	for i := range crafted {
		var b strings.Builder
		for bit := range 12 {
			b.WriteString(`"a`)
			if i>>bit&1 == 1 {
				b.WriteString(`\u0004`)
			} else {
				b.WriteString(`","`)
			}
			b.WriteString(`b",`)
		}
		crafted[i] = "[" + strings.TrimSuffix(b.String(), ",") + "]"
	}
	for _, c := range []struct{ name, schema, defs, args string }{
		{"anyOf of 121 bytes", `{"$ref":"#/$defs/a"}`,
			`{"a":{"anyOf":[{"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},"required":["y"]},
			               {"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},"required":["z"]}]}}`,
			nested(20, "1")},
		{"anyOf whose leaves fail", `{"$ref":"#/$defs/a"}`,
			`{"a":{"anyOf":[{"properties":{"x":{"$ref":"#/$defs/a"}},"type":"object"},
			               {"properties":{"x":{"$ref":"#/$defs/a"}},"type":"object"},
			               {"properties":{"x":{"$ref":"#/$defs/a"}},"type":"object"}]}}`,
			nested(60, "1")},
		{"patternProperties under not, where failures are not counted afterwards", `{"not":{"$ref":"#/$defs/a"}}`,
			`{"a":{"type":"object","patternProperties":{"x":{"$ref":"#/$defs/a"},"^x":{"$ref":"#/$defs/a"},"x$":{"$ref":"#/$defs/a"}}}}`,
			nested(60, "1")},
		{"dependentSchemas", `{"$ref":"#/$defs/a"}`,
			`{"a":{"type":"object","dependentSchemas":{"x":{"properties":{"x":{"$ref":"#/$defs/a"}}}},"properties":{"x":{"$ref":"#/$defs/a"}}}}`,
			nested(60, `{"y":1}`)},
		{"if then else", `{"$ref":"#/$defs/a"}`,
			`{"a":{"if":{"properties":{"x":{"$ref":"#/$defs/a"}}},"then":{"properties":{"x":{"$ref":"#/$defs/a"}}},"else":{"properties":{"x":{"$ref":"#/$defs/a"}}}}}`,
			nested(60, "1")},
		{"oneOf", `{"$ref":"#/$defs/a"}`,
			`{"a":{"oneOf":[{"properties":{"x":{"$ref":"#/$defs/a"}}},{"properties":{"x":{"$ref":"#/$defs/a"}}}]}}`,
			nested(60, "1")},
		{"allOf in a dynamic reference", `{"$ref":"#/$defs/a"}`,
			`{"a":{"$dynamicAnchor":"n","allOf":[{"properties":{"x":{"$dynamicRef":"#n"}}},{"properties":{"x":{"$dynamicRef":"#n"}}}]}}`,
			nested(60, "1")},
		{"unevaluatedProperties", `{"$ref":"#/$defs/a"}`,
			`{"a":{"anyOf":[{"properties":{"x":{"$ref":"#/$defs/a"}},"required":["q"]},true],"unevaluatedProperties":{"$ref":"#/$defs/a"}}}`,
			nested(60, "1")},
		{"contains and items", `{"$ref":"#/$defs/a"}`,
			`{"a":{"items":{"$ref":"#/$defs/a"},"contains":{"$ref":"#/$defs/a"}}}`,
			strings.Repeat("[", 60) + "1" + strings.Repeat("]", 60)},
		{"propertyNames and many members", `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"propertyNames":{"maxLength":9}},`, 100), ",") + `]}`, `{}`,
			object(5000)},
		{"the same many members many times", `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"maxProperties":9999},`, 500), ",") + `]}`, `{}`, object(5000)},
		{"unevaluatedProperties, which copies all names even for a visit that fails at once",
			`{"anyOf":[` + strings.Repeat(`{"type":"string"},`, 300) + `{"type":"object"}],"patternProperties":{"^m":true},"unevaluatedProperties":false}`, `{}`,
			object(2000)},
		{"a costly pattern on a long text", `{"type":"string","pattern":"^(a?){500}(b|c|a)*d$"}`, `{}`,
			`"` + strings.Repeat("a", 100_000) + `"`},
		{"the same long text many times", `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"minLength":1},`, 500), ",") + `]}`, `{}`,
			`"` + strings.Repeat("a", 200_000) + `"`},
		{"a long array", `{"items":{"type":"string"}}`, `{}`, strings.TrimSuffix(strings.TrimPrefix(big(20_000, `"a"`), `{"x":`), "}")},
		{"a long list of required names, for each of many objects", `{"items":{"required":["` + strings.Join(numbers, `","`) + `"]}}`, `{}`,
			"[" + strings.TrimSuffix(strings.Repeat("{},", 5000), ",") + "]"},
		{"many regular expressions as arguments", `{"items":{"format":"regex"}}`, `{}`,
			"[" + strings.TrimSuffix(strings.Repeat(`"\\pL{900}",`, 5000), ",") + "]"},
		{"uniqueItems of everything", `{"uniqueItems":true}`, `{}`, strings.TrimSuffix(strings.TrimPrefix(big(100_000, "1"), `{"x":`), "}")},
	} {
		t.Run(c.name, func(t *testing.T) {
			con := opaqueX(t, c.schema, c.defs)
			a := args(t, `{"x":`+c.args+`}`)
			start := time.Now()
			f := con.Validate(a)
			if took := time.Since(start); took > soon {
				t.Errorf("took %v", took)
			}
			if f == nil || f.Code != writ.CodeInvalidArguments || !strings.Contains(f.Message, "more than 10000 steps") {
				t.Errorf("got %+v, want a refusal for the budget", f)
			}
		})
	}
	t.Run("dependencies of draft-07", func(t *testing.T) {
		con := opaqueSchema(t, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"x":{"items":{"dependencies":{`+
			strings.ReplaceAll(strings.Trim(object(200), "{}"), ":1", `:{"minProperties":1}`)+`}}}}}`)
		if f := con.Validate(args(t, big(40, "{}"))); f != nil {
			t.Errorf("40 elements: %v", f)
		}
		if f := con.Validate(args(t, big(60, "{}"))); f == nil || !strings.Contains(f.Message, "more than 10000 steps") {
			t.Errorf("60 elements: %v", f)
		}
	})
	t.Run("uniqueItems of different arrays that the library hashes alike", func(t *testing.T) {
		con := opaqueX(t, `{"uniqueItems":true}`, `{}`)
		a := args(t, `{"x":[`+strings.Join(crafted, ",")+`]}`)
		start := time.Now()
		if f := con.Validate(a); f != nil {
			t.Errorf("got %+v", f)
		}
		if took := time.Since(start); took > soon {
			t.Errorf("took %v", took)
		}
	})
	t.Run("a large enum of numbers costs each value one look", func(t *testing.T) {
		con := opaqueX(t, `{"items":{"enum":[`+strings.Join(numbers, ",")+`]}}`, `{}`)
		a := args(t, big(3000, "7999"))
		start := time.Now()
		if f := con.Validate(a); f != nil {
			t.Errorf("got %+v", f)
		}
		if took := time.Since(start); took > soon {
			t.Errorf("took %v", took)
		}
	})
}

// TestBudgetOfHonestCalls: what real tools take is far from the budget.
func TestBudgetOfHonestCalls(t *testing.T) {
	t.Run("1024 records that are all different", func(t *testing.T) {
		c := make1(t, `{"type":"object","properties":{"x":{"type":"array","uniqueItems":true,"items":{
			"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string","pattern":"^[a-z]+$"}},"required":["a","b"]}}}}`,
			contract.Review{Effect: "read"})
		var b strings.Builder
		for i := range contract.MaxSet {
			fmt.Fprintf(&b, `,{"a":%d,"b":"abc"}`, i)
		}
		if f := c.Validate(args(t, `{"x":[`+b.String()[1:]+`]}`)); f != nil {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("a text of 200 KiB with a pattern", func(t *testing.T) {
		c := make1(t, `{"type":"object","properties":{"x":{"type":"string","minLength":1,"pattern":"^[^\\x00]*$"}}}`,
			contract.Review{Effect: "read"})
		if f := c.Validate(args(t, `{"x":"`+strings.Repeat("a", 200<<10)+`"}`)); f != nil {
			t.Errorf("got %+v", f)
		}
	})
}

// TestBudgetEdge: a visit for the arguments, one for x, one for each element,
// and a sixteenth for going through each.
func TestBudgetEdge(t *testing.T) {
	c := opaqueX(t, `{"items":{"type":"string"}}`, `{}`)
	for _, tc := range []struct {
		n  int
		ok bool
	}{
		{9410, true}, // 2 + 9410 + 588 = 10000
		{9411, false},
	} {
		f := c.Validate(args(t, `{"x":[`+strings.TrimSuffix(strings.Repeat(`"a",`, tc.n), ",")+`]}`))
		if (f == nil) != tc.ok {
			t.Errorf("%d elements: %v, want ok %v", tc.n, f, tc.ok)
		}
	}
}

// TestContained: what makes the library panic is refused. Only trees that
// canon.Parse does not make can do that, as far as we know.
func TestContained(t *testing.T) {
	c := opaqueX(t, `{"multipleOf":0.5}`, `{}`)
	for range 50 {
		if f := c.Validate(map[string]any{"x": number("no number")}); f == nil || f.Code != writ.CodeInvalidArguments {
			t.Fatalf("got %v", f)
		}
		if f := c.Validate(args(t, `{"x":1.5}`)); f != nil {
			t.Fatalf("the call after it: %v", f)
		}
	}
}

// TestRefCycle: a schema that is only a $ref to itself allows nothing.
func TestRefCycle(t *testing.T) {
	c := opaqueX(t, `{"$ref":"#/$defs/a"}`, `{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}`)
	if f := c.Validate(args(t, `{"x":1}`)); f == nil || f.Pointer != "/x" || !strings.Contains(f.Message, "$ref") {
		t.Errorf("got %v", f)
	}
}

// TestBudgetIsPerCall: an exhausted call leaves nothing behind for the next one.
func TestBudgetIsPerCall(t *testing.T) {
	c := opaqueX(t, `{"items":{"type":"string"}}`, `{}`)
	long := args(t, `{"x":[`+strings.TrimSuffix(strings.Repeat(`"a",`, 15_000), ",")+`]}`)
	short := args(t, `{"x":["a"]}`)
	for range 20 {
		if f := c.Validate(long); f == nil {
			t.Fatal("the long call passes")
		}
		if f := c.Validate(short); f != nil {
			t.Fatalf("the short call after it: %+v", f)
		}
	}
}

// TestConcurrentCalls: calls of one tool at the same time have budgets of their
// own, and see each other's arguments in nothing. With -race it also shows that
// no compiled schema is shared.
func TestConcurrentCalls(t *testing.T) {
	c := opaqueX(t, `{"items":{"type":"string"}}`, `{}`)
	texts := []string{`{"x":["a"]}`, `{"x":[1]}`, `{"x":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 15_000), ",") + `]}`}
	want := []string{"", "must be a string", "steps"}
	done := make(chan error)
	for worker := range 12 {
		go func() {
			for i := range 60 {
				k := (worker + i) % len(texts)
				a, err := canon.ParseObject([]byte(texts[k]))
				if err != nil {
					done <- err
					return
				}
				f := c.Validate(a)
				if (f == nil) != (want[k] == "") || f != nil && !strings.Contains(f.Message, want[k]) {
					done <- fmt.Errorf("%.20s: got %+v", texts[k], f)
					return
				}
			}
			done <- nil
		}()
	}
	for range 12 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
