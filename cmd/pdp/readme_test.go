package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
)

// TestReadme runs what README.md shows: every line after "$ " in a block
// marked console, in one directory, and holds the output against what stands
// there. "…" stands for any text. A server that is started in the background
// takes free ports; wherever the README names the default ones, these are meant.
// The directory examples is that of the checkout.
func TestReadme(t *testing.T) {
	for _, name := range []string{"README.md", "examples/accounts-payable/README.md"} {
		t.Run(name, func(t *testing.T) { readme(t, name) })
	}
}

func readme(t *testing.T, name string) {
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
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	shell := func(command string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), bash, "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
			"WRIT_GRPC_ADDR=127.0.0.1:0", "WRIT_HTTP_ADDR=127.0.0.1:0")
		return cmd
	}
	ports := strings.NewReplacer()
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(data), -1) {
		for _, step := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want := readStep(step)
			if _, err := exec.LookPath("curl"); err != nil && strings.Contains(command, "curl ") {
				t.Run("curl", func(t *testing.T) { t.Skipf("NOT RUN: there is no curl here: %v:\n%s", err, command) })
				continue
			}
			var out []byte
			if server, ok := strings.CutSuffix(command, " &\n"); ok {
				var line readyLine
				out, line = background(t, shell("exec "+server))
				ports = strings.NewReplacer("127.0.0.1:7600", line.GRPC, "127.0.0.1:7601", line.HTTP)
			} else {
				out, err = shell(ports.Replace(command)).CombinedOutput()
				if _, exited := err.(*exec.ExitError); err != nil && !exited {
					t.Fatal(err)
				}
			}
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(ports.Replace(want), "\n")), "…", ".*")
			if !regexp.MustCompile(`\A` + pattern + `\n?\z`).Match(out) {
				t.Errorf("$ %s\nprints\n%s\nit says\n%s", command, out, want)
			}
			ran++
		}
	}
	if ran < 8 {
		t.Errorf("only %d commands: is it still marked up as this test expects?", ran)
	}
}

// readStep takes a command, with its lines after "> ", and its output apart.
func readStep(step string) (command, want string) {
	for i, line := range strings.Split(strings.TrimSuffix(step, "\n"), "\n") {
		switch {
		case i == 0:
			command = strings.Replace(line, "go run ./cmd/pdp", "pdp", 1) + "\n"
		case line == ">" || strings.HasPrefix(line, "> "):
			command += strings.TrimPrefix(strings.TrimPrefix(line, ">"), " ") + "\n"
		default:
			want += line + "\n"
		}
	}
	return command, want
}

// background starts a server and returns what it prints when it is ready. It
// is interrupted at the end of the test, and must then end well.
func background(t *testing.T, cmd *exec.Cmd) ([]byte, readyLine) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the test's context, which is the command's, has ended
		if cmd.Wait(); cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("%v ended with %v", cmd.Args, cmd.ProcessState)
		}
	})
	first, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	line, ok := parseReady(first)
	if !ok {
		t.Fatalf("%v printed %s", cmd.Args, first)
	}
	return first, line
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
