package writ

import "fmt"

// Outcome is what a decision says. The zero value denies.
type Outcome uint8

// Outcomes. A caller that meets any other value denies.
const (
	Deny Outcome = iota
	ReviewRequired
	Allow
)

// String returns the outcome as it stands on the wire and in records: DENY,
// REVIEW_REQUIRED or ALLOW. An unknown outcome reads DENY.
func (o Outcome) String() string {
	switch o {
	case Allow:
		return "ALLOW"
	case ReviewRequired:
		return "REVIEW_REQUIRED"
	case Deny:
		return "DENY"
	}
	return "DENY"
}

// Control is one step of the decision. Controls run in the order of
// [Controls]; the first that fails answers.
type Control string

// Controls, each owned by one package.
const (
	ControlFreshness    Control = "FRESHNESS"
	ControlProposal     Control = "PROPOSAL"
	ControlRegistration Control = "REGISTRATION"
	ControlToken        Control = "TOKEN"
	ControlRevocation   Control = "REVOCATION"
	ControlArguments    Control = "ARGUMENTS"
	ControlTarget       Control = "TARGET"
	ControlDataFlow     Control = "DATA_FLOW"
	ControlPolicy       Control = "POLICY"
	ControlApproval     Control = "APPROVAL"
	ControlGrant        Control = "GRANT"
	ControlEffect       Control = "EFFECT"
	ControlAudit        Control = "AUDIT"
)

// Controls lists every control in the order in which they answer.
var Controls = [...]Control{
	ControlFreshness, ControlProposal, ControlRegistration, ControlToken, ControlRevocation, ControlArguments,
	ControlTarget, ControlDataFlow, ControlPolicy, ControlApproval, ControlGrant, ControlEffect, ControlAudit,
}

// Code is the reason of a decision: a fixed upper-case string on the wire, in
// records and in metrics. Codes are append-only. A bundle's policies may name
// codes of their own, never one of these.
type Code string

// Codes, each owned by one control (see [CodeInfo]).
const (
	CodeAllow          Code = "ALLOW"
	CodeRedeemed       Code = "REDEEMED"
	CodeEffectVerified Code = "EFFECT_VERIFIED"

	CodeSnapshotStale       Code = "SNAPSHOT_STALE"
	CodeRevisionUnavailable Code = "REVISION_UNAVAILABLE"

	CodeMalformedProposal Code = "MALFORMED_PROPOSAL"
	CodeIntentRequired    Code = "INTENT_REQUIRED"
	CodeIntentExpired     Code = "INTENT_EXPIRED"

	CodeServerIdentity    Code = "SERVER_IDENTITY"
	CodeToolUnregistered  Code = "TOOL_UNREGISTERED"
	CodeDefinitionChanged Code = "DEFINITION_CHANGED"

	CodeTokenInvalid     Code = "TOKEN_INVALID"
	CodeSubjectMismatch  Code = "SUBJECT_MISMATCH"
	CodeAudienceMismatch Code = "AUDIENCE_MISMATCH"
	CodeTokenExpired     Code = "TOKEN_EXPIRED"
	CodeScopeMissing     Code = "SCOPE_MISSING"

	CodePrincipalRevoked Code = "PRINCIPAL_REVOKED"
	CodeActorRevoked     Code = "ACTOR_REVOKED"
	CodeCallerRevoked    Code = "CALLER_REVOKED"
	CodeIssuerRevoked    Code = "ISSUER_REVOKED"
	CodeTokenRevoked     Code = "TOKEN_REVOKED"
	CodeIntentRevoked    Code = "INTENT_REVOKED"
	CodeServerRevoked    Code = "SERVER_REVOKED"
	CodeToolRevoked      Code = "TOOL_REVOKED"

	CodeInvalidArguments Code = "INVALID_ARGUMENTS"

	CodeTargetOutOfBounds Code = "TARGET_OUT_OF_BOUNDS"
	CodeTargetUnknown     Code = "TARGET_UNKNOWN"

	CodeClassificationDenied Code = "CLASSIFICATION_DENIED"
	CodeUntrustedSoleSource  Code = "UNTRUSTED_SOLE_SOURCE"
	CodeEvidenceMissing      Code = "EVIDENCE_MISSING"
	CodeEvidenceStale        Code = "EVIDENCE_STALE"

	CodeNoPermit    Code = "NO_PERMIT"
	CodePolicyError Code = "POLICY_ERROR"

	CodeApprovalInvalid  Code = "APPROVAL_INVALID"
	CodeApprovalRequired Code = "APPROVAL_REQUIRED"
	CodeStaleApproval    Code = "STALE_APPROVAL"
	CodeSelfApproval     Code = "SELF_APPROVAL"
	CodeApproverDenied   Code = "APPROVER_DENIED"
	CodeApprovalExpired  Code = "APPROVAL_EXPIRED"
	CodeApprovalRevoked  Code = "APPROVAL_REVOKED"

	CodeGrantRequired    Code = "GRANT_REQUIRED"
	CodeGrantInvalid     Code = "GRANT_INVALID"
	CodeGrantExpired     Code = "GRANT_EXPIRED"
	CodeGrantMismatch    Code = "GRANT_MISMATCH"
	CodeGrantAudience    Code = "GRANT_AUDIENCE"
	CodeGrantAlreadyUsed Code = "GRANT_ALREADY_USED"
	CodeGrantRevoked     Code = "GRANT_REVOKED"

	CodeReceiptMismatch     Code = "RECEIPT_MISMATCH"
	CodeUnknownOutcome      Code = "UNKNOWN_OUTCOME"
	CodePostconditionFailed Code = "POSTCONDITION_FAILED"

	CodeAuditUnavailable Code = "AUDIT_UNAVAILABLE"
)

