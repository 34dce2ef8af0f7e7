package server

import (
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// reviewToProto writes a review for the wire, as it stands at now.
func reviewToProto(r *approval.Review, now time.Time) *writv1.Review {
	s := &r.Shown
	out := &writv1.Review{
		Id: r.ID, State: stateToProto(r.State(now)), OpenedAt: timeToProto(r.Opened), ExpiresAt: timeToProto(r.Expires),
		Caller: s.Caller, RequestId: s.RequestID, ProposalDigest: s.ProposalDigest.String(), ReviewDigest: s.Digest.String(),
		PrincipalEntity: s.PrincipalEntity, Principal: principalToProto(s.Principal), Actors: s.Actors,
		Server: s.Server, Tool: s.Tool, Action: s.Action, Effect: string(s.Effect), Reversible: s.Reversible,
		ContractDigest: s.ContractDigest.String(), Retries: s.Retries.String(), ExtraParamsJson: s.ExtraParamsJSON, Revision: s.Revision,
	}
	if in := s.Intent; in != nil {
		out.Intent = &writv1.Intent{Id: in.ID, Purpose: in.Purpose, DeclaredAt: timeToProto(in.DeclaredAt), ExpiresAt: timeToProto(in.ExpiresAt)}
	}
	for i := range s.Entities {
		e := &s.Entities[i]
		out.Entities = append(out.Entities, &writv1.ReviewEntity{
			Entity: e.Entity, Argument: e.Argument, Target: e.Target, Held: e.Held, Attributes: e.Attributes, Tags: e.Tags, Parents: e.Parents,
		})
	}
	for i := range s.Arguments {
		out.Arguments = append(out.Arguments, reviewArgumentToProto(&s.Arguments[i]))
	}
	agreed := r.Agreed(now)
	for i := range s.Policies {
		p := &s.Policies[i]
		out.Policies = append(out.Policies, &writv1.ReviewPolicy{
			Id: p.ID, Code: string(p.Code), Explain: p.Explain, Targets: p.Targets, People: toUint32(p.People), Agreed: toUint32(agreed[i]),
		})
	}
	for i := range r.Agreements {
		a := &r.Agreements[i]
		out.Approvals = append(out.Approvals, &writv1.ReviewApproval{
			Id: a.ID, Approver: principalToProto(a.Approver), GivenAt: timeToProto(a.Given), ExpiresAt: timeToProto(a.Expires), Caller: a.Caller,
		})
	}
	if r.Rejection != nil {
		out.RejectedBy, out.RejectedBecause = principalToProto(r.Rejection.Approver), r.Rejection.Reason
	}
	return out
}

func reviewArgumentToProto(a *writ.ReviewArgument) *writv1.ReviewArgument {
	out := &writv1.ReviewArgument{
		Pointer: a.Pointer, ValueJson: a.ValueJSON, NeedsSupport: a.NeedsSupport, Supported: a.Supported, Warnings: a.Warnings,
	}
	for i := range a.Sources {
		s := &a.Sources[i]
		out.Sources = append(out.Sources, &writv1.ReviewSource{
			Kind: string(s.Kind), Reference: s.Reference, Classification: s.Classification, ObservedAt: timeToProto(s.ObservedAt),
			Trusted: s.Trusted, Agrees: s.Agrees,
		})
	}
	return out
}

func principalToProto(p writ.Principal) *writv1.Principal {
	return &writv1.Principal{Issuer: p.Issuer, Subject: p.Subject, Tenant: p.Tenant}
}

func toUint32(n int) uint32 { return uint32(max(0, toInt32(n))) }

func stateToProto(s approval.State) writv1.ReviewState {
	switch s {
	case approval.Open:
		return writv1.ReviewState_REVIEW_STATE_OPEN
	case approval.Approved:
		return writv1.ReviewState_REVIEW_STATE_APPROVED
	case approval.Rejected:
		return writv1.ReviewState_REVIEW_STATE_REJECTED
	case approval.Expired:
		return writv1.ReviewState_REVIEW_STATE_EXPIRED
	default:
		return writv1.ReviewState_REVIEW_STATE_UNSPECIFIED
	}
}
