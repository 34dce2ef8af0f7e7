package tree_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/writ-pdp/writ/audit/tree"
)

func TestOpenKey(t *testing.T) {
	dir := t.TempDir()
	signer, vkey, err := tree.OpenKey(dir, "log.example/1")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{tree.KeyFile: 0o600, tree.VerifierFile: 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v and %v, want %v", name, info.Mode(), err, want)
		}
	}
	v, err := tree.ReadVerifier(filepath.Join(dir, tree.VerifierFile))
	if err != nil || v.Name() != "log.example/1" || v.KeyHash() != signer.KeyHash() {
		t.Fatalf("verifier %v: %v", v, err)
	}
	signed, err := note.Sign(&note.Note{Text: "text\n"}, signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open(signed, note.VerifierList(v)); err != nil {
		t.Errorf("the verifier is not that of the key: %v", err)
	}
	// The same again, also where a crash came between the two files.
	for range 2 {
		again, vkey2, err := tree.OpenKey(dir, "log.example/1")
		if err != nil || again.KeyHash() != signer.KeyHash() || vkey2 != vkey {
			t.Errorf("%s and %v, want %s", vkey2, err, vkey)
		}
		if err := os.Remove(filepath.Join(dir, tree.VerifierFile)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenKeyRefuses(t *testing.T) {
	const origin = "log.example/1"
	other := t.TempDir()
	if _, _, err := tree.OpenKey(other, origin); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(other, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, test := range []struct {
		name, origin string
		damage       func(dir string) error
	}{
		{"another origin", "log.example/2", nil},
		{"an origin with a space", "log example", nil},
		{"an origin with a plus", "log+example", nil},
		{"no origin", "", nil},
		{"others may read it", origin, func(dir string) error { return os.Chmod(filepath.Join(dir, tree.KeyFile), 0o640) }},
		{"the key is lost", origin, func(dir string) error { return os.Remove(filepath.Join(dir, tree.KeyFile)) }},
		{"it is no key", origin, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, tree.KeyFile), []byte("hello\n"), 0o600)
		}},
		{"it is empty", origin, func(dir string) error { return os.WriteFile(filepath.Join(dir, tree.KeyFile), nil, 0o600) }},
		{"it is a directory", origin, func(dir string) error {
			name := filepath.Join(dir, tree.KeyFile)
			return errors.Join(os.Remove(name), os.Mkdir(name, 0o700))
		}},
		{"another log's verifier", origin, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, tree.VerifierFile), read(tree.VerifierFile), 0o644)
		}},
		{"another log's key", origin, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, tree.KeyFile), read(tree.KeyFile), 0o600)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, _, err := tree.OpenKey(dir, origin); err != nil {
				t.Fatal(err)
			}
			if test.damage != nil {
				if err := test.damage(dir); err != nil {
					t.Fatal(err)
				}
			}
			if _, vkey, err := tree.OpenKey(dir, test.origin); err == nil {
				t.Errorf("opened %s", vkey)
			}
		})
	}
}
