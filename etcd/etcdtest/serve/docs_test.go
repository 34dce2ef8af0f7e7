package serve_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/writ-pdp/writ/cmd/pdp/consoletest"
	"github.com/writ-pdp/writ/etcd/etcdtest"
)

// TestDocs runs what docs/etcd.md shows, with an etcd that is real.
func TestDocs(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("docs/etcd.md WAS NOT RUN: there is no curl here: ", err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	consoletest.Script(t, bin, "pdp", command(t))
	consoletest.Run(t, consoletest.Document{
		File: filepath.Join(root, "docs", "etcd.md"), Root: root, Path: []string{bin}, Least: 20,
		Addresses: map[string]string{"127.0.0.1:2379": etcdtest.StandIn(t, bin)},
	})
}
