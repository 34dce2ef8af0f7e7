package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
)

func TestDecide(t *testing.T) {
	d := &decider{}
	h := open(t, d, nil)
	r, err := h.decide(t, full())
	if err != nil {
		t.Fatal(err)
	}
	// The decider's answer is the zero one: it denies.
	if r.GetDecision().GetOutcome() != writv1.Outcome_OUTCOME_DENY {
		t.Errorf("got %v", r)
	}
	q := d.questions()
	if len(q) != 1 || q[0].field != "" || q[0].proposal.RequestID != full().GetRequestId() {
		t.Errorf("asked %+v", q)
	}
}

// What is wrong with a proposal is decided and recorded like anything else.
func TestMalformedProposalIsAnAnswer(t *testing.T) {
	for _, c := range []struct {
		field string
		p     *writv1.Proposal
	}{
		{"proposal", nil},
		{"intent.expires_at", &writv1.Proposal{RequestId: "r", Intent: &writv1.Intent{ExpiresAt: &timestamppb.Timestamp{Nanos: -1}}}},
		{"definition_digest", &writv1.Proposal{RequestId: "r", DefinitionDigest: "sha1:00"}},
	} {
		d := &decider{}
		h := open(t, d, nil)
		r, err := h.decide(t, c.p)
		if err != nil || r.GetDecision().GetOutcome() != writv1.Outcome_OUTCOME_DENY {
			t.Errorf("%s: %v, %v", c.field, r, err)
		}
		q := d.questions()
		if len(q) != 1 || q[0].field != c.field || q[0].why == "" || q[0].proposal.RequestID != c.p.GetRequestId() || q[0].caller != hostCaller {
			t.Errorf("%s: asked %+v", c.field, q)
		}
	}
}

func TestErrorsOfTheDecider(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		code   codes.Code
		reason server.Reason
	}{
		{"deadline", fmt.Errorf("pdp: nothing was decided: %w", context.DeadlineExceeded), codes.DeadlineExceeded, server.ReasonDeadlineExceeded},
		{"canceled", fmt.Errorf("pdp: nothing was decided: %w", context.Canceled), codes.Canceled, server.ReasonCanceled},
		{"anything else", errSecret, codes.Internal, server.ReasonInternal},
		{"a status", status.Error(codes.FailedPrecondition, errSecret.Error()), codes.Internal, server.ReasonInternal},
		{"a status that reads like health's", status.Error(codes.NotFound, errSecret.Error()), codes.NotFound, server.ReasonNotFound},
		{"OK as an error", errors.Join(errSecret, errSecret), codes.Internal, server.ReasonInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t, &decider{do: func(context.Context) (pdp.Answer, error) { return pdp.Answer{}, c.err }}, nil)
			_, err := h.decide(t, full())
			info := wantRefusal(t, err, c.code, c.reason)
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(info.String(), "hunter2") {
				t.Errorf("it leaks: %v", err)
			}
			if c.reason == server.ReasonInternal && !strings.Contains(h.log.String(), info.GetMetadata()["incident"]) {
				t.Errorf("incident %v is not in the log: %s", info, h.log)
			}
		})
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	var nothing map[string]int
	panics := map[string]func(){
		"a text":              func() { panic("secret argument value") },
		"an error":            func() { panic(errSecret) },
		"the runtime's":       func() { nothing["x"] = 1 },
		"a nil":               func() { panic(nil) },
		"http.ErrAbortHandle": func() { panic(fmt.Errorf("abort secret")) },
	}
	for name, fail := range panics {
		t.Run(name, func(t *testing.T) {
			var calm atomic.Bool
			d := &decider{do: func(context.Context) (pdp.Answer, error) {
				if !calm.Load() {
					fail()
				}
				return pdp.Answer{}, nil
			}}
			h := open(t, d, func(c *server.Config) { c.Limits.InFlight = 1 })
			_, err := h.decide(t, full())
			info := wantRefusal(t, err, codes.Internal, server.ReasonInternal)
			var line struct{ Msg, Incident, Stack, Method, Panic string }
			for text := range strings.Lines(h.log.String()) {
				if strings.Contains(text, "panicked") {
					if err := json.Unmarshal([]byte(text), &line); err != nil {
						t.Fatal(err)
					}
				}
			}
			if line.Incident == "" || line.Incident != info.GetMetadata()["incident"] || line.Method != decideMethod || line.Panic == "" {
				t.Errorf("logged %+v, told %v", line, info)
			}
			if name == "the runtime's" && line.Panic != "assignment to entry in nil map" {
				t.Errorf("logged the panic %q", line.Panic)
			}
			if !strings.Contains(line.Stack, "TestPanicsAreAnswered") {
				t.Errorf("the stack does not say where: %s", line.Stack)
			}
			if all := h.log.String() + err.Error() + info.String(); strings.Contains(all, "secret") || strings.Contains(all, "hunter2") {
				t.Errorf("it leaks: %s", all)
			}
			calm.Store(true)
			h.alive(t) // and the one place in flight is free again
		})
	}
}

