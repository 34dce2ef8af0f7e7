package keyring

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
)

// maxFile bounds a key's file, in bytes.
const maxFile = 4 << 10

// The PEM labels of a private and of a public key (RFC 7468, sections 10 and 13).
const (
	privateLabel = "PRIVATE KEY"
	publicLabel  = "PUBLIC KEY"
)

// ReadKey reads the file of a key: one Ed25519 private key in PKCS #8 and PEM
// (RFC 8410; `openssl genpkey -algorithm ed25519` writes it), and nothing
// else. It must be a regular file that nobody but its owner may read or write
// (mode 0600 or less).
func ReadKey(path string) (*Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err // names the path
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no regular file", path)
	}
	// Windows has no such modes.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: has mode %v: it must be a file that only its owner may read (chmod 600)", path, info.Mode())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	k, err := ParseKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// ParseKey reads the text of a key's file, as [ReadKey] says.
func ParseKey(text []byte) (*Key, error) {
	der, err := block(text, privateLabel)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("is no private key in PKCS #8 (RFC 5958)") // err may tell of the key
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("is no Ed25519 key: make one with openssl genpkey -algorithm ed25519")
	}
	k := newKey(private)
	if again, err := k.der(); err != nil || !bytes.Equal(again, der) {
		return nil, errors.New("holds more than the key: attributes, a second version, or something after it")
	}
	return k, nil
}

// ParsePublic reads a public key in PEM (RFC 8410, section 4), as
// [MarshalPublic] and `openssl pkey -pubout` write it, and nothing else.
func ParsePublic(text []byte) (ed25519.PublicKey, error) {
	der, err := block(text, publicLabel)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, errors.New("is no public key")
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("is no Ed25519 key")
	}
	if err := checkPublic(public); err != nil {
		return nil, err
	}
	if again, err := x509.MarshalPKIXPublicKey(public); err != nil || !bytes.Equal(again, der) {
		return nil, errors.New("holds more than the key")
	}
	return public, nil
}

// MarshalPublic writes a public key in PEM.
func MarshalPublic(public ed25519.PublicKey) ([]byte, error) {
	if err := checkPublic(public); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: publicLabel, Bytes: der}), nil
}

// CreateKey makes a key and writes its file, which must not be there yet, with
// mode 0600.
func CreateKey(path string) (*Key, error) {
	k := Generate()
	der, err := k.der()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = pem.Encode(f, &pem.Block{Type: privateLabel, Bytes: der})
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path) // half a key is none
		return nil, err
	}
	return k, nil
}

func (k *Key) der() ([]byte, error) { return x509.MarshalPKCS8PrivateKey(k.private) }

// block returns what one PEM block holds, if the text is that block and nothing
// else. Lines may end as on Windows.
func block(text []byte, label string) ([]byte, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("has more than %d bytes", maxFile)
	}
	text = bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
	b, _ := pem.Decode(text)
	if b == nil {
		return nil, fmt.Errorf("is no PEM file: it begins with -----BEGIN %s-----", label)
	}
	if b.Type != label {
		return nil, fmt.Errorf("holds a %q in PEM where one %q is wanted", b.Type, label)
	}
	if len(b.Headers) > 0 || !bytes.Equal(text, bytes.TrimSpace(pem.EncodeToMemory(b))) {
		return nil, fmt.Errorf("holds more than one %q in PEM", label)
	}
	return b.Bytes, nil
}
