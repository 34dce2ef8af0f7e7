package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ/decide"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// desk is an ApprovalService that holds one review and takes what it is told.
type desk struct {
	writv1.UnimplementedApprovalServiceServer
	review   *writv1.Review
	approved *writv1.ApproveRequest
	rejected *writv1.RejectRequest
	secrets  []string
}

func (d *desk) seen(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	d.secrets = append(d.secrets, md.Get("authorization")...)
}

func (d *desk) GetReview(ctx context.Context, r *writv1.GetReviewRequest) (*writv1.GetReviewResponse, error) {
	if d.seen(ctx); r.GetId() != d.review.GetId() {
		return nil, status.Error(codes.NotFound, "there is no such review")
	}
	return &writv1.GetReviewResponse{Review: d.review}, nil
}

func (d *desk) ListReviews(ctx context.Context, _ *writv1.ListReviewsRequest) (*writv1.ListReviewsResponse, error) {
	d.seen(ctx)
	return &writv1.ListReviewsResponse{Reviews: []*writv1.Review{d.review}, More: true}, nil
}

func (d *desk) Approve(ctx context.Context, r *writv1.ApproveRequest) (*writv1.ApproveResponse, error) {
	d.seen(ctx)
	d.approved = r
	return &writv1.ApproveResponse{DecisionId: "d", Decision: &writv1.Decision{Outcome: writv1.Outcome_OUTCOME_ALLOW, Code: "ALLOW"}, Approval: "a.b.c", Review: d.review}, nil
}

func (d *desk) Reject(ctx context.Context, r *writv1.RejectRequest) (*writv1.RejectResponse, error) {
	d.seen(ctx)
	d.rejected = r
	return &writv1.RejectResponse{Decision: &writv1.Decision{Outcome: writv1.Outcome_OUTCOME_DENY, Code: "NO_PERMIT", Explanation: "No."}, Review: d.review}, nil
}

// open serves d on loopback, and returns how to ask it.
func (d *desk) open(t *testing.T) []string {
	t.Helper()
	data := t.TempDir()
	if err := os.MkdirAll(filepath.Join(data, "credentials"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "credentials", "operator"), []byte("the-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	writv1.RegisterApprovalServiceServer(s, d)
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return []string{"--server", listener.Addr().String(), "--data", data}
}

func reviewed(t *testing.T, at []string, input string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), append(append([]string{"review"}, args...), at...), strings.NewReader(input), &o, &e)
	return code, o.String(), e.String()
}

// payment is a review of a payment, with everything in it.
func payment() *writv1.Review {
	at := func(minute int) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2026, 11, 30, 9, minute, 0, 0, time.UTC))
	}
	return &writv1.Review{
		Id: "AAAAAAAAAAAAAAAAAAAAAAAAAA", State: writv1.ReviewState_REVIEW_STATE_OPEN, OpenedAt: at(0), ExpiresAt: at(59),
		Caller: "ap-host", RequestId: "r-1", ProposalDigest: "sha256:01", ReviewDigest: "sha256:02",
		PrincipalEntity: `User::"ria"`, Principal: &writv1.Principal{Issuer: "https://login.example", Subject: "ria", Tenant: "acme"},
		Actors: []string{`Agent::"bot"`}, Intent: &writv1.Intent{Id: "i-1", Purpose: "pay-invoice", DeclaredAt: at(0), ExpiresAt: at(30)},
		Server: "payments", Tool: "create_payment", Action: "payments/create_payment", Effect: "write",
		Entities: []*writv1.ReviewEntity{
			{Entity: `Supplier::"ACME"`, Argument: "/supplier", Target: true, Held: true, Attributes: map[string]string{"status": `"active"`, "owner": `User::"sam"`}, Tags: map[string]string{"tier": "1"}, Parents: []string{`Group::"g"`}},
			{Entity: `Invoice::"I-9"`, Argument: "/invoice"},
		},
		Arguments: []*writv1.ReviewArgument{
			{Pointer: "/amount", ValueJson: "900", NeedsSupport: true, Supported: true, Sources: []*writv1.ReviewSource{
				{Kind: "document", Reference: "in/1.pdf", ObservedAt: at(1), Trusted: true, Agrees: true, Classification: "internal"},
				{Kind: "model", Reference: "guess", ObservedAt: at(2)},
			}},
			{Pointer: "/reason", ValueJson: `"x"`, Warnings: []string{"It holds invisible characters."}},
			{Pointer: "/note", Warnings: []string{"It is absent."}},
		},
		ExtraParamsJson: `{"task":{}}`,
		Policies:        []*writv1.ReviewPolicy{{Id: "four-eyes", People: 2, Agreed: 1, Code: "LARGE", Explain: "Much money.", Targets: []string{`Supplier::"ACME"`}}},
		ContractDigest:  "sha256:03", Retries: "sha256:04", Revision: "w-1",
		Approvals: []*writv1.ReviewApproval{{Id: "j", Approver: &writv1.Principal{Issuer: "https://login.example", Subject: "sam"}, GivenAt: at(3), ExpiresAt: at(50), Caller: "review-desk"}},
	}
}

