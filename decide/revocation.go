package decide

import (
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/revocation"
)

// checkRevocation asks whether anything that the call rests on has been
// withdrawn. What carries no time of issue counts as issued before any
// "issued before".
func (c *call) checkRevocation() failure {
	v := c.world.Revocations
	if v.Sequence() == 0 {
		return passed
	}
	p := c.proposal
	var issued time.Time
	if p.Token != nil {
		issued = p.Token.IssuedAt
	}
	revoked := c.revoked
	if revoked(revocation.Principal, p.Principal.Issuer, p.Principal.Subject, issued) {
		c.decision.Party = c.decision.Principal
		return withdrawn(writ.CodePrincipalRevoked, "The principal is revoked.", "principal")
	}
	for i := range c.chain {
		if c.actorRevoked(i, issued) {
			c.decision.Party = c.decision.Actors[i]
			return withdrawn(writ.CodeActorRevoked, c.decision.Party+", who acts, is revoked.", c.actorField(i, "subject"))
		}
	}
	if revoked(revocation.Caller, "", c.caller.Name, time.Time{}) {
		return withdrawn(writ.CodeCallerRevoked, "The caller is revoked.", "")
	}
	if revoked(revocation.Issuer, "", p.Principal.Issuer, issued) {
		return withdrawn(writ.CodeIssuerRevoked, "The principal's issuer is revoked.", "principal.issuer")
	}
	for i := range c.chain {
		if revoked(revocation.Issuer, "", c.issuerOf(i), issued) {
			c.decision.Party = c.decision.Actors[i]
			return withdrawn(writ.CodeIssuerRevoked, "The issuer of "+c.decision.Party+", who acts, is revoked.", c.actorField(i, "issuer"))
		}
	}
	if t := p.Token; t != nil {
		if t.ID != "" && revoked(revocation.Token, t.Issuer, t.ID, issued) ||
			t.KeyID != "" && revoked(revocation.Key, t.Issuer, t.KeyID, issued) {
			return withdrawn(writ.CodeTokenRevoked, "The token or its key is revoked.", "token")
		}
	}
	if in := p.Intent; in != nil && revoked(revocation.Intent, "", in.ID, in.DeclaredAt) {
		return withdrawn(writ.CodeIntentRevoked, "The intent is revoked.", "intent")
	}
	if revoked(revocation.Server, "", p.Server.ID, time.Time{}) {
		return withdrawn(writ.CodeServerRevoked, "The server is revoked.", "server")
	}
	if revoked(revocation.Tool, "", p.Server.ID+"/"+p.Tool, time.Time{}) {
		return withdrawn(writ.CodeToolRevoked, "The tool is revoked.", "tool")
	}
	return passed
}

// revoked asks for one name. A time of issue in the future is the caller's
// mistake or worse: it counts as unknown.
func (c *call) revoked(k revocation.Kind, issuer, id string, at time.Time) bool {
	if at.After(c.now.Add(skew)) {
		at = time.Time{}
	}
	_, yes := c.world.Revocations.Revoked(k, issuer, id, at, c.now)
	return yes
}

// actorRevoked asks for an actor by every name that it goes by: as an actor by
// its subject and by the id of its entity, which the template may make of
// other claims, and as a principal.
func (c *call) actorRevoked(i int, issued time.Time) bool {
	subject := c.chain[i].Subject
	return c.revoked(revocation.Actor, "", subject, issued) || c.revoked(revocation.Actor, "", string(c.actors[i].ID), issued) ||
		c.revoked(revocation.Principal, c.issuerOf(i), subject, issued)
}

func withdrawn(code writ.Code, why, field string) failure { return failure{code, why, field} }

// issuerOf returns the issuer of actor i of the chain.
func (c *call) issuerOf(i int) string {
	if s := c.chain[i].Issuer; s != "" {
		return s
	}
	return c.proposal.Principal.Issuer
}
