package benchmarks

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
)

// staff is the payment bundle with n more users in files of perFile each, every
// user in three of 2,000 groups: hardly two are in the same three. Groups lie in
// 50 departments.
func staff(n, perFile int) map[string]string {
	files := maps.Clone(paymentFiles)
	var b strings.Builder
	b.WriteString("[")
	for i := range 50 {
		fmt.Fprintf(&b, `{"uid":{"type":"Group","id":"department-%d"},"attrs":{},"parents":[]},`+"\n", i)
	}
	for i := range 2000 {
		fmt.Fprintf(&b, `{"uid":{"type":"Group","id":"group-%d"},"attrs":{},"parents":[{"type":"Group","id":"department-%d"}]},`+"\n", i, i%50)
	}
	files["entities/groups.json"] = strings.TrimSuffix(b.String(), ",\n") + "]"
	for first := 0; first < n; first += perFile {
		b.Reset()
		for i := first; i < min(first+perFile, n); i++ {
			b.WriteString(user(i, i*7919))
		}
		files[fmt.Sprintf("entities/users/%05d.json", first/perFile)] = "[" + strings.TrimSuffix(b.String(), ",\n") + "]"
	}
	return files
}

func user(i, groups int) string {
	return fmt.Sprintf(`{"uid":{"type":"User","id":"user-%07d"},"attrs":{"tenant":"acme"},"parents":[`+
		`{"type":"Group","id":"group-%d"},{"type":"Group","id":"group-%d"},{"type":"Group","id":"group-%d"}]},`+"\n",
		i, groups%666, 666+groups/666%666, 1332+groups/7%666)
}

func write(tb testing.TB, dir string, files map[string]string) {
	tb.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// reread reads a bundle's directory, and keeps the content of what the
// previous bundle doesn't have.
func reread(tb testing.TB, dir string, names []string, previous *bundle.Bundle) []bundle.File {
	tb.Helper()
	files := make([]bundle.File, 0, len(names))
	var buffer bytes.Buffer
	for _, name := range names {
		read := func() ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) }
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			tb.Fatal(err)
		}
		buffer.Reset()
		_, err = buffer.ReadFrom(f)
		f.Close()
		if err != nil {
			tb.Fatal(err)
		}
		kept, ok := previous.Kept(name, sha256.Sum256(buffer.Bytes()), read)
		if !ok {
			kept = bundle.File{Name: name, Data: bytes.Clone(buffer.Bytes())}
		}
		files = append(files, kept)
	}
	return files
}

// heapPeak watches the heap, garbage included, until stop.
type heapPeak struct {
	quit, done chan struct{}
	peak       uint64
}

func watchHeap() *heapPeak {
	p := &heapPeak{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for {
			p.peak = max(p.peak, heapNow())
			select {
			case <-p.quit:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return p
}

func (p *heapPeak) stop() uint64 {
	close(p.quit)
	<-p.done
	return p.peak
}

func heapNow() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func settled() uint64 {
	runtime.GC()
	runtime.GC()
	return heapNow()
}

// reload is a big bundle and a change of it.
type reload struct {
	name   string
	files  func() map[string]string
	file   string // that changes
	change func(text string, round int) string
}

// newUser replaces the first user of a file.
func newUser(text string, round int) string {
	_, rest, _ := strings.Cut(text, "\n")
	return fmt.Sprintf(`[{"uid":{"type":"User","id":"user-new-%d"},"attrs":{},"parents":[{"type":"Group","id":"group-1"}]},`+"\n", round) + rest
}

// otherDepartment moves a group, and so some 1,500 users of a million.
func otherDepartment(text string, round int) string {
	const group = `"id":"group-7"},"attrs":{},"parents":[{"type":"Group","id":"department-`
	return strings.Replace(text, group+`7"}]`, fmt.Sprintf(group+`%d"}]`, 8+round%2), 1)
}

func newPolicy(text string, round int) string {
	return text + fmt.Sprintf("@id(\"new-%d\") @code(\"NEW\")\nforbid (principal, action == Action::\"s1/t1\", resource) when { context.arguments.amount.greaterThan(decimal(\"1.0\")) };\n", round)
}

var reloads = []reload{
	{"1000000Entities/user", func() map[string]string { return staff(1_000_000, 1_000) }, "entities/users/00500.json", newUser},
	{"1000000Entities/group", func() map[string]string { return staff(1_000_000, 1_000) }, "entities/groups.json", otherDepartment},
	{"10000Policies/file=1000", func() map[string]string { return crowd(2_000, 10_000) }, "policies/crowd5.cedar", newPolicy},
	{"10000Policies/file=100", func() map[string]string { return parted(crowd(2_000, 10_000)) }, "policies/crowd5-300.cedar", newPolicy},
	{"10000Policies100000Entities/user", func() map[string]string {
		files := crowd(2_000, 10_000)
		maps.Copy(files, staff(100_000, 1_000))
		return files
	}, "entities/users/00050.json", newUser},
}

// parted puts a hundred policies of a crowd in each file.
func parted(files map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range files {
		lines := strings.SplitAfter(text, ";\n")
		if !strings.HasPrefix(name, "policies/crowd") {
			out[name] = text
			continue
		}
		for i := 0; i < len(lines); i += 100 {
			out[fmt.Sprintf("%s-%d.cedar", strings.TrimSuffix(name, ".cedar"), i)] = strings.Join(lines[i:min(i+100, len(lines))], "")
		}
	}
	return out
}

// BenchmarkReload is one change of a big bundle: reading its directory and
// building the next bundle from the one before. peak/steady is the highest
// heap, garbage included, over the heap before; grown is what stays of it
// after all rounds.
func BenchmarkReload(b *testing.B) {
	for _, c := range reloads {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			files := c.files()
			write(b, dir, files)
			names, text := slices.Sorted(maps.Keys(files)), files[c.file]
			files = nil
			build := func(previous *bundle.Bundle) *bundle.Bundle {
				next, faults := bundle.Build(reread(b, dir, names, previous), previous)
				if next == nil {
					b.Fatal(faults)
				}
				return next
			}
			round := 0
			change := func() {
				write(b, dir, map[string]string{c.file: c.change(text, round)})
				round++
			}
			begun := time.Now()
			last := build(nil)
			first := time.Since(begun)
			change()
			last = build(last)
			steady, most := settled(), 0.0
			for b.Loop() {
				b.StopTimer()
				change()
				before := settled()
				peak := watchHeap()
				b.StartTimer()
				last = build(last)
				b.StopTimer()
				most = max(most, float64(peak.stop())/float64(before))
				b.StartTimer()
			}
			grown := float64(settled()) / float64(steady)
			caller, p := payment(last.Snapshot)
			if d := decide.Decide(last.Snapshot, caller, p, now, nil); d.Code != writ.CodeAllow {
				b.Fatalf("%s: %s", d.Code, d.Explanation)
			}
			b.ReportMetric(first.Seconds(), "first-s")
			b.ReportMetric(float64(steady)/(1<<20), "steady-MB")
			b.ReportMetric(most, "peak/steady")
			b.ReportMetric(grown, "grown")
		})
	}
}
