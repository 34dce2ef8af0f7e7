package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	if os.Getenv("WRIT_README") != "" {
		main() // the pdp of TestReadme
	}
	testscript.Main(m, map[string]func(){"pdp": main})
}

// TestScripts runs the real command as a user would: testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("EXAMPLES", examples)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("HOME", env.WorkDir)
			env.Values[runningKey{}] = new(func())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"stop":     stop,
			"serve":    serve,
			"logged":   logged,
			"waitfile": waitFile,
			"exitsas":  exitsAs,
			"request":  request,
			"becomes":  becomes,
			"capture":  capture,
			"flip":     flip,
		},
	})
}

// logged waits until a file has a line that matches a pattern: what need not be
// durable before it is answered is written a moment later.
func logged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: logged PATTERN FILE")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		data, err := os.ReadFile(ts.MkAbs(args[1]))
		ts.Check(err)
		if pattern.Match(data) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no line of %s matches %s:\n%s", args[1], args[0], data)
		}
	}
}

// waitFile waits until a file is there.
func waitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfile FILE")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not come", args[0])
		}
	}
}

// runningKey finds what ends the server that the script started last.
type runningKey struct{}

// stop interrupts the server that the script started last, and waits for it.
func stop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: stop")
	}
	running, _ := ts.Value(runningKey{}).(*func())
	if *running == nil {
		ts.Fatalf("no server was started")
	}
	(*running)()
}

// serve starts `pdp serve ARGS…` on free ports, waits until it is ready, and
// sets ADDR and HTTP to its addresses and CREDENTIALS to its credentials. It is
// interrupted at the end of the script, and must then end well.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("serve can't be negated")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ready := ts.MkAbs("ready.json")
	out, err := os.Create(ready)
	ts.Check(err)
	// The command that testscript put on the script's PATH is this program.
	path, err := exec.LookPath(filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "pdp"))
	ts.Check(err)
	cmd := exec.CommandContext(ctx, path, append([]string{"serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, args...)...)
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "XDG_STATE_HOME=" + ts.Getenv("XDG_STATE_HOME"), "PATH=" + ts.Getenv("PATH")}
	cmd.Dir = ts.Getenv("WORK")
	cmd.Stdout = out
	logs, err := os.Create(ts.MkAbs("serve.log"))
	ts.Check(err)
	cmd.Stderr = logs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	ts.Check(cmd.Start())
	end := sync.OnceFunc(func() {
		cancel()
		err := cmd.Wait()
		out.Close()
		logs.Close()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 0 {
			data, _ := os.ReadFile(logs.Name())
			ts.Fatalf("serve ended with %v:\n%s", err, data)
		}
	})
	ts.Defer(end)
	running, _ := ts.Value(runningKey{}).(*func())
	*running = end
	for {
		data, err := os.ReadFile(ready)
		ts.Check(err)
		if line, ok := parseReady(data); ok {
			ts.Setenv("ADDR", line.GRPC)
			ts.Setenv("HTTP", line.HTTP)
			ts.Setenv("CREDENTIALS", line.Credentials)
			return
		}
		if ctx.Err() != nil || cmd.ProcessState != nil {
			data, _ := os.ReadFile(logs.Name())
			ts.Fatalf("serve is not ready:\n%s", data)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
