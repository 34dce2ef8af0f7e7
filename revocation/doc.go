// Package revocation answers one question: is this principal, token, server,
// tool … revoked at this instant?
//
// Revocations form an append-only log. [New] makes an immutable [View] of the
// whole log; [View.Revoked] looks one name up in it. Nothing is ever taken
// out of the log: lifting a revocation is a new entry.
//
//	view, err := revocation.New([]revocation.Entry{
//		{Kind: revocation.Principal, Issuer: "https://login.acme.example", ID: "ann", Reason: "laptop stolen"},
//		{Kind: revocation.Tool, ID: "payments/create_payment", From: friday},
//	})
//	entry, revoked := view.Revoked(revocation.Principal, iss, sub, token.IssuedAt, now)
//
// # Names
//
// A principal is named by issuer and subject, a token by issuer and jti, a
// key by issuer and kid; each of the other kinds by its id alone (an actor's
// subject, a caller's name, an issuer's URL, a server's id, a tool's
// "server/tool"). An entry that names an issuer where none belongs is
// refused, and a lookup there ignores the issuer: one who passes it must not
// miss the revocation. A token without a jti can't be named; its principal,
// issuer and key can.
//
// # What an entry says
//
// An entry revokes from From (included) until Until (excluded); a zero bound
// is open. With IssuedBefore it revokes only what was issued before that
// instant ("all of ann's sessions until now"), and whatever doesn't say when
// it was issued; without, everything.
//
// Several entries of one name stand beside each other: it is revoked if any
// of them says so. A lift withdraws all earlier entries of its name and
// nothing else, so after it only later entries count. A lift that finds
// nothing to withdraw is accepted and does nothing, also not to entries that
// come later: two operators may lift the same revocation, and a log that
// can't be changed must not become unreadable by that.
//
// # Order
//
// Entries are given in the order of the log, with strictly increasing
// sequence numbers. An entry with sequence 0 gets the number after its
// predecessor's, so a hand-written file needs none.
//
// # Growing
//
// [View.With] makes the view of a longer log without touching the one that is
// in use. A server keeps its log in a [Journal]: what that says is durable, and
// nothing undoes it but a lift. A bundle's revocations.yaml becomes part of
// such a log by the rule of [Merge].
//
// # Cost
//
// A lookup is two hash lookups and, for a name whose entries have windows or
// follow each other, a binary search among the instants at which the answer
// changes; it allocates nothing. To add an entry costs less than a tenth of a
// millisecond with 100,000 others, but for a name that has thousands of
// windows already, all of which are copied.
package revocation
