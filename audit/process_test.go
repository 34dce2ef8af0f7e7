package audit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/audit"
)

// The test binary is its own second process: with this variable set it opens
// the log in the directory that it names, and appends until it is killed.
const childVariable = "WRIT_AUDIT_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child appends durable records from several goroutines, others between them,
// and prints the id of each durable one once it is confirmed.
func child(dir string) error {
	l, err := audit.Open(dir)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				r := decision(fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i))
				r.Explanation = strings.Repeat("x", 1+i%4000)
				durable := i%3 != 0
				if err := l.Append(context.Background(), r, durable); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				if durable {
					if _, err := fmt.Println(r.ID); err != nil {
						os.Exit(1)
					}
				}
			}
		})
	}
	wg.Wait()
	return nil
}

func childCommand(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	return cmd
}

// Whatever was confirmed before a kill -9 is in the log after it.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	rounds, confirmed := 20, map[string]bool{}
	if testing.Short() {
		rounds = 3
	}
	var recovered int64
	for round := range rounds {
		cmd := childCommand(t, dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		news := 0
		for {
			text, err := lines.ReadString('\n')
			if err != nil {
				if err != io.EOF {
					t.Fatal(err)
				}
				break
			}
			confirmed[strings.TrimSuffix(text, "\n")] = true
			if news++; news == 1 {
				time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
			}
		}
		if err := cmd.Wait(); news == 0 || err == nil || stderr.Len() > 0 {
			t.Fatalf("round %d: %d records, %v: %s", round, news, err, stderr.String())
		}
		l := mustOpen(t, dir)
		recovered += l.Recovered()
		mustClose(t, l)
	}
	present := map[string]bool{}
	for _, l := range readLog(t, dir) {
		if present[l.ID] {
			t.Errorf("%s is there twice", l.ID)
		}
		present[l.ID] = true
	}
	for id := range confirmed {
		if !present[id] {
			t.Errorf("%s was confirmed and is not in the log", id)
		}
	}
	t.Logf("%d confirmed, %d in the log, %d bytes of unfinished lines cut off", len(confirmed), len(present), recovered)
}

func TestOneProcessOnly(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	const say = "another process has this log open"
	if second, err := audit.Open(dir); err == nil {
		mustClose(t, second)
		t.Error("the log was opened twice")
	} else if !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), logFile(dir)) {
		t.Errorf("the error is not clear: %v", err)
	}
	out, err := childCommand(t, dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), say) {
		t.Errorf("another process opened it: %v: %s", err, out)
	}
	mustAppend(t, l, decision("still mine"), true)
	mustClose(t, l)
	mustClose(t, mustOpen(t, dir))
}
