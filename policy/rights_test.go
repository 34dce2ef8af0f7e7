package policy_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/policy"
)

// callersOf makes entities of callers beside what a set holds.
type callersOf struct {
	set     *policy.Set
	callers types.EntityMap
}

func (c callersOf) Get(uid types.EntityUID) (types.Entity, bool) {
	if e, ok := c.callers[uid]; ok {
		return e, true
	}
	return c.set.Static(uid)
}

// may asks a set about callers named like their role, of whom payments stands
// for the server payments.
func may(set *policy.Set, caller string, action, resource types.EntityUID) bool {
	held := callersOf{set, types.EntityMap{}}
	for name, role := range map[string]writ.Role{
		"host": writ.RoleHost, "payments": writ.RoleServer, "approver": writ.RoleApprover, "operator": writ.RoleOperator,
	} {
		e := policy.CallerEntity(&writ.Caller{Name: name, Roles: []writ.Role{role}})
		held.callers[e.UID] = e
	}
	none := policy.CallerEntity(&writ.Caller{Name: "none"})
	held.callers[none.UID] = none
	return set.Entitles(policy.Query{Principal: policy.CallerUID(caller), Action: action, Resource: resource, Entities: held})
}

// wantRights is the table of design.md, sections 3 and 4: which role may call
// which method. The one caller with the role server stands for one server.
var wantRights = map[string][]string{
	"Decide":              {"host"},
	"DecideBatch":         {"host"},
	"Explain":             {"operator"},
	"Redeem":              {"payments"},
	"VerifyEffect":        {"payments"},
	"GetKeys":             {"host", "payments", "approver", "operator"},
	"ListReviews":         {"approver", "operator"},
	"GetReview":           {"approver", "operator"},
	"WatchReviews":        {"approver", "operator"},
	"Approve":             {"approver"},
	"Reject":              {"approver"},
	"Revoke":              {"operator"},
	"ListRevocations":     {"operator"},
	"WatchRevocations":    {"operator"},
	"WatchDecisions":      {"operator"},
	"GetInclusionProof":   {"operator"},
	"GetConsistencyProof": {"operator"},
}

var everyone = []string{"host", "payments", "approver", "operator", "none"}

// TestRights: what each role may do where the bundle says nothing, and where it
// permits every action without naming any.
func TestRights(t *testing.T) {
	for name, text := range map[string]string{
		"no policies":  "",
		"open permits": `@id("a") permit (principal, action, resource);`,
		"open forbids": `@id("a") @code("X_Y") forbid (principal, action, resource); @id("b") @review("1") forbid (principal, action, resource);`,
		"of calls":     `@id("a") permit (principal, action in [Action::"write", Action::"read", Action::"approve"], resource);`,
	} {
		t.Run(name, func(t *testing.T) {
			set := compiled(t, text)
			if len(policy.Methods) != len(wantRights) {
				t.Errorf("%d methods, %d listed here", len(policy.Methods), len(wantRights))
			}
			for _, m := range policy.Methods {
				want, listed := wantRights[m.Name]
				if !listed {
					t.Errorf("%s is not listed here", m.Name)
				}
				for _, caller := range everyone {
					resource := m.UID()
					if m.OfServer {
						resource = policy.ServerUID("payments")
						if may(set, caller, m.Action(), policy.ServerUID("files")) {
							t.Errorf("%s may %s for a server that is not its own", caller, m.Name)
						}
					}
					if got := may(set, caller, m.Action(), resource); got != slices.Contains(want, caller) {
						t.Errorf("%s may %s: %t", caller, m.Name, got)
					}
				}
			}
			for _, caller := range everyone {
				for _, kind := range writ.SourceKinds {
					if may(set, caller, policy.Vouch(), policy.SourceUID(kind)) {
						t.Errorf("%s may vouch for %s", caller, kind)
					}
				}
			}
		})
	}
}

