package bundle

import (
	"fmt"
	"strings"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/revocation"
)

// checkIdentities refuses one server under two ids: a proposer would choose
// whose review counts.
func (b *builder) checkIdentities() {
	first := map[string]*server{}
	for _, s := range b.servers {
		if len(s.contracts) == 0 {
			continue
		}
		is := s.contracts[0].Server
		field, identity := "endpoint", is.Endpoint
		if identity == "" {
			field, identity = "package_hash", is.PackageHash
		}
		if other := first[field+" "+identity]; other != nil {
			b.faultAt(s.document, field, fmt.Sprintf("server %s has this %s already: one server is reviewed once, under one id", other.id, field))
		} else {
			first[field+" "+identity] = s
		}
	}
}

// checkPossession warns of servers that take only tokens whose possession is
// proved, where the bundle has issuers whose tokens nothing can be proved of.
func (b *builder) checkPossession() {
	var unproved []string
	for _, name := range keys(b.issuers) {
		if i := b.issuers[name]; i.JWKS == "" && len(i.Keys) == 0 {
			unproved = append(unproved, name)
		}
	}
	if len(unproved) == 0 {
		return
	}
	const field = "proof_of_possession"
	for _, s := range b.servers {
		if len(s.contracts) == 0 || !s.contracts[0].Server.ProofOfPossession {
			continue
		}
		n := s.document.at(field)
		b.faults = append(b.faults, writ.Fault{
			File: s.file, Line: n.Line, Column: n.Column, Field: field, Severity: writ.Warning,
			Message: "the bundle has no keys of " + strings.Join(unproved, " or ") + ", so the proof is the word of whoever brings their tokens: write jwks where they stand in issuers.yaml",
		})
	}
}

// checkRevoked warns of revocations that name nothing the bundle knows: it may
// come later, or the name is misspelt and revokes nothing.
func (b *builder) checkRevoked() {
	if b.layout.revocations == nil || b.issuers == nil || b.callers == nil {
		return
	}
	contracts := map[string]*contract.Contract{}
	servers := map[string]bool{}
	for _, s := range b.servers {
		servers[s.id] = true
		for _, c := range s.contracts {
			contracts[c.ID()] = c
		}
	}
	for i, e := range b.revoked {
		var what string
		var names []string
		id, known := e.ID, true
		switch e.Kind {
		case revocation.Server:
			what, names, known = "server", keys(servers), servers[e.ID]
		case revocation.Tool:
			what, names, known = "tool", keys(contracts), contracts[e.ID] != nil
		case revocation.Caller:
			what, names, known = "caller", keys(b.callers), b.callers[e.ID] != nil
		case revocation.Issuer:
			what, names, known = "issuer", keys(b.issuers), b.issuers[e.ID] != nil
		case revocation.Principal, revocation.Token, revocation.Key:
			id = e.Issuer
			what, names, known = "issuer", keys(b.issuers), b.issuers[e.Issuer] != nil
		}
		if known || id == "" { // New says what is wrong with an empty one
			continue
		}
		field := item("revocations", i)
		n := b.revocationFile.at(field)
		b.faults = append(b.faults, writ.Fault{
			File: b.revocationFile.file, Line: n.Line, Column: n.Column, Field: field, Severity: writ.Warning,
			Message: didYouMean(fmt.Sprintf("the bundle has no %s %q, so this revokes nothing that it knows", what, id), id, names),
		})
	}
}
