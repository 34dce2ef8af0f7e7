package server

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Limits says how much the server takes on. A field that is zero has its
// default; a negative one is an error. Where a limit is per caller, everyone
// without a credential (health is open) is one caller.
type Limits struct {
	Message     int // bytes of one request message; 512 KiB
	HeaderList  int // bytes of one call's header list (RFC 9113, section 6.5.2); 16 KiB
	Streams     int // calls at once on one connection; 128
	Connections int // connections at once on each listener; more wait to be accepted; 1024

	Rate     int // calls a second of one caller, on average; 5000
	Burst    int // calls of one caller at one instant; 1000
	InFlight int // calls of one caller at once, on all its connections; 256
	Watches  int // streams that live on, of one caller; 32

	// Apart is how far apart the calls of one caller start, while another calls,
	// too; 0.8 ms, divided by the number of processors.
	Apart time.Duration

	Deadline time.Duration // the longest that one call may take, whatever its client says; 5 s
	Drain    time.Duration // how long calls may go on once the server stops; 10 s

	ConnectionIdle time.Duration // a connection without calls is closed after; 15 min
	ConnectionAge  time.Duration // any connection is closed, once its calls have ended, after about; 30 min
	PingInterval   time.Duration // a client may send keepalive pings this often, not more often; 10 s
}

func (l Limits) withDefaults() (Limits, error) {
	var faults []error
	number := func(name string, p *int, standard int) {
		if *p < 0 {
			faults = append(faults, fmt.Errorf("server: limit %s is negative: give a number above 0, or 0 for the default of %d", name, standard))
		} else if *p == 0 {
			*p = standard
		}
	}
	duration := func(name string, p *time.Duration, standard time.Duration) {
		if *p < 0 {
			faults = append(faults, fmt.Errorf("server: limit %s is negative: give a duration above 0, or 0 for the default of %v", name, standard))
		} else if *p == 0 {
			*p = standard
		}
	}
	number("Message", &l.Message, 512<<10)
	number("HeaderList", &l.HeaderList, 16<<10)
	number("Streams", &l.Streams, 128)
	number("Connections", &l.Connections, 1024)
	number("Rate", &l.Rate, 5000)
	number("Burst", &l.Burst, 1000)
	number("InFlight", &l.InFlight, 256)
	number("Watches", &l.Watches, 32)
	duration("Apart", &l.Apart, 2*callWork/time.Duration(runtime.GOMAXPROCS(0)))
	duration("Deadline", &l.Deadline, 5*time.Second)
	duration("Drain", &l.Drain, 10*time.Second)
	duration("ConnectionIdle", &l.ConnectionIdle, 15*time.Minute)
	duration("ConnectionAge", &l.ConnectionAge, 30*time.Minute)
	duration("PingInterval", &l.PingInterval, 10*time.Second)
	return l, errors.Join(faults...)
}

// While several callers call, the calls of each start apart: at the pace that
// takes half of what the machine can do, if all of them were of the dearest. A
// burst of calls that all started at once would keep another's call waiting until
// the last of them has run. Whoever is alone never waits.
const (
	callWork = 400 * time.Microsecond // of a processor: what a write that is allowed takes over HTTP, about
	callSize = 1 << 10                // bytes of a message; a larger one counts as so many more calls
	atOnce   = time.Millisecond       // worth of calls start at once all the same
	company  = time.Second            // how long another caller counts as there after a call

	// longestWait is how long a call waits for its start: who has more to ask than
	// that is told so, instead of being answered late.
	longestWait = 250 * time.Millisecond
)

// quotas holds one quota a caller. The callers are those of the bundles that
// were in force since the start, so there are few.
type quotas struct {
	limits Limits

	mu       sync.Mutex
	byCaller map[string]*quota // guarded by mu; "" is everyone without a credential
	last     *quota            // guarded by mu: of the caller, with a credential, who called last
}

func newQuotas(l Limits) *quotas {
	return &quotas{limits: l, byCaller: make(map[string]*quota)}
}

// of returns the quota of a caller, who calls now.
func (q *quotas) of(caller string, now time.Time) *quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	have := q.byCaller[caller]
	if have == nil {
		have = &quota{limits: &q.limits, tokens: float64(q.limits.Burst)}
		q.byCaller[caller] = have
	}
	if caller == "" || q.last == have {
		return have
	}
	if q.last != nil {
		until := now.Add(company).UnixNano()
		q.last.shared.Store(until)
		have.shared.Store(until)
	}
	q.last = have
	return have
}

// quota is what one caller may still do: a token bucket for its rate, and
// counts of what is in flight.
type quota struct {
	limits *Limits
	shared atomic.Int64 // until when another caller counts as there; in Unix nanoseconds

	mu      sync.Mutex
	tokens  float64   // guarded by mu: calls that may start now
	at      time.Time // guarded by mu: when tokens was right
	calls   int       // guarded by mu: in flight
	watches int       // guarded by mu: streams that live on
	start   time.Time // guarded by mu: of the next call, if they came evenly
}

var errRateLimited = refuse(ReasonRateLimited, "too many calls a second by this caller: wait, then try again")

// begin gives n more of the caller's calls their start, and returns how long to
// wait for it: calls that come all at once start one after the other. It refuses
// those whose start is too far off, and gives them none.
func (q *quota) begin(n int, now time.Time) (time.Duration, error) {
	if now.UnixNano() >= q.shared.Load() {
		return 0, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if earliest := now.Add(-atOnce); q.start.Before(earliest) {
		q.start = earliest
	}
	wait := q.start.Sub(now)
	if wait > longestWait {
		return 0, errRateLimited
	}
	q.start = q.start.Add(time.Duration(n) * q.limits.Apart)
	return wait, nil
}

// waive gives back the start of n calls that have ended before it.
func (q *quota) waive(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.start = q.start.Add(-time.Duration(n) * q.limits.Apart)
}

// enter takes a call from the rate and counts it as in flight, or says why not.
// Who enters must leave.
func (q *quota) enter(now time.Time, r right) *refusal {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fill(now); q.tokens < 1 {
		return errRateLimited
	}
	count, limit := &q.calls, q.limits.InFlight
	if r.long {
		count, limit = &q.watches, q.limits.Watches
	}
	if *count >= limit {
		return refuse(ReasonTooManyInFlight, "too many calls at once by this caller: wait for one to end")
	}
	q.tokens -= float64(max(r.cost, 1))
	*count++
	return nil
}

// fill adds what time has brought. q.mu is held.
func (q *quota) fill(now time.Time) {
	if passed := now.Sub(q.at).Seconds(); !q.at.IsZero() && passed > 0 {
		q.tokens = min(q.tokens+passed*float64(q.limits.Rate), float64(q.limits.Burst))
	}
	q.at = now
}

// charge takes n calls from the rate, below nothing if need be: later calls
// wait for it.
func (q *quota) charge(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tokens -= float64(n)
}

// afford is charge, unless there is a debt already: then it takes nothing.
func (q *quota) afford(n int, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fill(now); q.tokens < 0 {
		return false
	}
	q.tokens -= float64(n)
	return true
}

func (q *quota) leave(long bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if long {
		q.watches--
	} else {
		q.calls--
	}
}
