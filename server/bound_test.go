package server_test

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// approved is a payment that needed a second person, who has agreed to it, at a
// real PDP; its host vouches for tokens, so that none need be signed.
type approved struct {
	pdp      *pdp.PDP
	world    *snapshot.Snapshot
	proposal *writv1.Proposal // with the approval
}

func newApproved(t *testing.T) *approved {
	t.Helper()
	files, err := bundle.ReadDir("../examples/accounts-payable")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		if files[i].Name == "callers.yaml" {
			text := strings.Replace(string(files[i].Data), "[user, document", "[token, user, document", 1)
			files[i].Data = []byte(strings.Replace(text, `/review-desk"}`, `/review-desk", vouches_for: [token]}`, 1))
		}
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	holder := &snapshot.Holder{}
	holder.Store(b.Snapshot)
	a := &approved{world: b.Snapshot}
	if a.pdp, err = pdp.New(pdp.Config{Snapshots: holder, Log: &records{}}); err != nil {
		t.Fatal(err)
	}
	for i := range b.Scenarios {
		if b.Scenarios[i].Name != "above 500" {
			continue
		}
		s := b.Scenarios[i]
		s.Now = time.Now()
		s = s.At(s.Now)
		s.Proposal.Approvals, s.Proposal.Token.Verified, s.Proposal.Token.Invalid = nil, false, ""
		if a.proposal, err = server.ProposalToProto(&s.Proposal); err != nil {
			t.Fatal(err)
		}
	}
	asked := a.decide(t, a.proposal)
	review, _, err := a.pdp.Review(t.Context(), asked.GetReview().GetId())
	if err != nil {
		t.Fatalf("%v: %v", asked, err)
	}
	who := review.Shown.Principal
	who.Subject = "ann"
	r, err := a.pdp.Approve(t.Context(), a.world.Callers["review-desk"], &pdp.Statement{Review: review.ID, Shown: review.Shown.Digest, Approver: who})
	if err != nil || r.Approval() == "" {
		t.Fatalf("%+v, %v", r.Decision(), err)
	}
	a.proposal.Approvals = []string{r.Approval()}
	return a
}

func (a *approved) decide(t *testing.T, p *writv1.Proposal) *writv1.DecideResponse {
	t.Helper()
	r, err := server.Decide(server.CalledBy(t.Context(), a.world.Callers["ap-host"]), a.pdp, &writv1.DecideRequest{Proposal: p})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// leaf is one field of a message that holds no message, at any depth.
type leaf struct {
	path   string // server.endpoint
	fields []protoreflect.FieldDescriptor
}

// leaves lists the leaves of a message, from its descriptor.
func leaves(m protoreflect.MessageDescriptor, before []protoreflect.FieldDescriptor) []leaf {
	var out []leaf
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		fields := append(before[:len(before):len(before)], f)
		if f.Message() != nil && !f.IsMap() && f.Message().FullName() != "google.protobuf.Timestamp" {
			out = append(out, leaves(f.Message(), fields)...)
			continue
		}
		names := make([]string, len(fields))
		for k := range fields {
			names[k] = string(fields[k].Name())
		}
		out = append(out, leaf{strings.Join(names, "."), fields})
	}
	return out
}

// flip changes one leaf: of a list, in its first element.
func (l leaf) flip(t *testing.T, m protoreflect.Message) {
	t.Helper()
	for _, f := range l.fields[:len(l.fields)-1] {
		if !f.IsList() {
			m = m.Mutable(f).Message()
			continue
		}
		if list := m.Mutable(f).List(); list.Len() > 0 {
			m = list.Get(0).Message()
		} else {
			m = list.AppendMutable().Message()
		}
	}
	f := l.fields[len(l.fields)-1]
	switch {
	case f.IsMap():
		m.Mutable(f).Map().Set(protoreflect.ValueOfString("x").MapKey(), protoreflect.ValueOfString("x"))
	case f.IsList():
		m.Mutable(f).List().Append(protoreflect.ValueOfString("x"))
	case f.Message() != nil:
		at := m.Get(f).Message().Interface().(*timestamppb.Timestamp).AsTime()
		m.Set(f, protoreflect.ValueOfMessage(timestamppb.New(at.Add(time.Microsecond)).ProtoReflect()))
	case f.Kind() == protoreflect.StringKind && strings.HasSuffix(string(f.Name()), "_json"):
		m.Set(f, protoreflect.ValueOfString(otherJSON(m.Get(f).String())))
	case f.Kind() == protoreflect.StringKind && f.Name() == "retries":
		m.Set(f, protoreflect.ValueOfString(someDigest))
	case f.Kind() == protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString(m.Get(f).String()+"x"))
	case f.Kind() == protoreflect.BoolKind:
		m.Set(f, protoreflect.ValueOfBool(!m.Get(f).Bool()))
	case f.Kind() == protoreflect.DoubleKind:
		m.Set(f, protoreflect.ValueOfFloat64(m.Get(f).Float()+0.25))
	default:
		t.Fatalf("the test does not know how to change %s of kind %s", l.path, f.Kind())
	}
}

