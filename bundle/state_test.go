package bundle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/snapshot"
)

// started is what one start of a server leads to, without Run.
type started struct {
	source string
	status bundle.Status
	world  *snapshot.Snapshot
	err    error
	told   string
}

func begin(t testing.TB, cfg bundle.DirectoryConfig) started {
	t.Helper()
	d, err := bundle.OpenDirectory(cfg)
	must(t, err)
	holder, log := &snapshot.Holder{}, &told{}
	f, err := bundle.NewFollower(bundle.FollowerConfig{Holder: holder, Source: d.Source(), Import: imports, Changed: log.add})
	must(t, err)
	err = d.Load(context.Background(), f)
	return started{d.Source(), f.Status(), holder.Load(), err, log.events()}
}

// A source keeps its name and its count over starts, whatever it was that
// stopped it.
func TestDirectoryCount(t *testing.T) {
	dir, state := write(t, text(t, nil)), filepath.Join(t.TempDir(), "data", "bundle")
	cfg := bundle.DirectoryConfig{Dir: dir, State: state}
	first := begin(t, cfg)
	if first.err != nil || first.status.Revision.Generation != 1 || len(first.source) < 4 {
		t.Fatalf("first: %+v", first)
	}
	for _, step := range []struct {
		what, file string
		want       uint64 // generation; 0: refused
	}{
		{"the same", "", 1},
		{"another", another, 2},
		{"the same", another, 2},
		{"a broken one", broken, 0},
		{"the one before", another, 4}, // 3 may have been in force
		{"the first", "", 5},
		{"the same", "", 5},
	} {
		must(t, os.RemoveAll(filepath.Join(dir, "policies/x.cedar")))
		if step.file != "" {
			put(t, filepath.Join(dir, "policies/x.cedar"), step.file)
		}
		got := begin(t, cfg)
		if got.source != first.source || got.status.Revision.Generation != step.want || (got.err == nil) != (step.want > 0) || (got.world == nil) != (step.want == 0) {
			t.Errorf("%s: generation %d of %s, want %d of %s: %v", step.what, got.status.Revision.Generation, got.source, step.want, first.source, got.err)
		}
	}
	// Without its state it is another source.
	must(t, os.RemoveAll(state))
	if got := begin(t, cfg); got.source == first.source || got.status.Revision.Generation != 1 {
		t.Errorf("anew: %+v", got.status.Revision)
	}
}

// A number is on the disk before its world is in force.
func TestDirectoryCountIsDurable(t *testing.T) {
	dir, state := write(t, text(t, nil)), t.TempDir()
	d, err := bundle.OpenDirectory(bundle.DirectoryConfig{Dir: dir, State: state})
	must(t, err)
	holder := &snapshot.Holder{}
	f, err := bundle.NewFollower(bundle.FollowerConfig{Holder: holder, Source: d.Source(), Import: imports})
	must(t, err)
	must(t, os.Chmod(state, 0o500))
	t.Cleanup(func() { os.Chmod(state, 0o700) })
	if os.WriteFile(filepath.Join(state, "probe"), nil, 0o600) == nil {
		// Whoever may write anywhere is kept from it otherwise.
		must(t, os.Chmod(state, 0o700))
		must(t, os.RemoveAll(state))
	}
	if err := d.Load(t.Context(), f); err == nil || holder.Load() != nil || f.Status().Fault == nil {
		t.Errorf("in force without a number: %v", err)
	}
}

func TestDirectoryStateDamaged(t *testing.T) {
	dir := write(t, text(t, nil))
	for _, data := range []string{"", "{", `{"source": "A"}`, `{"source": "abcd", "generation": 3}`, `{"source": "abcd", "generation": -1, "bundle": "x"}`, `{"source": "abcd", "more": 1}`} {
		state := write(t, map[string]string{"source.json": data})
		if d, err := bundle.OpenDirectory(bundle.DirectoryConfig{Dir: dir, State: state}); err == nil || d != nil || !strings.Contains(err.Error(), "source.json") {
			t.Errorf("%q: %v", data, err)
		}
	}
	if _, err := bundle.OpenDirectory(bundle.DirectoryConfig{Dir: dir}); err == nil {
		t.Error("without a state")
	}
}

