package grant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/keyring"
)

// MaxAhead is how far in the future a grant may have been issued: the clocks of
// replicas differ, and clocks are set. Its end is judged without.
const MaxAhead = 5 * time.Second

// typicalSize is what claims usually fit in, in bytes, so that their text makes
// one allocation.
const typicalSize = 1536

// Mint signs a grant. It is an error if a claim is missing or not of its form,
// or if the token would have more than [MaxSize] bytes.
func Mint(k *keyring.Key, c *Claims) (string, error) {
	if err := c.check(); err != nil {
		return "", fmt.Errorf("grant: %w", err)
	}
	token := k.Sign(keyring.TypeGrant, c.append(make([]byte, 0, typicalSize)))
	if len(token) > MaxSize {
		return "", fmt.Errorf("grant: the token would have %d bytes: %d is the most", len(token), MaxSize)
	}
	return token, nil
}

// Open reads a grant that a key of r signed for issuer and instance, and that
// may be redeemed at now as far as its times go. An error is a [Fault]. Whose
// grant it is, for which call and whether it is spent is still to be judged.
func Open(r *keyring.Ring, token string, now time.Time, issuer, instance string) (Claims, error) {
	payload, kid, err := r.Open(keyring.TypeGrant, token, MaxSize, now)
	if keyring.IsKind(err, keyring.UnknownKey) && otherInstance(token, issuer, instance) {
		// Nothing proves that; all it changes is what people are told.
		return Claims{}, invalid(restarted + ", or somebody else made it")
	}
	if err != nil {
		return Claims{}, invalid(err.Error())
	}
	c, err := read(payload)
	if err != nil {
		return Claims{}, invalid("its payload: " + err.Error())
	}
	c.KeyID = kid
	switch {
	case c.Issuer != issuer:
		return Claims{}, invalid("another decision point issued it (iss)")
	case c.Instance != instance:
		return Claims{}, invalid(restarted)
	case now.Before(c.IssuedAt.Add(-MaxAhead)):
		return Claims{}, expired("its time has not come yet: look at the clocks of the decision point's machines")
	case !now.Before(c.ExpiresAt):
		return Claims{}, expired("its time is over")
	}
	return c, nil
}

const restarted = "it is a grant of another instance of this decision point, which was restarted since: propose the call again"

func invalid(why string) Fault { return Fault{writ.CodeGrantInvalid, why} }

func expired(why string) Fault { return Fault{writ.CodeGrantExpired, why} }

// otherInstance reports whether a token that nobody vouches for says that it is
// of the issuer and not of the instance.
func otherInstance(token, issuer, instance string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := encoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	c, err := read(payload)
	return err == nil && c.Issuer == issuer && c.Instance != instance
}

// read reads a payload in its one form: what it makes of it is written again,
// and every byte must be the same. So members that are unknown, repeated, in
// another order or of another kind need no rules of their own.
func read(payload []byte) (Claims, error) {
	members, err := canon.ParseObject(payload)
	if err != nil {
		return Claims{}, err
	}
	var c Claims
	c.Issuer, c.Instance = text(members["iss"]), text(members["instance"])
	c.Audience = text(members["aud"])
	subject, _ := members["sub_id"].(map[string]any)
	c.Principal = writ.Principal{Issuer: text(subject["iss"]), Subject: text(members["sub"]), Tenant: text(members["tenant"])}
	c.IssuedAt, c.ExpiresAt = seconds(members["iat"]), seconds(members["exp"])
	c.ID, c.Revision, c.IdempotencyKey = text(members["jti"]), text(members["rev"]), text(members["idempotency_key"])
	if list, _ := members["authorization_details"].([]any); len(list) == 1 {
		detail, _ := list[0].(map[string]any)
		c.CallDigest, c.ContractDigest = digest(detail["call_digest"]), digest(detail["contract_digest"])
		c.PolicyDigest, c.ProposalDigest = digest(detail["policy_digest"]), digest(detail["proposal_digest"])
		c.Locations, c.Actions = texts(detail["locations"]), texts(detail["actions"])
	}
	confirmation, _ := members["cnf"].(map[string]any)
	c.KeyThumbprint, c.CertificateThumbprint = text(confirmation["jkt"]), text(confirmation["x5t#S256"])
	c.Actors, c.Basis = chain(members["act"]), texts(members["basis"])
	if err := c.check(); err != nil {
		return Claims{}, err
	}
	if !bytes.Equal(c.append(make([]byte, 0, typicalSize)), payload) {
		return Claims{}, errors.New("it is not the one text of its claims: a member is unknown, of the wrong kind or out of order, or there is white space")
	}
	return c, nil
}

// The readers below return the zero value for what is of another kind.

func text(v any) string {
	s, _ := v.(string)
	return s
}

func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		out = append(out, text(e))
	}
	return out
}

func digest(v any) canon.Digest {
	d, _ := canon.ParseDigest(text(v))
	return d
}

func seconds(v any) time.Time {
	number, _ := v.(json.Number)
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || n < 0 || n > maxDate {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

// chain reads an act claim, outermost actor first.
func chain(v any) []writ.Actor {
	var out []writ.Actor
	for members, _ := v.(map[string]any); members != nil; members, _ = members["act"].(map[string]any) {
		a := writ.Actor{Issuer: text(members["iss"]), Subject: text(members["sub"])}
		for name, value := range members {
			s, ok := value.(string)
			if !ok || name == "iss" || name == "sub" || name == "act" {
				continue
			}
			if a.Claims == nil {
				a.Claims = map[string]string{}
			}
			a.Claims[name] = s
		}
		out = append(out, a)
	}
	return out
}
