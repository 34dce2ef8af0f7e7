package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maxQueue bounds what waits to be written, in bytes of records; the largest
// record fits. While one batch is written, another of this size can gather.
const maxQueue = 2 * maxRecord

// Records that nobody waits for gather for up to linger, or until they have
// enough bytes: to wake the writer and to write a line costs several times
// what the line itself does.
const (
	linger = time.Millisecond
	enough = 256 << 10
)

// Log is the open log of one directory. It is safe for concurrent use. The
// zero Log is not usable: see [Open].
type Log struct {
	recovered int64

	// work holds a token when the writer has something to look at.
	work chan struct{}
	// done is closed when the writer has ended; closeErr is set before.
	done     chan struct{}
	closeErr error

	bodies sync.Pool // of *[]byte, written and no larger than usual

	mu      sync.Mutex    // guards the fields below
	queue   []*entry      // accepted and not yet taken by the writer, in order
	queued  int           // bytes in queue
	urgent  bool          // the writer must not let the queue gather any longer
	room    chan struct{} // closed, and replaced, when a waiting caller should look again
	closing bool          // nothing more is accepted
	err     error         // the first failure to write; nothing more is accepted
}

// entry is one accepted record.
type entry struct {
	body []byte
	// confirm gets the outcome, if the caller waits for it. It has room for
	// it: the writer never waits for a caller.
	confirm chan error
}

// Open opens the log in dir and makes what is missing: the directory with mode
// 0700, the file with 0600. Modes of what exists are left alone. It reads the
// whole file, and fails if another process has it open, or if it is damaged in
// any other way than by an unfinished last line. The caller closes the log.
func Open(dir string) (*Log, error) {
	return open(dir, func(f file) file { return f })
}

func open(dir string, wrap func(file) file) (*Log, error) {
	d, end, err := openDisk(dir)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	l := &Log{
		recovered: end.torn,
		work:      make(chan struct{}, 1),
		done:      make(chan struct{}),
		room:      make(chan struct{}),
	}
	w := &writer{file: wrap(d), chain: end.chain}
	go l.run(w)
	return l, nil
}

// Recovered returns how many bytes of an unfinished last line Open has cut
// off: 0 unless the process or the machine crashed while it wrote.
func (l *Log) Recovered() int64 { return l.recovered }

// Append adds r to the log, after all that was accepted before. If durable it
// returns when r is on the disk, otherwise when r is in the queue. It waits no
// longer than ctx allows. An error means that r may be recorded or not, and
// that whatever r is about must not be answered.
func (l *Log) Append(ctx context.Context, r Record, durable bool) error {
	if err := r.check(); err != nil {
		return err
	}
	e := &entry{body: r.appendBody(l.buffer())}
	if len(e.body) > maxRecord {
		return fmt.Errorf("audit: a record of %d bytes: at most %d can be written", len(e.body), maxRecord)
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
		return fmt.Errorf("audit: the record is not confirmed to be on the disk: %w", context.Cause(ctx))
	}
}

// buffer returns an empty body, which the writer has done with.
func (l *Log) buffer() []byte {
	if b, ok := l.bodies.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, usualRecord)
}

// enqueue puts e into the queue, and waits for room if it must.
func (l *Log) enqueue(ctx context.Context, e *entry) error {
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("audit: the record was not accepted: %w", context.Cause(ctx))
		}
		l.mu.Lock()
		switch {
		case l.err != nil:
			err := l.err
			l.mu.Unlock()
			return fmt.Errorf("audit: the log has failed and accepts nothing: %w", err)
		case l.closing:
			l.mu.Unlock()
			return errors.New("audit: the log is closed")
		case l.queued+len(e.body) <= maxQueue:
			l.queue = append(l.queue, e)
			l.queued += len(e.body)
			wake := l.hurry(e.confirm != nil || l.queued >= enough) || len(l.queue) == 1
			l.mu.Unlock()
			if wake {
				l.wake()
			}
			return nil
		}
		room := l.room
		wake := l.hurry(true)
		l.mu.Unlock()
		if wake {
			l.wake()
		}
		select {
		case <-room:
		case <-ctx.Done():
		}
	}
}

// Err returns the failure after which the log accepts nothing, or nil. Closing
// it is no failure.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close accepts nothing more, waits until what was accepted is on the disk, and
// closes the file. It returns the failure that kept anything from being there.
// Further calls do the same.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closing = true
	l.makeRoom()
	l.mu.Unlock()
	l.wake()
	<-l.done
	return l.closeErr
}

// hurry makes the queue urgent, if it is to be, and reports whether the writer
// must be woken for that. The caller holds mu.
func (l *Log) hurry(urgent bool) bool {
	if !urgent || l.urgent {
		return false
	}
	l.urgent = true
	return true
}

// wake makes the writer look at the queue.
func (l *Log) wake() {
	select {
	case l.work <- struct{}{}:
	default: // it will look anyway
	}
}

// makeRoom makes waiting callers look again. The caller holds mu.
func (l *Log) makeRoom() {
	close(l.room)
	l.room = make(chan struct{})
}

// take waits for work and returns all of it; nothing when the log is closing
// and the queue is empty.
func (l *Log) take() []*entry {
	var gathering *time.Timer
	gathered := false
	for {
		l.mu.Lock()
		batch, closing := l.queue, l.closing
		if len(batch) > 0 && (l.urgent || closing || gathered) {
			l.queue, l.queued, l.urgent = nil, 0, false
			l.makeRoom()
			l.mu.Unlock()
			return batch
		}
		l.mu.Unlock()
		switch {
		case len(batch) > 0:
			if gathering == nil {
				gathering = time.NewTimer(linger)
				defer gathering.Stop()
			}
			select {
			case <-l.work:
			case <-gathering.C:
				gathered = true
			}
		case closing:
			return nil
		default:
			<-l.work
		}
	}
}

// run is the one goroutine that writes. It ends after Close.
func (l *Log) run(w *writer) {
	defer close(l.done)
	for batch := l.take(); batch != nil; batch = l.take() {
		err := l.Err()
		if err == nil {
			if err = w.write(batch); err != nil {
				l.fail(err)
			}
		}
		if err != nil {
			err = fmt.Errorf("audit: the record could not be written: %w", err)
		}
		for _, e := range batch {
			if cap(e.body) <= 2*usualRecord {
				l.bodies.Put(&e.body)
			}
			if e.confirm != nil {
				e.confirm <- err
			}
		}
	}
	err := l.Err()
	if err == nil {
		if err = w.file.Sync(); err != nil {
			l.fail(err)
		}
	}
	if closeErr := w.file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		l.closeErr = fmt.Errorf("audit: %w", err)
	}
}

// fail stops the log for good.
func (l *Log) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	l.makeRoom()
}
