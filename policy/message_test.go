package policy_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/types"
	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
	"github.com/writ-pdp/writ/policy"
)

// listed are the entities that a test's bundle holds.
type listed []types.EntityUID

func (l listed) Has(uid types.EntityUID) bool { return slices.Contains(l, uid) }

func (l listed) IDs(t types.EntityType) []string {
	var ids []string
	for _, uid := range l {
		if uid.Type == t {
			ids = append(ids, string(uid.ID))
		}
	}
	slices.Sort(ids)
	return ids
}

// messageBundle reads the bundle that the policies of one archive share.
func messageBundle(t *testing.T, a *txtar.Archive) (*policy.Schema, listed) {
	t.Helper()
	files := map[string][]byte{}
	for _, f := range a.Files {
		files[f.Name] = f.Data
	}
	var all policy.Types
	for name, data := range files {
		id, ok := strings.CutPrefix(name, "servers/")
		if !ok {
			continue
		}
		var d contract.Declaration
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		tools, err := definition.ParseList(files["tools/"+id])
		if err != nil {
			t.Fatalf("tools/%s: %v", id, err)
		}
		contracts, faults, _ := contract.New(d, tools)
		if faults != nil {
			t.Fatalf("%s: %v", name, faults)
		}
		all.Contracts = append(all.Contracts, contracts...)
	}
	all.Schema = policy.Source{File: "schema.cedarschema", Text: files["schema.cedarschema"]}
	for line := range strings.Lines(string(files["issuers"])) {
		role, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		switch role {
		case "principal":
			all.Principals = append(all.Principals, types.EntityType(name))
		case "actor":
			all.Actors = append(all.Actors, types.EntityType(name))
		case "supplied":
			all.Supplied = append(all.Supplied, types.EntityType(name))
		default:
			if ok {
				t.Fatalf("issuers: %q", line)
			}
		}
	}
	s, faults := policy.NewSchema(all)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var held listed
	for line := range strings.Lines(string(files["entities"])) {
		var uid types.EntityUID
		if line = strings.TrimSpace(line); line == "" {
			continue
		} else if err := uid.UnmarshalCedar([]byte(line)); err != nil {
			t.Fatalf("entities: %q: %v", line, err)
		}
		held = append(held, uid)
	}
	return s, held
}

// TestMessages compiles each policy file of testdata/messages in its archive's
// bundle. The .want beside it has one line for each fault, in order: its place
// and, parted by |, what its message must hold.
func TestMessages(t *testing.T) {
	archives, err := filepath.Glob("testdata/messages/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, name := range archives {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, held := messageBundle(t, a)
		wants := map[string]string{}
		for _, f := range a.Files {
			if base, ok := strings.CutSuffix(f.Name, ".want"); ok {
				wants[base] = string(f.Data)
			}
		}
		for _, f := range a.Files {
			base, ok := strings.CutSuffix(f.Name, ".cedar")
			if !ok {
				continue
			}
			want, ok := wants[base]
			if !ok {
				t.Fatalf("%s: %s has no .want", name, f.Name)
			}
			t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar")+"/"+base, func(t *testing.T) {
				_, faults := policy.Compile(s, held, []policy.Source{{File: f.Name, Text: f.Data}})
				compareFaults(t, f.Name, faults, want)
			})
		}
	}
}

// compareFaults compares faults with the lines of a .want file.
func compareFaults(t *testing.T, file string, faults writ.Faults, want string) {
	t.Helper()
	lines := strings.FieldsFunc(want, func(r rune) bool { return r == '\n' })
	got := make([]string, len(faults))
	matches := len(lines) == len(faults)
	for i, f := range faults {
		got[i] = f.Error()
		if !matches {
			continue
		}
		place, words, _ := strings.Cut(lines[i], ": ")
		severity, message := writ.Error, f.Message
		if rest, ok := strings.CutPrefix(words, "warning: "); ok {
			severity, words = writ.Warning, rest
		}
		matches = f.File == file && place == fmt.Sprintf("%d:%d", f.Line, f.Column) && f.Severity == severity
		for _, w := range strings.Split(words, " | ") {
			matches = matches && strings.Contains(message, w)
		}
	}
	if !matches {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}
