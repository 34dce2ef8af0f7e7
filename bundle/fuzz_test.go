package bundle_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
)

// seeds returns every file of the fault archives, the base and the examples
// whose name is accepted.
func seeds(f *testing.F, accept func(name string) bool) (out [][]byte) {
	f.Helper()
	paths, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range append(paths, "testdata/base.txtar") {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if file.Name != "want" && accept(file.Name) {
				out = append(out, file.Data)
			}
		}
	}
	for _, dir := range []string{"../examples/hello", "../examples/lab"} {
		files, err := bundle.ReadDir(dir)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			if accept(file.Name) {
				out = append(out, file.Data)
			}
		}
	}
	return out
}

// fuzzFile holds Build to its promises whatever one file holds: it answers,
// with a bundle or with faults that name a place in a file.
func fuzzFile(f *testing.F, name string, accept func(name string) bool) {
	for _, data := range seeds(f, accept) {
		f.Add(data)
	}
	rest := base(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		files := map[string][]byte{name: data}
		for n, d := range rest {
			if n != name {
				files[n] = d
			}
		}
		check(t, list(files))
	})
}

func check(t *testing.T, files []bundle.File) {
	t.Helper()
	start := time.Now()
	b, faults := bundle.Build(files, nil)
	if took := time.Since(start); took > time.Minute {
		t.Errorf("Build took %v", took)
	}
	if (b == nil) != (len(faults.Errors()) > 0) {
		t.Fatalf("bundle %v with %d errors", b != nil, len(faults.Errors()))
	}
	for _, f := range faults {
		if f.Message == "" || f.Line < 0 || f.Column < 0 || f.Line == 0 && f.Column > 0 {
			t.Fatalf("fault %+v", f)
		}
		if i := slices.IndexFunc(files, func(x bundle.File) bool { return x.Name == f.File }); i >= 0 {
			if lines := strings.Count(string(files[i].Data), "\n") + 1; f.Line > lines {
				t.Fatalf("fault in line %d of %d: %v", f.Line, lines, f)
			}
		}
	}
	if b == nil {
		return
	}
	for _, s := range b.Scenarios {
		s = s.At(time.Unix(1e9, 0))
		if s.Name == "" || s.Expect.Code == "" || s.Now.IsZero() || s.Proposal.Principal.Subject == "" || b.Snapshot.Callers[s.Caller] == nil {
			t.Fatalf("scenario %+v", s)
		}
		if s.Expect.Check(writ.Decision{Code: s.Expect.Code + "X"}) == "" {
			t.Fatal("another code passes")
		}
	}
}

func is(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

func FuzzServer(f *testing.F) {
	fuzzFile(f, "servers/notes.yaml", func(name string) bool {
		return strings.HasPrefix(name, "servers/") && strings.HasSuffix(name, ".yaml")
	})
}
func FuzzIssuers(f *testing.F)     { fuzzFile(f, "issuers.yaml", is("issuers.yaml")) }
func FuzzCallers(f *testing.F)     { fuzzFile(f, "callers.yaml", is("callers.yaml")) }
func FuzzRevocations(f *testing.F) { fuzzFile(f, "revocations.yaml", is("revocations.yaml")) }
func FuzzBundleFile(f *testing.F)  { fuzzFile(f, "bundle.yaml", is("bundle.yaml")) }
func FuzzScenarios(f *testing.F) {
	fuzzFile(f, "scenarios/s.yaml", func(name string) bool { return strings.HasPrefix(name, "scenarios/") })
}

// FuzzBuild takes whole bundles, as txtar.
func FuzzBuild(f *testing.F) {
	paths, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range append(paths, "testdata/base.txtar") {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var files []bundle.File
		for _, file := range txtar.Parse(data).Files {
			files = append(files, bundle.File{Name: file.Name, Data: file.Data})
		}
		check(t, files)
	})
}
