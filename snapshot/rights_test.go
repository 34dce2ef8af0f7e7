package snapshot_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/snapshot"
)

func policies(t testing.TB, text string) *policy.Set {
	t.Helper()
	schema, faults := policy.NewSchema(policy.Types{Principals: []types.EntityType{"User"}})
	if faults != nil {
		t.Fatal(faults)
	}
	set, faults := policy.Compile(schema, nil, []policy.Source{{File: "policies/p.cedar", Text: []byte(text)}})
	if set == nil {
		t.Fatal(faults)
	}
	return set
}

func callers(list ...*writ.Caller) map[string]*writ.Caller {
	out := map[string]*writ.Caller{}
	for _, c := range list {
		out[c.Name] = c
	}
	return out
}

// servers are redeemed for by the caller after the colon.
func servers(pairs map[string]string) map[string]*contract.Server {
	out := map[string]*contract.Server{}
	for id, by := range pairs {
		out[id] = &contract.Server{ID: id, RedeemedBy: by}
	}
	return out
}

func TestMay(t *testing.T) {
	host := &writ.Caller{Name: "host", Roles: []writ.Role{writ.RoleHost}}
	guard := &writ.Caller{Name: "guard", Roles: []writ.Role{writ.RoleServer}}
	idle := &writ.Caller{Name: "idle", Roles: []writ.Role{writ.RoleServer}}
	both := &writ.Caller{Name: "both", Roles: []writ.Role{writ.RoleHost, writ.RoleServer}, Vouches: []writ.SourceKind{writ.SourceDocument, writ.SourceUser}}
	bare := &writ.Caller{Name: "bare"}
	everybody := callers(host, guard, idle, both, bare)
	all := servers(map[string]string{"a": "guard", "b": "guard", "c": "both", "d": "host", "e": "nobody"})
	for _, c := range []struct {
		name, text string
		methods    map[string]string   // by caller
		redeems    map[string][]string // by caller
		vouches    string              // of both
	}{
		{
			name:    "roles alone",
			methods: map[string]string{"host": "[Decide DecideBatch GetKeys]", "guard": "[Redeem VerifyEffect GetKeys]", "idle": "[GetKeys]", "both": "[Decide DecideBatch Redeem VerifyEffect GetKeys]", "bare": "[]", "nobody": "[]"},
			redeems: map[string][]string{"guard": {"a", "b"}, "both": {"c"}},
			vouches: "[user document]",
		},
		{
			name: "permits and forbids",
			text: `@id("a") permit (principal in Role::"host", action == Action::"pdp:Redeem", resource is Server) when { resource.redeemed_by == principal };
				@id("b") forbid (principal, action == Action::"pdp:Redeem", resource) when { resource == Server::"b" };
				@id("c") forbid (principal in Role::"server", action == Action::"pdp:Decide", resource);
				@id("d") forbid (principal, action == Action::"vouch", resource == Source::"user");
				@id("e") permit (principal in Role::"server", action == Action::"vouch", resource == Source::"token");`,
			methods: map[string]string{"host": "[Decide DecideBatch Redeem GetKeys]", "guard": "[Redeem VerifyEffect GetKeys]", "idle": "[GetKeys]", "both": "[DecideBatch Redeem VerifyEffect GetKeys]", "bare": "[]"},
			redeems: map[string][]string{"guard": {"a"}, "both": {"c"}, "host": {"d"}},
			vouches: "[document token]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema, faults := policy.NewSchema(policy.Types{Principals: []types.EntityType{"User"}})
			if faults != nil {
				t.Fatal(faults)
			}
			set, faults := policy.Compile(schema, known{}, []policy.Source{{File: "policies/p.cedar", Text: []byte(c.text)}})
			if set == nil {
				t.Fatal(faults)
			}
			world := &snapshot.Snapshot{Rights: snapshot.NewRights(set, everybody, all, nil)}
			for caller, want := range c.methods {
				if got := fmt.Sprint(world.Rights.Methods(caller)); got != want {
					t.Errorf("%s may %s, want %s", caller, got, want)
				}
				for _, m := range policy.Methods {
					if got, want := world.May(&writ.Caller{Name: caller}, m.Name), slices.Contains(world.Rights.Methods(caller), m.Name); got != want {
						t.Errorf("%s may %s: %t, want %t", caller, m.Name, got, want)
					}
				}
				if got, want := world.Rights.Servers(caller, "Redeem"), c.redeems[caller]; !slices.Equal(got, want) {
					t.Errorf("%s redeems for %v, want %v", caller, got, want)
				}
				for id := range all {
					if got, want := world.MayFor(caller, "Redeem", id), slices.Contains(c.redeems[caller], id); got != want {
						t.Errorf("%s may redeem for %s: %t", caller, id, got)
					}
					if world.MayFor(caller, "Decide", id) || world.MayFor(caller, "Mint", id) {
						t.Errorf("%s may do what is about no server for %s", caller, id)
					}
				}
			}
			if got := fmt.Sprint(world.Rights.Vouches("both")); got != c.vouches {
				t.Errorf("both may vouch for %s, want %s", got, c.vouches)
			}
			if world.May(host, "Mint") || world.May(host, "") || world.May(host, "decide") {
				t.Error("a method that there is not may be called")
			}
		})
	}
}

