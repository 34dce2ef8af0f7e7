package token

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a token. What exceeds one is refused before any work.
const (
	MaxSize   = 16 << 10 // bytes of a token in compact form
	MaxProof  = 8 << 10  // bytes of a DPoP proof
	MaxKeyID  = 256      // bytes of a kid
	MaxActors = 8        // actors in an act chain
	MaxScopes = 256      // scopes, and audiences
	MaxGroups = 256      // groups
	MaxGroup  = 256      // bytes of one
	maxClaims = 128      // string claims that are kept for templates
	maxClaim  = 4096     // bytes of one
	maxURL    = 2048     // bytes of an issuer or an audience
	maxText   = 1024     // bytes of a subject, a jti, a tenant
	// maxDate is the year 9999: later dates have no RFC 3339 text.
	maxDate = 253402300799
)

// header is the protected header of a token.
type header struct {
	alg, kid, typ string
	jwk           jsontext.Value // of a DPoP proof only
}

// encoding is base64url without padding (RFC 7515, section 2), in one way: no
// line ends, no stray bits.
var encoding = base64.RawURLEncoding.Strict()

// split takes a compact JWS apart: header, claims and the text of both that
// was signed. It decodes, and judges nothing but the form.
func split(compact []byte, limit int) (head, claims []byte, err error) {
	if len(compact) > limit {
		return nil, nil, fmt.Errorf("it has more than %d bytes", limit)
	}
	if bytes.Count(compact, []byte{'.'}) != 2 {
		return nil, nil, errors.New("it is not a signed JWT in compact form: three parts between two dots (RFC 7515, section 7.1)")
	}
	parts := bytes.SplitN(compact, []byte{'.'}, 3)
	decoded := make([][]byte, 3)
	for i, name := range []string{"header", "payload", "signature"} {
		if len(parts[i]) == 0 {
			return nil, nil, fmt.Errorf("its %s is empty", name)
		}
		// The decoder skips line ends.
		if bytes.ContainsAny(parts[i], "\r\n") {
			return nil, nil, fmt.Errorf("its %s is not base64url", name)
		}
		decoded[i] = make([]byte, encoding.DecodedLen(len(parts[i])))
		if _, err := encoding.Decode(decoded[i], parts[i]); err != nil {
			return nil, nil, fmt.Errorf("its %s is not base64url without padding", name)
		}
	}
	return decoded[0], decoded[1], nil
}

// object reads the members of one JSON object, refusing repeated names and
// anything after it.
func object(data []byte) (map[string]jsontext.Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	if d.PeekKind() != '{' {
		return nil, errors.New("not a JSON object")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, errors.New("not a JSON object")
	}
	out := map[string]jsontext.Value{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, errors.New("not JSON, or a name is there twice")
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, errors.New("not JSON, or a name is there twice")
		}
		out[key] = value.Clone()
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, errors.New("not JSON")
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands after the JSON object")
	}
	return out, nil
}

// text reads a string.
func text(v jsontext.Value, limit int) (string, error) {
	if v.Kind() != '"' {
		return "", errors.New("is not a string")
	}
	out, err := jsontext.AppendUnquote(nil, v)
	switch {
	case err != nil:
		return "", errors.New("is not a string")
	case len(out) > limit:
		return "", fmt.Errorf("has more than %d bytes", limit)
	}
	return string(out), nil
}

// texts reads an array of strings, or one string as an array of one.
func texts(v jsontext.Value, limit, each int) ([]string, error) {
	if v.Kind() == '"' {
		one, err := text(v, each)
		return []string{one}, err
	}
	if v.Kind() != '[' {
		return nil, errors.New("is neither a string nor an array of strings")
	}
	d := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := d.ReadToken(); err != nil {
		return nil, errors.New("is no array")
	}
	out := []string{}
	for d.PeekKind() != ']' {
		element, err := d.ReadValue()
		if err != nil {
			return nil, errors.New("is no array")
		}
		one, err := text(element, each)
		if err != nil {
			return nil, errors.New("holds what " + err.Error())
		}
		if len(out) == limit {
			return nil, fmt.Errorf("has more than %d elements", limit)
		}
		out = append(out, one)
	}
	return out, nil
}

// date reads a NumericDate: seconds since 1970 (RFC 7519, section 2).
func date(v jsontext.Value) (time.Time, error) {
	if v.Kind() != '0' {
		return time.Time{}, errors.New("is not a number of seconds")
	}
	seconds, err := strconv.ParseFloat(string(v), 64)
	if err != nil || seconds < 0 || seconds > maxDate {
		return time.Time{}, errors.New("is not a date from 1970 to 9999")
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)).UTC(), nil
}

// parseHeader reads the header. A key may be embedded only where wantKey says
// so, as in a DPoP proof.
func parseHeader(data []byte, wantKey bool) (header, error) {
	members, err := object(data)
	if err != nil {
		return header{}, fmt.Errorf("its header is %w", err)
	}
	var h header
	for name, value := range members {
		switch name {
		case "alg":
			h.alg, err = text(value, 64)
		case "kid":
			h.kid, err = text(value, MaxKeyID)
		case "typ":
			h.typ, err = text(value, 64)
		case "cty":
			var cty string
			if cty, err = text(value, 64); err == nil && strings.EqualFold(cty, "JWT") {
				err = errors.New("says that it is nested")
			}
		case "x5t", "x5t#S256":
			_, err = text(value, 128) // a hint, which is not followed
		case "jwk":
			if !wantKey {
				return header{}, errors.New("its header brings its own key (jwk): keys come from the issuer alone (RFC 8725, section 3.10)")
			}
			h.jwk = value
		default:
			// jku, x5c and x5u name keys of their own; crit, b64 and zip change
			// what is signed; and what is unknown may mean anything.
			return header{}, errors.New("its header has a member that is not accepted: alg, kid and typ are")
		}
		if err != nil {
			return header{}, fmt.Errorf("its header's %s %w", name, err)
		}
	}
	if h.alg == "" {
		return header{}, errors.New("its header names no alg")
	}
	return h, nil
}

// typeIs compares media types as RFC 7515, section 4.1.9 says: case does not
// matter, and "application/" may be left out.
func typeIs(typ, want string) bool {
	trim := func(s string) string {
		s = strings.ToLower(s)
		if rest, ok := strings.CutPrefix(s, "application/"); ok && !strings.Contains(rest, "/") {
			return rest
		}
		return s
	}
	return trim(typ) == trim(want)
}
