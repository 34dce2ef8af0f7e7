package story

import (
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/modelcontextprotocol/go-sdk/auth"
)

// verifyToken reads an access token (RFC 9068) that was issued for audience
// alone.
func verifyToken(text string, keys jose.JSONWebKeySet, issuer, audience string, now time.Time) (*auth.TokenInfo, error) {
	parsed, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return nil, err
	}
	if typ, _ := parsed.Headers[0].ExtraHeaders[jose.HeaderType].(string); typ != "at+jwt" {
		return nil, errors.New("it is no access token")
	}
	var claims struct {
		jwt.Claims
		Scope string `json:"scope"`
	}
	if err := parsed.Claims(keys, &claims); err != nil {
		return nil, err
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{Issuer: issuer, AnyAudience: jwt.Audience{audience}, Time: now}, 0); err != nil {
		return nil, err
	}
	if len(claims.Audience) != 1 || claims.Expiry == nil || claims.Subject == "" {
		return nil, errors.New("it is not for this server alone, has no end, or is nobody's")
	}
	return &auth.TokenInfo{Scopes: strings.Fields(claims.Scope), Expiration: claims.Expiry.Time(), UserID: claims.Subject}, nil
}
