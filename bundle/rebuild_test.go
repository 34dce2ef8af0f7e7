package bundle_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
)

var rebuildClock = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// says is all that a bundle says, and what it decides on its scenarios.
func says(b *bundle.Bundle) string {
	var out strings.Builder
	s := b.Snapshot
	fmt.Fprintln(&out, b.Name, s.Revision, s.Zone, b.Revocations, s.Revocations.Sequence(), b.NotDecisionBearing, b.AcceptedMutants)
	for _, id := range slices.Sorted(maps.Keys(s.Contracts)) {
		c := s.Contracts[id]
		fmt.Fprintln(&out, id, c.Tool.Digest, c.Server.ID, s.Servers[c.Server.ID] == c.Server)
		for _, action := range c.Actions() {
			fmt.Fprintln(&out, " ", action, s.Policies.Digest(actionOf(action)))
		}
	}
	for _, p := range s.Policies.Policies() {
		fmt.Fprintf(&out, "%+v %v %d %v %s\n", p.PolicyRef, p.Effect, p.Column, p.Inactive, p.Text)
	}
	out.Write(s.Schema.Cedar())
	fmt.Fprintln(&out, s.Entities.Len())
	for h := range s.Entities.All() {
		e, ok := s.Entities.Get(h.UID, rebuildClock)
		text, _ := e.MarshalJSON()
		fmt.Fprintln(&out, h.File, h.Line, h.Column, h.UID, ok, string(text), s.Entities.IDs(h.UID.Type))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Callers)) {
		fmt.Fprintf(&out, "%+v may %v, redeems for %v\n", *s.Callers[name], s.Rights.Methods(name), s.Rights.Servers(name, "Redeem"))
	}
	var identities []string
	for id, c := range s.Identities {
		identities = append(identities, id.String()+" "+c.Name)
	}
	slices.Sort(identities)
	fmt.Fprintln(&out, identities)
	fmt.Fprintln(&out, s.LocalHost, s.LocalServer, s.LocalOperator)
	for _, name := range slices.Sorted(maps.Keys(s.Issuers)) {
		fmt.Fprintf(&out, "%+v\n", *s.Issuers[name])
	}
	for _, c := range b.Scenarios {
		d := decided(b, c)
		d.Review = nil // a pointer; its digest says what is in it
		fmt.Fprintf(&out, "%s:%d %s %s %+v\n", c.File, c.Line, c.Name, c.Caller, d)
	}
	return out.String()
}

func decided(b *bundle.Bundle, c bundle.Scenario) writ.Decision {
	return c.Run(b.Snapshot, rebuildClock, func(caller *writ.Caller, p *writ.Proposal, now time.Time) writ.Decision {
		return decide.Decide(b.Snapshot, caller, p, now, nil)
	})
}

// editor changes the files of a bundle at random.
type editor struct {
	*rand.Rand
	original, files map[string][]byte
}

