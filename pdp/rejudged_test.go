package pdp_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

const login = "https://login.acme.example"

// TestVouchingWithdrawn: where the world has changed, a token counts as it does
// there: what a host said of one counts no more once it may not vouch for tokens.
func TestVouchingWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *desk)
		want   writ.Code
	}{
		"for tokens": {func(d *desk) {
			d.rebuild("callers.yaml", func(s string) string { return strings.Replace(s, "[token, user", "[user", 1) })
		}, writ.CodeGrantRevoked},
		"by a policy": {func(d *desk) {
			d.rebuild("policies/1-who.cedar", func(s string) string {
				return s + "\n@id(\"none\")\nforbid (principal, action == Action::\"vouch\", resource == Source::\"token\");\n"
			})
		}, writ.CodeGrantRevoked},
		"for the documents that name the amount": {func(d *desk) {
			d.rebuild("callers.yaml", func(s string) string { return strings.Replace(s, "[token, user, document, ", "[token, ", 1) })
		}, writ.CodeGrantRevoked},
		"for what matters not": {func(d *desk) {
			d.rebuild("callers.yaml", func(s string) string {
				return strings.Replace(s, "system_of_record]}", "system_of_record, human]}", 1)
			})
		}, writ.CodeRedeemed},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				p := d.proposal(small)
				g := d.granted(p)
				c.change(d)
				if a := d.decide(d.proposal(small)); a.Allowed() != (c.want == writ.CodeRedeemed) {
					t.Fatalf("a new proposal: %+v", a.Decision())
				}
				if a := d.redeem(redemption(g, p)); a.Decision().Code != c.want || a.MayAct() != (c.want == writ.CodeRedeemed) {
					t.Errorf("%+v, want %s", a.Decision(), c.want)
				}
			})
		})
	}
}

// TestTokenVerifiedElsewhere: a grant is not redeemed in a world in which its
// token, which was verified and is not kept, would have to be verified anew.
func TestTokenVerifiedElsewhere(t *testing.T) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	encode := base64.RawURLEncoding.EncodeToString
	keys := fmt.Appendf(nil, `{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","kid":"one","x":%q}]}`, encode(private.Public().(ed25519.PublicKey)))
	others := bytes.Replace(keys, []byte(encode(private.Public().(ed25519.PublicKey))), []byte(encode(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize)).Public().(ed25519.PublicKey))), 1)
	for name, c := range map[string]struct {
		change func(i *snapshot.Issuer)
		want   writ.Code
	}{
		"another key":              {func(i *snapshot.Issuer) { i.Keys = others }, writ.CodeGrantRevoked},
		"keys from elsewhere":      {func(i *snapshot.Issuer) { i.Keys, i.JWKS = nil, login+"/keys" }, writ.CodeGrantRevoked},
		"no keys":                  {func(i *snapshot.Issuer) { i.Keys = nil }, writ.CodeGrantRevoked},
		"other algorithms":         {func(i *snapshot.Issuer) { i.Algorithms = []string{"ES256"} }, writ.CodeGrantRevoked},
		"other types":              {func(i *snapshot.Issuer) { i.Types = []string{"JWT"} }, writ.CodeGrantRevoked},
		"its tenant in a claim":    {func(i *snapshot.Issuer) { i.TenantClaim = "tid" }, writ.CodeGrantRevoked},
		"its groups in a claim":    {func(i *snapshot.Issuer) { i.GroupsClaim = "groups" }, writ.CodeGrantRevoked},
		"another name of its file": {func(i *snapshot.Issuer) { i.KeysFile = "other.json" }, writ.CodeRedeemed},
		"nothing":                  {func(*snapshot.Issuer) {}, writ.CodeRedeemed},
	} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, func(t *testing.T, d *desk) {
				put := func(generation uint64, change func(i *snapshot.Issuer)) {
					world := *d.world
					world.Issuers = maps.Clone(world.Issuers)
					issuer := *world.Issuers[login]
					change(&issuer)
					world.Issuers[login] = &issuer
					d.put(world.At("test", generation, world.Revocations))
				}
				put(2, func(i *snapshot.Issuer) { i.JWKS, i.Keys, i.Algorithms = "", keys, []string{"EdDSA"} })
				tokens := token.New(token.Config{})
				defer tokens.Close()
				var err error
				if d.pdp, err = pdp.New(pdp.Config{Snapshots: d.holder, Log: d.log, Tokens: tokens}); err != nil {
					t.Fatal(err)
				}
				p := d.proposal(small)
				p.AccessToken = signed(t, private, p.Token)
				p.Token = nil
				g := d.granted(p)
				put(3, c.change)
				if a := d.redeem(redemption(g, p)); a.Decision().Code != c.want || a.MayAct() != (c.want == writ.CodeRedeemed) {
					t.Errorf("%+v, want %s", a.Decision(), c.want)
				}
			})
		})
	}
}

// signed is an access token (RFC 9068) that says what t says.
func signed(t *testing.T, private ed25519.PrivateKey, says *writ.Token) []byte {
	t.Helper()
	claims := map[string]any{
		"iss": says.Issuer, "sub": says.Subject, "aud": says.Audience[0], "scope": strings.Join(says.Scopes, " "),
		"iat": says.ExpiresAt.Add(-time.Hour).Unix(), "exp": says.ExpiresAt.Unix(), "jti": "jti-1",
	}
	for name, value := range says.Claims {
		claims[name] = value
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"EdDSA","typ":"at+jwt","kid":"one"}`)) + "." + encode(payload)
	return []byte(text + "." + encode(ed25519.Sign(private, []byte(text))))
}
