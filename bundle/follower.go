package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// FollowerConfig says where a follower puts what a source gives.
type FollowerConfig struct {
	// Holder gets each world. Required; nobody else may store in it.
	Holder *snapshot.Holder
	// Source names the source whose counts the revisions hold: 4 to 32 of a-z
	// and 0-9. Required.
	Source string
	// AllowEmpty takes a bundle without any policy, server or entity also where
	// the one in force has some. Otherwise it is refused: such a bundle is more
	// often a mount that failed than somebody's wish.
	AllowEmpty bool
	// Import makes the entries of revocations.yaml part of the revocation log,
	// durably, before their bundle is in force, and returns the log's view. It
	// may be called again for a bundle that it has failed for. Nil: the source
	// keeps the log itself, and calls Revoke before its first Offer.
	Import func([]revocation.Entry) (*revocation.View, error)
	// Changed is told of each accepted world, each refusal and each mending, in
	// their order, and not of revocations. It must not call the follower, but
	// for Status; nil: nobody is told.
	Changed func(Status)
}

// Status is how a follower stands.
type Status struct {
	// Revision is of the world in force; zero: there is none yet.
	Revision snapshot.Revision
	LoadedAt time.Time // when its bundle came into force
	HeardAt  time.Time // when the source last said that it had nothing newer; zero: never
	// Warnings are of the bundle in force.
	Warnings writ.Faults

	// Fault says why the newest that the source has is not in force: a
	// [writ.Faults] where the places are known. Nil: it is.
	Fault error
	Since time.Time // when the source first had something that isn't in force; zero without a Fault
	// Refused names the content that is refused, as revisions name a bundle;
	// empty where it could not be read whole.
	Refused string

	Accepted, Refusals uint64 // so far
}

// Follower keeps a holder at the newest good world of one source. Whatever is
// wrong with a newer one, the last good world stays in force, and the status
// says what is wrong, where, and since when. What is remembered is what was
// last accepted: content that was refused and is offered again is judged
// again, but for content that has not changed by a byte since it was refused.
//
// Worlds only move on: an older generation is an error, and so is another
// bundle as the same generation; the revocation log only grows. Make one with
// [NewFollower]. One goroutine calls Offer and Unreadable; the rest may be
// called at any time by anybody.
type Follower struct {
	cfg FollowerConfig

	offering sync.Mutex // held while a bundle is judged and its outcome told
	last     *Bundle    // guarded by offering: accepted last; nil: none
	built    *Bundle    // guarded by offering: good, but its revocations could not be imported; else nil
	builtOf  string     // guarded by offering: the content that it was built of
	verdict  error      // guarded by offering: on the refused content, if that alone led to it; else nil

	mu     sync.Mutex         // guards the rest, and every Store of the holder
	base   *snapshot.Snapshot // the bundle in force, before its source's counts; nil: none
	view   *revocation.View   // the newest that anybody told; nil: nobody has
	status Status
}

var sourceName = regexp.MustCompile(`^[a-z0-9]{4,32}$`)

// NewFollower makes a follower whose source has offered nothing yet.
func NewFollower(cfg FollowerConfig) (*Follower, error) {
	switch {
	case cfg.Holder == nil:
		return nil, errors.New("bundle: a follower needs a holder")
	case !sourceName.MatchString(cfg.Source):
		return nil, fmt.Errorf("bundle: %q cannot name a source: 4 to 32 of a-z and 0-9", cfg.Source)
	}
	return &Follower{cfg: cfg}, nil
}

// Offer puts files in force as the source's generation of that number, from 1.
// The generation in force with its own files again says that the source is
// back at them; anything else must come with a greater number. A number whose
// bundle was refused may be used for the next. The bundle is built off to the
// side; on any error the last good world stays. The error is a [writ.Faults]
// where the bundle has faults.
func (f *Follower) Offer(generation uint64, files []File) error {
	files = hashed(files)
	content := contentOf(files)

	f.offering.Lock()
	defer f.offering.Unlock()
	current := f.Status()
	switch in := current.Revision; {
	case generation == 0:
		return errors.New("bundle: generations count from 1")
	case generation < in.Generation:
		return fmt.Errorf("bundle: generation %d is older than %d, which is in force", generation, in.Generation)
	case generation == in.Generation && content != in.Bundle:
		return fmt.Errorf("bundle: generation %d is in force with other files: number them %d", generation, generation+1)
	case generation == in.Generation:
		f.mend()
		return nil
	case f.verdict != nil && content == current.Refused:
		return f.verdict
	}
	b, err := f.build(content, files)
	if err != nil {
		f.verdict = err
		f.refuse(content, err)
		return err
	}
	if err := f.accept(generation, b); err != nil {
		f.verdict, f.built, f.builtOf = nil, b, content
		f.refuse(content, err)
		return err
	}
	f.last, f.verdict, f.built, f.builtOf = b, nil, nil, ""
	f.tell()
	return nil
}

// bundle returns the bundle that was accepted last, or nil. The source may
// leave out the content of its files: see [Bundle.Kept].
func (f *Follower) bundle() *Bundle {
	f.offering.Lock()
	defer f.offering.Unlock()
	return f.last
}

