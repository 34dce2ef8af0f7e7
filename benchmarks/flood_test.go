package benchmarks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// floodFiles is the payment bundle with a read, which `looking` asks for, and
// with an operator who may ask, too: a second host, by its secret.
func floodFiles() map[string]string {
	files := maps.Clone(paymentFiles)
	files["servers/payments.yaml"] += "  look_up: {effect: read, scope: \"payments:create\"}\n"
	files["servers/payments.tools.json"] = strings.TrimSuffix(files["servers/payments.tools.json"], "]}") +
		`,{"name":"look_up","inputSchema":{"type":"object","properties":{"supplier":{"type":"string"}},"required":["supplier"],"additionalProperties":false}}]}`
	files["policies/look.cedar"] = `@id("clerks-look") permit (principal in Group::"clerks", action == Action::"payments/look_up", resource);
@id("operators-ask") permit (principal in Role::"operator", action in [Action::"pdp:Decide", Action::"pdp:DecideBatch"], resource == Service::"DecisionService");
@id("operators-vouch") permit (principal in Role::"operator", action == Action::"vouch", resource);`
	return files
}

// The messages of floods.
const (
	noMessage = iota
	aRead     // of a Decide
	aPayment  // the same, of a write: its ALLOW is signed, and on the disk
	manyReads // of a DecideBatch
	whyARead  // of an Explain
)

// flooder is a peer that calls the server as often as it can.
type flooder struct {
	name, method string
	secret       string // file of it; empty: one that the server doesn't know
	message      int
	secured      bool     // the server has TLS
	args         []string // of the flood
}

const (
	decideMethod = writv1.DecisionService_Decide_FullMethodName
	batchMethod  = writv1.DecisionService_DecideBatch_FullMethodName
	overHTTP     = "--protocol=http/1.1"
)

// flooders, of which one at a time floods, beside an honest host.
var flooders = []flooder{
	{name: "explain", method: writv1.DecisionService_Explain_FullMethodName, secret: server.OperatorFile, message: whyARead},
	{name: "list", method: writv1.RevocationService_ListRevocations_FullMethodName, secret: server.OperatorFile},
	{name: "no-right", method: decideMethod, secret: server.ServerFile, message: aRead},
	{name: "stranger", method: decideMethod, message: aRead},
	{name: "stranger-once", method: decideMethod, message: aRead, args: []string{"--once"}},
	{name: "resets", method: writv1.DecisionService_Explain_FullMethodName, secret: server.OperatorFile, message: whyARead, args: []string{"--reset"}},

	// Another host, with every right to ask.
	{name: "decide", method: decideMethod, secret: server.OperatorFile, message: aRead},
	{name: "decide-write", method: decideMethod, secret: server.OperatorFile, message: aPayment},
	{name: "batch", method: batchMethod, secret: server.OperatorFile, message: manyReads},
	{name: "decide-once", method: decideMethod, secret: server.OperatorFile, message: aRead, args: []string{"--once"}},

	// The same, and strangers, at the door of HTTP.
	{name: "http-decide", method: decideMethod, secret: server.OperatorFile, message: aRead, args: []string{overHTTP}},
	{name: "http-batch", method: batchMethod, secret: server.OperatorFile, message: manyReads, args: []string{overHTTP}},
	{name: "http-decide-once", method: decideMethod, secret: server.OperatorFile, message: aRead, args: []string{overHTTP, "--once"}},
	{name: "http-stranger", method: decideMethod, args: []string{overHTTP}},
	{name: "http-stranger-once", method: decideMethod, message: aRead, args: []string{overHTTP, "--once"}},
	{name: "http-nowhere", method: "/", args: []string{overHTTP, "--get"}},
	{name: "http-ready", method: "/readyz", args: []string{overHTTP, "--get"}},
	{name: "http-metrics", method: "/metrics", args: []string{overHTTP, "--get"}},

	// And with TLS, where each connection costs a handshake.
	{name: "https-decide", method: decideMethod, secret: server.OperatorFile, message: aRead, secured: true, args: []string{overHTTP, "--tls"}},
	{name: "https-stranger", method: decideMethod, secured: true, args: []string{overHTTP, "--tls"}},
	{name: "https-stranger-once", method: decideMethod, message: aRead, secured: true, args: []string{overHTTP, "--tls", "--once"}},
	{name: "tls-stranger-once", method: decideMethod, message: aRead, secured: true, args: []string{"--tls", "--once"}},
}