// otherJSON is JSON of the same kind that says something else.
func otherJSON(text string) string {
	switch {
	case text == "":
		return `{"x":1}`
	case strings.Contains(text, "Invoice"): // a text that no policy sees
		return strings.Replace(text, "Invoice", "invoice", 1)
	}
	return `"other"`
}

// unbound are the fields of a proposal that no approval binds, each with why.
var unbound = map[string]string{
	"token":                     "it is judged anew each time, and may be a newer one",
	"access_token":              "as token",
	"dpop_proof":                "as token",
	"client_certificate_sha256": "as token",
	"definition_digest":         "it must be the contract's, which is bound",
	"definition_json":           "as definition_digest",
	"server.endpoint":           "as definition_digest",
	"server.package_hash":       "as definition_digest",
	"approvals":                 "they are what binds",
}

// TestApprovalBindsEveryField: each field of a proposal, as its descriptor has
// them, is bound by an approval, or is listed above.
func TestApprovalBindsEveryField(t *testing.T) {
	a := newApproved(t)
	base := a.decide(t, a.proposal)
	if base.GetDecision().GetCode() != string(writ.CodeAllow) {
		t.Fatalf("%v", base)
	}
	listed := map[string]bool{}
	for _, l := range leaves(a.proposal.ProtoReflect().Descriptor(), nil) {
		name, whole := l.path, ""
		if _, ok := unbound[name]; !ok {
			whole, _, _ = strings.Cut(name, ".")
			name = whole
		}
		if unbound[name] != "" {
			listed[name] = true
			continue
		}
		changed := proto.CloneOf(a.proposal)
		l.flip(t, changed.ProtoReflect())
		if proto.Equal(changed, a.proposal) {
			t.Fatalf("%s was not changed", l.path)
		}
		d := a.decide(t, changed).GetDecision()
		if d.GetOutcome() == writv1.Outcome_OUTCOME_ALLOW {
			t.Errorf("%s is not bound: the approval of another proposal let it pass", l.path)
		}
		if got := d.GetProposalDigest(); got == base.GetDecision().GetProposalDigest() {
			t.Errorf("%s is not in the proposal's digest", l.path)
		}
	}
	for name := range unbound {
		if !listed[name] {
			t.Errorf("%s is no field of a proposal", name)
		}
	}
}

// TestGrantBindsEveryField: each field of what a server redeems with is bound by
// the grant, or names the attempt.
func TestGrantBindsEveryField(t *testing.T) {
	a := newApproved(t)
	granted := a.decide(t, a.proposal)
	var attempt [16]byte
	_, _ = rand.Read(attempt[:])
	base := &writv1.RedeemRequest{
		Grant: granted.GetGrant().GetToken(), Server: a.proposal.GetServer().GetId(), Tool: a.proposal.GetTool(),
		ArgumentsJson: a.proposal.GetArgumentsJson(), Principal: a.proposal.GetPrincipal(), RedemptionId: base64.RawURLEncoding.EncodeToString(attempt[:]),
	}
	redeem := func(r *writv1.RedeemRequest) *writv1.RedeemResponse {
		t.Helper()
		out, err := server.Redeem(server.CalledBy(t.Context(), a.world.Callers["payments"]), a.pdp, r)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := map[string]writ.Code{
		"grant": writ.CodeGrantInvalid, "server": writ.CodeGrantAudience, "tool": writ.CodeGrantMismatch, "arguments_json": writ.CodeGrantMismatch,
		"extra_params_json": writ.CodeGrantMismatch, "principal.issuer": writ.CodeGrantMismatch, "principal.subject": writ.CodeGrantMismatch,
		"principal.tenant": writ.CodeGrantMismatch,
		// These name the attempt, and the world that it is to be judged in.
		"redemption_id": writ.CodeMalformedProposal, "at_least_as_fresh": writ.CodeMalformedProposal,
	}
	for _, l := range leaves(base.ProtoReflect().Descriptor(), nil) {
		changed := proto.CloneOf(base)
		l.flip(t, changed.ProtoReflect())
		if code, ok := want[l.path]; !ok {
			t.Errorf("%s is new: say whether the grant binds it", l.path)
		} else if got := redeem(changed).GetDecision(); got.GetCode() != string(code) || got.GetOutcome() != writv1.Outcome_OUTCOME_DENY {
			t.Errorf("%s: %v, want %s", l.path, got, code)
		}
		delete(want, l.path)
	}
	if len(want) > 0 {
		t.Errorf("no such fields: %v", want)
	}
	if got := redeem(base); got.GetDecision().GetCode() != string(writ.CodeRedeemed) || got.GetActBefore() == nil || got.GetIdempotencyKey() == "" ||
		len(got.GetEvidencePlan().GetPostconditions()) == 0 {
		t.Errorf("unchanged: %v", got)
	}
}
