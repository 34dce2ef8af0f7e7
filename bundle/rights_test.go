package bundle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/snapshot"
)

const (
	peopleOfThePDP = `callers:
- {name: ap-host, role: host, local: true, vouches_for: [user, document, token]}
- {name: chat-host, role: host, mtls: "spiffe://acme.example/chat"}
- {name: guard, role: server, mtls: "spiffe://acme.example/guard"}
- {name: desk, roles: [operator, approver], local: true}
`
	// Nobody of callers.yaml is named.
	forHosts = `@id("r1") permit (principal in Role::"host", action == Action::"pdp:Explain", resource);` + "\n"
)

// entitled is the base with callers, and policies about them.
func entitled(t testing.TB, policies string) map[string][]byte {
	files := base(t)
	files["callers.yaml"] = []byte(peopleOfThePDP)
	files["policies/rights.cedar"] = []byte(policies)
	files["servers/notes.yaml"] = append([]byte("redeemed_by: guard\n"), files["servers/notes.yaml"]...)
	return files
}

func built(t testing.TB, files map[string][]byte, previous *bundle.Bundle) *bundle.Bundle {
	t.Helper()
	b, faults := bundle.Build(list(files), previous)
	if b == nil {
		t.Fatal(faults)
	}
	return b
}

func mays(s *snapshot.Snapshot) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Callers)) {
		out = append(out, fmt.Sprintf("%s %d %v", name, len(s.Rights.Methods(name)), s.Rights.Servers(name, "Redeem")))
	}
	return strings.Join(out, "; ")
}

func TestRightsOfABundle(t *testing.T) {
	s := built(t, entitled(t, ""), nil).Snapshot
	if got, want := mays(s), "ap-host 3 []; chat-host 3 []; desk 13 []; guard 3 [notes]; server 1 []"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s = built(t, entitled(t, forHosts+`@id("r2") forbid (principal == Caller::"chat-host", action == Action::"pdp:Explain", resource);
@id("r3") permit (principal in Role::"server", action == Action::"pdp:Redeem", resource == Server::"notes");
@id("r4") forbid (principal == Caller::"guard", action in Action::"pdp", resource);`), nil).Snapshot
	if got, want := mays(s), "ap-host 4 []; chat-host 3 []; desk 13 []; guard 0 []; server 2 [notes]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !s.May(s.Callers["ap-host"], "Explain") || s.May(s.Callers["chat-host"], "Explain") || s.MayFor("guard", "Redeem", "notes") {
		t.Error("the policies are not in force")
	}
	files := base(t)
	delete(files, "callers.yaml")
	s = built(t, files, nil).Snapshot
	if got, want := mays(s), "host 3 []; operator 13 []; server 3 [notes]"; got != want {
		t.Errorf("without callers.yaml: %s, want %s", got, want)
	}
}

