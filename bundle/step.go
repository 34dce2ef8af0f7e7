package bundle

import (
	"errors"
	"fmt"
	"time"

	"github.com/writ-pdp/writ"
)

const (
	// A look may take a tenth of the time, and reading everything a twentieth:
	// where that takes longer, it is done less often, up to these waits.
	longestWait    = 10 * time.Second
	longestReading = time.Minute
	// coarsest is more than one tick of any file system's clock. Once a stamp
	// has stayed for so long, every later change makes another.
	coarsest = 3 * time.Second
	// calm is how long nothing was changed where nobody is writing any more.
	calm = 2 * time.Second
	// settling is how long content must stay as it is otherwise, and vacating
	// the same where a file has become empty, as happens when it is about to
	// be written.
	settling = 100 * time.Millisecond
	vacating = 2 * time.Second
	// restless is how long content may not settle before that is a fault.
	restless = 10 * time.Second
)

// outcome is what a look led to.
type outcome struct {
	pending bool          // nothing yet: look again after wait
	files   []File        // what was offered; nil: nothing
	err     error         // why it is not in force
	wait    time.Duration // until the next look
}

// step looks once, and offers what it finds if that is new and whole. Where
// all is read, whatever the stamp says, if reading is set.
func (d *Directory) step(f *Follower, reading bool) outcome {
	begun := time.Now()
	if !reading && d.trusted && d.candidate == "" && begun.Sub(d.readAt) < min(20*d.reading, longestReading) {
		seen, err := look(d.dir, false)
		d.looking = time.Since(begun)
		if err == nil && seen.stamp == d.stamp {
			d.heard(f, begun)
			return outcome{wait: d.pause()}
		}
	}
	d.trusted = false
	begun = time.Now()
	seen, err := lookAgain(d.dir, true, f.bundle())
	if seen.stamp != d.stamp {
		d.stamp, d.stampAt = seen.stamp, begun
	}
	pause := d.pause()
	if d.watch.follow(seen.dirs) {
		pause = quiet // what was done before they were watched
	}
	content := ""
	if err == nil {
		content = revision(seen.files)
		d.readAt, d.reading = begun, time.Since(begun)
	} else {
		content = err.Error()
		seen.files = nil
	}
	if content != d.accepted || err != nil {
		if wait := d.unsettled(f, content, seen, begun); wait > 0 {
			return outcome{pending: true, wait: max(wait, time.Since(begun))}
		}
	}
	d.candidate, d.unrest = "", time.Time{}
	if err != nil {
		f.Unreadable(err)
		return outcome{err: err, wait: pause}
	}
	err = d.offer(f, seen.files, content)
	d.agreed = err == nil
	d.heard(f, begun)
	// What could not be recorded is tried again; a fault of the files is one
	// until they change.
	_, faults := errors.AsType[writ.Faults](err)
	d.trusted = (d.agreed || faults) && begun.Sub(d.stampAt) > coarsest
	return outcome{files: seen.files, err: err, wait: pause}
}

// unsettled returns how long to wait before what was just seen may count; 0:
// it does.
func (d *Directory) unsettled(f *Follower, content string, seen sight, now time.Time) time.Duration {
	if seen.swapped || !seen.newest.IsZero() && now.Sub(seen.newest) > calm && seen.files != nil {
		return 0
	}
	if d.unrest.IsZero() {
		d.unrest = now
	}
	if d.candidate != content {
		d.candidate, d.since = content, now
		if now.Sub(d.unrest) > d.restless {
			f.Unreadable(fmt.Errorf("reading the bundle %s: its content keeps changing, and is taken once it stays for %v", d.dir, settling))
		}
	}
	needed := settling
	for _, file := range seen.files {
		if file.Size() == 0 && d.sizes[file.Name] {
			needed = vacating
		}
	}
	return max(0, needed-now.Sub(d.since))
}

// offer numbers files and offers them, unless they are in force and all is
// well.
func (d *Directory) offer(f *Follower, files []File, content string) error {
	if content == d.accepted {
		if f.Status().Fault != nil {
			if err := f.Offer(d.generation, files); err != nil {
				return err
			}
		}
		d.keep(files, content)
		return nil
	}
	generation, err := d.state.number(content)
	if err != nil {
		err = fmt.Errorf("numbering a new bundle: %w", err)
		f.Unreadable(err)
		return err
	}
	if err := f.Offer(generation, files); err != nil {
		return err
	}
	d.state.used()
	d.accepted, d.generation, d.sizes = content, generation, make(map[string]bool, len(files))
	for _, file := range files {
		d.sizes[file.Name] = file.Size() > 0
	}
	d.keep(files, content)
	return nil
}

// keep keeps what is in force for a later start. Where that fails, or isn't
// wanted, nothing is kept: whatever was kept before is older than what has been
// answered from. It is tried again whenever everything is read.
func (d *Directory) keep(files []File, content string) {
	if d.dir == "" || d.cfg.Persist && d.kept == content {
		return
	}
	var err error
	if d.kept = ""; d.cfg.Persist {
		if err = d.state.keep(d.dir, files, content); err == nil {
			d.kept = content
		}
	}
	if d.kept == "" {
		err = errors.Join(err, d.state.forget())
	}
	if err != nil && !d.unkept {
		d.log.Warn("the bundle could not be kept for a later start", "error", err)
	}
	d.unkept = err != nil
}

// heard says that at t the directory was read, and all of it has been offered.
func (d *Directory) heard(f *Follower, t time.Time) {
	f.Heard(t)
	if d.kept != "" && d.agreed {
		if err := d.state.confirm(t); err != nil {
			d.log.Warn("the state of the bundle's source could not be written", "error", err)
		}
	}
}

// pause is how long to wait for the next look.
func (d *Directory) pause() time.Duration {
	return max(d.cfg.Poll, min(10*d.looking, longestWait))
}
