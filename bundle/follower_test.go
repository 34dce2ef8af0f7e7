package bundle_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// told is what a follower tells, in its order.
type told struct {
	mu  sync.Mutex
	all []bundle.Status
}

func (t *told) add(s bundle.Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, s)
}

// events says of each: accepted, refused or mended.
func (t *told) events() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	generation := uint64(0)
	for _, s := range t.all {
		switch {
		case s.Fault != nil:
			out = append(out, "refused")
		case s.Revision.Generation > generation:
			out = append(out, fmt.Sprint("accepted ", s.Revision.Generation))
		default:
			out = append(out, "mended")
		}
		generation = s.Revision.Generation
	}
	return strings.Join(out, ", ")
}

// imports is a log that holds just what bundles say.
func imports(entries []revocation.Entry) (*revocation.View, error) { return revocation.New(entries) }

func follower(t testing.TB, cfg bundle.FollowerConfig) *bundle.Follower {
	t.Helper()
	if cfg.Holder == nil {
		cfg.Holder = &snapshot.Holder{}
	}
	cfg.Source = "test"
	f, err := bundle.NewFollower(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// with is the base with other files; nil removes one.
func with(t testing.TB, other map[string]string) []bundle.File {
	t.Helper()
	files := base(t)
	for name, text := range other {
		files[name] = []byte(text)
	}
	maps.DeleteFunc(files, func(_ string, data []byte) bool { return len(data) == 0 })
	return list(files)
}

const (
	another = "@id(\"another\")\npermit (principal, action == Action::\"notes/read_note\", resource);\n"
	broken  = "@id(\"broken\")\npermit (principal, action == Action::\"notes/reed_note\", resource);\n"
	ann     = "revocations:\n- {kind: actor, id: ann}\n"
)

func policies(files string) map[string]string { return map[string]string{"policies/x.cedar": files} }

func TestFollower(t *testing.T) {
	holder, log := &snapshot.Holder{}, &told{}
	f := follower(t, bundle.FollowerConfig{Holder: holder, Import: imports, Changed: log.add})
	good, next, bad := with(t, nil), with(t, policies(another)), with(t, policies(broken))

	if s := f.Status(); s.Revision != (snapshot.Revision{}) || s.Fault != nil || holder.Load() != nil {
		t.Errorf("before the first: %+v", s)
	}
	before := time.Now()
	if err := f.Offer(1, good); err != nil {
		t.Fatal(err)
	}
	world := holder.Load()
	built, _ := bundle.Build(good, nil)
	if want := built.Snapshot.Revision + "@test.1.0"; world.Revision != want || f.Status().Revision.String() != want {
		t.Errorf("revision %q, status %q, want %q", world.Revision, f.Status().Revision, want)
	}
	if world.LoadedAt.Before(before) || world.LoadedAt != f.Status().LoadedAt {
		t.Errorf("loaded at %v", world.LoadedAt)
	}

	// Whatever is wrong, the last good world stays, and the status has the place.
	err := f.Offer(2, bad)
	faults, ok := errors.AsType[writ.Faults](err)
	if !ok || faults[0].File != "policies/x.cedar" || faults[0].Line != 2 {
		t.Errorf("refused with %v", err)
	}
	s := f.Status()
	if holder.Load() != world || s.Fault == nil || s.Fault.Error() != err.Error() || s.Since.Before(before) || !strings.HasPrefix(s.Refused, "sha256:") || s.Revision.Generation != 1 {
		t.Errorf("after a bad one: %+v", s)
	}
	// The same again is told once, and keeps its time.
	if f.Offer(2, bad) == nil || f.Status().Since != s.Since {
		t.Error("a bad one again")
	}
	// Back at what is in force.
	if err := f.Offer(1, good); err != nil || f.Status().Fault != nil || !f.Status().Since.IsZero() || holder.Load() != world {
		t.Errorf("back: %v, %+v", err, f.Status())
	}
	// The number of a refused one is free.
	if err := f.Offer(2, next); err != nil || holder.Load().Policies.Policy("another") == nil {
		t.Errorf("mended: %v", err)
	}
	// Never back.
	for _, o := range []struct {
		generation uint64
		files      []bundle.File
	}{{0, good}, {1, good}, {2, good}} {
		if err := f.Offer(o.generation, o.files); err == nil || holder.Load().Revision != f.Status().Revision.String() || f.Status().Revision.Generation != 2 || f.Status().Fault != nil {
			t.Errorf("generation %d: %v, %+v", o.generation, err, f.Status())
		}
	}
	// An old bundle that comes back is a new generation.
	if err := f.Offer(7, good); err != nil || holder.Load().Policies.Policy("another") != nil || holder.Load().Revision != built.Snapshot.Revision+"@test.7.0" {
		t.Errorf("an old one: %v, %s", err, holder.Load().Revision)
	}
	// So is the same bundle once more.
	if err := f.Offer(8, good); err != nil || holder.Load().Revision != built.Snapshot.Revision+"@test.8.0" {
		t.Errorf("the same: %v, %s", err, holder.Load().Revision)
	}
	f.Unreadable(errors.New("no disk"))
	f.Unreadable(errors.New("no disk"))
	if s := f.Status(); s.Fault == nil || s.Refused != "" || s.Accepted != 4 || s.Refusals != 2 {
		t.Errorf("unreadable: %+v", s)
	}
	if got, want := log.events(), "accepted 1, refused, mended, accepted 2, accepted 7, accepted 8, refused"; got != want {
		t.Errorf("told\n%s, want\n%s", got, want)
	}
	f.Heard(before)
	if !f.Status().HeardAt.Equal(before) || !holder.HeardAt().Equal(before) {
		t.Errorf("heard at %v", f.Status().HeardAt)
	}
}

// Files that are no part of a bundle are no part of its revision.
func TestFollowerIgnores(t *testing.T) {
	holder := &snapshot.Holder{}
	f := follower(t, bundle.FollowerConfig{Holder: holder, Import: imports})
	if err := f.Offer(1, with(t, map[string]string{"README.md": "one"})); err != nil {
		t.Fatal(err)
	}
	world := holder.Load()
	if err := f.Offer(1, with(t, map[string]string{"README.md": "two"})); err != nil || holder.Load() != world {
		t.Errorf("%v", err)
	}
}

func TestFollowerEmptied(t *testing.T) {
	entity := map[string]string{"entities/e.json": `[{"uid": {"type": "User", "id": "ann"}, "attrs": {}, "parents": []}]`}
	for _, tt := range []struct {
		name  string
		allow bool
		files []bundle.File
		want  string // part of the error; empty: accepted
	}{
		{"no entity", false, with(t, nil), "suddenly has no entity, where the one in force has 1"},
		{"no entity, allowed", true, with(t, nil), ""},
		{"no policy", false, with(t, map[string]string{"policies/read.cedar": "// nothing\n"}), "no policy"},
		{"no policy, allowed", true, with(t, map[string]string{"policies/read.cedar": "// nothing\n"}), "no policy"}, // nothing to serve
		{"nothing", true, nil, "no server"},
	} {
		holder := &snapshot.Holder{}
		f := follower(t, bundle.FollowerConfig{Holder: holder, Import: imports, AllowEmpty: tt.allow})
		if err := f.Offer(1, with(t, entity)); err != nil {
			t.Fatal(err)
		}
		first := holder.Load()
		for range 2 {
			err := f.Offer(2, tt.files)
			if tt.want == "" {
				if err != nil || holder.Load() == first {
					t.Errorf("%s: %v", tt.name, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.want) || holder.Load() != first {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
			}
		}
	}
}

// What the bundle revokes is in the log before the bundle is in force, or the
// bundle isn't; and that is tried again, though nothing changed.
func TestFollowerImport(t *testing.T) {
	holder := &snapshot.Holder{}
	fail, calls := true, 0
	f := follower(t, bundle.FollowerConfig{Holder: holder, Import: func(entries []revocation.Entry) (*revocation.View, error) {
		calls++
		if holder.Load() != nil {
			t.Error("in force before its revocations")
		}
		if fail {
			return nil, errors.New("disk full")
		}
		return revocation.New(entries)
	}})
	files := with(t, map[string]string{"revocations.yaml": ann})
	for range 2 {
		if err := f.Offer(1, files); err == nil || !strings.Contains(err.Error(), "disk full") || holder.Load() != nil {
			t.Fatalf("got %v", err)
		}
	}
	fail = false
	if err := f.Offer(1, files); err != nil || calls != 3 {
		t.Fatalf("%v after %d calls", err, calls)
	}
	if _, revoked := holder.Load().Revocations.Revoked(revocation.Actor, "", "ann", time.Time{}, time.Now()); !revoked {
		t.Error("ann may act")
	}
	// Without a log there is nothing to go by.
	f = follower(t, bundle.FollowerConfig{})
	if err := f.Offer(1, files); err == nil || f.Status().Accepted != 0 {
		t.Error("a bundle is in force and nobody has said what is revoked")
	}
	f.Revoke(&revocation.View{})
	if err := f.Offer(1, files); err != nil {
		t.Error(err)
	}
}

func views(t testing.TB, n int) []*revocation.View {
	t.Helper()
	var entries []revocation.Entry
	out := []*revocation.View{{}}
	for i := range n {
		entries = append(entries, revocation.Entry{Kind: revocation.Token, Issuer: "i", ID: fmt.Sprint(i)})
		v, err := revocation.New(entries)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

func TestFollowerRevoke(t *testing.T) {
	holder := &snapshot.Holder{}
	f := follower(t, bundle.FollowerConfig{Holder: holder, Import: imports})
	all := views(t, 5)
	f.Revoke(all[2])
	f.Revoke(nil)
	if err := f.Offer(1, with(t, nil)); err != nil { // its own log is behind
		t.Fatal(err)
	}
	for _, step := range []struct {
		view int
		want uint64
	}{{1, 2}, {2, 2}, {4, 4}, {3, 4}, {5, 5}} {
		loaded := holder.Load().LoadedAt
		f.Revoke(all[step.view])
		w := holder.Load()
		if w.Revocations.Sequence() != step.want || f.Status().Revision.Sequence != step.want || !strings.HasSuffix(w.Revision, fmt.Sprintf("@test.1.%d", step.want)) || w.LoadedAt != loaded {
			t.Errorf("after view %d: %s, status %s", step.view, w.Revision, f.Status().Revision)
		}
	}
}

// Offer and Revoke at once, with readers: nobody sees a world that is older
// than one seen before, or whose parts don't fit its name.
func TestFollowerRace(t *testing.T) {
	holder := &snapshot.Holder{}
	f := follower(t, bundle.FollowerConfig{Holder: holder, Import: imports})
	all := views(t, 300)
	worlds := [2][]bundle.File{with(t, nil), with(t, policies(another))}
	f.Revoke(all[0])
	if err := f.Offer(1, worlds[1]); err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var last snapshot.Revision
			for !done.Load() {
				w := holder.Load()
				r, err := snapshot.ParseRevision(w.Revision)
				if err != nil || r.Generation < last.Generation || r.Sequence < last.Sequence {
					t.Errorf("%v after %v: %v", r, last, err)
					return
				}
				if (w.Policies.Policy("another") != nil) != (r.Generation%2 == 1) || w.Revocations.Sequence() != r.Sequence {
					t.Errorf("%v holds another world", r)
					return
				}
				last = r
			}
		})
	}
	for half := range 2 {
		writers.Go(func() {
			for i := half; i < len(all); i += 2 {
				f.Revoke(all[i])
				if got := holder.Load().Revocations.Sequence(); got < all[i].Sequence() {
					t.Errorf("sequence %d is in force after %d was revoked", got, all[i].Sequence())
				}
			}
		})
	}
	writers.Go(func() {
		for g := uint64(2); g <= 40; g++ {
			if err := f.Offer(g, worlds[g%2]); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	done.Store(true)
	readers.Wait()
	if s := f.Status(); s.Revision.Generation != 40 || s.Revision.Sequence != 300 {
		t.Errorf("ended at %v", s.Revision)
	}
}

func TestNewFollowerRefuses(t *testing.T) {
	for _, cfg := range []bundle.FollowerConfig{
		{Source: "test"}, {Holder: &snapshot.Holder{}}, {Holder: &snapshot.Holder{}, Source: "Tes"}, {Holder: &snapshot.Holder{}, Source: strings.Repeat("a", 33)},
	} {
		if f, err := bundle.NewFollower(cfg); err == nil || f != nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}
