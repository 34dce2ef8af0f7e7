package contract_test

import (
	"strings"
	"testing"

	"github.com/writ-pdp/writ/contract"
)

// TestFailuresSayWhatIsWanted: whole messages, as an agent reads them.
func TestFailuresSayWhatIsWanted(t *testing.T) {
	long := strings.Repeat("x", 70)
	c := make1(t, `{"type":"object","required":["a","b"],"properties":{
		"a":{"type":"string"},"b":{"type":"string"},
		"method":{"enum":["GET","POST","DELETE"]},
		"one":{"const":"only this"},
		"many":{"enum":["a0","a1","a2","a3","a4","a5","a6","a7","a8","a9","b0","b1"]},
		"ten":{"enum":["a0","a1","a2","a3","a4","a5","a6","a7","a8","a9"]},
		"odd":{"enum":["", "a b", "c,d", "e\u202e", "`+long+`"]},
		"mixed":{"enum":[1,true,null,{"k":"v"},"t"]},
		"limits":{"type":"object","maxProperties":2,"properties":{"x":{"type":"integer","minimum":-1e21},"y":{"type":"array","minItems":1,"maxItems":2},"z":{"type":"string"}},
			"dependentRequired":{"x":["z"]}},
		"closed":{"type":"object","additionalProperties":false,"properties":{"known":{"type":["integer","boolean"]}}},
		"service":{"type":"string"}, "filter":{"type":"object","properties":{"region":{"type":"string"}}}}}`,
		contract.Review{Effect: "read", Opaque: []string{"mixed", "limits", "closed"}})
	with := func(rest string) string { return `{"a":"","b":"",` + rest + `}` }
	for _, tc := range []struct{ args, pointer, message string }{
		{`{}`, "", `"a", "b" are missing`},
		{`{"b":""}`, "", `"a" is missing`},
		{with(`"method":"PUT"`), "/method", "must be one of GET, POST, DELETE"},
		{with(`"method":7`), "/method", "must be a string"},
		{with(`"one":"x"`), "/one", `must be "only this"`},
		{with(`"many":"z"`), "/many", "must be one of a0, a1, a2, a3, a4, a5, a6, a7, a8, a9 and 2 more"},
		{with(`"ten":"z"`), "/ten", "must be one of a0, a1, a2, a3, a4, a5, a6, a7, a8, a9"},
		{with(`"odd":"z"`), "/odd", `must be one of "", "a b", "c,d", "e\u202e", ` + long[:64] + "…"},
		{with(`"mixed":2`), "/mixed", `must be one of 1, true, null, {"k":"v"}, t`},
		{with(`"limits":{"x":-1e22,"z":""}`), "/limits/x", "must be at least -1e+21"},
		{with(`"limits":{"y":[]}`), "/limits/y", "must have at least 1 element"},
		{with(`"limits":{"y":[1,2,3]}`), "/limits/y", "must have at most 2 elements"},
		{with(`"limits":{"x":1}`), "/limits", `"z" is missing: "x" needs it`},
		{with(`"limits":{"p":1,"q":2,"r":3}`), "/limits", "must have at most 2 members"},
		{with(`"closed":{"known":"x"}`), "/closed/known", "must be true or false or a number"},
		{with(`"closed":{"secret":1}`), "/closed", "holds a member that the tool's schema does not declare"},

		{with(`"servce":"x"`), "/servce", `the tool's schema does not declare it; did you mean "service"?`},
		{with(`"filter":{"regoin":"x"}`), "/filter/regoin", `the tool's schema does not declare it; did you mean "region"?`},
		{with(`"filter":{"wholly other":"x"}`), "/filter/wholly other", "the tool's schema does not declare it"},
		{with(`"` + long[:64] + `":1`), "/" + long[:64], "the tool's schema does not declare it"},
		{with(`"` + long[:65] + `":1`), "", "the tool's schema does not declare it"},
		{with(`"x\ny\u202e/~\u0000":1`), `/x\ny\u202e~1~0\x00`, "the tool's schema does not declare it"},
		{with(`"filter":{"` + long + `":1}`), "/filter", "the tool's schema does not declare it"},
	} {
		for range 5 { // maps are walked in random order
			f := c.Validate(args(t, tc.args))
			if f == nil || f.Pointer != tc.pointer || f.Message != tc.message {
				t.Errorf("%.80s\n got %v\nwant %s: %s", tc.args, f, tc.pointer, tc.message)
				break
			}
		}
	}
}

// TestDefinitionFaults: a fault of the definition says where in the Tool
// object it is.
func TestDefinitionFaults(t *testing.T) {
	for _, tc := range []struct{ schema, pointer, message string }{
		{`{"type":"object","properties":{"n":{"type":"numbr"}}}`, "/inputSchema/properties/n/type", "inputSchema/properties/n/type: value must be one of "},
		{`{"type":"object","properties":{"a/b":{"type":"string","minLength":"1"}}}`, "/inputSchema/properties/a~1b/minLength", "inputSchema/properties/a~1b/minLength: "},
		{`{"type":"object","properties":{"a b":{"type":"string","format":5}}}`, "/inputSchema/properties/a b/format", "inputSchema/properties/a b/format: it is no text"},
		{`{"type":"object","properties":{"a b":{"type":"string","pattern":"` + strings.Repeat("a", 3000) + `"}}}`, "/inputSchema/properties/a b/pattern",
			"inputSchema/properties/a b/pattern: the pattern " + strings.Repeat("a", 64) + "… is refused: the pattern is longer than 2048 bytes"},
		{`{"type":"object","properties":{"a":{"$ref":"https://evil.example/x"}}}`, "/inputSchema/properties/a", "leads out of the schema"},
		{`{"type":"object","$schema":"https://evil.example/x"}`, "/inputSchema/$schema", "not known here"},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`, "/inputSchema", "not found"},
	} {
		_, faults, _ := contract.New(remote("t", contract.Review{Effect: "read"}), toolList(define(t, "t", tc.schema)))
		if len(faults) != 1 || faults[0].Field != "tools.t" || faults[0].Pointer != tc.pointer || !strings.Contains(faults[0].Message, tc.message) {
			t.Errorf("%.100s\n got %+v\nwant %s %s", tc.schema, faults, tc.pointer, tc.message)
		}
	}
	// What another review would mend is the review's.
	_, faults, _ := contract.New(remote("t", contract.Review{Effect: "read"}), toolList(define(t, "t", `{"type":"object","properties":{"a":{"type":"object"}}}`)))
	if len(faults) != 1 || faults[0].Pointer != "" {
		t.Errorf("got %+v", faults)
	}
}
