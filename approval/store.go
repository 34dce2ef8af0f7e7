package approval

import (
	"context"
	"encoding/base32"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// Store keeps what people are asked to agree to, and what they said. It judges
// nothing: who may agree, and whether an agreement counts, is decided anew by
// whoever opens a review, adds to it and reads it.
//
// Every method is linearizable, is done when it returns, and is bounded by its
// ctx. A Review that a Store returns is the caller's to keep and nobody's to
// change. An error that is none of this package's says that nothing is known.
type Store interface {
	// Open keeps r, unless it is kept already: one review digest is one review,
	// for all who propose the same. r brings Shown, Proposal, Caller and Opened,
	// which is now; the rest is the store's. Kept already, but over by then, it is
	// opened anew and nobody has agreed. The errors are [ErrRejected], with the
	// review; [ErrFull]; [ErrNoDigest].
	Open(ctx context.Context, r Review) (Review, error)
	// Get returns one review, however it stands. The error is [ErrNotFound].
	Get(ctx context.Context, id string) (Review, error)
	// ByProposal returns the reviews of one proposal, the oldest first, however
	// they stand: there is one for each world that people were asked in.
	ByProposal(ctx context.Context, proposal canon.Digest) ([]Review, error)
	// List returns reviews, the oldest first, and whether there are more.
	List(ctx context.Context, q Query) (reviews []Review, more bool, err error)
	// Agree adds one person's signed approval. Of one person, by issuer and
	// subject, the last one is kept. The errors are [ErrNotFound];
	// [ErrRejected] and [ErrExpired], with the review; [ErrFull].
	Agree(ctx context.Context, id string, a Agreement) (Review, error)
	// Reject closes a review. It stays so for as long as it is kept. The errors
	// are [ErrNotFound]; [ErrRejected] and [ErrExpired], with the review.
	Reject(ctx context.Context, id string, r Rejection) (Review, error)
	// Watch yields the reviews that are kept, the oldest first, and then each that
	// is opened or changes. A slow reader misses states in between, never the
	// last one. That the time of a review is over is no change. It ends with
	// ctx, or with an error, after which the caller watches anew.
	Watch(ctx context.Context) iter.Seq2[Review, error]
}

// Errors of a store.
var (
	ErrNotFound = errors.New("there is no such review, or it has been forgotten: propose the call again")
	ErrRejected = errors.New("somebody has rejected this review")
	ErrExpired  = errors.New("the time of this review is over: propose the call again")
	ErrFull     = errors.New("there are too many reviews, or too many of this caller, or too much in one: let people answer those that are open")
	ErrNoDigest = errors.New("the review has no digest")
)

// MaxAgreements is how many people's agreements one review keeps: as many as a
// proposal may bring.
const MaxAgreements = 16

// Review is one review that is kept.
type Review struct {
	ID    string      // [ID] of its digest
	Shown writ.Review // as it was rendered when it was opened
	// Proposal is what was proposed, with what its token says if it was
	// verified: never with the token itself, a proof of possession or an approval.
	Proposal writ.Proposal
	Caller   writ.Caller // who proposed, as it was known then
	Opened   time.Time
	Expires  time.Time

	Agreements []Agreement // of distinct people, in the order in which they came
	Rejection  *Rejection  // nil: nobody has
}

// Agreement is one person's agreement.
type Agreement struct {
	ID       string // jti of the approval
	Approver writ.Principal
	Entity   string   // the approver's Cedar entity, as text
	Policies []string // ids of those that it counted for when it was given
	Caller   string   // through whom
	Given    time.Time
	Expires  time.Time
	Approval string // the approval itself: a compact JWS
}

// Rejection is how a review was closed.
type Rejection struct {
	Approver writ.Principal
	Caller   string // through whom
	Given    time.Time
	Reason   string // for people
}

// Query is what List looks for.
type Query struct {
	Now    time.Time
	Closed bool // also those that are no longer open
	Limit  int  // at most so many; zero: none
}

// State says how a review stands. The zero State is not open.
type State uint8

// States.
const (
	Closed   State = iota // of the zero Review: it can't be answered
	Open                  // people are asked
	Approved              // enough people have agreed, as far as was known when they did
	Rejected
	Expired
)

// State returns how r stands at the instant now. Approved is for people: it is
// no authority, and whether the call may be made is decided anew.
func (r *Review) State(now time.Time) State {
	switch {
	case r.ID == "":
		return Closed
	case r.Rejection != nil:
		return Rejected
	case !now.Before(r.Expires):
		return Expired
	case len(r.Shown.Policies) == 0: // nobody can say how many are enough
		return Open
	}
	for i, agreed := range r.Agreed(now) {
		if agreed < r.Shown.Policies[i].People {
			return Open
		}
	}
	return Approved
}

// Agreed returns for each policy of Shown how many distinct people have agreed,
// by approvals that have not ended.
func (r *Review) Agreed(now time.Time) []int {
	counts := make([]int, len(r.Shown.Policies))
	for i := range r.Shown.Policies {
		var people []string
		for k := range r.Agreements {
			a := &r.Agreements[k]
			if now.Before(a.Expires) && slices.Contains(a.Policies, r.Shown.Policies[i].ID) && !slices.Contains(people, a.Entity) {
				people = append(people, a.Entity)
			}
		}
		counts[i] = len(people)
	}
	return counts
}

// ID is what a review of this digest is named by: 26 of A-Z and 2-7, its first
// 130 bits in base32.
func ID(review canon.Digest) string {
	if review.IsZero() {
		return ""
	}
	return base32.StdEncoding.EncodeToString(review[:])[:26]
}
