package grant

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// Limits of a grant.
const (
	MaxSize     = 4 << 10         // bytes of the token
	MaxLifetime = 5 * time.Minute // from issue to expiry
	MaxActors   = 8
	maxList     = 8    // locations, and actions
	maxValue    = 2048 // bytes of one text
	maxClaims   = 16   // further claims of an actor
	// maxDate is the year 9999: later dates have no RFC 3339 text.
	maxDate = 253402300799
)

// detailType is the type of the one authorization_details (RFC 9396, section
// 2).
const detailType = "mcp_tool_call"

// Claims are what a grant says. All but Actors, Principal.Tenant, the
// thumbprints and Basis must be there.
type Claims struct {
	// Issuer is the decision point (iss), Instance those who share its ledger:
	// 4 to 32 of a-z and 0-9.
	Issuer, Instance string
	// Audience is the id of the one server that may redeem it (aud).
	Audience string
	// Principal is for whom the call is made (sub, sub_id, tenant). The issuer
	// and the subject must be there.
	Principal writ.Principal
	// Actors act for the principal (act); the first is the outermost, who acts
	// now (RFC 8693, section 4.1). At most [MaxActors], with at most 16 further
	// claims each, none of them named like iss, sub or act.
	Actors []writ.Actor
	// IssuedAt and ExpiresAt (iat, exp) are whole seconds; what is less is cut
	// off, so that a grant never lives longer than was decided. It may not be
	// redeemed at ExpiresAt any more.
	IssuedAt, ExpiresAt time.Time
	// ID names the grant (jti): 26 of A-Z and 2-7, as [crypto/rand.Text] gives
	// them.
	ID string
	// Revision is the world that it was decided in (rev).
	Revision string
	// IdempotencyKey is what [IdempotencyKey] returned for the first proposal
	// of a chain of retries.
	IdempotencyKey string
	// The digests of the call, of the contract and of the candidate policies
	// that it was decided under, and of the proposal.
	CallDigest, ContractDigest, PolicyDigest, ProposalDigest canon.Digest
	// Locations are what the server is reached by, Actions what it may do there
	// (RFC 9396, section 2.2). 1 to 8 of each.
	Locations, Actions []string
	// KeyThumbprint (jkt; RFC 9449, section 6.1) and CertificateThumbprint
	// (x5t#S256; RFC 8705, section 3.1) are what the principal's token is bound
	// to (cnf): SHA-256 in base64url, 43 characters. Empty: nothing.
	KeyThumbprint, CertificateThumbprint string
	// Basis are what [Basis] makes of every name whose revocation would void the
	// grant (basis), for a replica that can't decide the call again. At most 128;
	// may be empty.
	Basis []string
	// KeyID is the kid of the key that signed it. [Open] sets it; it is no claim.
	KeyID string
}

// Basis is a short name for what a revocation names, by which a grant tells
// what it rests on without telling what that is: the first 9 bytes, in
// base64url, of the SHA-256 of the RFC 8785 form of
//
//	{"id": …, "issuer": …, "kind": …, "type": "writ.basis.v1"}
//
// Two names that share one void a grant too many, and never one too few.
func Basis(kind, issuer, id string) string {
	b := canon.AppendString([]byte(`{"id":`), id)
	b = canon.AppendString(append(b, `,"issuer":`...), issuer)
	b = canon.AppendString(append(b, `,"kind":`...), kind)
	sum := canon.Sum(append(b, `,"type":"writ.basis.v1"}`...))
	return encoding.EncodeToString(sum[:basisBytes])
}

const (
	basisBytes = 9
	basisSize  = 12 // characters
	maxBasis   = 128
)

func isBasis(s string) bool {
	var b [basisBytes]byte
	n, err := encoding.Decode(b[:], []byte(s))
	return len(s) == basisSize && err == nil && n == basisBytes && !strings.ContainsAny(s, "\r\n")
}

// Fault says why a token is no grant that can be redeemed.
type Fault struct {
	Code writ.Code // GRANT_INVALID or GRANT_EXPIRED
	Why  string    // one sentence, without values
}

// Error returns the code and why.
func (f Fault) Error() string { return string(f.Code) + ": " + f.Why }

// thumbprints and idempotency keys: SHA-256 in base64url, in its one form.
var encoding = base64.RawURLEncoding.Strict()

const hashSize = 43 // characters