// BenchmarkFlood is what a flood of one caller does to another: a host asks
// `pdp serve` for a read at a steady rate while another caller, or a stranger,
// calls as often as it can on 64 connections with 128 calls each. Calm, the
// same flood of another server on the same machine, and the flood alternate.
// The one who floods has the lowest priority: it stands for another machine.
//
// WRIT_FLOOD_ROUNDS, WRIT_FLOOD_SECONDS of each third and WRIT_FLOOD_RATE, of the
// host's calls a second, say how much. Run it with -benchtime 1x: `make bench-flood`.
func BenchmarkFlood(b *testing.B) {
	rounds, rate := number(b, "WRIT_FLOOD_ROUNDS", 5), number(b, "WRIT_FLOOD_RATE", 200)
	span := time.Duration(number(b, "WRIT_FLOOD_SECONDS", 3)) * time.Second
	program := filepath.Join(b.TempDir(), "flood")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "./flood").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	files := floodFiles()
	cert, key := certificate(b)
	start := func(secured ...string) *serving {
		work := b.TempDir()
		write(b, filepath.Join(work, "bundle"), files)
		return serveDir(b, work, filepath.Join(work, "bundle"), secured...)
	}
	plain := [2]*serving{start(), start()}
	secured := [2]*serving{start("--tls-cert", cert, "--tls-key", key), start("--tls-cert", cert, "--tls-key", key)}
	b.Logf("server's GOMAXPROCS %d; load average %s; %d calls a second; %v each", runtime.GOMAXPROCS(0), average(), rate, span)
	for _, c := range flooders {
		b.Run(c.name, func(b *testing.B) {
			message, sent := floodMessages(b, build(b, files), c)
			servers := plain
			if c.secured {
				servers = secured
			}
			s, elsewhere := servers[0], servers[1]
			while := func(at *serving) (took []time.Duration, used float64, told flood) {
				if at != nil {
					defer func() { told = told.end(b) }()
					told = c.flood(b, program, at, sent)
					time.Sleep(span / 10)
				}
				before, began := s.used(b), time.Now()
				ctx, stop := context.WithTimeout(b.Context(), span)
				defer stop()
				took = askCalmly(b, ctx, s, rate, message)
				return took, (s.used(b) - before).Seconds() / time.Since(began).Seconds(), told
			}
			var p50, p99, unheard []float64
			for range b.N * rounds {
				var seen [3][]time.Duration
				var used [3]float64
				var told [3]flood
				time.Sleep(2 * time.Second) // what is left of the last flood
				for i, where := range []*serving{nil, elsewhere, s} {
					seen[i], used[i], told[i] = while(where)
				}
				over := func(i int, q float64) float64 { return float64(at(seen[2], q)) / float64(at(seen[i], q)) }
				p50, p99, unheard = append(p50, over(0, 0.5)), append(p99, over(0, 0.99)), append(unheard, over(1, 0.99))
				micros := func(i int) string {
					return fmt.Sprintf("p50 %d µs p99 %d µs, %.2f processors", at(seen[i], 0.5).Microseconds(), at(seen[i], 0.99).Microseconds(), used[i])
				}
				b.Logf("calm %s; elsewhere %s; flood %s, of %d calls %d ended, %d with an answer, %d connections; flood/calm p50 %.2f p99 %.2f, flood/elsewhere p99 %.2f",
					micros(0), micros(1), micros(2), told[2].Sent, told[2].Ended, told[2].Answered, told[2].Connections, p50[len(p50)-1], p99[len(p99)-1], unheard[len(unheard)-1])
			}
			spread(b, "flood/calm-p50", p50)
			spread(b, "flood/calm-p99", p99)
			spread(b, "flood/elsewhere-p99", unheard)
			b.ReportMetric(0, "ns/op")
		})
	}
}

