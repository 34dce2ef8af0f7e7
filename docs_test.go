package writ_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestThreatModel: each test that the threat model names is there.
func TestThreatModel(t *testing.T) {
	text, err := os.ReadFile("docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	references := regexp.MustCompile("`([a-z/]+): (Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	if len(references) < 40 {
		t.Fatalf("%d references: the expression has gone astray", len(references))
	}
	sources := map[string]string{}
	for _, r := range references {
		dir, name := r[1], r[2]
		if _, ok := sources[dir]; !ok {
			files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources[dir] += string(data)
			}
		}
		if !strings.Contains(sources[dir], "\nfunc "+name+"(t *testing.T) {") {
			t.Errorf("%s has no test %s", dir, name)
		}
	}
}

// TestLimits: each test that the limits name is there.
func TestLimits(t *testing.T) {
	var sources strings.Builder
	for _, dir := range []string{"server", "pdp", "grant", "approval", "cmd/pdp"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			sources.WriteString(read(t, file))
		}
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(read(t, "docs/limits.md"), -1)
	if len(names) < 20 {
		t.Fatalf("%d names: the expression has gone astray", len(names))
	}
	for _, n := range names {
		if !strings.Contains(sources.String(), "\nfunc "+n[1]+"(t *testing.T) {") {
			t.Errorf("there is no test %s", n[1])
		}
	}
}

// TestLinks: what the documents link to in the checkout is there.
func TestLinks(t *testing.T) {
	links := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(read(t, file), -1) {
				links++
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
	}
	if links < 20 {
		t.Errorf("%d links: the expression has gone astray", links)
	}
}

// TestContributing: the document has each target that make lists, and no other.
func TestContributing(t *testing.T) {
	makefile := read(t, "Makefile")
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("`make ([a-z0-9-]+)[` ]").FindAllStringSubmatch(read(t, "CONTRIBUTING.md"), -1) {
		told[m[1]] = true
		if !strings.Contains(makefile, "\n"+m[1]+":") {
			t.Errorf("the Makefile has no target %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `).FindAllStringSubmatch(makefile, -1) {
		if m[1] != "help" && !told[m[1]] {
			t.Errorf("CONTRIBUTING.md has no make %s", m[1])
		}
	}
}

// TestDependencies: each direct dependency has its reason written down.
func TestDependencies(t *testing.T) {
	text := read(t, "docs/dependencies.md")
	for _, file := range []string{"go.mod", "etcd/etcdtest/go.mod", "story/go.mod"} {
		mod, err := modfile.Parse(file, []byte(read(t, file)), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range mod.Require {
			// Several of one host may be named without it.
			_, short, _ := strings.Cut(r.Mod.Path, "/")
			if r.Indirect || strings.HasPrefix(r.Mod.Path, "github.com/writ-pdp/") ||
				strings.Contains(text, "`"+r.Mod.Path+"`") || strings.Contains(text, "`"+short+"`") {
				continue
			}
			t.Errorf("docs/dependencies.md does not say what %s of %s is for", r.Mod.Path, file)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
