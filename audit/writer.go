package audit

import (
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
)

// maxPrefix bounds what stands before a record's body in its line.
const maxPrefix = 64

// chunk is how many bytes are written at once, about.
const chunk = 1 << 20

// writer is the one goroutine that writes segments, and what it knows of the
// disk. What it has not seen synced it keeps, and writes again after a failure:
// at the same places the same bytes, so that who reads along sees nothing of it.
type writer struct {
	log    *Log
	device device
	watch  *watch
	limit  int64         // bytes of a segment
	age    time.Duration // of a segment

	segment file
	info    fs.FileInfo // of segment: which file it is
	name    string      // of segment, below the log's directory
	size    int64       // of segment, as we have written it
	synced  int64       // of segment: so much is on the disk
	born    time.Time   // when segment got its first record; zero: not yet
	torn    bool        // a write or fsync failed: beyond synced segment may be anything
	again   bool        // what is pending has been written before, and not synced
	failing bool        // the last attempt failed

	pending  []*entry // accepted and not known to be on the disk, in order
	next     uint64   // index of the first of them
	done     int      // so many of them are written
	unsynced int      // bytes of those
	demand   bool     // somebody waits for one of them
	syncBy   time.Time

	timer *time.Timer
	spare []*entry // an empty queue
	buf   []byte
}

// run writes until the log is closed and all is on the disk, or nobody waits
// for that any longer.
func (w *writer) run() {
	defer close(w.log.written)
	w.timer = time.NewTimer(time.Hour)
	defer w.timer.Stop()
	defer w.log.gathered.Stop()
	for {
		closing := w.gather()
		err := w.commit(closing)
		for attempts := (backoff{}); err != nil; err = w.repair() {
			w.log.health.fault(ofWriter, condition(err), explain(w.log.path(w.name), err))
			w.failing = true
			if !w.log.pause(attempts.next()) {
				w.giveUp(err)
				return
			}
		}
		if w.failing {
			w.log.health.fault(ofWriter, "", nil)
			w.failing = false
		}
		if closing && w.log.empty() {
			w.watch.begin("closing", w.name)
			if err := w.segment.Close(); err != nil {
				w.log.lose(fmt.Errorf("audit: %w", err))
			}
			w.watch.end(false)
			return
		}
	}
}

// gather waits until there is something to do, and takes it.
func (w *writer) gather() (closing bool) {
	gathered := false
	for {
		batch, closing := w.log.take(w.spare, gathered)
		if batch != nil {
			w.accept(batch)
			return closing
		}
		gathered = false
		var due <-chan time.Time
		if !w.syncBy.IsZero() {
			left := time.Until(w.syncBy)
			if left <= 0 {
				return closing
			}
			w.timer.Reset(left)
			due = w.timer.C
		}
		if closing {
			return closing
		}
		select {
		case <-w.log.work:
		case <-w.log.gathered.C:
			gathered = true
		case <-due:
		case <-w.log.closed:
		}
	}
}

// accept adds a batch to what is pending.
func (w *writer) accept(batch []*entry) {
	w.pending = append(w.pending, batch...)
	for _, e := range batch {
		w.demand = w.demand || e.confirm != nil
	}
	clear(batch)
	w.spare = batch[:0]
	if by := time.Now().Add(syncAfter); w.syncBy.IsZero() || by.Before(w.syncBy) {
		w.syncBy = by
	}
}

// commit writes what is pending, and syncs it if it is time to.
func (w *writer) commit(now bool) error {
	if err := w.write(); err != nil {
		return err
	}
	if now || w.demand || w.unsynced >= syncBytes || !w.syncBy.IsZero() && !time.Now().Before(w.syncBy) {
		return w.sync()
	}
	return nil
}

// write writes what is pending, and moves on to new segments as it must.
func (w *writer) write() error {
	for w.done < len(w.pending) {
		if w.full(w.pending[w.done]) {
			if err := w.rotate(); err != nil {
				return err
			}
		}
		b, n := w.buf[:0], 0
		for _, e := range w.pending[w.done:] {
			start := len(b)
			b = segment.AppendPrefix(b, w.next+uint64(w.done+n))
			b = append(append(b, e.body...), '\n')
			if n > 0 && (len(b) > chunk || w.size+int64(len(b)) > w.limit) {
				b = b[:start]
				break
			}
			if !e.hashed {
				e.leaf, e.hashed = tree.LeafHash(b[start:len(b)-1]), true
			}
			n++
		}
		if w.buf = b; cap(b) > 2*chunk {
			w.buf = nil // one large record does not stay for ever
		}
		if err := w.append(b); err != nil {
			return err
		}
		w.done += n
		w.unsynced += len(b)
	}
	return nil
}

