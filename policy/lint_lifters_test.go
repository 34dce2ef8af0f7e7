package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cedar-policy/cedar-go/types"
	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/policy"
)

// TestLifters asks who might lift a review of label_write#delete, and of
// further tools where a case says so.
func TestLifters(t *testing.T) {
	a, err := txtar.ParseFile("testdata/messages/github.txtar")
	if err != nil {
		t.Fatal(err)
	}
	s, held := messageBundle(t, a)
	user := func(id string) types.EntityUID { return types.NewEntityUID("User", types.String(id)) }
	group := func(id string) types.EntityUID { return types.NewEntityUID("Group", types.String(id)) }
	held = append(held, group("maintainers"), user("miriam"), user("max"), group("leads"))
	entities := types.EntityMap{
		user("dana"):         {UID: user("dana"), Parents: types.NewEntityUIDSet(group("engineers"))},
		user("miriam"):       {UID: user("miriam"), Parents: types.NewEntityUIDSet(group("leads"))},
		user("max"):          {UID: user("max"), Parents: types.NewEntityUIDSet(group("maintainers"))},
		group("leads"):       {UID: group("leads"), Parents: types.NewEntityUIDSet(group("maintainers"))},
		group("maintainers"): {UID: group("maintainers")},
	}
	candidates := []types.EntityUID{user("dana"), user("max"), user("miriam")}
	const (
		review = `@id("r") @review("1") forbid (principal, action == Action::"github/label_write#delete", resource);`
		two    = `@id("r") @review("2") forbid (principal, action == Action::"github/label_write#delete", resource);`
		both   = `@id("r") @review("1") forbid (principal, action in [Action::"github/label_write#delete", Action::"github/star"], resource);`
		call   = `Action::"approve:github/label_write"`
	)
	permit := func(scope, conditions string) string {
		return fmt.Sprintf("@id(%q) permit (%s) %s;\n", fmt.Sprintf("p%d", len(scope)+len(conditions)), scope, conditions)
	}
	maintainers := permit(`principal in Group::"maintainers", action in Action::"approve", resource`, "")
	tests := []struct {
		name, policies string
		known          []string
		others         bool
		warning        string
	}{
		{"nobody", review, nil, false,
			`no entity in the bundle is permitted Action::"approve:github/label_write" for "r" (needs 1)`},
		{"an open scope covers no approvals", review + permit(`principal, action, resource`, ""), nil, false, "needs 1"},
		{"a group and the groups in it", review + maintainers, []string{"max", "miriam"}, false, ""},
		{"the action itself", review + permit(`principal in Group::"leads", action == `+call+`, resource`, ""), []string{"miriam"}, false, ""},
		{"another action", review + permit(`principal in Group::"leads", action == Action::"approve:github/star", resource`, ""), nil, false, "needs 1"},
		{"too few", two + permit(`principal in Group::"leads", action in Action::"approve", resource`, ""), []string{"miriam"}, false,
			`only User::"miriam" might be permitted Action::"approve:github/label_write" for "r" (needs 2)`},
		{"enough", two + maintainers, []string{"max", "miriam"}, false, ""},
		{"two permits", two + permit(`principal in Group::"leads", action in Action::"approve", resource`, "") +
			permit(`principal == User::"dana", action in Action::"approve", resource`, ""), []string{"dana", "miriam"}, false, ""},
		{"for this review", review + permit(`principal in Group::"leads", action in Action::"approve", resource`, `when { context.review == Policy::"r" }`), []string{"miriam"}, false, ""},
		{"for another review", review + `@id("other") @review("1") forbid (principal, action == Action::"github/star", resource);` +
			permit(`principal in Group::"leads", action in Action::"approve", resource`, `when { Policy::"other" == context.review }`), nil, false, `for "r" (needs 1)`},
		{"for any but this review", review + permit(`principal in Group::"leads", action in Action::"approve", resource`, `unless { context.review == Policy::"r" }`), nil, false, "needs 1"},
		{"for some reviews", review + permit(`principal in Group::"leads", action in Action::"approve", resource`, `when { [Policy::"r"].contains(context.review) }`), []string{"miriam"}, false, ""},
		{"under a condition of the call", review + permit(`principal in Group::"leads", action in Action::"approve", resource is Repository`, `when { context.arguments.owner == "acme" }`), []string{"miriam"}, false, ""},
		{"under a condition on the person", review + permit(`principal, action in Action::"approve", resource`, `when { principal in Group::"leads" && principal != User::"dana" }`), []string{"miriam"}, false, ""},
		{"for another kind of target", review + permit(`principal in Group::"leads", action in Action::"approve", resource is Tool`, ""), nil, false, "needs 1"},
		{"anybody", review + permit(`principal is User, action in Action::"approve", resource`, ""), []string{"dana", "max", "miriam"}, true, ""},
		{"somebody whom only the issuer knows", review + permit(`principal == User::"zoe", action in Action::"approve", resource`, ""), []string{"zoe"}, false, ""},
		{"an actor, whom no issuer makes a principal", review + permit(`principal == Agent::"copilot", action in Action::"approve", resource`, ""), nil, false,
			`no entity in the bundle is permitted Action::"approve:github/label_write" for "r" (needs 1)`},
		{"actors", review + permit(`principal is Agent, action in Action::"approve", resource`, ""), nil, false, "needs 1"},
		{"actors by the condition", review + permit(`principal, action in Action::"approve", resource`, `when { principal is Agent }`), nil, false, "needs 1"},
		{"an actor by the condition", review + permit(`principal, action in Action::"approve", resource`, `when { principal == Agent::"copilot" }`), nil, false, "needs 1"},
		{"all but actors by the condition", review + permit(`principal, action in Action::"approve", resource`, `when { principal is User }`), []string{"dana", "max", "miriam"}, true, ""},
		{"an actor beside a person", two + permit(`principal == Agent::"copilot", action in Action::"approve", resource`, "") +
			permit(`principal == User::"dana", action in Action::"approve", resource`, ""), []string{"dana"}, false, `only User::"dana" might be permitted`},
		{"a forbid", review + maintainers + `@id("no") @code("NO_LEADS") forbid (principal in Group::"leads", action in Action::"approve", resource);`, []string{"max"}, false, ""},
		{"a forbid for some calls", review + maintainers + `@id("no") @code("NO_LEADS") forbid (principal in Group::"leads", action in Action::"approve", resource) when { context.local.hour < 8 };`, []string{"max", "miriam"}, false, ""},
		{"the tool with the fewest", both + maintainers + `@id("no") @code("NO_LEADS") forbid (principal in Group::"leads", action == Action::"approve:github/star", resource);`, []string{"max"}, false, ""},
		{"the tool with none", both + permit(`principal in Group::"leads", action == `+call+`, resource`, ""), nil, false, `Action::"approve:github/star"`},
		{"one tool by the condition", both + permit(`principal in Group::"leads", action in Action::"approve", resource`, `when { context.tool == Tool::"github/label_write" }`), nil, false, `Action::"approve:github/star"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, faults := policy.Compile(s, held, []policy.Source{file("p.cedar", tt.policies)})
			if set == nil {
				t.Fatal(faults)
			}
			got := set.Lifters(set.Policy("r"), candidates, entities)
			var ids []string
			for _, uid := range got.Known {
				ids = append(ids, string(uid.ID))
			}
			if !slices.Equal(ids, tt.known) || got.Others != tt.others {
				t.Errorf("got %v and others %t, want %v and %t", ids, got.Others, tt.known, tt.others)
			}
			people := policy.People{
				All:   slices.Values(candidates),
				Among: func(uid types.EntityUID) bool { return slices.Contains(candidates, uid) },
				In: func(who, in types.EntityUID) bool {
					return who == in || entities[who].Parents.Contains(in) ||
						in == group("maintainers") && entities[who].Parents.Contains(group("leads"))
				},
			}
			unlifted, found := set.UnliftedReviews(people, nil)
			if again, _ := set.UnliftedReviews(people, append(found, types.NewEntityUID("User", "gone"))); !slices.Equal(again, unlifted) {
				t.Errorf("the second time: %v, not %v", again, unlifted)
			}
			warnings := append(faults, unlifted...)
			warnings = slices.DeleteFunc(warnings, func(f writ.Fault) bool {
				return tt.warning == "" || f.Severity != writ.Warning
			})
			want := ""
			if tt.warning != "" {
				want = "1:1: warning: " + tt.warning
			}
			compareFaults(t, "p.cedar", warnings, want)
		})
	}
}
