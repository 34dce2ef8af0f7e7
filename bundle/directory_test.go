package bundle_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/snapshot"
)

// patience bounds every wait. Machines that build other things are slow.
const patience = 30 * time.Second

// until waits for something to become true.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// text is the base as files of a directory, with other ones.
func text(t testing.TB, other map[string]string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, data := range base(t) {
		out[name] = string(data)
	}
	maps.Copy(out, other)
	return out
}

func put(t testing.TB, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hints says how a test's directory hears of changes.
type hints int

const (
	both   hints = iota
	events       // the poll comes in an hour
	polls        // there is no watcher
	hasty        // both, and it says at once that its content keeps changing
)

// following is a directory that is followed.
type following struct {
	*bundle.Follower
	t        testing.TB
	dir      string
	holder   *snapshot.Holder
	told     *told
	mu       sync.Mutex
	watchers []*fsnotify.Watcher // guarded by mu
	stop     func()
}

type option func(*bundle.DirectoryConfig, *bundle.FollowerConfig)

// follow follows dir until the test ends.
func follow(t testing.TB, dir string, h hints, options ...option) *following {
	t.Helper()
	f := &following{t: t, dir: dir, holder: &snapshot.Holder{}, told: &told{}}
	cfg := bundle.DirectoryConfig{Dir: dir, State: t.TempDir(), Poll: 20 * time.Millisecond}
	if h == events {
		cfg.Poll = time.Hour
	}
	own := bundle.FollowerConfig{Holder: f.holder, Import: imports, Changed: f.told.add}
	for _, o := range options {
		o(&cfg, &own)
	}
	d, err := bundle.OpenDirectory(cfg)
	must(t, err)
	if h == hasty {
		bundle.Hurry(d)
	}
	own.Source = d.Source()
	f.Follower, err = bundle.NewFollower(own)
	must(t, err)
	bundle.OpenWatchers(d, func() (*fsnotify.Watcher, error) {
		if h == polls {
			return nil, errors.New("no watcher here")
		}
		w, err := fsnotify.NewWatcher()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.watchers = append(f.watchers, w)
		return w, err
	})
	if err := d.Load(t.Context(), f.Follower); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, f.Follower) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

// watcher returns the first watcher, once it watches.
func (f *following) watcher() (w *fsnotify.Watcher) {
	f.t.Helper()
	until(f.t, "a watcher", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.watchers) > 0 {
			w = f.watchers[0]
		}
		return w != nil && len(w.WatchList()) > 3 // above, the directory, policies, servers
	})
	return w
}

// holds waits until the policy is in force, or isn't any more.
func (f *following) holds(id string, want bool) {
	f.t.Helper()
	until(f.t, "policy "+id+"\n"+f.told.events(), func() bool { return (f.holder.Load().Policies.Policy(id) != nil) == want })
}

// refused waits until the newest is refused for a reason that holds want.
func (f *following) refused(want string) bundle.Status {
	f.t.Helper()
	var s bundle.Status
	until(f.t, "a refusal that says "+want, func() bool {
		s = f.Status()
		return s.Fault != nil && strings.Contains(s.Fault.Error(), want)
	})
	return s
}

// well waits until the newest is in force.
func (f *following) well() {
	f.t.Helper()
	until(f.t, "it to be mended", func() bool { return f.Status().Fault == nil })
}

