package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// soon is how long anything may take on a busy machine.
const soon = 60 * time.Second

// The files of the local secrets, by who shows them.
const (
	host      = "host"
	mcpServer = "server"
	operator  = "operator"
)

// replica is a pdp serve, which is now one process and then another, on one
// data directory.
type replica struct {
	t    testing.TB
	name string
	data string
	args []string // after serve
	life atomic.Pointer[life]

	mu   sync.Mutex
	said []byte // guarded by mu: the end of what all its processes wrote to standard error
}

// life is one process, from when it is ready.
type life struct {
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	grpc    string
	http    string
	conn    *grpc.ClientConn
	secrets map[string]string // by file of the credentials
	dead    atomic.Bool       // it was killed, or told to stop
}

// newReplica makes a replica that is started by start.
func newReplica(t testing.TB, name string, args ...string) *replica {
	t.Helper()
	r := &replica{t: t, name: name, data: filepath.Join(t.TempDir(), "data")}
	r.args = append([]string{"serve", "--data", r.data, "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, args...)
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Logf("the end of what %s said:\n%s", name, r.told())
		}
	})
	return r
}

// Write keeps the end of what is said.
func (r *replica) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, b...)
	if n := len(r.said); n > 32<<10 {
		r.said = append([]byte(nil), r.said[n-16<<10:]...)
	}
	return len(b), nil
}

func (r *replica) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.said)
}

// start starts a process, and waits until it is ready.
func (r *replica) start() error {
	cmd := exec.Command(command(r.t), r.args...)
	cmd.Stderr = r
	cmd.Env = append(os.Environ(), "OTEL_SDK_DISABLED=true")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	l := &life{cmd: cmd, done: make(chan struct{}), secrets: map[string]string{}}
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	go func() {
		defer close(l.done)
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait() // its state is looked at
	}()
	var ready struct{ GRPC, HTTP, Credentials string }
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		<-l.done
		return fmt.Errorf("%s did not start: %w: %s", r.name, err, line)
	}
	l.grpc, l.http = ready.GRPC, ready.HTTP
	for _, name := range []string{host, mcpServer, operator} {
		secret, err := os.ReadFile(filepath.Join(ready.Credentials, name))
		if err != nil {
			return err
		}
		l.secrets[name] = strings.TrimSpace(string(secret))
	}
	quick := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 300 * time.Millisecond}
	if l.conn, err = grpc.NewClient(l.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second})); err != nil {
		return err
	}
	r.life.Store(l)
	return nil
}

// mustStart starts it, or ends the test.
func (r *replica) mustStart() *life {
	r.t.Helper()
	if err := r.start(); err != nil {
		r.t.Fatalf("%v\n%s", err, r.told())
	}
	return r.life.Load()
}

// kill ends the process at once (SIGKILL), paused or not.
func (r *replica) kill() {
	l := r.life.Swap(nil)
	if l == nil {
		return
	}
	l.dead.Store(true)
	_ = l.cmd.Process.Kill()
	<-l.done
	_ = l.conn.Close()
}

// stop ends the process in good order.
func (r *replica) stop() {
	r.t.Helper()
	l := r.life.Swap(nil)
	if l == nil {
		return
	}
	l.dead.Store(true)
	_ = l.cmd.Process.Signal(os.Interrupt)
	select {
	case <-l.done:
		if !l.cmd.ProcessState.Success() {
			r.t.Errorf("stopping %s: %v\n%s", r.name, l.cmd.ProcessState, r.told())
		}
	case <-time.After(soon):
		r.t.Errorf("%s does not stop", r.name)
		_ = l.cmd.Process.Kill()
		<-l.done
	}
	_ = l.conn.Close()
}

// pause stops the process where it stands (SIGSTOP), or has it go on.
func (r *replica) pause(on bool) {
	l := r.life.Load()
	if l == nil {
		return
	}
	signal := syscall.SIGCONT
	if on {
		signal = syscall.SIGSTOP
	}
	if err := l.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Error(err)
	}
}

// ended reports whether the process has ended by itself.
func (r *replica) ended() bool {
	l := r.life.Load()
	if l == nil {
		return false
	}
	select {
	case <-l.done:
		return !l.dead.Load()
	default:
		return false
	}
}

// as is a context in which a call is made by whose secret a file has.
func (l *life) as(ctx context.Context, file string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+l.secrets[file])
}

func (l *life) decide(ctx context.Context, p *writv1.Proposal) (*writv1.DecideResponse, error) {
	return writv1.NewDecisionServiceClient(l.conn).Decide(l.as(ctx, host), &writv1.DecideRequest{Proposal: p})
}

func (l *life) redeem(ctx context.Context, r *writv1.RedeemRequest) (*writv1.RedeemResponse, error) {
	return writv1.NewEnforcementServiceClient(l.conn).Redeem(l.as(ctx, mcpServer), r)
}

func (l *life) revoke(ctx context.Context, r *writv1.Revocation) (*writv1.RevokeResponse, error) {
	return writv1.NewRevocationServiceClient(l.conn).Revoke(l.as(ctx, operator), &writv1.RevokeRequest{Revocations: []*writv1.Revocation{r}})
}

// at are the flags that let a command ask this replica.
func (r *replica) at() []string {
	return []string{"--server", r.life.Load().grpc, "--data", r.data}
}

// run runs a command, and returns what it says.
func run(t testing.TB, wantCode int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), command(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != wantCode {
		t.Fatalf("pdp %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, wantCode, &out)
	}
	return out.String()
}

// eventually waits until f finds nothing wrong.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatal(err)
}
