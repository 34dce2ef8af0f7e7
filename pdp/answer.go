package pdp

import (
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
)

// Answer is one recorded decision. Its zero value denies.
type Answer struct {
	id       string
	decision writ.Decision
	grant    Grant
	review   Ticket
}

// ID names the decision in the log: 26 random characters (crypto/rand.Text).
func (a Answer) ID() string { return a.id }

// Decision returns what was decided and recorded.
func (a Answer) Decision() writ.Decision { return a.decision }

// Allowed reports whether the call may go ahead.
func (a Answer) Allowed() bool { return a.decision.Outcome == writ.Allow }

// Grant returns the authority to make the call; zero: there is none, because
// the call is not allowed, or needs none.
func (a Answer) Grant() Grant { return a.grant }

// Review returns where people are asked; zero: nobody is.
func (a Answer) Review() Ticket { return a.review }

// Grant is a signed permission for one call, once.
type Grant struct {
	Token          string // compact JWS; a secret until it is redeemed
	ID             string // jti
	ExpiresAt      time.Time
	IdempotencyKey string
	Postconditions *contract.Postconditions // what must be read back; nil: nothing
}

// Ticket names the review of a proposal.
type Ticket struct {
	ID        string
	ExpiresAt time.Time
}

// Ask says how a question is to be answered.
type Ask struct {
	// AtLeastAsFresh is text from an earlier answer: the world must be that one or
	// a later one of the same source. Empty: any.
	AtLeastAsFresh string
	// Grant asks for a grant also where the call needs none.
	Grant bool
}
