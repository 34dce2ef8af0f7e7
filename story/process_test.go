package story_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/story"
)

// paymentsEnv holds what a payment server is told, as JSON.
const paymentsEnv = "WRIT_STORY_PAYMENTS"

// paymentsConfig is what a payment server is told.
type paymentsConfig struct {
	Ledger, PDP, Certs, MCPCerts, Tools string // files and an address
	Keys                                jose.JSONWebKeySet
	Fault                               story.Fault
	Recover                             bool // tell first what became of redemptions that were left open
}

// servePayments is the payment server: a process of its own, so that it can
// die. It prints its address when it is ready, and ends when it is interrupted.
func servePayments(text string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := payments(ctx, text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func payments(ctx context.Context, text string) (err error) {
	var cfg paymentsConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	conn, err := dialAs(cfg.PDP, cfg.Certs, "payments")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ledger, err := story.OpenLedger(ctx, cfg.Ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	list, err := os.ReadFile(cfg.Tools)
	if err != nil {
		return err
	}
	var tools struct{ Tools []*mcp.Tool }
	if err := json.Unmarshal(list, &tools); err != nil {
		return err
	}
	made := story.Config{
		Endpoint: endpoint, Issuer: issuer, Keys: cfg.Keys, Tools: tools.Tools, Ledger: ledger, Fault: cfg.Fault,
		Enforcer: story.Enforcer{PDP: writv1.NewEnforcementServiceClient(conn), Server: "payments"},
	}
	if cfg.Recover {
		if err := story.Recover(ctx, made); err != nil {
			return err
		}
	}
	handler, err := story.NewPayments(made)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(cfg.MCPCerts, "server.pem"), filepath.Join(cfg.MCPCerts, "server-key.pem"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	fmt.Println(listener.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		err := server.Close()
		<-served
		return err
	}
}

// process is a program that a test has started.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	first string // its first line
	ended bool
	errs  strings.Builder
}

// startProcess starts a program and waits for its first line. It is interrupted
// at the end of the test, and must then end well.
func startProcess(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(name, args...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.errs
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	if p.first, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		p.stop()
		t.Fatalf("%s printed nothing: %v\n%s", filepath.Base(name), err, &p.errs)
	}
	return p
}

// stop interrupts the program, if it is still there, and waits for its end.
func (p *process) stop() {
	if p.ended {
		return
	}
	_ = p.cmd.Process.Signal(os.Interrupt)
	if code := p.wait(); code != 0 {
		p.t.Errorf("%s ended with %d\n%s", filepath.Base(p.cmd.Path), code, &p.errs)
	}
}

// wait waits for the program's end, and returns its exit code.
func (p *process) wait() int {
	p.ended = true
	_ = p.cmd.Wait() // the code says it
	return p.cmd.ProcessState.ExitCode()
}
