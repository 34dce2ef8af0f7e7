package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/cmd/pdp/consoletest"
)

// TestReadme runs what README.md shows, and the README of an example.
func TestReadme(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "examples/accounts-payable/README.md"} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			// This test's program is pdp where WRIT_README is set: see TestMain.
			consoletest.Script(t, bin, "pdp", self, "WRIT_README=1")
			consoletest.Run(t, consoletest.Document{
				File: filepath.Join(root, filepath.FromSlash(name)), Root: root, Path: []string{bin}, Least: 8,
			})
		})
	}
}

// TestReadmeCodes: the README's table is the table of codes.
func TestReadmeCodes(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, info := range writ.Codes() {
		if info.Control != "" {
			fmt.Fprintf(&want, "| %s | `%s` | %s |\n", info.Control, info.Code, info.Doc)
		}
	}
	if !strings.Contains(string(data), want.String()) {
		t.Errorf("README.md's table of codes is not the one of codes.go:\n%s", want.String())
	}
}
