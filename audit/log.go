package audit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/segment"
)

// Config says where a log is and how it is kept.
type Config struct {
	// Dir is the log's directory. It is made if it is not there, with mode 0700,
	// and what is in it with 0600. Required.
	Dir string
	// Origin names the log for ever, on each checkpoint and in the name of its
	// key: a DNS name and path, as in "pdp.example.com/audit", unique in the
	// world. Empty: the one of the log that is there, and for a new log a random
	// one.
	Origin string
	// SegmentBytes is how long a segment may become. 0: 256 MiB.
	SegmentBytes int64
	// SegmentAge is how long records go to one segment: the first record after
	// that begins the next. 0: 24 hours.
	SegmentAge time.Duration
	// Checkpoint is how often a log that has grown gets a new checkpoint. 0: one
	// second.
	Checkpoint time.Duration
	// Changed is called with each new condition of the log, one call at a time;
	// a state that passed while it ran may be left out. It must not close the
	// log. May be nil.
	Changed func(State)
}

// Bounds of what is accepted and not yet on the disk.
const (
	// maxHeld bounds it in bytes of records. All of it is kept in memory, to be
	// written again if the disk fails.
	maxHeld = 16 << 20
	// maxLeaves bounds how many records the tree may lag behind the disk.
	maxLeaves = 1 << 20
)

// Records that nobody waits for gather for up to linger from the first of them,
// or until they have enough bytes: to wake the writer and to write a line costs
// several times what the line itself does, so it is woken once for all of them. They are on the disk syncAfter later, or as soon
// as there are syncBytes of them.
const (
	linger    = time.Millisecond
	enough    = 256 << 10
	syncAfter = 200 * time.Millisecond
	syncBytes = 4 << 20
)

// closeWait is how long Close waits for a disk that fails or hangs.
const closeWait = 5 * time.Second

// usualRecord is what most records fit in, in bytes.
const usualRecord = 1536

// ErrClosed is why a closed log accepts nothing, and has nothing more to wait
// for.
var ErrClosed = errors.New("audit: the log is closed")

// Log is the open log of one directory. It is safe for concurrent use. The
// zero Log is not usable: see [Open].
type Log struct {
	dir        string
	recovered  Recovery
	verifier   string
	signer     note.Signer
	key        *hmacKey
	health     *health
	checkpoint atomic.Pointer[[]byte]

	// work holds a token when the writer has something to look at at once;
	// gathered fires when the queue has lingered.
	work     chan struct{}
	gathered *time.Timer
	// closed is closed when Close is called, abandoned when it waits no longer.
	closed, abandoned chan struct{}
	// written is closed when the writer has ended, done when all has.
	written, done chan struct{}
	close         func() error

	bodies sync.Pool // of *[]byte, written and no larger than usual

	mu       sync.Mutex    // guards the fields below
	queue    []*entry      // accepted and not yet taken by the writer, in order
	bytes    int           // in queue
	held     int           // bytes accepted and not known to be on the disk: of queue, and of what the writer has
	urgent   bool          // the writer must not let the queue gather any longer
	ticket   uint64        // of the next entry
	taken    uint64        // index of the first record in queue
	synced   uint64        // how many records are on the disk
	leaves   []tlog.Hash   // of those that are on the disk and not yet in the tree
	room     chan struct{} // closed when a caller who waits for room should look again; nil: nobody waits
	progress chan struct{} // closed when synced grows, or the log is closed; nil: nobody waits
	most     int           // leaves that may wait for the tree: maxLeaves, but for tests
	closing  bool          // nothing more is accepted
	lost     error         // what Close has to say
}

// Append adds r to the log, after all that was accepted before. If durable it
// returns when r is on the disk, otherwise when r is in the queue. It waits no
// longer than ctx allows, whatever the disk does. An error means that r may be
// recorded or not, and that whatever r is about must not be answered.
func (l *Log) Append(ctx context.Context, r Record, durable bool) error {
	if err := r.check(); err != nil {
		return err
	}
	e := &entry{body: r.appendJSON(l.buffer(), l.key)}
	if len(e.body) > segment.MaxLeaf-maxPrefix {
		return fmt.Errorf("audit: a record of %d bytes: at most %d can be written", len(e.body), segment.MaxLeaf-maxPrefix)
	}
	if durable {
		e.confirm = make(chan error, 1)
	}
	if err := l.enqueue(ctx, e); err != nil {
		return err
	}
	if !durable {
		return nil
	}
	select {
	case err := <-e.confirm:
		return err
	case <-ctx.Done():
		l.withdraw(e)
		return fmt.Errorf("audit: the record is not confirmed to be on the disk (%s): %w", l.State().Condition, context.Cause(ctx))
	case <-l.abandoned:
		return errors.New("audit: the log was closed before the record was on the disk")
	}
}

