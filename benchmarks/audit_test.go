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

// bareSyncs measures write and fsync of a record's bytes, one after the other,
// on the file system of the benchmarks' logs.
func bareSyncs(b *testing.B, n int) []time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
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

// BenchmarkAuditDurable is how long 200 callers wait for their records to be on
// the disk, beside what a bare fsync takes there, before and after: each as
// fast as it can, which is bounded by the processors, and with a pause of 20 ms
// between its records, as callers of a service have.
func BenchmarkAuditDurable(b *testing.B) {
	const callers = 200
	for _, pause := range []time.Duration{0, 20 * time.Millisecond} {
		b.Run(fmt.Sprintf("pause=%v", pause), func(b *testing.B) {
			bare := bareSyncs(b, 500)
			l := openLog(b)
			r := record()
			times := make([][]time.Duration, callers)
			var wg sync.WaitGroup
			b.ResetTimer()
			for g := range callers {
				wg.Go(func() {
					time.Sleep(pause * time.Duration(g) / callers) // not all at once
					for range b.N/callers + 1 {
						began := time.Now()
						if err := l.Append(b.Context(), r, true); err != nil {
							b.Error(err)
							return
						}
						times[g] = append(times[g], time.Since(began))
						time.Sleep(pause)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			report(b, "append", slices.Concat(times...))
			report(b, "bare-fsync", append(bare, bareSyncs(b, 500)...))
		})
	}
}

// BenchmarkAuditReadInStorm is how long a record that need not be on the disk
// holds up its caller, while 200 others keep the disk busy.
func BenchmarkAuditReadInStorm(b *testing.B) {
	l := openLog(b)
	r := record()
	storm, stop := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for storm.Err() == nil {
				if err := l.Append(storm, r, true); err != nil && storm.Err() == nil {
					b.Error(err)
					return
				}
			}
		})
	}
	times := make([]time.Duration, 0, b.N)
	for b.Loop() {
		began := time.Now()
		if err := l.Append(b.Context(), r, false); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
		time.Sleep(100 * time.Microsecond)
	}
	stop()
	wg.Wait()
	report(b, "read", times)
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
