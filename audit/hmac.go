package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"
)

// hmacPrefix begins what is told under the key.
const hmacPrefix = "hmac-sha256:"

// hmacKey is the log's key for what must not be guessed from a record: whoever
// has a value and the key can find its records, and without the key nobody can
// try values. It is safe for concurrent use.
type hmacKey struct {
	hashes sync.Pool // of *keyedHash
}

// keyedHash is a hash with its key, and room for its sum.
type keyedHash struct {
	hash.Hash
	sum [sha256.Size]byte
}

func newHMACKey(key [32]byte) *hmacKey {
	k := &hmacKey{}
	k.hashes.New = func() any { return &keyedHash{Hash: hmac.New(sha256.New, key[:])} }
	return k
}

// appendText appends what stands for text in records: "hmac-sha256:" and 64
// lower-case hexadecimal digits, HMAC-SHA-256 (RFC 2104) of the text's bytes.
func (k *hmacKey) appendText(b []byte, text string) []byte {
	h := k.hashes.Get().(*keyedHash)
	h.Reset()
	n := len(b)
	b = append(b, text...) // the text as bytes, without another allocation
	h.Write(b[n:])
	b = append(b[:n], hmacPrefix...)
	b = hex.AppendEncode(b, h.Hash.Sum(h.sum[:0]))
	k.hashes.Put(h)
	return b
}

// HMAC returns what stands for text in the records of a log whose key, the
// contents of [HMACFile], is key: 32 bytes.
func HMAC(key []byte, text string) (string, error) {
	if len(key) != 32 {
		return "", fmt.Errorf("a log's key has 32 bytes, not %d", len(key))
	}
	return string(newHMACKey([32]byte(key)).appendText(nil, text)), nil
}