// TestReviewShow: what a person reads before they agree.
func TestReviewShow(t *testing.T) {
	d := &desk{review: payment()}
	at := d.open(t)
	code, out, errs := reviewed(t, at, "", "show", d.review.GetId())
	const want = `review AAAAAAAAAAAAAAAAAAAAAAAAAA  open, until 2026-11-30T09:59:00Z
  proposed  2026-11-30T09:00:00Z, by ap-host, as r-1

what      payments/create_payment  (payments/create_payment)
  effect    write: CANNOT BE UNDONE
  contract  sha256:03
  again     nobody knows what came of an earlier try, sha256:04

for       User::"ria"  (ria of https://login.example, tenant acme)
  by        Agent::"bot"
  because   pay-invoice  (intent i-1, declared 2026-11-30T09:00:00Z, until 2026-11-30T09:30:00Z)

about
  Supplier::"ACME"  from /supplier
    owner  User::"sam"
    status  "active"
    tag tier  1
    in Group::"g"
  Invoice::"I-9"  from /invoice  named beside it
    NEW: nothing is known of it

values
  /amount  900
    document in/1.pdf, 2026-11-30T09:01:00Z, internal: agrees
    model guess, 2026-11-30T09:02:00Z: SAYS SOMETHING ELSE, not trusted
  /reason  "x"
    no trusted source has it: the model may have chosen it
    LOOK TWICE: It holds invisible characters.
  /note  -
    no trusted source has it: the model may have chosen it
    LOOK TWICE: It is absent.
  beside the arguments  {"task":{}}

asked for by
  four-eyes  1 of 2 people have agreed
    Much money.
    about Supplier::"ACME"
  agreed    sam of https://login.example, 2026-11-30T09:03:00Z, until 2026-11-30T09:50:00Z, through review-desk

world     w-1
proposal  sha256:01
digest    sha256:02
`
	if code != exitOK || out != want {
		t.Errorf("exit code %d %s\n%s\nwant\n%s", code, errs, out, want)
	}
	if code, out, _ := reviewed(t, at, "", "show", d.review.GetId(), "--json"); code != exitOK || !strings.Contains(out, `"reviewDigest": "sha256:02"`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, out, _ := reviewed(t, at, "", "list"); code != exitOK || !strings.Contains(out, `AAAAAAAAAAAAAAAAAAAAAAAAAA  open      until 2026-11-30T09:59:00Z  payments/create_payment Supplier::"ACME"  for User::"ria"  four-eyes 1/2  CANNOT BE UNDONE`) || !strings.Contains(out, "there are more") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, _, errs := reviewed(t, at, "", "show", "BBBBBBBBBBBBBBBBBBBBBBBBBB"); code != exitFailed || !strings.Contains(errs, "no such review") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	for _, secret := range d.secrets {
		if secret != "Bearer the-secret" {
			t.Errorf("asked with %q", secret)
		}
	}
	d.review.Reversible = true
	if _, out, _ := reviewed(t, at, "", "show", d.review.GetId()); !strings.Contains(out, "effect    write: can be undone") {
		t.Errorf("%s", out)
	}
}

// TestReviewHostile: whatever anybody wrote into a review, a terminal shows it
// and obeys nothing.
func TestReviewHostile(t *testing.T) {
	const evil = "a\u202eb\x1b[2Jc\nd\u200be\u3164f\U000e0041g\ufe0fh\u00a0i\u2028j\u009bk"
	r := payment()
	spoil(r.ProtoReflect(), func(s string) string { return s + evil })
	d := &desk{review: r}
	at := d.open(t)
	for _, args := range [][]string{{"show", r.GetId()}, {"list"}, {"approve", r.GetId(), "--as", "sam"}} {
		_, out, _ := reviewed(t, at, "no\n", args...)
		for _, c := range out {
			if c != '\n' && (!unicode.IsGraphic(c) || decide.Invisible(c) || unicode.IsSpace(c) && c != ' ') {
				t.Fatalf("%v prints %+q", args, c)
			}
		}
		if !strings.Contains(out, `a\u202eb\u001b[2Jc\u000ad\u200be\u3164f\udb40\udc41g\ufe0fh\u00a0i\u2028j`) {
			t.Errorf("%v hides what it escapes:\n%s", args, out)
		}
	}
}

// spoil changes every text of a message, its id excepted.
func spoil(m protoreflect.Message, change func(string) string) {
	one := func(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
		switch f.Kind() {
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(change(v.String()))
		case protoreflect.MessageKind:
			spoil(v.Message(), change)
		}
		return v
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Name() == "id" && f.Parent().Name() == "Review":
		case f.IsMap():
			changed := map[string]string{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				changed[change(k.String())] = change(v.String())
				return true
			})
			m.Clear(f)
			for name, value := range changed {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(name).MapKey(), protoreflect.ValueOfString(value))
			}
		case f.IsList():
			for i := range v.List().Len() {
				v.List().Set(i, one(f, v.List().Get(i)))
			}
		default:
			m.Set(f, one(f, v))
		}
		return true
	})
}

