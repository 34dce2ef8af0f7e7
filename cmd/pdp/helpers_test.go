package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// parseReady reads the line that serve prints when it is ready.
func parseReady(data []byte) (addr, credentials string, ok bool) {
	var ready struct{ Event, GRPC, Revision, Credentials string }
	if json.Unmarshal(data, &ready) != nil || ready.Event != "ready" {
		return "", "", false
	}
	return ready.GRPC, ready.Credentials, true
}

// exitsAs runs a command and holds its exit code: exitsas CODE pdp ARGS….
// Output goes to the files stdout.txt and stderr.txt.
func exitsAs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitsas CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	path := filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], args[1])
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "XDG_STATE_HOME=" + ts.Getenv("XDG_STATE_HOME"), "PATH=" + ts.Getenv("PATH")}
	out, err := cmd.Output()
	failed, _ := err.(*exec.ExitError)
	if err != nil && failed == nil {
		ts.Fatalf("%v", err)
	}
	var errs []byte
	if failed != nil {
		errs = failed.Stderr
	}
	ts.Check(os.WriteFile(ts.MkAbs("stdout.txt"), out, 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("stderr.txt"), errs, 0o600))
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, want %d\n%s\n%s", got, want, out, errs)
	}
}
