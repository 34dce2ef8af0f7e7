package decide

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/definition"
)

// What a proposal may hold at most.
const (
	MaxActors    = 8     // the token's chain and the appended ones together
	MaxEvidence  = 64    // pieces of evidence
	MaxApprovals = 16    // approvals
	maxText      = 1024  // bytes of an id, a subject, a reference
	maxURL       = 2048  // bytes of an endpoint
	maxList      = 1024  // scopes, audiences, claims, derivations
	maxClaim     = 4096  // bytes of a claim's value
	maxValue     = 65536 // bytes of an observed value
)

// checkProposal reads the proposal strictly: whatever could be read in two
// ways is refused before anything is looked up.
func (c *call) checkProposal() failure {
	p := c.proposal
	if f := c.checkIdentifiers(); f.code != "" {
		return f
	}
	var err error
	if c.arguments, err = canon.ParseObject(p.ArgumentsJSON); err != nil {
		return badJSON("arguments_json", err)
	}
	if c.extra, err = canon.ParseObject(p.ExtraParamsJSON); err != nil {
		return badJSON("extra_params_json", err)
	}
	for _, name := range [...]string{"name", "arguments", "_meta"} {
		if _, ok := c.extra[name]; ok {
			return malformed("extra_params_json", "Extra parameters may not hold "+name+".")
		}
	}
	if f := c.checkDefinition(); f.code != "" {
		return f
	}
	if f := c.checkEvidenceForm(); f.code != "" {
		return f
	}
	return c.checkIntent()
}

func (c *call) checkIdentifiers() failure {
	p := c.proposal
	if f := text("request_id", p.RequestID, maxText); f.code != "" {
		return f
	}
	if f := text("principal.issuer", p.Principal.Issuer, maxURL); f.code != "" {
		return f
	}
	if f := text("principal.subject", p.Principal.Subject, maxText); f.code != "" {
		return f
	}
	if f := optional("principal.tenant", p.Principal.Tenant, maxText); f.code != "" {
		return f
	}
	if f := text("server.id", p.Server.ID, maxText); f.code != "" {
		return f
	}
	if f := optional("server.endpoint", p.Server.Endpoint, maxURL); f.code != "" {
		return f
	}
	if f := optional("server.package_hash", p.Server.PackageHash, maxText); f.code != "" {
		return f
	}
	if f := text("tool", p.Tool, maxText); f.code != "" {
		return f
	}
	actors := len(p.Actors)
	if p.Token != nil {
		actors += len(p.Token.Actors)
	}
	if actors > MaxActors {
		return malformed("actors", fmt.Sprintf("There are more than %d actors.", MaxActors))
	}
	for i := range p.Actors {
		if f := checkActor("actors", i, &p.Actors[i]); f.code != "" {
			return f
		}
	}
	if len(p.Approvals) > MaxApprovals {
		return malformed("approvals", fmt.Sprintf("There are more than %d approvals.", MaxApprovals))
	}
	for i := range p.Approvals {
		if f := text(index("approvals", i, "approver"), p.Approvals[i].Approver.Subject, maxText); f.code != "" {
			return f
		}
	}
	if p.Token != nil {
		return checkTokenForm(p.Token)
	}
	return passed
}

func checkActor(list string, i int, a *writ.Actor) failure {
	if f := text(index(list, i, "subject"), a.Subject, maxText); f.code != "" {
		return f
	}
	if f := optional(index(list, i, "issuer"), a.Issuer, maxURL); f.code != "" {
		return f
	}
	return checkClaims(index(list, i, "claims"), a.Claims)
}

func checkClaims(field string, claims map[string]string) failure {
	if len(claims) > maxList {
		return malformed(field, fmt.Sprintf("There are more than %d claims.", maxList))
	}
	for name, value := range claims {
		if f := text(field, name, maxText); f.code != "" {
			return f
		}
		if f := optional(field, value, maxClaim); f.code != "" {
			return f
		}
	}
	return passed
}

// checkTokenForm caps what a token may hold. Empty claims are for the TOKEN
// control to judge, but a token without a subject names nobody.
func checkTokenForm(t *writ.Token) failure {
	if f := optional("token.issuer", t.Issuer, maxURL); f.code != "" {
		return f
	}
	if f := text("token.subject", t.Subject, maxText); f.code != "" {
		return f
	}
	if f := optional("token.tenant", t.Tenant, maxText); f.code != "" {
		return f
	}
	if f := optional("token.id", t.ID, maxText); f.code != "" {
		return f
	}
	if f := optional("token.key_id", t.KeyID, maxText); f.code != "" {
		return f
	}
	if len(t.Scopes) > maxList || len(t.Audience) > maxList {
		return malformed("token", fmt.Sprintf("The token has more than %d scopes or audiences.", maxList))
	}
	for _, s := range t.Scopes {
		if f := text("token.scopes", s, maxText); f.code != "" {
			return f
		}
	}
	for _, s := range t.Audience {
		if f := optional("token.audience", s, maxURL); f.code != "" {
			return f
		}
	}
	for i := range t.Actors {
		if f := checkActor("token.actors", i, &t.Actors[i]); f.code != "" {
			return f
		}
	}
	return checkClaims("token.claims", t.Claims)
}

