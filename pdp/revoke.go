package pdp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/revocation"
)

// RevocationLog is where revocations are added: [revocation.Journal], or etcd.
// When Append returns, the entries are durable and on their way into force;
// it returns them with their sequence numbers.
type RevocationLog interface {
	Append(ctx context.Context, entries []revocation.Entry) ([]revocation.Entry, error)
}

// ErrNoRevocationLog says that this PDP takes no revocations.
var ErrNoRevocationLog = errors.New("pdp: nothing was revoked: this server keeps no revocation log")

// UnsettledError says that entries are durable, but that not everything that
// belongs to it could be done.
type UnsettledError struct {
	Entries []revocation.Entry // with their sequence numbers
	InForce bool               // here
	Err     error
}

// Error says what has been done and what has not.
func (e *UnsettledError) Error() string {
	if !e.InForce {
		return fmt.Sprintf("pdp: the revocations are in the log, and are not in force here yet: %v", e.Err)
	}
	return fmt.Sprintf("pdp: the revocations are in force, but not recorded in the audit log: %v", e.Err)
}

// Unwrap returns what went wrong.
func (e *UnsettledError) Unwrap() error { return e.Err }

// Revoke adds entries to the revocation log on behalf of caller, all or none.
// When it returns they are durable, in force here, and recorded, in this order:
// whatever goes wrong on the way, the revocation stands. revision is that of a
// world that has them; empty while no bundle is loaded, when everything is
// denied anyway.
//
// Who says so is set here: an entry's Author is the caller's name, and what
// was given as Author is for whom the caller speaks.
//
// The error is ErrNoRevocationLog, a [revocation.Errors] that says what is
// wrong with the entries, an [UnsettledError], or what kept the log from
// taking them.
func (p *PDP) Revoke(ctx context.Context, caller *writ.Caller, entries []revocation.Entry) (added []revocation.Entry, revision string, err error) {
	switch {
	case caller == nil || len(entries) == 0:
		return nil, "", errors.New("pdp: nothing was revoked: there is no caller or no entry")
	case p.revocations == nil:
		return nil, "", ErrNoRevocationLog
	}
	signed := make([]revocation.Entry, len(entries))
	for i, e := range entries {
		if e.Author == "" {
			e.Author = caller.Name
		} else {
			e.Author = caller.Name + " for " + e.Author
		}
		signed[i] = e
	}
	if err := ctx.Err(); err != nil {
		return nil, "", fmt.Errorf("pdp: nothing was revoked: %w", err)
	}
	// From here on nothing may be lost because somebody no longer listens: what
	// the log takes is to be recorded.
	ctx = context.WithoutCancel(ctx)
	if added, err = p.take(ctx, signed); err != nil {
		return nil, "", err
	}
	revision, late := p.inForce(ctx, added[len(added)-1].Sequence)
	unrecorded := p.recordRevoked(ctx, caller, added, revision)
	if late != nil || unrecorded != nil {
		return nil, "", &UnsettledError{Entries: added, InForce: late == nil, Err: errors.Join(late, unrecorded)}
	}
	return added, revision, nil
}

// taking is how long the revocation log may take to take entries.
const taking = 5 * time.Second

func (p *PDP) take(ctx context.Context, entries []revocation.Entry) ([]revocation.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, taking)
	defer cancel()
	return p.revocations.Append(ctx, entries)
}

// arrival is how long what is durable may take until it is in force here, and
// until it is recorded.
const arrival = 2 * time.Second

// inForce waits until the revocations up to a sequence number are in force
// here, and returns the revision.
func (p *PDP) inForce(ctx context.Context, sequence uint64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, arrival)
	defer cancel()
	for {
		changed := p.snapshots.Changed()
		world := p.snapshots.Load()
		switch {
		case world == nil:
			return "", nil
		case world.Revocations.Sequence() >= sequence:
			return world.Revision, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", errors.New("the world in force does not have them after " + arrival.String())
		}
	}
}

// recordRevoked records entries. They are durable when the last one is: the
// log keeps their order.
func (p *PDP) recordRevoked(ctx context.Context, caller *writ.Caller, entries []revocation.Entry, revision string) error {
	ctx, cancel := context.WithTimeout(ctx, arrival)
	defer cancel()
	for i := range entries {
		r := RevocationRecord(&entries[i], p.now(), revision)
		r.Caller, r.TraceID = caller.Name, traceID(ctx)
		if err := p.log.Append(ctx, r, i == len(entries)-1); err != nil {
			return err
		}
	}
	return nil
}

// RevocationRecord is what the audit log keeps of an entry of the revocation
// log, but for the caller: an entry that a bundle brought has none.
func RevocationRecord(e *revocation.Entry, now time.Time, revision string) audit.Record {
	return audit.Record{
		Kind: audit.KindRevocation, Time: now, Revision: revision,
		Revoked: &audit.Revoked{
			Sequence: e.Sequence, Kind: string(e.Kind), Issuer: e.Issuer, ID: e.ID, Lift: e.Lift,
			IssuedBefore: e.IssuedBefore, From: e.From, Until: e.Until, Reason: e.Reason, Author: e.Author,
		},
	}
}

// Revocations returns the revocation log as it is in force, and the instant at
// which it is judged; changed is closed when another world comes into force.
// The view is nil while no bundle is loaded.
func (p *PDP) Revocations() (view *revocation.View, now time.Time, changed <-chan struct{}) {
	changed = p.snapshots.Changed()
	if world := p.snapshots.Load(); world != nil {
		view = world.Revocations
		if view == nil {
			view = &revocation.View{}
		}
	}
	return view, p.now(), changed
}
