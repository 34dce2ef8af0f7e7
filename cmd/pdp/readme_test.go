package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-pdp/writ"
)

// TestReadme runs what README.md shows: every line after "$ " in a block
// marked console, in one directory, and holds the output against what stands
// there. "…" stands for any text.
func TestReadme(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("THE README WAS NOT RUN: there is no bash here: ", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	// This test's program is pdp where WRIT_README is set: see TestMain.
	script := fmt.Sprintf("#!%s\nWRIT_README=1 exec %q \"$@\"\n", bash, self)
	if err := os.WriteFile(filepath.Join(bin, "pdp"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(data), -1) {
		for _, step := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			var command, want strings.Builder
			for i, line := range strings.Split(strings.TrimSuffix(step, "\n"), "\n") {
				switch {
				case i == 0:
					command.WriteString(strings.Replace(line, "go run ./cmd/pdp", "pdp", 1) + "\n")
				case line == ">" || strings.HasPrefix(line, "> "):
					command.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, ">"), " ") + "\n")
				default:
					want.WriteString(line + "\n")
				}
			}
			cmd := exec.CommandContext(t.Context(), bash, "-c", command.String())
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if _, exited := err.(*exec.ExitError); err != nil && !exited {
				t.Fatal(err)
			}
			pattern := strings.ReplaceAll(regexp.QuoteMeta(want.String()), "…", ".*")
			if !regexp.MustCompile(`\A` + pattern + `\z`).Match(out) {
				t.Errorf("$ %s\nprints\n%s\nREADME.md says\n%s", command.String(), out, want.String())
			}
			ran++
		}
	}
	if ran < 8 {
		t.Errorf("only %d commands: is README.md still marked up as this test expects?", ran)
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