// CodeInfo says what one of Writ's own codes means and who owns it.
type CodeInfo struct {
	Code    Code
	Control Control // empty for successes
	Outcome Outcome // the only outcome that carries the code
	Doc     string  // one sentence, for people
}

// codes is the one table of Writ's codes, in the order in which they answer.
var codes = [...]CodeInfo{
	{CodeAllow, "", Allow, "Every control passed."},
	{CodeRedeemed, "", Allow, "The grant is spent, and the call may be made once, now."},
	{CodeEffectVerified, "", Allow, "What was observed is what was authorised."},

	{CodeSnapshotStale, ControlFreshness, Deny, "No bundle is loaded, or its source has been silent for too long to act on what it said."},
	{CodeRevisionUnavailable, ControlFreshness, Deny, "The revision that the request demands has not arrived here."},

	{CodeMalformedProposal, ControlProposal, Deny, "The proposal is incomplete, too large, or its JSON cannot be read in exactly one way."},
	{CodeIntentRequired, ControlProposal, Deny, "The contract requires the user's current intent and the proposal has none."},
	{CodeIntentExpired, ControlProposal, Deny, "The user's intent has expired."},

	{CodeServerIdentity, ControlRegistration, Deny, "The server is not registered, or is registered at another endpoint or with another package hash."},
	{CodeToolUnregistered, ControlRegistration, Deny, "Nobody has reviewed this tool of this server."},
	{CodeDefinitionChanged, ControlRegistration, Deny, "The tool's current definition is not the reviewed one."},

	{CodeTokenInvalid, ControlToken, Deny, "No token, or one that no known issuer made."},
	{CodeSubjectMismatch, ControlToken, Deny, "The token is somebody else's."},
	{CodeAudienceMismatch, ControlToken, Deny, "The token was issued for another service."},
	{CodeTokenExpired, ControlToken, Deny, "The token has expired or is not valid yet."},
	{CodeScopeMissing, ControlToken, Deny, "The token lacks the scope that the contract names."},

	{CodePrincipalRevoked, ControlRevocation, Deny, "The principal is revoked."},
	{CodeActorRevoked, ControlRevocation, Deny, "An actor is revoked."},
	{CodeCallerRevoked, ControlRevocation, Deny, "The caller is revoked."},
	{CodeIssuerRevoked, ControlRevocation, Deny, "The issuer is revoked."},
	{CodeTokenRevoked, ControlRevocation, Deny, "The token is revoked."},
	{CodeIntentRevoked, ControlRevocation, Deny, "The intent is revoked."},
	{CodeServerRevoked, ControlRevocation, Deny, "The server is revoked."},
	{CodeToolRevoked, ControlRevocation, Deny, "The tool is revoked."},

	{CodeInvalidArguments, ControlArguments, Deny, "The arguments break the tool's schema, or hold something that policies could not see exactly."},

	{CodeTargetOutOfBounds, ControlTarget, Deny, "A target escapes its bound or cannot be written in one normal form."},
	{CodeTargetUnknown, ControlTarget, Deny, "A target or another entity argument is not held by the bundle."},

	{CodeClassificationDenied, ControlDataFlow, Deny, "The server is not entitled to this data or to this purpose."},
	{CodeUntrustedSoleSource, ControlDataFlow, Deny, "Only untrusted sources support a value."},
	{CodeEvidenceMissing, ControlDataFlow, Deny, "Too few independent trusted sources support a value."},
	{CodeEvidenceStale, ControlDataFlow, Deny, "The evidence for a value is too old."},

	{CodeNoPermit, ControlPolicy, Deny, "No policy permits the call for the principal or for an actor."},
	{CodePolicyError, ControlPolicy, Deny, "A forbid could not be evaluated."},

	{CodeApprovalInvalid, ControlApproval, Deny, "An approval is forged."},
	{CodeApprovalRequired, ControlApproval, ReviewRequired, "People must agree before this call."},
	{CodeStaleApproval, ControlApproval, ReviewRequired, "An approval is for another proposal or for what its target was before."},
	{CodeSelfApproval, ControlApproval, ReviewRequired, "The principal, an actor or the caller approved."},
	{CodeApproverDenied, ControlApproval, ReviewRequired, "No policy lets this person approve here."},
	{CodeApprovalExpired, ControlApproval, ReviewRequired, "An approval has expired."},
	{CodeApprovalRevoked, ControlApproval, ReviewRequired, "An approval is revoked."},

	{CodeGrantRequired, ControlGrant, Deny, "The call needs a grant and came without one."},
	{CodeGrantInvalid, ControlGrant, Deny, "It is not a grant that this decision point, or one of its replicas, has signed for now."},
	{CodeGrantExpired, ControlGrant, Deny, "The grant's time is over, or has not come yet."},
	{CodeGrantMismatch, ControlGrant, Deny, "The grant is for another call."},
	{CodeGrantAudience, ControlGrant, Deny, "The grant is for another server, or this caller does not redeem for it."},
	{CodeGrantAlreadyUsed, ControlGrant, Deny, "The grant, or another one for the same proposal, has been redeemed."},
	{CodeGrantRevoked, ControlGrant, Deny, "What the grant stands on has been withdrawn or has changed since."},

	{CodeReceiptMismatch, ControlEffect, Deny, "The receipt is for another proposal, from another observer, or cannot be read."},
	{CodeUnknownOutcome, ControlEffect, Deny, "Nobody knows yet whether there was an effect: nothing may be done again but under the same idempotency key."},
	{CodePostconditionFailed, ControlEffect, Deny, "What was observed is not what was authorised."},

	{CodeAuditUnavailable, ControlAudit, Deny, "The answer could not be recorded, so it is not given."},
}

