package serve_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/writ-pdp/writ/etcd/etcdtest"
)

func TestMain(m *testing.M) {
	etcdtest.RunMember()
	etcdtest.RunStandIn()
	dir, err := os.MkdirTemp("", "writ-serve")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = sync.OnceValues(func() (string, error) {
		file := filepath.Join(dir, "pdp")
		build := exec.Command("go", "build", "-o", file, "./cmd/pdp")
		build.Dir = filepath.Join("..", "..", "..")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		return file, nil
	})
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// program builds the command, once, and returns its file.
var program func() (string, error)

func command(t testing.TB) string {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return file
}
