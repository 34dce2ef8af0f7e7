package bundle_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
)

// base returns the files of the smallest bundle.
func base(t testing.TB) map[string][]byte {
	t.Helper()
	a, err := txtar.ParseFile("testdata/base.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return filesOf(a)
}

func filesOf(a *txtar.Archive) map[string][]byte {
	out := map[string][]byte{}
	for _, f := range a.Files {
		out[f.Name] = f.Data
	}
	return out
}

func list(files map[string][]byte) []bundle.File {
	var out []bundle.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out = append(out, bundle.File{Name: name, Data: files[name]})
	}
	return out
}

func TestBaseLoads(t *testing.T) {
	b, faults := bundle.Build(list(base(t)), nil)
	if b == nil || len(faults) > 0 {
		t.Fatalf("the base has faults:\n%v", faults)
	}
	s := b.Snapshot
	if s.Contract("notes", "read_note") == nil || s.Servers["notes"] == nil || s.Policies.Len() != 2 || s.Entities == nil || s.Zone == nil {
		t.Errorf("the snapshot lacks something: %+v", s)
	}
	if i := s.Issuers["local"]; i == nil || i.Principal.String() != `User::"{sub}"` || i.Actor.String() != `Agent::"{client_id}"` {
		t.Errorf("default issuer: %+v", i)
	}
	if s.LocalHost == nil || s.LocalHost.Name != "host" || !s.LocalHost.Has(writ.RoleHost) || s.LocalHost.Has(writ.RoleApprover) || len(s.LocalHost.Vouches) > 0 {
		t.Errorf("default host: %+v", s.LocalHost)
	}
	if c := s.LocalServer; c == nil || c.Name != "server" || !c.Has(writ.RoleServer) || c.Has(writ.RoleHost) || c.Has(writ.RoleOperator) || s.Callers["server"] != c {
		t.Errorf("default server: %+v", c)
	}
	if s.LocalOperator == nil || s.LocalOperator.Name != "operator" || !s.LocalOperator.Has(writ.RoleApprover) || s.LocalOperator.Has(writ.RoleHost) {
		t.Errorf("default operator: %+v", s.LocalOperator)
	}
	if !strings.HasPrefix(s.Revision, "sha256:") || !s.LoadedAt.IsZero() {
		t.Errorf("revision %q, loaded at %v", s.Revision, s.LoadedAt)
	}
}

// TestFaults reads testdata/faults: each archive lays files over the base
// (an empty file removes the base's), and want holds one line for each fault
// that Build must report, in order: file:line:column: and words that the rest
// must hold, joined by " ... ". A line that starts with "warning " is one.
func TestFaults(t *testing.T) {
	paths, err := filepath.Glob("testdata/faults/*.txtar")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d archives: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files := base(t)
			var want []string
			for _, f := range a.Files {
				switch {
				case f.Name == "want":
					want = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
				case len(f.Data) == 0:
					delete(files, f.Name)
				default:
					files[f.Name] = f.Data
				}
			}
			b, faults := bundle.Build(list(files), nil)
			if (b == nil) != (len(faults.Errors()) > 0) {
				t.Errorf("bundle %v with %d errors", b != nil, len(faults.Errors()))
			}
			for i, f := range faults {
				if i < len(want) && !meets(f, want[i]) {
					t.Errorf("fault %d\n got %s\nwant %s", i, show(f), want[i])
				} else if i >= len(want) {
					t.Errorf("unexpected fault %s", show(f))
				}
			}
			for _, w := range want[min(len(faults), len(want)):] {
				t.Errorf("no fault %s", w)
			}
		})
	}
}

func show(f writ.Fault) string {
	prefix := ""
	if f.Severity == writ.Warning {
		prefix = "warning "
	}
	if f.Field != "" {
		f.Message = f.Field + ": " + f.Message
	}
	return fmt.Sprintf("%s%s:%d:%d: %s", prefix, f.File, f.Line, f.Column, f.Message)
}

func meets(f writ.Fault, want string) bool {
	got := show(f)
	parts := strings.Split(want, " ... ")
	if !strings.HasPrefix(got, parts[0]) {
		return false
	}
	rest := got[len(parts[0]):]
	for _, p := range parts[1:] {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			return false
		}
		rest = after
	}
	return true
}

func TestRevision(t *testing.T) {
	build := func(files []bundle.File) string {
		t.Helper()
		b, faults := bundle.Build(files, nil)
		if b == nil {
			t.Fatal(faults)
		}
		return b.Snapshot.Revision
	}
	files := list(base(t))
	first := build(files)
	slices.Reverse(files)
	if got := build(files); got != first {
		t.Error("the order of files changes the revision")
	}
	unread := append(slices.Clone(files), bundle.File{Name: "README.md", Data: []byte("x")}, bundle.File{Name: ".git/HEAD", Data: []byte("x")},
		bundle.File{Name: "policies/LICENSE.txt", Data: []byte("x")})
	if got := build(unread); got != first {
		t.Error("files that are not read change the revision")
	}
	changed := base(t)
	changed["policies/read.cedar"] = append(changed["policies/read.cedar"], '\n')
	if build(list(changed)) == first {
		t.Error("a changed file leaves the revision")
	}
	// A byte that moves from a name to another file's must show.
	moved := base(t)
	moved["policies/x.cedar"] = moved["policies/read.cedar"]
	delete(moved, "policies/read.cedar")
	if build(list(moved)) == first {
		t.Error("a renamed file leaves the revision")
	}
}

func BenchmarkBuild(b *testing.B) {
	files, err := bundle.ReadDir("../examples/lab")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if built, faults := bundle.Build(files, nil); built == nil {
			b.Fatal(faults)
		}
	}
}
