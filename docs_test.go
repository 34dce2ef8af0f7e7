package writ_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
