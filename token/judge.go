package token

import (
	"context"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/snapshot"
)

// Judge returns p with a token whose Verified and Invalid are Writ's word: an
// access token is verified, and what the caller says of one counts as verified
// if the caller may vouch for it in this world. p itself stays as it is.
//
// A nil v verifies nothing: an access token is Invalid then.
func (v *Verifier) Judge(ctx context.Context, world *snapshot.Snapshot, caller *writ.Caller, p *writ.Proposal, now time.Time) *writ.Proposal {
	if world == nil || p == nil || p.Token == nil && len(p.AccessToken) == 0 {
		return p
	}
	judged := *p
	switch {
	case len(p.AccessToken) > 0 && v == nil:
		judged.Token = &writ.Token{Invalid: "Access tokens are not verified here."}
	case len(p.AccessToken) > 0:
		judged.Token = v.Verify(ctx, world, caller.VouchesFor(writ.SourceToken), p, now)
	default:
		t := *p.Token
		t.Verified, t.Invalid = world.TokenVouched(caller, t.Issuer), ""
		judged.Token = &t
	}
	return &judged
}
