package revocation_test

import (
	"fmt"
	"testing"

	"github.com/writ-pdp/writ/revocation"
)

// entries makes a log of n principals, tokens and intents; one in ten has a
// window, half are "issued before".
func entries(n int) []revocation.Entry {
	log := make([]revocation.Entry, n)
	for i := range log {
		e := revocation.Entry{Kind: revocation.Principal, Issuer: iss, ID: fmt.Sprintf("user-%06d", i)}
		switch i % 3 {
		case 1:
			e.Kind = revocation.Token
		case 2:
			e.Kind, e.Issuer = revocation.Intent, ""
		}
		if i%2 == 0 {
			e.IssuedBefore = at(1000)
		}
		if i%10 == 0 {
			e.From, e.Until = at(100), at(2000)
		}
		log[i] = e
	}
	return log
}

func BenchmarkRevoked(b *testing.B) {
	const n = 100_000
	spread, one := mustNew(b, entries(n)...), mustNew(b, many(n)...)
	now := at(500)
	ids := make([]string, 1024)
	for i := range ids {
		ids[i] = fmt.Sprintf("user-%06d", i*97%33_000*3) // each third is a principal
	}
	b.Run("Revoked", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, ok := spread.Revoked(revocation.Principal, iss, ids[i&1023], at(0), now); !ok {
				b.Fatal(ids[i&1023])
			}
			i++
		}
	})
	b.Run("NotRevoked", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, ok := spread.Revoked(revocation.Token, iss, ids[i&1023], at(0), now); ok {
				b.Fatal(ids[i&1023])
			}
			i++
		}
	})
	b.Run("OneName", func(b *testing.B) { // 100,000 entries of one name, each with its own window
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := one.Revoked(revocation.Principal, iss, "ann", at(0), now); !ok {
				b.Fatal()
			}
		}
	})
}

func BenchmarkNew(b *testing.B) {
	log := entries(100_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := revocation.New(log); err != nil {
			b.Fatal(err)
		}
	}
}
