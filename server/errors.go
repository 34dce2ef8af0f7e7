package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrorDomain is the domain of every ErrorInfo that the server sends.
const ErrorDomain = "writ.dev"

// Reason says, in an ErrorInfo, why nothing was decided. Reasons are
// append-only.
type Reason string

// Reasons, each with one status code.
const (
	ReasonUnauthenticated  Reason = "UNAUTHENTICATED"    // no credential, not one of this start's, or two
	ReasonCallerUnknown    Reason = "CALLER_UNKNOWN"     // the bundle in force has no such caller
	ReasonCallerRevoked    Reason = "CALLER_REVOKED"     // the caller is revoked; a proposal is answered with a decision of this code instead
	ReasonMethodDenied     Reason = "METHOD_DENIED"      // the caller has no right to the method
	ReasonMethodUnknown    Reason = "METHOD_UNKNOWN"     // there is no such method
	ReasonNotFound         Reason = "NOT_FOUND"          // health knows no such service
	ReasonRateLimited      Reason = "RATE_LIMITED"       // too many calls a second: wait, then try again
	ReasonTooManyInFlight  Reason = "TOO_MANY_IN_FLIGHT" // too many calls at once: wait for one to end
	ReasonHostDenied       Reason = "HOST_DENIED"        // HTTP: the Host header names another server
	ReasonOriginDenied     Reason = "ORIGIN_DENIED"      // HTTP: a browser sends this for a page
	ReasonMessageTooLarge  Reason = "MESSAGE_TOO_LARGE"  // HTTP: the message is over its limit
	ReasonMalformedRequest Reason = "MALFORMED_REQUEST"  // the bytes are not the method's request message
	ReasonUnknownFields    Reason = "UNKNOWN_FIELDS"     // a message has a field that it does not declare
	ReasonDuplicateFields  Reason = "DUPLICATE_FIELDS"   // a single field or a map's key is given twice
	ReasonBatchSize        Reason = "BATCH_SIZE"         // a batch has nothing in it, or too much
	ReasonDeadlineExceeded Reason = "DEADLINE_EXCEEDED"  // the deadline passed first
	ReasonCanceled         Reason = "CANCELED"           // the caller went away, or the server stopped
	ReasonNotReady         Reason = "NOT_READY"          // no bundle is loaded, or the server is stopping
	ReasonInternal         Reason = "INTERNAL"           // a fault of the server; it is logged there

	ReasonCertificateExpired Reason = "CERTIFICATE_EXPIRED"   // the client certificate, or a CA of it, has expired: connect again with a new one
	ReasonCertificateRefused Reason = "CERTIFICATE_REFUSED"   // the client certificate is not, or no longer, trusted here
	ReasonCertificateShared  Reason = "CERTIFICATE_AMBIGUOUS" // the client certificate names more than one caller

	ReasonInvalidRevocation Reason = "INVALID_REVOCATION"   // a field of a revocation, which the metadata names, is missing or wrong; nothing was revoked
	ReasonNoRevocationLog   Reason = "NO_REVOCATION_LOG"    // this server takes no revocations
	ReasonNotRevoked        Reason = "NOT_REVOKED"          // the revocation log cannot be written; nothing was revoked
	ReasonNotInForce        Reason = "REVOKED_NOT_IN_FORCE" // the revocations are durable, and are not in force here yet
	ReasonUnrecorded        Reason = "REVOKED_NOT_RECORDED" // the revocations are durable and in force, but the audit log does not tell of them

	ReasonNoGrants           Reason = "NO_GRANTS"           // this server mints and redeems no grants
	ReasonNoReviews          Reason = "NO_REVIEWS"          // this server keeps no reviews
	ReasonReviewUnknown      Reason = "REVIEW_UNKNOWN"      // there is no such review, or it has been forgotten
	ReasonReviewsUnavailable Reason = "REVIEWS_UNAVAILABLE" // where the reviews are kept could not be asked

	ReasonNoAuditLog Reason = "NO_AUDIT_LOG" // this server does not tell of its log
	ReasonOutOfRange Reason = "OUT_OF_RANGE" // an index or a size is beyond the log, or beyond its newest checkpoint
)