func (f *following) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// TestDirectoryEvents does to a bundle what people and programs do, with real
// files: each must be noticed by events alone, and by looking alone.
func TestDirectoryEvents(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, f *following)
	}{
		{"a file is written in place", func(t *testing.T, f *following) {
			put(t, f.path("policies/read.cedar"), another)
			f.holds("another", true)
			f.holds("no-diaries", false)
		}},
		{"a file is renamed over another", func(t *testing.T, f *following) {
			put(t, f.path("policies/.new"), another)
			must(t, os.Rename(f.path("policies/.new"), f.path("policies/read.cedar")))
			f.holds("another", true)
			f.holds("no-diaries", false)
		}},
		{"a file is renamed over another from elsewhere", func(t *testing.T, f *following) {
			elsewhere := filepath.Join(filepath.Dir(f.dir), "elsewhere")
			put(t, elsewhere, another)
			must(t, os.Rename(elsewhere, f.path("policies/read.cedar")))
			f.holds("another", true)
		}},
		{"a file is made and deleted", func(t *testing.T, f *following) {
			put(t, f.path("policies/x.cedar"), another)
			f.holds("another", true)
			must(t, os.Remove(f.path("policies/x.cedar")))
			f.holds("another", false)
		}},
		{"a file is made deep in new directories", func(t *testing.T, f *following) {
			put(t, f.path("policies/a/b/c/x.cedar"), another)
			f.holds("another", true)
			put(t, f.path("policies/a/b/c/x.cedar"), strings.ReplaceAll(another, "another", "other"))
			f.holds("other", true)
		}},
		{"what is needed is deleted and made again", func(t *testing.T, f *following) {
			was, err := os.ReadFile(f.path("policies/read.cedar"))
			must(t, err)
			must(t, os.Remove(f.path("policies/read.cedar")))
			f.refused("the bundle has no policy")
			f.holds("no-diaries", true)
			put(t, f.path("policies/read.cedar"), string(was))
			f.well()
			if s := f.Status(); s.Revision.Generation != 1 || s.Accepted != 1 {
				t.Errorf("back at the first: %+v", s)
			}
		}},
		{"a file is replaced by a directory", func(t *testing.T, f *following) {
			must(t, os.Rename(f.path("policies/read.cedar"), f.path(".kept")))
			must(t, os.Mkdir(f.path("policies/read.cedar"), 0o755))
			f.refused("no policy")
			put(t, f.path("policies/read.cedar/x.cedar"), another)
			f.holds("another", true)
			f.holds("no-diaries", false)
			must(t, os.RemoveAll(f.path("policies/read.cedar")))
			must(t, os.Rename(f.path(".kept"), f.path("policies/read.cedar")))
			f.holds("no-diaries", true)
		}},
		{"a directory is renamed away and back", func(t *testing.T, f *following) {
			must(t, os.Rename(f.path("policies"), f.path("polices")))
			if s := f.refused("no such directory belongs here"); !strings.Contains(s.Fault.Error(), "polices/read.cedar") {
				t.Errorf("without the place: %v", s.Fault)
			}
			must(t, os.Rename(f.path("polices"), f.path("policies")))
			f.well()
		}},
		{"a directory is renamed over an empty one", func(t *testing.T, f *following) {
			put(t, f.path(".next/x.cedar"), another)
			must(t, os.Rename(f.path("policies"), f.path(".old")))
			must(t, os.Rename(f.path(".next"), f.path("policies")))
			f.holds("another", true)
			put(t, f.path("policies/x.cedar"), strings.ReplaceAll(another, "another", "other"))
			f.holds("other", true)
		}},
		{"the bundle's directory is replaced by another", func(t *testing.T, f *following) {
			next := filepath.Join(filepath.Dir(f.dir), "next")
			for name, data := range text(t, policies(another)) {
				put(t, filepath.Join(next, name), data)
			}
			must(t, os.Rename(f.dir, f.dir+"-old"))
			must(t, os.Rename(next, f.dir))
			f.holds("another", true)
			// The new one is followed, not the old.
			put(t, filepath.Join(f.dir+"-old", "policies/x.cedar"), broken)
			put(t, f.path("policies/x.cedar"), strings.ReplaceAll(another, "another", "other"))
			f.holds("other", true)
		}},
		{"the bundle's directory is deleted and made again", func(t *testing.T, f *following) {
			must(t, os.RemoveAll(f.dir))
			f.refused("")
			f.holds("no-diaries", true)
			for name, data := range text(t, policies(another)) {
				put(t, f.path(name), data)
			}
			f.holds("another", true)
			f.well()
		}},
		{"a link to the bundle's directory is swapped", func(t *testing.T, f *following) {
			real := f.dir + "-1"
			must(t, os.Rename(f.dir, real))
			symlink(t, filepath.Base(real), f.dir)
			f.well()
			for name, data := range text(t, policies(another)) {
				put(t, filepath.Join(f.dir+"-2", name), data)
			}
			symlink(t, filepath.Base(f.dir)+"-2", f.dir+"-link")
			must(t, os.Rename(f.dir+"-link", f.dir))
			f.holds("another", true)
			put(t, f.path("policies/x.cedar"), strings.ReplaceAll(another, "another", "other"))
			f.holds("other", true)
		}},
		{"a link out of the bundle", func(t *testing.T, f *following) {
			outside := filepath.Join(filepath.Dir(f.dir), "secret.cedar")
			put(t, outside, another)
			symlink(t, outside, f.path("policies/x.cedar"))
			s := f.refused("symbolic link out of the bundle")
			if fault, ok := errors.AsType[writ.Fault](s.Fault); !ok || fault.File != "policies/x.cedar" {
				t.Errorf("without the place: %v", s.Fault)
			}
			f.holds("another", false)
			must(t, os.Remove(f.path("policies/x.cedar")))
			f.well()
		}},
		{"text that is no UTF-8", func(t *testing.T, f *following) {
			put(t, f.path("policies/x.cedar"), strings.Replace(another, "another", "\xff", 1))
			f.refused("policies/x.cedar")
			put(t, f.path("policies/x.cedar"), another)
			f.holds("another", true)
			f.well()
		}},
		{"a file over its limit", func(t *testing.T, f *following) {
			put(t, f.path("policies/x.cedar"), another+strings.Repeat("// long\n", 1<<17))
			s := f.refused("policies/x.cedar: it has more than 1048576 bytes")
			if fault, ok := errors.AsType[writ.Fault](s.Fault); !ok || fault.File != "policies/x.cedar" {
				t.Errorf("without the place: %v", s.Fault)
			}
			put(t, f.path("policies/x.cedar"), another)
			f.holds("another", true)
		}},
		{"a contract changes, and a policy doesn't fit it any more", func(t *testing.T, f *following) {
			tools := f.path("servers/notes.tools.json")
			was, err := os.ReadFile(tools)
			must(t, err)
			put(t, tools, strings.ReplaceAll(string(was), "title", "name"))
			if s := f.refused("title"); !strings.Contains(s.Fault.Error(), "policies/read.cedar:7") {
				t.Errorf("without the policy's place: %v", s.Fault)
			}
			f.holds("no-diaries", true)
			put(t, tools, string(was))
			f.well()
		}},
		{"an entity twice, in two files", func(t *testing.T, f *following) {
			one := `[{"uid": {"type": "User", "id": "ann"}, "attrs": {}, "parents": []}]`
			put(t, f.path("entities/a.json"), one)
			until(t, "ann", func() bool { return f.holder.Load().Entities.Len() == 1 })
			put(t, f.path("entities/b.json"), one)
			f.refused("entities/b.json")
			put(t, f.path("entities/b.json"), strings.Replace(one, "ann", "ben", 1))
			until(t, "ben", func() bool { return f.holder.Load().Entities.Len() == 2 })
			must(t, os.RemoveAll(f.path("entities")))
			f.refused("suddenly has no entity")
		}},
		{"a fault, and what was there before", func(t *testing.T, f *following) {
			put(t, f.path("policies/x.cedar"), another)
			f.holds("another", true)
			put(t, f.path("policies/x.cedar"), broken)
			s := f.refused("policies/x.cedar:2")
			if s.Revision.Generation != 2 {
				t.Errorf("in force: %v", s.Revision)
			}
			put(t, f.path("policies/x.cedar"), another)
			f.well()
			if s := f.Status(); s.Revision.Generation != 2 {
				t.Errorf("in force: %v", s.Revision)
			}
			// And the one before that, which is a new generation.
			must(t, os.Remove(f.path("policies/x.cedar")))
			f.holds("another", false)
			if s := f.Status(); s.Revision.Generation != 3 {
				t.Errorf("in force: %v", s.Revision)
			}
		}},
	} {
		for h, how := range map[hints]string{events: "events", polls: "polls"} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "bundle")
				for name, data := range text(t, nil) {
					put(t, filepath.Join(dir, name), data)
				}
				f := follow(t, dir, h)
				f.holds("no-diaries", true)
				tt.do(t, f)
				f.stop()
			})
		}
	}
}

