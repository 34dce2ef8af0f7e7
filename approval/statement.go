package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/keyring"
)

// Limits of a statement.
const (
	MaxStatement = 4 << 10        // bytes of the token
	MaxLifetime  = 24 * time.Hour // from issue to expiry
	maxValue     = 2048           // bytes of one text
	maxClaims    = 16             // further claims of the approver
	// maxDate is the year 9999: later dates have no RFC 3339 text.
	maxDate = 253402300799
)

// Statement is one person's agreement to one review, as it is signed: a compact
// JWS of type writ-approval+jwt (package keyring says what that is byte for
// byte), at most 4 KiB, whose payload is the RFC 8785 form of
//
//	{"claims": {…}?,
//	 "exp", "iat": whole seconds since 1970,
//	 "instance", "iss", "jti",
//	 "proposal_digest", "review", "review_digest",
//	 "sub": …, "sub_id": {"format": "iss_sub", "iss", "sub"}, RFC 9493, section 3.2.3
//	 "tenant"?}
//
// Members marked ? are left out where they are empty. There are no others, and
// each statement has one text.
type Statement struct {
	// Issuer is the decision point (iss), Instance those who share its ledger:
	// 4 to 32 of a-z and 0-9.
	Issuer, Instance string
	// ID names the approval (jti): 26 of A-Z and 2-7, as [crypto/rand.Text]
	// gives them.
	ID string
	// Review is the id of the review, of the same form.
	Review string
	// Approver is who agrees (sub, sub_id, tenant). The issuer and the subject
	// must be there.
	Approver writ.Principal
	// Claims are the further claims that the template of the approver's issuer
	// may name: at most 16, none of them named like another. Their values may
	// be empty.
	Claims map[string]string
	// The digests of what was proposed, and of the review as it was shown.
	ProposalDigest, ReviewDigest canon.Digest
	// IssuedAt and ExpiresAt (iat, exp) are whole seconds; what is less is cut
	// off. At ExpiresAt the approval counts no more. At most [MaxLifetime] lies
	// between them.
	IssuedAt, ExpiresAt time.Time
	// KeyID is the kid of the key that signed it. [OpenStatement] sets it; it is
	// no member.
	KeyID string
}

// Sign signs a statement. It is an error if a part of it is missing or not of
// its form, or if the token would have more than [MaxStatement] bytes.
func Sign(k *keyring.Key, s *Statement) (string, error) {
	if err := s.check(); err != nil {
		return "", fmt.Errorf("approval: %w", err)
	}
	token := k.Sign(keyring.TypeApproval, s.append(nil))
	if len(token) > MaxStatement {
		return "", fmt.Errorf("approval: the token would have %d bytes: %d is the most", len(token), MaxStatement)
	}
	return token, nil
}

// Read returns the approval that a token is, for a decision to judge. One that
// is not what a key of r signed for issuer and instance is Forged, and nothing
// else in it is set. Its times are not judged here.
func Read(r *keyring.Ring, token string, now time.Time, issuer, instance string) writ.Approval {
	s, err := OpenStatement(r, token, now, issuer, instance)
	if err != nil {
		return writ.Approval{Forged: true}
	}
	return s.Approval()
}

// OpenStatement is [Read] for those who want to know why not, or which review
// it was. The error says so in one sentence, without values.
func OpenStatement(r *keyring.Ring, token string, now time.Time, issuer, instance string) (Statement, error) {
	payload, kid, err := r.Open(keyring.TypeApproval, token, MaxStatement, now)
	if err != nil {
		return Statement{}, err
	}
	s, err := readStatement(payload)
	switch {
	case err != nil:
		return Statement{}, fmt.Errorf("its payload: %w", err)
	case s.Issuer != issuer:
		return Statement{}, errors.New("another decision point issued it (iss)")
	case s.Instance != instance:
		return Statement{}, errors.New("it is an approval of another instance of this decision point, which was restarted since: ask again")
	}
	s.KeyID = kid
	return s, nil
}

// Approval is what the statement says, as decisions want it.
func (s *Statement) Approval() writ.Approval {
	return writ.Approval{
		ID: s.ID, KeyID: s.KeyID, Approver: s.Approver, Claims: s.Claims,
		ProposalDigest: s.ProposalDigest, ReviewDigest: s.ReviewDigest,
		IssuedAt: s.IssuedAt, ExpiresAt: s.ExpiresAt,
	}
}

