package token

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a key set.
const (
	MaxKeySet = 1 << 20 // bytes
	MaxKeys   = 100
	minRSA    = 2048 // bits (RFC 7518, section 3.3)
	maxRSA    = 8192 // bits: more costs milliseconds a token
)

// Algorithms are those that an issuer may allow (RFC 7518, section 3.1; RFC
// 8037; RFC 9864): asymmetric ones only, so that no public key is ever taken
// for a shared secret (RFC 8725, section 2.1).
var Algorithms = [...]string{"EdDSA", "Ed25519", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}

// Keys are the signing keys of one issuer. They never change.
type Keys struct {
	all      []key
	unusable []int // see Unusable
}

// key is one public key that may verify.
type key struct {
	id         string // kid; may be empty
	thumbprint string // RFC 7638, SHA-256, base64url
	algorithms []string
	public     crypto.PublicKey
}

// KeysError says what is wrong with a JWK set, and at which byte of its text
// that is.
type KeysError struct {
	Offset int
	Err    error
}

// Error says it without the place.
func (e *KeysError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *KeysError) Unwrap() error { return e.Err }

// ParseKeys reads a JWK set (RFC 7517, section 5). Keys of kinds that verify
// nothing here (encryption keys, symmetric ones, unknown curves, short RSA) are
// left out, as that section asks. A private key is an error: its owner has to
// know, and every token of it may be forged. So is a set without a usable key.
// The error is a *[KeysError].
func ParseKeys(data []byte) (*Keys, error) {
	if len(data) > MaxKeySet {
		return nil, &KeysError{0, fmt.Errorf("the key set has more than %d bytes", MaxKeySet)}
	}
	d := jsontext.NewDecoder(bytes.NewReader(data))
	if d.PeekKind() != '{' {
		return nil, &KeysError{0, errors.New("the key set is not a JSON object")}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, notJSON(d, err)
	}
	var out *Keys
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, notJSON(d, err)
		}
		if name.String() != "keys" {
			if err := d.SkipValue(); err != nil {
				return nil, notJSON(d, err)
			}
			continue
		}
		if out, err = parseList(d); err != nil {
			return nil, err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, notJSON(d, err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &KeysError{int(d.InputOffset()), errors.New("something stands after the key set")}
	}
	switch {
	case out == nil:
		return nil, &KeysError{0, errors.New(`the key set has no array "keys" (RFC 7517, section 5.1)`)}
	case len(out.all) == 0:
		return nil, &KeysError{0, errors.New("the key set has no key that could verify a token: an Ed25519 key, P-256, P-384 or P-521, or RSA of 2048 to 8192 bits, for signatures")}
	}
	return out, nil
}

// parseList reads the array of a set's keys.
func parseList(d *jsontext.Decoder) (*Keys, error) {
	if d.PeekKind() != '[' {
		return nil, &KeysError{int(d.InputOffset()), errors.New(`the key set has no array "keys" (RFC 7517, section 5.1)`)}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, notJSON(d, err)
	}
	out := &Keys{}
	for i := 0; d.PeekKind() != ']'; i++ {
		value, err := d.ReadValue()
		if err != nil {
			return nil, notJSON(d, err)
		}
		at := d.InputOffset() - int64(len(value))
		if i == MaxKeys {
			return nil, &KeysError{int(at), fmt.Errorf("the key set has more than %d keys", MaxKeys)}
		}
		k, usable, err := parseKey(value)
		if err != nil {
			return nil, &KeysError{int(at), fmt.Errorf("key %d of the set: %w", i+1, err)}
		}
		if usable {
			out.all = append(out.all, k)
		} else {
			out.unusable = append(out.unusable, int(at))
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, notJSON(d, err)
	}
	return out, nil
}

// notJSON says where a text stops being what it should be.
func notJSON(d *jsontext.Decoder, err error) error {
	at := d.InputOffset()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = syntax.ByteOffset
	}
	return &KeysError{int(at), errors.New("the key set is not JSON, or a name is there twice")}
}

// Unusable returns where in the text of the set keys stand that verify nothing
// here, in bytes. Nil keys have none.
func (k *Keys) Unusable() []int {
	if k == nil {
		return nil
	}
	return k.unusable
}

// Serve reports whether any of the keys may verify one of the algorithms; none
// named are [DefaultAlgorithms].
func (k *Keys) Serve(algorithms []string) bool {
	if len(algorithms) == 0 {
		algorithms = DefaultAlgorithms[:]
	}
	return slices.ContainsFunc(k.all, func(have key) bool {
		return slices.ContainsFunc(have.algorithms, func(alg string) bool { return slices.Contains(algorithms, alg) })
	})
}

