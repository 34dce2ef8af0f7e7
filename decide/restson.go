package decide

import (
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/snapshot"
)

// Name is what a revocation names.
type Name struct {
	Kind       revocation.Kind
	Issuer, ID string // Issuer is empty for kinds that no issuer is part of
}

// RestsOn returns every name that, once revoked, would deny the proposal, or
// take an approval of it away: what checkRevocation and approvalRevoked ask
// for. It is nil for a proposal that is not even somebody's.
func RestsOn(world *snapshot.Snapshot, caller *writ.Caller, p *writ.Proposal, now time.Time) []Name {
	if world == nil || caller == nil || p == nil {
		return nil
	}
	c := newCall(world, caller, p, now)
	for _, check := range [...]func(*call) failure{(*call).checkProposal, (*call).checkRegistration, (*call).checkToken} {
		if check(&c).code != "" {
			return nil
		}
	}
	return c.names()
}

func (c *call) names() []Name {
	p := c.proposal
	names := []Name{
		{revocation.Principal, p.Principal.Issuer, p.Principal.Subject},
		{revocation.Issuer, "", p.Principal.Issuer},
		{revocation.Caller, "", c.caller.Name},
		{revocation.Server, "", p.Server.ID},
		{revocation.Tool, "", p.Server.ID + "/" + p.Tool},
	}
	for i := range c.chain {
		names = append(names,
			Name{revocation.Actor, "", c.chain[i].Subject},
			Name{revocation.Actor, "", string(c.actors[i].ID)},
			Name{revocation.Principal, c.issuerOf(i), c.chain[i].Subject},
			Name{revocation.Issuer, "", c.issuerOf(i)},
		)
	}
	if t := p.Token; t != nil {
		if t.ID != "" {
			names = append(names, Name{revocation.Token, t.Issuer, t.ID})
		}
		if t.KeyID != "" {
			names = append(names, Name{revocation.Key, t.Issuer, t.KeyID})
		}
	}
	if p.Intent != nil {
		names = append(names, Name{revocation.Intent, "", p.Intent.ID})
	}
	for i := range p.Approvals {
		a := &p.Approvals[i]
		names = append(names,
			Name{revocation.Principal, a.Approver.Issuer, a.Approver.Subject},
			Name{revocation.Issuer, "", a.Approver.Issuer},
			Name{revocation.Approval, "", a.ID},
		)
	}
	return names
}
