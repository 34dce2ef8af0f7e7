package benchmarks

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/grant"
	"github.com/writ-pdp/writ/keyring"
)

// paymentGrant is what is minted for the payment of BenchmarkDecide.
func paymentGrant() *grant.Claims {
	digest := func(text string) canon.Digest { return sha256.Sum256([]byte(text)) }
	return &grant.Claims{
		Issuer: "https://pdp.acme.example", Instance: "k3v9x2m4", Audience: "payments",
		Principal: writ.Principal{Issuer: "https://login.example", Subject: "raj", Tenant: "acme"},
		Actors:    []writ.Actor{{Issuer: "https://login.example", Subject: "ap-app", Claims: map[string]string{"client_id": "ap-app"}}},
		IssuedAt:  now, ExpiresAt: now.Add(30 * time.Second),
		ID: rand.Text(), Revision: "b7f31c-12", IdempotencyKey: grant.IdempotencyKey(digest("proposal")),
		CallDigest: digest("call"), ContractDigest: digest("contract"), PolicyDigest: digest("policies"), ProposalDigest: digest("proposal"),
		Locations: []string{"https://payments.acme.example/mcp"}, Actions: []string{"payments/create_payment"},
	}
}

// BenchmarkGrant is what minting a grant costs over a bare Ed25519 signature of
// as many bytes and over one of 32; and what another library takes for the same
// token, and opening it. Ratio takes turns, and is of the least times, which a
// machine's other work is in the least.
func BenchmarkGrant(b *testing.B) {
	k := keyring.Generate()
	ring, err := keyring.New(keyring.Config{Key: k}, now)
	if err != nil {
		b.Fatal(err)
	}
	claims := paymentGrant()
	token, err := grant.Mint(k, claims)
	if err != nil {
		b.Fatal(err)
	}
	signed := []byte(token[:strings.LastIndexByte(token, '.')])
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	bare := func(message []byte) func() {
		return func() { ed25519.Sign(private, message) }
	}
	mint := func() {
		if _, err := grant.Mint(k, claims); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("Mint", each(mint))
	b.Run("Ed25519Sign", each(bare(signed)))
	b.Run("MintGoJose", each(goJose(b, private, token)))
	b.Run("Open", each(func() {
		if _, err := grant.Open(ring, token, now, claims.Issuer, claims.Instance); err != nil {
			b.Fatal(err)
		}
	}))
	b.Run("Ratio", func(b *testing.B) {
		const none = time.Duration(math.MaxInt64)
		minting, signing, short := none, none, none
		for b.Loop() {
			minting = min(minting, took(mint))
			signing = min(signing, took(bare(signed)))
			short = min(short, took(bare(signed[:32])))
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(minting)/float64(signing), "mint/sign")
		b.ReportMetric(float64(minting)/float64(short), "mint/sign-32B")
		b.ReportMetric(float64(len(token)), "token-bytes")
	})
}

func each(do func()) func(*testing.B) {
	return func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			do()
		}
	}
}

// took is for how long several calls take, so that reading the clock costs
// nothing.
func took(do func()) time.Duration {
	start := time.Now()
	for range 8 {
		do()
	}
	return time.Since(start)
}

// goJose mints a token of the same claims as the given one with go-jose.
func goJose(b *testing.B, private ed25519.PrivateKey, token string) func() {
	b.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		b.Fatal(err)
	}
	tree, err := canon.ParseObject(payload)
	if err != nil {
		b.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: private}, (&jose.SignerOptions{}).WithType("writ-grant+jwt").WithHeader("kid", "k"))
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		if _, err := jwt.Signed(signer).Claims(tree).Serialize(); err != nil {
			b.Fatal(err)
		}
	}
}
