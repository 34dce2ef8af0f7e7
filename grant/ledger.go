package grant

import (
	"context"
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
// ctx. An error says that nothing is known: whoever asked denies.
type Ledger interface {
	// Claim claims a grant and its proposal for one attempt, both or neither.
	// The error is an [ErrFull], or what kept the ledger from answering:
	// Standing is Unknown then.
	Claim(ctx context.Context, c Claim) (Standing, error)
	// Redemption returns what was claimed under a redemption's id.
	// The error is [ErrNotFound] where nothing was, or has been forgotten.
	Redemption(ctx context.Context, id string) (Claim, error)
	// Attempt returns what was claimed for a proposal: the key that its Claim
	// had. The error is as of Redemption.
	Attempt(ctx context.Context, proposal string) (Claim, error)
	// Settle claims an effect for one redemption: one effect_id counts for one
	// redemption, and a redemption that is settled stays so.
	Settle(ctx context.Context, e Effect) (Standing, error)
	// Instance names those who share this ledger. A grant of another instance
	// can't be redeemed here. 4 to 32 of a-z and 0-9.
	Instance() string
}

// Standing is what a ledger says of a claim. The zero value denies.
type Standing uint8

// Standings.
const (
	Unknown        Standing = iota // nobody knows: deny, and ask again
	Claimed                        // it is the caller's, from now on
	Repeated                       // it was already, by the same attempt
	AlreadyClaimed                 // it is somebody else's
	Overtaken                      // something was revoked that Claim.Revocations does not count yet: judge again, and claim again
)

// Claim is one attempt to redeem a grant.
type Claim struct {
	ID       string // of the redemption: the decision's id of the first answer
	Grant    string // jti
	Proposal string // names the proposal: its digest, as the log names it (HMAC), the same at all replicas
	// Attempt names who redeems for what: a digest over caller, redemption_id
	// and call. The same attempt may come again.
	Attempt canon.Digest
	// Revocations is the sequence of the last entry of the revocation log that
	// this attempt was held against.
	Revocations uint64

	Now     time.Time   // of the attempt
	Expires time.Time   // of the grant, or of what else lets it be minted again: an entry stays for longer
	Plan    effect.Plan // what is to be verified afterwards

	// Retry finds what a retry is held against: the digest of the call, as the
	// log names it (HMAC).
	Call string
	// Outcome is the code that the effect was settled with; empty: it was not.
	// Set by the ledger.
	Outcome writ.Code
}

// Effect is what an observer has told of one redemption.
type Effect struct {
	Redemption string       // the Claim's ID
	Observer   string       // server id
	ID         string       // effect_id at the observer; empty: there is none to be claimed
	Receipt    canon.Digest // of the receipt: the same one may come again
	Outcome    writ.Code    // EFFECT_VERIFIED or POSTCONDITION_FAILED
	Now        time.Time
}
