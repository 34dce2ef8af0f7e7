package etcdtest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/etcd/etcdtest"
)

// TestCommand pushes, serves at two replicas, and revokes, with the real
// command.
func TestCommand(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	pdp := filepath.Join(t.TempDir(), "pdp")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", pdp, "./cmd/pdp")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	members := strings.Join(c.Endpoints(), ",")
	run := func(wantCode int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), pdp, args...)
		cmd.Env = append(os.Environ(), "WRIT_ETCD="+members)
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != wantCode {
			t.Fatalf("pdp %v: exit code %d\n%s%s", args, code, &out, &errs)
		}
		return out.String() + errs.String()
	}
	hello, err := filepath.Abs(filepath.Join("..", "..", "examples", "hello"))
	if err != nil {
		t.Fatal(err)
	}
	if out := run(0, "push", hello, "--dry-run"); !strings.Contains(out, "would be generation 1") {
		t.Error(out)
	}
	if out := run(0, "push", hello, "--note", "first"); !strings.Contains(out, "generation 1 is current") {
		t.Error(out)
	}
	if out := run(0, "push", hello); !strings.Contains(out, "nothing was done") {
		t.Error(out)
	}
	run(2, "push", hello, "--list")
	run(2, "serve", "--bundle", hello)

	run(2, "serve") // without keys that the other replicas know
	keys := t.TempDir()
	root := filepath.Join(keys, "root.key")
	run(0, "keys", "root", root)
	replicas := 0
	serve := func() (addr, data string) {
		t.Helper()
		data = t.TempDir()
		replicas++
		own := filepath.Join(keys, fmt.Sprint(replicas))
		run(0, "keys", "replica", fmt.Sprintf("replica-%d", replicas), own, "--root", root)
		cmd := exec.Command(pdp, "serve", "--etcd", members, "--replica-keys", own, "--data", data, "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			if err := cmd.Wait(); err != nil {
				t.Errorf("serve: %v\n%s", err, &errs)
			}
		})
		line, err := bufio.NewReader(out).ReadBytes('\n')
		var ready struct{ GRPC, Revision string }
		if err == nil {
			err = json.Unmarshal(line, &ready)
		}
		if err != nil || !strings.Contains(ready.Revision, ".1.0") {
			t.Fatalf("%s %v\n%s", line, err, &errs)
		}
		return ready.GRPC, data
	}
	one, oneData := serve()
	two, twoData := serve()
	run(0, "revoke", "server", "files", "--reason", "test", "--server", one, "--data", oneData)
	eventually(t, func() error {
		if out := run(0, "revoke", "--list", "--server", two, "--data", twoData); !strings.Contains(out, "files") {
			return fmt.Errorf("the other server does not know: %s", out)
		}
		return nil
	})
	if out := run(0, "push", "--rollback", "1"); !strings.Contains(out, "nothing was done") {
		t.Error(out)
	}
	var all []struct {
		Generation uint64
		Current    bool
		Note       string
		PushedAt   time.Time `json:"pushed_at"`
	}
	if err := json.Unmarshal([]byte(run(0, "push", "--list", "--json")), &all); err != nil || len(all) != 1 || !all[0].Current || all[0].Note != "first" {
		t.Errorf("%+v %v", all, err)
	}
}