func TestVisible(t *testing.T) {
	for _, tc := range []struct{ text, plain, code string }{
		{"ACME 01", "ACME 01", "ACME 01"},
		{"Müller Ωμέγα 日本", "Müller Ωμέγα 日本", "Müller Ωμέγα 日本"},
		{`a\u202eb`, `a\\u202eb`, `a\u202eb`},
		{"a\u202eb", `a\u202eb`, `a\u202eb`},
		{"a\tb\nc", `a\u0009b\u000ac`, `a\u0009b\u000ac`},
		{"\U0001f600", "\U0001f600", "\U0001f600"},
		{"\U000e0041", `\udb40\udc41`, `\udb40\udc41`},
		{"a\xffb\ufffd", `a\xffb` + "\ufffd", `a\xffb` + "\ufffd"},
		{"", "", ""},
	} {
		if got := visible(tc.text); got != tc.plain {
			t.Errorf("%+q: %s, want %s", tc.text, got, tc.plain)
		}
		if got := visibleCode(tc.text); got != tc.code {
			t.Errorf("code %+q: %s, want %s", tc.text, got, tc.code)
		}
	}
}

// TestReviewApprove: nothing is signed but by the word that is asked for, and
// what is sent is what was shown.
func TestReviewApprove(t *testing.T) {
	d := &desk{review: payment()}
	at := d.open(t)
	id := d.review.GetId()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("  the.access.token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, input string
		args        []string
		code        int
		want        *writv1.ApproveRequest
	}{
		{"the word", "approve\n", []string{"--as", "tom"}, exitOK,
			&writv1.ApproveRequest{Id: id, ReviewDigest: "sha256:02", Approver: &writv1.Principal{Issuer: "https://login.example", Subject: "tom", Tenant: "acme"}}},
		{"the word without its end", "approve", []string{"--as", "tom", "--issuer", "https://other.example"}, exitOK,
			&writv1.ApproveRequest{Id: id, ReviewDigest: "sha256:02", Approver: &writv1.Principal{Issuer: "https://other.example", Subject: "tom"}}},
		{"with a token", "approve\n", []string{"--as", "tom", "--tenant", "t", "--token-file", token}, exitOK,
			&writv1.ApproveRequest{Id: id, ReviewDigest: "sha256:02", AccessToken: "the.access.token", Approver: &writv1.Principal{Issuer: "https://login.example", Subject: "tom", Tenant: "t"}}},
		{"unasked", "", []string{"--as", "tom", "--yes", "--digest", "sha256:02"}, exitOK,
			&writv1.ApproveRequest{Id: id, ReviewDigest: "sha256:02", Approver: &writv1.Principal{Issuer: "https://login.example", Subject: "tom", Tenant: "acme"}}},
		{"another word", "yes\n", []string{"--as", "tom"}, exitFailed, nil},
		{"the word in other case", "APPROVE\n", []string{"--as", "tom"}, exitFailed, nil},
		{"no answer", "", []string{"--as", "tom"}, exitFailed, nil},
		{"a long answer", strings.Repeat("x", 5000) + "approve\n", []string{"--as", "tom"}, exitFailed, nil},
		{"another digest", "approve\n", []string{"--as", "tom", "--digest", "sha256:03"}, exitFailed, nil},
		{"unasked and unread", "", []string{"--as", "tom", "--yes"}, exitUsage, nil},
		{"by nobody", "approve\n", nil, exitUsage, nil},
	} {
		d.approved = nil
		code, out, errs := reviewed(t, at, tc.input, append([]string{"approve", id}, tc.args...)...)
		if code != tc.code || !proto.Equal(d.approved, tc.want) && (d.approved != nil || tc.want != nil) {
			t.Errorf("%s: exit code %d, sent %v\n%s%s", tc.name, code, d.approved, out, errs)
		}
		if strings.Contains(out+errs, "the.access.token") {
			t.Errorf("%s: prints the token", tc.name)
		}
	}
	code, out, errs := reviewed(t, at, "approve\n", "approve", id, "--as", "tom", "--json")
	if code != exitOK || !strings.HasPrefix(out, "{") || !strings.Contains(errs, "CANNOT BE UNDONE") || !strings.Contains(errs, "Type approve") {
		t.Errorf("--json: exit code %d\n%s\n%s", code, out, errs)
	}
	for _, state := range []writv1.ReviewState{writv1.ReviewState_REVIEW_STATE_REJECTED, writv1.ReviewState_REVIEW_STATE_EXPIRED, writv1.ReviewState_REVIEW_STATE_UNSPECIFIED, 99} {
		d.review.State, d.approved = state, nil
		if code, _, _ := reviewed(t, at, "approve\n", "approve", id, "--as", "tom"); code != exitFailed || d.approved != nil {
			t.Errorf("%s: exit code %d, sent %v", state, code, d.approved)
		}
	}
}

func TestReviewReject(t *testing.T) {
	d := &desk{review: payment()}
	at := d.open(t)
	id := d.review.GetId()
	if code, _, _ := reviewed(t, at, "approve\n", "reject", id, "--as", "tom"); code != exitFailed || d.rejected != nil {
		t.Errorf("exit code %d, sent %v", code, d.rejected)
	}
	code, out, _ := reviewed(t, at, "reject\n", "reject", id, "--as", "tom", "--reason", "not this one")
	want := &writv1.RejectRequest{Id: id, Reason: "not this one", Approver: &writv1.Principal{Issuer: "https://login.example", Subject: "tom", Tenant: "acme"}}
	if code != exitDeny || !proto.Equal(d.rejected, want) || !strings.Contains(out, "not rejected: NO_PERMIT\n  No.\n") {
		t.Errorf("exit code %d, sent %v\n%s", code, d.rejected, out)
	}
	if code, _, _ := reviewed(t, at, "", "reject", id, "--as", "tom", "--yes"); code != exitDeny {
		t.Errorf("exit code %d", code)
	}
}
