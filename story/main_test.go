package story_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programs is what all tests share: the real pdp, and certificates that it
// made, for the decision point and for the MCP server.
var programs struct{ pdp, certs, mcpCerts string }

func TestMain(m *testing.M) {
	if text := os.Getenv(paymentsEnv); text != "" {
		os.Exit(servePayments(text)) // this is the payment server of a test
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "writ-story-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs.pdp, programs.certs, programs.mcpCerts = filepath.Join(dir, "pdp"), filepath.Join(dir, "certs"), filepath.Join(dir, "mcp")
	for _, command := range [][]string{
		{"go", "-C", "..", "build", "-o", programs.pdp, "./cmd/pdp"},
		{programs.pdp, "testcerts", "--domain", "acme.example", programs.certs, "ap-host", "payments", "review-desk"},
		{programs.pdp, "testcerts", "--host", "mcp.payments.acme.example", programs.mcpCerts, "nobody"},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", command, err, out)
			return 1
		}
	}
	return m.Run()
}
