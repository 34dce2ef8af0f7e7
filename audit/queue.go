package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// entry is one accepted record.
type entry struct {
	ticket uint64 // grows along the queue
	body   []byte // the line without its beginning and end
	leaf   tlog.Hash
	hashed bool // leaf is set
	// confirm gets the outcome, if the caller waits for it. It has room for it:
	// the writer never waits for a caller.
	confirm chan error
}

// enqueue puts e into the queue, and waits for room if it must.
func (l *Log) enqueue(ctx context.Context, e *entry) error {
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("audit: the record was not accepted (%s): %w", l.State().Condition, context.Cause(ctx))
		}
		l.mu.Lock()
		if l.closing {
			l.mu.Unlock()
			return ErrClosed
		}
		if l.held+len(e.body) <= maxHeld && len(l.leaves) < l.most {
			e.ticket = l.ticket
			l.ticket++
			l.queue = append(l.queue, e)
			l.bytes += len(e.body)
			l.held += len(e.body)
			wake := l.hurry(e.confirm != nil || l.bytes >= enough)
			if len(l.queue) == 1 {
				if l.urgent {
					wake = true // the writer may have looked, and found nothing, since it was woken
				} else {
					l.gathered.Reset(linger)
				}
			}
			l.mu.Unlock()
			if wake {
				l.wake()
			}
			return nil
		}
		if l.room == nil {
			l.room = make(chan struct{})
		}
		room := l.room
		wake := l.hurry(len(l.queue) > 0)
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

// withdraw takes e, whose caller waits no longer, out of the queue if the
// writer has not taken it: what was denied need not be told as if it had been
// allowed, nor take up room while the disk is full.
func (l *Log) withdraw(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := slices.BinarySearchFunc(l.queue, e.ticket, func(q *entry, ticket uint64) int { return cmp.Compare(q.ticket, ticket) })
	if !ok {
		return
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	l.bytes -= len(e.body)
	l.held -= len(e.body)
	l.makeRoom()
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

// makeRoom makes callers who wait for room look again. The caller holds mu.
func (l *Log) makeRoom() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// moved makes those look again who follow what is on the disk. The caller
// holds mu.
func (l *Log) moved() {
	if l.progress != nil {
		close(l.progress)
		l.progress = nil
	}
}

// take exchanges the queue for the empty slice spare, if its time has come: it
// is urgent, has gathered, or the log is closing.
func (l *Log) take(spare []*entry, gathered bool) (batch []*entry, closing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 || !(l.urgent || gathered || l.closing) {
		return nil, l.closing
	}
	batch = l.queue
	l.taken += uint64(len(batch))
	l.queue, l.bytes, l.urgent = spare, 0, false
	l.gathered.Stop()
	return batch, l.closing
}

// takeLeaves exchanges the leaves that the tree lacks for the empty slice spare.
func (l *Log) takeLeaves(spare []tlog.Hash) []tlog.Hash {
	l.mu.Lock()
	defer l.mu.Unlock()
	leaves := l.leaves
	l.leaves = spare
	if len(leaves) >= l.most {
		l.makeRoom()
	}
	return leaves
}

// empty reports whether the queue is.
func (l *Log) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) == 0
}

// confirmed notes that these records, the next ones, are on the disk.
func (l *Log) confirmed(entries []*entry) {
	bytes := 0
	for _, e := range entries {
		bytes += len(e.body)
	}
	l.mu.Lock()
	for _, e := range entries {
		l.leaves = append(l.leaves, e.leaf)
	}
	l.synced += uint64(len(entries))
	l.held -= bytes
	l.makeRoom()
	l.moved()
	l.mu.Unlock()
	for _, e := range entries {
		if e.confirm != nil {
			e.confirm <- nil
		}
		if cap(e.body) <= 2*usualRecord {
			l.bodies.Put(&e.body)
		}
	}
}
