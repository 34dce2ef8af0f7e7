package pdp

import (
	"bytes"
	"slices"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/snapshot"
)

// trust is by what the token of a proposal counted in the world in which it was
// judged. The token itself is not kept, so that another world can't judge it
// again.
type trust struct {
	issuer  *snapshot.Issuer // by whose entry it was verified here; nil: its caller said so, or there is none
	vouches bool             // its caller may vouch for tokens
}

func trusted(s *setting, q asked) trust {
	t := trust{vouches: q.as.VouchesFor(writ.SourceToken)}
	if q.proposal.Token != nil && len(q.proposal.AccessToken) > 0 {
		t.issuer = s.world.Issuers[q.proposal.Token.Issuer]
	}
	return t
}

// holds reports whether a token that was judged so counts in a world, too. Where
// it would have to be verified again it does not.
func (t trust) holds(world *snapshot.Snapshot, as *writ.Caller, token *writ.Token) bool {
	switch {
	case token == nil:
		return true
	case t.issuer == nil:
		return world.TokenVouched(as, token.Issuer)
	case t.vouches && !as.VouchesFor(writ.SourceToken) && token.CertificateThumbprint != "":
		return false // the client certificate was what the caller saw
	}
	a, b := t.issuer, world.Issuers[token.Issuer]
	return a == b || b != nil && a.JWKS == b.JWKS && bytes.Equal(a.Keys, b.Keys) &&
		slices.Equal(a.Algorithms, b.Algorithms) && slices.Equal(a.Types, b.Types) &&
		a.TenantClaim == b.TenantClaim && a.GroupsClaim == b.GroupsClaim
}