// check says what keeps s from being signed, by the names of its members and
// without their values.
func (s *Statement) check() error {
	for _, t := range [...]struct{ name, value string }{{"iss", s.Issuer}, {"sub", s.Approver.Subject}, {"sub_id's iss", s.Approver.Issuer}} {
		if !isValue(t.value) {
			return fmt.Errorf("%s must be a text of 1 to %d bytes", t.name, maxValue)
		}
	}
	issued, expires := s.IssuedAt.Unix(), s.ExpiresAt.Unix()
	switch {
	case s.Approver.Tenant != "" && !isValue(s.Approver.Tenant):
		return fmt.Errorf("tenant must be a text of 1 to %d bytes", maxValue)
	case len(s.Instance) < 4 || len(s.Instance) > 32 || strings.Trim(s.Instance, "abcdefghijklmnopqrstuvwxyz0123456789") != "":
		return errors.New("instance must be 4 to 32 of a-z and 0-9")
	case !isIdentifier(s.ID) || !isIdentifier(s.Review):
		return errors.New("jti and review must each be 26 of A-Z and 2-7")
	case s.ProposalDigest.IsZero() || s.ReviewDigest.IsZero():
		return errors.New("proposal_digest and review_digest must be there")
	case issued <= 0 || expires <= 0 || expires > maxDate:
		return errors.New("iat and exp must be seconds between 1970 and 9999")
	case expires <= issued:
		return errors.New("exp must be a second or more after iat")
	case expires-issued > int64(MaxLifetime/time.Second):
		return fmt.Errorf("exp must be at most %v after iat", MaxLifetime)
	case len(s.Claims) > maxClaims:
		return fmt.Errorf("claims must be at most %d", maxClaims)
	}
	// No reader may take one claim for another: see canon.Parse.
	names := make([]string, 0, maxClaims)
	for name, value := range s.Claims {
		folded := canon.Fold(name)
		if !isValue(name) || !utf8.ValidString(value) || len(value) > maxValue || slices.Contains(names, folded) {
			return errors.New("claims has one that is no text, or is named like another one")
		}
		names = append(names, folded)
	}
	return nil
}

func isValue(s string) bool { return s != "" && len(s) <= maxValue && utf8.ValidString(s) }

func isIdentifier(s string) bool {
	return len(s) == 26 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// append appends the one text of s, which has been checked.
func (s *Statement) append(b []byte) []byte {
	b = append(b, '{')
	if len(s.Claims) > 0 {
		claims := make(map[string]any, len(s.Claims))
		for name, value := range s.Claims {
			claims[name] = value
		}
		b = canon.Append(append(b, `"claims":`...), claims)
		b = append(b, ',')
	}
	b = strconv.AppendInt(append(b, `"exp":`...), s.ExpiresAt.Unix(), 10)
	b = strconv.AppendInt(append(b, `,"iat":`...), s.IssuedAt.Unix(), 10)
	b = append(append(b, `,"instance":"`...), s.Instance...)
	b = canon.AppendString(append(b, `","iss":`...), s.Issuer)
	b = append(append(b, `,"jti":"`...), s.ID...)
	b = s.ProposalDigest.AppendText(append(b, `","proposal_digest":"`...))
	b = append(append(b, `","review":"`...), s.Review...)
	b = s.ReviewDigest.AppendText(append(b, `","review_digest":"`...))
	b = canon.AppendString(append(b, `","sub":`...), s.Approver.Subject)
	b = canon.AppendString(append(b, `,"sub_id":{"format":"iss_sub","iss":`...), s.Approver.Issuer)
	b = canon.AppendString(append(b, `,"sub":`...), s.Approver.Subject)
	b = append(b, '}')
	if s.Approver.Tenant != "" {
		b = canon.AppendString(append(b, `,"tenant":`...), s.Approver.Tenant)
	}
	return append(b, '}')
}

// readStatement reads a payload in its one form: what it makes of it is written again,
// and every byte must be the same. So members that are unknown, repeated, in
// another order or of another kind need no rules of their own.
func readStatement(payload []byte) (Statement, error) {
	members, err := canon.ParseObject(payload)
	if err != nil {
		return Statement{}, err
	}
	text := func(v any) string { s, _ := v.(string); return s }
	digest := func(v any) canon.Digest { d, _ := canon.ParseDigest(text(v)); return d }
	seconds := func(v any) time.Time {
		number, _ := v.(json.Number)
		n, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || n < 0 || n > maxDate {
			return time.Time{}
		}
		return time.Unix(n, 0).UTC()
	}
	subject, _ := members["sub_id"].(map[string]any)
	s := Statement{
		Issuer: text(members["iss"]), Instance: text(members["instance"]),
		ID: text(members["jti"]), Review: text(members["review"]),
		Approver:       writ.Principal{Issuer: text(subject["iss"]), Subject: text(members["sub"]), Tenant: text(members["tenant"])},
		ProposalDigest: digest(members["proposal_digest"]), ReviewDigest: digest(members["review_digest"]),
		IssuedAt: seconds(members["iat"]), ExpiresAt: seconds(members["exp"]),
	}
	if claims, _ := members["claims"].(map[string]any); len(claims) > 0 {
		s.Claims = make(map[string]string, len(claims))
		for name, value := range claims {
			s.Claims[name] = text(value)
		}
	}
	if err := s.check(); err != nil {
		return Statement{}, err
	}
	if !bytes.Equal(s.append(nil), payload) {
		return Statement{}, errors.New("it is not the one text of its members: one is unknown, of the wrong kind or out of order, or there is white space")
	}
	return s, nil
}
