package server_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/server"
)

func TestCredentials(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	c, err := server.NewCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v, want mode 0700", info.Mode(), err)
	}
	seen := map[string]bool{}
	for _, name := range []string{"host", "server", "operator"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v, want a file of mode 0600", name, info, err)
		}
		secret, err := server.ReadSecret(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := base64.RawURLEncoding.DecodeString(secret); err != nil || len(raw) != 32 {
			t.Errorf("%s: %q is not 32 bytes of base64url: %v", name, secret, err)
		}
		seen[secret] = true
	}
	if len(seen) != 3 {
		t.Error("two of them have the same secret")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 {
		t.Errorf("the directory holds %v, want the three secrets alone", entries)
	}
	if err := c.Remove(); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
	if err := c.Remove(); err != nil {
		t.Errorf("removing again: %v", err)
	}
	if _, err := server.ReadSecret(dir, "host"); err == nil || !strings.Contains(err.Error(), "is the server running") {
		t.Errorf("reading a removed secret: %v", err)
	}
}

func TestCredentialsOfALaterStartStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	first, err := server.NewCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	before := secret(t, dir, server.HostFile)
	second, err := server.NewCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	after := secret(t, dir, server.HostFile)
	if before == after {
		t.Error("a start took over the secret of the start before it")
	}
	if err := first.Remove(); err != nil {
		t.Fatal(err)
	}
	if secret(t, dir, server.HostFile) != after {
		t.Error("the first start removed the second's secret")
	}
	if err := second.Remove(); err != nil {
		t.Fatal(err)
	}
}

func TestCredentialsRefuseAnOpenDirectory(t *testing.T) {
	for _, mode := range []os.FileMode{0o755, 0o750, 0o701, 0o770} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := server.NewCredentials(dir); err == nil || !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("mode %o: %v", mode, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("mode %o: secrets were written all the same: %v", mode, entries)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.NewCredentials(file); err == nil {
		t.Error("a file passed as the directory")
	}
}

// A link that someone planted at a secret's name is replaced, not followed.
func TestCredentialsDoNotFollowLinks(t *testing.T) {
	dir, elsewhere := filepath.Join(t.TempDir(), "c"), filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "host")); err != nil {
		t.Fatal(err)
	}
	if _, err := server.NewCredentials(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(elsewhere); err == nil {
		t.Error("the secret was written through the link")
	}
	if info, err := os.Lstat(filepath.Join(dir, "host")); err != nil || info.Mode() != 0o600 {
		t.Errorf("host: %v, %v", info, err)
	}
}