// parseKey reads one JWK, and says whether it may verify.
func parseKey(data []byte) (k key, usable bool, err error) {
	members, err := object(data)
	if err != nil {
		return key{}, false, err
	}
	for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth"} {
		if _, there := members[private]; there {
			return key{}, false, errors.New("it is a private key: withdraw it, and publish the public one")
		}
	}
	// What says that it is for something else, is.
	if v, there := members["use"]; there && string(v) != `"sig"` {
		return key{}, false, nil
	}
	if v, there := members["key_ops"]; there {
		if ops, err := texts(v, 16, 64); err != nil || !slices.Contains(ops, "verify") {
			return key{}, false, nil
		}
	}
	// Certificates are not followed: the set itself is what is trusted.
	for _, name := range []string{"x5c", "x5u", "x5t", "x5t#S256"} {
		delete(members, name)
	}
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(join(members)); err != nil {
		return key{}, false, nil // of a kind, or on a curve, that is unknown here
	}
	if len(jwk.KeyID) > MaxKeyID || !jwk.Valid() {
		return key{}, false, nil
	}
	k = key{id: jwk.KeyID, public: jwk.Key, algorithms: fitting(jwk.Key)}
	if jwk.Algorithm != "" {
		if !slices.Contains(k.algorithms, jwk.Algorithm) {
			return key{}, false, nil
		}
		k.algorithms = []string{jwk.Algorithm}
		if jwk.Algorithm == "EdDSA" || jwk.Algorithm == "Ed25519" { // two names of one
			k.algorithms = []string{"EdDSA", "Ed25519"}
		}
	}
	if len(k.algorithms) == 0 {
		return key{}, false, nil
	}
	sum, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return key{}, false, nil
	}
	k.thumbprint = base64.RawURLEncoding.EncodeToString(sum)
	return k, true, nil
}

// join writes members as one object again.
func join(members map[string]jsontext.Value) []byte {
	var b bytes.Buffer
	e := jsontext.NewEncoder(&b)
	_ = e.WriteToken(jsontext.BeginObject) // a buffer takes everything
	for name, value := range members {
		_ = e.WriteToken(jsontext.String(name))
		_ = e.WriteValue(value)
	}
	_ = e.WriteToken(jsontext.EndObject)
	return b.Bytes()
}

// fitting lists the algorithms that a key may verify; none for a key that is
// too weak or none of ours.
func fitting(public any) []string {
	switch k := public.(type) {
	case ed25519.PublicKey:
		return []string{"EdDSA", "Ed25519"}
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return []string{"ES256"}
		case elliptic.P384():
			return []string{"ES384"}
		case elliptic.P521():
			return []string{"ES512"}
		}
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits >= minRSA && bits <= maxRSA && k.E >= 3 {
			return []string{"PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}
		}
	}
	return nil
}

// find returns the one key, or the few of one kid, that may verify a token
// with this header. Without a kid there is one only if no other fits.
func (k *Keys) find(h header) []key {
	if k == nil {
		return nil
	}
	var out []key
	for _, candidate := range k.all {
		if slices.Contains(candidate.algorithms, h.alg) && (h.kid == "" || candidate.id == h.kid) {
			out = append(out, candidate)
		}
	}
	if h.kid == "" && len(out) > 1 || len(out) > 4 {
		return nil
	}
	return out
}

// holds reports whether the key of a thumbprint is still there for an
// algorithm, under the same id: revocations name it by that.
func (k *Keys) holds(thumbprint, id, algorithm string) bool {
	if k == nil {
		return false
	}
	return slices.ContainsFunc(k.all, func(have key) bool {
		return have.thumbprint == thumbprint && have.id == id && slices.Contains(have.algorithms, algorithm)
	})
}

// verify checks the signature of a compact JWS whose header names algorithm.
func (k key) verify(compact []byte, algorithm string) bool {
	if algorithm == "Ed25519" { // RFC 9864, section 2.2: the library knows it as EdDSA only
		public, ok := k.public.(ed25519.PublicKey)
		dot := bytes.LastIndexByte(compact, '.')
		signature, err := encoding.DecodeString(string(compact[dot+1:]))
		return ok && err == nil && ed25519.Verify(public, compact[:dot], signature)
	}
	jws, err := jose.ParseSignedCompact(string(compact), []jose.SignatureAlgorithm{jose.SignatureAlgorithm(algorithm)})
	if err != nil {
		return false
	}
	_, err = jws.Verify(k.public)
	return err == nil
}
