// Package consoletest runs what a document shows: every line after "$ " in a
// block marked console, in one directory, and holds the output against what
// stands there. "…" stands for any text.
package consoletest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Document is what is run, and where.
type Document struct {
	File string // the document
	Root string // the checkout: its directory examples is there for the commands
	// Path are directories that are searched for commands before all others.
	Path []string
	Env  []string // NAME=VALUE, besides those of this process
	// Addresses are the HOST:PORT that the document names, and which are meant.
	Addresses map[string]string
	Least     int // commands: with fewer, the document is marked up otherwise
}

// Run runs a document's commands. One that ends in & runs until the test ends,
// and must then end well once it is interrupted. Where the document shows what
// it prints, it is a pdp serve: it takes free ports, and wherever the document
// names those that it would have had, these are meant. What it exports stays.
func Run(t *testing.T, d Document) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("%s WAS NOT RUN: there is no bash here: %v", d.File, err)
	}
	data, err := os.ReadFile(d.File)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, bash: bash, dir: t.TempDir(), addresses: maps.Clone(d.Addresses)}
	if r.addresses == nil {
		r.addresses = map[string]string{}
	}
	if err := os.Symlink(filepath.Join(d.Root, "examples"), filepath.Join(r.dir, "examples")); err != nil {
		t.Fatal(err)
	}
	path := strings.Join(append(slices.Clone(d.Path), os.Getenv("PATH")), string(filepath.ListSeparator))
	r.env = append(append(os.Environ(), "PATH="+path, "WRIT_GRPC_ADDR=127.0.0.1:0", "WRIT_HTTP_ADDR=127.0.0.1:0"), d.Env...)
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(data), -1) {
		for _, step := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want := readStep(step)
			if _, err := exec.LookPath("curl"); err != nil && strings.Contains(command, "curl ") {
				t.Run("curl", func(t *testing.T) { t.Skipf("NOT RUN: there is no curl here: %v:\n%s", err, command) })
				continue
			}
			out := r.step(command, want != "")
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(r.meant(want), "\n")), "…", ".*")
			if !regexp.MustCompile(`\A` + pattern + `\n?\z`).Match(out) {
				t.Errorf("$ %s\nprints\n%s\nit says\n%s", command, out, want)
			}
			ran++
		}
	}
	if ran < d.Least {
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

// run is a document that is being run.
type run struct {
	t         *testing.T
	bash, dir string
	env       []string
	addresses map[string]string // that are meant, by those that are written
}

// meant puts the addresses that are meant in place of those that are written.
func (r *run) meant(text string) string {
	var pairs []string
	for _, written := range slices.Sorted(maps.Keys(r.addresses)) {
		pairs = append(pairs, written, r.addresses[written])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// step runs a command, and returns what it prints; of one that goes on in the
// background, and prints something, the first line.
func (r *run) step(command string, prints bool) []byte {
	r.t.Helper()
	if variable, ok := strings.CutPrefix(command, "export "); ok {
		r.env = append(r.env, r.meant(strings.TrimSpace(variable)))
		return nil
	}
	if stays, ok := strings.CutSuffix(command, " &\n"); ok {
		return r.background(stays, prints)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute) // some wait for something, by a loop
	defer cancel()
	out, err := r.shell(ctx, r.meant(command)).CombinedOutput()
	if ctx.Err() != nil {
		r.t.Fatalf("%s: it does not end, and has printed: %s", command, out)
	}
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		r.t.Fatal(err)
	}
	return out
}

func (r *run) shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.bash, "-c", command)
	cmd.Dir, cmd.Env = r.dir, r.env
	return cmd
}

// ownAddress are the flags of a server that say where it listens.
var ownAddress = map[string]*regexp.Regexp{
	"127.0.0.1:7600": regexp.MustCompile(`--grpc-addr (\S+)`),
	"127.0.0.1:7601": regexp.MustCompile(`--http-addr (\S+)`),
}

// background starts what is interrupted at the end of the test. Those that were
// started last end first: they may need the others.
func (r *run) background(command string, prints bool) []byte {
	r.t.Helper()
	written := map[string]string{} // by default
	for usual, flag := range ownAddress {
		written[usual] = usual
		if own := flag.FindStringSubmatch(command); own != nil {
			written[usual] = own[1]
			command = flag.ReplaceAllString(command, "")
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := r.shell(ctx, "exec "+r.meant(command))
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Start(); err != nil {
		stop()
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		stop()
		if cmd.Wait(); cmd.ProcessState.ExitCode() != 0 {
			r.t.Errorf("%v ended with %v", cmd.Args, cmd.ProcessState)
		}
	})
	if !prints {
		return nil
	}
	first, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		r.t.Fatalf("%v: %v", cmd.Args, err)
	}
	var ready struct{ Event, GRPC, HTTP string }
	if err := json.Unmarshal(first, &ready); err != nil || ready.Event != "ready" {
		r.t.Fatalf("%v printed %s", cmd.Args, first)
	}
	r.addresses[written["127.0.0.1:7600"]], r.addresses[written["127.0.0.1:7601"]] = ready.GRPC, ready.HTTP
	return first
}

// Script makes a command that runs a program, with variables set.
func Script(t testing.TB, dir, name, program string, env ...string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		return // nothing is run then
	}
	text := fmt.Sprintf("#!%s\n%s exec %q \"$@\"\n", bash, strings.Join(env, " "), program)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
