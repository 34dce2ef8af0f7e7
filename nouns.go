package writ

import (
	"time"

	"github.com/writ-pdp/writ/canon"
)

// Principal is for whom a call is made: one subject of one issuer. Two
// issuers may share a subject.
type Principal struct {
	Issuer  string // the token's iss
	Subject string // the token's sub, never empty
	Tenant  string // optional
}

// Actor acts for the principal (RFC 8693, section 4.1). The chain of the
// token comes first; a proposal may only append.
type Actor struct {
	Issuer  string // empty: the principal's issuer
	Subject string // never empty
	// Claims holds what else the issuer's template may name, such as
	// client_id. The template's {sub} is Subject.
	Claims map[string]string
}

// Token is what an access token says, once somebody has verified it.
type Token struct {
	// Verified: its signature was verified here under the issuer's keys, or by
	// a caller who may vouch for that. Otherwise it says nothing.
	Verified bool
	// Invalid says in one sentence, without values, why the token could not be
	// verified; then it says nothing. Empty: nothing was found wrong.
	Invalid string

	Issuer    string
	Subject   string
	Tenant    string   // optional
	Audience  []string // RFC 7519, section 4.1.3
	Scopes    []string // RFC 6749, section 3.3
	ID        string   // jti, optional
	KeyID     string   // kid of the key that signed it, optional
	IssuedAt  time.Time
	NotBefore time.Time // zero: no lower bound
	ExpiresAt time.Time // zero: expired
	// Claims holds the further string claims that an issuer's template may name.
	Claims map[string]string
	// Groups are the values of the claim that the issuer's entry names as its
	// groups; without such an entry they mean nothing.
	Groups []string
	Actors []Actor // the act chain, outermost first (RFC 8693, section 4.1)
	MayAct *Actor  // who alone may be appended to it (RFC 8693, section 4.4); nil: it says nothing

	// KeyThumbprint and CertificateThumbprint are what the token is bound to
	// (cnf: jkt, RFC 9449, section 6.1; x5t#S256, RFC 8705, section 3.1), in
	// base64url; empty: nothing.
	KeyThumbprint, CertificateThumbprint string
	// Possessed: whoever sent the token has proved that the key, or the
	// certificate, is theirs.
	Possessed bool
}

// Intent is the user's current purpose. It is never inherited indefinitely:
// it always expires.
type Intent struct {
	ID         string
	Purpose    string
	DeclaredAt time.Time
	ExpiresAt  time.Time
}

// ServerRef names the MCP server that a proposal is for, as the proposer
// sees it now: its id and what it is reached by.
type ServerRef struct {
	ID          string
	Endpoint    string // canonical URL, for a remote server
	PackageHash string // for a local server
}

// SourceKind is where a value was observed.
type SourceKind string

// Source kinds. An unknown kind is untrusted.
const (
	SourceUser           SourceKind = "user"
	SourceSystemOfRecord SourceKind = "system_of_record"
	SourcePolicy         SourceKind = "policy"
	SourceHuman          SourceKind = "human"
	SourceToolResult     SourceKind = "tool_result"
	SourceDocument       SourceKind = "document"
	SourceModel          SourceKind = "model"
)

// SourceToken is what a caller vouches for that verifies access tokens itself.
// It is no kind of evidence.
const SourceToken SourceKind = "token"

// SourceKinds lists every source kind of evidence.
var SourceKinds = [...]SourceKind{
	SourceUser, SourceSystemOfRecord, SourcePolicy, SourceHuman, SourceToolResult, SourceDocument, SourceModel,
}

// Evidence says where the value of one argument was observed. It counts only
// if the observed value equals the argument.
type Evidence struct {
	Argument       string // JSON Pointer into the arguments (RFC 6901): /supplier
	ValueJSON      []byte // the observed value, as JSON
	Kind           SourceKind
	Reference      string // of the source: a URI or a record's name
	Classification string // empty: unclassified
	ObservedAt     time.Time
	Confidence     float64  // 0 to 1; 0: not stated
	DerivedFrom    []string // references that this source took the value from
}

// Approval is a person's verified agreement: an independent approver's
// statement over one proposal and one review. Signatures are checked before
// it comes here; one that failed arrives as Forged.
type Approval struct {
	ID       string
	KeyID    string // kid of the key that signed it
	Approver Principal
	// Claims holds the further claims that the issuer's template may name.
	Claims         map[string]string
	ProposalDigest canon.Digest
	ReviewDigest   canon.Digest
	IssuedAt       time.Time
	ExpiresAt      time.Time // zero: expired
	Forged         bool
}