// buffer returns an empty body, which the writer has done with.
func (l *Log) buffer() []byte {
	if b, ok := l.bodies.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, usualRecord)
}

// lose notes what Close has to say, unless there is something already.
func (l *Log) lose(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = err
	}
}

// pause waits before the next attempt on a disk that fails, or returns false
// when nobody waits for that any longer.
func (l *Log) pause(d time.Duration) bool {
	closed := l.closed
	select {
	case <-closed:
		closed, d = nil, firstPause // there is not much time
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closed: // one more attempt, now
	case <-l.abandoned:
		return false
	}
	return true
}

// Recovered says what Open has cleared away after a crash.
func (l *Log) Recovered() Recovery { return l.recovered }

// State says how the log and its disk are now. It never waits for the disk.
func (l *Log) State() State { return l.health.state() }

// Size returns how many records the log has accepted, and how many of these
// are on the disk: the index of the next record, and of the next one to be
// there.
func (l *Log) Size() (accepted, synced uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken + uint64(len(l.queue)), l.synced
}

// Wait waits until the record with this index is on the disk. Its error is
// that of ctx, or that the log was closed.
func (l *Log) Wait(ctx context.Context, index uint64) error {
	for {
		l.mu.Lock()
		if l.synced > index {
			l.mu.Unlock()
			return nil
		}
		if l.closing && l.ended() {
			l.mu.Unlock()
			return ErrClosed
		}
		if l.progress == nil {
			l.progress = make(chan struct{})
		}
		progress := l.progress
		l.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ended reports whether the writer has ended, or nobody waits for it.
func (l *Log) ended() bool {
	select {
	case <-l.written:
		return true
	case <-l.abandoned:
		return true
	default:
		return false
	}
}

// Checkpoint returns the newest checkpoint: a signed note with a C2SP
// tlog-checkpoint as its text. It covers only what is on the disk.
func (l *Log) Checkpoint() []byte { return slices.Clone(*l.checkpoint.Load()) }

// Verifier returns the key that verifies the log's checkpoints, in the form of
// golang.org/x/mod/sumdb/note.
func (l *Log) Verifier() string { return l.verifier }

// HMAC returns what stands in records for a text that is under the log's key:
// whoever has the text finds the records that it is in.
func (l *Log) HMAC(text string) string { return string(l.key.appendText(nil, text)) }

// path is the whole path of a file of the log, for messages.
func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

// Dir returns the log's directory.
func (l *Log) Dir() string { return l.dir }

// Close accepts nothing more, waits until what was accepted is on the disk and
// under a checkpoint, and closes the files. If the disk fails or hangs it gives
// up after five seconds; its error then says how many records are lost. Further
// calls return the same.
func (l *Log) Close() error { return l.close() }

// closeAll does the work of Close.
func (l *Log) closeAll() error {
	l.mu.Lock()
	l.closing = true
	l.makeRoom()
	l.mu.Unlock()
	close(l.closed)
	patience := time.NewTimer(closeWait)
	defer patience.Stop()
	select {
	case <-l.done:
	case <-patience.C:
		close(l.abandoned)
		patience.Reset(hang)
		select {
		case <-l.done: // it was between two attempts
		case <-patience.C:
		}
	}
	l.mu.Lock()
	l.moved()
	missing := l.taken + uint64(len(l.queue)) - l.synced
	l.mu.Unlock()
	select {
	case <-l.done:
		l.health.close()
		return l.lost // nobody else is there
	default:
		return fmt.Errorf("audit: closing %s: the disk does not answer: %d accepted records may not be on it: %w", l.dir, missing, l.State().Err)
	}
}
