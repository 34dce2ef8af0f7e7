package benchmarks

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/decide"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// revoked makes a log of n principals, tokens and intents of strangers.
func revoked(tb testing.TB, n int) *revocation.View {
	tb.Helper()
	log := make([]revocation.Entry, n)
	for i := range log {
		e := revocation.Entry{Kind: revocation.Principal, Issuer: "https://login.example", ID: fmt.Sprintf("user-%06d", i), Reason: "left"}
		switch i % 3 {
		case 1:
			e.Kind = revocation.Token
		case 2:
			e.Kind, e.Issuer = revocation.Intent, ""
		}
		if i%10 == 0 {
			e.From = now.Add(-time.Hour)
		}
		log[i] = e
	}
	view, err := revocation.New(log)
	if err != nil {
		tb.Fatal(err)
	}
	return view
}

// BenchmarkDecideRevocations is BenchmarkDecide with so many revocations of
// others.
func BenchmarkDecideRevocations(b *testing.B) {
	bare := build(b, paymentFiles)
	for _, n := range []int{0, 1, 100_000} {
		world := bare.At("bench", 1, revoked(b, n))
		caller, p := payment(world)
		if d := decide.Decide(world, caller, p, now, nil); d.Code != writ.CodeAllow {
			b.Fatalf("%s: %s", d.Code, d.Explanation)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decide.Decide(world, caller, p, now, nil)
			}
		})
	}
}

// serving is a `pdp serve` of its own process over a directory.
type serving struct {
	address, http string // of its doors
	dir           string
	credentials   string          // directory of its secrets
	process       int             // its id
	host, op      context.Context // carry the secrets
	decisions     writv1.DecisionServiceClient
	operator      writv1.RevocationServiceClient
}

// serve starts the command over the bundle of paymentFiles, with more files,
// and with so many revocations of strangers.
func serve(b *testing.B, more map[string]string, before int) *serving {
	b.Helper()
	work := b.TempDir()
	s := &serving{dir: filepath.Join(work, "bundle")}
	for _, files := range []map[string]string{paymentFiles, more} {
		for name, text := range files {
			path := filepath.Join(s.dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	fill(b, filepath.Join(work, "data", "revocations"), before)
	return serveDir(b, work, s.dir)
}

// serveDir starts the command over the bundle in dir, with its data in work,
// and with TLS if secured has the flags for it.
func serveDir(b *testing.B, work, dir string, secured ...string) *serving {
	b.Helper()
	s := &serving{dir: dir}
	pdp := filepath.Join(work, "pdp")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", pdp, "../cmd/pdp").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(pdp, append([]string{"serve", "--bundle", s.dir, "--data", filepath.Join(work, "data"), "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"}, secured...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s.process = cmd.Process.Pid
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready struct{ GRPC, HTTP, Credentials string }
	if err != nil || json.Unmarshal(line, &ready) != nil {
		_ = cmd.Wait()
		b.Fatalf("%v: %s", err, said.String())
	}
	s.address, s.http, s.credentials = ready.GRPC, ready.HTTP, ready.Credentials
	transport := insecure.NewCredentials()
	if len(secured) > 0 {
		transport = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) // to itself, with a certificate of its own making
	}
	conn, err := grpc.NewClient(ready.GRPC, grpc.WithTransportCredentials(transport))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			b.Errorf("serve ended with %v: %s", err, said.String())
		}
	})
	as := func(file string) context.Context {
		secret, err := server.ReadSecret(ready.Credentials, file)
		if err != nil {
			b.Fatal(err)
		}
		return metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+secret)
	}
	s.host, s.op = as(server.HostFile), as(server.OperatorFile)
	s.decisions, s.operator = writv1.NewDecisionServiceClient(conn), writv1.NewRevocationServiceClient(conn)
	return s
}

// used is the time that processors have spent on the server, as Linux tells it
// in hundredths of a second; 0 elsewhere.
func (s *serving) used(b *testing.B) time.Duration {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	} else if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	total := 0
	for _, text := range strings.Fields(rest)[11:13] { // utime and stime of proc_pid_stat(5)
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		total += n
	}
	return time.Duration(total) * 10 * time.Millisecond
}

