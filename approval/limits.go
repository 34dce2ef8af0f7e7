package approval

import (
	"cmp"
	"errors"
	"time"
)

// Limits say how long a store keeps reviews, and how many. Zero fields have
// their defaults.
type Limits struct {
	// Life is how long people can answer a review. Default 24 h.
	Life time.Duration
	// Keep is how much longer a review can be looked at, and a rejected one stays
	// rejected. Default 24 h.
	Keep time.Duration
	// MaxReviews and MaxBytes are how many reviews are kept, and in how many
	// bytes. Default 10,000 and 64 MiB. Whatever is over and was not rejected
	// makes room first; then nothing more is opened. A caller who has as much as
	// is left for all others opens nothing more before: see [Limits.Room].
	MaxReviews int
	MaxBytes   int
}

// Defaults of [Limits].
const (
	DefaultLife       = 24 * time.Hour
	DefaultKeep       = 24 * time.Hour
	DefaultMaxReviews = 10_000
	DefaultMaxBytes   = 64 << 20
)

// Filled returns l with its defaults.
func (l Limits) Filled() Limits {
	l.Life = cmp.Or(l.Life, DefaultLife)
	l.Keep = cmp.Or(l.Keep, DefaultKeep)
	l.MaxReviews = cmp.Or(l.MaxReviews, DefaultMaxReviews)
	l.MaxBytes = cmp.Or(l.MaxBytes, DefaultMaxBytes)
	return l
}

// Check says what is wrong with l, or nothing.
func (l Limits) Check() error {
	if l.Life < 0 || l.Keep < 0 || l.MaxReviews < 0 || l.MaxBytes < 0 {
		return errors.New("approval: a limit of reviews is less than nothing")
	}
	return nil
}

// Use is how many reviews are kept, and in how many bytes.
type Use struct{ Reviews, Bytes int }

func (u Use) plus(reviews, bytes int) Use {
	return Use{max(0, u.Reviews+reviews), max(0, u.Bytes+bytes)}
}

// Tally counts the reviews of a store: all of them, and those that each caller
// has proposed. Its zero value counts none.
type Tally struct {
	All Use
	Of  map[string]Use // by [writ.Caller.Name]; of those who have any
}

// Add counts one more review of a caller, of so many bytes.
func (t *Tally) Add(caller string, bytes int) { t.count(caller, 1, bytes) }

// Remove counts one less.
func (t *Tally) Remove(caller string, bytes int) { t.count(caller, -1, -bytes) }

func (t *Tally) count(caller string, reviews, bytes int) {
	t.All = t.All.plus(reviews, bytes)
	if t.Of == nil {
		t.Of = map[string]Use{}
	}
	if t.Of[caller] = t.Of[caller].plus(reviews, bytes); t.Of[caller] == (Use{}) {
		delete(t.Of, caller)
	}
}

// Room reports whether a caller can have one more review of so many bytes,
// beside those of a tally: it fits, and the caller does not have as many yet as
// there are places left, nor as many bytes. So whoever proposes as much as they
// can is left with half of the store, two of them with a third each, and there
// is room for anybody else.
func (l Limits) Room(t *Tally, caller string, bytes int) bool {
	own, places, left := t.Of[caller], l.MaxReviews-t.All.Reviews, l.MaxBytes-t.All.Bytes
	return own.Reviews < places && own.Bytes < left && bytes <= left
}
