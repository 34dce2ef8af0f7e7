package policy_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/policy"
)

// corpusCase is one file of the corpus that cedar-go takes from Cedar's Rust
// implementation.
type corpusCase struct {
	Policies string
	Entities string
	Requests []struct {
		Description string
		Principal   types.EntityUID
		Action      types.EntityUID
		Resource    types.EntityUID
		Context     types.Record
		Decision    types.Decision
		Reason      []string
		Errors      []string
	}
}

// TestCorpus evaluates Cedar's own corpus through the index, forbids and
// permits apart, and wants what the corpus says and what a scan of all
// policies says.
func TestCorpus(t *testing.T) {
	t.Parallel()
	files := corpus(t)
	requests, split := 0, 0
	for name, data := range files {
		if !strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".entities.json") {
			continue
		}
		var c corpusCase
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var entities types.EntityMap
		if err := json.Unmarshal(files[c.Entities], &entities); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		set, err := cedar.NewPolicySetFromBytes(name, files[c.Policies])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ids, policies := ordered(set)
		groups := map[types.EntityUID][]types.EntityUID{}
		for _, r := range c.Requests {
			groups[r.Action] = groupsOf(entities, r.Action)
		}
		indexed := policy.NewIndexed(ids, policies, groups)
		for _, r := range c.Requests {
			q := policy.Query{Principal: r.Principal, Action: r.Action, Resource: r.Resource, Context: r.Context, Entities: entities}
			got := outcomeOf(t, indexed.Judge(q))
			if want := (outcome{r.Decision, sorted(r.Reason), sorted(r.Errors)}); !got.equal(want) {
				t.Errorf("%s: %s:\n got %v\nwant %v", name, r.Description, got, want)
			}
			if want := scan(set, q); !got.equal(want) {
				t.Errorf("%s: %s:\n got %v\nscan %v", name, r.Description, got, want)
			}
			requests++
			if len(got.errors) > 0 {
				split++
			}
		}
	}
	if requests < 1000 || split == 0 {
		t.Fatalf("the corpus has %d requests, %d of them with errors: too few to mean anything", requests, split)
	}
	t.Logf("%d requests, %d with errors", requests, split)
}

// corpus returns the files of cedar-go's corpus, from the module that the
// tests are built with.
func corpus(t testing.TB) map[string][]byte {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cedar-policy/cedar-go").Output()
	if err != nil {
		t.Fatalf("finding cedar-go: %v", err)
	}
	f, err := os.Open(filepath.Join(strings.TrimSpace(string(dir)), "corpus-tests.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = data
	}
}

// outcome is what Cedar calls the result of a request.
type outcome struct {
	decision        types.Decision
	reasons, errors []string
}

func (o outcome) equal(other outcome) bool {
	return o.decision == other.decision && slices.Equal(o.reasons, other.reasons) && slices.Equal(o.errors, other.errors)
}

// outcomeOf puts a verdict together as Cedar does: a satisfied forbid denies,
// else a satisfied permit allows, and policies that err are skipped. It also
// checks the order that the verdict promises.
func outcomeOf(t testing.TB, v policy.Verdict) outcome {
	t.Helper()
	for _, list := range [][]*policy.Policy{v.Permits, v.Forbids, policiesOf(v.ForbidErrors), policiesOf(v.PermitErrors)} {
		if !slices.IsSortedFunc(list, policy.Compare) {
			t.Errorf("not in order: %v", idsOf(list))
		}
	}
	for _, p := range slices.Concat(v.Forbids, policiesOf(v.ForbidErrors)) {
		if p.Effect != types.Forbid {
			t.Errorf("%s is a permit among forbids", p.ID)
		}
	}
	o := outcome{errors: sorted(idsOf(policiesOf(append(v.ForbidErrors, v.PermitErrors...))))}
	switch {
	case len(v.Forbids) > 0:
		o.reasons = sorted(idsOf(v.Forbids))
	case len(v.Permits) > 0:
		o.decision, o.reasons = types.Allow, sorted(idsOf(v.Permits))
	}
	return o
}

// scan is the outcome when Cedar looks at every policy.
func scan(set cedar.PolicyIterator, q policy.Query) outcome {
	decision, diagnostic := cedar.Authorize(set, q.Entities, types.Request{
		Principal: q.Principal, Action: q.Action, Resource: q.Resource, Context: q.Context,
	})
	o := outcome{decision: decision}
	for _, r := range diagnostic.Reasons {
		o.reasons = append(o.reasons, string(r.PolicyID))
	}
	for _, e := range diagnostic.Errors {
		o.errors = append(o.errors, string(e.PolicyID))
	}
	o.reasons, o.errors = sorted(o.reasons), sorted(o.errors)
	return o
}

func ordered(set *cedar.PolicySet) (ids []string, policies []*cedar.Policy) {
	for id := range set.All() {
		ids = append(ids, string(id))
	}
	slices.Sort(ids)
	for _, id := range ids {
		policies = append(policies, set.Get(cedar.PolicyID(id)))
	}
	return ids, policies
}

// groupsOf returns everything that the action is in, going by entities.
func groupsOf(entities types.EntityMap, action types.EntityUID) []types.EntityUID {
	seen := map[types.EntityUID]bool{action: true}
	var groups []types.EntityUID
	for todo := []types.EntityUID{action}; len(todo) > 0; todo = todo[1:] {
		for parent := range entities[todo[0]].Parents.All() {
			if !seen[parent] {
				seen[parent] = true
				groups, todo = append(groups, parent), append(todo, parent)
			}
		}
	}
	return groups
}

func idsOf(policies []*policy.Policy) []string {
	var ids []string
	for _, p := range policies {
		ids = append(ids, p.ID)
	}
	return ids
}

func policiesOf(errs []policy.EvalError) []*policy.Policy {
	var out []*policy.Policy
	for _, e := range errs {
		out = append(out, e.Policy)
	}
	return out
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
