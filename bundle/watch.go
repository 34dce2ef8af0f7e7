package bundle

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// reopening is how long after a watcher was lost another one is tried.
const reopening = 30 * time.Second

// watch gives hints that something may have changed in a directory, or in
// what its links lead to, or that the directory itself was replaced. Nothing
// rests on it. It is of one goroutine.
type watch struct {
	dir  string // absolute
	log  *slog.Logger
	open func() (*fsnotify.Watcher, error)

	running bool                   // there is somebody to take the events
	watcher *fsnotify.Watcher      // nil: none
	tried   time.Time              // when open was called last
	on      map[string]fs.FileInfo // what is watched, by its path without links
	above   string                 // the directory that holds dir, without links
	full    bool                   // not everything could be watched, and that has been said
}

// follow watches dirs, which are relative, the directory above, and no others.
// It reports whether any is newly watched: what happened there before that was
// not seen.
func (w *watch) follow(dirs []string) (added bool) {
	if w.watcher == nil {
		if !w.running || time.Since(w.tried) < reopening {
			return false
		}
		w.tried = time.Now()
		watcher, err := w.open()
		if err != nil {
			w.log.Warn("the bundle's directory cannot be watched: it is only looked at regularly", "error", err)
			return false
		}
		w.watcher, w.on = watcher, map[string]fs.FileInfo{}
	}
	want := make(map[string]fs.FileInfo, len(dirs)+1)
	add := func(path string) string {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "" // gone again: the next look says so
		}
		info, err := os.Stat(real)
		if err != nil {
			return ""
		}
		want[real] = info
		return real
	}
	w.above = add(filepath.Dir(w.dir))
	for _, dir := range dirs {
		add(filepath.Join(w.dir, filepath.FromSlash(dir)))
	}
	for path, was := range w.on {
		if is, ok := want[path]; !ok || !os.SameFile(was, is) {
			_ = w.watcher.Remove(path) // the system may have dropped it already
			delete(w.on, path)
		}
	}
	for path, info := range want {
		if _, ok := w.on[path]; ok {
			continue
		}
		if err := w.watcher.Add(path); err == nil {
			w.on[path], added = info, true
		} else if !w.full {
			w.full = true
			w.log.Warn("not every directory of the bundle can be watched: those are only looked at regularly", "error", err)
		}
	}
	return added
}

// concerns reports whether an event is about the bundle, and not about what
// lies beside it.
func (w *watch) concerns(e fsnotify.Event) bool {
	if _, watched := w.on[w.above]; !watched || filepath.Dir(e.Name) != w.above {
		return true
	}
	return filepath.Base(e.Name) == filepath.Base(w.dir)
}

// events is nil, which never gives anything, while nothing is watched.
func (w *watch) events() <-chan fsnotify.Event {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Events
}

func (w *watch) errors() <-chan error {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Errors
}

// lost gives the watcher up. Another one is tried later.
func (w *watch) lost(why error) {
	w.log.Warn("the bundle's directory is not watched for a while: it is only looked at regularly", "error", why)
	w.tried = time.Now()
	w.close()
}

func (w *watch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close() // nothing rests on it
		w.watcher, w.on = nil, nil
	}
}
