package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
)

// line is one line of the file, as a reader in another language would have it.
type line struct {
	Sequence       *uint64   `json:"sequence"`
	Time           time.Time `json:"time"`
	Kind           string    `json:"kind"`
	ID             string    `json:"id"`
	Caller         string    `json:"caller"`
	RequestID      string    `json:"request_id"`
	TraceID        string    `json:"trace_id"`
	Issuer         string    `json:"issuer"`
	Subject        string    `json:"subject"`
	Principal      string    `json:"principal"`
	Actors         []string  `json:"actors"`
	Server         string    `json:"server"`
	Tool           string    `json:"tool"`
	Action         string    `json:"action"`
	Resources      []string  `json:"resources"`
	Outcome        string    `json:"outcome"`
	Code           string    `json:"code"`
	Control        string    `json:"control"`
	Policies       []string  `json:"policies"`
	Errors         []string  `json:"errors"`
	Explanation    string    `json:"explanation"`
	ContractDigest string    `json:"contract_digest"`
	CallDigest     string    `json:"call_digest"`
	ProposalDigest string    `json:"proposal_digest"`
	ReviewDigest   string    `json:"review_digest"`
	PolicyDigest   string    `json:"policy_digest"`
	Revision       string    `json:"revision"`
	Chain          string    `json:"chain"`
}

func logFile(dir string) string { return filepath.Join(dir, "decisions.jsonl") }

// readLog reads a log by the package comment's rules and checks sequence and
// chain on its own.
func readLog(t testing.TB, dir string) []line {
	t.Helper()
	data, err := os.ReadFile(logFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	var lines []line
	chain := make([]byte, 32)
	for i, text := range strings.SplitAfter(string(data), "\n") {
		if text == "" {
			break
		}
		if !strings.HasSuffix(text, "\n") {
			t.Fatalf("line %d has no end", i+1)
		}
		var l line
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			t.Fatalf("line %d: %v\n%.500s", i+1, err, text)
		}
		if l.Sequence == nil || *l.Sequence != uint64(i) {
			t.Fatalf("line %d does not have sequence %d", i+1, i)
		}
		head, _, ok := strings.Cut(text, `,"chain":"`)
		sum := sha256.Sum256(append(bytes.Clone(chain), head...))
		if chain = sum[:]; !ok || l.Chain != hex.EncodeToString(chain) {
			t.Fatalf("line %d breaks the chain", i+1)
		}
		lines = append(lines, l)
	}
	return lines
}

func decision(id string) audit.Record {
	return audit.Record{
		Time: time.Date(2031, 4, 1, 12, 0, 0, 0, time.UTC), Kind: audit.KindDecision, ID: id,
		Outcome: writ.Allow, Code: writ.CodeAllow, Caller: "host-1", Server: "payments", Tool: "create_payment",
	}
}

func mustOpen(t testing.TB, dir string) *audit.Log {
	t.Helper()
	l, err := audit.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func mustAppend(t testing.TB, l *audit.Log, r audit.Record, durable bool) {
	t.Helper()
	if err := l.Append(t.Context(), r, durable); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t testing.TB, l *audit.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// ids returns the ids in the order of the file.
func ids(lines []line) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.ID)
	}
	return out
}

// faulty stands between a log and its file. Its funcs, where set, go first: an
// error from them is the call's.
type faulty struct {
	audit.File
	onWrite func(b []byte) (handled bool, n int, err error)
	onSync  func() error
}

func (f *faulty) Write(b []byte) (int, error) {
	if f.onWrite != nil {
		if handled, n, err := f.onWrite(b); handled {
			return n, err
		}
	}
	return f.File.Write(b)
}

func (f *faulty) Sync() error {
	if f.onSync != nil {
		if err := f.onSync(); err != nil {
			return err
		}
	}
	return f.File.Sync()
}

func openFaulty(t testing.TB, dir string, f *faulty) *audit.Log {
	t.Helper()
	l, err := audit.OpenWith(dir, func(under audit.File) audit.File {
		f.File = under
		return f
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
