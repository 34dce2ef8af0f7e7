package bundle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/entities"
	"github.com/writ-pdp/writ/snapshot"
)

// numbered is a bundle whose files agree in a number.
func numbered(t testing.TB, n int) map[string]string {
	tools := string(base(t)["servers/notes.tools.json"])
	return text(t, map[string]string{
		"servers/notes.tools.json": strings.Replace(tools, `"name": "read_note"`, fmt.Sprintf(`"name": "read_note", "title": "n%d"`, n), 1),
		"policies/x.cedar":         fmt.Sprintf("@id(\"n%d\")\npermit (principal == User::\"u%d\", action == Action::\"notes/read_note\", resource);\n", n, n),
		"entities/u.json":          fmt.Sprintf(`[{"uid": {"type": "User", "id": "u%d"}, "attrs": {}, "parents": []}]`, n),
	})
}

// what returns the number that the parts of a world agree in, or an error.
func what(w *snapshot.Snapshot) (int, error) {
	var held *entities.Held
	for h := range w.Entities.All() {
		held = h
	}
	if held == nil {
		return 0, fmt.Errorf("no entity in %s", w.Revision)
	}
	id := string(held.UID.ID)
	n, err := strconv.Atoi(strings.TrimPrefix(id, "u"))
	if err != nil {
		return 0, err
	}
	p := w.Policies.Policy("n" + strings.TrimPrefix(id, "u"))
	if p == nil || w.Contract("notes", "read_note") == nil || !w.Entities.Has(types.NewEntityUID("User", types.String(id))) {
		return 0, fmt.Errorf("entities of %d, policies of another in %s", n, w.Revision)
	}
	return n, nil
}

// TestDirectoryStorm swaps bundles as fast as they come while others read the
// worlds: each is whole, and of the revision that it names. WRIT_STORM says
// for how long (1 s without).
func TestDirectoryStorm(t *testing.T) {
	duration := time.Second
	if text := os.Getenv("WRIT_STORM"); text != "" {
		var err error
		duration, err = time.ParseDuration(text)
		must(t, err)
	}
	const variants = 7
	revisions := make([]string, variants) // of each number
	for n := range variants {
		b, faults := bundle.Build(files(numbered(t, n)), nil)
		if b == nil {
			t.Fatal(faults)
		}
		revisions[n] = b.Snapshot.Revision
	}
	dir := filepath.Join(t.TempDir(), "bundle")
	kubelet(t, dir, "start", numbered(t, 0))
	f := follow(t, dir, both)

	var done atomic.Bool
	var seen [2]atomic.Int64
	var readers sync.WaitGroup
	for r := range seen {
		readers.Go(func() {
			var last snapshot.Revision
			for !done.Load() {
				w := f.holder.Load()
				n, err := what(w)
				if err != nil {
					t.Error(err)
					return
				}
				rev, err := snapshot.ParseRevision(w.Revision)
				if err != nil || rev.Bundle != revisions[n] || rev.Generation < last.Generation {
					t.Errorf("%v after %v holds number %d: %v", rev, last, n, err)
					return
				}
				last = rev
				seen[r].Add(1)
			}
		})
	}
	swaps := 0
	begun := time.Now()
	few := func() bool { return f.Status().Accepted < 3 && time.Since(begun) < patience }
	for ; time.Since(begun) < duration || few(); swaps++ {
		kubelet(t, dir, fmt.Sprint(swaps), numbered(t, (swaps+1)%variants))
	}
	until(t, "the last one", func() bool { n, err := what(f.holder.Load()); return err == nil && n == swaps%variants })
	done.Store(true)
	readers.Wait()
	t.Logf("%d swaps, %d worlds, %d looks at them; %d refusals", swaps, f.Status().Accepted, seen[0].Load()+seen[1].Load(), f.Status().Refusals)
	if f.Status().Accepted < 3 {
		t.Errorf("%d worlds in %v", f.Status().Accepted, duration)
	}
}

func files(of map[string]string) []bundle.File {
	out := map[string][]byte{}
	for name, data := range of {
		out[name] = []byte(data)
	}
	return list(out)
}
