package benchmarks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
)

// record is what a usual decision leaves in the log.
func record() audit.Record {
	return audit.Record{
		Time: time.Date(2031, 4, 1, 12, 0, 0, 250_000_000, time.UTC), Kind: audit.KindDecision, ID: "NNIKAB6SUMDRM4RQO2L6X2C3YX",
		TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Caller: "host-1", RequestID: "r-1",
		Issuer: "https://login.example", Subject: "ann", Tenant: "acme", Principal: `User::"ann"`, Actors: []string{`Agent::"a"`},
		Server: "payments", Tool: "create_payment", Action: "payments/create_payment", Resources: []string{`Supplier::"acme"`},
		Arguments: []audit.Argument{{Pointer: "/currency", JSON: `"GBP"`}},
		Outcome:   writ.Allow, Code: writ.CodeAllow, Policies: []string{"small-amounts"}, Explanation: "Every control passed.",
		ContractDigest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		CallDigest:     "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		ProposalDigest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		PolicyDigest:   "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Revision:       "rev-9",
	}
}

func openLog(b *testing.B) *audit.Log {
	b.Helper()
	l, err := audit.Open(audit.Config{Dir: filepath.Join(b.TempDir(), "log")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

// report tells the median and the 99th percentile of times.
func report(b *testing.B, name string, times []time.Duration) {
	b.Helper()
	if len(times) == 0 {
		b.Fatalf("%s: nothing was measured", name)
	}
	slices.Sort(times)
	micros := func(per float64) float64 {
		return float64(times[min(len(times)-1, int(per*float64(len(times))))]) / 1e3
	}
	b.ReportMetric(micros(0.50), name+"-p50-µs")
	b.ReportMetric(micros(0.99), name+"-p99-µs")
}

// bareSyncs measures fsync of a record's bytes, one after the other, on the
// file system of the benchmarks' logs.
func bareSyncs(b *testing.B, f *os.File, n int) []time.Duration {
	b.Helper()
	data := make([]byte, 1200)
	times := make([]time.Duration, 0, n)
	for range n {
		if _, err := f.Write(data); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	return times
}

// quantile sorts times, and returns the one that so much of them are below, in
// microseconds.
func quantile(b *testing.B, times []time.Duration, q float64) float64 {
	b.Helper()
	if len(times) == 0 {
		b.Fatal("nothing was measured")
	}
	slices.Sort(times)
	return float64(times[min(len(times)-1, int(q*float64(len(times))))]) / 1e3
}

// logRounds is how many rounds the ratios of a log are measured in:
// WRIT_LOG_ROUNDS, 7 unless set.
func logRounds(b *testing.B) int { return number(b, "WRIT_LOG_ROUNDS", 7) }

// callers of a log that wait for the disk, and the pauses that each makes
// between its records: none, which is bounded by the processors, and one as
// callers of a service have.
const callers = 200

var pauses = []time.Duration{0, 20 * time.Millisecond}

// durably has all callers do something until ctx ends, and at least once each.
// It returns how long each time took.
func durably(ctx context.Context, b *testing.B, pause time.Duration, do func() error) []time.Duration {
	times := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			time.Sleep(pause * time.Duration(g) / callers) // not all at once
			for first := true; first || ctx.Err() == nil; first = false {
				began := time.Now()
				if err := do(); err != nil {
					b.Error(err)
					return
				}
				times[g] = append(times[g], time.Since(began))
				time.Sleep(pause)
			}
		})
	}
	wg.Wait()
	return slices.Concat(times...)
}

// appends is one durable record.
func appends(l *audit.Log) func() error {
	r := record()
	return func() error { return l.Append(context.Background(), r, true) }
}

// groups returns what the least that could be done for many callers would be:
// one goroutine writes and syncs a record's bytes for all that have asked since
// it last did. It ends with ctx, after which nobody may ask.
func groups(ctx context.Context, f *os.File) func() error {
	asked := make(chan chan error, callers)
	go func() {
		var data []byte
		var waiting []chan error
		for {
			select {
			case w := <-asked:
				waiting = append(waiting, w)
			case <-ctx.Done():
				return
			}
			for len(asked) > 0 {
				waiting = append(waiting, <-asked)
			}
			data = append(data[:0], make([]byte, 1200*len(waiting))...)
			_, err := f.Write(data)
			if err == nil {
				err = f.Sync()
			}
			for _, w := range waiting {
				w <- err
			}
			waiting = waiting[:0]
		}
	}()
	return func() error {
		w := make(chan error, 1)
		asked <- w
		return <-w
	}
}

// BenchmarkAuditDurable is how long 200 callers wait for their records to be on
// the disk, over what one bare fsync takes there in the same round: the 99th
// percentile of the callers over that of the fsyncs, and over their median.
// What of that is the processors' and the scheduler's shows the third: over the
// 99th percentile of the same callers where one goroutine does nothing but
// write and sync for them. Run it with -benchtime 1x.
func BenchmarkAuditDurable(b *testing.B) {
	for _, pause := range pauses {
		b.Run(fmt.Sprintf("pause=%v", pause), func(b *testing.B) {
			l := openLog(b)
			f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			b.Logf("load average %s", average())
			var over99, over50, overGroup []float64
			for range b.N * logRounds(b) {
				bare := bareSyncs(b, f, 250)
				during := func(do func() error) []time.Duration {
					ctx, stop := context.WithTimeout(b.Context(), 500*time.Millisecond)
					defer stop()
					return durably(ctx, b, pause, do)
				}
				times := during(appends(l))
				grouping, stop := context.WithCancel(b.Context())
				group := during(groups(grouping, f))
				stop()
				bare = append(bare, bareSyncs(b, f, 250)...)
				got, bare50, bare99 := quantile(b, times, 0.99), quantile(b, bare, 0.5), quantile(b, bare, 0.99)
				group99 := quantile(b, group, 0.99)
				b.Logf("%d records p50 %.0f µs p99 %.0f µs; bare fsync p50 %.0f µs p99 %.0f µs; bare group p50 %.0f µs p99 %.0f µs; p99 over fsync's p99 %.2f, its p50 %.2f, the group's p99 %.2f",
					len(times), quantile(b, times, 0.5), got, bare50, bare99, quantile(b, group, 0.5), group99, got/bare99, got/bare50, got/group99)
				over99, over50, overGroup = append(over99, got/bare99), append(over50, got/bare50), append(overGroup, got/group99)
			}
			spread(b, "p99/fsync-p99", over99)
			spread(b, "p99/fsync-p50", over50)
			spread(b, "p99/group-p99", overGroup)
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkAuditReadInStorm is how long a record that need not be on the disk
// holds up its caller while 200 others keep the disk busy, over how long it
// does when there is nobody else. Run it with -benchtime 1x.
func BenchmarkAuditReadInStorm(b *testing.B) {
	for _, pause := range pauses {
		b.Run(fmt.Sprintf("pause=%v", pause), func(b *testing.B) {
			l := openLog(b)
			r := record()
			reads := func() []time.Duration {
				times := make([]time.Duration, 0, 3000)
				for range cap(times) {
					began := time.Now()
					if err := l.Append(b.Context(), r, false); err != nil {
						b.Fatal(err)
					}
					times = append(times, time.Since(began))
					time.Sleep(100 * time.Microsecond)
				}
				return times
			}
			b.Logf("load average %s", average())
			var p50, p99 []float64
			for range b.N * logRounds(b) {
				calm := reads()
				ctx, stop := context.WithCancel(b.Context())
				var others sync.WaitGroup
				others.Go(func() { durably(ctx, b, pause, appends(l)) })
				storm := reads()
				stop()
				others.Wait()
				p50 = append(p50, quantile(b, storm, 0.5)/quantile(b, calm, 0.5))
				p99 = append(p99, quantile(b, storm, 0.99)/quantile(b, calm, 0.99))
				b.Logf("calm p50 %.1f µs p99 %.1f µs; storm p50 %.1f µs p99 %.1f µs; storm/calm p50 %.2f p99 %.2f",
					quantile(b, calm, 0.5), quantile(b, calm, 0.99), quantile(b, storm, 0.5), quantile(b, storm, 0.99), p50[len(p50)-1], p99[len(p99)-1])
			}
			spread(b, "storm/calm-p50", p50)
			spread(b, "storm/calm-p99", p99)
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkAuditAppend is what a record costs, with nobody else there and with
// many callers.
func BenchmarkAuditAppend(b *testing.B) {
	for _, durable := range []bool{false, true} {
		for _, callers := range []int{1, 128} {
			b.Run(fmt.Sprintf("durable=%t/callers=%d", durable, callers), func(b *testing.B) {
				l := openLog(b)
				r := record()
				b.ReportAllocs()
				var wg sync.WaitGroup
				b.ResetTimer()
				for range callers {
					wg.Go(func() {
						for range b.N/callers + 1 {
							if err := l.Append(b.Context(), r, durable); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// BenchmarkAuditOpen is how long a log takes to open: WRIT_LOG_RECORDS says how many records it has (100,000 unless set).
func BenchmarkAuditOpen(b *testing.B) {
	records := 100_000
	if text := os.Getenv("WRIT_LOG_RECORDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("WRIT_LOG_RECORDS: %v", err)
		}
		records = n
	}
	cfg := audit.Config{Dir: filepath.Join(b.TempDir(), "log")}
	l, err := audit.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	r := record()
	for range records {
		if err := l.Append(b.Context(), r, false); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	opening := time.Duration(0)
	for b.Loop() {
		began := time.Now()
		l, err := audit.Open(cfg)
		if err != nil {
			b.Fatal(err)
		}
		opening += time.Since(began)
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(opening.Microseconds())/1e3/float64(b.N), "open-ms")
	b.ReportMetric(float64(records), "records")
}
