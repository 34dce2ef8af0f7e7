package verifytest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Types of signatures, as signed-note assigns them.
const (
	typeEd25519     = 0x01
	typeCosignature = 0x04
)

// maxNote bounds a note, in bytes: signed-note asks for a bound.
const maxNote = 1 << 20

// Key is what verifies one signer's signatures: Ed25519, or the cosignatures
// of tlog-cosignature's first form.
type Key struct {
	Name   string
	id     [4]byte
	kind   byte
	public ed25519.PublicKey
}

// ParseKey reads a verifier key: NAME+ID+base64(TYPE || KEY), the ID in eight
// hexadecimal digits.
func ParseKey(text string) (Key, error) {
	name, rest, _ := strings.Cut(text, "+")
	id, encoded, _ := strings.Cut(rest, "+")
	material, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || !validName(name) || len(material) != 1+ed25519.PublicKeySize {
		return Key{}, errors.New("this is no verifier key")
	}
	k := Key{Name: name, kind: material[0], public: material[1:]}
	if k.kind != typeEd25519 && k.kind != typeCosignature {
		return Key{}, fmt.Errorf("the key is of the unknown type %#x", k.kind)
	}
	sum := sha256.Sum256([]byte(name + "\n" + string(material)))
	copy(k.id[:], sum[:])
	if id != hex.EncodeToString(k.id[:]) {
		return Key{}, errors.New("the key's ID is not that of its name and key")
	}
	return k, nil
}

func validName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsSpace) && !strings.Contains(name, "+")
}

// Note is a note whose form is right. Nothing in it is to be believed before
// Signed says so.
type Note struct {
	Text       string // with its last newline
	signatures []signature
}

type signature struct {
	name string
	id   [4]byte
	data []byte
}

// ParseNote reads a signed note.
func ParseNote(data []byte) (Note, error) {
	if len(data) > maxNote {
		return Note{}, fmt.Errorf("a note of %d bytes", len(data))
	}
	whole := string(data)
	if !utf8.ValidString(whole) || strings.ContainsFunc(whole, func(r rune) bool { return r < ' ' && r != '\n' }) {
		return Note{}, errors.New("the note is not UTF-8, or has control characters")
	}
	// The last empty line ends the text, so nothing after it may be empty.
	cut := strings.LastIndex(whole, "\n\n")
	if cut < 0 || !strings.HasSuffix(whole, "\n") {
		return Note{}, errors.New("the note has no signatures")
	}
	n := Note{Text: whole[:cut+1]}
	signed := strings.TrimSuffix(whole[cut+2:], "\n")
	if signed == "" {
		return Note{}, errors.New("the note has no signatures")
	}
	for line := range strings.SplitSeq(signed, "\n") {
		rest, dashed := strings.CutPrefix(line, "— ")
		name, encoded, spaced := strings.Cut(rest, " ")
		data, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if !dashed || !spaced || !validName(name) || err != nil || len(data) < 5 {
			return Note{}, errors.New("a line after the text is no signature")
		}
		n.signatures = append(n.signatures, signature{name, [4]byte(data), data[4:]})
	}
	return n, nil
}

// Signed says what keeps the note from being signed by k; nil: it is. A
// signature under k's name and ID that doesn't verify spoils the note.
func (n Note) Signed(k Key) error {
	found := false
	for _, s := range n.signatures {
		if s.name != k.Name || s.id != k.id {
			continue
		}
		if !k.verify(n.Text, s.data) {
			return fmt.Errorf("the signature of %s is wrong", k.Name)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("the note is not signed by %s", k.Name)
	}
	return nil
}

func (k Key) verify(text string, data []byte) bool {
	switch k.kind {
	case typeEd25519:
		return len(data) == ed25519.SignatureSize && ed25519.Verify(k.public, []byte(text), data)
	case typeCosignature:
		if len(data) != 8+ed25519.SignatureSize {
			return false
		}
		when := binary.BigEndian.Uint64(data)
		if when > 1<<63-1 {
			return false
		}
		message := "cosignature/v1\ntime " + strconv.FormatUint(when, 10) + "\n" + text
		return ed25519.Verify(k.public, []byte(message), data[8:])
	default:
		return false
	}
}

// Checkpoint is what a checkpoint says of a log.
type Checkpoint struct {
	Origin string
	Size   uint64 // records
	Root   Hash
}

// ParseCheckpoint reads the text of a checkpoint. Lines after the third say
// nothing that a verifier knows.
func ParseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[len(lines)-1] != "" {
		return Checkpoint{}, errors.New("a checkpoint has at least three lines")
	}
	lines = lines[:len(lines)-1]
	for _, line := range lines {
		if line == "" {
			return Checkpoint{}, errors.New("a line of the checkpoint is empty")
		}
	}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return Checkpoint{}, errors.New("the checkpoint's second line is no size")
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != len(Hash{}) {
		return Checkpoint{}, errors.New("the checkpoint's third line is no root hash")
	}
	return Checkpoint{lines[0], size, Hash(root)}, nil
}