// full reports whether a record belongs in the next segment. What is written
// again goes where it was.
func (w *writer) full(e *entry) bool {
	if w.size == 0 {
		return false
	}
	var prefix [maxPrefix]byte
	line := len(segment.AppendPrefix(prefix[:0], w.next+uint64(w.done))) + len(e.body) + 1
	return w.size+int64(line) > w.limit || !w.again && time.Since(w.born) >= w.age
}

// append writes b to the segment, if that is as we left it: records would go
// where nobody looks for them.
func (w *writer) append(b []byte) error {
	w.watch.begin("writing", w.name)
	defer w.watch.end(false)
	if err := w.untouched(); err != nil {
		return err
	}
	if w.size == 0 {
		w.born = time.Now()
	}
	w.torn = true
	n, err := w.segment.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return err
	}
	w.torn = false
	w.size += int64(n)
	return nil
}

// untouched makes sure that nobody else has had hands on the segment.
func (w *writer) untouched() error {
	info, err := w.segment.Stat()
	if err != nil {
		return err
	}
	if info.Size() != w.size {
		return meddled(fmt.Sprintf("%s: has %d bytes where %d were written: something else writes to it or cuts it; stop that, put back the file as it was, and restart", w.log.path(w.name), info.Size(), w.size))
	}
	return w.device.InPlace(w.name, info)
}

// sync makes sure that what is written is on the disk, and where the log has
// its segment, and says so.
func (w *writer) sync() error {
	w.watch.begin("fsync of", w.name)
	w.torn = true
	err := w.segment.Sync()
	if err == nil {
		w.torn = false
		if w.done > 0 {
			err = w.untouched()
		}
	}
	w.watch.end(err == nil)
	if err != nil {
		return err
	}
	w.again, w.demand = false, false
	w.synced, w.unsynced, w.syncBy = w.size, 0, time.Time{}
	if w.watch.isLate() {
		w.syncBy = time.Now().Add(lastPause) // to see when the disk is quick again
	}
	w.log.confirmed(w.pending[:w.done])
	w.next += uint64(w.done)
	rest := copy(w.pending, w.pending[w.done:])
	clear(w.pending[rest:])
	w.pending, w.done = w.pending[:rest], 0
	for _, e := range w.pending {
		w.demand = w.demand || e.confirm != nil
	}
	if rest > 0 { // for the next segment
		w.syncBy = time.Now().Add(syncAfter)
	}
	return nil
}

// rotate begins the next segment. All of this one is on the disk before.
func (w *writer) rotate() error {
	if err := w.sync(); err != nil {
		return err
	}
	name := segment.Dir + "/" + segment.Name(w.next)
	w.watch.begin("making", name)
	defer w.watch.end(false)
	f, err := w.device.Segment(name, true)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = w.device.SyncSegments()
	}
	if err != nil {
		_ = f.Close() // it is opened again
		return err
	}
	_ = w.segment.Close() // it is on the disk
	w.segment, w.info, w.name, w.size, w.synced, w.born = f, info, name, 0, 0, time.Time{}
	return nil
}

// repair makes the segment what it was when it was last synced, if it may not
// be, and writes all that is pending again. A failed fsync may have thrown away
// what it could not write, and says so once only: nothing since the last good
// one counts.
func (w *writer) repair() error {
	if w.torn {
		if err := w.cut(); err != nil {
			return err
		}
	}
	return w.commit(true)
}

// cut cuts the segment back to what is on the disk.
func (w *writer) cut() error {
	w.watch.begin("cutting", w.name)
	defer w.watch.end(false)
	f, err := w.device.Segment(w.name, false)
	if err != nil {
		return err
	}
	if err := w.cutFile(f); err != nil {
		_ = f.Close() // it is opened again
		return err
	}
	_ = w.segment.Close() // it has failed already
	w.segment, w.size, w.torn, w.again = f, w.synced, false, true
	w.done, w.unsynced = 0, 0
	return nil
}

func (w *writer) cutFile(f file) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.device.InPlace(w.name, w.info); err != nil {
		return err
	}
	if info.Size() < w.synced {
		return meddled(fmt.Sprintf("%s: has %d bytes where %d were on the disk: the log has lost records; put back the file as it was, and restart", w.log.path(w.name), info.Size(), w.synced))
	}
	return f.Truncate(w.synced)
}

// giveUp tells why what was accepted is not on the disk.
func (w *writer) giveUp(err error) {
	accepted, synced := w.log.Size()
	w.log.lose(fmt.Errorf("audit: the log was closed while its disk failed: %d accepted records are not known to be on it: %w", accepted-synced, explain(w.log.path(w.name), err)))
	_ = w.segment.Close()
}
