package revocation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Journal is the durable revocation log of one server: one file in one
// directory. An entry is in force only once it is on the disk. Make one with
// [OpenJournal]; it is safe for concurrent use.
//
// When the disk is full or fails, Append fails, and what it was to add is not
// in force. Nothing else is lost: later calls try again.
type Journal struct {
	torn     int64
	view     atomic.Pointer[View]
	requests chan *request
	closing  chan struct{} // closed when Close begins
	closed   chan struct{} // closed when the writer has ended
	once     sync.Once
	result   error // of Close; written before closed is closed

	mu     sync.Mutex
	change func(*View) // guarded by mu

	// What follows is the writer's alone.
	disk *disk
	left map[uint64]bool // imported entries whose lines have gone from the file
	last time.Time       // RecordedAt of the last entry
}

// journalName is the file's name in its directory.
const journalName = "revocations.jsonl"

// maxQueue is how many calls of Append may wait for the disk; more wait to
// wait.
const maxQueue = 256

// OpenJournal opens the log in dir, which it makes where it is missing. An
// unfinished last line, which a crash leaves, was never in force and is cut
// off: see [Journal.Recovered]. Any other damage is an error that names the
// line: a revocation that can't be read must not be skipped. So is a log that
// another process has open.
func OpenJournal(dir string) (*Journal, error) {
	d, data, err := openDisk(dir)
	if err != nil {
		return nil, fmt.Errorf("revocation: opening the log: %w", err)
	}
	fail := func(err error) (*Journal, error) {
		return nil, fmt.Errorf("revocation: opening the log: %s: %w", filepath.Join(dir, journalName), errors.Join(err, d.close()))
	}
	entries, left, size, err := readJournal(data)
	if err != nil {
		return fail(err)
	}
	view, err := New(entries)
	if err != nil {
		return fail(err)
	}
	if err := d.cut(size); err != nil {
		return fail(err)
	}
	j := &Journal{
		torn: int64(len(data)) - size, disk: d, left: left,
		requests: make(chan *request, maxQueue), closing: make(chan struct{}), closed: make(chan struct{}),
	}
	for _, e := range entries {
		j.last = latest(j.last, e.RecordedAt)
	}
	j.view.Store(view)
	go j.write()
	return j, nil
}

// Recovered returns how many bytes of an unfinished last line were cut off.
func (j *Journal) Recovered() int64 { return j.torn }

// View returns the state of the log: all that is durable.
func (j *Journal) View() *View { return j.view.Load() }

// OnChange sets what is told of each new view, one after the other, before the
// call of Append or Import that made it returns. It is not told of the view
// that is there. It must not wait for this journal, nor for whoever waits in
// Append or Import.
func (j *Journal) OnChange(tell func(*View)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.change = tell
}

// Append adds entries, all or none, and returns them with their Sequence and
// RecordedAt. They are on the disk when it returns. An [Errors] says what is
// wrong with entries. If ctx ends first, it is unknown whether they were
// added.
func (j *Journal) Append(ctx context.Context, entries []Entry) ([]Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	if err := unnumbered(entries); err != nil {
		return nil, err
	}
	return j.ask(ctx, &request{entries: entries})
}

// unnumbered refuses what is the log's to say.
func unnumbered(entries []Entry) error {
	for i := range entries {
		if entries[i].Sequence != 0 {
			return Errors{{i, "sequence", "is given by the log: leave it out"}}
		}
	}
	return nil
}

// Import makes the lines of the bundle's revocations.yaml part of the log, by
// the rule of [Merge], and returns the view that has them. They are on the
// disk when it returns.
func (j *Journal) Import(file []Entry) (*View, error) {
	if err := unnumbered(file); err != nil {
		return nil, err
	}
	if _, err := j.ask(context.Background(), &request{entries: file, imported: true}); err != nil {
		return nil, err
	}
	return j.View(), nil
}

// Close ends the log. Calls that wait fail.
func (j *Journal) Close() error {
	j.once.Do(func() { close(j.closing) })
	<-j.closed
	return j.result
}

var errClosed = errors.New("revocation: nothing was recorded: the log is closed")

// request is one call of Append or Import.
type request struct {
	entries  []Entry
	imported bool
	done     chan struct{} // closed when added and err are written
	added    []Entry
	gone     []uint64
	err      error
}

func (j *Journal) ask(ctx context.Context, r *request) ([]Entry, error) {
	r.done = make(chan struct{})
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("revocation: nothing was recorded: %w", err)
	}
	select {
	case j.requests <- r:
	case <-j.closing:
		return nil, errClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("revocation: nothing was recorded: %w", ctx.Err())
	}
	select {
	case <-r.done:
	case <-j.closed:
		select {
		case <-r.done: // both are so
		default:
			return nil, errClosed
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("revocation: it is unknown whether this was recorded: list the log: %w", ctx.Err())
	}
	return r.added, r.err
}

// write commits what is asked for until Close. What has come while the disk
// was busy is committed together.
func (j *Journal) write() {
	defer close(j.closed)
	for {
		select {
		case <-j.closing:
			j.result = j.disk.close()
			return
		case r := <-j.requests:
			group := []*request{r}
			for waiting := len(j.requests); waiting > 0; waiting-- {
				group = append(group, <-j.requests)
			}
			j.commit(group)
		}
	}
}

// commit adds what a group of requests asks for, tells of it, and answers.
func (j *Journal) commit(group []*request) {
	view := j.View()
	j.last = latest(j.last, time.Now().Round(0).UTC()) // it never runs backwards
	left := j.left                                     // with what the group adds
	var lines []byte
	for _, r := range group {
		var line []byte
		if view, left, line, r.err = j.prepare(view, left, r); r.err == nil {
			lines = append(lines, line...)
		}
	}
	var err error
	if len(lines) > 0 {
		if err = j.disk.append(lines); err != nil {
			err = fmt.Errorf("revocation: nothing was recorded, and what was to be revoked is not: %w", err)
		}
	}
	if err == nil {
		j.left = left
		j.settle(view)
	}
	for _, r := range group {
		if err != nil && r.err == nil {
			r.added, r.err = nil, err
		}
		close(r.done)
	}
}

// prepare makes the line of one request, and what the log is after it.
func (j *Journal) prepare(view *View, left map[uint64]bool, r *request) (*View, map[uint64]bool, []byte, error) {
	add := r.entries
	if r.imported {
		add, r.gone = Merge(view, left, r.entries)
	}
	if len(add) == 0 && len(r.gone) == 0 {
		return view, left, nil, nil
	}
	stamped := make([]Entry, len(add))
	for i, e := range add {
		e.RecordedAt, e.Imported = j.last, r.imported
		stamped[i] = e
	}
	next, err := view.With(stamped)
	if err != nil {
		return view, left, nil, err
	}
	for e := range next.Entries(view.Sequence()) {
		r.added = append(r.added, e)
	}
	line, err := appendLine(nil, r.added, r.gone)
	if err != nil {
		return view, left, nil, err
	}
	if len(r.gone) > 0 {
		left = maps.Clone(left)
		for _, sequence := range r.gone {
			left[sequence] = true
		}
	}
	return next, left, line, nil
}

// settle puts in force what is durable.
func (j *Journal) settle(view *View) {
	if view == j.View() {
		return
	}
	j.view.Store(view)
	j.mu.Lock()
	change := j.change
	j.mu.Unlock()
	if change != nil {
		change(view)
	}
}
