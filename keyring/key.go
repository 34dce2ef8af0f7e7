package keyring

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// Type is what a JWS is, as its header's typ says it (RFC 7515, section
// 4.1.9; RFC 8725, section 3.11).
type Type string

// Types. A ring opens no other than the first two.
const (
	TypeGrant    Type = "writ-grant+jwt"
	TypeApproval Type = "writ-approval+jwt"
	TypeReplica  Type = "writ-replica+jwt"
)

var types = [...]Type{TypeGrant, TypeApproval, TypeReplica}

// encoding is base64url without padding (RFC 7515, section 2), in one form.
// Its decoder still skips line ends, which are refused apart.
var encoding = base64.RawURLEncoding.Strict()

// Lengths in base64url, in characters.
const (
	idSize        = 43 // of a SHA-256
	signatureSize = 86 // of an Ed25519 signature
)

// Key is an Ed25519 key pair. It never changes.
type Key struct {
	id      string
	private ed25519.PrivateKey
	// heads are the first parts of what the key signs, in base64url with the dot
	// after it, in the order of types.
	heads [len(types)]string
}

// Generate makes a key. It is nowhere but in memory.
func Generate() *Key {
	var seed [ed25519.SeedSize]byte
	rand.Read(seed[:]) // never fails
	return newKey(ed25519.NewKeyFromSeed(seed[:]))
}

func newKey(private ed25519.PrivateKey) *Key {
	k := &Key{private: private}
	k.id = thumbprint(k.Public())
	for i, t := range types {
		k.heads[i] = encoding.EncodeToString(header(t, k.id)) + "."
	}
	return k
}

// header is the one protected header of a type and a key.
func header(t Type, id string) []byte {
	return []byte(`{"alg":"EdDSA","kid":"` + id + `","typ":"` + string(t) + `"}`)
}

// ID is the key's id, its kid: the SHA-256 thumbprint of its JWK (RFC 7638;
// RFC 8037, appendix A.3), 43 characters of base64url.
func (k *Key) ID() string { return k.id }

// Public is the public half.
func (k *Key) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// Sign returns a compact JWS of type t over payload, the same one each time.
// A type that is not one of this package's is a mistake of the program, and
// Sign panics.
func (k *Key) Sign(t Type, payload []byte) string {
	head := k.head(t)
	b := make([]byte, 0, len(head)+encoding.EncodedLen(len(payload))+1+signatureSize)
	b = encoding.AppendEncode(append(b, head...), payload)
	signature := ed25519.Sign(k.private, b)
	return string(encoding.AppendEncode(append(b, '.'), signature))
}

func (k *Key) head(t Type) string {
	for i := range types {
		if types[i] == t {
			return k.heads[i]
		}
	}
	panic("keyring: Sign of the type " + string(t))
}

// thumbprint is the id of a public key: over the JWK's required members, in the
// order of their names (RFC 7638, section 3).
func thumbprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256(appendJWK(nil, public))
	return encoding.EncodeToString(sum[:])
}

// appendJWK appends the JWK of a public key with its required members alone
// (RFC 8037, section 2).
func appendJWK(b []byte, public ed25519.PublicKey) []byte {
	b = append(b, `{"crv":"Ed25519","kty":"OKP","x":"`...)
	b = encoding.AppendEncode(b, public)
	return append(b, `"}`...)
}