// IdempotencyKey is what servers give to whatever they change, so that doing it
// twice is doing it once: 43 characters of A-Z, a-z, 0-9, '-' and '_'. first is
// the digest of the first proposal of a chain of retries, so that each retry
// has the same. The key is the SHA-256, in base64url without padding, of the RFC
// 8785 form of
//
//	{"proposal_digest": "sha256:…", "type": "writ.idempotency.v1"}
//
// It tells of the proposal no more than the digest does. The key of a zero
// digest is empty: no grant can have it.
func IdempotencyKey(first canon.Digest) string {
	if first.IsZero() {
		return ""
	}
	b := first.AppendText([]byte(`{"proposal_digest":"`))
	sum := canon.Sum(append(b, `","type":"writ.idempotency.v1"}`...))
	return encoding.EncodeToString(sum[:])
}

// check says what keeps c from being a grant, by the names of its claims and
// without their values.
func (c *Claims) check() error {
	for _, t := range [...]struct{ name, value string }{
		{"iss", c.Issuer}, {"aud", c.Audience}, {"sub", c.Principal.Subject},
		{"sub_id's iss", c.Principal.Issuer}, {"rev", c.Revision},
	} {
		if !isValue(t.value) {
			return fmt.Errorf("%s must be a text of 1 to %d bytes", t.name, maxValue)
		}
	}
	switch {
	case c.Principal.Tenant != "" && !isValue(c.Principal.Tenant):
		return fmt.Errorf("tenant must be a text of 1 to %d bytes", maxValue)
	case !isInstance(c.Instance):
		return errors.New("instance must be 4 to 32 of a-z and 0-9")
	case !isID(c.ID):
		return errors.New("jti must be 26 of A-Z and 2-7")
	case !isHash(c.IdempotencyKey):
		return errors.New("idempotency_key must be 43 characters of base64url")
	case c.CallDigest.IsZero() || c.ContractDigest.IsZero() || c.PolicyDigest.IsZero() || c.ProposalDigest.IsZero():
		return errors.New("authorization_details must have the digests of the call, the contract, the policies and the proposal")
	case c.KeyThumbprint != "" && !isHash(c.KeyThumbprint) || c.CertificateThumbprint != "" && !isHash(c.CertificateThumbprint):
		return errors.New("cnf must have thumbprints of 43 characters of base64url")
	}
	if len(c.Basis) > maxBasis || slices.ContainsFunc(c.Basis, func(s string) bool { return !isBasis(s) }) {
		return fmt.Errorf("basis must have at most %d names, each of %d characters of base64url", maxBasis, basisSize)
	}
	if !isList(c.Locations) || !isList(c.Actions) {
		return fmt.Errorf("authorization_details must have 1 to %d locations and as many actions, each a text of 1 to %d bytes", maxList, maxValue)
	}
	if err := c.checkTimes(); err != nil {
		return err
	}
	return c.checkActors()
}

// checkTimes judges them as they will be written.
func (c *Claims) checkTimes() error {
	issued, expires := c.IssuedAt.Unix(), c.ExpiresAt.Unix()
	switch {
	case issued <= 0 || expires <= 0 || expires > maxDate:
		return errors.New("iat and exp must be seconds between 1970 and 9999")
	case expires <= issued:
		return errors.New("exp must be a second or more after iat")
	case expires-issued > int64(MaxLifetime/time.Second):
		return fmt.Errorf("exp must be at most %v after iat", MaxLifetime)
	}
	return nil
}

func (c *Claims) checkActors() error {
	if len(c.Actors) > MaxActors {
		return fmt.Errorf("act must have at most %d actors", MaxActors)
	}
	for i := range c.Actors {
		a := &c.Actors[i]
		if !isValue(a.Subject) || a.Issuer != "" && !isValue(a.Issuer) {
			return fmt.Errorf("act must name each actor's sub, and its iss if there is one, by a text of 1 to %d bytes", maxValue)
		}
		if len(a.Claims) > maxClaims {
			return fmt.Errorf("act must have at most %d further claims of an actor", maxClaims)
		}
		// No reader may take one of them for another: see canon.Parse.
		seen := [...]string{"iss", "sub", "act"}
		names := seen[:]
		for name, value := range a.Claims {
			folded := canon.Fold(name)
			if !isValue(name) || !utf8.ValidString(value) || len(value) > maxValue || slices.Contains(names, folded) {
				return errors.New("act has an actor's claim that is no text, or is named like another one or like iss, sub or act")
			}
			names = append(names, folded)
		}
	}
	return nil
}

func isValue(s string) bool { return s != "" && len(s) <= maxValue && utf8.ValidString(s) }

