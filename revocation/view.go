package revocation

import "time"

// View is the state of the revocation log at one sequence number. It never
// changes and is safe for concurrent use. A nil View revokes nothing.
type View struct {
	entries  []Entry
	sequence uint64
	byName   map[name]timeline
}

// name is what a revocation is looked up by. issuer is empty for kinds that
// no issuer is part of.
type name struct {
	kind       Kind
	issuer, id string
}

// nameOf leaves out an issuer that isn't part of the name.
func nameOf(k Kind, issuer, id string) name {
	if !k.byIssuer() {
		issuer = ""
	}
	return name{k, issuer, id}
}

// Revoked reports whether id is revoked at now, and by which entry: of those
// that revoke it, the one that reaches furthest (no IssuedBefore, or the
// latest one), and of equals the last of the log. issuer matters for kinds
// that an issuer is part of. issuedAt is when what is named was issued; zero,
// where that is unknown or has no meaning, counts as before every
// IssuedBefore. At the zero time every window counts as open, and an unknown
// kind is revoked: what can't be judged is not let through.
func (v *View) Revoked(k Kind, issuer, id string, issuedAt, now time.Time) (Entry, bool) {
	if v == nil {
		return Entry{}, false
	}
	if !k.known() {
		return Entry{Kind: k, Issuer: issuer, ID: id, Reason: "unknown kind of revocation"}, true
	}
	t, ok := v.byName[nameOf(k, issuer, id)]
	if !ok {
		return Entry{}, false
	}
	i := t.at(now)
	if i == none || !v.entries[i].revokes(issuedAt) {
		return Entry{}, false
	}
	return v.entries[i], true
}

// Sequence returns the sequence number of the log's last entry, 0 for an
// empty log.
func (v *View) Sequence() uint64 {
	if v == nil {
		return 0
	}
	return v.sequence
}
