package entities

import (
	"time"

	"github.com/cedar-policy/cedar-go/types"
)

// Limits of a bundle's entities. What exceeds one is a fault, never cut short.
const (
	MaxFile      = 64 << 20 // bytes of one file
	MaxDepth     = 64       // nested arrays and objects, the file's own array being the first
	MaxID        = 1024     // bytes of an id, an entity type, the name of an attribute or tag
	MaxElements  = 1024     // elements of a set, and parents of one entity
	MaxAncestors = 1024     // ancestors of one entity, whatever their windows
	MaxFaults    = 100      // faults that one call reports
)

// Window says when something is valid: From <= now < Until. A zero bound is
// open, so the zero Window is always valid.
type Window struct {
	From, Until time.Time
}

// Contains reports whether the window is valid at now. At the zero time only
// a window without bounds is: a caller that forgot its clock must not bring
// what has expired back to life.
func (w Window) Contains(now time.Time) bool {
	if w.IsZero() {
		return true
	}
	if now.IsZero() {
		return false
	}
	return (w.From.IsZero() || !now.Before(w.From)) && (w.Until.IsZero() || now.Before(w.Until))
}

// IsZero reports whether the window has no bound.
func (w Window) IsZero() bool { return w.From.IsZero() && w.Until.IsZero() }

// appendBounds appends the bounds that w has.
func (w Window) appendBounds(to []time.Time) []time.Time {
	for _, t := range [...]time.Time{w.From, w.Until} {
		if !t.IsZero() {
			to = append(to, t)
		}
	}
	return to
}

// Parent is one membership: the entity that names it is in UID, while Window
// is valid.
type Parent struct {
	UID    types.EntityUID
	Window Window
}

// Held is one entity as a file of the bundle states it, and where.
type Held struct {
	UID        types.EntityUID
	Attributes types.Record
	Tags       types.Record
	Parents    []Parent // direct ones, in the file's order; shared between entities: not to be changed
	Window     Window
	File       string // relative to the bundle, with forward slashes
	Line       int    // from 1
	Column     int    // from 1, in characters
}