// kubelet publishes files as its atomic writer does (kubernetes,
// pkg/volume/util/atomic_writer.go): a new hidden directory with a time in its
// name, the link ..data renamed over, links for new names, and the old
// directory removed last.
func kubelet(t *testing.T, dir, stamp string, files map[string]string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	for name, data := range files {
		put(t, filepath.Join(dir, "..2026_"+stamp, name), data)
	}
	symlink(t, "..2026_"+stamp, filepath.Join(dir, "..data_tmp"))
	must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		if _, err := os.Lstat(filepath.Join(dir, first)); err != nil {
			symlink(t, filepath.Join("..data", first), filepath.Join(dir, first))
		}
	}
	if old != "" {
		must(t, os.RemoveAll(filepath.Join(dir, old)))
	}
}

func TestDirectorySwap(t *testing.T) {
	for h, how := range map[hints]string{events: "events", polls: "polls"} {
		t.Run(how, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bundle")
			kubelet(t, dir, "0", text(t, nil))
			f := follow(t, dir, h)
			for i, id := range []string{"one", "two", "three"} {
				kubelet(t, dir, id, text(t, policies(strings.ReplaceAll(another, "another", id))))
				f.holds(id, true)
				if got := f.Status().Revision.Generation; got != uint64(i+2) {
					t.Errorf("%s is generation %d", id, got)
				}
			}
			kubelet(t, dir, "bad", text(t, policies(broken)))
			f.refused("policies/x.cedar:2")
			f.holds("three", true)
			kubelet(t, dir, "good", text(t, nil))
			f.holds("three", false)
			f.well()
		})
	}
}

