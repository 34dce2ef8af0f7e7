package examples_test

import (
	"bytes"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/examples"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/snapshot"
)

// example is a bundle that comes with Writ, and what it may leave out, each
// with the reason.
type example struct {
	name  string
	files fs.FS
	// refused are the tools that no scenario is allowed to call.
	refused map[string]string
	// unnoticed are the policies without which every scenario gets the same
	// answer.
	unnoticed map[string]string
}

var all = []example{
	{name: "hello", files: examples.Hello(), refused: map[string]string{
		"files/write_file": "the smallest bundle permits reading, and shows that nothing else is",
	}},
	{name: "lab", files: examples.Lab(), unnoticed: map[string]string{
		"ceiling":          "the scenarios are the lab's own seven; decide tests the bundle against the lab itself",
		"anybody-approves": "the lab's seven hold no approval",
	}},
	{name: "accounts-payable", files: examples.AccountsPayable()},
	{name: "filesystem", files: examples.Filesystem()},
	{name: "github", files: examples.GitHub(), refused: map[string]string{
		"github/search_code": "its query can name any repository",
	}},
	{name: "shop", files: examples.Shop()},
}

// clock is when scenarios run that state no time of their own. The answers
// may not depend on it.
var clock = time.Date(2031, 4, 6, 3, 0, 0, 0, time.UTC)

func read(t *testing.T, fsys fs.FS) []bundle.File {
	t.Helper()
	var files []bundle.File
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, path)
		files = append(files, bundle.File{Name: path, Data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// answers decides scenarios in a world, in their order.
func answers(world *snapshot.Snapshot, scenarios []bundle.Scenario) []writ.Decision {
	out := make([]writ.Decision, len(scenarios))
	for i, s := range scenarios {
		out[i] = s.Run(world, clock, func(caller *writ.Caller, p *writ.Proposal, now time.Time) writ.Decision {
			return decide.Decide(world, caller, p, now, nil)
		})
	}
	return out
}

// TestExamples holds every bundle to what pdp check looks at: no fault and no
// warning, the answers that its scenarios expect, and nothing that they leave
// out.
func TestExamples(t *testing.T) {
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) {
			b, faults := bundle.Build(read(t, e.files), nil)
			for _, f := range faults {
				t.Error(f)
			}
			if b == nil {
				t.FailNow()
			}
			called, allowed, reached := map[string]bool{}, map[string]bool{}, map[string]bool{}
			for i, d := range answers(b.Snapshot, b.Scenarios) {
				s := b.Scenarios[i]
				if why := s.Expect.Check(d); why != "" {
					t.Errorf("%s:%d: %s: %s", s.File, s.Line, s.Name, why)
				}
				tool := d.Server + "/" + d.Tool
				called[tool] = true
				allowed[tool] = allowed[tool] || d.Code == writ.CodeAllow
				for _, p := range d.Policies {
					reached[p.ID] = true
				}
			}
			for _, id := range slices.Sorted(maps.Keys(b.Snapshot.Contracts)) {
				if _, meant := e.refused[id]; !called[id] || allowed[id] == meant {
					t.Errorf("%s: called %t, allowed %t: a tool is one or the other, or is listed here with a reason", id, called[id], allowed[id])
				}
			}
			for _, p := range b.Snapshot.Policies.Policies() {
				if p.Inactive {
					t.Errorf("%s: covers no tool", p.ID)
				}
				if !reached[p.ID] && !p.AboutApproval() && !p.AboutRights() && e.unnoticed[p.ID] == "" {
					t.Errorf("%s: no scenario reaches it", p.ID)
				}
			}
		})
	}
}

// TestEveryPolicyIsNoticed takes one policy away at a time: some scenario then
// gets another answer.
func TestEveryPolicyIsNoticed(t *testing.T) {
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) {
			files := read(t, e.files)
			b, faults := bundle.Build(files, nil)
			if b == nil {
				t.Fatal(faults)
			}
			before := answers(b.Snapshot, b.Scenarios)
			for _, p := range b.Snapshot.Policies.Policies() {
				world := without(t, files, p)
				after := answers(world, b.Scenarios)
				noticed := !slices.EqualFunc(before, after, func(x, y writ.Decision) bool { return x.Code == y.Code })
				if _, meant := e.unnoticed[p.ID]; noticed == meant {
					t.Errorf("%s: noticed %t: it must be, or be listed here with a reason", p.ID, noticed)
				}
			}
		})
	}
}

// without builds the world that lacks one policy. Scenarios name policies and
// their codes, so they stay behind; where another policy names this one, or it
// is the only one, it stays too, for nobody.
func without(t *testing.T, files []bundle.File, p *policy.Policy) *snapshot.Snapshot {
	t.Helper()
	var text []byte
	var policies []byte
	for _, f := range files {
		if strings.HasPrefix(f.Name, "policies/") {
			policies = append(policies, f.Data...)
		}
	}
	if bytes.Contains(policies, []byte(`Policy::"`+p.ID+`"`)) || bytes.Count(policies, []byte("@id(")) == 1 {
		body, ok := bytes.CutSuffix(p.Text, []byte(";"))
		if !ok {
			t.Fatalf("%s: the text doesn't end in a semicolon: %s", p.ID, p.Text)
		}
		text = append(bytes.Clone(body), ` when { principal == User::"nobody" };`...)
	}
	var changed []bundle.File
	for _, f := range files {
		if strings.HasPrefix(f.Name, "scenarios/") {
			continue
		}
		if f.Name == "bundle.yaml" {
			// It names policies, too, at its end.
			f.Data, _, _ = bytes.Cut(f.Data, []byte("accepted_mutants:"))
		}
		if f.Name == p.File {
			if bytes.Count(f.Data, p.Text) != 1 {
				t.Fatalf("%s: %s doesn't hold its text once", p.ID, p.File)
			}
			f.Data = bytes.Replace(f.Data, p.Text, text, 1)
		}
		changed = append(changed, f)
	}
	b, faults := bundle.Build(changed, nil)
	if b == nil {
		t.Fatalf("without %s: %v", p.ID, faults)
	}
	return b.Snapshot
}
