package tree

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
)

// algorithmCosignature is the byte of C2SP signed-note for timestamped Ed25519
// cosignatures.
const algorithmCosignature = 0x04

// Cosignature says that a witness saw this checkpoint as the newest of its log.
type Cosignature struct {
	Witness string    `json:"witness"` // its name
	Time    time.Time `json:"time"`    // by its clock, in seconds
}

// Witness is the key of a witness that makes Ed25519 cosignatures (C2SP
// tlog-cosignature, cosignature/v1). It is a note.Verifier.
type Witness struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

var _ note.Verifier = (*Witness)(nil)

// NewWitness reads a witness's verifier key (C2SP signed-note, with the
// signature type 0x04):
//
//	<name>+<key id, 8 hexadecimal digits>+<base64 of 0x04 and the Ed25519 public key>
func NewWitness(vkey string) (*Witness, error) {
	name, rest, _ := strings.Cut(vkey, "+")
	id, key64, _ := strings.Cut(rest, "+")
	hash, hashErr := strconv.ParseUint(id, 16, 32)
	key, keyErr := base64.StdEncoding.Strict().DecodeString(key64)
	switch {
	case !validName(name) || len(id) != 8 || hashErr != nil || keyErr != nil || len(key) == 0:
		return nil, errors.New("tree: a witness's key must be its name, key id and key in base64, with + between them")
	case key[0] != algorithmCosignature:
		return nil, fmt.Errorf("tree: the key of witness %s is of type %#02x: only Ed25519 cosignatures, %#02x, can be verified", name, key[0], algorithmCosignature)
	case len(key) != 1+ed25519.PublicKeySize:
		return nil, fmt.Errorf("tree: the key of witness %s is no Ed25519 public key", name)
	}
	w := &Witness{name, keyID(name, key), ed25519.PublicKey(key[1:])}
	if w.hash != uint32(hash) {
		return nil, fmt.Errorf("tree: the key of witness %s has the id %08x where %s is written: it was copied wrong", name, w.hash, id)
	}
	return w, nil
}

// keyID returns the id of a key with its type byte (C2SP signed-note).
func keyID(name string, key []byte) uint32 {
	sum := sha256.Sum256([]byte(name + "\n" + string(key)))
	return binary.BigEndian.Uint32(sum[:])
}

// validName reports whether a key may have this name (C2SP signed-note).
func validName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.Contains(name, "+") && strings.IndexFunc(name, unicode.IsSpace) < 0
}

// Name returns the witness's name.
func (w *Witness) Name() string { return w.name }

// KeyHash returns the id of the witness's key.
func (w *Witness) KeyHash() uint32 { return w.hash }

// Verify reports whether sig, a timestamp and an Ed25519 signature, is the
// witness's cosignature of the checkpoint body.
func (w *Witness) Verify(body, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	seconds := binary.BigEndian.Uint64(sig)
	if seconds > math.MaxInt64 {
		return false
	}
	if _, err := ParseBody(string(body)); err != nil {
		return false
	}
	return ed25519.Verify(w.key, CosignedMessage(seconds, body), sig[8:])
}

// CosignedMessage returns what a witness signs for the checkpoint body, at a
// time in seconds since 1970 (C2SP tlog-cosignature).
func CosignedMessage(seconds uint64, body []byte) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, body)
}

// cosignature reads a signature that Verify has accepted.
func cosignature(sig note.Signature) Cosignature {
	raw, err := base64.StdEncoding.DecodeString(sig.Base64)
	if err != nil || len(raw) < 12 {
		return Cosignature{Witness: sig.Name}
	}
	return Cosignature{sig.Name, time.Unix(int64(binary.BigEndian.Uint64(raw[4:])), 0).UTC()}
}
