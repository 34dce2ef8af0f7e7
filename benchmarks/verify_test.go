//go:build unix

package benchmarks

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/writ-pdp/writ/audit/segment"
	"github.com/writ-pdp/writ/audit/tree"
	"github.com/writ-pdp/writ/audit/tree/treetest"
	"github.com/writ-pdp/writ/audit/verify"
)

// BenchmarkVerifyLog verifies a log of 100,000 records of 1 KiB in four
// segments, with one goroutine that hashes and with one for each processor.
// What a processor does is records/cpu-s: records for each second of the
// process's time on a processor.
func BenchmarkVerifyLog(b *testing.B) {
	const records = 100_000
	l := treetest.New(b)
	for range 4 {
		l.Rotate()
		l.Append(records/4, 1024)
	}
	l.Checkpoint()
	for name, workers := range map[string]int{"one": 1, "all": 0} {
		b.Run(name, func(b *testing.B) {
			before := processTime()
			for b.Loop() {
				r, err := verify.Verify(b.Context(), l.Dir, verify.Options{Verifier: l.Verifier, Workers: workers})
				if err != nil || !r.OK || r.Records != records {
					b.Fatalf("%+v and %v", r, err)
				}
			}
			done := float64(records) * float64(b.N)
			b.ReportMetric(done/b.Elapsed().Seconds(), "records/s")
			if cpu := processTime() - before; cpu > 0 {
				b.ReportMetric(done/cpu.Seconds(), "records/cpu-s")
			}
			b.SetBytes(records * 1025)
		})
	}
}

// processTime returns the time that processors have spent on this process.
func processTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkTree works in a tree of 10,000,000 leaves, made of hashes alone.
func BenchmarkTree(b *testing.B) {
	const size = 10_000_000
	dir := b.TempDir()
	t, err := tree.New(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	old := tree.Checkpoint{Origin: "log.example"}
	for i := range int64(size) {
		t.Append(sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i))))
		if i+1 == size/3 {
			old.Size, old.Root = i+1, t.Root()
		}
	}
	if err := t.Flush(); err != nil {
		b.Fatal(err)
	}
	head := tree.Checkpoint{Origin: old.Origin, Size: t.Size(), Root: t.Root()}

	b.Run("inclusion", func(b *testing.B) {
		index := int64(0)
		for b.Loop() {
			index = (index + 7_777_777) % size
			p, err := tree.ProveInclusion(dir, head, index)
			if err != nil {
				b.Fatal(err)
			}
			if err := tree.VerifyInclusion(head, p); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("consistency", func(b *testing.B) {
		for b.Loop() {
			p, err := tree.ProveConsistency(dir, old.Size, head)
			if err != nil {
				b.Fatal(err)
			}
			if err := tree.VerifyConsistency(old, head, p); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			loaded, err := tree.Load(dir, head)
			if err != nil {
				b.Fatal(err)
			}
			loaded.Close()
		}
	})
}

// BenchmarkTreeGrows appends leaves, and flushes after each thousand: what a
// log of a thousand records a second does.
func BenchmarkTreeGrows(b *testing.B) {
	leaf := tlog.Hash(sha256.Sum256([]byte("leaf")))
	b.Run("append", func(b *testing.B) {
		t, err := tree.New(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		defer func() { t.Close() }()
		b.ReportAllocs()
		for b.Loop() {
			t.Append(leaf)
			if t.Size() == 1<<20 { // or all of b.N would be in memory
				t.Close()
				if t, err = tree.New(b.TempDir()); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("flush", func(b *testing.B) {
		t, err := tree.New(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		defer t.Close()
		for b.Loop() {
			for range 1000 {
				t.Append(leaf)
			}
			if err := t.Flush(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReadRecord reads single records of a segment of 64 MiB.
func BenchmarkReadRecord(b *testing.B) {
	dir := b.TempDir()
	const records = 64 << 10
	f, err := os.Create(filepath.Join(dir, segment.Name(0)))
	if err != nil {
		b.Fatal(err)
	}
	for i := range uint64(records) {
		if _, err := f.Write(append(treetest.Record(i, 1023), '\n')); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	index := uint64(0)
	for b.Loop() {
		index = (index + 7919) % records
		if _, err := segment.ReadRecord(dir, index); err != nil {
			b.Fatal(err)
		}
	}
}