// What is being written isn't taken for what was meant: a file that has just
// been emptied, and one that is written piece by piece.
func TestDirectoryTornWrite(t *testing.T) {
	for h, how := range map[hints]string{both: "both", polls: "polls"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := write(t, text(t, map[string]string{"policies/forbid.cedar": strings.Replace(another, "permit", "@code(\"X_DENIED\")\nforbid", 1)}))
			f := follow(t, dir, h)
			f.holds("another", true)
			file, err := os.OpenFile(f.path("policies/forbid.cedar"), os.O_WRONLY|os.O_TRUNC, 0)
			must(t, err)
			defer file.Close()
			// Nothing is in the file for a while: without it the bundle is good,
			// and permits more.
			time.Sleep(300 * time.Millisecond)
			for _, piece := range strings.SplitAfter(strings.Replace(another, "permit", "@code(\"Y_DENIED\")\nforbid", 1), "\n") {
				_, err := file.WriteString(piece)
				must(t, err)
				time.Sleep(20 * time.Millisecond)
			}
			until(t, "the new file", func() bool {
				p := f.holder.Load().Policies.Policy("another")
				if p == nil {
					t.Fatal("the forbid was out of force while its file was written")
				}
				return p.Code == "Y_DENIED"
			})
		})
	}
}

// A file that doesn't parse because it is cut off mends itself.
func TestDirectoryHalfWritten(t *testing.T) {
	dir := write(t, text(t, nil))
	f := follow(t, dir, both)
	put(t, f.path("policies/x.cedar"), another[:len(another)/2])
	f.refused("policies/x.cedar")
	put(t, f.path("policies/x.cedar"), another)
	f.holds("another", true)
	f.well()
}

// Content that never stays is a fault, and is taken when it does.
func TestDirectoryRestless(t *testing.T) {
	t.Parallel()
	f := follow(t, write(t, text(t, nil)), hasty)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				_ = os.WriteFile(f.path("policies/x.cedar"), []byte(another+strings.Repeat("//\n", i%100)), 0o644)
			}
		}
	}()
	f.refused("keeps changing")
	close(stop)
	<-stopped
	f.holds("another", true)
	f.well()
}

