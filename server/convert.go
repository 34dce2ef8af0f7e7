package server

import (
	"fmt"
	"maps"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// FieldError says which part of a proposal cannot be read: the decision is
// MALFORMED_PROPOSAL.
type FieldError struct {
	Field  string // dotted path: evidence[2].observed_at
	Reason string // one sentence, without values
}

func (e *FieldError) Error() string { return "malformed proposal: " + e.Field + ": " + e.Reason }

// ProposalFromProto reads a proposal off the wire. It checks only that
// everything can be carried over exactly: a time is a valid Timestamp (or
// absent: the zero time), a digest is a digest. The rest is for the decision.
//
// The error is a *[FieldError]. The proposal is never nil: beside an error it
// holds whatever could be read, so that the denial can be recorded.
func ProposalFromProto(p *writv1.Proposal) (*writ.Proposal, error) {
	if p == nil {
		return &writ.Proposal{}, &FieldError{"proposal", "It is missing."}
	}
	r := reader{}
	out := &writ.Proposal{
		RequestID:        p.GetRequestId(),
		Principal:        principalFromProto(p.GetPrincipal()),
		Actors:           actorsFromProto(p.GetActors()),
		Server:           writ.ServerRef{ID: p.GetServer().GetId(), Endpoint: p.GetServer().GetEndpoint(), PackageHash: p.GetServer().GetPackageHash()},
		Tool:             p.GetTool(),
		DefinitionDigest: r.digest("definition_digest", p.GetDefinitionDigest()),
		DefinitionJSON:   []byte(p.GetDefinitionJson()),
		ArgumentsJSON:    []byte(p.GetArgumentsJson()),
		ExtraParamsJSON:  []byte(p.GetExtraParamsJson()),

		AccessToken: []byte(p.GetAccessToken()), DPoPProof: []byte(p.GetDpopProof()), ClientCertificate: p.GetClientCertificateSha256(),

		SignedApprovals: p.GetApprovals(), Retries: r.digest("retries", p.GetRetries()),
	}
	if in := p.GetIntent(); in != nil {
		out.Intent = &writ.Intent{
			ID: in.GetId(), Purpose: in.GetPurpose(),
			DeclaredAt: r.time("intent.declared_at", in.GetDeclaredAt()),
			ExpiresAt:  r.time("intent.expires_at", in.GetExpiresAt()),
		}
	}
	if p.GetToken() != nil && p.GetAccessToken() != "" {
		r.fail("access_token", "Send the access token or what it says, not both.")
	} else {
		out.Token = r.token(p.GetToken())
	}
	for i, e := range p.GetEvidence() {
		out.Evidence = append(out.Evidence, writ.Evidence{
			Argument: e.GetArgument(), ValueJSON: []byte(e.GetValueJson()), Kind: writ.SourceKind(e.GetKind()),
			Reference: e.GetReference(), Classification: e.GetClassification(),
			ObservedAt: r.time(fmt.Sprintf("evidence[%d].observed_at", i), e.GetObservedAt()),
			Confidence: e.GetConfidence(), DerivedFrom: e.GetDerivedFrom(),
		})
	}
	if r.fault != nil {
		return out, r.fault
	}
	return out, nil
}

// reader keeps the first fault.
type reader struct{ fault *FieldError }

func (r *reader) fail(field, reason string) {
	if r.fault == nil {
		r.fault = &FieldError{field, reason}
	}
}

// token reads what a token says; nil: nothing.
func (r *reader) token(t *writv1.Token) *writ.Token {
	if t == nil {
		return nil
	}
	out := &writ.Token{
		Issuer: t.GetIssuer(), Subject: t.GetSubject(), Tenant: t.GetTenant(),
		Audience: t.GetAudience(), Scopes: t.GetScopes(), ID: t.GetId(), KeyID: t.GetKeyId(),
		IssuedAt:  r.time("token.issued_at", t.GetIssuedAt()),
		NotBefore: r.time("token.not_before", t.GetNotBefore()),
		ExpiresAt: r.time("token.expires_at", t.GetExpiresAt()),
		Claims:    maps.Clone(t.GetClaims()),
		Groups:    t.GetGroups(),
		Actors:    actorsFromProto(t.GetActors()),

		KeyThumbprint: t.GetKeyThumbprint(), CertificateThumbprint: t.GetCertificateThumbprint(), Possessed: t.GetPossessed(),
	}
	if may := t.GetMayAct(); may != nil {
		out.MayAct = &actorsFromProto([]*writv1.Actor{may})[0]
	}
	return out
}

// time reads a Timestamp: from year 1 to 9999, nanoseconds from 0 to
// 999,999,999 (google/protobuf/timestamp.proto). Absent is the zero time.
func (r *reader) time(field string, t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	if !t.IsValid() {
		r.fail(field, "It is not a valid time.")
		return time.Time{}
	}
	return t.AsTime()
}

func (r *reader) digest(field, text string) canon.Digest {
	if text == "" {
		return canon.Digest{}
	}
	d, err := canon.ParseDigest(text)
	if err != nil {
		r.fail(field, `It is not a digest: "sha256:" and 64 lower-case hexadecimal digits.`)
	}
	return d
}

func principalFromProto(p *writv1.Principal) writ.Principal {
	return writ.Principal{Issuer: p.GetIssuer(), Subject: p.GetSubject(), Tenant: p.GetTenant()}
}

func actorsFromProto(actors []*writv1.Actor) []writ.Actor {
	var out []writ.Actor
	for _, a := range actors {
		out = append(out, writ.Actor{Issuer: a.GetIssuer(), Subject: a.GetSubject(), Claims: maps.Clone(a.GetClaims())})
	}
	return out
}

// ProposalToProto writes a proposal for the wire. Approvals travel as they are
// signed: a proposal with any that were judged is an error rather than another
// proposal.
func ProposalToProto(p *writ.Proposal) (*writv1.Proposal, error) {
	if len(p.Approvals) > 0 {
		return nil, fmt.Errorf("server: proposal %q has approvals that were judged, and the API takes signed ones", p.RequestID)
	}
	out := &writv1.Proposal{
		RequestId:        p.RequestID,
		Principal:        &writv1.Principal{Issuer: p.Principal.Issuer, Subject: p.Principal.Subject, Tenant: p.Principal.Tenant},
		Actors:           actorsToProto(p.Actors),
		Server:           &writv1.ServerRef{Id: p.Server.ID, Endpoint: p.Server.Endpoint, PackageHash: p.Server.PackageHash},
		Tool:             p.Tool,
		DefinitionDigest: p.DefinitionDigest.String(),
		DefinitionJson:   string(p.DefinitionJSON),
		ArgumentsJson:    string(p.ArgumentsJSON),
		ExtraParamsJson:  string(p.ExtraParamsJSON),

		AccessToken: string(p.AccessToken), DpopProof: string(p.DPoPProof), ClientCertificateSha256: p.ClientCertificate,
		Approvals: p.SignedApprovals, Retries: p.Retries.String(),
	}
	if in := p.Intent; in != nil {
		out.Intent = &writv1.Intent{Id: in.ID, Purpose: in.Purpose, DeclaredAt: timeToProto(in.DeclaredAt), ExpiresAt: timeToProto(in.ExpiresAt)}
	}
	if t := p.Token; t != nil {
		out.Token = &writv1.Token{
			Issuer: t.Issuer, Subject: t.Subject, Tenant: t.Tenant, Audience: t.Audience, Scopes: t.Scopes, Id: t.ID, KeyId: t.KeyID,
			IssuedAt: timeToProto(t.IssuedAt), NotBefore: timeToProto(t.NotBefore), ExpiresAt: timeToProto(t.ExpiresAt),
			Claims: maps.Clone(t.Claims), Groups: t.Groups, Actors: actorsToProto(t.Actors),
			KeyThumbprint: t.KeyThumbprint, CertificateThumbprint: t.CertificateThumbprint, Possessed: t.Possessed,
		}
		if t.MayAct != nil {
			out.Token.MayAct = actorsToProto([]writ.Actor{*t.MayAct})[0]
		}
	}
	for _, e := range p.Evidence {
		out.Evidence = append(out.Evidence, &writv1.Evidence{
			Argument: e.Argument, ValueJson: string(e.ValueJSON), Kind: string(e.Kind), Reference: e.Reference,
			Classification: e.Classification, ObservedAt: timeToProto(e.ObservedAt), Confidence: e.Confidence, DerivedFrom: e.DerivedFrom,
		})
	}
	return out, nil
}

func actorsToProto(actors []writ.Actor) []*writv1.Actor {
	var out []*writv1.Actor
	for _, a := range actors {
		out = append(out, &writv1.Actor{Issuer: a.Issuer, Subject: a.Subject, Claims: maps.Clone(a.Claims)})
	}
	return out
}

// timeToProto writes the zero time as absent.
func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// DecisionToProto writes a decision for the wire.
func DecisionToProto(d writ.Decision) *writv1.Decision {
	return &writv1.Decision{
		Outcome: outcomeToProto(d.Outcome), Code: string(d.Code), Control: string(d.Control), Explanation: d.Explanation,
		Policies: policiesToProto(d.Policies), Nearest: policiesToProto(d.Nearest), Errors: policiesToProto(d.Errors),
		MissingScope: d.MissingScope, Field: d.Field,
		Effect: string(d.Effect), Server: d.Server, Tool: d.Tool, Action: d.Action, Resources: d.Resources,
		Principal: d.Principal, Actors: d.Actors, Party: d.Party,
		ContractDigest: d.ContractDigest.String(), CallDigest: d.CallDigest.String(), ProposalDigest: d.ProposalDigest.String(),
		ReviewDigest: d.ReviewDigest.String(), PolicyDigest: d.PolicyDigest.String(),
		Revision: d.Revision, HeardAt: timeToProto(d.HeardAt),
	}
}

func policiesToProto(refs []writ.PolicyRef) []*writv1.PolicyRef {
	var out []*writv1.PolicyRef
	for _, r := range refs {
		out = append(out, &writv1.PolicyRef{
			Id: r.ID, File: r.File, Line: toInt32(r.Line), Code: string(r.Code), Review: toInt32(r.Review), Explain: r.Explain,
		})
	}
	return out
}

func toInt32(n int) int32 { return int32(max(math.MinInt32, min(n, math.MaxInt32))) }

// outcomeToProto writes anything but the two known other outcomes as DENY.
func outcomeToProto(o writ.Outcome) writv1.Outcome {
	switch o {
	case writ.Allow:
		return writv1.Outcome_OUTCOME_ALLOW
	case writ.ReviewRequired:
		return writv1.Outcome_OUTCOME_REVIEW_REQUIRED
	default:
		return writv1.Outcome_OUTCOME_DENY
	}
}

// OutcomeFromProto reads an outcome as every client must: whatever it does
// not know, and none, is [writ.Deny].
func OutcomeFromProto(o writv1.Outcome) writ.Outcome {
	switch o {
	case writv1.Outcome_OUTCOME_ALLOW:
		return writ.Allow
	case writv1.Outcome_OUTCOME_REVIEW_REQUIRED:
		return writ.ReviewRequired
	default:
		return writ.Deny
	}
}
