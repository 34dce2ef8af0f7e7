package bundle_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/bundle"
)

// write makes a directory of files.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func listen(t testing.TB, path string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Skipf("no sockets here: %v", err)
	}
	return l
}

func symlink(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
}

func namesOf(files []bundle.File) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Name)
	}
	return out
}

func TestReadDir(t *testing.T) {
	dir := write(t, map[string]string{
		"servers/b.yaml": "b", "servers/a.yaml": "a", "policies/deep/er/x.cedar": "x", "unknown.txt": "u", "README.md": "r", "LICENSE": "l",
		".git/HEAD": "g", "policies/.x.cedar.swp": "s",
	})
	files, err := bundle.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Build says what is wrong with unknown.txt, so it has to be seen.
	want := []string{"policies/deep/er/x.cedar", "servers/a.yaml", "servers/b.yaml", "unknown.txt"}
	if got := namesOf(files); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if string(files[1].Data) != "a" {
		t.Errorf("servers/a.yaml holds %q", files[1].Data)
	}
}

// TestReadDirSwap reads a directory as Kubernetes publishes a ConfigMap.
func TestReadDirSwap(t *testing.T) {
	dir := write(t, map[string]string{"..1/policies/a.cedar": "old", "..1/bundle.yaml": "old", "..2/policies/a.cedar": "new", "..2/bundle.yaml": "new"})
	symlink(t, "..1", filepath.Join(dir, "..data"))
	symlink(t, "..data/policies", filepath.Join(dir, "policies"))
	symlink(t, "..data/bundle.yaml", filepath.Join(dir, "bundle.yaml"))
	read := func(want string) {
		t.Helper()
		files, err := bundle.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := namesOf(files); !slices.Equal(got, []string{"bundle.yaml", "policies/a.cedar"}) {
			t.Fatalf("got %q", got)
		}
		for _, f := range files {
			if string(f.Data) != want {
				t.Errorf("%s holds %q, want %q", f.Name, f.Data, want)
			}
		}
	}
	read("old")
	symlink(t, "..2", filepath.Join(dir, "..next"))
	if err := os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	read("new")
}

func TestReadDirRefuses(t *testing.T) {
	outside := write(t, map[string]string{"secret.cedar": "secret", "dir/x.cedar": "x"})
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir string)
		want string
	}{
		{"a file outside", func(t *testing.T, dir string) {
			symlink(t, filepath.Join(outside, "secret.cedar"), filepath.Join(dir, "policies", "s.cedar"))
		}, "policies/s.cedar"},
		{"a directory outside", func(t *testing.T, dir string) {
			symlink(t, filepath.Join(outside, "dir"), filepath.Join(dir, "entities"))
		}, "entities"},
		{"a way up", func(t *testing.T, dir string) {
			symlink(t, "../../../etc/passwd", filepath.Join(dir, "policies", "s.cedar"))
		}, "policies/s.cedar"},
		{"a dead link", func(t *testing.T, dir string) { symlink(t, "gone.cedar", filepath.Join(dir, "policies", "s.cedar")) }, "policies/s.cedar"},
		{"a loop of directories", func(t *testing.T, dir string) { symlink(t, "..", filepath.Join(dir, "policies", "again")) }, "deep"},
		{"a large file", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "policies", "l.cedar"), make([]byte, 1<<20+1), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "policies/l.cedar: it has more than 1048576 bytes"},
		{"a socket", func(t *testing.T, dir string) {
			l := listen(t, filepath.Join(dir, "policies", "s"))
			t.Cleanup(func() { l.Close() })
		}, "neither a file nor a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := write(t, map[string]string{"policies/a.cedar": "a"})
			tt.make(t, dir)
			files, err := bundle.ReadDir(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q and %v, want an error that names %s", namesOf(files), err, tt.want)
			}
		})
	}
	if _, err := bundle.ReadDir(filepath.Join(outside, "none")); err == nil {
		t.Error("a directory that isn't there can be read")
	}
}

func TestReadDirLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 10,000 files")
	}
	dir := write(t, map[string]string{"policies/a.cedar": "a"})
	if err := os.Mkdir(filepath.Join(dir, "entities"), 0o755); err != nil {
		t.Fatal(err)
	}
	// A megabyte is much for a policy and little for entities.
	if err := os.WriteFile(filepath.Join(dir, "entities", "e.json"), make([]byte, 1<<20+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.ReadDir(dir); err != nil {
		t.Error(err)
	}
	for i := range bundle.MaxFiles {
		name := filepath.Join(dir, "policies", "p"+string(rune('a'+i%26))+strings.Repeat("x", i/26%100)+strings.Repeat("y", i/2600)+".cedar")
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bundle.ReadDir(dir); err == nil || !strings.Contains(err.Error(), "more than 10000 files") {
		t.Errorf("got %v", err)
	}
}

// A name that would speak to a terminal, or begin a line of a log, is not
// repeated as it is, whatever else is wrong with the file.
func TestReadDirNames(t *testing.T) {
	for _, name := range []string{"a\x1b[31m.cedar", "a\n.cedar", "a\u009b.cedar", "a\xff.cedar"} {
		dir := write(t, text(t, nil))
		if err := os.Symlink("nowhere", filepath.Join(dir, "policies", name)); err != nil {
			t.Logf("%q can't be made here: %v", name, err)
			continue
		}
		_, err := bundle.ReadDir(dir)
		if err == nil || strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), strconv.Quote("policies/"+name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
