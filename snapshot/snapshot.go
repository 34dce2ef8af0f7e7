// Package snapshot holds the immutable world that decisions are made in: the
// reviewed contracts, the policies and their schema, the entities, the
// revocations, the issuers and the callers of one revision.
//
// A [Snapshot] is built whole, checked whole, and never changed afterwards.
// A request loads it once from its [Holder] and uses that one to the end, so
// that no decision is made half in one world and half in the next.
package snapshot

import (
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/entities"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/revocation"
)

// Snapshot is one immutable world. Nobody writes to it, or to anything that
// it reaches, once it is in a [Holder]. What it doesn't hold does not exist:
// an absent contract, issuer or caller denies.
type Snapshot struct {
	// Revision names this world on every answer and record: the text of a
	// [Revision]. Equal revisions mean equal content.
	Revision string
	at       Revision // the same, in parts; zero where no source gave it

	Contracts map[string]*contract.Contract // by "S/T": server id, slash, tool name
	Servers   map[string]*contract.Server   // by server id

	Schema      *policy.Schema
	Policies    *policy.Set
	Entities    *entities.Store
	Revocations *revocation.View // nil: nothing is revoked

	Issuers map[string]*Issuer      // by the iss of their tokens
	Callers map[string]*writ.Caller // by name

	// LocalHost, LocalServer and LocalOperator are the callers that the secrets
	// which a server makes at each start stand for: one for hosts, one for MCP
	// servers, one for operators and approvers. Nil: that secret is nobody's. They are also in Callers.
	LocalHost     *writ.Caller
	LocalServer   *writ.Caller
	LocalOperator *writ.Caller
	// Identities finds a caller by what its transport credential says: a name
	// or the subject of its client certificate, or its user on this machine.
	Identities map[Identity]*writ.Caller

	// Rights are what the callers may do: see [Snapshot.May]. Nil: nothing. What
	// they may vouch for is also in Callers.
	Rights *Rights

	Zone     *time.Location // for context.local; never nil
	LoadedAt time.Time      // when the source gave this world, by the server's clock
}

// Contract returns the reviewed contract of a tool, or nil.
func (s *Snapshot) Contract(server, tool string) *contract.Contract {
	return s.Contracts[server+"/"+tool]
}

// TokenVouched reports whether what the caller says of a token of an issuer
// counts as verified: the caller may vouch for tokens, or the bundle has no
// keys by which it could be verified here and takes no groups from it. Groups
// give authority: who names them must be somebody whose word counts.
func (s *Snapshot) TokenVouched(caller *writ.Caller, issuer string) bool {
	i := s.Issuers[issuer]
	return i != nil && i.JWKS == "" && len(i.Keys) == 0 && i.GroupsClaim == "" || caller.VouchesFor(writ.SourceToken)
}

// Issuer says how the tokens of one issuer become Cedar entities.
type Issuer struct {
	Name      string   // the iss of its tokens; "local" for the user of this machine
	Principal Template // makes the principal's entity from the token's sub and claims
	Actor     Template // makes an actor's entity likewise
	Tenant    string   // of every principal that this issuer names; empty: it says nothing of tenants
	JWKS      string   // URL of its signing keys (RFC 7517); empty: none are fetched
	Keys      []byte   // the JWK set itself, from a file of the bundle; empty: see JWKS
	KeysFile  string   // that file
	// Algorithms and Types are the alg and typ that its tokens may have; empty:
	// the defaults of package token.
	Algorithms, Types []string
	// TenantClaim names the claim that holds the tenant, which every token must
	// have then, and which must be Tenant where there is one; empty: none does.
	TenantClaim string
	// GroupsClaim names the claim that holds the principal's groups, and Group
	// makes the entity of each, which is then a parent of the principal's; empty:
	// its tokens make no groups.
	GroupsClaim string
	Group       Template
	// Leeway is how far its clock may be off, for exp and nbf.
	Leeway time.Duration
	// AllowPrivate lets JWKS be fetched from a private address.
	AllowPrivate bool
	// MaxStale is how long fetched keys serve on when they can't be fetched
	// again; 0: see package token.
	MaxStale time.Duration
}
