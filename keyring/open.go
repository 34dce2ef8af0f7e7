package keyring

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"github.com/writ-pdp/writ/canon"
)

// Kind is why a JWS did not open.
type Kind uint8

// Kinds. Whatever the kind, nothing in the JWS may be believed.
const (
	Malformed    Kind = iota // it is not in the one form
	WrongType                // it is a JWS of ours, of another type
	UnknownKey               // no key of that id is known here
	BadSignature             // it is not what the key signed
	RetiredKey               // the key's time is over
)

// Error says why a JWS did not open, in one sentence without values.
type Error struct {
	Kind Kind
	Why  string
}

// Error returns Why.
func (e *Error) Error() string { return e.Why }

// parts is a compact JWS taken apart.
type parts struct {
	kid       string
	payload   []byte
	signed    []byte // what the signature is over
	signature []byte
}

// split takes a compact JWS of type t apart. most bounds its bytes; nothing is
// looked at in a longer one.
func split(t Type, compact string, most int) (parts, *Error) {
	malformed := func(why string) (parts, *Error) { return parts{}, &Error{Malformed, why} }
	if len(compact) > most {
		return malformed(fmt.Sprintf("it has more than %d bytes", most))
	}
	if compact == "" {
		return malformed("it is empty")
	}
	if strings.Count(compact, ".") != 2 {
		return malformed("it is not a signed JWT in compact form: three parts between two dots (RFC 7515, section 7.1)")
	}
	headText, rest, _ := strings.Cut(compact, ".")
	payloadText, signatureText, _ := strings.Cut(rest, ".")
	head, err := decode(headText)
	if err != nil {
		return malformed("its header " + err.Error())
	}
	kid, fault := readHeader(t, head)
	if fault != nil {
		return parts{}, fault
	}
	if len(signatureText) != signatureSize {
		return malformed("its signature has not the length of an Ed25519 signature, 86 characters")
	}
	p := parts{kid: kid, signed: []byte(compact[:len(compact)-1-len(signatureText)])}
	if p.payload, err = decode(payloadText); err != nil {
		return malformed("its payload " + err.Error())
	}
	if p.signature, err = decode(signatureText); err != nil {
		return malformed("its signature " + err.Error())
	}
	return p, nil
}

// decode reads base64url in its one form.
func decode(text string) ([]byte, error) {
	if text == "" {
		return nil, errors.New("is empty")
	}
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("is not base64url without padding")
	}
	b, err := encoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("is not base64url without padding")
	}
	return b, nil
}

// readHeader returns the kid of a header that is, byte for byte, the one of
// type t.
func readHeader(t Type, head []byte) (string, *Error) {
	if id, ok := idIn(t, head); ok {
		return id, nil
	}
	for _, other := range types {
		if _, ok := idIn(other, head); ok {
			return "", &Error{WrongType, fmt.Sprintf("its typ is %s where %s is wanted", other, t)}
		}
	}
	return "", &Error{Malformed, "its header " + explain(head)}
}

// idIn returns the kid of a header that is the one of type t.
func idIn(t Type, head []byte) (string, bool) {
	want := header(t, strings.Repeat("A", idSize))
	from := bytes.Index(want, []byte("AAAA"))
	if len(head) != len(want) {
		return "", false
	}
	id := head[from : from+idSize]
	if _, err := decode(string(id)); err != nil || !bytes.Equal(head, header(t, string(id))) {
		return "", false
	}
	return string(id), true
}

// explain says what is wrong with a header, for people: it has been refused
// already.
func explain(head []byte) string {
	const form = `is not {"alg":"EdDSA","kid":…,"typ":…}, byte for byte`
	members, err := canon.ParseObject(head)
	if err != nil {
		return form + ": it is no JSON object that can be read in one way"
	}
	for _, name := range [...]string{"enc", "zip"} {
		if _, there := members[name]; there {
			return form + ": it belongs to something encrypted or compressed"
		}
	}
	for _, name := range [...]string{"jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256"} {
		if _, there := members[name]; there {
			return form + ": it brings a key, or names the place of one (" + name + ")"
		}
	}
	for _, name := range [...]string{"crit", "b64"} {
		if _, there := members[name]; there {
			return form + ": it asks for an extension (" + name + ")"
		}
	}
	if members["alg"] != "EdDSA" {
		return form + ": its alg is another"
	}
	return form
}

// verify holds a JWS against the key that it names.
func (p *parts) verify(public ed25519.PublicKey) *Error {
	if !ed25519.Verify(public, p.signed, p.signature) {
		return &Error{BadSignature, "its signature is not its key's: it was changed, or somebody else made it"}
	}
	return nil
}
