package server_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// callersOf is who may call what, by role: design.md, sections 3 and 4. The
// caller with the role server stands for one server.
var callersOf = map[string][]writ.Role{
	"DecisionService/Decide":             {writ.RoleHost},
	"DecisionService/DecideBatch":        {writ.RoleHost},
	"DecisionService/Explain":            {writ.RoleOperator},
	"EnforcementService/Redeem":          {writ.RoleServer},
	"EnforcementService/VerifyEffect":    {writ.RoleServer},
	"EnforcementService/GetKeys":         {writ.RoleHost, writ.RoleServer, writ.RoleApprover, writ.RoleOperator},
	"ApprovalService/ListReviews":        {writ.RoleApprover, writ.RoleOperator},
	"ApprovalService/GetReview":          {writ.RoleApprover, writ.RoleOperator},
	"ApprovalService/WatchReviews":       {writ.RoleApprover, writ.RoleOperator},
	"ApprovalService/Approve":            {writ.RoleApprover},
	"ApprovalService/Reject":             {writ.RoleApprover},
	"RevocationService/Revoke":           {writ.RoleOperator},
	"RevocationService/ListRevocations":  {writ.RoleOperator},
	"RevocationService/WatchRevocations": {writ.RoleOperator},
	"AuditService/WatchDecisions":        {writ.RoleOperator},
	"AuditService/GetInclusionProof":     {writ.RoleOperator},
	"AuditService/GetConsistencyProof":   {writ.RoleOperator},
}

// TestMethodsAreThoseOfTheAPI: policies can speak of each method of writ.v1, and
// of no other. The table may be ahead of the API by whole services.
func TestMethodsAreThoseOfTheAPI(t *testing.T) {
	generated, services := map[string]bool{}, map[string]bool{}
	protoregistry.GlobalFiles.RangeFilesByPackage("writ.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			services[string(s.Name())] = true
			for j := range s.Methods().Len() {
				generated[string(s.Name())+"/"+string(s.Methods().Get(j).Name())] = true
			}
		}
		return true
	})
	if !generated["DecisionService/Decide"] {
		t.Fatal("the descriptors were not found")
	}
	tabled, names := map[string]bool{}, map[string]bool{}
	for _, m := range policy.Methods {
		full := m.Service + "/" + m.Name
		if tabled[full] || names[m.Name] {
			t.Errorf("%s is there twice, or shares its name", full)
		}
		tabled[full], names[m.Name] = true, true
		if services[m.Service] && !generated[full] {
			t.Errorf("the API has no method %s", full)
		}
		if callersOf[full] == nil {
			t.Errorf("nobody has said here who may call %s", full)
		}
	}
	for full := range generated {
		if !tabled[full] {
			t.Errorf("policies cannot speak of %s: add it to policy.Methods and to rights.cedar", full)
		}
	}
	if len(callersOf) != len(policy.Methods) {
		t.Errorf("%d methods are listed here, %d in the table", len(callersOf), len(policy.Methods))
	}
}

// TestEveryMethodForEveryRole calls each method that is served as each role, as
// nobody in particular, and as nobody, through both doors.
func TestEveryMethodForEveryRole(t *testing.T) {
	var current atomic.Pointer[writ.Caller]
	h := open(t, &decider{}, func(c *server.Config) { c.LocalHost, c.Limits.Rate, c.Limits.Burst = current.Load, 1<<20, 1<<20 })
	callers := map[string]*writ.Caller{"no role": {Name: "bare"}, "nobody": nil}
	for _, role := range []writ.Role{writ.RoleHost, writ.RoleServer, writ.RoleApprover, writ.RoleOperator} {
		// hello's one server is files, which the caller of that name redeems for.
		callers[string(role)] = &writ.Caller{Name: map[bool]string{true: "files", false: "c-" + string(role)}[role == writ.RoleServer], Roles: []writ.Role{role}}
	}
	tried := 0
	for service, info := range h.Services() {
		short, ours := strings.CutPrefix(service, "writ.v1.")
		if !ours {
			continue
		}
		for _, m := range info.Methods {
			for name, caller := range callers {
				current.Store(caller)
				let := slices.Contains(callersOf[short+"/"+m.Name], writ.Role(name))
				full := "/" + service + "/" + m.Name
				err := knock(as(t, h.host), h.conn, full, m.IsClientStream || m.IsServerStream)
				if code := status.Code(err); (code != codes.PermissionDenied && code != codes.Unauthenticated) != let {
					t.Errorf("%s as %s: %v, want it let in: %t", full, name, err, let)
				}
				tried++
				r := h.post(t, h.host, full, body("{}"))
				switch {
				case m.IsClientStream || m.IsServerStream: // not offered there
					if r.status == http.StatusOK {
						t.Errorf("%s over HTTP as %s: %d", full, name, r.status)
					}
				case (r.status != http.StatusForbidden && r.status != http.StatusUnauthorized) != let:
					t.Errorf("%s over HTTP as %s: %d %s, want it let in: %t", full, name, r.status, r.body, let)
				case !let && caller != nil:
					r.wantRefused(t, http.StatusForbidden, "permission_denied", server.ReasonMethodDenied)
				}
			}
		}
	}
	if tried < 9*len(callers) {
		t.Errorf("only %d calls were tried", tried)
	}
}