// known knows the server that the policies name.
type known struct{}

func (known) Has(uid types.EntityUID) bool  { return uid == policy.ServerUID("b") }
func (known) IDs(types.EntityType) []string { return nil }

// TestNobodyMay: whatever is missing, nobody may anything.
func TestNobodyMay(t *testing.T) {
	host := &writ.Caller{Name: "host", Roles: []writ.Role{writ.RoleHost}}
	var none *snapshot.Snapshot
	for name, world := range map[string]*snapshot.Snapshot{
		"no world": none, "the zero world": {}, "the zero rights": {Rights: &snapshot.Rights{}},
		"callers without rights": {Callers: callers(host)},
		"no policies":            {Rights: snapshot.NewRights(nil, callers(host), nil, nil), Callers: callers(host)},
		"others":                 {Rights: snapshot.NewRights(policies(t, ""), callers(&writ.Caller{Name: "x", Roles: host.Roles}), nil, nil)},
	} {
		if world.May(host, "Decide") || world.May(nil, "Decide") || world.MayFor("host", "Redeem", "a") {
			t.Errorf("%s: somebody may", name)
		}
	}
	world := &snapshot.Snapshot{Rights: snapshot.NewRights(policies(t, ""), callers(host), nil, nil)}
	if !world.May(host, "Decide") || world.May(nil, "Decide") {
		t.Error("nobody may where somebody should, or the other way round")
	}
}

// TestShortcut: while no permit of a bundle is about redeeming, only a server's
// redeemer is asked about. One that permits nothing has everybody asked, and the
// answers are the same.
func TestShortcut(t *testing.T) {
	everybody, ids := map[string]*writ.Caller{}, map[string]string{}
	for i := range 12 {
		name := fmt.Sprint("c", i)
		everybody[name] = &writ.Caller{Name: name, Roles: []writ.Role{[]writ.Role{writ.RoleHost, writ.RoleServer, writ.RoleServer, writ.RoleOperator}[i%4]}}
		ids[fmt.Sprint("s", i)] = fmt.Sprint("c", (i*5+1)%12)
	}
	all := servers(ids)
	short := snapshot.NewRights(policies(t, ""), everybody, all, nil)
	long := snapshot.NewRights(policies(t, `@id("a") permit (principal, action in Action::"pdp", resource is Server) when { resource.owner == "nobody" };`), everybody, all, nil)
	some := 0
	for name := range everybody {
		for _, method := range []string{"Redeem", "VerifyEffect"} {
			got, want := short.Servers(name, method), long.Servers(name, method)
			if some += len(want); !slices.Equal(got, want) {
				t.Errorf("%s %s: %v, and %v where everybody is asked about", name, method, got, want)
			}
		}
	}
	if some == 0 {
		t.Error("nobody redeems")
	}
}

