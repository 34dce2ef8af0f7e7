package bundle_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
)

// The sketches of the design, and the real tool definitions that go with
// them, lie outside the repository and are not copied into it.
const (
	sketches    = "../../shared/sketches"
	definitions = "../../shared/data/github-tool-definition-changes.jsonl"
)

// sketch reads one sketched bundle and lays the files of
// testdata/sketches/NAME.txtar over it, if there are any.
func sketch(t *testing.T, name string) map[string][]byte {
	t.Helper()
	dir := filepath.Join(sketches, name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("THE SKETCHES ARE NOT HERE, so nothing is tested: %v", err)
	}
	read, err := bundle.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range read {
		files[f.Name] = f.Data
	}
	if over, err := txtar.ParseFile(filepath.Join("testdata", "sketches", name+".txtar")); err == nil {
		maps.Copy(files, filesOf(over))
	} else if !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return files
}

// change replaces text that must be there.
func change(t *testing.T, files map[string][]byte, name, old, text string) {
	t.Helper()
	if !bytes.Contains(files[name], []byte(old)) {
		t.Fatalf("%s doesn't hold %q any more", name, old)
	}
	files[name] = bytes.ReplaceAll(files[name], []byte(old), []byte(text))
}

func mustBuild(t *testing.T, files map[string][]byte) *bundle.Bundle {
	t.Helper()
	b, faults := bundle.Build(list(files), nil)
	if b == nil {
		t.Fatalf("faults:\n%v", faults)
	}
	for _, w := range b.Warnings {
		t.Log(w)
	}
	return b
}

// githubTools returns the newest definition of each tool of the data.
func githubTools(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	data, err := os.ReadFile(definitions)
	if err != nil {
		t.Skipf("THE TOOL DEFINITIONS ARE NOT HERE, so nothing is tested: %v", err)
	}
	newest, dates := map[string]json.RawMessage{}, map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var change struct {
			Date, Tool string
			After      json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &change); err != nil {
			t.Fatal(err)
		}
		if change.Date >= dates[change.Tool] {
			newest[change.Tool], dates[change.Tool] = change.After, change.Date
		}
	}
	return newest
}

// TestGitHub builds the sketch of GitHub's server with its real definitions.
func TestGitHub(t *testing.T) {
	files, tools := sketch(t, "github"), githubTools(t)
	// method_argument and methods are apart in the file's final form.
	change(t, files, "servers/github.yaml", "{argument: method, ", "{")
	text := string(files["servers/github.yaml"])
	// The data holds tools that changed: one that never did has no definition here.
	var kept []string
	for line := range strings.SplitAfterSeq(text, "\n") {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "  "), ":"); ok && strings.HasPrefix(line, "  ") && line[2] != ' ' && line[2] != '#' &&
			strings.Contains(line, "{effect:") && tools[name] == nil {
			t.Logf("no definition of %s: left out", name)
			continue
		}
		kept = append(kept, line)
	}
	files["servers/github.yaml"] = []byte(strings.Join(kept, ""))
	var list []string
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		if string(tools[name]) != "null" {
			list = append(list, string(tools[name]))
		}
	}
	files["servers/github.tools.json"] = fmt.Appendf(nil, `{"tools": [%s]}`, strings.Join(list, ",\n"))
	b := mustBuild(t, files)
	if n := len(b.Snapshot.Contracts); n != 53 {
		t.Errorf("%d contracts", n)
	}
	mustPass(t, b, nil)
	if len(b.Scenarios) != 25 {
		t.Errorf("%d scenarios", len(b.Scenarios))
	}
}

// TestAccountsPayable builds the richest sketch as it stands, but for the
// hash that pinning would write.
func TestAccountsPayable(t *testing.T) {
	files := sketch(t, "accounts-payable")
	change(t, files, "servers/calc.yaml", "sha256:REPLACED-BY-PIN", "sha256:"+strings.Repeat("0a", 32))
	b := mustBuild(t, files)
	// The payments server is entitled to one purpose, and DATA_FLOW comes before
	// POLICY: the policy about purposes is not reached.
	mustPass(t, b, map[string]writ.Code{"wrong purpose": writ.CodeClassificationDenied})
	if len(b.Snapshot.Contracts) != 6 || len(b.Scenarios) != 25 || b.Snapshot.Policies.Len() != 15 {
		t.Errorf("%d contracts, %d scenarios, %d policies", len(b.Snapshot.Contracts), len(b.Scenarios), b.Snapshot.Policies.Len())
	}
}

// TestFilesystem builds the sketch of the filesystem server with definitions
// of our own.
func TestFilesystem(t *testing.T) {
	files := sketch(t, "filesystem")
	change(t, files, "servers/files.yaml", "sha512-REPLACED-BY-PIN", "sha256:"+strings.Repeat("0a", 32))
	b := mustBuild(t, files)
	mustPass(t, b, nil)
	if len(b.Snapshot.Contracts) != 14 || len(b.Scenarios) != 16 {
		t.Errorf("%d contracts, %d scenarios", len(b.Snapshot.Contracts), len(b.Scenarios))
	}
}

// TestHello builds the smallest example.
func TestHello(t *testing.T) {
	read, err := bundle.ReadDir("../examples/hello")
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(read, nil)
	if b == nil || len(faults) > 0 {
		t.Fatalf("faults:\n%v", faults)
	}
	if len(b.Scenarios) != 3 || len(b.Snapshot.Contracts) != 2 {
		t.Errorf("%d scenarios, %d contracts", len(b.Scenarios), len(b.Snapshot.Contracts))
	}
}
