package effect

import (
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// What a receipt may hold at most, in bytes.
const (
	MaxObserved = 64 << 10
	MaxEffectID = 256
)

// Status says how an attempt to act ended, as far as the observer knows. Any
// other value counts as StatusUnknown.
type Status uint8

// Statuses.
const (
	StatusUnknown  Status = iota // it timed out, or nobody could look
	StatusObserved               // the effect has been seen
	StatusAbsent                 // the observer looked, and nothing is there
)

// Receipt is what an observer says it saw.
type Receipt struct {
	ProposalDigest canon.Digest // of the proposal that was redeemed
	Observer       string       // server id, as the caller's credential lets it speak for
	Status         Status
	// EffectID names the effect at the observer: 1 to [MaxEffectID] bytes without
	// control characters. Required with StatusObserved.
	EffectID string
	// Observed is what was seen, one JSON object. Required with StatusObserved,
	// and empty without it.
	Observed []byte
	// Received is when the receipt came, by the clock of who compares.
	Received time.Time
}

// Standing says what became of one postcondition. The zero value verifies
// nothing.
type Standing uint8

// Standings.
const (
	Unknown  Standing = iota // what was seen does not tell
	Verified                 // it holds
	Failed                   // it does not hold
)

// Checked is what became of one postcondition.
type Checked struct {
	At       string // JSON Pointer into what was seen (RFC 6901)
	Standing Standing
	Why      string // one sentence for people, without values
}

// Result is what came of one receipt. The zero Result verifies nothing.
type Result struct {
	// Code is EFFECT_VERIFIED, POSTCONDITION_FAILED, UNKNOWN_OUTCOME or
	// RECEIPT_MISMATCH.
	Code   writ.Code
	Why    string    // one sentence for people, without values
	Checks []Checked // one for each of the plan, in its order; nil with RECEIPT_MISMATCH
}
