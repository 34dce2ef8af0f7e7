package server_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// fill sets every field of m, and of what it holds, to a value that nothing
// else has. It knows no message by name, so a new field is filled too.
func fill(m protoreflect.Message, next *int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString(text(f, next)).MapKey(), scalar(f.MapValue(), next))
		case f.IsList() && f.Message() != nil:
			for range 2 {
				fill(m.Mutable(f).List().AppendMutable().Message(), next)
			}
		case f.IsList():
			for range 2 {
				m.Mutable(f).List().Append(scalar(f, next))
			}
		case f.Message() != nil && f.Message().FullName() == "google.protobuf.Timestamp":
			*next++
			m.Set(f, protoreflect.ValueOfMessage((&timestamppb.Timestamp{Seconds: 1_700_000_000 + int64(*next), Nanos: int32(*next)}).ProtoReflect()))
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), next)
		default:
			m.Set(f, scalar(f, next))
		}
	}
}

func text(f protoreflect.FieldDescriptor, next *int) string {
	*next++
	if strings.HasSuffix(string(f.Name()), "_digest") || f.Name() == "retries" {
		return someDigest[:len(someDigest)-4] + fmt.Sprintf("%04d", *next)
	}
	return string(f.Name()) + strconv.Itoa(*next)
}

func scalar(f protoreflect.FieldDescriptor, next *int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text(f, next))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.DoubleKind:
		*next++
		return protoreflect.ValueOfFloat64(1 / float64(*next))
	}
	panic("the test does not know how to fill " + string(f.FullName()) + " of kind " + f.Kind().String())
}

// overfull has every field, which is one too many.
func overfull() *writv1.Proposal {
	p, next := &writv1.Proposal{}, 0
	fill(p.ProtoReflect(), &next)
	return p
}

// full has every field but the token itself, in whose place it says what the
// token says.
func full() *writv1.Proposal {
	p := overfull()
	p.AccessToken = ""
	return p
}

