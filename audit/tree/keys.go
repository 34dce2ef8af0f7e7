package tree

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Names of a log's files beside its tiles.
const (
	CheckpointFile = "checkpoint" // the newest signed checkpoint
	KeyFile        = "key"        // the log's secret signing key; mode 0600
	VerifierFile   = "verifier"   // its public verifier key; mode 0644
)

const maxKeyFile = 4 << 10

// OpenKey returns the signing key of the log in dir and the text of its
// verifier key, and makes both if there is no key. The key's name is the
// origin. It refuses a key file that others than its owner may read, the key
// of another origin, and a verifier file of another key.
func OpenKey(dir, origin string) (note.Signer, string, error) {
	signer, vkey, err := openKey(dir, origin)
	if err != nil {
		return nil, "", fmt.Errorf("tree: the key of the log in %s: %w", dir, err)
	}
	return signer, vkey, nil
}

func openKey(dir, origin string) (note.Signer, string, error) {
	if !validName(origin) || len(origin) > maxOrigin || !printable(origin) {
		return nil, "", fmt.Errorf("the origin %q can't name a key: it must be 1 to %d bytes, without spaces and +", origin, maxOrigin)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	skey, err := readKey(root)
	if errors.Is(err, fs.ErrNotExist) {
		skey, err = makeKey(root, origin)
	}
	if err != nil {
		return nil, "", err
	}
	signer, vkey, err := parseKey(skey)
	if err != nil {
		return nil, "", err
	}
	if signer.Name() != origin {
		return nil, "", fmt.Errorf("it belongs to the origin %q, and the log's is to be %q: a log keeps its origin", signer.Name(), origin)
	}
	return signer, vkey, keepVerifier(root, vkey)
}

func readKey(root *os.Root) (string, error) {
	info, err := root.Stat(KeyFile)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s has mode %v: it must be a file that only its owner may read (chmod 600)", KeyFile, info.Mode())
	}
	data, err := ReadFile(root, KeyFile, maxKeyFile)
	return strings.TrimSuffix(string(data), "\n"), err
}

// makeKey makes a key, unless the log has a verifier: its key is lost then, and
// another one would sign for a log that it can't continue.
func makeKey(root *os.Root, origin string) (string, error) {
	if _, err := root.Stat(VerifierFile); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(fmt.Errorf("%s is missing, and %s is there: restore the key, or move the log away to start another", KeyFile, VerifierFile), err)
	}
	skey, _, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return "", err
	}
	return skey, ReplaceFile(root, KeyFile, []byte(skey+"\n"), 0o600)
}

// parseKey returns a key's signer and the text of its verifier.
func parseKey(skey string) (note.Signer, string, error) {
	signer, err := note.NewSigner(skey)
	if err != nil {
		return nil, "", fmt.Errorf("%s is no signing key of a note", KeyFile)
	}
	// NewSigner has checked the form: PRIVATE+KEY+name+id+base64(0x01 and the seed).
	// Base64 may hold a + as well.
	raw, err := base64.StdEncoding.DecodeString(strings.SplitN(skey, "+", 5)[4])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return nil, "", fmt.Errorf("%s is no Ed25519 signing key", KeyFile)
	}
	public := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	vkey, err := note.NewEd25519VerifierKey(signer.Name(), public)
	return signer, vkey, err
}

// keepVerifier makes the verifier file of a new key, or one that is missing
// because a crash came between, and checks it otherwise.
func keepVerifier(root *os.Root, vkey string) error {
	data, err := ReadFile(root, VerifierFile, maxKeyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ReplaceFile(root, VerifierFile, []byte(vkey+"\n"), 0o644)
	case err != nil:
		return err
	case strings.TrimSuffix(string(data), "\n") != vkey:
		return fmt.Errorf("%s is not that of %s: one of them belongs to another log", VerifierFile, KeyFile)
	}
	return nil
}

// ReadVerifier reads the verifier key of a log from a file. Who verifies a log
// takes it from a place that the log's keepers can't change.
func ReadVerifier(file string) (note.Verifier, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("tree: the log's verifier key: %w", err)
	}
	v, err := note.NewVerifier(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, fmt.Errorf("tree: %s is no verifier key of a log: %w", file, err)
	}
	return v, nil
}