// A start while the source is broken goes on with the bundle that was kept.
func TestDirectoryKept(t *testing.T) {
	breaks := map[string]func(t *testing.T, dir string){
		"a fault":    func(t *testing.T, dir string) { put(t, filepath.Join(dir, "policies/x.cedar"), broken) },
		"gone":       func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
		"emptied":    func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, "servers"))) },
		"unreadable": func(t *testing.T, dir string) { symlink(t, "/etc/hosts", filepath.Join(dir, "policies/y.cedar")) },
	}
	for name, do := range breaks {
		t.Run(name, func(t *testing.T) {
			dir, state := write(t, text(t, policies(another))), t.TempDir()
			cfg := bundle.DirectoryConfig{Dir: dir, State: state, Persist: true}
			first := begin(t, cfg)
			must(t, first.err)
			do(t, dir)
			for i := range 3 { // and again, and again
				got := begin(t, cfg)
				if got.err != nil || got.world.Policies.Policy("another") == nil || got.status.Revision.Bundle != first.status.Revision.Bundle || got.status.Fault == nil {
					t.Fatalf("start %d: %v, %+v", i, got.err, got.status)
				}
				if got.status.Revision.Generation <= first.status.Revision.Generation && name == "a fault" {
					t.Errorf("the broken one may have been in force as %d, and what came back is not newer", got.status.Revision.Generation)
				}
				if _, faults := errors.AsType[writ.Faults](got.status.Fault); faults == (name == "unreadable" || name == "gone") {
					t.Errorf("the fault is %v", got.status.Fault)
				}
			}
			// Not without being asked, and not for another directory.
			cfg.Persist = false
			if got := begin(t, cfg); got.err == nil || got.world != nil {
				t.Errorf("unasked: %+v", got.status)
			}
			cfg.Persist, cfg.Dir = true, dir+"-other"
			if got := begin(t, cfg); got.err == nil || got.world != nil || !strings.Contains(got.err.Error(), "is of "+dir) {
				t.Errorf("another directory: %v", got.err)
			}
		})
	}
}

func TestDirectoryKeptIsChecked(t *testing.T) {
	edit := func(name string, do func(data []byte) []byte) func(t *testing.T, state string) {
		return func(t *testing.T, state string) {
			path := filepath.Join(state, name)
			data, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, do(data), 0o600))
		}
	}
	confirmed := func(at time.Time) func(data []byte) []byte {
		return func(data []byte) []byte {
			var s map[string]any
			must(t, json.Unmarshal(data, &s))
			s["confirmed_at"] = at
			data, err := json.Marshal(s)
			must(t, err)
			return data
		}
	}
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, state string)
		want string // empty: it is taken
	}{
		{"as it is", func(*testing.T, string) {}, ""},
		{"young enough", edit("source.json", confirmed(time.Now().Add(-50*time.Minute))), ""},
		{"too old", edit("source.json", confirmed(time.Now().Add(-61*time.Minute))), "too old"},
		{"of the future", edit("source.json", confirmed(time.Now().Add(time.Hour))), "the clock was set back"},
		{"gone", func(t *testing.T, state string) { must(t, os.Remove(filepath.Join(state, "last-good.tar"))) }, "none has been kept"},
		{"a changed byte", edit("last-good.tar", func(d []byte) []byte {
			return []byte(strings.Replace(string(d), `"diary"`, `"diery"`, 1))
		}), "damaged"},
		{"cut off", edit("last-good.tar", func(d []byte) []byte { return d[:len(d)/2] }), "no whole archive"},
		{"empty", edit("last-good.tar", func(d []byte) []byte { return nil }), "no whole archive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, state := write(t, text(t, nil)), t.TempDir()
			cfg := bundle.DirectoryConfig{Dir: dir, State: state, Persist: true, MaxAge: time.Hour}
			must(t, begin(t, cfg).err)
			must(t, os.RemoveAll(dir))
			tt.do(t, state)
			got := begin(t, cfg)
			switch {
			case tt.want == "" && (got.err != nil || got.world == nil):
				t.Errorf("not taken: %v", got.err)
			case tt.want != "" && (got.err == nil || got.world != nil || !strings.Contains(got.err.Error(), tt.want) || !strings.Contains(got.err.Error(), "no such file")):
				t.Errorf("%v, want %s", got.err, tt.want)
			}
		})
	}
}