// TestVouchingByPolicy: a line of vouches_for is a permit, which a forbid beats,
// and whoever finds the caller finds what is left.
func TestVouchingByPolicy(t *testing.T) {
	plain := built(t, entitled(t, ""), nil)
	b := built(t, entitled(t, `@id("v1") forbid (principal, action == Action::"vouch", resource == Source::"token");
@id("v2") permit (principal == Caller::"chat-host", action == Action::"vouch", resource == Source::"human");
@id("v3") forbid (principal in Role::"host", action == Action::"vouch", resource == Source::"user") when { 9223372036854775807 + 1 == 0 };`), plain)
	s := b.Snapshot
	for name, want := range map[string][]writ.SourceKind{
		"ap-host": {writ.SourceDocument}, "chat-host": {writ.SourceHuman}, "guard": nil, "desk": nil,
	} {
		c := s.Callers[name]
		for _, kind := range append(writ.SourceKinds[:], writ.SourceToken) {
			if got := c.VouchesFor(kind); got != slices.Contains(want, kind) {
				t.Errorf("%s vouches for %s: %t", name, kind, got)
			}
		}
	}
	found := 0
	for _, c := range s.Identities {
		if found++; c != s.Callers[c.Name] {
			t.Errorf("by its certificate %s is another", c.Name)
		}
	}
	if s.LocalHost != s.Callers["ap-host"] || s.LocalOperator != s.Callers["desk"] || found != 2 {
		t.Error("by its secret a caller is another")
	}
	if c := plain.Snapshot.Callers["ap-host"]; !c.VouchesFor(writ.SourceToken) || !c.VouchesFor(writ.SourceUser) || plain.Snapshot.LocalHost != c {
		t.Errorf("the world before has changed: %+v", c)
	}
	// And back, by way of worlds in which something else changes.
	for _, policies := range []string{"", `@id("v1") forbid (principal, action == Action::"vouch", resource);`, ""} {
		b = built(t, entitled(t, policies), b)
		if got, want := says(b), says(built(t, entitled(t, policies), nil)); got != want {
			t.Errorf("%q: rebuilt\n%s\nfrom nothing\n%s", policies, got, want)
		}
	}
}

// TestRebuildRights: what is rebuilt says what a build from nothing says.
func TestRebuildRights(t *testing.T) {
	files := entitled(t, "")
	b := built(t, files, nil)
	for i, step := range []struct{ file, text, want string }{
		{"policies/rights.cedar", forHosts, ""},
		{"policies/b.cedar", `@id("b") forbid (principal == Caller::"chat-hots", action in Action::"pdp", resource);`, `there is no Caller::"chat-hots"; did you mean Caller::"chat-host"?`},
		{"policies/b.cedar", `@id("b") forbid (principal == Caller::"chat-host", action in Action::"pdp", resource);`, ""},
		{"callers.yaml", strings.ReplaceAll(peopleOfThePDP, "chat-host", "talk-host"), `there is no Caller::"chat-host"`},
		{"callers.yaml", peopleOfThePDP, ""},
		{"callers.yaml", strings.Replace(peopleOfThePDP, "role: server", "roles: [server, host]", 1), ""},
		{"callers.yaml", strings.Replace(peopleOfThePDP, "role: server", "role: srever", 1), `"srever" is not a role`},
		{"servers/notes.yaml", string(base(t)["servers/notes.yaml"]), ""},
		{"policies/b.cedar", `@id("b") @code("X_Y") forbid (principal, action, resource);`, ""},
		{"callers.yaml", "", ""},
	} {
		old, there := files[step.file]
		files[step.file] = []byte(step.text)
		if step.text == "" {
			delete(files, step.file)
		}
		now, faults := bundle.Build(list(files), b)
		if got := fmt.Sprint(faults); step.want != "" && (now != nil || !strings.Contains(got, step.want)) || step.want == "" && now == nil {
			t.Fatalf("step %d: %s, want %q", i, got, step.want)
		}
		if now == nil {
			if files[step.file] = old; !there {
				delete(files, step.file)
			}
			continue
		}
		if b = now; says(b) != says(built(t, files, nil)) {
			t.Errorf("step %d: rebuilt\n%s\nfrom nothing\n%s", i, says(b), says(built(t, files, nil)))
		}
	}
}

// TestRightsAreNotMadeAnew: another policy about calls leaves the callers alone.
func TestRightsAreNotMadeAnew(t *testing.T) {
	files := entitled(t, forHosts)
	first := built(t, files, nil)
	files["policies/other.cedar"] = []byte(`@id("o") @code("X_Y") forbid (principal, action, resource);`)
	second := built(t, files, first)
	if second.Snapshot.Rights != first.Snapshot.Rights {
		t.Error("a policy about calls had the rights made anew")
	}
	files["policies/rights.cedar"] = []byte("")
	if third := built(t, files, second); third.Snapshot.Rights == second.Snapshot.Rights {
		t.Error("the rights are those of policies that are gone")
	}
}
