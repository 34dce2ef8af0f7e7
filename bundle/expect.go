package bundle

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/writ-pdp/writ"
)

// outcomes are the words that people write for a code, each with one of its
// codes.
var outcomes = map[string]writ.Code{
	"ALLOWED": writ.CodeAllow, "PERMIT": writ.CodeAllow, "PERMITTED": writ.CodeAllow,
	"DENY": writ.CodeNoPermit, "DENIED": writ.CodeNoPermit, "FORBID": writ.CodeNoPermit, "FORBIDDEN": writ.CodeNoPermit,
	"REVIEW": writ.CodeApprovalRequired, "REVIEW_REQUIRED": writ.CodeApprovalRequired,
}

// expect reads the expected answer, and refuses one that this bundle could
// never give.
func (p *proposer) expect() Expectation {
	in := p.in.GetExpect()
	out := Expectation{Code: writ.Code(in.GetCode()), Policies: in.GetPolicies(), Control: writ.Control(in.GetControl()), Line: p.in.line}
	if _, n := child(p.in.merged, "expect"); n != nil {
		out.Line = n.Line
	}
	field := "expect"
	if n := find(p.in.merged, "expect"); n != nil && n.Kind == yaml.MappingNode {
		field = "expect.code"
	}
	if in.GetCode() == "" {
		p.fail(field, "the case expects nothing: write expect: and a code such as ALLOW or NO_PERMIT")
		return out
	}
	if _, own := out.Code.Info(); !own && !slices.Contains(p.codes, in.GetCode()) {
		known := slices.Clone(p.codes)
		for _, info := range writ.Codes() {
			known = append(known, string(info.Code))
		}
		switch code := strings.ToUpper(in.GetCode()); {
		case outcomes[code] != "":
			p.fail(field, fmt.Sprintf("%s is an outcome: write its code, such as %s", in.GetCode(), outcomes[code]))
		case slices.Contains(known, code):
			p.fail(field, fmt.Sprintf("codes are written in capitals: %s", code))
		default:
			p.fail(field, didYouMean(fmt.Sprintf("%q is neither Writ's code nor named by a policy's @code", in.GetCode()), in.GetCode(), known))
		}
	}
	if out.Control != "" && out.Control != out.Code.Control() {
		p.fail("expect.control", fmt.Sprintf("%s is never answered by %s, but by %s", out.Code, out.Control, or(string(out.Code.Control()), "no control")))
	}
	for i, id := range out.Policies {
		if !slices.Contains(p.ids, id) {
			p.fail(item("expect.policies", i), didYouMean(fmt.Sprintf("there is no policy %q", id), id, p.ids))
		}
	}
	return out
}
