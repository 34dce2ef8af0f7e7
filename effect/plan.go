// Package effect compares what an observer saw after a call with what was
// authorised. It knows neither who asks nor where anything is kept.
package effect

import (
	"time"

	"github.com/writ-pdp/writ/canon"
)

// Plan is what is to be verified after a redemption.
type Plan struct {
	Server, Tool   string // that acted
	ProposalDigest canon.Digest
	IdempotencyKey string
	Observer       string // server id; empty: nothing is to be verified
	ObserverTool   string
	Until          time.Time // when it must have been seen
	Checks         []Expectation
}

// Expectation is one postcondition with the values of the call filled in.
// Exactly one of Equals, In and Present is set.
type Expectation struct {
	At        string   // JSON Pointer into what the observer sees (RFC 6901)
	Equals    string   // JSON text, or the digest of a long one's RFC 8785 form, which is no JSON; empty: see the others
	Absent    bool     // with an Equals of the contract whose argument was absent: nothing may stand there
	In        []string // JSON texts
	Tolerance string   // decimal text; empty: exactly
	Present   *bool
}