// contentOf names the content of files, in whatever order. Of those that may
// be served it is what revisions name the bundle by.
func contentOf(files []File) string {
	counted := slices.DeleteFunc(slices.Clone(files), func(f File) bool { return ignored(f.Name) })
	slices.SortStableFunc(counted, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return revision(counted)
}

// build makes a bundle that may follow the last one. The caller holds
// offering.
func (f *Follower) build(content string, files []File) (*Bundle, error) {
	if f.built != nil && f.builtOf == content {
		return f.built, nil
	}
	f.mu.Lock()
	same := f.last != nil && f.status.Revision.Bundle == content
	f.mu.Unlock()
	if same { // a bundle that comes back as a new generation
		return f.last, nil
	}
	b, faults := Build(files, f.last)
	if b == nil {
		return nil, faults
	}
	if f.last != nil && !f.cfg.AllowEmpty {
		if err := emptied(f.last.Snapshot, b.Snapshot); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// emptied says what a bundle has lost as a whole, or nil.
func emptied(before, after *snapshot.Snapshot) error {
	for _, part := range []struct {
		name          string
		before, after int
	}{
		{"policy", before.Policies.Len(), after.Policies.Len()},
		{"server", len(before.Servers), len(after.Servers)},
		{"entity", before.Entities.Len(), after.Entities.Len()},
	} {
		if part.before > 0 && part.after == 0 {
			return writ.Faults{{Message: fmt.Sprintf("the bundle suddenly has no %s, where the one in force has %d: "+
				"if that is meant, allow it when the server starts (--allow-empty)", part.name, part.before)}}
		}
	}
	return nil
}

// accept puts a bundle in force. The caller holds offering.
func (f *Follower) accept(generation uint64, b *Bundle) error {
	var imported *revocation.View
	if f.cfg.Import != nil {
		var err error
		if imported, err = f.cfg.Import(slices.Clone(b.Revocations)); err != nil {
			return fmt.Errorf("the revocations of the bundle could not be recorded, so it is not in force: %w", err)
		}
		if imported == nil {
			return errors.New("the revocations of the bundle were recorded, but there is no view of them, so it is not in force")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// One that is as long counts, too: it may show a lift that waited for this bundle.
	if imported != nil && (f.view == nil || imported.Sequence() >= f.view.Sequence()) {
		f.view = imported
	}
	if f.view == nil {
		return errors.New("the source has not said yet what is revoked, so its bundle is not in force")
	}
	now := time.Now().UTC()
	f.base = b.Snapshot
	f.status = Status{
		Revision: snapshot.Revision{Bundle: b.Snapshot.Revision, Source: f.cfg.Source, Generation: generation}, LoadedAt: now,
		Warnings: b.Warnings, Accepted: f.status.Accepted + 1, Refusals: f.status.Refusals,
	}
	f.store()
	return nil
}

// store puts the bundle in force with the newest view. The caller holds mu.
func (f *Follower) store() {
	in := &f.status.Revision
	world := f.base.At(in.Source, in.Generation, f.view)
	world.LoadedAt = f.status.LoadedAt
	in.Sequence = f.view.Sequence()
	f.cfg.Holder.Store(world)
}

// Revoke puts a newer view of the revocation log in force before it returns,
// with whichever bundle is. A view that is not newer changes nothing.
func (f *Follower) Revoke(view *revocation.View) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if view == nil || f.view != nil && view.Sequence() <= f.view.Sequence() {
		return
	}
	f.view = view
	if f.base != nil {
		f.store()
	}
}

// Unreadable says that the source has something that could not even be read.
func (f *Follower) Unreadable(err error) {
	f.offering.Lock()
	defer f.offering.Unlock()
	f.refuse("", err)
}

// refuse notes and tells why the newest is not in force, unless that has been
// told. The caller holds offering.
func (f *Follower) refuse(content string, err error) {
	f.mu.Lock()
	told := f.status.Fault != nil && f.status.Refused == content && f.status.Fault.Error() == err.Error()
	if f.status.Fault == nil {
		f.status.Since = time.Now().UTC()
	}
	f.status.Fault, f.status.Refused = err, content
	if !told {
		f.status.Refusals++
	}
	f.mu.Unlock()
	if !told {
		f.tell()
	}
}

// mend notes and tells that what is in force is the newest again. The caller
// holds offering.
func (f *Follower) mend() {
	f.verdict, f.built, f.builtOf = nil, nil, ""
	f.mu.Lock()
	well := f.status.Fault == nil
	f.status.Fault, f.status.Since, f.status.Refused = nil, time.Time{}, ""
	f.mu.Unlock()
	if !well {
		f.tell()
	}
}

// tell tells the status. The caller holds offering, so that what happened
// later is told later.
func (f *Follower) tell() {
	if f.cfg.Changed != nil {
		f.cfg.Changed(f.Status())
	}
}

// Heard says that at t the source had nothing newer than what it has offered.
// A refused offer counts: the source was reached, and the fault says the rest.
func (f *Follower) Heard(t time.Time) { f.cfg.Holder.Heard(t) }

// Status returns how things stand.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.HeardAt = f.cfg.Holder.HeardAt()
	return s
}
