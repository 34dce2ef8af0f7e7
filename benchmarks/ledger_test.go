package benchmarks

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/writ-pdp/writ/effect"
	"github.com/writ-pdp/writ/grant"
)

// redemption is a claim as PDPs make them: the i-th, at one a millisecond.
func redemption(i int) grant.Claim {
	at := now.Add(time.Duration(i) * time.Millisecond)
	digest := sha256.Sum256(fmt.Append(nil, i))
	return grant.Claim{
		ID: fmt.Sprintf("D%025d", i), Grant: fmt.Sprintf("G%025d", i), Proposal: fmt.Sprintf("hmac-sha256:%x", digest),
		Attempt: digest, Now: at, Expires: at.Add(30 * time.Second), Call: fmt.Sprintf("hmac-sha256:%x", digest),
		Plan: effect.Plan{
			Server: "payments", Tool: "transfer", ProposalDigest: digest, IdempotencyKey: fmt.Sprintf("%043d", i),
			Observer: "ledger-audit", ObserverTool: "get_transfer", Until: at.Add(time.Hour),
			Checks: []effect.Expectation{{At: "/amount", Equals: "120.50"}, {At: "/to", Equals: `"DE89370400440532013000"`}},
		},
	}
}

func memoryLedger(b *testing.B, entries int) *grant.Memory {
	b.Helper()
	m, err := grant.NewMemory(grant.MemoryConfig{MaxEntries: entries, Revocations: func() uint64 { return 0 }})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// batch is how many claims are prepared at once, so that making them is not
// measured.
const batch = 1 << 14

// BenchmarkLedgerMemory claims grants of a ledger that holds none at first,
// from one goroutine and from several.
func BenchmarkLedgerMemory(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			m := memoryLedger(b, b.N+1)
			b.ReportAllocs()
			b.ResetTimer()
			b.StopTimer()
			for from := 0; from < b.N; from += batch {
				claims := make([]grant.Claim, min(batch, b.N-from))
				for i := range claims {
					claims[i] = redemption(from + i)
				}
				done := make(chan error, workers)
				b.StartTimer()
				for w := range workers {
					go func() {
						for i := w; i < len(claims); i += workers {
							if got, err := m.Claim(b.Context(), claims[i]); got != grant.Claimed {
								done <- fmt.Errorf("claim %d: %v, %w", from+i, got, err)
								return
							}
						}
						done <- nil
					}()
				}
				for range workers {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
		})
	}
}

// BenchmarkLedgerMemoryFull measures a ledger of a million redemptions: what it
// takes of memory for each, repeats and refusals, and a collection of garbage.
func BenchmarkLedgerMemoryFull(b *testing.B) {
	const entries = 1_000_000
	before := heapInUse()
	m := memoryLedger(b, entries)
	for i := range entries {
		if got, err := m.Claim(b.Context(), redemption(i)); got != grant.Claimed {
			b.Fatal(got, err)
		}
	}
	each := float64(heapInUse()-before) / entries
	began := time.Now()
	runtime.GC()
	collection := time.Since(began)
	last := redemption(entries - 1).Now
	claims := make([]grant.Claim, batch)
	for i := range claims {
		claims[i] = redemption(rand.IntN(entries))
		claims[i].Now, claims[i].Expires = last, last.Add(time.Minute)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if got, err := m.Claim(b.Context(), claims[i%batch]); got != grant.Repeated {
			b.Fatal(got, err)
		}
	}
	b.ReportMetric(each, "B/entry")
	b.ReportMetric(float64(collection.Milliseconds()), "ms/collection")
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
