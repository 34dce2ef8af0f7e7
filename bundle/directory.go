package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// defaultPoll is how often a directory is looked at where nothing is said.
	defaultPoll = time.Second
	// defaultMaxAge is how old a kept bundle may be where nothing is said.
	defaultMaxAge = 24 * time.Hour
	// A look follows events after a pause of quiet, or after hurried at most.
	quiet   = 50 * time.Millisecond
	hurried = 400 * time.Millisecond
)

// DirectoryConfig says which directory is followed, and how.
type DirectoryConfig struct {
	// Dir is the bundle's directory. It is followed by its path, whatever is
	// put there. Required, but for Files.
	Dir string
	// Files are a bundle that never changes, in the place of Dir.
	Files []File
	// State is a directory, made where it is missing, for what must outlive
	// the process. No two processes may use one at a time. Required.
	State string
	// Poll is how often Dir is looked at, events or not; 0: 1 s.
	Poll time.Duration
	// Persist keeps the last good bundle in State, for a start while that in
	// Dir is broken. Without it none is kept, and an older one is removed.
	Persist bool
	// MaxAge is how long ago Dir may have held the kept bundle last; 0: 24 h.
	MaxAge time.Duration
	// Log receives what hinders, but harms nobody; nil: nobody.
	Log *slog.Logger
}

// Directory is a bundle's directory as a source, for one server.
//
// # What it promises
//
// Every Poll it looks at names, kinds, sizes, inodes and times, and reads
// everything where any of these has changed; events of the file system only
// make it look sooner. So a change that a writer doesn't hide is offered at
// most one Poll after it was made, plus the time that reading and building
// take, plus a tenth of a second in which the content must stay as it is. On
// Linux nobody can hide a change, because nobody sets an inode's change time;
// elsewhere a writer can, who keeps the size and sets the time back.
//
// Whatever the times say, everything is read again regularly: at each Poll
// where reading takes less than a twentieth of it, as it does for bundles of a
// few megabytes, and otherwise so seldom that it takes a twentieth of the
// time, but once a minute. Looking likewise takes a tenth of the time at most,
// which 10,000 files may need each second.
//
// Files that are published whole, by swapping the link ..data as Kubernetes
// does, are offered at once. Otherwise content is offered once nothing has
// been written for two seconds, or once it was read twice, a tenth of a second
// apart, and hasn't changed; two seconds apart where a file that held
// something has become empty. A writer that pauses longer in the middle of a
// file can be seen half done: write elsewhere and rename.
type Directory struct {
	cfg   DirectoryConfig
	dir   string // absolute
	log   *slog.Logger
	state *state
	watch *watch
	// restless is the constant of that name.
	restless time.Duration

	// The rest is of whoever runs Load, and then of Run's goroutine.

	accepted   string          // the content in force; empty: none yet
	generation uint64          // its number
	sizes      map[string]bool // of the accepted files: whether they hold something
	kept       string          // the content that the state keeps, which is in force; empty: it keeps none, or nobody knows
	unkept     bool            // it could not be kept, and that has been said

	stamp   [32]byte  // of what was read last
	stampAt time.Time // when it was first seen
	trusted bool      // stamp tells of every later change, and what was read needs no more thought
	agreed  bool      // what was read is what is in force
	readAt  time.Time // when everything was read last
	reading time.Duration
	looking time.Duration

	candidate string    // what was seen last and may still be being written; empty: nothing
	since     time.Time // when it was first seen
	unrest    time.Time // since when nothing has settled; zero: it has
}

// OpenDirectory opens the state of a directory, which need not exist.
func OpenDirectory(cfg DirectoryConfig) (*Directory, error) {
	if (cfg.Dir == "") == (cfg.Files == nil) || cfg.State == "" {
		return nil, errors.New("bundle: State and one of Dir and Files are required")
	}
	if cfg.Poll < 0 || cfg.MaxAge < 0 {
		return nil, errors.New("bundle: Poll and MaxAge are not negative")
	}
	cfg.Poll, cfg.MaxAge = cmp.Or(cfg.Poll, defaultPoll), cmp.Or(cfg.MaxAge, defaultMaxAge)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	dir := ""
	if cfg.Dir != "" {
		var err error
		if dir, err = filepath.Abs(cfg.Dir); err != nil {
			return nil, fmt.Errorf("bundle: %w", err)
		}
	}
	s, err := openState(cfg.State)
	if err != nil {
		return nil, fmt.Errorf("bundle: the state of the bundle's source: %w", err)
	}
	return &Directory{cfg: cfg, dir: dir, log: cfg.Log, state: s, restless: restless, watch: &watch{dir: dir, log: cfg.Log, open: fsnotify.NewWatcher}}, nil
}