// TestRightsOfTheBundle: what a bundle adds, and what it takes away.
func TestRightsOfTheBundle(t *testing.T) {
	method := func(name string) policy.Method {
		i := slices.IndexFunc(policy.Methods[:], func(m policy.Method) bool { return m.Name == name })
		return policy.Methods[i]
	}
	for _, c := range []struct {
		name, text  string
		caller, may string
		want        bool
	}{
		{"a permit", `@id("a") permit (principal in Role::"host", action == Action::"pdp:Explain", resource);`, "host", "Explain", true},
		{"to others", `@id("a") permit (principal in Role::"host", action == Action::"pdp:Explain", resource);`, "approver", "Explain", false},
		{"without a role", `@id("a") permit (principal == Caller::"none", action == Action::"pdp:GetKeys", resource);`, "none", "GetKeys", true},
		{"of another method", `@id("a") permit (principal, action == Action::"pdp:Revoke", resource);`, "host", "Explain", false},
		{"of all methods", `@id("a") permit (principal == Caller::"none", action in Action::"pdp", resource);`, "none", "Revoke", true},
		{"of a service", `@id("a") permit (principal == Caller::"none", action in Action::"pdp", resource == Service::"AuditService");`, "none", "WatchDecisions", true},
		{"of another service", `@id("a") permit (principal == Caller::"none", action in Action::"pdp", resource == Service::"AuditService");`, "none", "Revoke", false},
		{"of another's server", `@id("a") permit (principal in Role::"host", action == Action::"pdp:Redeem", resource == Server::"payments");`, "host", "Redeem", true},
		{"a forbid", `@id("a") forbid (principal, action == Action::"pdp:Explain", resource);`, "operator", "Explain", false},
		{"a forbid with a code", `@id("a") @code("NOT_HERE") forbid (principal, action == Action::"pdp:Explain", resource);`, "operator", "Explain", false},
		{"of others", `@id("a") forbid (principal == Caller::"host", action == Action::"pdp:Explain", resource);`, "operator", "Explain", true},
		{"of all", `@id("a") forbid (principal, action in Action::"pdp", resource) unless { principal in Role::"host" };`, "operator", "Revoke", false},
		{"with exceptions", `@id("a") forbid (principal, action in Action::"pdp", resource) unless { principal in Role::"host" };`, "host", "Decide", true},
		{"beats a permit", `@id("a") permit (principal, action in Action::"pdp", resource); @id("b") forbid (principal, action == Action::"pdp:Decide", resource);`, "host", "Decide", false},
		{"of one's own server", `@id("a") forbid (principal, action == Action::"pdp:Redeem", resource == Server::"payments");`, "payments", "Redeem", false},
		{"vouching is no method", `@id("a") permit (principal, action == Action::"vouch", resource);`, "none", "Decide", false},
		// Cedar would skip a forbid that errs.
		{"a forbid that errs", `@id("a") forbid (principal, action == Action::"pdp:Decide", resource) when { 9223372036854775807 + 1 == 0 };`, "host", "Decide", false},
		{"a permit that errs", `@id("a") permit (principal, action == Action::"pdp:Revoke", resource) when { 9223372036854775807 + 1 != 0 };`, "host", "Revoke", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, faults := policy.Compile(testSchema(t), listed{policy.CallerUID("none"), policy.CallerUID("host")}, []policy.Source{file("p.cedar", c.text)})
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			m := method(c.may)
			resource := m.UID()
			if m.OfServer {
				resource = policy.ServerUID("payments")
			}
			if got := may(set, c.caller, m.Action(), resource); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestRightsAnswerNoCall: a policy about callers is a candidate for no call and
// no approval, and what a call's policies are does not change with it.
func TestRightsAnswerNoCall(t *testing.T) {
	const call = `@id("call") permit (principal, action, resource);`
	before := compiled(t, call)
	after := compiled(t, call+`@id("a") permit (principal, action in Action::"pdp", resource); @id("b") forbid (principal, action == Action::"vouch", resource);`)
	pay := types.NewEntityUID("Action", "payments/create_payment")
	if before.Digest(pay) != after.Digest(pay) {
		t.Error("the digest of a call's policies changed")
	}
	if before.LawOfCallers() == after.LawOfCallers() {
		t.Error("the digest of the callers' policies did not change")
	}
	for _, id := range []string{"a", "b"} {
		if p := after.Policy(id); !p.AboutRights() || p.Inactive || len(after.Covers(p)) > 0 {
			t.Errorf("%s: about rights %t, inactive %t, covers %v", id, p.AboutRights(), p.Inactive, after.Covers(p))
		}
	}
	if after.Policy("call").AboutRights() {
		t.Error("an open permit is about rights")
	}
	explain := types.NewEntityUID("Action", "pdp:Explain")
	v := after.Judge(policy.Query{Principal: policy.CallerUID("x"), Action: explain, Resource: policy.Methods[2].UID()})
	if len(v.Permits)+len(v.Forbids)+len(v.PermitErrors)+len(v.ForbidErrors) > 0 || after.AnyPermit(explain) {
		t.Errorf("the policies about calls answer for a method: %+v", v)
	}
	if may(after, "host", pay, types.NewEntityUID("Tool", "payments/create_payment")) {
		t.Error("the policies about callers answer for a call")
	}
	var none *policy.Set
	if none.Entitles(policy.Query{}) || !none.Forbids(policy.Query{}) {
		t.Error("no policies let somebody do something")
	}
}

func compiled(t *testing.T, text string) *policy.Set {
	t.Helper()
	set, faults := policy.Compile(testSchema(t), nil, []policy.Source{file("p.cedar", text)})
	if set == nil {
		t.Fatal(faults)
	}
	return set
}

// TestOwnRightsAreSound: Writ's own policies are what a bundle's could be, but for
// their ids.
func TestOwnRightsAreSound(t *testing.T) {
	text, err := os.ReadFile("rights.cedar")
	if err != nil {
		t.Fatal(err)
	}
	set, faults := policy.Compile(testSchema(t), nil, []policy.Source{file("p.cedar", strings.ReplaceAll(string(text), `@id("pdp:`, `@id("own:`))})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for _, p := range set.Policies() {
		if !p.AboutRights() || p.Explain == "" || p.Effect != types.Permit {
			t.Errorf("%s: about rights %t, %q, %v", p.ID, p.AboutRights(), p.Explain, p.Effect)
		}
	}
}

// TestDocumentedRights: the policies of docs/callers.md load.
func TestDocumentedRights(t *testing.T) {
	page, err := os.ReadFile("../docs/callers.md")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i, part := range strings.Split(string(page), "```") {
		if cedar, ok := strings.CutPrefix(part, "cedar\n"); ok && i%2 == 1 {
			text.WriteString(cedar)
		}
	}
	known := listed{policy.CallerUID("dev-host"), policy.CallerUID("chat-host"), policy.CallerUID("gateway")}
	set, faults := policy.Compile(testSchema(t), known, []policy.Source{file("p.cedar", text.String())})
	if len(faults) > 0 || set.Len() < 4 {
		t.Fatalf("%d policies: %v", set.Len(), faults)
	}
	for _, m := range policy.Methods {
		if !strings.Contains(string(page), "`"+m.Name+"`") || !strings.Contains(string(page), "`"+m.Service+"`") {
			t.Errorf("the page does not say who may call %s", m.Name)
		}
	}
}
