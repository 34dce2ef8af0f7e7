package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/tree/treetest"
	"github.com/writ-pdp/writ/audit/verify"
)

// small makes a log of 600 records in three segments, with a checkpoint over
// them, and one before at 290; its tiles are 0/000, 0/001, 0/002.p/88 and
// 1/000.p/2, and what the earlier checkpoint left: 1/000.p/1.
func small(t testing.TB) *treetest.Log {
	t.Helper()
	l := treetest.New(t)
	l.Append(100, 150)
	l.Rotate()
	l.Append(190, 150)
	l.Checkpoint()
	l.Append(110, 150)
	l.Rotate()
	l.Append(200, 150)
	l.Checkpoint()
	return l
}

// copyOf returns a copy of a log in another directory, to be damaged.
func copyOf(t testing.TB, l *treetest.Log) *treetest.Log {
	t.Helper()
	c := *l
	c.Dir = filepath.Join(t.TempDir(), "log")
	if err := os.CopyFS(c.Dir, os.DirFS(l.Dir)); err != nil {
		t.Fatal(err)
	}
	return &c
}

func run(t testing.TB, l *treetest.Log, o verify.Options) verify.Report {
	t.Helper()
	if o.Verifier == nil {
		o.Verifier = l.Verifier
	}
	r, err := verify.Verify(t.Context(), l.Dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSound(t *testing.T) {
	l := small(t)
	r := run(t, l, verify.Options{})
	want := verify.Report{OK: true, Origin: treetest.Origin, Size: 600, Root: l.Head().Root.String(), Records: 600, Tiles: 4, Findings: []verify.Finding{}}
	if got, want := fmt.Sprint(r), fmt.Sprint(want); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	// More than the checkpoint covers, and a record that is just being written.
	l.Append(7, 150)
	l.Raw(`{"v":1,"index":607,"ki`)
	r = run(t, l, verify.Options{})
	if !r.OK || r.Records != 600 || r.AfterCheckpoint != 7 || r.TornBytes != 22 {
		t.Errorf("%+v", r)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"ok":true`, `"size":600`, `"after_checkpoint":7`, `"torn_bytes":22`, `"findings":[]`} {
		if !strings.Contains(string(b), member) {
			t.Errorf("%s: is not in %s", member, b)
		}
	}
}

func TestSizes(t *testing.T) {
	l := treetest.New(t)
	l.Rotate()
	for _, size := range []int64{0, 1, 255, 256, 257, 511, 512, 513, 65536, 65537, 66000} {
		l.Append(int(size-l.Tree.Size()), 0)
		l.Checkpoint()
		for _, workers := range []int{1, 5} {
			if r := run(t, l, verify.Options{Workers: workers}); !r.OK || r.Records != size || r.Size != size {
				t.Fatalf("size %d: %+v", size, r)
			}
		}
	}
}

// TestTornTail cuts the last segment at each byte of what the checkpoint does
// not cover, and of the last record that it does.
func TestTornTail(t *testing.T) {
	l := small(t)
	l.Append(2, 150)
	name := filepath.Join(l.Dir, segment2)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	covered := len(whole) - 2*151
	for size := len(whole); size >= covered-151; size-- {
		if err := os.Truncate(name, int64(size)); err != nil {
			t.Fatal(err)
		}
		r := run(t, l, verify.Options{})
		after, torn := max(0, (size-covered)/151), (size-covered+151)%151
		if r.OK != (size >= covered) || r.TornBytes != int64(torn) || r.OK && r.AfterCheckpoint != int64(after) {
			t.Fatalf("%d bytes beyond what is covered: %+v", size-covered, r)
		}
	}
}

func TestFrom(t *testing.T) {
	l := small(t)
	first := l.Head()
	l.Append(1000, 150)
	l.Checkpoint()
	r := run(t, l, verify.Options{From: &first})
	// The tile that holds record 600 begins with record 512.
	if !r.OK || r.From != 512 || r.Records != 1600-512 {
		t.Errorf("%+v", r)
	}
	if r := run(t, l, verify.Options{From: &first, Whole: true}); !r.OK || r.From != 0 || r.Records != 1600 {
		t.Errorf("%+v", r)
	}
	now := l.Head()
	if r := run(t, l, verify.Options{From: &now}); !r.OK {
		t.Errorf("%+v", r)
	}

	kinds := func(r verify.Report) []verify.Kind {
		var k []verify.Kind
		for _, f := range r.Findings {
			k = append(k, f.Kind)
		}
		return k
	}
	// What is older is not looked at, unless something newer is wrong.
	edit(t, l, segment0, flip(100))
	if r := run(t, l, verify.Options{From: &first}); !r.OK {
		t.Errorf("%+v", r)
	}
	edit(t, l, segment2, flip(-20))
	if r := run(t, l, verify.Options{From: &first}); r.OK || r.From != 0 || !slices.Equal(kinds(r), []verify.Kind{verify.RecordChanged, verify.RecordChanged}) {
		t.Errorf("%+v", r)
	}

	l = small(t)
	for name, test := range map[string]struct {
		from tree.Checkpoint
		want verify.Kind
	}{
		"set back":  {tree.Checkpoint{Origin: first.Origin, Size: 601, Root: first.Root}, verify.RolledBack},
		"rewritten": {tree.Checkpoint{Origin: first.Origin, Size: 300, Root: first.Root}, verify.Inconsistent},
		"a fork":    {tree.Checkpoint{Origin: first.Origin, Size: 600, Root: now.Root}, verify.Inconsistent},
	} {
		r := run(t, l, verify.Options{From: &test.from})
		if r.OK || !slices.Equal(kinds(r), []verify.Kind{test.want}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Tiles from before From that are needed and damaged are named.
	edit(t, l, "tile/1/000.p/2", flip(3))
	from := tree.Checkpoint{Origin: first.Origin, Size: first.Size, Root: first.Root}
	r = run(t, l, verify.Options{From: &from})
	if !slices.Contains(kinds(r), verify.TileChanged) {
		t.Errorf("%+v", r)
	}
	other := first
	other.Origin = "other.example"
	if r, err := verify.Verify(t.Context(), l.Dir, verify.Options{Verifier: l.Verifier, From: &other}); err == nil {
		t.Errorf("from another log: %+v", r)
	}
}

func TestWitnesses(t *testing.T) {
	l := small(t)
	w := treetest.NewWitness(t, "w1.example", l.Verifier)
	key, err := tree.NewWitness(w.Key)
	if err != nil {
		t.Fatal(err)
	}
	o := verify.Options{Witnesses: []*tree.Witness{key}, MinWitnesses: 1}
	if r := run(t, l, o); r.OK || len(r.Findings) != 1 || r.Findings[0].Kind != verify.FewCosignatures {
		t.Errorf("%+v", r)
	}
	body, err := l.Head().Body()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	edit(t, l, "checkpoint", func(b []byte) []byte { return append(b, w.Cosign(body, at)...) })
	if r := run(t, l, o); !r.OK || len(r.Cosignatures) != 1 || !r.Cosignatures[0].Time.Equal(at) {
		t.Errorf("%+v", r)
	}
	edit(t, l, "checkpoint", func(b []byte) []byte { b[len(b)-10] ^= 3; return b })
	if r := run(t, l, o); r.OK || r.Findings[0].Kind != verify.BadSignature {
		t.Errorf("%+v", r)
	}
	o.MinWitnesses = 2
	if _, err := verify.Verify(t.Context(), l.Dir, o); err == nil {
		t.Error("two of one witness")
	}
}

func TestNothingToVerifyWith(t *testing.T) {
	l := small(t)
	if r, err := verify.Verify(t.Context(), l.Dir, verify.Options{}); err == nil || r.OK {
		t.Errorf("%+v and %v without a key", r, err)
	}
	if r, err := verify.Verify(t.Context(), filepath.Join(l.Dir, "nowhere"), verify.Options{Verifier: l.Verifier}); err == nil || r.OK {
		t.Errorf("%+v and %v of no directory", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := verify.Verify(ctx, l.Dir, verify.Options{Verifier: l.Verifier}); !errors.Is(err, context.Canceled) || r.OK {
		t.Errorf("%+v and %v after the end", r, err)
	}
	var none note.Verifier
	if r, err := verify.Verify(t.Context(), l.Dir, verify.Options{Verifier: none}); err == nil || r.OK {
		t.Errorf("%+v and %v", r, err)
	}
}

func TestProgress(t *testing.T) {
	l := treetest.New(t)
	l.Append(40000, 0)
	l.Checkpoint()
	var done []int64
	run(t, l, verify.Options{Progress: func(d, total int64) {
		if total != 40000 {
			t.Errorf("%d of %d", d, total)
		}
		done = append(done, d)
	}})
	if len(done) < 2 || !slices.IsSorted(done) || done[len(done)-1] != 40000 {
		t.Errorf("%v", done)
	}
}

// TestWhileAServerWrites verifies again and again while the log grows.
func TestWhileAServerWrites(t *testing.T) {
	l := treetest.New(t)
	l.Append(500, 100)
	l.Checkpoint()
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			l.Append(37, 100)
			if i%5 == 0 {
				l.Rotate()
			}
			if i%3 == 0 {
				replaceCheckpoint(l)
			}
		}
	}()
	defer func() {
		close(stop)
		<-ended
	}()
	for range 50 {
		if r := run(t, l, verify.Options{}); !r.OK {
			t.Fatalf("%+v", r)
		}
	}
}

// replaceCheckpoint writes a checkpoint as a server does: by renaming.
func replaceCheckpoint(l *treetest.Log) {
	if err := l.Tree.Flush(); err != nil {
		panic(err)
	}
	signed, err := tree.Sign(l.Head(), l.Signer)
	if err != nil {
		panic(err)
	}
	root, err := os.OpenRoot(l.Dir)
	if err != nil {
		panic(err)
	}
	defer root.Close()
	if err := tree.ReplaceFile(root, tree.CheckpointFile, signed, 0o600); err != nil {
		panic(err)
	}
}
