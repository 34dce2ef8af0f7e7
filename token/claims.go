package token

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/writ-pdp/writ"
)

// parseClaims makes a token of a JWT's claims. tenant names the claim that
// holds the tenant, groups the one that holds the groups; empty: none does.
func parseClaims(data []byte, tenant, groups string) (*writ.Token, error) {
	members, err := object(data)
	if err != nil {
		return nil, fmt.Errorf("its payload is %w", err)
	}
	t := &writ.Token{}
	fail := func(name string, err error) error { return fmt.Errorf("its claim %s %w", name, err) }
	for _, s := range []struct {
		name  string
		into  *string
		limit int
	}{{"iss", &t.Issuer, maxURL}, {"sub", &t.Subject, maxText}, {"jti", &t.ID, maxText}, {tenant, &t.Tenant, maxText}} {
		v, there := members[s.name]
		if !there || s.name == "" {
			continue
		}
		if *s.into, err = text(v, s.limit); err != nil {
			return nil, fail(s.name, err)
		}
	}
	if t.Issuer == "" || t.Subject == "" {
		return nil, errors.New("it lacks the claim iss or sub")
	}
	for _, d := range []struct {
		name string
		into *time.Time
	}{{"exp", &t.ExpiresAt}, {"nbf", &t.NotBefore}, {"iat", &t.IssuedAt}} {
		if v, there := members[d.name]; there {
			if *d.into, err = date(v); err != nil {
				return nil, fail(d.name, err)
			}
		}
	}
	if v, there := members["aud"]; there {
		if t.Audience, err = texts(v, MaxScopes, maxURL); err != nil {
			return nil, fail("aud", err)
		}
	}
	if t.Scopes, err = scopes(members); err != nil {
		return nil, err
	}
	if t.Groups, err = groupsOf(members, groups); err != nil {
		return nil, err
	}
	if v, there := members["act"]; there {
		if t.Actors, err = chain(v); err != nil {
			return nil, err
		}
	}
	if v, there := members["may_act"]; there {
		may, err := actor(v, "may_act", nil)
		if err != nil {
			return nil, err
		}
		t.MayAct = &may
	}
	if v, there := members["cnf"]; there {
		if err := confirmation(v, t); err != nil {
			return nil, err
		}
	}
	t.Claims = stringClaims(members)
	return t, nil
}

// scopes reads scope (RFC 8693, section 4.2) and scp, which some issuers use,
// as an array or as text.
func scopes(members map[string]jsontext.Value) ([]string, error) {
	var out []string
	for _, name := range []string{"scope", "scp"} {
		v, there := members[name]
		if !there {
			continue
		}
		list, err := texts(v, MaxScopes, MaxSize)
		if err != nil {
			return nil, fmt.Errorf("its claim %s %w", name, err)
		}
		for _, s := range list {
			for scope := range strings.SplitSeq(s, " ") {
				if scope != "" {
					out = append(out, scope)
				}
			}
		}
	}
	if len(out) > MaxScopes {
		return nil, fmt.Errorf("it has more than %d scopes", MaxScopes)
	}
	return out, nil
}

// groupsOf reads the claim that names groups. One that its issuer has put
// elsewhere (a distributed claim, OpenID Connect Core, section 5.6.2: as issuers
// do where there are too many) is refused, since a principal without its groups
// escapes what is forbidden to them.
func groupsOf(members map[string]jsontext.Value, claim string) ([]string, error) {
	if claim == "" {
		return nil, nil
	}
	if v, there := members["_claim_names"]; there {
		elsewhere, err := object(v)
		if err != nil {
			return nil, fmt.Errorf("its claim _claim_names is %w", err)
		}
		if _, is := elsewhere[claim]; is {
			return nil, fmt.Errorf("its claim %s is not in it but elsewhere: have the issuer put the groups into the token", claim)
		}
	}
	v, there := members[claim]
	if !there {
		return nil, nil
	}
	list, err := texts(v, MaxGroups, MaxGroup)
	if err != nil {
		return nil, fmt.Errorf("its claim %s %w", claim, err)
	}
	return list, nil
}

// chain reads an act claim (RFC 8693, section 4.1), outermost actor first.
func chain(v jsontext.Value) ([]writ.Actor, error) {
	var out []writ.Actor
	for len(v) > 0 {
		if len(out) == MaxActors {
			return nil, fmt.Errorf("its act chain has more than %d actors", MaxActors)
		}
		var inner jsontext.Value
		a, err := actor(v, "act", &inner)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
		v = inner
	}
	return out, nil
}

// actor reads one party of an act or a may_act. inner takes the act within;
// nil: there may be none.
func actor(v jsontext.Value, claim string, inner *jsontext.Value) (writ.Actor, error) {
	members, err := object(v)
	if err != nil {
		return writ.Actor{}, fmt.Errorf("its claim %s is %w", claim, err)
	}
	var a writ.Actor
	for _, s := range []struct {
		name  string
		into  *string
		limit int
	}{{"sub", &a.Subject, maxText}, {"iss", &a.Issuer, maxURL}} {
		if v, there := members[s.name]; there {
			if *s.into, err = text(v, s.limit); err != nil {
				return writ.Actor{}, fmt.Errorf("in its claim %s %s %w", claim, s.name, err)
			}
		}
	}
	if a.Subject == "" {
		return writ.Actor{}, fmt.Errorf("its claim %s names a party without sub", claim)
	}
	if within, there := members["act"]; there {
		if inner == nil {
			return writ.Actor{}, fmt.Errorf("its claim %s holds an act", claim)
		}
		*inner = within
	}
	a.Claims = stringClaims(members)
	if claim == "may_act" {
		a.Claims = others(members, a.Claims)
	}
	return a, nil
}

// others adds to the claims of who may act those that are no text, or too much
// of one, as empty: nobody has such a claim, so where a template names it nobody
// may act. Left out, they would be whatever an actor says.
func others(members map[string]jsontext.Value, claims map[string]string) map[string]string {
	for name := range members {
		if _, there := claims[name]; there || name == "sub" || name == "iss" {
			continue
		}
		if claims == nil {
			claims = map[string]string{}
		}
		claims[name] = ""
	}
	return claims
}

// confirmation reads cnf (RFC 7800): the key or the certificate that the
// token is bound to. A binding of another kind is refused, since it would be
// left unchecked.
func confirmation(v jsontext.Value, t *writ.Token) error {
	members, err := object(v)
	if err != nil {
		return fmt.Errorf("its claim cnf is %w", err)
	}
	for name, value := range members {
		switch name {
		case "jkt": // RFC 9449, section 6.1
			t.KeyThumbprint, err = text(value, 64)
		case "x5t#S256": // RFC 8705, section 3.1
			t.CertificateThumbprint, err = text(value, 64)
		default:
			err = errors.New("is not understood")
		}
		if err != nil {
			return fmt.Errorf("its confirmation %s %w", name, err)
		}
	}
	if t.KeyThumbprint == "" && t.CertificateThumbprint == "" {
		return errors.New("its claim cnf binds it to nothing")
	}
	return nil
}

// stringClaims are the claims that a template may name: texts. There are at
// most maxClaims of them; what is too long or too many is left out, and a
// template that names it then makes no entity.
func stringClaims(members map[string]jsontext.Value) map[string]string {
	var out map[string]string
	for name, v := range members {
		switch name {
		case "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "scope", "scp", "act", "may_act", "cnf":
			continue
		}
		if v.Kind() != '"' || len(name) > maxText || len(members) > maxClaims {
			continue
		}
		if s, err := text(v, maxClaim); err == nil && s != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = s
		}
	}
	return out
}
