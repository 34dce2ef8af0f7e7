package audit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/writ-pdp/writ/audit/tree"
)

// HMACFile is the file of a log that holds the key, 32 random bytes, of what is
// told under it.
const HMACFile = "hmac.key"

// keys are what a log signs, is verified by, and tells under.
type keys struct {
	signer   note.Signer
	verifier note.Verifier
	text     string // of verifier
	hmac     *hmacKey
}

// openKeys reads the keys of the log, or makes them for a new one. An origin
// that is not empty must be theirs.
func openKeys(d *disk, origin string, isNew bool) (keys, error) {
	if !isNew {
		for _, name := range []string{tree.KeyFile, tree.VerifierFile} {
			if _, err := d.dir.Lstat(name); errors.Is(err, fs.ErrNotExist) {
				return keys{}, fmt.Errorf("%s: is missing, and the log is there: put it back, or move the log away to begin another", d.path(name))
			}
		}
	}
	if origin == "" {
		var err error
		if origin, err = ownOrigin(d); err != nil {
			return keys{}, err
		}
	}
	var k keys
	var err error
	if k.signer, k.text, err = tree.OpenKey(d.name, origin); err != nil {
		return keys{}, err
	}
	if k.verifier, err = note.NewVerifier(k.text); err != nil {
		return keys{}, err
	}
	k.hmac, err = openHMAC(d, isNew)
	return k, err
}

// ownOrigin returns the origin that the log's key has, or a random one where
// there is no key yet.
func ownOrigin(d *disk) (string, error) {
	secret, err := tree.ReadFile(d.dir, tree.KeyFile, 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return "writ.invalid/" + strings.ToLower(rand.Text()), nil
	} else if err != nil {
		return "", err
	}
	signer, err := note.NewSigner(strings.TrimSuffix(string(secret), "\n"))
	if err != nil {
		return "", fmt.Errorf("%s: is no signing key of a log: put back the one that was there", d.path(tree.KeyFile))
	}
	return signer.Name(), nil
}

// private makes sure that a secret is its owner's alone: who has the HMAC key
// can try what is told under it.
func private(d *disk, name string) error {
	info, err := d.dir.Stat(name)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s has mode %v: it must be a file that only its owner may read (chmod 600)", d.path(name), info.Mode())
	}
	return err
}

func openHMAC(d *disk, isNew bool) (*hmacKey, error) {
	secret, err := tree.ReadFile(d.dir, HMACFile, 32)
	if err == nil {
		err = private(d, HMACFile)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && isNew:
		secret = make([]byte, 32)
		rand.Read(secret) // never fails
		if err := tree.ReplaceFile(d.dir, HMACFile, secret, 0o600); err != nil {
			return nil, err
		}
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: is missing: put it back; if it is lost, put 32 random bytes there: what older records tell under the key can't be found any more then, and what was redeemed before is forgotten", d.path(HMACFile))
	case err != nil:
		return nil, err
	case len(secret) != 32:
		return nil, fmt.Errorf("%s: has %d bytes where a key has 32: put it back as it was", d.path(HMACFile), len(secret))
	}
	return newHMACKey([32]byte(secret)), nil
}