// TestRightsFollowTheBundle: what a bundle permits and forbids counts from the
// moment that it is in force, at both doors.
func TestRightsFollowTheBundle(t *testing.T) {
	files, err := bundle.ReadDir("../examples/hello")
	if err != nil {
		t.Fatal(err)
	}
	with := func(policies string) *snapshot.Snapshot {
		b, faults := bundle.Build(append(slices.Clone(files), bundle.File{Name: "policies/rights.cedar", Data: []byte(policies)}), nil)
		if b == nil {
			t.Fatal(faults)
		}
		return b.Snapshot
	}
	holder := &snapshot.Holder{}
	h := open(t, &decider{}, func(c *server.Config) {
		c.May = func(caller *writ.Caller, method string) bool { return holder.Load().May(caller, method) }
		c.LocalHost = func() *writ.Caller { return hostOf(holder.Load()) }
		c.LocalOperator = func() *writ.Caller {
			if world := holder.Load(); world != nil {
				return world.LocalOperator
			}
			return nil
		}
	})
	for i, c := range []struct {
		policies        string // "-": there is no world
		decide, explain bool   // whether the host may
		operator        bool   // whether the operator may explain
	}{
		{"-", false, false, false},
		{"", true, false, true},
		{`@id("r") permit (principal == Caller::"host", action == Action::"pdp:Explain", resource);`, true, true, true},
		{`@id("r") permit (principal == Caller::"host", action == Action::"pdp:Explain", resource);
		  @id("s") forbid (principal in Role::"host", action == Action::"pdp:Decide", resource);`, false, true, true},
		{`@id("s") forbid (principal, action in Action::"pdp", resource);`, false, false, false},
		{`@id("s") forbid (principal, action == Action::"pdp:Explain", resource) when { 9223372036854775807 + 1 == 0 };`, true, false, false},
		{`@id("s") @code("X_Y") forbid (principal, action, resource); @id("t") permit (principal, action, resource);`, true, false, true},
	} {
		if c.policies != "-" {
			holder.Store(with(c.policies))
		}
		for _, ask := range []struct {
			who, secret, method string
			want                bool
		}{
			{"host", h.host, decideMethod, c.decide},
			{"host", h.host, "/writ.v1.DecisionService/Explain", c.explain},
			{"operator", h.operator, "/writ.v1.DecisionService/Explain", c.operator},
			{"operator", h.operator, decideMethod, false},
		} {
			err := knock(as(t, ask.secret), h.conn, ask.method, false)
			if got := status.Code(err) != codes.PermissionDenied; got != ask.want {
				t.Errorf("%d: %s of %s: %v, want it let in: %t", i, ask.method, ask.who, err, ask.want)
			}
			if r := h.post(t, ask.secret, ask.method, body("{}")); (r.status != http.StatusForbidden) != ask.want {
				t.Errorf("%d: %s of %s over HTTP: %d %s, want it let in: %t", i, ask.method, ask.who, r.status, r.body, ask.want)
			}
		}
	}
}

func hostOf(world *snapshot.Snapshot) *writ.Caller {
	if world == nil {
		return nil
	}
	return world.LocalHost
}

// TestReflectionIsForCallersWithARight: a bundle that leaves a caller nothing
// leaves it no descriptors either.
func TestReflectionIsForCallersWithARight(t *testing.T) {
	const method = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	var current atomic.Pointer[writ.Caller]
	h := open(t, &decider{}, func(c *server.Config) { c.Reflection, c.LocalHost = true, current.Load })
	for _, c := range []struct {
		caller *writ.Caller
		want   bool
	}{
		{&writ.Caller{Name: "a", Roles: []writ.Role{writ.RoleServer}}, true},
		{&writ.Caller{Name: "b"}, false},
	} {
		current.Store(c.caller)
		if err := knock(as(t, h.host), h.conn, method, true); (status.Code(err) != codes.PermissionDenied) != c.want {
			t.Errorf("%s: %v", c.caller.Name, err)
		}
	}
}

// TestServerNeedsRights: without anybody to ask, no server starts.
func TestServerNeedsRights(t *testing.T) {
	cfg := config(t, &decider{})
	cfg.May = nil
	if _, err := server.New(cfg); err == nil || !strings.Contains(err.Error(), "May") {
		t.Errorf("got %v", err)
	}
}
