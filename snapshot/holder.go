package snapshot

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Holder holds the current snapshot. The zero Holder holds none: everything
// is denied until the first Store. It is safe for concurrent use, and must
// not be copied.
type Holder struct {
	current atomic.Pointer[Snapshot]
	heard   atomic.Pointer[time.Time] // nil: never

	mu      sync.Mutex
	changed chan struct{} // guarded by mu; closed at the next Store; nil: nobody waits
}

// Load returns the current snapshot, or nil when none has arrived yet.
func (h *Holder) Load() *Snapshot { return h.current.Load() }

// Store makes s the current snapshot. A nil s changes nothing: a holder never
// forgets the last good world.
func (h *Holder) Store(s *Snapshot) {
	if s == nil {
		return
	}
	h.current.Store(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// Changed returns a channel that is closed when the next snapshot is stored
// after the call. Call it before Load: then no change is missed.
func (h *Holder) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// Heard notes that at t the source confirmed that it has nothing newer than
// what it has given. An earlier t than before changes nothing. A t as time.Now
// gives it is earlier or later whatever was done to the machine's clock.
func (h *Holder) Heard(t time.Time) {
	for {
		last := h.heard.Load()
		if last != nil && !t.After(*last) || h.heard.CompareAndSwap(last, &t) {
			return
		}
	}
}

// HeardAt returns when the source last confirmed that, as Heard was given it; the
// zero time: never.
func (h *Holder) HeardAt() time.Time {
	if t := h.heard.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// Await returns the current snapshot once it covers a revision, which is then
// true, or when ctx ends.
func (h *Holder) Await(ctx context.Context, demand Revision) (_ *Snapshot, covered bool) {
	for {
		changed := h.Changed()
		s := h.Load()
		if s != nil && s.covers(demand) {
			return s, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s, false
		}
	}
}
