package server_test

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-pdp/writ/approval"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// TestReviewSurvivesConversion: every field of a review that is kept is set to
// something unique, and each field of the wire's review has one of them.
func TestReviewSurvivesConversion(t *testing.T) {
	r := approval.Review{}
	next := 0
	fillNoun(reflect.ValueOf(&r).Elem(), &next)
	at := r.Opened
	for i := range r.Shown.Policies {
		r.Shown.Policies[i].ID = r.Agreements[0].Policies[0] // somebody has agreed
	}
	for i := range r.Agreements {
		r.Agreements[i].Expires = at.Add(time.Hour)
	}
	m := server.ReviewToProto(&r, at)
	wantFilledDeep(t, m.ProtoReflect())
	if m.GetState() != writv1.ReviewState_REVIEW_STATE_REJECTED {
		t.Errorf("state %s", m.GetState())
	}
	seen := map[string]bool{}
	collect(m.ProtoReflect(), seen)
	for _, text := range []string{
		r.ID, r.Shown.Caller, r.Shown.RequestID, r.Shown.Digest.String(), r.Shown.ProposalDigest.String(), r.Shown.PrincipalEntity, r.Shown.Principal.Subject,
		r.Shown.Actors[1], r.Shown.Intent.Purpose, r.Shown.Server, r.Shown.Tool, r.Shown.Action, string(r.Shown.Effect), r.Shown.ContractDigest.String(),
		r.Shown.Retries.String(), r.Shown.ExtraParamsJSON, r.Shown.Revision, r.Shown.Entities[1].Entity, r.Shown.Entities[0].Argument,
		r.Shown.Entities[0].Parents[0], r.Shown.Arguments[0].Pointer, r.Shown.Arguments[1].ValueJSON, r.Shown.Arguments[0].Warnings[0],
		string(r.Shown.Arguments[0].Sources[0].Kind), r.Shown.Arguments[0].Sources[1].Reference, r.Shown.Arguments[0].Sources[0].Classification,
		r.Shown.Policies[0].ID, string(r.Shown.Policies[0].Code), r.Shown.Policies[0].Explain, r.Shown.Policies[0].Targets[0],
		r.Agreements[0].ID, r.Agreements[1].Approver.Subject, r.Agreements[0].Caller, r.Rejection.Approver.Subject, r.Rejection.Reason,
	} {
		if text == "" || !seen[text] {
			t.Errorf("%q did not arrive", text)
		}
	}
	// The approvals themselves are for who gave them, and the proposal is what is
	// shown of it.
	for _, text := range []string{r.Agreements[0].Approval, string(r.Proposal.AccessToken), r.Proposal.RequestID} {
		if seen[text] {
			t.Errorf("%q is told", text)
		}
	}
	if s := server.ReviewToProto(&approval.Review{}, at).GetState(); s != writv1.ReviewState_REVIEW_STATE_UNSPECIFIED {
		t.Errorf("of no review: %s", s)
	}
}

// wantFilledDeep fails for each field, at any depth, that is not set.
func wantFilledDeep(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if m.Descriptor().FullName() == "google.protobuf.Timestamp" {
		return
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case !m.Has(f):
			t.Errorf("%s did not arrive", f.FullName())
		case f.IsMap():
		case f.IsList() && f.Message() != nil:
			for k := range m.Get(f).List().Len() {
				wantFilledDeep(t, m.Get(f).List().Get(k).Message())
			}
		case f.Message() != nil:
			wantFilledDeep(t, m.Get(f).Message())
		}
	}
}

// collect gathers every text of a message.
func collect(m protoreflect.Message, into map[string]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				into[v.String()] = true
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				if f.Message() != nil {
					collect(v.List().Get(i).Message(), into)
				} else {
					into[v.List().Get(i).String()] = true
				}
			}
		case f.Message() != nil:
			collect(v.Message(), into)
		default:
			into[v.String()] = true
		}
		return true
	})
}
