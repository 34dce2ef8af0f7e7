package server

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The files of a credentials directory.
const (
	HostFile     = "host"     // the secret of hosts
	ServerFile   = "server"   // the secret of MCP servers
	OperatorFile = "operator" // the secret of operators and approvers
)

// maxSecret bounds what is hashed for a stranger: our secrets have 43 bytes.
const maxSecret = 128

// Credentials are the three secrets of one start. Only their hashes are kept in
// memory; the secrets are in files that only this user can read.
type Credentials struct {
	dir    string
	hashes [len(secretFiles)][sha256.Size]byte // in the order of secretFiles
}

var secretFiles = [...]string{HostFile, ServerFile, OperatorFile}

// NewCredentials makes three secrets, 32 random bytes each as base64url without
// padding (RFC 4648, section 5), and writes them to the files host, server and
// operator, mode 0600, in directory dir, which it makes with mode 0700 where
// it is missing. It refuses a directory that others can enter. Secrets that
// an earlier start left there are replaced.
func NewCredentials(dir string) (*Credentials, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("server: credentials directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("server: cannot make the credentials directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("server: cannot open the credentials directory: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return nil, fmt.Errorf("server: credentials directory: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("server: credentials directory %s has mode %04o, so others can reach the secrets: chmod 700 it, or choose another", dir, mode)
	}
	c := &Credentials{dir: dir}
	for i, name := range secretFiles {
		if c.hashes[i], err = writeSecret(root, name); err != nil {
			return nil, errors.Join(fmt.Errorf("server: cannot write the secret %s: %w", filepath.Join(dir, name), err), c.Remove())
		}
	}
	return c, nil
}

// writeSecret makes one secret and returns its hash. Readers see the old file
// or the new one, never half of it.
func writeSecret(root *os.Root, name string) (hash [sha256.Size]byte, err error) {
	var raw [32]byte
	rand.Read(raw[:]) // never fails: it ends the process instead
	secret := base64.RawURLEncoding.EncodeToString(raw[:])
	draft := "." + name + "." + rand.Text()
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return hash, err
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(draft, name)
	}
	if err != nil {
		return hash, errors.Join(err, root.Remove(draft))
	}
	return sha256.Sum256([]byte(secret)), nil
}

// Dir returns the directory's absolute path.
func (c *Credentials) Dir() string { return c.dir }

// Remove removes the files, but not those that a later start has replaced.
func (c *Credentials) Remove() error {
	root, err := os.OpenRoot(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("server: cannot open the credentials directory: %w", err)
	}
	defer root.Close()
	var faults []error
	for i, name := range secretFiles {
		data, err := root.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && sha256.Sum256([]byte(strings.TrimSuffix(string(data), "\n"))) != c.hashes[i] {
			continue
		}
		if err == nil {
			err = root.Remove(name)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("server: cannot remove the secret %s: %w", filepath.Join(c.dir, name), err))
		}
	}
	return errors.Join(faults...)
}

// ReadSecret returns the secret that a running server left in directory dir:
// name is [HostFile], [ServerFile] or [OperatorFile]. A client sends it as the metadata
// "authorization: Bearer SECRET" (RFC 6750, section 2.1).
func ReadSecret(dir, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("server: there is no secret %s in %s: is the server running, with this credentials directory? %w", name, dir, err)
	}
	if err != nil {
		return "", fmt.Errorf("server: cannot read the secret: %w", err)
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// match returns which of the secrets is presented, by its file, or "". It takes
// as long for each and for a near miss: hashes are compared, in constant time,
// and all always are.
func (c *Credentials) match(secret string) string {
	if secret == "" || len(secret) > maxSecret {
		return ""
	}
	hash := sha256.Sum256([]byte(secret))
	found := ""
	for i, name := range secretFiles {
		if subtle.ConstantTimeCompare(hash[:], c.hashes[i][:]) == 1 {
			found = name
		}
	}
	return found
}

// bearer returns the token of an authorization header (RFC 6750, section
// 2.1; the scheme is case-insensitive, RFC 9110, section 11.1), or "" unless
// there is exactly one such header.
func bearer(headers []string) string {
	if len(headers) != 1 {
		return ""
	}
	scheme, token, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}
