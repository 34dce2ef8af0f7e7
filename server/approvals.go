package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/canon"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
)

// Reviewer is where people are asked, and answer: [pdp.PDP]. Errors of package
// approval say what is wrong with a request.
type Reviewer interface {
	// Reviews returns reviews, the oldest first, whether there are more, and the
	// instant at which they are judged.
	Reviews(ctx context.Context, closed bool, limit int) (reviews []approval.Review, more bool, now time.Time, err error)
	// Review returns one review, and the instant at which it is judged.
	Review(ctx context.Context, id string) (review approval.Review, now time.Time, err error)
	// WatchReviews yields the reviews that are kept, then each that is opened or
	// changes.
	WatchReviews(ctx context.Context) iter.Seq2[approval.Review, error]
	// Now is the instant at which a review would be judged.
	Now() time.Time
	// Approve signs one person's agreement; Reject closes a review.
	Approve(ctx context.Context, caller *writ.Caller, s *pdp.Statement) (pdp.Reviewed, error)
	Reject(ctx context.Context, caller *writ.Caller, s *pdp.Statement) (pdp.Reviewed, error)
}

// Limits of ListReviews.
const (
	defaultReviews = 100
	maxReviews     = 1000
)

// approvals is the ApprovalService.
type approvals struct {
	writv1.UnimplementedApprovalServiceServer
	reviewer Reviewer // nil: there is none
	log      *slog.Logger
}

var errNoReviews = refuse(ReasonNoReviews, "this server keeps no reviews")

// refusal says what a caller may see of why a review could not be answered.
func (a *approvals) refusal(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, approval.ErrNotFound):
		return refuse(ReasonReviewUnknown, "there is no such review, or it has been forgotten: propose the call again")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	}
	a.log.LogAttrs(ctx, slog.LevelError, "reviews", slog.String("error", err.Error()))
	return refuse(ReasonReviewsUnavailable, "the reviews could not be asked: look at the review before you answer it again; the server's log says why")
}

// ListReviews returns reviews.
func (a *approvals) ListReviews(ctx context.Context, req *writv1.ListReviewsRequest) (*writv1.ListReviewsResponse, error) {
	if a.reviewer == nil {
		return nil, errNoReviews
	}
	limit := int(req.GetLimit())
	if limit > maxReviews {
		return nil, refuse(ReasonBatchSize, fmt.Sprintf("limit is 0 to %d", maxReviews))
	}
	if limit == 0 {
		limit = defaultReviews
	}
	reviews, more, now, err := a.reviewer.Reviews(ctx, req.GetClosed(), limit)
	if err != nil {
		return nil, a.refusal(ctx, err)
	}
	out := &writv1.ListReviewsResponse{More: more}
	size := 0
	for i := range reviews {
		r := reviewToProto(&reviews[i], now)
		if size += proto.Size(r); size > maxPage && i > 0 {
			out.More = true
			break
		}
		out.Reviews = append(out.Reviews, r)
	}
	return out, nil
}

// GetReview returns one review.
func (a *approvals) GetReview(ctx context.Context, req *writv1.GetReviewRequest) (*writv1.GetReviewResponse, error) {
	if a.reviewer == nil {
		return nil, errNoReviews
	}
	r, now, err := a.reviewer.Review(ctx, req.GetId())
	if err != nil {
		return nil, a.refusal(ctx, err)
	}
	return &writv1.GetReviewResponse{Review: reviewToProto(&r, now)}, nil
}

// WatchReviews streams the reviews that are kept, and then each that is opened
// or changes.
func (a *approvals) WatchReviews(_ *writv1.WatchReviewsRequest, stream writv1.ApprovalService_WatchReviewsServer) error {
	if a.reviewer == nil {
		return errNoReviews
	}
	ctx := stream.Context()
	for r, err := range a.reviewer.WatchReviews(ctx) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return a.refusal(ctx, err)
		}
		if err := stream.Send(&writv1.WatchReviewsResponse{Review: reviewToProto(&r, a.reviewer.Now())}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Approve signs one person's agreement.
func (a *approvals) Approve(ctx context.Context, req *writv1.ApproveRequest) (*writv1.ApproveResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if a.reviewer == nil {
		return nil, errNoReviews
	}
	shown, err := canon.ParseDigest(req.GetReviewDigest())
	if err != nil {
		return nil, refuse(ReasonMalformedRequest, "review_digest is not a digest: take it from the review that the person was shown")
	}
	said, err := statement(req.GetId(), req.GetApprover(), req.GetToken(), req.GetAccessToken())
	if err != nil {
		return nil, err
	}
	said.Shown = shown
	r, err := a.reviewer.Approve(ctx, callerOf(ctx), said)
	if err != nil {
		return nil, a.refusal(ctx, err)
	}
	review := r.Review()
	return &writv1.ApproveResponse{
		DecisionId: r.ID(), Decision: DecisionToProto(r.Decision()), Approval: r.Approval(), Review: reviewToProto(&review, a.reviewer.Now()),
	}, nil
}

// Reject closes a review.
func (a *approvals) Reject(ctx context.Context, req *writv1.RejectRequest) (*writv1.RejectResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if a.reviewer == nil {
		return nil, errNoReviews
	}
	said, err := statement(req.GetId(), req.GetApprover(), req.GetToken(), req.GetAccessToken())
	if err != nil {
		return nil, err
	}
	said.Reason = req.GetReason()
	r, err := a.reviewer.Reject(ctx, callerOf(ctx), said)
	if err != nil {
		return nil, a.refusal(ctx, err)
	}
	review := r.Review()
	return &writv1.RejectResponse{DecisionId: r.ID(), Decision: DecisionToProto(r.Decision()), Review: reviewToProto(&review, a.reviewer.Now())}, nil
}

// statement reads who says something to which review.
func statement(review string, approver *writv1.Principal, token *writv1.Token, access string) (*pdp.Statement, error) {
	if token != nil && access != "" {
		return nil, refuse(ReasonMalformedRequest, "send the approver's access token or what it says, not both")
	}
	out := &pdp.Statement{Review: review, Approver: principalFromProto(approver), AccessToken: []byte(access)}
	r := reader{}
	out.Token = r.token(token)
	if r.fault != nil {
		return nil, refuse(ReasonMalformedRequest, r.fault.Field+": "+r.fault.Reason)
	}
	return out, nil
}
