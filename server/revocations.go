package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
)

// Revoker is where the server revokes, and reads what is revoked: [pdp.PDP].
type Revoker interface {
	// Revoke adds entries to the revocation log on behalf of caller.
	Revoke(ctx context.Context, caller *writ.Caller, entries []revocation.Entry) (added []revocation.Entry, revision string, err error)
	// Revocations returns the log as it is in force, the instant at which it is
	// judged, and what is closed when another world comes into force. The view
	// is nil while no bundle is loaded.
	Revocations() (view *revocation.View, now time.Time, changed <-chan struct{})
}

const (
	// MaxRevocations is how many entries one request may add, and a page of the
	// log holds at most.
	MaxRevocations = 1000
	// maxPage is from how many bytes of text on a page of the log ends: clients
	// receive 4 MiB by default.
	maxPage = 1 << 20
)

// revocations is the RevocationService.
type revocations struct {
	writv1.UnimplementedRevocationServiceServer
	revoker Revoker // nil: there is none
	log     *slog.Logger
}

// Revoke adds entries to the revocation log.
func (r *revocations) Revoke(ctx context.Context, req *writv1.RevokeRequest) (*writv1.RevokeResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := len(req.GetRevocations())
	if n == 0 || n > MaxRevocations {
		return nil, refuse(ReasonBatchSize, fmt.Sprintf("a request has 1 to %d revocations: split it", MaxRevocations))
	}
	if r.revoker == nil {
		return nil, refuse(ReasonNoRevocationLog, "this server keeps no revocation log")
	}
	charge(ctx, n-1)
	entries := make([]revocation.Entry, n)
	for i, in := range req.GetRevocations() {
		entry, err := revocationFromProto(in)
		if err != nil {
			return nil, invalidRevocation(i, err.Field, err.Reason)
		}
		entries[i] = entry
	}
	added, revision, err := r.revoker.Revoke(ctx, callerOf(ctx), entries)
	if err != nil {
		return nil, r.refusal(ctx, err)
	}
	return &writv1.RevokeResponse{Revocations: revocationsToProto(added), Revision: revision}, nil
}

// refusal says what a caller may see of why nothing, or not everything, was
// done. The rest is for the server's own log.
func (r *revocations) refusal(ctx context.Context, err error) error {
	if errs, ok := errors.AsType[revocation.Errors](err); ok && len(errs) > 0 {
		return invalidRevocation(errs[0].Index, errs[0].Field, errs[0].Message)
	}
	if errors.Is(err, pdp.ErrNoRevocationLog) {
		return refuse(ReasonNoRevocationLog, "this server keeps no revocation log")
	}
	r.log.LogAttrs(ctx, slog.LevelError, "revoking", slog.String("error", err.Error()))
	if unsettled, ok := errors.AsType[*pdp.UnsettledError](err); ok {
		if unsettled.InForce {
			return refuse(ReasonUnrecorded, "the revocations are durable and in force, but could not be recorded in the audit log: don't repeat them, and see to that log")
		}
		return refuse(ReasonNotInForce, "the revocations are durable, but are not in force here yet: list them before you repeat them")
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return refuse(ReasonDeadlineExceeded, "the call ended first, and it is unknown whether anything was revoked: list the revocations")
	}
	return refuse(ReasonNotRevoked, "nothing was revoked: the revocation log cannot be written; the server's log says why")
}

// invalidRevocation refuses a request for one field of one entry.
func invalidRevocation(i int, field, why string) error {
	at := fmt.Sprintf("revocations[%d]", i)
	if field != "" {
		at += "." + field
	}
	return &refusal{
		reason: ReasonInvalidRevocation, message: fmt.Sprintf("%s: %s. Nothing was revoked", at, why),
		metadata: map[string]string{"field": at},
	}
}

// ListRevocations tells a page of the log.
func (r *revocations) ListRevocations(ctx context.Context, req *writv1.ListRevocationsRequest) (*writv1.ListRevocationsResponse, error) {
	size := int(req.GetPageSize())
	if size < 0 || size > MaxRevocations {
		return nil, refuse(ReasonBatchSize, fmt.Sprintf("page_size is 0 to %d", MaxRevocations))
	}
	if size == 0 {
		size = MaxRevocations
	}
	if kind := req.GetKind(); kind != "" && !slices.Contains(revocation.Kinds[:], revocation.Kind(kind)) {
		return nil, &refusal{
			reason: ReasonInvalidRevocation, message: "kind: there is no such kind of revocation", metadata: map[string]string{"field": "kind"},
		}
	}
	view, now, _, err := r.inForce()
	if err != nil {
		return nil, err
	}
	out := &writv1.ListRevocationsResponse{Sequence: view.Sequence()}
	text, scanned, last := 0, 0, req.GetAfter()
	for e := range view.Entries(req.GetAfter()) {
		if scanned++; scanned%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if req.GetKind() != "" && string(e.Kind) != req.GetKind() || req.GetId() != "" && e.ID != req.GetId() ||
			req.GetInForce() && !view.InForce(&e, now) {
			last = e.Sequence
			continue
		}
		if len(out.Revocations) == size || text > maxPage {
			out.NextAfter = last
			break
		}
		last = e.Sequence
		text += len(e.ID) + len(e.Issuer) + len(e.Reason) + len(e.Author)
		out.Revocations = append(out.Revocations, revocationToProto(&e))
	}
	return out, nil
}

// inForce returns the log as it is in force, or why there is none.
func (r *revocations) inForce() (*revocation.View, time.Time, <-chan struct{}, error) {
	if r.revoker == nil {
		return nil, time.Time{}, nil, refuse(ReasonNoRevocationLog, "this server keeps no revocation log")
	}
	view, now, changed := r.revoker.Revocations()
	if view == nil {
		return nil, time.Time{}, nil, refuse(ReasonNotReady, "no bundle is loaded yet: try again later")
	}
	return view, now, changed, nil
}
