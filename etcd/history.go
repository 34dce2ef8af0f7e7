package etcd

import (
	"errors"
	"iter"
	"slices"

	"github.com/writ-pdp/writ/revocation"
)

// history is the revocation log and what of it may be shown: everything but
// lifts that were added while a later generation stood than the one in force.
// It is copied by assignment.
type history struct {
	all   *revocation.View // the whole log; never nil
	shown *revocation.View // what may be shown; never nil, and all where nothing is held
	held  []heldLift       // in order; never written to, only appended to
	// generation is in force: lifts of up to it are shown.
	generation uint64
}

// heldLift is a lift that waits for a generation.
type heldLift struct{ sequence, generation uint64 }

func newHistory(generation uint64) *history {
	empty := &revocation.View{}
	return &history{all: empty, shown: empty, generation: generation}
}

// errEntry is what is wrong with a log that no call of this package wrote. The
// entries' own text is not repeated.
var errEntry = errors.New("an entry says what no entry may say")

// add takes a batch at the end of the log.
func (h *history) add(b parsedBatch) error {
	all, err := h.all.With(b.entries)
	if err != nil {
		return errEntry
	}
	pass := b.entries
	if b.generation > h.generation {
		pass = nil
		for _, e := range b.entries {
			if e.Lift {
				h.held = append(slices.Clip(h.held), heldLift{e.Sequence, b.generation})
			} else {
				pass = append(pass, e)
			}
		}
	}
	h.all = all
	if len(h.held) == 0 {
		h.shown = all
		return nil
	}
	h.shown, err = h.shown.With(pass)
	return err
}

// at is what is shown once a generation is in force.
func (h *history) at(generation uint64) (*history, error) {
	out := &history{all: h.all, shown: h.shown, generation: generation}
	out.held = slices.DeleteFunc(slices.Clone(h.held), func(l heldLift) bool { return l.generation <= generation })
	switch len(out.held) {
	case len(h.held):
		return out, nil
	case 0:
		out.shown, out.held = h.all, nil
		return out, nil
	}
	still := make(map[uint64]bool, len(out.held))
	for _, l := range out.held {
		still[l.sequence] = true
	}
	var entries []revocation.Entry
	for e := range h.all.Entries(0) {
		if !still[e.Sequence] {
			entries = append(entries, e)
		}
	}
	var err error
	out.shown, err = revocation.New(entries)
	return out, err
}

// shows reports whether the entries up to a sequence are all shown.
func (h *history) shows(sequence uint64) bool {
	return h.all.Sequence() >= sequence && (len(h.held) == 0 || h.held[0].sequence > sequence)
}

// begins reports whether log begins with the entries of h.
func (h *history) begins(log *revocation.View) bool {
	next, stop := iter.Pull(log.Entries(0))
	defer stop()
	for e := range h.all.Entries(0) {
		if other, ok := next(); !ok || other != e {
			return false
		}
	}
	return true
}
