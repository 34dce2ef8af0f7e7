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
	MaxArguments = 1024  // arguments by name
	MaxScopes    = 256   // scopes of a token
	maxText      = 1024  // bytes of an id, a subject, a reference
	maxURL       = 2048  // bytes of an endpoint
	maxList      = 1024  // claims, derivations
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
	if len(c.arguments) > MaxArguments {
		return malformed("arguments_json", fmt.Sprintf("There are more than %d arguments.", MaxArguments))
	}
	if c.extra, err = canon.ParseObject(p.ExtraParamsJSON); err != nil {
		return badJSON("extra_params_json", err)
	}
	for name := range c.extra {
		// A server's decoder may take Arguments for arguments.
		switch canon.Fold(name) {
		case "name", "arguments", "_meta":
			return malformed("extra_params_json", "Extra parameters may not hold name, arguments or _meta, or a look-alike of them.")
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
	if why := text(p.RequestID, maxText); why != "" {
		return malformed("request_id", why)
	}
	if why := text(p.Principal.Issuer, maxURL); why != "" {
		return malformed("principal.issuer", why)
	}
	if why := text(p.Principal.Subject, maxText); why != "" {
		return malformed("principal.subject", why)
	}
	if why := optional(p.Principal.Tenant, maxText); why != "" {
		return malformed("principal.tenant", why)
	}
	if why := text(p.Server.ID, maxText); why != "" {
		return malformed("server.id", why)
	}
	if why := optional(p.Server.Endpoint, maxURL); why != "" {
		return malformed("server.endpoint", why)
	}
	if why := optional(p.Server.PackageHash, maxText); why != "" {
		return malformed("server.package_hash", why)
	}
	if why := text(p.Tool, maxText); why != "" {
		return malformed("tool", why)
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
	if len(p.Approvals) > MaxApprovals || len(p.SignedApprovals) > MaxApprovals {
		return malformed("approvals", fmt.Sprintf("There are more than %d approvals.", MaxApprovals))
	}
	for i := range p.Approvals {
		if p.Approvals[i].Forged {
			continue // it says nothing, and APPROVAL denies it
		}
		if why := text(p.Approvals[i].Approver.Subject, maxText); why != "" {
			return malformed(index("approvals", i, "approver"), why)
		}
	}
	if p.Token != nil && p.Token.Invalid == "" {
		return checkTokenForm(p.Token)
	}
	return passed
}

func checkActor(list string, i int, a *writ.Actor) failure {
	if why := text(a.Subject, maxText); why != "" {
		return malformed(index(list, i, "subject"), why)
	}
	if why := optional(a.Issuer, maxURL); why != "" {
		return malformed(index(list, i, "issuer"), why)
	}
	if f := checkClaims("claims", a.Claims); f.code != "" {
		f.field = index(list, i, f.field)
		return f
	}
	return passed
}

func checkClaims(field string, claims map[string]string) failure {
	if len(claims) > maxList {
		return malformed(field, fmt.Sprintf("There are more than %d claims.", maxList))
	}
	for name, value := range claims {
		if why := text(name, maxText); why != "" {
			return malformed(field, why)
		}
		if why := optional(value, maxClaim); why != "" {
			return malformed(field, why)
		}
	}
	return passed
}

// checkTokenForm caps what a token may hold. Empty claims are for the TOKEN
// control to judge, but a token without a subject names nobody.
func checkTokenForm(t *writ.Token) failure {
	if why := optional(t.Issuer, maxURL); why != "" {
		return malformed("token.issuer", why)
	}
	if why := text(t.Subject, maxText); why != "" {
		return malformed("token.subject", why)
	}
	if why := optional(t.Tenant, maxText); why != "" {
		return malformed("token.tenant", why)
	}
	if why := optional(t.ID, maxText); why != "" {
		return malformed("token.id", why)
	}
	if why := optional(t.KeyID, maxText); why != "" {
		return malformed("token.key_id", why)
	}
	if len(t.Scopes) > MaxScopes || len(t.Audience) > MaxScopes {
		return malformed("token", fmt.Sprintf("The token has more than %d scopes or audiences.", MaxScopes))
	}
	for _, s := range t.Scopes {
		if why := text(s, maxText); why != "" {
			return malformed("token.scopes", why)
		}
	}
	for _, s := range t.Audience {
		if why := optional(s, maxURL); why != "" {
			return malformed("token.audience", why)
		}
	}
	for i := range t.Actors {
		if f := checkActor("token.actors", i, &t.Actors[i]); f.code != "" {
			return f
		}
	}
	if t.MayAct != nil {
		if f := checkActor("token.may_act", 0, t.MayAct); f.code != "" {
			f.field = "token.may_act"
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
		if why := text(e.Argument, maxText); why != "" {
			return malformed(index("evidence", i, "argument"), why)
		}
		if !validPointer(e.Argument) {
			return malformed(index("evidence", i, "argument"), "The argument is not a JSON Pointer such as /supplier (RFC 6901).")
		}
		if why := text(string(e.Kind), maxText); why != "" {
			return malformed(index("evidence", i, "kind"), why)
		}
		if why := text(e.Reference, maxURL); why != "" {
			return malformed(index("evidence", i, "reference"), why)
		}
		if why := optional(e.Classification, maxText); why != "" {
			return malformed(index("evidence", i, "classification"), why)
		}
		if math.IsNaN(e.Confidence) || e.Confidence < 0 || e.Confidence > 1 {
			return malformed(index("evidence", i, "confidence"), "Confidence is a number from 0 to 1.")
		}
		if len(e.DerivedFrom) > maxList {
			return malformed(index("evidence", i, "derived_from"), fmt.Sprintf("There are more than %d derivations.", maxList))
		}
		for _, ref := range e.DerivedFrom {
			if why := text(ref, maxURL); why != "" {
				return malformed(index("evidence", i, "derived_from"), why)
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
	if why := text(in.ID, maxText); why != "" {
		return malformed("intent.id", why)
	}
	if why := text(in.Purpose, maxText); why != "" {
		return malformed("intent.purpose", why)
	}
	if in.DeclaredAt.IsZero() || in.DeclaredAt.After(c.now.Add(skew)) {
		return malformed("intent.declared_at", "An intent says when it was declared, and that is not in the future.")
	}
	if in.ExpiresAt.IsZero() {
		return malformed("intent.expires_at", "An intent needs an expiry.")
	}
	if !c.now.Before(in.ExpiresAt) {
		return failure{writ.CodeIntentExpired, "The user's intent has expired.", "intent.expires_at"}
	}
	return passed
}

// text says what is wrong with s where some text is required, or nothing.
func text(s string, max int) string {
	if s == "" {
		return "It is empty."
	}
	return optional(s, max)
}

// optional says what is wrong with s, or nothing: it is valid UTF-8 without
// control characters, max bytes at most.
func optional(s string, max int) string {
	if len(s) > max {
		return fmt.Sprintf("It has more than %d bytes.", max)
	}
	ascii := true
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] == 0x7f {
			return "It holds a control character."
		}
		if s[i] >= utf8.RuneSelf {
			ascii = false
		}
	}
	if !ascii && !utf8.ValidString(s) {
		return "It is not valid UTF-8."
	}
	return ""
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