// What is kept is what was in force last, or nothing: a later start doesn't go
// back behind a bundle that was answered from.
func TestDirectoryKeptIsTheLast(t *testing.T) {
	hindered := func(state string) string { return filepath.Join(state, ".last-good.tar.new") }
	second := strings.ReplaceAll(another, "another", "second")
	for _, persist := range []bool{true, false} {
		t.Run(fmt.Sprintf("persist %t", persist), func(t *testing.T) {
			dir, state := write(t, text(t, policies(another))), t.TempDir()
			cfg := bundle.DirectoryConfig{Dir: dir, State: state, Persist: true}
			must(t, begin(t, cfg).err)
			must(t, os.MkdirAll(filepath.Join(hindered(state), "x"), 0o700)) // no file goes in its place
			put(t, filepath.Join(dir, "policies/a.cedar"), second)
			cfg.Persist = persist
			if got := begin(t, cfg); got.err != nil || got.world.Policies.Policy("second") == nil {
				t.Fatalf("%v, %+v", got.err, got.status)
			}
			put(t, filepath.Join(dir, "policies/a.cedar"), broken)
			cfg.Persist = true
			if got := begin(t, cfg); got.err == nil || got.world != nil || !strings.Contains(got.err.Error(), "none has been kept") {
				t.Errorf("%v, %+v", got.err, got.status)
			}
		})
	}
	// What hindered is not for ever.
	dir, state := write(t, text(t, policies(another))), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(hindered(state), "x"), 0o700))
	f := follow(t, dir, both, func(d *bundle.DirectoryConfig, _ *bundle.FollowerConfig) { d.State, d.Persist = state, true })
	f.holds("another", true)
	must(t, os.RemoveAll(hindered(state)))
	until(t, "the bundle to be kept", func() bool {
		_, err := os.Stat(filepath.Join(state, "last-good.tar"))
		return err == nil
	})
}

// What is kept goes out of force when the directory is mended.
func TestDirectoryKeptThenMended(t *testing.T) {
	dir, state := write(t, text(t, policies(another))), t.TempDir()
	must(t, begin(t, bundle.DirectoryConfig{Dir: dir, State: state, Persist: true}).err)
	put(t, filepath.Join(dir, "policies/x.cedar"), broken)
	f := follow(t, dir, both, func(d *bundle.DirectoryConfig, _ *bundle.FollowerConfig) { d.State, d.Persist = state, true })
	f.holds("another", true)
	f.refused("policies/x.cedar:2")
	put(t, filepath.Join(dir, "policies/x.cedar"), strings.ReplaceAll(another, "another", "mended"))
	f.holds("mended", true)
	f.well()
}

// FuzzKept reads archives that somebody else's hands were on: they are refused,
// or hold no more than a bundle may.
func FuzzKept(f *testing.F) {
	dir, state := write(f, text(f, nil)), f.TempDir()
	must(f, begin(f, bundle.DirectoryConfig{Dir: dir, State: state, Persist: true}).err)
	whole, err := os.ReadFile(filepath.Join(state, "last-good.tar"))
	must(f, err)
	f.Add(whole)
	f.Add(whole[:1024])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := bundle.ReadKept(data)
		if err != nil && files != nil {
			t.Errorf("%d files, and %v", len(files), err)
		}
		for _, file := range files {
			if len(file.Data) > 64<<20 {
				t.Errorf("%q has %d bytes", file.Name, len(file.Data))
			}
		}
	})
}
