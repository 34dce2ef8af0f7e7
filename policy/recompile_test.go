package policy_test

import (
	"reflect"
	"testing"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/policy"
)

// What is taken over of a previous set is what there would be without it: the
// places, ranks and digests of policies, and what is said of them.
func TestRecompile(t *testing.T) {
	s := testSchema(t)
	group := func(id string) types.EntityUID { return types.NewEntityUID("Group", types.String(id)) }
	const (
		one   = "@id(\"one\")\npermit (principal in Group::\"g\", action, resource);\n"
		two   = "@id(\"two\") @code(\"NO_ZOE\")\nforbid (principal == User::\"zoe\", action, resource);\n"
		three = "@id(\"three\")\npermit (principal in Group::\"h\", action, resource) when { principal in Group::\"g\" };\n"
	)
	last, faults := policy.Compile(s, held{group("g"): true}, []policy.Source{file("b.cedar", one)})
	if last == nil {
		t.Fatal(faults)
	}
	made := 0
	for i, step := range []struct {
		known   held
		sources []policy.Source
	}{
		{held{group("g"): true}, []policy.Source{file("b.cedar", one)}},
		{held{}, []policy.Source{file("b.cedar", one)}}, // an error in what is the same
		{held{group("g"): true}, []policy.Source{file("b.cedar", one), file("a.cedar", two)}},
		{held{group("g"): true}, []policy.Source{file("c.cedar", one), file("a.cedar", two)}},
		{held{group("g"): true}, []policy.Source{file("a.cedar", two+"\n"+one)}},
		{held{group("g"): true}, []policy.Source{file("a.cedar", two+"\n"+one), file("b.cedar", one)}}, // one id twice
		{held{group("g"): true}, []policy.Source{file("a.cedar", two+"\n"+one), file("b.cedar", three)}},
		{held{group("g"): true, group("h"): true}, []policy.Source{file("a.cedar", two+"\n"+one), file("b.cedar", three)}},
		{held{group("g"): true, group("h"): true}, []policy.Source{file("a.cedar", two), file("b.cedar", three), file("c.cedar", "permit (principal")}},
		{held{group("g"): true, group("h"): true, types.NewEntityUID("User", "zoe"): true}, []policy.Source{file("a.cedar", two), file("b.cedar", three)}},
		{held{group("g"): true, group("h"): true}, []policy.Source{file("b.cedar", three)}}, // the only one of its scope is gone
	} {
		want, wanted := policy.Compile(s, step.known, step.sources)
		got, faults := policy.Recompile(s, step.known, step.sources, last)
		if !reflect.DeepEqual(faults, wanted) || (got == nil) != (want == nil) {
			t.Fatalf("step %d: got\n%v\nwant\n%v", i, faults, wanted)
		}
		if read := policy.Read(step.sources, last); !reflect.DeepEqual(read, policy.Read(step.sources, nil)) {
			t.Errorf("step %d: read %v", i, read)
		}
		if got == nil {
			continue
		}
		made++
		if got.Len() != want.Len() {
			t.Fatalf("step %d: %d policies, want %d", i, got.Len(), want.Len())
		}
		for k, p := range got.Policies() {
			q := want.Policies()[k]
			if !reflect.DeepEqual(p.PolicyRef, q.PolicyRef) || p.Column != q.Column || p.Inactive != q.Inactive || string(p.Text) != string(q.Text) {
				t.Errorf("step %d: policy %+v, want %+v", i, p, q)
			}
			for _, action := range want.Covers(q) {
				if got.Digest(action) != want.Digest(action) {
					t.Errorf("step %d: the digest of %s differs", i, action)
				}
			}
			if !reflect.DeepEqual(got.Covers(p), want.Covers(q)) {
				t.Errorf("step %d: %s covers %v, want %v", i, p.ID, got.Covers(p), want.Covers(q))
			}
		}
		last = got
	}
	if made != 7 {
		t.Errorf("%d sets were made: not what this test is about", made)
	}
}
