package benchmarks

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/snapshot"
)

// instant is a log that has recorded everything at once: what is measured is
// all but the disk.
type instant struct{}

func (instant) Append(context.Context, audit.Record, bool) error { return nil }

// till is a PDP over accounts payable whose grants are redeemed.
type till struct {
	b        testing.TB
	pdp      *pdp.PDP
	host     *writ.Caller
	payments *writ.Caller
	scenario bundle.Scenario
	count    int
}

func newTill(b testing.TB) *till {
	b.Helper()
	files, err := bundle.ReadDir("../examples/accounts-payable")
	if err != nil {
		b.Fatal(err)
	}
	built, faults := bundle.Build(files, nil)
	if built == nil {
		b.Fatal(faults)
	}
	holder := &snapshot.Holder{}
	holder.Store(built.Snapshot)
	t := &till{b: b, host: built.Snapshot.Callers["host"], payments: built.Snapshot.Callers["payments"]}
	if t.pdp, err = pdp.New(pdp.Config{Snapshots: holder, Log: instant{}, GrantLifetime: pdp.MaxGrantLifetime}); err != nil {
		b.Fatal(err)
	}
	for _, s := range built.Scenarios {
		if s.Name == "exactly 500" {
			s.Now = time.Now()
			t.scenario = s.At(s.Now)
		}
	}
	// The local host vouches for tokens, and may say what the ERP says.
	caller := *t.host
	caller.Vouches = append(built.Snapshot.Callers["ap-host"].Vouches, writ.SourceToken)
	world := *built.Snapshot
	world.Callers = map[string]*writ.Caller{"host": &caller, "payments": t.payments}
	holder.Store(&world)
	t.host = &caller
	return t
}

// proposal is a payment that nobody has proposed before.
func (t *till) proposal() *writ.Proposal {
	t.count++
	p := t.scenario.Proposal
	p.RequestID = fmt.Sprintf("r-%d", t.count)
	return &p
}

func (t *till) grant() *pdp.Redemption {
	p := t.proposal()
	a, err := t.pdp.Decide(context.Background(), t.host, p, pdp.Ask{})
	if err != nil || a.Grant().Token == "" {
		t.b.Fatalf("%+v, %v", a.Decision(), err)
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	return &pdp.Redemption{
		Grant: a.Grant().Token, Server: p.Server.ID, Tool: p.Tool, ArgumentsJSON: p.ArgumentsJSON, Principal: p.Principal,
		Attempt: base64.RawURLEncoding.EncodeToString(id[:]),
	}
}

// BenchmarkRedeem measures a redemption by the replica that minted the grant,
// but for its fsync, beside a signature of Ed25519.
func BenchmarkRedeem(b *testing.B) {
	b.Run("redeem", func(b *testing.B) {
		t := newTill(b)
		var ready []*pdp.Redemption
		b.ReportAllocs()
		for b.Loop() {
			if len(ready) == 0 {
				b.StopTimer()
				for range 2000 {
					ready = append(ready, t.grant())
				}
				b.StartTimer()
			}
			r := ready[len(ready)-1]
			ready = ready[:len(ready)-1]
			if a, err := t.pdp.Redeem(context.Background(), t.payments, r); err != nil || !a.MayAct() {
				b.Fatalf("%+v, %v", a.Decision(), err)
			}
		}
	})
	b.Run("sign", func(b *testing.B) {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			b.Fatal(err)
		}
		message := make([]byte, 1200)
		for b.Loop() {
			ed25519.Sign(key, message)
		}
	})
}

// BenchmarkOpenGrants measures the memory of a grant that may yet be redeemed:
// of those that are remembered, and of all where most are not.
func BenchmarkOpenGrants(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				t := newTill(b)
				before := live()
				for range n {
					t.grant()
				}
				b.ReportMetric((live()-before)/float64(n), "B/grant")
				runtime.KeepAlive(t)
			}
		})
	}
}

// live is how many bytes are in use.
func live() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
