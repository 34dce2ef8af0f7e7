package verifytest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/verifytest"
)

// written writes logs with the log's own writer: small records, segments that
// end often, and a checkpoint at the end.
type written struct {
	t   *testing.T
	dir string
	n   int
}

// grow opens the log, appends n records, and closes it.
func (w *written) grow(n int) (verifier string) {
	w.t.Helper()
	log, err := audit.Open(audit.Config{Dir: w.dir, Origin: ours.name, SegmentBytes: 1 << 20, Checkpoint: time.Millisecond})
	if err != nil {
		w.t.Fatal(err)
	}
	for range n {
		r := audit.Record{Kind: audit.KindStart, Time: time.Date(2026, 1, 2, 3, 4, 5, w.n, time.UTC), Revision: fmt.Sprint(w.n)}
		w.n++
		if err := log.Append(w.t.Context(), r, w.n%5000 == 0); err != nil {
			w.t.Fatal(err)
		}
	}
	verifier = log.Verifier()
	if err := log.Close(); err != nil {
		w.t.Fatal(err)
	}
	return verifier
}

// Both verifiers agree on what the log writes, also after it was closed and
// opened again in the middle of a tile.
func TestAgreeOnWrittenLogs(t *testing.T) {
	for _, size := range sizes(t) {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			w := &written{t: t, dir: t.TempDir()}
			w.grow(size / 3)
			agree(t, w.dir, w.grow(size-size/3), size)
		})
	}
}

// A random change of one byte of a written log, anywhere in its segments,
// tiles or checkpoint, is found by both or by neither.
func TestAgreeOnDamage(t *testing.T) {
	w := &written{t: t, dir: t.TempDir()}
	verifier := w.grow(700)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var names []string
	for name := range read(t, w.dir) {
		if top, _ := filepath.Split(name[1:]); top != "" || name == "/checkpoint" {
			names = append(names, name)
		}
	}
	rounds := 80
	if os.Getenv("WRIT_VERIFYTEST_DAMAGE") != "" {
		rounds = 5000
	}
	for range rounds {
		path := filepath.Join(w.dir, names[random.IntN(len(names))])
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 {
			continue
		}
		damaged := append([]byte(nil), data...)
		at := random.IntN(len(data))
		what := fmt.Sprintf("byte %d of %s", at, path)
		switch random.IntN(3) {
		case 0:
			damaged[at] ^= 1 << random.IntN(8)
		case 1:
			damaged, what = damaged[:at], "the end of "+path
		default:
			damaged, what = append(damaged[:at], damaged[at+1:]...), what+", gone"
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = verifytest.Verify(w.dir, verifier)
		if _, ok := errors.AsType[*verifytest.Fault](err); err != nil && !ok {
			t.Fatalf("%s: %v", what, err)
		}
		if report := theirs(t, w.dir, verifier, nil); report.OK != (err == nil) {
			t.Errorf("%s: ours %v; theirs %v", what, err, report.Findings)
		} else if report.OK {
			t.Errorf("%s: neither finds it", what)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := verifytest.Verify(w.dir, verifier); err != nil {
		t.Errorf("with everything put back: %v", err)
	}
	if report := theirs(t, w.dir, verifier, nil); !report.OK {
		t.Errorf("with everything put back: %v", report.Findings)
	}
}