// paying is a payment with a token of this id.
func paying(b *testing.B, world *snapshot.Snapshot, jti string) *writv1.Proposal {
	b.Helper()
	_, p := payment(world)
	at := time.Now().UTC()
	p.Token.ID, p.Token.IssuedAt, p.Token.ExpiresAt = jti, at.Add(-time.Minute), at.Add(time.Hour)
	p.Intent.DeclaredAt, p.Intent.ExpiresAt = at, at.Add(time.Hour)
	for i := range p.Evidence {
		p.Evidence[i].ObservedAt = at
	}
	m, err := server.ProposalToProto(p)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func (s *serving) ask(b *testing.B, p *writv1.Proposal) string {
	r, err := s.decisions.Decide(s.host, &writv1.DecideRequest{Proposal: p})
	if err != nil {
		b.Fatal(err)
	}
	return r.GetDecision().GetCode()
}

// revocations is how many revocations each distribution is over.
const revocations = 250

const issuer = "https://login.example"

// measure revokes tokens one after the other, while a host asks about each all
// the time, and reports how long it takes from the call of revoke to its
// return, and to the first denial. If revoke is sure, no decision that is asked
// for after its return may allow.
func (s *serving) measure(b *testing.B, sure bool, revoke func(i int) error) {
	b.Helper()
	world := build(b, paymentFiles)
	var accepted, denied []time.Duration
	for i := range revocations {
		p := paying(b, world, fmt.Sprint("jti-", i))
		if code := s.ask(b, p); code != "ALLOW" {
			b.Fatalf("before: %s", code)
		}
		var asking sync.WaitGroup
		var first time.Time
		begun := make(chan struct{})
		asking.Go(func() {
			close(begun)
			for s.ask(b, p) != "TOKEN_REVOKED" {
			}
			first = time.Now()
		})
		<-begun
		start := time.Now()
		if err := revoke(i); err != nil {
			b.Fatal(err)
		}
		accepted = append(accepted, time.Since(start))
		if code := s.ask(b, p); sure && code != "TOKEN_REVOKED" {
			b.Errorf("after the revocation was confirmed: %s", code)
		}
		asking.Wait()
		denied = append(denied, first.Sub(start))
	}
	slices.Sort(denied)
	report(b, "accepted", accepted)
	report(b, "denied", denied)
	b.ReportMetric(float64(denied[len(denied)*9/10])/1e3, "denied-p90-µs")
	b.ReportMetric(float64(denied[len(denied)-1])/1e3, "denied-max-µs")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRevoke is how long a revocation takes to deny, at a server of its
// own process with a bundle in a directory: over gRPC, and as a line more in
// revocations.yaml, with no revocations before and with 100,000. Run it with
// -benchtime 1x.
func BenchmarkRevoke(b *testing.B) {
	local := map[string]string{"callers.yaml": paymentFiles["callers.yaml"] + "- {name: op, role: operator, local: true}\n"}
	for _, before := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("gRPC/%d", before), func(b *testing.B) {
			s := serve(b, local, before)
			for range b.N {
				s.measure(b, true, func(i int) error {
					token := &writv1.Revocation{Kind: "token", Issuer: issuer, Id: fmt.Sprint("jti-", i), Reason: "r"}
					_, err := s.operator.Revoke(s.op, &writv1.RevokeRequest{Revocations: []*writv1.Revocation{token}})
					return err
				})
			}
		})
	}
	b.Run("File", func(b *testing.B) {
		s := serve(b, local, 0)
		text := paymentFiles["revocations.yaml"]
		path := filepath.Join(s.dir, "revocations.yaml")
		for range b.N {
			s.measure(b, false, func(i int) error {
				text += fmt.Sprintf("- {kind: token, issuer: %q, id: jti-%d, reason: r}\n", issuer, i)
				// Whole, as an editor or a deployment writes it.
				if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
					return err
				}
				return os.Rename(path+".new", path)
			})
		}
	})
}

// fill makes a revocation log with n strangers in it.
func fill(b *testing.B, dir string, n int) {
	b.Helper()
	journal, err := revocation.OpenJournal(dir)
	if err != nil {
		b.Fatal(err)
	}
	for begin := 0; begin < n; begin += 1000 {
		var batch []revocation.Entry
		for i := begin; i < min(begin+1000, n); i++ {
			batch = append(batch, revocation.Entry{Kind: revocation.Principal, Issuer: issuer, ID: fmt.Sprint("stranger-", i), Reason: "left"})
		}
		if _, err := journal.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := journal.Close(); err != nil {
		b.Fatal(err)
	}
}
