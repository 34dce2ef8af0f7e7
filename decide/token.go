package decide

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/snapshot"
)

// checkToken establishes whose authority the call uses: the token must be the
// principal's, for this server, alive, and carry the contract's scope. Then
// it names the Cedar entities of the principal and of every actor.
//
// A server that takes no token (a local one, whose caller vouches for the
// user) is spared audience and scope, but a token sent all the same is judged:
// its chain of actors counts.
func (c *call) checkToken() failure {
	p, t := c.proposal, c.proposal.Token
	required := c.contract.Server.TokenRequired
	if t == nil && required {
		return failure{writ.CodeTokenInvalid, "The server takes a token and the proposal has none.", "token"}
	}
	if t != nil && t.Invalid != "" {
		return failure{writ.CodeTokenInvalid, t.Invalid, "access_token"}
	}
	if t != nil && !t.Verified {
		return failure{writ.CodeTokenInvalid, "Nobody who may has verified the token: send it as access_token, or let the caller vouch for tokens.", "token"}
	}
	issuer := c.world.Issuers[p.Principal.Issuer]
	if issuer == nil {
		return failure{writ.CodeTokenInvalid, "The principal's issuer is not one of the bundle's.", "principal.issuer"}
	}
	if t != nil {
		if f := c.checkTokenClaims(t, issuer, required); f.code != "" {
			return f
		}
	} else if issuer.Tenant != "" && p.Principal.Tenant != issuer.Tenant {
		return failure{writ.CodeSubjectMismatch, "The issuer is another tenant's.", "principal.tenant"}
	}
	return c.nameEntities(t, issuer)
}

func (c *call) checkTokenClaims(t *writ.Token, issuer *snapshot.Issuer, required bool) failure {
	p := c.proposal
	if t.Issuer != p.Principal.Issuer {
		return failure{writ.CodeSubjectMismatch, "The token's issuer is not the principal's.", "token.issuer"}
	}
	if t.Subject != p.Principal.Subject {
		return failure{writ.CodeSubjectMismatch, "The token's subject is not the principal.", "token.subject"}
	}
	if issuer.TenantClaim != "" && t.Tenant == "" {
		return failure{writ.CodeSubjectMismatch, "The token does not say whose tenant it is of, as its issuer's tokens must.", "token.tenant"}
	}
	if issuer.Tenant != "" && p.Principal.Tenant != issuer.Tenant || t.Tenant != "" && p.Principal.Tenant != t.Tenant {
		return failure{writ.CodeSubjectMismatch, "The token is another tenant's.", "principal.tenant"}
	}
	if required && (len(t.Audience) != 1 || t.Audience[0] != c.contract.Server.Audience || t.Audience[0] == "") {
		return failure{writ.CodeAudienceMismatch, "The token is not for this server alone.", "token.audience"}
	}
	if !c.now.Before(t.ExpiresAt.Add(issuer.Leeway)) || t.ExpiresAt.IsZero() {
		return failure{writ.CodeTokenExpired, "The token has expired.", "token.expires_at"}
	}
	if c.now.Add(issuer.Leeway).Before(t.NotBefore) {
		return failure{writ.CodeTokenExpired, "The token is not valid yet.", "token.not_before"}
	}
	if required && c.contract.Server.ProofOfPossession && !t.Possessed {
		return failure{writ.CodeTokenInvalid, possession(t), "dpop_proof"}
	}
	if required && c.rule.Scope != "" && !slices.Contains(t.Scopes, c.rule.Scope) {
		c.decision.MissingScope = c.rule.Scope
		return failure{writ.CodeScopeMissing, "The token lacks the scope " + c.rule.Scope + ": step up and propose again.", "token.scopes"}
	}
	return passed
}

// nameEntities gives the principal and each actor the Cedar entity that the
// issuer's template makes of them.
func (c *call) nameEntities(t *writ.Token, issuer *snapshot.Issuer) failure {
	var claims map[string]string
	if t != nil {
		claims = t.Claims
	}
	var err error
	if c.principal, err = issuer.Principal.Entity(c.proposal.Principal.Subject, claims); err != nil {
		return failure{writ.CodeTokenInvalid, "The issuer's template cannot name the principal: " + err.Error() + ".", "principal"}
	}
	c.decision.Principal = entityText(c.principal)
	if f := c.joinGroups(t, issuer); f.code != "" {
		return f
	}
	c.chain = c.proposal.Actors
	if t != nil && len(t.Actors) > 0 {
		c.chain = slices.Concat(t.Actors, c.proposal.Actors)
	}
	if len(c.chain) == 0 {
		return passed
	}
	c.actors = make([]types.EntityUID, len(c.chain))
	c.decision.Actors = make([]string, len(c.chain))
	for i := range c.chain {
		a := &c.chain[i]
		of := issuer
		if a.Issuer != "" && a.Issuer != issuer.Name {
			if of = c.world.Issuers[a.Issuer]; of == nil {
				return failure{writ.CodeTokenInvalid, "An actor's issuer is not one of the bundle's.", c.actorField(i, "issuer")}
			}
		}
		if c.actors[i], err = of.Actor.Entity(a.Subject, a.Claims); err != nil {
			return failure{writ.CodeTokenInvalid, "The issuer's template cannot name an actor: " + err.Error() + ".", c.actorField(i, "claims")}
		}
		c.decision.Actors[i] = entityText(c.actors[i])
	}
	return c.checkMayAct(t, issuer)
}

// actorField names a member of actor i of the chain, where the proposal has it.
func (c *call) actorField(i int, member string) string {
	own := len(c.chain) - len(c.proposal.Actors)
	if i < own {
		return index("token.actors", i, member)
	}
	return index("actors", i-own, member)
}

// possession says why a token that must be bound to its owner's key is not.
func possession(t *writ.Token) string {
	if t.KeyThumbprint == "" && t.CertificateThumbprint == "" {
		return "The server takes only tokens that are bound to a key or a certificate, and this one is not."
	}
	return "The token is bound to a key or a certificate, and nobody has proved to hold it."
}

// checkMayAct holds whoever is appended to the token's chain against the one
// party that the token lets act (RFC 8693, section 4.4): its issuer, its
// subject, and what else the token says of it that makes its entity. A template
// may name another claim than the subject, and then a party with this subject
// could give itself another entity.
func (c *call) checkMayAct(t *writ.Token, issuer *snapshot.Issuer) failure {
	if t == nil || t.MayAct == nil {
		return passed
	}
	or := func(s string) string {
		if s == "" {
			return issuer.Name
		}
		return s
	}
	first := len(c.chain) - len(c.proposal.Actors)
	for i := range c.proposal.Actors {
		a, member := &c.proposal.Actors[i], ""
		switch {
		case a.Subject != t.MayAct.Subject || or(a.Issuer) != or(t.MayAct.Issuer):
			member = "subject"
		case slices.ContainsFunc(c.world.Issuers[or(a.Issuer)].Actor.Names(), func(name string) bool {
			says, there := t.MayAct.Claims[name]
			return name != "sub" && there && says != a.Claims[name]
		}):
			member = "claims"
		default:
			continue
		}
		c.decision.Party = c.decision.Actors[first+i]
		return failure{writ.CodeTokenInvalid, "The token does not let this actor act.", c.actorField(first+i, member)}
	}
	return passed
}