// Lost events, and a watcher that dies, delay nothing for longer than a poll.
func TestDirectoryLostEvents(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose func(t *testing.T, w *fsnotify.Watcher, dir string)
	}{
		{"overflow", func(t *testing.T, w *fsnotify.Watcher, dir string) {
			// The queue overflowed, and everything in it is lost.
			for _, path := range w.WatchList() {
				_ = w.Remove(path)
			}
			put(t, filepath.Join(dir, "policies/x.cedar"), another)
			w.Errors <- fsnotify.ErrEventOverflow
		}},
		{"closed", func(t *testing.T, w *fsnotify.Watcher, dir string) {
			must(t, w.Close())
			put(t, filepath.Join(dir, "policies/x.cedar"), another)
		}},
		{"failing", func(t *testing.T, w *fsnotify.Watcher, dir string) {
			w.Errors <- errors.New("input/output error")
			put(t, filepath.Join(dir, "policies/x.cedar"), another)
		}},
		{"silent", func(t *testing.T, w *fsnotify.Watcher, dir string) {
			for _, path := range w.WatchList() {
				_ = w.Remove(path)
			}
			put(t, filepath.Join(dir, "policies/x.cedar"), another)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := follow(t, write(t, text(t, nil)), both, func(d *bundle.DirectoryConfig, _ *bundle.FollowerConfig) {
				d.Poll = 200 * time.Millisecond
			})
			tt.lose(t, f.watcher(), f.dir)
			f.holds("another", true)
			must(t, os.Remove(f.path("policies/x.cedar")))
			f.holds("another", false)
			f.stop()
		})
	}
}

// A change that keeps size and time is found: by the time of the inode where
// there is one, and by reading everything in any case.
func TestDirectoryHiddenChange(t *testing.T) {
	f := follow(t, write(t, text(t, policies(another))), polls)
	f.holds("another", true)
	name := f.path("policies/x.cedar")
	info, err := os.Stat(name)
	must(t, err)
	put(t, name, strings.ReplaceAll(another, "another", "someone"))
	must(t, os.Chtimes(name, info.ModTime(), info.ModTime()))
	f.holds("someone", true)
}

// Run leaves no goroutine behind, whatever became of its watcher.
func TestDirectoryLeavesNothing(t *testing.T) {
	stacks := make([]byte, 1<<20)
	runs := func() bool {
		s := string(stacks[:runtime.Stack(stacks, true)])
		return strings.Contains(s, "bundle.(*Directory)") || strings.Contains(s, "fsnotify.(*")
	}
	until(t, "other tests to end", func() bool { return !runs() })
	for _, closed := range []bool{false, true} {
		f := follow(t, write(t, text(t, nil)), events)
		put(t, f.path("policies/x.cedar"), another)
		f.holds("another", true)
		if !runs() {
			t.Error("nothing is seen to run")
		}
		if closed {
			must(t, f.watcher().Close())
		}
		f.stop()
		until(t, "goroutines of the directory to end", func() bool { return !runs() })
	}
}

// The source is heard as long as it can be read, and its newest is known.
func TestDirectoryHeard(t *testing.T) {
	f := follow(t, write(t, text(t, nil)), both)
	heard := func() {
		t.Helper()
		now := time.Now()
		until(t, "the source to be heard", func() bool { return f.Status().HeardAt.After(now) })
	}
	heard()
	// A bundle that is refused is no silence.
	put(t, f.path("policies/x.cedar"), broken)
	f.refused("policies/x.cedar:2")
	heard()
	// A directory that is gone is.
	must(t, os.RemoveAll(f.dir))
	f.refused("no such file")
	last := f.Status().HeardAt
	time.Sleep(200 * time.Millisecond) // ten polls
	if now := f.Status().HeardAt; !now.Equal(last) {
		t.Errorf("heard at %v, after %v", now, last)
	}
}