// TestRightsAreKept: they are worked out anew only when something that they
// follow from has changed.
func TestRightsAreKept(t *testing.T) {
	host := writ.Caller{Name: "host", Roles: []writ.Role{writ.RoleHost}}
	set, all := policies(t, ""), servers(map[string]string{"a": "guard"})
	first := snapshot.NewRights(set, callers(&host), all, nil)
	same := host
	for name, r := range map[string]*snapshot.Rights{
		"the same":       snapshot.NewRights(set, callers(&host), all, first),
		"equal callers":  snapshot.NewRights(set, callers(&same), maps.Clone(all), first),
		"equal policies": snapshot.NewRights(policies(t, ""), callers(&host), servers(map[string]string{"a": "guard"}), first),
		"of calls":       snapshot.NewRights(policies(t, `@id("a") @code("X_Y") forbid (principal, action, resource);`), callers(&host), all, first),
	} {
		if r != first {
			t.Errorf("%s: made anew", name)
		}
	}
	more, vouching := host, host
	more.Roles, vouching.Vouches = append(more.Roles, writ.RoleApprover), []writ.SourceKind{writ.SourceUser}
	for name, r := range map[string]*snapshot.Rights{
		"roles":    snapshot.NewRights(set, callers(&more), all, first),
		"vouches":  snapshot.NewRights(set, callers(&vouching), all, first),
		"callers":  snapshot.NewRights(set, callers(&host, &writ.Caller{Name: "x"}), all, first),
		"redeemer": snapshot.NewRights(set, callers(&host), servers(map[string]string{"a": "other"}), first),
		"servers":  snapshot.NewRights(set, callers(&host), servers(map[string]string{"a": "guard", "b": "guard"}), first),
		"policies": snapshot.NewRights(policies(t, `@id("a") forbid (principal, action in Action::"pdp", resource);`), callers(&host), all, first),
		"no set":   snapshot.NewRights(nil, callers(&host), all, first),
	} {
		if r == first {
			t.Errorf("%s: taken over", name)
		}
	}
}

func TestMayDoesNotAllocate(t *testing.T) {
	host := &writ.Caller{Name: "host", Roles: []writ.Role{writ.RoleHost}}
	world := &snapshot.Snapshot{Rights: snapshot.NewRights(policies(t, ""), callers(host), nil, nil)}
	if n := testing.AllocsPerRun(100, func() { world.May(host, "Decide"); world.MayFor("host", "Redeem", "a") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func crowd() (map[string]*writ.Caller, map[string]*contract.Server) {
	people, ids := map[string]*writ.Caller{}, map[string]string{}
	for i := range 200 {
		name := fmt.Sprint("caller-", i)
		people[name] = &writ.Caller{Name: name, Roles: []writ.Role{[]writ.Role{writ.RoleHost, writ.RoleServer, writ.RoleApprover, writ.RoleOperator}[i%4]}}
		ids[fmt.Sprint("server-", i)] = name
	}
	return people, servers(ids)
}

func BenchmarkMay(b *testing.B) {
	people, all := crowd()
	world := &snapshot.Snapshot{Rights: snapshot.NewRights(policies(b, ""), people, all, nil)}
	host := people["caller-0"]
	b.ReportAllocs()
	for b.Loop() {
		if !world.May(host, "Decide") {
			b.Fatal("no")
		}
	}
}

// BenchmarkRights is 200 callers and 200 servers: of a bundle that says nothing of
// them, of one that does, and once more without a change.
func BenchmarkRights(b *testing.B) {
	people, all := crowd()
	for name, text := range map[string]string{
		"roles":   "",
		"forbids": `@id("a") forbid (principal in Role::"host", action == Action::"pdp:GetKeys", resource);`,
		"permits": `@id("a") permit (principal in Role::"host", action == Action::"pdp:Redeem", resource) when { resource.owner == "x" };`,
	} {
		set := policies(b, text)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				snapshot.NewRights(set, people, all, nil)
			}
		})
		first := snapshot.NewRights(set, people, all, nil)
		b.Run(name+"/again", func(b *testing.B) {
			for b.Loop() {
				snapshot.NewRights(set, people, maps.Clone(all), first)
			}
		})
	}
}