var (
	wordIn   = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_.-]*`)
	numberIn = regexp.MustCompile(`[0-9]+`)
)

func (e *editor) any(files map[string][]byte) string {
	names := slices.Sorted(maps.Keys(files))
	if len(names) == 0 {
		return ""
	}
	return names[e.IntN(len(names))]
}

func (e *editor) edit() {
	name := e.any(e.files)
	data := e.files[name]
	pick := func(spans [][]int) []int {
		if len(spans) == 0 {
			return []int{0, 0}
		}
		return spans[e.IntN(len(spans))]
	}
	put := func(at []int, text []byte) { e.files[name] = slices.Concat(data[:at[0]], text, data[at[1]:]) }
	switch e.IntN(14) {
	case 0:
		delete(e.files, name)
	case 1:
		put([]int{len(data), len(data)}, []byte("\n"))
	case 2:
		at := pick(wordIn.FindAllIndex(data, -1))
		word := pick(wordIn.FindAllIndex(data, -1))
		put(at, data[word[0]:word[1]])
	case 3:
		lines := bytes.SplitAfter(data, []byte("\n"))
		i := e.IntN(len(lines))
		e.files[name] = bytes.Join(slices.Delete(lines, i, i+1), nil)
	case 4, 5:
		put(pick(numberIn.FindAllIndex(data, -1)), strconv.AppendInt(nil, int64(e.IntN(5000)), 10))
	case 6: // the same under another name
		delete(e.files, name)
		e.files[path.Join(path.Dir(name), fmt.Sprintf("x%d%s", e.IntN(3), path.Ext(name)))] = data
	case 7, 8:
		e.files[fmt.Sprintf("entities/more%d.json", e.IntN(3))] = fmt.Appendf(nil,
			`[{"uid":{"type":"User","id":"new-%d"},"attrs":{},"parents":[{"type":"Group","id":"group-%d"}]},{"uid":{"type":"Group","id":"group-%d"},"attrs":{},"parents":[]}]`,
			e.IntN(4), e.IntN(3), e.IntN(3))
	case 9:
		e.files[fmt.Sprintf("policies/more%d.cedar", e.IntN(2))] = fmt.Appendf(nil,
			"@id(\"more-%d\")\npermit (principal in Group::\"group-%d\", action, resource);\n@id(\"one-%d\") @review(\"1\")\nforbid (principal == User::\"new-%d\", action, resource);\n",
			e.IntN(3), e.IntN(3), e.IntN(3), e.IntN(5))
	default: // what the example says
		if name = e.any(e.original); name != "" {
			e.files[name] = e.original[name]
		}
	}
}

func exampleFiles(t *testing.T) map[string]map[string][]byte {
	out := map[string]map[string][]byte{}
	dirs, err := os.ReadDir("../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		read, err := bundle.ReadDir(filepath.Join("../examples", d.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[d.Name()] = map[string][]byte{}
		for _, f := range read {
			out[d.Name()][f.Name] = f.Data
		}
	}
	return out
}

// What a bundle says, and what is wrong with its files, doesn't depend on the
// bundle that it was made from. WRIT_REBUILD_ROUNDS sets how many random edits
// of each example are tried.
func TestBuildEqualsBuildFromNothing(t *testing.T) {
	rounds := 25
	if text := os.Getenv("WRIT_REBUILD_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	good, bad := 0, 0
	for name, files := range exampleFiles(t) {
		e := &editor{Rand: rand.New(rand.NewPCG(7, uint64(len(name)))), original: files, files: maps.Clone(files)}
		previous, faults := bundle.Build(list(files), nil)
		if previous == nil {
			t.Fatal(faults)
		}
		was := says(previous)
		for round := range rounds {
			for range 1 + e.IntN(2) {
				e.edit()
			}
			now := list(e.files)
			want, wanted := bundle.Build(now, nil)
			given := now
			if round%2 == 0 {
				given = lean(previous, now)
			}
			got, faults := bundle.Build(given, previous)
			if !reflect.DeepEqual(faults, wanted) {
				t.Fatalf("%s, round %d: faults\n%v\nwant\n%v", name, round, faults, wanted)
			}
			if (got == nil) != (want == nil) {
				t.Fatalf("%s, round %d: bundle %v, want %v", name, round, got != nil, want != nil)
			}
			if after := says(previous); after != was {
				t.Fatalf("%s, round %d: the previous bundle has changed", name, round)
			}
			if got == nil {
				bad++
				if e.IntN(3) > 0 {
					e.files = maps.Clone(files)
				}
				continue
			}
			good++
			if !reflect.DeepEqual(got.Warnings, want.Warnings) || !reflect.DeepEqual(got.Scenarios, want.Scenarios) {
				t.Fatalf("%s, round %d: warnings %v and %d scenarios, want %v and %d", name, round, got.Warnings, len(got.Scenarios), want.Warnings, len(want.Scenarios))
			}
			says, from := says(got), says(want)
			if says != from {
				t.Fatalf("%s, round %d: got\n%s\nwant\n%s", name, round, says, from)
			}
			previous, was = got, says
		}
	}
	if good < rounds || bad < rounds {
		t.Errorf("%d good bundles and %d bad ones: not much of a test", good, bad)
	}
}

// lean leaves out the content of what previous has.
func lean(previous *bundle.Bundle, files []bundle.File) []bundle.File {
	out := slices.Clone(files)
	for i, f := range out {
		if kept, ok := previous.Kept(f.Name, sha(f.Data), func() ([]byte, error) { return f.Data, nil }); ok {
			out[i] = kept
		}
	}
	return out
}

// Whoever decides by the previous bundle isn't disturbed while the next ones
// are built of it, at the same time.
func TestBuildBesideDecisions(t *testing.T) {
	files := exampleFiles(t)["accounts-payable"]
	previous, faults := bundle.Build(list(files), nil)
	if previous == nil {
		t.Fatal(faults)
	}
	want := make([]writ.Decision, len(previous.Scenarios))
	for i, c := range previous.Scenarios {
		want[i] = decided(previous, c)
	}
	done := make(chan struct{})
	var deciders, builders sync.WaitGroup
	for range 2 {
		deciders.Go(func() {
			for {
				for i, c := range previous.Scenarios {
					if got := decided(previous, c); !reflect.DeepEqual(got, want[i]) {
						t.Errorf("%s: %+v, want %+v", c.Name, got, want[i])
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for seed := range uint64(3) {
		builders.Go(func() {
			e := &editor{Rand: rand.New(rand.NewPCG(seed, 1)), original: files, files: maps.Clone(files)}
			for range 8 {
				e.files = maps.Clone(files)
				e.edit()
				bundle.Build(list(e.files), previous)
			}
		})
	}
	builders.Wait()
	close(done)
	deciders.Wait()
}

// A file of which only the digest is given must be one that the previous
// bundle has, or be there to be read.
func TestBuildOfKeptFiles(t *testing.T) {
	files := exampleFiles(t)["accounts-payable"]
	previous, faults := bundle.Build(list(files), nil)
	if previous == nil {
		t.Fatal(faults)
	}
	name := ""
	for n := range files {
		if strings.HasPrefix(n, "entities/") {
			name = n
		}
	}
	if _, ok := previous.Kept(name, sha([]byte("other")), nil); ok {
		t.Error("another content is kept")
	}
	if _, ok := (*bundle.Bundle)(nil).Kept(name, sha(files[name]), nil); ok {
		t.Error("no bundle keeps a file")
	}
	content := files[name]
	kept, ok := previous.Kept(name, sha(content), func() ([]byte, error) { return content, nil })
	if !ok || kept.Data != nil || kept.Size() != len(content) {
		t.Fatalf("%s: kept %v, %d bytes of %d", name, ok, kept.Size(), len(content))
	}
	given := lean(previous, list(files))
	again, faults := bundle.Build(given, previous)
	if again == nil || says(again) != says(previous) {
		t.Fatalf("the same files: %v", faults)
	}
	// Without the bundle that has them, they are read.
	if b, faults := bundle.Build(given, nil); b == nil || says(b) != says(previous) {
		t.Errorf("from nothing: %v", faults)
	}
	content = []byte("[]")
	for i := range given {
		if given[i].Name == name {
			given[i] = kept
		}
	}
	if b, faults := bundle.Build(given, nil); b != nil || !strings.Contains(faults.Error(), "changed while") {
		t.Errorf("content that has changed since: %v", faults)
	}
}

func sha(data []byte) [sha256.Size]byte { return sha256.Sum256(data) }

func actionOf(id string) types.EntityUID { return types.NewEntityUID("Action", types.String(id)) }
