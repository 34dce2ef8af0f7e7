package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Digest is the SHA-256 of a canonical form. The zero Digest means that there
// is none: it is the digest of nothing, and whoever compares two digests
// refuses zero ones first.
type Digest [sha256.Size]byte

const digestPrefix = "sha256:"

// Sum returns the digest of a canonical form, as [Append] writes it.
func Sum(canonical []byte) Digest { return sha256.Sum256(canonical) }

// IsZero reports whether d is the zero Digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns "sha256:" and 64 lower-case hexadecimal digits, or "" for
// the zero Digest.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	var text [len(digestPrefix) + 2*sha256.Size]byte
	return string(d.AppendText(text[:0]))
}

// AppendText appends what String returns to dst.
func (d Digest) AppendText(dst []byte) []byte {
	if d.IsZero() {
		return dst
	}
	return hex.AppendEncode(append(dst, digestPrefix...), d[:])
}

// ParseDigest reads the form that String writes, and no other: upper-case
// digits, another algorithm, the empty string and the zero Digest are errors.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != len(digestPrefix)+2*len(d) || s[:len(digestPrefix)] != digestPrefix {
		return Digest{}, errDigest
	}
	digits := s[len(digestPrefix):]
	for i := 0; i < len(digits); i++ {
		if c := digits[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return Digest{}, errDigest
		}
	}
	if _, err := hex.Decode(d[:], []byte(digits)); err != nil || d.IsZero() {
		return Digest{}, errDigest
	}
	return d, nil
}

var errDigest = errors.New(`a digest is "sha256:" and 64 lower-case hexadecimal digits, not all zero`)