// checkDefinition takes the tool's current definition as a digest, or digests
// the one that was sent.
func (c *call) checkDefinition() failure {
	p := c.proposal
	switch {
	case len(p.DefinitionJSON) > 0 && !p.DefinitionDigest.IsZero():
		return malformed("definition_json", "Send the tool's definition or its digest, not both.")
	case len(p.DefinitionJSON) > 0:
		tool, err := definition.Parse(p.DefinitionJSON)
		if err != nil {
			return malformed("definition_json", "The tool's definition is not a valid MCP Tool object.")
		}
		if tool.Name != p.Tool {
			return malformed("definition_json", "The definition is another tool's.")
		}
		c.definition = tool.Digest
	case p.DefinitionDigest.IsZero():
		return malformed("definition_digest", "The tool's current definition is missing: send it, or its digest.")
	default:
		c.definition = p.DefinitionDigest
	}
	return passed
}

func (c *call) checkEvidenceForm() failure {
	evidence := c.proposal.Evidence
	if len(evidence) == 0 {
		return passed
	}
	if len(evidence) > MaxEvidence {
		return malformed("evidence", fmt.Sprintf("There are more than %d pieces of evidence.", MaxEvidence))
	}
	c.observed = make([]any, len(evidence))
	for i := range evidence {
		e := &evidence[i]
		if f := text(index("evidence", i, "argument"), e.Argument, maxText); f.code != "" {
			return f
		}
		if !validPointer(e.Argument) {
			return malformed(index("evidence", i, "argument"), "The argument is not a JSON Pointer such as /supplier (RFC 6901).")
		}
		if f := text(index("evidence", i, "kind"), string(e.Kind), maxText); f.code != "" {
			return f
		}
		if f := text(index("evidence", i, "reference"), e.Reference, maxURL); f.code != "" {
			return f
		}
		if f := optional(index("evidence", i, "classification"), e.Classification, maxText); f.code != "" {
			return f
		}
		if math.IsNaN(e.Confidence) || e.Confidence < 0 || e.Confidence > 1 {
			return malformed(index("evidence", i, "confidence"), "Confidence is a number from 0 to 1.")
		}
		if len(e.DerivedFrom) > maxList {
			return malformed(index("evidence", i, "derived_from"), fmt.Sprintf("There are more than %d derivations.", maxList))
		}
		for _, ref := range e.DerivedFrom {
			if f := text(index("evidence", i, "derived_from"), ref, maxURL); f.code != "" {
				return f
			}
		}
		if len(e.ValueJSON) > maxValue {
			return malformed(index("evidence", i, "value_json"), fmt.Sprintf("The observed value has more than %d bytes.", maxValue))
		}
		v, err := canon.Parse(e.ValueJSON)
		if err != nil {
			return badJSON(index("evidence", i, "value_json"), err)
		}
		c.observed[i] = v
	}
	return passed
}

func (c *call) checkIntent() failure {
	in := c.proposal.Intent
	if in == nil {
		if ct := c.world.Contract(c.proposal.Server.ID, c.proposal.Tool); ct != nil && ct.IntentRequired {
			return failure{writ.CodeIntentRequired, "This tool needs the user's current intent.", "intent"}
		}
		return passed
	}
	if f := text("intent.id", in.ID, maxText); f.code != "" {
		return f
	}
	if f := optional("intent.purpose", in.Purpose, maxText); f.code != "" {
		return f
	}
	if in.ExpiresAt.IsZero() {
		return malformed("intent.expires_at", "An intent needs an expiry.")
	}
	if !c.now.Before(in.ExpiresAt) {
		return failure{writ.CodeIntentExpired, "The user's intent has expired.", "intent.expires_at"}
	}
	return passed
}

// text requires s: some valid UTF-8 without control characters, max bytes at most.
func text(field, s string, max int) failure {
	if s == "" {
		return malformed(field, "It is empty.")
	}
	return optional(field, s, max)
}

func optional(field, s string, max int) failure {
	if len(s) > max {
		return malformed(field, fmt.Sprintf("It has more than %d bytes.", max))
	}
	ascii := true
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] == 0x7f {
			return malformed(field, "It holds a control character.")
		}
		if s[i] >= utf8.RuneSelf {
			ascii = false
		}
	}
	if !ascii && !utf8.ValidString(s) {
		return malformed(field, "It is not valid UTF-8.")
	}
	return passed
}

func malformed(field, why string) failure {
	return failure{writ.CodeMalformedProposal, why, field}
}

func badJSON(field string, err error) failure {
	why := "It is not JSON that can be read in exactly one way."
	if e, ok := errors.AsType[*canon.Error](err); ok {
		why = "It is not JSON that can be read in exactly one way: " + e.Reason
		if !strings.HasSuffix(why, ".") {
			why += "."
		}
	}
	return malformed(field, why)
}

func index(list string, i int, member string) string {
	return fmt.Sprintf("%s[%d].%s", list, i, member)
}

// validPointer reports whether s is a JSON Pointer to a member (RFC 6901, section 3).
func validPointer(s string) bool {
	if s[0] != '/' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}
