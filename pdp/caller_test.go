package pdp_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// with is the bundle's world in which the caller of that name is another; nil:
// nobody.
func with(b *bundle.Bundle, generation uint64, name string, is *writ.Caller) *snapshot.Snapshot {
	world := *b.Snapshot
	world.Callers = maps.Clone(world.Callers)
	delete(world.Callers, name)
	if is != nil {
		world.Callers[name] = is
	}
	world.Rights = snapshot.NewRights(world.Policies, world.Callers, world.Servers, nil)
	view, err := revocation.New(nil)
	if err != nil {
		panic(err)
	}
	return world.At("test", generation, view)
}

// TestCallerOfTheWorld: a caller was let in by the world in force then. What it
// may do, and vouch for, is what the world says that it is answered in.
func TestCallerOfTheWorld(t *testing.T) {
	b := accountsPayable(t)
	s := evidenced(t, b)
	is := &writ.Caller{Name: s.Caller, Roles: []writ.Role{writ.RoleHost}, Vouches: []writ.SourceKind{writ.SourceToken, writ.SourceDocument, writ.SourceSystemOfRecord}}
	for _, c := range []struct {
		name string
		then *writ.Caller
		want writ.Code
	}{
		{"as before", &writ.Caller{Name: is.Name, Roles: is.Roles, Vouches: is.Vouches}, writ.CodeAllow},
		{"may no longer vouch for evidence", &writ.Caller{Name: is.Name, Roles: is.Roles, Vouches: is.Vouches[:1]}, writ.CodeUntrustedSoleSource},
		{"may no longer vouch for tokens", &writ.Caller{Name: is.Name, Roles: is.Roles, Vouches: is.Vouches[1:]}, writ.CodeTokenInvalid},
		{"is no host any more", &writ.Caller{Name: is.Name, Roles: []writ.Role{writ.RoleServer}, Vouches: is.Vouches}, writ.CodeMalformedProposal},
		{"is gone", nil, writ.CodeMalformedProposal},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(s.Now) - time.Second) // its evidence is just fresh enough
				s := s.At(time.Now())
				log := &memory{}
				first, second := with(b, 1, is.Name, is), with(b, 2, is.Name, c.then)
				h := holding(first)
				p := newPDP(t, log, h)
				if a, err := p.Decide(t.Context(), is, &s.Proposal, pdp.Ask{}); err != nil || !a.Allowed() {
					t.Fatalf("before: %+v, %v", a.Decision(), err)
				}
				time.AfterFunc(100*time.Millisecond, func() { h.Store(second) })
				a, err := p.Decide(t.Context(), is, &s.Proposal, pdp.Ask{AtLeastAsFresh: second.Revision})
				if err != nil || a.Decision().Code != c.want || a.Decision().Revision != second.Revision {
					t.Errorf("%+v, %v, want %s", a.Decision(), err, c.want)
				}
				batch, err := p.DecideBatch(t.Context(), is, []pdp.Item{{Proposal: &s.Proposal}}, pdp.Ask{})
				if err != nil || batch[0].Decision().Code != c.want || batch[0].Decision().Revision != second.Revision {
					t.Errorf("a batch: %v, %v, want %s", batch, err, c.want)
				}
				for _, r := range log.records {
					if r.Caller != is.Name {
						t.Errorf("recorded as %q", r.Caller)
					}
				}
			})
		})
	}
}

func accountsPayable(t testing.TB) *bundle.Bundle {
	t.Helper()
	files, err := bundle.ReadDir("../examples/accounts-payable")
	if err != nil {
		t.Fatal(err)
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		t.Fatal(faults)
	}
	return b
}

// evidenced is a scenario that is allowed because the caller vouches for its
// token and its evidence.
func evidenced(t *testing.T, b *bundle.Bundle) bundle.Scenario {
	t.Helper()
	for _, s := range b.Scenarios {
		if s.Expect.Code == writ.CodeAllow && s.Caller == "ap-host" && len(s.Proposal.Evidence) > 0 && len(s.Approvers) == 0 && s.Proposal.Token != nil {
			return s
		}
	}
	t.Fatal("no scenario is allowed for its evidence")
	return bundle.Scenario{}
}
