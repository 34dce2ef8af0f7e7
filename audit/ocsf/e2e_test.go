//go:build e2e

package ocsf_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/writ-pdp/writ/audit/ocsf"
)

// python makes a runner of testdata's programs, which read the published schema
// from a package that somebody else keeps, pinned by its digest. Where it can't
// be had the test says so, and is skipped.
func python(t *testing.T) func(args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "bin", "python")
	for _, c := range [][]string{
		{"python3", "-m", "venv", dir},
		{program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", "testdata/requirements.txt"},
	} {
		if out, err := exec.CommandContext(t.Context(), c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Skipf("OCSF'S SCHEMA CANNOT BE HAD: this test did not run. %v: %v\n%s", c, err, out)
		}
	}
	return func(args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), os.Stderr
		out, err := cmd.Output()
		must(t, err)
		return out
	}
}

// TestPublishedFacts: testdata/api_activity.json is what the published schema says.
func TestPublishedFacts(t *testing.T) {
	fresh := python(t)("testdata/facts.py", ocsf.Version)
	kept, err := os.ReadFile("testdata/api_activity.json")
	must(t, err)
	if !bytes.Equal(fresh, kept) {
		t.Errorf("testdata/api_activity.json is not what testdata/facts.py %s prints", ocsf.Version)
	}
}

// TestPublishedSchema: events are valid by the JSON Schema that others make of
// the class with the profiles that each event names.
func TestPublishedSchema(t *testing.T) {
	schemas := map[string]*jsonschema.Schema{}
	run := python(t)
	for _, tc := range cases() {
		event, err := ocsf.Event(lines(t, tc.record)[0])
		must(t, err)
		tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(event))
		must(t, err)
		var profiles []string
		list, _ := tree.(map[string]any)["metadata"].(map[string]any)["profiles"].([]any)
		for _, p := range list {
			profiles = append(profiles, p.(string))
		}
		key := strings.Join(profiles, ",")
		if schemas[key] == nil {
			text := run(append([]string{"testdata/schema.py", ocsf.Version}, profiles...)...)
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			must(t, err)
			c := jsonschema.NewCompiler()
			must(t, c.AddResource("https://schema.ocsf.io/api_activity", doc))
			schemas[key], err = c.Compile("https://schema.ocsf.io/api_activity")
			must(t, err)
		}
		if err := schemas[key].Validate(tree); err != nil {
			t.Errorf("%s: %v\n%s", tc.name, err, event)
		}
		tree.(map[string]any)["surprise"] = true
		if schemas[key].Validate(tree) == nil {
			t.Errorf("with the profiles %q anything is valid", key)
		}
	}
	if len(schemas) < 3 {
		t.Errorf("only %d sets of profiles", len(schemas))
	}
}
