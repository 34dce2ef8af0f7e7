package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ/policy"
)

// payQuery is a payment of amount to a supplier with this status; status ""
// means that the bundle doesn't hold the supplier.
func payQuery(t testing.TB, s *policy.Schema, principal, amount, status string) policy.Query {
	t.Helper()
	user := types.NewEntityUID("User", types.String(principal))
	supplier := types.NewEntityUID("Supplier", "ACME-01")
	entities := types.EntityMap{
		user: {UID: user, Parents: types.NewEntityUIDSet(types.NewEntityUID("Group", "ap-clerks"))},
	}
	if status != "" {
		entities[supplier] = types.Entity{UID: supplier, Attributes: types.NewRecord(types.RecordMap{
			"status": types.String(status), "currency": types.String("GBP"),
			"limit_gbp": decimal(t, "1000.0"), "onboarded_by": types.NewEntityUID("User", "olga"),
		})}
	}
	if principal == "nobody" {
		delete(entities, user)
	}
	p, failure := policy.Project(payments(t)[0].Arguments, args(t,
		`{"invoice":"I","supplier":"ACME-01","amount_gbp":`+amount+`,"currency":"GBP","reason":"x"}`))
	if failure != nil {
		t.Fatal(failure)
	}
	return policy.Query{
		Principal: user, Action: action("payments/create_payment"), Resource: supplier, Entities: entities,
		Context: s.Context(policy.ContextInput{
			Now: time.Unix(1_800_000_000, 0), Principal: user, Arguments: p.Record,
			Tool: types.NewEntityUID("Tool", "payments/create_payment"),
		}),
	}
}

func TestJudge(t *testing.T) {
	s := testSchema(t)
	set := mustCompileHeld(t, s, file("pay.cedar", payPolicies))
	for _, c := range []struct {
		principal, amount, status string
		permits, forbids, reviews string
		forbidErrors              string
	}{
		{"raj", "500", "active", "clerks-pay", "", "", ""},
		{"raj", "500.01", "active", "clerks-pay", "", "above-500", ""},
		{"raj", "500.01", "closed", "clerks-pay", "active-suppliers", "above-500", ""},
		{"nobody", "1", "active", "", "", "", ""},
		// A supplier that the bundle doesn't hold has no status: the forbid
		// can't be evaluated. Cedar alone would skip it and allow.
		{"raj", "1", "", "clerks-pay", "", "", "active-suppliers"},
		{"nobody", "501", "", "", "", "above-500", "active-suppliers"},
	} {
		v := set.Judge(payQuery(t, s, c.principal, c.amount, c.status))
		got := []string{
			strings.Join(idsOf(v.Permits), " "), strings.Join(idsOf(v.Forbids), " "),
			strings.Join(idsOf(v.Reviews), " "), strings.Join(idsOf(policiesOf(v.ForbidErrors)), " "),
		}
		if want := []string{c.permits, c.forbids, c.reviews, c.forbidErrors}; strings.Join(got, ";") != strings.Join(want, ";") {
			t.Errorf("%s pays %s to %q: got %q, want %q", c.principal, c.amount, c.status, got, want)
		}
		for _, e := range v.ForbidErrors {
			if e.Err == nil || e.Err.Error() == "" {
				t.Errorf("%s errs without saying why", e.Policy.ID)
			}
		}
	}
	var none *policy.Set
	if v := none.Judge(policy.Query{}); len(v.Permits) > 0 {
		t.Errorf("no policies permit: %v", v)
	}
}

// mustCompileHeld compiles policies for a bundle that holds the entities that
// these tests and benchmarks name.
func mustCompileHeld(t testing.TB, s *policy.Schema, sources ...policy.Source) *policy.Set {
	t.Helper()
	known := held{
		types.NewEntityUID("Group", "ap-clerks"): true, types.NewEntityUID("Group", "directors"): true,
		types.NewEntityUID("Supplier", "B"): true,
	}
	for i := range benchGroups {
		known[types.NewEntityUID("Group", types.String(fmt.Sprintf("g%d", i)))] = true
	}
	set, faults := policy.Compile(s, known, sources)
	if len(faults.Errors()) > 0 {
		t.Fatal(faults)
	}
	return set
}

// TestSetNearest: who lacked a permit learns which came closest, and what it
// lacked.
func TestSetNearest(t *testing.T) {
	s := testSchema(t)
	set := mustCompileHeld(t, s, file("pay.cedar", `
@id("other-action") permit (principal, action == Action::"payments/get_payment", resource);
@id("directors") permit (principal in Group::"directors", action in Action::"write", resource == Supplier::"B")
when { resource.status == "active" };
@id("small") permit (principal in Group::"ap-clerks", action in Action::"payments", resource is Supplier)
when { context.arguments.amount_gbp.lessThan(decimal("10.0")) };
@id("robots") permit (principal is Agent, action, resource);`))
	got := set.Nearest(payQuery(t, s, "raj", "11", "active"))
	want := []struct {
		id                             string
		principal, resource, condition bool
	}{{"small", true, true, false}, {"robots", false, true, true}, {"directors", false, false, true}}
	if len(got) != len(want) {
		t.Fatalf("got %d, want %d", len(got), len(want))
	}
	for i, w := range want {
		if n := got[i]; n.Policy.ID != w.id || n.Principal != w.principal || n.Resource != w.resource || n.Condition != w.condition {
			t.Errorf("%d: got %s %+v, want %+v", i, n.Policy.ID, n, w)
		}
	}
}