func isList(list []string) bool {
	return len(list) >= 1 && len(list) <= maxList && !slices.ContainsFunc(list, func(s string) bool { return !isValue(s) })
}

func isInstance(s string) bool {
	return len(s) >= 4 && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

func isID(s string) bool {
	return len(s) == 26 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// isHash reports whether s is a SHA-256 in base64url.
func isHash(s string) bool {
	if len(s) != hashSize {
		return false
	}
	var sum [32]byte
	n, err := encoding.Decode(sum[:], []byte(s))
	return err == nil && n == len(sum) && !strings.ContainsAny(s, "\r\n")
}

// append appends the one text of c, which has been checked.
func (c *Claims) append(b []byte) []byte {
	b = append(b, '{')
	if len(c.Actors) > 0 {
		b = append(b, `"act":`...)
		b = appendChain(b, c.Actors)
		b = append(b, ',')
	}
	b = canon.AppendString(append(b, `"aud":`...), c.Audience)
	b = canon.Append(append(b, `,"authorization_details":[{"actions":`...), c.Actions)
	b = c.CallDigest.AppendText(append(b, `,"call_digest":"`...))
	b = c.ContractDigest.AppendText(append(b, `","contract_digest":"`...))
	b = canon.Append(append(b, `","locations":`...), c.Locations)
	b = c.PolicyDigest.AppendText(append(b, `,"policy_digest":"`...))
	b = c.ProposalDigest.AppendText(append(b, `","proposal_digest":"`...))
	b = append(b, `","type":"`+detailType+`"}]`...)
	if len(c.Basis) > 0 {
		b = canon.Append(append(b, `,"basis":`...), c.Basis)
	}
	if c.KeyThumbprint != "" || c.CertificateThumbprint != "" {
		b = append(b, `,"cnf":{`...)
		if c.KeyThumbprint != "" {
			b = append(append(append(b, `"jkt":"`...), c.KeyThumbprint...), `",`...)
		}
		if c.CertificateThumbprint != "" {
			b = append(append(append(b, `"x5t#S256":"`...), c.CertificateThumbprint...), `",`...)
		}
		b[len(b)-1] = '}' // in place of the last comma
	}
	b = strconv.AppendInt(append(b, `,"exp":`...), c.ExpiresAt.Unix(), 10)
	b = strconv.AppendInt(append(b, `,"iat":`...), c.IssuedAt.Unix(), 10)
	b = append(append(b, `,"idempotency_key":"`...), c.IdempotencyKey...)
	b = append(append(b, `","instance":"`...), c.Instance...)
	b = canon.AppendString(append(b, `","iss":`...), c.Issuer)
	b = append(append(b, `,"jti":"`...), c.ID...)
	b = canon.AppendString(append(b, `","rev":`...), c.Revision)
	b = canon.AppendString(append(b, `,"sub":`...), c.Principal.Subject)
	b = canon.AppendString(append(b, `,"sub_id":{"format":"iss_sub","iss":`...), c.Principal.Issuer)
	b = canon.AppendString(append(b, `,"sub":`...), c.Principal.Subject)
	b = append(b, '}')
	if c.Principal.Tenant != "" {
		b = canon.AppendString(append(b, `,"tenant":`...), c.Principal.Tenant)
	}
	return append(b, '}')
}

// appendChain appends the first actor with the others in it. There is one.
func appendChain(b []byte, actors []writ.Actor) []byte {
	a := &actors[0]
	if len(a.Claims) > 0 { // they are anywhere in the order of names
		return canon.Append(b, tree(actors))
	}
	b = append(b, '{')
	if len(actors) > 1 {
		b = appendChain(append(b, `"act":`...), actors[1:])
		b = append(b, ',')
	}
	if a.Issuer != "" {
		b = canon.AppendString(append(b, `"iss":`...), a.Issuer)
		b = append(b, ',')
	}
	b = canon.AppendString(append(b, `"sub":`...), a.Subject)
	return append(b, '}')
}

// tree is what appendChain appends, as a tree of canon.
func tree(actors []writ.Actor) map[string]any {
	a := &actors[0]
	m := make(map[string]any, len(a.Claims)+3)
	for name, value := range a.Claims {
		m[name] = value
	}
	m["sub"] = a.Subject
	if a.Issuer != "" {
		m["iss"] = a.Issuer
	}
	if len(actors) > 1 {
		m["act"] = tree(actors[1:])
	}
	return m
}
