package keyring

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/writ-pdp/writ/canon"
)

// Limits of a replica's statement.
const (
	MaxStatement = 2 << 10              // bytes
	MaxCertified = 366 * 24 * time.Hour // from issue to expiry
	maxName      = 128                  // bytes of a name and of an instance
	// maxDate is the year 9999: later dates have no RFC 3339 text.
	maxDate = 253402300799
)

// Replica is the root's statement of one replica: this is its key, until then.
// It is a JWS of type [TypeReplica] under the root key, whose payload is the
// RFC 8785 form of
//
//	{"exp", "iat", "instance"?, "iss", "jwk": {"crv", "kty", "x"}, "sub"}
//
// iss is the root key's id, sub the name; instance is left out where it is
// empty. Times are whole seconds since 1970.
type Replica struct {
	// Name is the replica's: 1 to 128 of A-Z, a-z, 0-9, '-', '_' and '.'.
	Name string
	// Public verifies what the replica signs.
	Public ed25519.PublicKey
	// Instance is the one decision point that it is a replica of, of the same
	// characters; empty: any that trusts the root.
	Instance string
	// IssuedAt and ExpiresAt bound the time in which it holds, in whole seconds.
	IssuedAt, ExpiresAt time.Time
}

// ID is the id of the replica's key.
func (p *Replica) ID() string { return thumbprint(p.Public) }

// CertifyReplica signs the statement of a replica with the root key. Times are
// cut to whole seconds. It is an error for a replica to have the root's own
// key, none, no name, or a time of more than [MaxCertified].
func CertifyReplica(root *Key, p Replica) (string, error) {
	p.IssuedAt, p.ExpiresAt = p.IssuedAt.Truncate(time.Second), p.ExpiresAt.Truncate(time.Second)
	if err := p.check(root.id); err != nil {
		return "", fmt.Errorf("keyring: the replica's statement: %w", err)
	}
	return root.Sign(TypeReplica, p.payload(root.id)), nil
}

// OpenReplica reads a statement that the root key signed and that holds at
// now. The error is an *[Error] or says what the statement lacks.
func OpenReplica(root ed25519.PublicKey, statement string, now time.Time) (Replica, error) {
	if err := checkPublic(root); err != nil {
		return Replica{}, fmt.Errorf("keyring: the root's key: %w", err)
	}
	t, fault := split(TypeReplica, statement, MaxStatement)
	if fault != nil {
		return Replica{}, fault
	}
	rootID := thumbprint(root)
	if t.kid != rootID {
		return Replica{}, &Error{UnknownKey, "another root signed it"}
	}
	if fault := t.verify(root); fault != nil {
		return Replica{}, fault
	}
	p, err := readReplica(t.payload)
	if err == nil {
		err = p.check(rootID)
	}
	if err != nil {
		return Replica{}, &Error{Malformed, err.Error()}
	}
	switch {
	case !bytes.Equal(p.payload(rootID), t.payload):
		return Replica{}, &Error{Malformed, "its payload is not in the one form, has further members, or names another root"}
	case now.Before(p.IssuedAt):
		return Replica{}, errors.New("it does not hold yet: look at the clocks of whoever signed it and of this machine")
	case !now.Before(p.ExpiresAt):
		return Replica{}, &Error{RetiredKey, "its time is over: have the root certify the replica again"}
	}
	return p, nil
}

// readReplica reads what is there, leaving out what is of another kind; the
// comparison of the whole is still to come.
func readReplica(payload []byte) (Replica, error) {
	members, err := canon.ParseObject(payload)
	if err != nil {
		return Replica{}, fmt.Errorf("its payload: %w", err)
	}
	var p Replica
	p.Name, _ = members["sub"].(string)
	p.Instance, _ = members["instance"].(string)
	p.IssuedAt, p.ExpiresAt = seconds(members["iat"]), seconds(members["exp"])
	jwk, _ := members["jwk"].(map[string]any)
	x, _ := jwk["x"].(string)
	if p.Public, err = decode(x); err != nil {
		return Replica{}, fmt.Errorf("its jwk's x %w", err)
	}
	return p, nil
}

// seconds reads a NumericDate of whole seconds (RFC 7519, section 2); zero:
// there is none from 1970 to 9999.
func seconds(v any) time.Time {
	text, _ := v.(json.Number)
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n <= 0 || n > maxDate {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

func (p *Replica) check(root string) error {
	switch {
	case !isName(p.Name):
		return errors.New("its name (sub) must be 1 to 128 of A-Z, a-z, 0-9, '-', '_' and '.'")
	case p.Instance != "" && !isName(p.Instance):
		return errors.New("its instance must be up to 128 of A-Z, a-z, 0-9, '-', '_' and '.'")
	case p.IssuedAt.Unix() <= 0 || p.ExpiresAt.Unix() > maxDate || !p.IssuedAt.Before(p.ExpiresAt):
		return errors.New("its times (iat, exp) must be whole seconds, the second after the first")
	case p.ExpiresAt.Sub(p.IssuedAt) > MaxCertified:
		return fmt.Errorf("it holds for more than %d days", MaxCertified/(24*time.Hour))
	}
	if err := checkPublic(p.Public); err != nil {
		return fmt.Errorf("its key: %w", err)
	}
	if thumbprint(p.Public) == root {
		return errors.New("its key is the root's own, which signs statements only")
	}
	return nil
}

func isName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// payload is the one text of the statement.
func (p *Replica) payload(root string) []byte {
	b := strconv.AppendInt([]byte(`{"exp":`), p.ExpiresAt.Unix(), 10)
	b = strconv.AppendInt(append(b, `,"iat":`...), p.IssuedAt.Unix(), 10)
	if p.Instance != "" {
		b = canon.AppendString(append(b, `,"instance":`...), p.Instance)
	}
	b = canon.AppendString(append(b, `,"iss":`...), root)
	b = appendJWK(append(b, `,"jwk":`...), p.Public)
	b = canon.AppendString(append(b, `,"sub":`...), p.Name)
	return append(b, '}')
}