func TestDeadlines(t *testing.T) {
	until := func(ctx context.Context) (pdp.Answer, error) {
		<-ctx.Done()
		return pdp.Answer{}, ctx.Err()
	}
	t.Run("none: the server's", func(t *testing.T) {
		d := &decider{do: until}
		h := open(t, d, func(c *server.Config) { c.Limits.Deadline = 50 * time.Millisecond })
		_, err := h.decide(t, full()) // the client would wait for 10 s
		wantRefusal(t, err, codes.DeadlineExceeded, server.ReasonDeadlineExceeded)
		if q := d.questions(); q[0].deadline <= 0 || q[0].deadline > 50*time.Millisecond {
			t.Errorf("decided with %v left", q[0].deadline)
		}
	})
	t.Run("the default", func(t *testing.T) {
		d := &decider{}
		h := open(t, d, nil)
		if _, err := h.decide(t, full()); err != nil {
			t.Fatal(err)
		}
		if q := d.questions(); q[0].deadline > 5*time.Second || q[0].deadline < 4*time.Second {
			t.Errorf("decided with %v left, want almost 5 s", q[0].deadline)
		}
	})
	t.Run("the client's, where it is earlier", func(t *testing.T) {
		d := &decider{}
		h := open(t, d, nil)
		ctx, cancel := context.WithTimeout(as(t, h.host), 2*time.Second)
		defer cancel()
		if _, err := writv1.NewDecisionServiceClient(h.conn).Decide(ctx, &writv1.DecideRequest{Proposal: full()}); err != nil {
			t.Fatal(err)
		}
		if q := d.questions(); q[0].deadline > 2*time.Second || q[0].deadline < time.Second {
			t.Errorf("decided with %v left, want almost 2 s", q[0].deadline)
		}
	})
}

// The deadline can also pass between the reading and the method.
func TestNothingIsDecidedTooLate(t *testing.T) {
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	d := &decider{}
	if r, err := server.Decide(late, d, &writv1.DecideRequest{Proposal: full()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", r, err)
	}
	if n := len(d.questions()); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

func TestEveryReasonHasItsStatus(t *testing.T) {
	want := map[server.Reason]codes.Code{
		"UNAUTHENTICATED": codes.Unauthenticated, "CALLER_UNKNOWN": codes.PermissionDenied, "METHOD_DENIED": codes.PermissionDenied, "CALLER_REVOKED": codes.PermissionDenied,
		"METHOD_UNKNOWN": codes.Unimplemented, "NOT_FOUND": codes.NotFound, "RATE_LIMITED": codes.ResourceExhausted,
		"TOO_MANY_IN_FLIGHT": codes.ResourceExhausted,
		"HOST_DENIED":        codes.PermissionDenied, "ORIGIN_DENIED": codes.PermissionDenied, "MESSAGE_TOO_LARGE": codes.ResourceExhausted,
		"MALFORMED_REQUEST": codes.InvalidArgument, "BATCH_SIZE": codes.InvalidArgument,
		"UNKNOWN_FIELDS": codes.InvalidArgument, "DUPLICATE_FIELDS": codes.InvalidArgument,
		"DEADLINE_EXCEEDED": codes.DeadlineExceeded, "CANCELED": codes.Canceled, "NOT_READY": codes.Unavailable, "INTERNAL": codes.Internal,
		"INVALID_REVOCATION": codes.InvalidArgument, "NO_REVOCATION_LOG": codes.FailedPrecondition, "NOT_REVOKED": codes.Unavailable,
		"REVOKED_NOT_IN_FORCE": codes.DataLoss, "REVOKED_NOT_RECORDED": codes.DataLoss,
		"NO_GRANTS": codes.Unimplemented, "NO_REVIEWS": codes.Unimplemented, "REVIEW_UNKNOWN": codes.NotFound, "REVIEWS_UNAVAILABLE": codes.Unavailable,
		"NO_AUDIT_LOG": codes.Unimplemented, "OUT_OF_RANGE": codes.OutOfRange,
		"CERTIFICATE_EXPIRED": codes.Unauthenticated, "CERTIFICATE_REFUSED": codes.Unauthenticated, "CERTIFICATE_AMBIGUOUS": codes.PermissionDenied,
	}
	if got := server.EveryReason(); len(got) != len(want) {
		t.Errorf("there are %d reasons, the test knows %d", len(got), len(want))
	}
	for _, r := range server.EveryReason() {
		wantRefusal(t, server.StatusOf(r), want[r], r)
	}
	wantRefusal(t, server.StatusOf("INVENTED"), codes.Internal, "INVENTED")
}