// Codes returns Writ's codes in the order in which they answer.
func Codes() []CodeInfo { return append([]CodeInfo(nil), codes[:]...) }

var codeIndex = func() map[Code]*CodeInfo {
	m := make(map[Code]*CodeInfo, len(codes))
	for i := range codes {
		m[codes[i].Code] = &codes[i]
	}
	return m
}()

// Info returns what c means. A code that is not Writ's belongs to a bundle's
// policy: then ok is false.
func (c Code) Info() (info CodeInfo, ok bool) {
	p, ok := codeIndex[c]
	if !ok {
		return CodeInfo{}, false
	}
	return *p, true
}

// Control returns the control that owns c: POLICY for a bundle's own code,
// empty for a success.
func (c Code) Control() Control {
	if p, ok := codeIndex[c]; ok {
		return p.Control
	}
	return ControlPolicy
}

// CheckBundleCode says why a policy may not answer with c, or nil: a code is
// 3 to 64 characters of A–Z, 0–9 and _, starts with a letter, and is not one
// of Writ's, now or reserved for later.
func CheckBundleCode(c Code) error {
	if _, ok := codeIndex[c]; ok {
		return fmt.Errorf("%s is Writ's own code: choose another name", c)
	}
	for _, r := range reservedCodes {
		if c == r {
			return fmt.Errorf("%s is reserved for Writ: choose another name", c)
		}
	}
	if len(c) < 3 || len(c) > 64 || c[0] < 'A' || c[0] > 'Z' {
		return fmt.Errorf("code %q: a code is 3 to 64 characters of A-Z, 0-9 and _, and starts with a letter", string(c))
	}
	for i := 0; i < len(c); i++ {
		if b := c[i]; (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '_' {
			return fmt.Errorf("code %q: a code is 3 to 64 characters of A-Z, 0-9 and _, and starts with a letter", string(c))
		}
	}
	return nil
}

// reservedCodes are outcomes' names and codes that belong to controls which
// this version does not have: a bundle may not take them.
var reservedCodes = [...]Code{
	"REVISION_UNAVAILABLE", "DENY", "REVIEW_REQUIRED", "UNSPECIFIED", "REDEEMED", "EFFECT_VERIFIED",
	"GRANT_REQUIRED", "GRANT_INVALID", "GRANT_EXPIRED", "GRANT_MISMATCH", "GRANT_AUDIENCE", "GRANT_ALREADY_USED",
	"GRANT_REVOKED", "RECEIPT_MISMATCH", "UNKNOWN_OUTCOME", "POSTCONDITION_FAILED",
}
