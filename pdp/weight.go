package pdp

import "github.com/writ-pdp/writ"

// What a value takes beside its texts and lists, in bytes, rounded up.
const (
	header       = 16 // of a text
	actorSize    = 48
	evidenceSize = 160
	approvalSize = 224
)

// weight is about how many bytes a grant and its proposal take. It counts
// whatever a host may make long, or many of.
func weight(p *writ.Proposal) int {
	n := 3072 + // the token of the grant, its claims, and what has one size
		len(p.ArgumentsJSON) + len(p.ExtraParamsJSON) + len(p.DefinitionJSON) +
		texts(p.RequestID, p.ClientCertificate, p.Server.ID, p.Server.Endpoint, p.Server.PackageHash, p.Tool) +
		texts(p.Principal.Issuer, p.Principal.Subject, p.Principal.Tenant) + actors(p.Actors)
	if in := p.Intent; in != nil {
		n += texts(in.ID, in.Purpose)
	}
	if t := p.Token; t != nil {
		n += texts(t.Invalid, t.Issuer, t.Subject, t.Tenant, t.ID, t.KeyID, t.KeyThumbprint, t.CertificateThumbprint) +
			list(t.Audience) + list(t.Scopes) + list(t.Groups) + claims(t.Claims) + actors(t.Actors)
		if t.MayAct != nil {
			n += actor(t.MayAct)
		}
	}
	n += len(p.Evidence) * evidenceSize
	for i := range p.Evidence {
		e := &p.Evidence[i]
		n += len(e.ValueJSON) + texts(e.Argument, string(e.Kind), e.Reference, e.Classification) + list(e.DerivedFrom)
	}
	n += len(p.Approvals) * approvalSize
	for i := range p.Approvals {
		a := &p.Approvals[i]
		n += texts(a.ID, a.KeyID, a.Approver.Issuer, a.Approver.Subject, a.Approver.Tenant) + claims(a.Claims)
	}
	return n
}

func texts(all ...string) (n int) {
	for _, s := range all {
		n += len(s)
	}
	return n
}

func list(all []string) int { return texts(all...) + len(all)*header }

// claims counts a map's room beside its texts as twice their two headers.
func claims(all map[string]string) (n int) {
	for name, value := range all {
		n += len(name) + len(value) + 4*header
	}
	return n
}

func actors(all []writ.Actor) (n int) {
	for i := range all {
		n += actor(&all[i])
	}
	return n
}

func actor(a *writ.Actor) int {
	return actorSize + texts(a.Issuer, a.Subject) + claims(a.Claims)
}