// Proposal is one tool call that someone wants to make. Everything in it is
// a claim until a control has checked it.
type Proposal struct {
	RequestID string // never empty
	Intent    *Intent
	Principal Principal
	Actors    []Actor // appended to the token's chain
	Token     *Token
	// AccessToken is the token itself, which is still to be verified and takes
	// the place of Token; empty: there is none. It is a secret.
	AccessToken []byte
	// DPoPProof is a proof of possession of its key (RFC 9449, section 4.2);
	// empty: there is none. ClientCertificate is the thumbprint of the client
	// certificate that the caller saw it come with, as in a Token.
	DPoPProof         []byte
	ClientCertificate string
	Server            ServerRef
	Tool              string
	// The tool's current definition: its digest, or the Tool object itself as
	// tools/list gives it, which then is digested here.
	DefinitionDigest canon.Digest
	DefinitionJSON   []byte
	// ArgumentsJSON is the exact JSON of params.arguments; empty means absent,
	// which counts as {}.
	ArgumentsJSON []byte
	// ExtraParamsJSON holds any other member of params but name and _meta, as
	// one object; empty when there is none.
	ExtraParamsJSON []byte
	Evidence        []Evidence
	Approvals       []Approval
	// SignedApprovals are compact JWS, still to be verified; then they are among
	// Approvals.
	SignedApprovals []string
	// Retries is the digest of the proposal that this one tries again, because
	// nobody knows what came of it; zero: it is no retry.
	Retries canon.Digest
}

// Caller is who speaks to the PDP, as its transport credential says.
type Caller struct {
	Name  string
	Roles []Role
	// Vouches lists the source kinds that the caller may vouch for.
	Vouches []SourceKind
}

// Role is what a caller may do at the PDP.
type Role string

// Roles.
const (
	RoleHost     Role = "host"
	RoleServer   Role = "server"
	RoleApprover Role = "approver"
	RoleOperator Role = "operator"
)

// Has reports whether the caller has role r.
func (c *Caller) Has(r Role) bool {
	if c == nil {
		return false
	}
	for _, have := range c.Roles {
		if have == r {
			return true
		}
	}
	return false
}

// VouchesFor reports whether evidence of kind k counts as trusted when c
// brings it.
func (c *Caller) VouchesFor(k SourceKind) bool {
	if c == nil {
		return false
	}
	for _, have := range c.Vouches {
		if have == k {
			return true
		}
	}
	return false
}

// Effect is what a tool does to the world, as its reviewer declared.
type Effect string

// Effects. Any other value counts as [Write].
const (
	Pure  Effect = "pure"  // computes; reads nothing and changes nothing
	Read  Effect = "read"  // reads
	Write Effect = "write" // changes something
)

// PolicyRef names one policy of the bundle.
type PolicyRef struct {
	ID     string // its @id
	File   string // relative to the bundle
	Line   int    // from 1
	Code   Code   // its @code, if any
	Review int    // people its @review needs; 0: none
	// Explain is the policy's @explain, for people.
	Explain string
}

// Decision is one answer and its reasons. The zero value denies.
type Decision struct {
	Outcome     Outcome
	Code        Code
	Control     Control
	Explanation string // one sentence for people, without argument values

	// Policies are those of the winning class, in order of file and position:
	// satisfied forbids, review policies, or permits.
	Policies []PolicyRef
	// Nearest are, for NO_PERMIT, permits whose action matched.
	Nearest []PolicyRef
	// Errors are policies that failed to evaluate.
	Errors []PolicyRef
	// MissingScope is the scope that SCOPE_MISSING names.
	MissingScope string
	// Field names the part of the proposal that a malformed one lacks, or the
	// JSON Pointer of an argument.
	Field string

	Effect    Effect // of the contract, once known
	Server    string
	Tool      string
	Action    string   // Cedar action id: payments/create_payment
	Resources []string // Cedar entities, as text
	Principal string   // Cedar entity, as text
	Actors    []string // Cedar entities, as text
	// Party is who of them is denied, as the same text: the first who lacks a
	// permit, whom a forbid concerns, or who is revoked. Empty: none of them.
	Party string

	// Digests are zero until the controls that make them have run.
	ContractDigest canon.Digest
	CallDigest     canon.Digest
	ProposalDigest canon.Digest
	ReviewDigest   canon.Digest
	PolicyDigest   canon.Digest // of the candidate policies

	// Review is what people are asked to agree to, of a REVIEW_REQUIRED; nil of
	// any other answer.
	Review *Review

	Revision string
	// HeardAt is when the source of bundles and revocations last confirmed that
	// this world is its newest. It is set only where that is longer ago than the
	// server's limit.
	HeardAt time.Time
}
