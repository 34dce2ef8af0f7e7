package benchmarks

import (
	"context"
	"encoding/hex"
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

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/writ-pdp/writ"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// lookupFiles is the payment bundle with a read, which `looking` asks for.
func lookupFiles() map[string]string {
	files := maps.Clone(paymentFiles)
	files["servers/payments.yaml"] += "  look_up: {effect: read, scope: \"payments:create\"}\n"
	files["servers/payments.tools.json"] = strings.TrimSuffix(files["servers/payments.tools.json"], "]}") +
		`,{"name":"look_up","inputSchema":{"type":"object","properties":{"supplier":{"type":"string"}},"required":["supplier"],"additionalProperties":false}}]}`
	files["policies/look.cedar"] = `@id("clerks-look") permit (principal in Group::"clerks", action == Action::"payments/look_up", resource);`
	return files
}

// flooded are the peers of which one at a time calls the server as often as it
// can, beside an honest host.
var flooded = []struct {
	name, method string
	secret       func(s *serving) context.Context // nil: none that the server knows
	resets       bool
}{
	{name: "explain", method: writv1.DecisionService_Explain_FullMethodName, secret: func(s *serving) context.Context { return s.op }},
	{name: "list", method: writv1.RevocationService_ListRevocations_FullMethodName, secret: func(s *serving) context.Context { return s.op }},
	{name: "no-right", method: writv1.DecisionService_Decide_FullMethodName, secret: func(s *serving) context.Context { return s.op }},
	{name: "stranger", method: writv1.DecisionService_Decide_FullMethodName},
	{name: "resets", method: writv1.DecisionService_Explain_FullMethodName, secret: func(s *serving) context.Context { return s.op }, resets: true},
}

// BenchmarkFlood is what a flood of one caller does to another: a host asks
// `pdp serve` for a read at a steady rate while an operator, or a stranger,
// calls as often as it can on 64 connections with 128 streams each. Calm, the
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
	files := lookupFiles()
	world := build(b, files)
	_, p := looking(b, world)
	message, err := server.ProposalToProto(p)
	if err != nil {
		b.Fatal(err)
	}
	start := func() *serving {
		work := b.TempDir()
		write(b, filepath.Join(work, "bundle"), files)
		return serveDir(b, work, filepath.Join(work, "bundle"))
	}
	s, elsewhere := start(), start()
	b.Logf("server's GOMAXPROCS %d; load average %s; %d calls a second; %v each", runtime.GOMAXPROCS(0), average(), rate, span)
	for _, c := range flooded {
		b.Run(c.name, func(b *testing.B) {
			body, err := proto.Marshal(&writv1.ExplainRequest{Proposal: message})
			if err != nil {
				b.Fatal(err)
			}
			if c.method == writv1.RevocationService_ListRevocations_FullMethodName {
				body = nil
			}
			while := func(at *serving) (took []time.Duration, used float64, told flood) {
				if at != nil {
					secret := "none"
					if c.secret != nil {
						md, _ := metadata.FromOutgoingContext(c.secret(at))
						secret = strings.TrimPrefix(md.Get("authorization")[0], "Bearer ")
					}
					defer func() { told = told.end(b) }()
					told = flooding(b, program, "--address", at.address, "--method", c.method, "--secret", secret,
						"--message", hex.EncodeToString(body), fmt.Sprintf("--reset=%t", c.resets))
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
				b.Logf("calm %s; elsewhere %s; flood %s, of %d calls %d ended, %d connections; flood/calm p50 %.2f p99 %.2f, flood/elsewhere p99 %.2f",
					micros(0), micros(1), micros(2), told[2].Sent, told[2].Ended, told[2].Connections, p50[len(p50)-1], p99[len(p99)-1], unheard[len(unheard)-1])
			}
			spread(b, "flood/calm-p50", p50)
			spread(b, "flood/calm-p99", p99)
			spread(b, "flood/elsewhere-p99", unheard)
			b.ReportMetric(0, "ns/op")
		})
	}
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
	Sent, Ended, Connections int64

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
