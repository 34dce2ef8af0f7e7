package revocation

import "time"

// Kind says what a revocation names. Kinds are append-only.
type Kind string

// Kinds, with what Issuer and ID of an [Entry] hold.
const (
	Principal Kind = "principal" // the token's iss; its sub
	Actor     Kind = "actor"     // none; the actor's subject
	Caller    Kind = "caller"    // none; the caller's name
	Issuer    Kind = "issuer"    // none; the issuer's iss
	Key       Kind = "key"       // the issuer's iss; the key's kid
	Token     Kind = "token"     // the token's iss; its jti
	Intent    Kind = "intent"    // none; the intent's id
	Server    Kind = "server"    // none; the server's id
	Tool      Kind = "tool"      // none; server id, "/", tool name
	Approval  Kind = "approval"  // none; the approval's id
	Grant     Kind = "grant"     // none; the grant's jti
)

// Kinds lists every kind.
var Kinds = [...]Kind{Principal, Actor, Caller, Issuer, Key, Token, Intent, Server, Tool, Approval, Grant}

// known reports whether k is one of [Kinds].
func (k Kind) known() bool {
	switch k {
	case Principal, Actor, Caller, Issuer, Key, Token, Intent, Server, Tool, Approval, Grant:
		return true
	}
	return false
}

// byIssuer reports whether an issuer is part of the name.
func (k Kind) byIssuer() bool {
	switch k {
	case Principal, Key, Token:
		return true
	case Actor, Caller, Issuer, Intent, Server, Tool, Approval, Grant:
		return false
	}
	return false
}

// Entry is one line of the revocation log.
type Entry struct {
	Sequence uint64 // place in the log, from 1; 0: the one after the entry before
	Kind     Kind
	Issuer   string // for the kinds that an issuer is part of; otherwise empty
	ID       string // never empty
	// IssuedBefore restricts the revocation to what was issued before it;
	// zero: everything.
	IssuedBefore time.Time
	From         time.Time // in force from then on; zero: at once
	Until        time.Time // not in force from then on; zero: for good
	Reason       string    // for people
	Author       string    // who revoked, for people
	// Lift withdraws every earlier entry of the same kind, issuer and id. A
	// lift has no times.
	Lift bool

	RecordedAt time.Time // when the log took it, by the log's clock; zero: nobody knows
	// Imported says that it was a line of the bundle's revocations.yaml, for
	// [Merge]. Whoever else appends leaves it false.
	Imported bool
}

// normal gives every time one representation: in UTC, without a monotonic
// reading.
func (a *Entry) normal() {
	for _, t := range []*time.Time{&a.IssuedBefore, &a.From, &a.Until, &a.RecordedAt} {
		*t = t.Round(0).UTC()
	}
}

// holds reports whether now is within the entry's own times.
func (a *Entry) holds(now time.Time) bool {
	return (a.From.IsZero() || !now.Before(a.From)) && (a.Until.IsZero() || now.Before(a.Until))
}

// reaches reports whether a revokes at least what b revokes, while both do.
func (a *Entry) reaches(b *Entry) bool {
	switch {
	case a.IssuedBefore.IsZero():
		return true
	case b.IssuedBefore.IsZero():
		return false
	}
	return !a.IssuedBefore.Before(b.IssuedBefore)
}

// revokes reports whether the entry, being in force, concerns what was issued
// then. A zero issuedAt counts as before.
func (a *Entry) revokes(issuedAt time.Time) bool {
	return a.IssuedBefore.IsZero() || issuedAt.IsZero() || issuedAt.Before(a.IssuedBefore)
}
