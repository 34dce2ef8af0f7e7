package decide_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/snapshot"
)

// loadCase builds the bundle of testdata/base.txtar with the files of the
// named archives added or replaced.
func loadCase(t testing.TB, archives ...string) *bundle.Bundle {
	t.Helper()
	var files []bundle.File
	for _, name := range append([]string{"base"}, archives...) {
		archive, err := txtar.ParseFile("testdata/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			files = withFile(files, f.Name, f.Data)
		}
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatalf("%v:\n%v", archives, faults)
	}
	return b
}

func withFile(files []bundle.File, name string, data []byte) []bundle.File {
	for i := range files {
		if files[i].Name == name {
			files[i].Data = data
			return files
		}
	}
	return append(files, bundle.File{Name: name, Data: bytes.Clone(data)})
}

func decider(world *snapshot.Snapshot) bundle.Decider {
	return func(caller *writ.Caller, p *writ.Proposal, now time.Time) writ.Decision {
		return decide.Decide(world, caller, p, now, nil)
	}
}

// archives names the case files of testdata: not what they share, and not
// what only changes another one.
func archives(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		if name != "base" && !strings.HasSuffix(name, "-changed") {
			names = append(names, name)
		}
	}
	return names
}

// TestCases decides every scenario of testdata/*.txtar.
func TestCases(t *testing.T) {
	for _, name := range archives(t) {
		b := loadCase(t, name)
		if len(b.Scenarios) == 0 {
			t.Errorf("%s has no scenario", name)
		}
		for _, s := range b.Scenarios {
			t.Run(name+"/"+s.Name, func(t *testing.T) {
				d := s.Run(b.Snapshot, s.Now, decider(b.Snapshot))
				if why := s.Expect.Check(d); why != "" {
					t.Errorf("%s:%d: %s (field %q)", s.File, s.Line, why, d.Field)
				}
				checkDecision(t, d)
			})
		}
	}
}

// checkDecision holds what is true of every decision.
func checkDecision(t *testing.T, d writ.Decision) {
	t.Helper()
	if (d.Outcome == writ.Allow) != (d.Code == writ.CodeAllow) {
		t.Errorf("outcome %s with code %s", d.Outcome, d.Code)
	}
	if info, ok := d.Code.Info(); ok && (info.Outcome != d.Outcome || info.Control != d.Control) {
		t.Errorf("%s is an outcome of %s at %q, not %s at %q", d.Code, info.Outcome, info.Control, d.Outcome, d.Control)
	}
	if d.Explanation == "" || d.Revision == "" {
		t.Errorf("explanation %q, revision %q", d.Explanation, d.Revision)
	}
	if d.Outcome != writ.Deny && (d.CallDigest.IsZero() || d.ProposalDigest.IsZero() || d.ContractDigest.IsZero() || d.PolicyDigest.IsZero()) {
		t.Errorf("%s without its digests: %+v", d.Outcome, d)
	}
	if d.Outcome == writ.ReviewRequired && d.ReviewDigest.IsZero() {
		t.Error("a review without its digest")
	}
	if (d.Outcome == writ.ReviewRequired) != (d.Review != nil) {
		t.Errorf("%s with the review %v", d.Outcome, d.Review)
	}
	if r := d.Review; r != nil && (r.Digest != d.ReviewDigest || writ.ReviewDigest(r) != r.Digest || r.ProposalDigest != d.ProposalDigest || r.ContractDigest != d.ContractDigest) {
		t.Errorf("the review %+v is not of the decision %+v", r, d)
	}
}