// floodMessages returns what the host proposes, and a file of what c sends.
func floodMessages(b *testing.B, world *snapshot.Snapshot, c flooder) (asked *writv1.Proposal, file string) {
	b.Helper()
	_, p := looking(b, world)
	asked, err := server.ProposalToProto(p)
	if err != nil {
		b.Fatal(err)
	}
	var m proto.Message
	switch c.message {
	case noMessage:
		return asked, ""
	case aRead:
		m = &writv1.DecideRequest{Proposal: asked}
	case aPayment:
		m = &writv1.DecideRequest{Proposal: paying(b, world, "t-1")}
	case manyReads: // as many as fit into the window of a stream (RFC 9113, section 6.9.2)
		n := min(60_000/(proto.Size(asked)+8), pdp.MaxBatch)
		m = &writv1.DecideBatchRequest{Proposals: slices.Repeat([]*writv1.Proposal{asked}, n)}
	case whyARead:
		m = &writv1.ExplainRequest{Proposal: asked}
	}
	encode := proto.Marshal
	if slices.Contains(c.args, overHTTP) {
		encode = protojson.Marshal
	}
	body, err := encode(m)
	if err != nil {
		b.Fatal(err)
	}
	file = filepath.Join(b.TempDir(), "message")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		b.Fatal(err)
	}
	return asked, file
}

// flood begins a flood of s.
func (c flooder) flood(b *testing.B, program string, s *serving, message string) flood {
	b.Helper()
	secret, address := "none", s.address
	if c.secret != "" {
		var err error
		if secret, err = server.ReadSecret(s.credentials, c.secret); err != nil {
			b.Fatal(err)
		}
	}
	if slices.Contains(c.args, overHTTP) {
		address = s.http
	}
	return flooding(b, program, append([]string{"--address", address, "--method", c.method, "--secret", secret, "--message", message}, c.args...)...)
}

// askCalmly asks at a steady rate, and fails the benchmark unless all is allowed.
func askCalmly(b *testing.B, ctx context.Context, s *serving, rate int, message *writv1.Proposal) (took []time.Duration) {
	b.Helper()
	var calls sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	begun := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(time.Until(begun.Add(time.Duration(n) * time.Second / time.Duration(rate))))
		calls.Go(func() {
			sent := time.Now()
			r, err := s.decisions.Decide(s.host, &writv1.DecideRequest{Proposal: message})
			since := time.Since(sent)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, since)
			if err != nil || r.GetDecision().GetCode() != string(writ.CodeAllow) {
				failed = append(failed, fmt.Sprint(r.GetDecision().GetCode(), err))
			}
		})
	}
	calls.Wait()
	if len(failed) > 0 {
		b.Errorf("of %d calls %d failed: %s", len(took), len(failed), failed[0])
	}
	slices.Sort(took)
	return took
}

// flood is one flood, and what it tells at its end.
type flood struct {
	Sent, Ended, Answered, Connections int64

	process *exec.Cmd
	in      io.Closer
	out     *json.Decoder
}

func flooding(b *testing.B, program string, args ...string) (f flood) {
	b.Helper()
	f.process = exec.Command(program, args...)
	f.process.Stderr = os.Stderr
	in, err := f.process.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := f.process.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	f.in, f.out = in, json.NewDecoder(out)
	if err := f.process.Start(); err != nil {
		b.Fatal(err)
	}
	return f
}

// end ends the flood.
func (f flood) end(b *testing.B) flood {
	b.Helper()
	_ = f.in.Close()
	if err := f.out.Decode(&f); err != nil {
		b.Errorf("the flood tells nothing: %v", err)
	}
	if err := f.process.Wait(); err != nil {
		b.Error(err)
	}
	return f
}
