package grant

import (
	"context"
	"errors"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/effect"
)

// Ledger remembers what has been redeemed, so that each grant and each
// proposal is redeemed once. It is where the replicas of one decision point
// agree: all share one ledger, or there is one replica.
//
// Every method is linearizable, is done when it returns, and is bounded by its
// ctx. An error says that nothing is known: whoever asked denies. Only what
// ended with an error may still take effect after it has returned.
type Ledger interface {
	// Claim claims a grant and its proposal for one attempt, both or neither, and
	// nothing once another redemption with the plan's idempotency key has had its
	// effect: that is AlreadyClaimed. The error is an [ErrFull], an [ErrForgotten],
	// what [Claim.Check] finds, or what kept the ledger from answering: Standing is
	// Unknown with each of them, and never without.
	Claim(ctx context.Context, c Claim) (Standing, error)
	// Redemption returns what was claimed under a redemption's id. Times are in
	// UTC. The error is [ErrNotFound] where nothing was, or has been forgotten.
	Redemption(ctx context.Context, id string) (Claim, error)
	// Attempt returns what was claimed for a proposal: the key that its Claim
	// had. The error is as of Redemption.
	Attempt(ctx context.Context, proposal string) (Claim, error)
	// Settle claims an effect for one redemption: one effect_id of an observer
	// counts for one redemption, and a redemption that is settled stays so. The
	// same effect again is Repeated. The first EFFECT_VERIFIED under an idempotency
	// key is remembered for as long as what was claimed under it before. The error
	// is [ErrNotFound] where nothing was claimed under the redemption's id, and
	// otherwise as of Claim.
	Settle(ctx context.Context, e Effect) (Standing, error)
	// Instance names those who share this ledger. A grant of another instance
	// can't be redeemed here. 4 to 32 of a-z and 0-9.
	Instance() string
}

// Errors of a [Ledger] that callers tell from others.
var (
	// ErrFull: the ledger has no room for one more redemption.
	ErrFull = errors.New("grant: the ledger is full, or the caller has its share of it: give it more room, or a shorter retention")
	// ErrNotFound: nothing is known under this name.
	ErrNotFound = errors.New("grant: the ledger knows no such redemption")
	// ErrForgotten: the claim comes [MaxSkew] or more after its Expires, when
	// the ledger may have forgotten that the grant was used.
	ErrForgotten = errors.New("grant: what expired this long ago is not in the ledger any more: ask for a new decision")
)

const (
	// MaxSkew is how far any two clocks of those who share a ledger may be apart.
	MaxSkew = 5 * time.Minute
	// DefaultRetention is how long a ledger remembers a redemption, unless it is
	// told otherwise: so long, a proposal can't be redeemed twice.
	DefaultRetention = 30 * 24 * time.Hour
	// MaxRetention is the longest that may be asked for.
	MaxRetention = 10 * 366 * 24 * time.Hour
)

// Standing is what a ledger says of a claim. The zero value denies.
type Standing uint8

// Standings.
const (
	Unknown        Standing = iota // nobody knows: deny, and ask again
	Claimed                        // it is the caller's, from now on
	Repeated                       // it was already, by the same attempt
	AlreadyClaimed                 // it is somebody else's, or was done by another attempt
	// Overtaken says that something was revoked that Claim.Revocations does not
	// count yet: judge again, and claim again. It comes before Repeated and
	// AlreadyClaimed. Where an answer was lost on the way, the attempt may have
	// claimed before it was overtaken: nobody else will, then.
	Overtaken
)

func (s Standing) String() string {
	switch s {
	case Claimed:
		return "claimed"
	case Repeated:
		return "repeated"
	case AlreadyClaimed:
		return "already claimed"
	case Overtaken:
		return "overtaken"
	default:
		return "unknown"
	}
}

// Claim is one attempt to redeem a grant.
type Claim struct {
	ID       string // of the redemption: the decision's id of the first answer
	Grant    string // jti
	Proposal string // names the proposal: its digest, as the log names it (HMAC), the same at all replicas
	// Attempt names who redeems for what: a digest over caller, redemption_id
	// and call. The same attempt may come again, with another ID: what was
	// claimed keeps its first.
	Attempt canon.Digest
	// Revocations is the sequence of the last entry of the revocation log that
	// this attempt was held against.
	Revocations uint64

	// Caller is who redeems. The ledger in memory bounds how much of its room one
	// caller takes; none keeps the name. Empty: nobody in particular.
	Caller string

	Now time.Time // of the attempt
	// Expires is when the grant does, or what else lets it be minted again. A
	// ledger remembers the whole claim for its retention, and for [MaxSkew]
	// beyond Expires where that is later.
	Expires time.Time
	Plan    effect.Plan // what is to be verified afterwards

	// Retry finds what a retry is held against: the digest of the call, as the
	// log names it (HMAC). May be empty.
	Call string
	// Outcome is the code that the effect was settled with; empty: it was not.
	// Set by the ledger.
	Outcome writ.Code
	// DoneElsewhere says that another redemption with the plan's idempotency key
	// has had its effect: there is nothing left to try again. Set by the ledger's
	// Attempt.
	DoneElsewhere bool
}

// Effect is what an observer has told of one redemption.
type Effect struct {
	Redemption string       // the Claim's ID
	Observer   string       // server id
	ID         string       // effect_id at the observer; empty: there is none to be claimed
	Receipt    canon.Digest // of the receipt: the same one may come again
	Outcome    writ.Code    // EFFECT_VERIFIED or POSTCONDITION_FAILED; what is unknown is not settled
	Now        time.Time
}

// Same reports whether other tells the same as e, whenever it does.
func (e *Effect) Same(other *Effect) bool {
	return e.Redemption == other.Redemption && e.Observer == other.Observer && e.ID == other.ID &&
		e.Receipt == other.Receipt && e.Outcome == other.Outcome
}
