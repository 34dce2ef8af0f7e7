//go:build e2e

package ocsf_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/writ-pdp/writ/audit/ocsf"
)

// python runs one of testdata's programs, which read the published schema from
// a package that somebody else keeps.
func python(t *testing.T, args ...string) []byte {
	t.Helper()
	env := append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	probe := exec.CommandContext(t.Context(), "python3", "-c", "import ocsf_json_schema")
	probe.Env = env
	if err := probe.Run(); err != nil {
		t.Skip("OCSF'S SCHEMA IS ABSENT: this did not run. It needs Python 3 and `pip install ocsf-json-schema==1.2.0`; the other tests hold events against testdata/api_activity.json.")
	}
	cmd := exec.CommandContext(t.Context(), "python3", args...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.Output()
	must(t, err)
	return out
}

// TestPublishedFacts: testdata/api_activity.json is what the published schema says.
func TestPublishedFacts(t *testing.T) {
	fresh := python(t, "testdata/facts.py", ocsf.Version)
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
			text := python(t, append([]string{"testdata/schema.py", ocsf.Version}, profiles...)...)
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
