package forward

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/tree"
)

// Config says what is sent where.
type Config struct {
	// Dir is the directory of the log, required: proofs come from its tiles.
	Dir string
	// Verifier is the log's verifier key, required.
	Verifier note.Verifier
	// Sinks are the places, at least one.
	Sinks []Sink
	// Every is the least time between two checkpoints to one place; 0 is 1 s.
	Every time.Duration
	// Timeout bounds one sending; 0 is 10 s.
	Timeout time.Duration
	// MaxWait bounds the wait after failures, which doubles from Every on; 0 is
	// 5 min.
	MaxWait time.Duration
	// Cosigned is told of each checkpoint that got another cosignature, with all
	// those that it has by now. It may be nil. Calls come one at a time.
	Cosigned func(signed []byte, s tree.Signed)
	// Changed is told of each place that has failed or is well again, or has a
	// new checkpoint. It may be nil. Calls come one at a time.
	Changed func(Status)
}

// Status is how it stands with one place.
type Status struct {
	Sink string    // its name
	Size int64     // of the newest checkpoint that the place is known to have
	Sent time.Time // when it got that; zero if it has none
	// Err is why the last sending failed, and Since when the first failed after
	// the last that didn't. ErrFork and ErrSetBack, wrapped, are alarms.
	Err   error
	Since time.Time
}

// Forwarder sends the newest checkpoint to each place. It is safe for
// concurrent use.
type Forwarder struct {
	cfg   Config
	wakes []chan struct{} // for each sink: holds a token if there is something new

	mu     sync.Mutex // guards what follows
	newest []byte
	status []Status
	kept   []cosigned // newest last

	told sync.Mutex // held while Cosigned or Changed is called
}

// cosigned is a checkpoint with the cosignatures that it has by now.
type cosigned struct {
	head   tree.Checkpoint
	signed []byte
}

// maxKept bounds the checkpoints that wait for more cosignatures.
const maxKept = 8

// New returns a forwarder. It sends nothing until it runs.
func New(cfg Config) (*Forwarder, error) {
	switch {
	case cfg.Dir == "":
		return nil, errors.New("forward: the directory of the log is missing")
	case cfg.Verifier == nil:
		return nil, errors.New("forward: the log's verifier key is missing")
	case len(cfg.Sinks) == 0:
		return nil, errors.New("forward: there is no place to send checkpoints to")
	case cfg.Every < 0 || cfg.Timeout < 0 || cfg.MaxWait < 0:
		return nil, errors.New("forward: a time must not be negative")
	}
	if cfg.Every == 0 {
		cfg.Every = time.Second
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = 5 * time.Minute
	}
	f := &Forwarder{cfg: cfg}
	for _, s := range cfg.Sinks {
		f.wakes = append(f.wakes, make(chan struct{}, 1))
		f.status = append(f.status, Status{Sink: s.Name()})
	}
	return f, nil
}

// Offer makes a signed checkpoint the one to be sent. It never waits. One that
// has not been sent to a place when the next is offered is not sent there.
func (f *Forwarder) Offer(signed []byte) {
	f.mu.Lock()
	f.newest = signed
	f.mu.Unlock()
	for _, wake := range f.wakes {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// Status returns how it stands with each place, in the order of Config.Sinks.
func (f *Forwarder) Status() []Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Status(nil), f.status...)
}

// Run sends what is offered until ctx ends, and returns nil then, when all
// goroutines have ended.
func (f *Forwarder) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for i := range f.cfg.Sinks {
		all.Go(func() { f.serve(ctx, i) })
	}
	all.Wait()
	return nil
}

// serve sends to one place.
func (f *Forwarder) serve(ctx context.Context, i int) {
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wakes[i]:
		}
		wait := f.cfg.Every
		if err := f.send(ctx, i); err != nil && ctx.Err() == nil {
			failures++
			wait = f.backOff(failures)
			f.failed(i, err)
			f.wake(i) // for the same one again, or a newer
		} else if err == nil {
			failures = 0
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (f *Forwarder) wake(i int) {
	select {
	case f.wakes[i] <- struct{}{}:
	default:
	}
}

// backOff returns how long to wait after so many failures in a row: between
// half and all of a time that doubles, so that many servers don't come at once.
func (f *Forwarder) backOff(failures int) time.Duration {
	wait := f.cfg.MaxWait
	if failures < 30 {
		wait = min(wait, f.cfg.Every<<failures)
	}
	return wait/2 + rand.N(wait/2+1)
}

// send sends the newest checkpoint to one place.
func (f *Forwarder) send(ctx context.Context, i int) error {
	f.mu.Lock()
	signed := f.newest
	f.mu.Unlock()
	s, err := tree.Open(signed, f.cfg.Verifier)
	if err != nil {
		return fmt.Errorf("forward: the checkpoint that was offered: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	lines, err := f.cfg.Sinks[i].Send(ctx, Checkpoint{
		Signed: signed,
		Head:   s.Checkpoint,
		Log:    f.cfg.Verifier,
		Prove: func(old int64) ([]tlog.Hash, error) {
			return tree.ProveConsistency(f.cfg.Dir, old, s.Checkpoint)
		},
	})
	if err != nil {
		return err
	}
	f.sent(i, s.Size)
	if len(lines) == 0 {
		return nil
	}
	return f.gather(signed, s.Checkpoint, lines)
}

// sent notes that a place has a checkpoint.
func (f *Forwarder) sent(i int, size int64) {
	f.note(i, func(s *Status) { *s = Status{Sink: s.Sink, Size: size, Sent: time.Now()} })
}

// failed notes that sending has failed.
func (f *Forwarder) failed(i int, err error) {
	f.note(i, func(s *Status) {
		if s.Err == nil {
			s.Since = time.Now()
		}
		s.Err = err
	})
}

func (f *Forwarder) note(i int, change func(*Status)) {
	f.told.Lock()
	defer f.told.Unlock()
	f.mu.Lock()
	change(&f.status[i])
	status := f.status[i]
	f.mu.Unlock()
	if f.cfg.Changed != nil {
		f.cfg.Changed(status)
	}
}

// gather adds cosignatures to those that their checkpoint has by now.
func (f *Forwarder) gather(signed []byte, head tree.Checkpoint, lines []byte) error {
	var keys []*tree.Witness
	for _, s := range f.cfg.Sinks {
		keys = append(keys, s.Keys()...)
	}
	f.told.Lock()
	defer f.told.Unlock()
	f.mu.Lock()
	at := len(f.kept)
	for i, k := range f.kept {
		if k.head.Equal(head) {
			at, signed = i, k.signed
		}
	}
	f.mu.Unlock()
	with, s, err := tree.Cosign(signed, lines, f.cfg.Verifier, keys...)
	if err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	f.mu.Lock()
	if at == len(f.kept) {
		f.kept = append(f.kept, cosigned{head: head})
	}
	f.kept[at].signed = with
	f.kept = f.kept[max(0, len(f.kept)-maxKept):]
	f.mu.Unlock()
	if f.cfg.Cosigned != nil {
		f.cfg.Cosigned(with, s)
	}
	return nil
}