// Every field of the wire's proposal, at any depth, arrives in the noun: it is
// set to something unique, and the way back gives the same message.
func TestProposalSurvivesConversion(t *testing.T) {
	both := overfull()
	if _, err := server.ProposalFromProto(both); err == nil || !strings.Contains(err.Error(), "access_token") {
		t.Errorf("a token and an access token together: %v", err)
	}
	claims, raw := full(), overfull()
	raw.Token = nil
	var nouns []*writ.Proposal
	for _, want := range []*writv1.Proposal{claims, raw} {
		noun, err := server.ProposalFromProto(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := server.ProposalToProto(noun)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		nouns = append(nouns, noun)
	}
	// Every field of the noun is set, so none is without a field on the wire,
	// but for approvals, which the API does not take, and for what only Writ
	// says of a token.
	noun := nouns[0]
	if noun.Token.Verified || noun.Token.Invalid != "" {
		t.Errorf("the wire says of its own token: %+v", noun.Token)
	}
	noun.AccessToken, noun.Approvals = nouns[1].AccessToken, []writ.Approval{{}}
	noun.Token.Verified, noun.Token.Invalid = true, "x"
	wantSet(t, "Proposal", reflect.ValueOf(*noun))
}

// wantSet fails for each zero field, at any depth but within approvals.
func wantSet(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[writ.Approval]() {
		return
	}
	if v.IsZero() {
		t.Errorf("%s did not arrive", path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		wantSet(t, path, v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				wantSet(t, path+"["+strconv.Itoa(i)+"]", v.Index(i))
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			wantSet(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
}

// The walk compares the way there with the way back. These are fixed points
// that neither can invent.
func TestProposalFixedPoints(t *testing.T) {
	p := &writv1.Proposal{
		RequestId:        "r-1",
		Principal:        &writv1.Principal{Issuer: "https://idp.example", Subject: "ann", Tenant: "acme"},
		Actors:           []*writv1.Actor{{Issuer: "https://idp.example", Subject: "agent", Claims: map[string]string{"client_id": "c"}}},
		Intent:           &writv1.Intent{Id: "i", Purpose: "pay", DeclaredAt: timestamppb.New(time.Unix(1, 2)), ExpiresAt: timestamppb.New(time.Unix(3, 4))},
		Server:           &writv1.ServerRef{Id: "payments", Endpoint: "https://pay.example/mcp", PackageHash: "sha256:1"},
		Tool:             "create_payment",
		DefinitionDigest: someDigest,
		ArgumentsJson:    `{"amount":"1.00"}`,
		Token:            &writv1.Token{Issuer: "https://idp.example", Subject: "ann", Scopes: []string{"payments:write"}, Audience: []string{"aud"}},
		Evidence:         []*writv1.Evidence{{Argument: "/amount", ValueJson: `"1.00"`, Kind: "user", Confidence: 0.5}},
	}
	noun, err := server.ProposalFromProto(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, got, want any }{
		{"request", noun.RequestID, "r-1"},
		{"principal", noun.Principal, writ.Principal{Issuer: "https://idp.example", Subject: "ann", Tenant: "acme"}},
		{"actor", noun.Actors[0].Claims["client_id"], "c"},
		{"declared", noun.Intent.DeclaredAt, time.Unix(1, 2).UTC()},
		{"expires", noun.Intent.ExpiresAt, time.Unix(3, 4).UTC()},
		{"server", noun.Server, writ.ServerRef{ID: "payments", Endpoint: "https://pay.example/mcp", PackageHash: "sha256:1"}},
		{"tool", noun.Tool, "create_payment"},
		{"digest", noun.DefinitionDigest.String(), someDigest},
		{"arguments", string(noun.ArgumentsJSON), `{"amount":"1.00"}`},
		{"scopes", noun.Token.Scopes, []string{"payments:write"}},
		{"audience", noun.Token.Audience, []string{"aud"}},
		{"no expiry", noun.Token.ExpiresAt.IsZero(), true},
		{"evidence", noun.Evidence[0].Kind, writ.SourceUser},
		{"confidence", noun.Evidence[0].Confidence, 0.5},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%v: got %#v, want %#v", c.what, c.got, c.want)
		}
	}
}

func TestProposalFaults(t *testing.T) {
	// google/protobuf/timestamp.proto: year 1 to 9999, nanoseconds 0 to 999,999,999.
	tooLate := &timestamppb.Timestamp{Seconds: 253402300800}
	tooEarly := &timestamppb.Timestamp{Seconds: -62135596801}
	manyNanos := &timestamppb.Timestamp{Nanos: 1_000_000_000}
	negative := &timestamppb.Timestamp{Nanos: -1}
	for _, c := range []struct {
		field string
		p     *writv1.Proposal
	}{
		{"proposal", nil},
		{"intent.declared_at", &writv1.Proposal{Intent: &writv1.Intent{DeclaredAt: tooLate}}},
		{"intent.expires_at", &writv1.Proposal{Intent: &writv1.Intent{ExpiresAt: tooEarly}}},
		{"token.issued_at", &writv1.Proposal{Token: &writv1.Token{IssuedAt: manyNanos}}},
		{"token.not_before", &writv1.Proposal{Token: &writv1.Token{NotBefore: negative}}},
		{"token.expires_at", &writv1.Proposal{Token: &writv1.Token{ExpiresAt: tooLate}}},
		{"evidence[1].observed_at", &writv1.Proposal{Evidence: []*writv1.Evidence{{}, {ObservedAt: tooLate}}}},
		{"definition_digest", &writv1.Proposal{DefinitionDigest: strings.ToUpper(someDigest)}},
		{"definition_digest", &writv1.Proposal{DefinitionDigest: "sha256:"}},
		{"definition_digest", &writv1.Proposal{DefinitionDigest: someDigest[:70]}},
	} {
		if c.p != nil {
			c.p.RequestId = "r"
		}
		noun, err := server.ProposalFromProto(c.p)
		fault, ok := errors.AsType[*server.FieldError](err)
		if !ok || fault.Field != c.field || fault.Reason == "" {
			t.Errorf("%s: got %v", c.field, err)
		}
		if noun == nil || c.p != nil && noun.RequestID != "r" {
			t.Errorf("%s: what could be read is lost: %v", c.field, noun)
		}
	}
}

func TestProposalWithApprovalsStaysHome(t *testing.T) {
	if p, err := server.ProposalToProto(&writ.Proposal{Approvals: []writ.Approval{{}}}); err == nil {
		t.Errorf("got %v: another proposal than the one given", p)
	}
}

// Every field of a decision reaches the wire.
func TestDecisionSurvivesConversion(t *testing.T) {
	d := writ.Decision{Outcome: writ.ReviewRequired, Review: &writ.Review{}}
	next := 0
	fillNoun(reflect.ValueOf(&d).Elem(), &next)
	m := server.DecisionToProto(d).ProtoReflect()
	wantFilled(t, m)
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		name := strings.ReplaceAll(string(f.Name()), "_", "")
		v := reflect.ValueOf(d).FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
		if !v.IsValid() {
			t.Errorf("%s is no field of writ.Decision", f.FullName())
			continue
		}
		switch {
		case f.Kind() == protoreflect.StringKind && !f.IsList():
			want := v.String()
			if s, ok := v.Interface().(interface{ String() string }); ok {
				want = s.String()
			}
			if got := m.Get(f).String(); got != want {
				t.Errorf("%s: got %q, want %q", f.FullName(), got, want)
			}
		case f.Message() != nil && f.Message().FullName() == "google.protobuf.Timestamp":
			got := m.Get(f).Message().Interface().(*timestamppb.Timestamp).AsTime()
			if want := v.Interface().(time.Time); !got.Equal(want) {
				t.Errorf("%s: got %v, want %v", f.FullName(), got, want)
			}
		case f.IsList():
			if got := m.Get(f).List().Len(); got != v.Len() {
				t.Errorf("%s: got %d elements, want %d", f.FullName(), got, v.Len())
			}
		}
	}
	// People are shown a review by another service.
	if n, want := m.Descriptor().Fields().Len(), reflect.TypeFor[writ.Decision]().NumField()-1; n != want {
		t.Errorf("the wire's decision has %d fields, the noun %d", n, want)
	}
	got := server.DecisionToProto(d).GetPolicies()[0]
	want := d.Policies[0]
	if got.GetId() != want.ID || got.GetFile() != want.File || int(got.GetLine()) != want.Line || got.GetCode() != string(want.Code) ||
		int(got.GetReview()) != want.Review || got.GetExplain() != want.Explain {
		t.Errorf("got %v, want %v", got, want)
	}
}

// fillNoun sets every field to something unique, but for what is set already.
func fillNoun(v reflect.Value, next *int) {
	if v.Kind() != reflect.Struct && !v.IsZero() {
		return
	}
	*next++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(int64(*next), 5).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("v" + strconv.Itoa(*next))
	case reflect.Int:
		v.SetInt(int64(*next))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillNoun(v.Index(i), next)
		}
	case reflect.Array:
		v.Index(0).SetUint(uint64(*next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1 / float64(*next))
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillNoun(v.Elem(), next)
	case reflect.Map:
		name := reflect.New(v.Type().Key()).Elem()
		value := reflect.New(v.Type().Elem()).Elem()
		fillNoun(name, next)
		fillNoun(value, next)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(name, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fillNoun(v.Field(i), next)
		}
	default:
		panic("the test does not know how to fill a " + v.Type().String())
	}
}

func wantFilled(t *testing.T, m protoreflect.Message) {
	t.Helper()
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if !m.Has(f) {
			t.Errorf("%s did not arrive", f.FullName())
			continue
		}
		if f.IsList() && f.Message() != nil {
			for k := range m.Get(f).List().Len() {
				wantFilled(t, m.Get(f).List().Get(k).Message())
			}
		}
	}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		noun writ.Outcome
		wire writv1.Outcome
	}{
		{writ.Deny, writv1.Outcome_OUTCOME_DENY},
		{writ.ReviewRequired, writv1.Outcome_OUTCOME_REVIEW_REQUIRED},
		{writ.Allow, writv1.Outcome_OUTCOME_ALLOW},
	} {
		if got := server.DecisionToProto(writ.Decision{Outcome: c.noun}).GetOutcome(); got != c.wire {
			t.Errorf("%v goes out as %v", c.noun, got)
		}
		if got := server.OutcomeFromProto(c.wire); got != c.noun {
			t.Errorf("%v comes in as %v", c.wire, got)
		}
	}
	for _, unknown := range []writv1.Outcome{0, 4, 99, -1, math.MaxInt32, math.MinInt32} {
		if got := server.OutcomeFromProto(unknown); got != writ.Deny {
			t.Errorf("unknown outcome %d comes in as %v", unknown, got)
		}
	}
	if got := server.DecisionToProto(writ.Decision{Outcome: 77}).GetOutcome(); got != writv1.Outcome_OUTCOME_DENY {
		t.Errorf("an unknown outcome goes out as %v", got)
	}
	// Every value that the enum has is one of the four above: a new one needs a place here.
	if n := (writv1.Outcome(0)).Descriptor().Values().Len(); n != 4 {
		t.Errorf("the enum has %d values, the test knows 4", n)
	}
}
