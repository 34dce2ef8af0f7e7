package keyring_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/keyring"
)

// rfc8410 is the private key of RFC 8410, section 10.3, and the public key of
// section 10.1.
const (
	rfc8410       = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n"
	rfc8410Public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"
)

func TestParseKey(t *testing.T) {
	k, err := keyring.ParseKey([]byte(rfc8410))
	if err != nil {
		t.Fatal(err)
	}
	public, err := keyring.ParsePublic([]byte(rfc8410Public))
	if err != nil || !bytes.Equal(public, k.Public()) {
		t.Errorf("%x: %v", public, err)
	}
	if text, err := keyring.MarshalPublic(k.Public()); err != nil || string(text) != rfc8410Public {
		t.Errorf("%s: %v", text, err)
	}
	if _, err := keyring.ParseKey([]byte(strings.ReplaceAll(rfc8410, "\n", "\r\n"))); err != nil {
		t.Errorf("with the line ends of Windows: %v", err)
	}

	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// The form of RFC 8410, section 10.3, with an attribute and the public key.
	const second = "-----BEGIN PRIVATE KEY-----\nMHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\noB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB\nZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PRIVATE KEY-----\n"
	for name, text := range map[string]string{
		"nothing":        "",
		"no PEM":         "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC",
		"a public key":   rfc8410Public,
		"two keys":       rfc8410 + rfc8410,
		"a text before":  "key:\n" + rfc8410,
		"a text after":   rfc8410 + "key",
		"headers":        strings.Replace(rfc8410, "-----\nMC4", "-----\nA: b\n\nMC4", 1),
		"another key":    string(pemOf(t, other)),
		"attributes":     second,
		"half of it":     string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{0x30, 0x2e}})),
		"too much":       rfc8410 + strings.Repeat("\n", 4096),
		"an older label": strings.ReplaceAll(rfc8410, "PRIVATE KEY", "ED25519 PRIVATE KEY"),
		"an SSH key":     strings.ReplaceAll(rfc8410, "PRIVATE KEY", "OPENSSH PRIVATE KEY"),
		"an encrypted":   strings.ReplaceAll(rfc8410, "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
	} {
		if _, err := keyring.ParseKey([]byte(text)); err == nil {
			t.Errorf("%s: is a key", name)
		} else if strings.Contains(err.Error(), "MC4") {
			t.Errorf("%s: the message tells of the key: %v", name, err)
		}
	}
	der, err := x509.MarshalPKIXPublicKey(other.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing":       "",
		"a private key": rfc8410,
		"another key":   string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"two keys":      rfc8410Public + rfc8410Public,
		"half of it":    string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der[:9]})),
	} {
		if _, err := keyring.ParsePublic([]byte(text)); err == nil {
			t.Errorf("%s: is a public key", name)
		}
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "replica.pem")
	k, err := keyring.CreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := keyring.ReadKey(path)
	if err != nil || again.ID() != k.ID() {
		t.Fatalf("it reads as another: %v", err)
	}
	if _, err := keyring.CreateKey(path); err == nil {
		t.Error("a key was written over")
	}
	if _, err := keyring.ReadKey(filepath.Join(dir, "none.pem")); err == nil || !strings.Contains(err.Error(), "none.pem") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := keyring.ReadKey(dir); err == nil {
		t.Error("a directory is a key")
	}
	broken := filepath.Join(dir, "broken.pem")
	if err := os.WriteFile(broken, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.ReadKey(broken); err == nil || !strings.Contains(err.Error(), "broken.pem") {
		t.Errorf("what is no key: %v", err)
	}
	if runtime.GOOS == "windows" {
		return // it has no such modes
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v: %v", info.Mode(), err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o644, 0o666, 0o601} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.ReadKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.ReadKey(path); err != nil {
		t.Errorf("mode 0400: %v", err)
	}
}