// statusCodes maps each reason to its status code. It is the one place that
// does.
var statusCodes = map[Reason]codes.Code{
	ReasonUnauthenticated:  codes.Unauthenticated,
	ReasonCallerUnknown:    codes.PermissionDenied,
	ReasonCallerRevoked:    codes.PermissionDenied,
	ReasonMethodDenied:     codes.PermissionDenied,
	ReasonMethodUnknown:    codes.Unimplemented,
	ReasonNotFound:         codes.NotFound,
	ReasonRateLimited:      codes.ResourceExhausted,
	ReasonTooManyInFlight:  codes.ResourceExhausted,
	ReasonHostDenied:       codes.PermissionDenied,
	ReasonOriginDenied:     codes.PermissionDenied,
	ReasonMessageTooLarge:  codes.ResourceExhausted,
	ReasonMalformedRequest: codes.InvalidArgument,
	ReasonUnknownFields:    codes.InvalidArgument,
	ReasonDuplicateFields:  codes.InvalidArgument,
	ReasonBatchSize:        codes.InvalidArgument,
	ReasonDeadlineExceeded: codes.DeadlineExceeded,
	ReasonCanceled:         codes.Canceled,
	ReasonNotReady:         codes.Unavailable,
	ReasonInternal:         codes.Internal,

	ReasonCertificateExpired: codes.Unauthenticated,
	ReasonCertificateRefused: codes.Unauthenticated,
	ReasonCertificateShared:  codes.PermissionDenied,

	ReasonInvalidRevocation: codes.InvalidArgument,
	ReasonNoRevocationLog:   codes.FailedPrecondition,
	ReasonNotRevoked:        codes.Unavailable,
	ReasonNotInForce:        codes.DataLoss,
	ReasonUnrecorded:        codes.DataLoss,

	ReasonNoGrants:           codes.Unimplemented,
	ReasonNoReviews:          codes.Unimplemented,
	ReasonReviewUnknown:      codes.NotFound,
	ReasonReviewsUnavailable: codes.Unavailable,

	ReasonNoAuditLog: codes.Unimplemented,
	ReasonOutOfRange: codes.OutOfRange,
}

// refusal is an error that the caller may see as it stands.
type refusal struct {
	reason   Reason
	message  string            // what is wrong and what to do, without values of the request
	metadata map[string]string // for programs
}

func (r *refusal) Error() string { return string(r.reason) + ": " + r.message }

// GRPCStatus is what travels. It is how package status finds it.
func (r *refusal) GRPCStatus() *status.Status {
	code, ok := statusCodes[r.reason]
	if !ok {
		code = codes.Internal
	}
	st := status.New(code, r.message)
	detailed, err := st.WithDetails(r.info())
	if err != nil {
		return st
	}
	return detailed
}

// info is the one detail of every error.
func (r *refusal) info() *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: string(r.reason), Domain: ErrorDomain, Metadata: r.metadata}
}

func refuse(reason Reason, message string) *refusal {
	return &refusal{reason: reason, message: message}
}

// asRefusal turns what a method returned into what its caller may see.
// Whatever is not known to be harmless becomes INTERNAL with the id of a line
// in the log.
func (s *Server) asRefusal(ctx context.Context, method string, err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return refuse(ReasonDeadlineExceeded, "the deadline passed before anything was decided")
	case errors.Is(err, context.Canceled):
		return refuse(ReasonCanceled, "the call ended before anything was decided")
	}
	switch st, _ := status.FromError(err); st.Code() { // of health and reflection
	case codes.Canceled:
		return refuse(ReasonCanceled, "the call ended before anything was decided")
	case codes.NotFound:
		return refuse(ReasonNotFound, "there is no such service here")
	case codes.InvalidArgument:
		return refuse(ReasonMalformedRequest, "the request asks for nothing that the method knows")
	}
	incident := rand.Text()
	s.log.LogAttrs(ctx, slog.LevelError, "a call failed",
		slog.String("incident", incident), slog.String("method", method), slog.String("error", err.Error()))
	return internal(incident)
}

// asUnread says why a request's message could not be received. By then grpc
// has answered in its own words, so this is for the log alone: what a client
// does to its own message is no fault of the server. The end of a stream,
// io.EOF, is no fault at all.
func asUnread(err error) error {
	if err == io.EOF {
		return err
	}
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return refuse(ReasonDeadlineExceeded, "the deadline passed before the message was there")
	case codes.Canceled, codes.Unavailable:
		return refuse(ReasonCanceled, "the call ended before the message was there")
	}
	return refuse(ReasonMalformedRequest, "the message is too large, cut off, or not framed as gRPC")
}

// recovered turns a panic of a method into INTERNAL. The panic's own text may
// quote a request, so only the runtime's is logged, and the stack.
func (s *Server) recovered(ctx context.Context, method string, panicked any) *refusal {
	what := fmt.Sprintf("%T", panicked)
	if e, ok := panicked.(runtime.Error); ok {
		what = e.Error()
	}
	incident := rand.Text()
	s.log.LogAttrs(ctx, slog.LevelError, "a call panicked",
		slog.String("incident", incident), slog.String("method", method), slog.String("panic", what),
		slog.String("stack", string(debug.Stack())))
	return internal(incident)
}

func internal(incident string) *refusal {
	return &refusal{
		reason: ReasonInternal, message: "internal error; nothing was decided. The server's log has it under incident " + incident,
		metadata: map[string]string{"incident": incident},
	}
}
