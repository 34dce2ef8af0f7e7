package token

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/writ-pdp/writ/snapshot"
)

// How often keys are fetched.
const (
	// refreshAfter is how old keys become before they are fetched again, while
	// those that are there go on serving.
	refreshAfter = 5 * time.Minute
	// idleAfter is how old they become before a call waits for the fetch: where
	// no token comes for long, nothing is fetched.
	idleAfter = 2 * refreshAfter
	// fetchEvery is how often one issuer is asked at most, whatever tokens
	// arrive.
	fetchEvery = 10 * time.Second
	// fetchWait is how long a call waits for keys that are being fetched.
	fetchWait = time.Second
	// DefaultMaxStale is how long keys serve on while fetching fails.
	DefaultMaxStale = time.Hour
)

// source is the keys of one URL. Its zero value has none yet.
type source struct {
	url     string
	private bool // private addresses are allowed

	mu       sync.Mutex    // guards the rest
	keys     *Keys         // nil: none were ever fetched
	fetched  time.Time     // when keys were
	asked    time.Time     // when a fetch last began; zero: never
	fetching chan struct{} // closed when the fetch under way ends; nil: none is
	failed   error         // of the last fetch; nil: it went well
	failing  time.Time     // since when fetches fail, where the last one did
}

// current returns the keys in force at now, and starts a fetch where they are
// old.
func (s *source) current(v *Verifier, now time.Time, maxStale time.Duration) *Keys {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := now.Sub(s.fetched)
	if s.keys == nil || age >= refreshAfter {
		s.start(v, now)
	}
	if s.keys == nil || age >= maxStale {
		return nil
	}
	return s.keys
}

// idle reports whether nobody has asked for the keys in so long that what they
// were then is too old to use unseen. While fetching fails they are not waited
// for.
func (s *source) idle(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys != nil && s.failed == nil && now.Sub(s.fetched) >= idleAfter
}

// renewed waits for a fetch: the one under way or, if the issuer was not asked
// just now, a new one. It returns the keys in force then.
func (s *source) renewed(ctx context.Context, v *Verifier, now time.Time, maxStale time.Duration) *Keys {
	s.mu.Lock()
	s.start(v, now)
	fetching := s.fetching
	s.mu.Unlock()
	if fetching != nil {
		limit := time.NewTimer(v.wait)
		defer limit.Stop()
		select {
		case <-fetching:
		case <-limit.C:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || now.Sub(s.fetched) >= maxStale {
		return nil
	}
	return s.keys
}

// start begins a fetch unless one is under way or was just now. The caller
// holds mu.
func (s *source) start(v *Verifier, now time.Time) {
	// A call that began before the fetch has an earlier now.
	if s.fetching != nil || !s.asked.IsZero() && now.Sub(s.asked) < fetchEvery {
		return
	}
	s.asked = now
	done := make(chan struct{})
	if !v.begin(func(ctx context.Context) {
		defer close(done)
		keys, err := v.fetcher.fetch(ctx, s.url, s.private)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fetching = nil
		switch {
		case err != nil && s.failed == nil:
			s.failing = now
			v.log.LogAttrs(ctx, slog.LevelWarn, "an issuer's keys can't be fetched", slog.String("url", s.url), slog.String("error", err.Error()))
		case err == nil && s.failed != nil:
			v.log.LogAttrs(ctx, slog.LevelInfo, "an issuer's keys can be fetched again", slog.String("url", s.url))
		}
		s.failed = err
		if err == nil {
			s.keys, s.fetched = keys, now
		}
	}) {
		return
	}
	s.fetching = done
}

// place is whose keys a source holds, and from where.
type place struct {
	issuer, url string
	private     bool
}

// static is a key set of the bundle, as an issuer's entry has it.
type static struct {
	issuer *snapshot.Issuer
	keys   *Keys // nil: none can be read
}

// Failure is an issuer whose keys can't be fetched.
type Failure struct {
	Issuer string
	Since  time.Time // when the first fetch in a row began that failed
	Err    error     // why the last one did
}

// Failures lists the issuers of a world whose keys could not be fetched when
// they were asked for last, in the order of their names. Keys that were fetched
// before may serve on all the same.
func (v *Verifier) Failures(world *snapshot.Snapshot) []Failure {
	if v == nil || world == nil {
		return nil
	}
	var out []Failure
	for _, name := range slices.Sorted(maps.Keys(world.Issuers)) {
		i := world.Issuers[name]
		v.mu.Lock()
		s := v.sources[place{i.Name, i.JWKS, i.AllowPrivate}]
		v.mu.Unlock()
		if s == nil || i.JWKS == "" {
			continue
		}
		s.mu.Lock()
		if s.failed != nil {
			out = append(out, Failure{name, s.failing, s.failed})
		}
		s.mu.Unlock()
	}
	return out
}

// maxStale is how long an issuer's keys serve on.
func maxStale(i *snapshot.Issuer) time.Duration {
	if i.MaxStale > 0 {
		return i.MaxStale
	}
	return DefaultMaxStale
}
