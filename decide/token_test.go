package decide_test

import (
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/decide"
)

// TestTenantClaim: where an issuer's tokens name their tenant, one that names
// none is nobody's, whatever the proposal says.
func TestTenantClaim(t *testing.T) {
	b := loadCase(t, "token-bearer")
	for _, name := range []string{"a tenant of its token's", "a token of the one tenant that counts"} {
		s := scenarioOf(t, b, name)
		caller := b.Snapshot.Callers[s.Caller]
		if d := decide.Decide(b.Snapshot, caller, &s.Proposal, s.Now, nil); d.Code != writ.CodeAllow {
			t.Fatalf("%s: %s", name, d.Code)
		}
		for _, tenants := range []struct{ token, principal string }{{"", s.Proposal.Principal.Tenant}, {"", ""}, {s.Proposal.Token.Tenant, ""}, {"other", "acme"}} {
			p, token := s.Proposal, *s.Proposal.Token
			p.Token, p.Principal.Tenant, token.Tenant = &token, tenants.principal, tenants.token
			if d := decide.Decide(b.Snapshot, caller, &p, s.Now, nil); d.Code != writ.CodeSubjectMismatch {
				t.Errorf("%s, %+v: %s", name, tenants, d.Code)
			}
		}
	}
}