// Source names the source: the same as long as the state is there.
func (d *Directory) Source() string { return d.state.Source }

// LoadError says why nothing is in force.
type LoadError struct {
	Fault error // of the directory: a [writ.Faults] where the places are known
	Kept  error // why the bundle that was kept could not take its place; nil: none is kept
}

// Error returns both, one after the other.
func (e *LoadError) Error() string {
	if e.Kept == nil {
		return e.Fault.Error()
	}
	return e.Fault.Error() + "\n" + e.Kept.Error()
}

// Unwrap returns both.
func (e *LoadError) Unwrap() []error { return []error{e.Fault, e.Kept} }

// Load offers what the directory holds now, before Run. If that cannot be in
// force, the bundle that was kept takes its place, where there is one that is
// not too old; the follower's status has the fault then. Otherwise nothing is
// in force, and the error is a [LoadError], or the context's.
func (d *Directory) Load(ctx context.Context, f *Follower) error {
	if d.cfg.Files != nil {
		if err := d.offer(f, d.cfg.Files, contentOf(d.cfg.Files)); err != nil {
			return &LoadError{Fault: err}
		}
		return nil
	}
	seen, err := d.settled(ctx, f)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !d.cfg.Persist:
		return &LoadError{Fault: err}
	}
	kept, why := d.state.kept(d.dir, d.cfg.MaxAge)
	if why != nil {
		return &LoadError{err, fmt.Errorf("nor is there a kept bundle to start with: %w", why)}
	}
	d.kept = contentOf(kept)
	if why := d.offer(f, kept, d.kept); why != nil {
		return &LoadError{err, fmt.Errorf("nor could the kept bundle be loaded: %w", why)}
	}
	d.log.Warn("started with the bundle that was kept, because the directory's has faults", "revision", f.Status().Revision.String())
	if seen == nil {
		f.Unreadable(err)
	} else {
		_ = d.offer(f, seen, contentOf(seen)) // refused again, and said so
	}
	return nil
}

// settled looks until there is something to offer, and offers it. The files
// are nil where the error is that they could not be read.
func (d *Directory) settled(ctx context.Context, f *Follower) ([]File, error) {
	for {
		o := d.step(f, true)
		if !o.pending {
			return o.files, o.err
		}
		select {
		case <-time.After(o.wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Run follows the directory until ctx ends, which is no error.
func (d *Directory) Run(ctx context.Context, f *Follower) error {
	if d.cfg.Files != nil {
		return d.stay(ctx, f)
	}
	d.watch.running = true
	defer d.watch.close()
	var hinted time.Time // the first event since the last look; zero: none
	var rested time.Time // from when on a look takes no more than half of the time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-d.watch.events():
			if !ok {
				d.watch.lost(errors.New("the watcher has ended"))
			} else if !d.watch.concerns(e) {
				continue
			}
			hinted = hint(timer, hinted, rested, quiet)
		case err, ok := <-d.watch.errors():
			if !ok {
				err = errors.New("the watcher has ended")
			}
			if !ok || !errors.Is(err, fsnotify.ErrEventOverflow) {
				d.watch.lost(err)
			}
			hinted = hint(timer, hinted, rested, 0) // what was lost may be anything
		case <-timer.C:
			begun := time.Now()
			o := d.step(f, !hinted.IsZero())
			hinted, rested = time.Time{}, time.Now().Add(time.Since(begun))
			timer.Reset(o.wait)
		}
	}
}

// stay is Run where nothing ever changes.
func (d *Directory) stay(ctx context.Context, f *Follower) error {
	tick := time.NewTicker(d.cfg.Poll)
	defer tick.Stop()
	for {
		f.Heard(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// hint sets the timer for a look after an event, and returns when the first
// event was that it is for.
func hint(timer *time.Timer, first, rested time.Time, pause time.Duration) time.Time {
	now := time.Now()
	if first.IsZero() {
		first = now
	}
	timer.Reset(max(0, rested.Sub(now), min(pause, first.Add(hurried).Sub(now))))
	return first
}
