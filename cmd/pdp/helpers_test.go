package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// readyLine is what serve prints when it is ready.
type readyLine struct{ Event, GRPC, HTTP, Revision, Credentials string }

func parseReady(data []byte) (line readyLine, ok bool) {
	return line, json.Unmarshal(data, &line) == nil && line.Event == "ready"
}

// request sends one request to the HTTP address of the server that serve
// started: request STATUS METHOD PATH [FILE], the file as JSON with the host's
// credential, and as part of the trace that TRACEPARENT names, if it is set. The
// answer goes to the file stdout.txt. With CA it speaks TLS, and with CLIENT it
// shows the certificate CLIENT.pem in place of a credential.
func request(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: request STATUS METHOD PATH [FILE]")
	}
	var body io.Reader
	if len(args) == 4 {
		body = strings.NewReader(ts.ReadFile(args[3]))
	}
	base, transport := overHTTP(ts)
	req, err := http.NewRequest(args[1], base+args[2], body)
	ts.Check(err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		if ts.Getenv("CLIENT") == "" {
			req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(filepath.Join(ts.Getenv("CREDENTIALS"), "host"))))
		}
	}
	if parent := ts.Getenv("TRACEPARENT"); parent != "" {
		req.Header.Set("Traceparent", parent)
	}
	client := http.Client{Transport: transport, Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("stdout.txt"), data, 0o600))
	if fmt.Sprint(resp.StatusCode) != args[0] {
		ts.Fatalf("status %d, want %s\n%s", resp.StatusCode, args[0], data)
	}
}

// overHTTP returns where the server that serve started speaks HTTP, and how.
func overHTTP(ts *testscript.TestScript) (base string, _ *http.Transport) {
	transport := &http.Transport{DisableKeepAlives: true}
	if ts.Getenv("CA") == "" {
		return "http://" + ts.Getenv("HTTP"), transport
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM([]byte(ts.ReadFile(ts.Getenv("CA"))))
	if client := ts.Getenv("CLIENT"); client != "" {
		pair, err := tls.X509KeyPair([]byte(ts.ReadFile(client+".pem")), []byte(ts.ReadFile(client+"-key.pem")))
		ts.Check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	transport.TLSClientConfig = config
	return "https://" + ts.Getenv("HTTP"), transport
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
