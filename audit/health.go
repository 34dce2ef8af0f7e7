package audit

import (
	"fmt"
	"sync"
	"time"
)

// Condition says how the log and its disk are. The zero Condition is none: it
// is not [OK].
type Condition string

// Conditions, the least bad first.
const (
	OK       Condition = "ok"        // everything is written as it should
	Slow     Condition = "slow"      // an operation of the disk took more than 250 ms, and no fsync has been quicker since
	Full     Condition = "full"      // there is no space, or the quota is used up
	ReadOnly Condition = "read_only" // the file system takes no writes
	Failed   Condition = "failed"    // any other error of the disk, or somebody else's hands on the log's files
	Hanging  Condition = "hanging"   // an operation of the disk has not returned for more than a second
)

// severity orders conditions. An unknown one is the worst.
func (c Condition) severity() int {
	switch c {
	case OK:
		return 0
	case Slow:
		return 1
	case Full:
		return 2
	case ReadOnly:
		return 3
	case Failed:
		return 4
	case Hanging:
		return 5
	default:
		return 6
	}
}

// Recording reports whether durable records are confirmed in this condition,
// be it late. In every other they wait, as long as their callers allow.
func (c Condition) Recording() bool { return c == OK || c == Slow }

// State is how the log is.
type State struct {
	Condition Condition
	Since     time.Time // when this condition began
	Err       error     // what is wrong, where, and what to do; nil when Condition is OK
}

// How long an operation of the disk takes before it is called so.
const (
	slow = 250 * time.Millisecond
	hang = time.Second
)

// The log has two goroutines that work with the disk. What is wrong with each
// has a place of its own, so that one does not say that all is well for both.
const (
	ofWriter = iota
	ofKeeper
	goroutines
)

// health puts together how the log is, and tells it.
type health struct {
	changed func(State) // may be nil

	mu      sync.Mutex        // guards the fields below
	faults  [goroutines]State // errors; Condition "" is none
	paces   [goroutines]State // Slow or Hanging; Condition "" is none
	current State             // the worst of them
	telling bool              // a goroutine calls changed
	tellers sync.WaitGroup    // that goroutine
}

func newHealth(changed func(State)) *health {
	return &health{changed: changed, current: State{Condition: OK, Since: time.Now()}}
}

func (h *health) state() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// fault notes that a goroutine's work fails, or with "" that it no longer does.
func (h *health) fault(of int, c Condition, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(&h.faults[of], c, time.Now(), err)
}

// pace notes that a goroutine waits for its disk since then, or with "" that it
// no longer does.
func (h *health) pace(of int, c Condition, since time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(&h.paces[of], c, since, err)
}

func (h *health) set(s *State, c Condition, since time.Time, err error) {
	if s.Condition == c {
		since = s.Since
	}
	*s = State{c, since, err}
	worst := State{Condition: OK}
	for _, list := range [][goroutines]State{h.faults, h.paces} {
		for _, s := range list {
			if s.Condition != "" && s.Condition.severity() > worst.Condition.severity() {
				worst = s
			}
		}
	}
	if worst.Condition == h.current.Condition {
		h.current.Err = worst.Err
		return
	}
	if worst.Condition == OK {
		worst.Since = time.Now()
	}
	h.current = worst
	if h.changed != nil && !h.telling {
		h.telling = true
		h.tellers.Go(h.tell)
	}
}

// tell tells changes until there are none. Whoever is told may take long: only
// the newest state waits for it.
func (h *health) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var told State
	for told.Condition != h.current.Condition || !told.Since.Equal(h.current.Since) {
		told = h.current
		h.mu.Unlock()
		h.changed(told)
		h.mu.Lock()
	}
	h.telling = false
}

// close waits until all has been told. There must be no changes any more.
func (h *health) close() { h.tellers.Wait() }

// watch times the operations of one goroutine on the disk, so that others can
// see that it hangs.
type watch struct {
	health *health
	of     int
	timer  *time.Timer

	mu    sync.Mutex // guards the fields below
	what  string     // the operation that is running; empty: none
	name  string     // of the file
	began time.Time
	late  bool // health has a pace of this goroutine
}

func newWatch(h *health, of int) *watch {
	w := &watch{health: h, of: of}
	w.timer = time.AfterFunc(time.Hour, w.check)
	w.timer.Stop()
	return w
}

// begin says that an operation on a file starts.
func (w *watch) begin(what, name string) {
	w.mu.Lock()
	w.what, w.name, w.began = what, name, time.Now()
	w.mu.Unlock()
	w.timer.Reset(hang)
}

// check runs when an operation should long have returned.
func (w *watch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.what == "" || time.Since(w.began) < hang {
		return // it has returned meanwhile
	}
	w.late = true
	w.health.pace(w.of, Hanging, w.began, fmt.Errorf("audit: %s %s does not return: look after its disk; recording goes on by itself when it does", w.what, w.name))
}

// end says that the operation has returned. Only an fsync that was quick shows
// that the disk is quick again.
func (w *watch) end(fsync bool) {
	w.timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	what, took := w.what, time.Since(w.began)
	w.what = ""
	switch {
	case took > slow:
		w.late = true
		w.health.pace(w.of, Slow, w.began, fmt.Errorf("audit: %s %s took %v: look after its disk; every write that is allowed waits for it", what, w.name, took.Round(time.Millisecond)))
	case w.late && fsync:
		w.late = false
		w.health.pace(w.of, "", time.Time{}, nil)
	}
}

// isLate reports whether the goroutine's last fsync was slow.
func (w *watch) isLate() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late
}

// The back-off between attempts on a disk that fails.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// backoff is the pause before the next attempt. The zero backoff begins anew.
type backoff struct{ pause time.Duration }

func (b *backoff) next() time.Duration {
	b.pause = min(max(firstPause, 2*b.pause), lastPause)
	return b.pause
}
