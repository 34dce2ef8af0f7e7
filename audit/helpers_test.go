package audit_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/audit/verifytest"
)

// line is what these tests look at in a record.
type line struct {
	Version     int    `json:"v"`
	Index       uint64 `json:"index"`
	Kind        string `json:"kind"`
	ID          string `json:"id"`
	Explanation string `json:"explanation"`
	segment     string // the file that it is in
}

// segments returns the paths of a log's segments.
func segments(t testing.TB, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "segments", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// firstSegment is the path of a log's first segment.
func firstSegment(dir string) string {
	return filepath.Join(dir, "segments", "00000000000000000000.jsonl")
}

// readLines reads all records by the package comment's rules, and checks their
// indexes.
func readLines(t testing.TB, dir string) []line {
	t.Helper()
	var lines []line
	for _, path := range segments(t, dir) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%020d.jsonl", len(lines)); filepath.Base(path) != want {
			t.Fatalf("a segment is named %s, want %s", filepath.Base(path), want)
		}
		for text := range strings.SplitAfterSeq(string(data), "\n") {
			if text == "" {
				break
			}
			l := line{segment: filepath.Base(path)}
			if err := json.Unmarshal([]byte(text), &l); err != nil || !strings.HasSuffix(text, "}\n") {
				t.Fatalf("%s: line %d: %v: %.500q", path, len(lines), err, text)
			}
			if want := fmt.Sprintf(`{"v":1,"index":%d,"time":"`, len(lines)); !strings.HasPrefix(text, want) {
				t.Fatalf("%s: a line begins %.60s, want %s", path, text, want)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// verify has a second implementation verify a log that is closed, or open and
// at rest.
func verify(t testing.TB, dir string) *verifytest.Log {
	t.Helper()
	verifier, err := os.ReadFile(filepath.Join(dir, "verifier"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := verifytest.Verify(dir, strings.TrimSpace(string(verifier)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// readLog returns the records of a closed log, which must verify and be wholly
// under its checkpoint.
func readLog(t testing.TB, dir string) []line {
	t.Helper()
	lines := readLines(t, dir)
	if v := verify(t, dir); v.Size != uint64(len(lines)) || v.Unfinished != 0 {
		t.Fatalf("the checkpoint is over %d of %d records, and %d bytes follow them", v.Size, len(lines), v.Unfinished)
	}
	return lines
}

// ids returns the ids in the order of the log.
func ids(lines []line) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.ID)
	}
	return out
}

func decision(id string) audit.Record {
	return audit.Record{
		Time: time.Date(2031, 4, 1, 12, 0, 0, 0, time.UTC), Kind: audit.KindDecision, ID: id,
		Outcome: writ.Allow, Code: writ.CodeAllow, Caller: "host-1", Server: "payments", Tool: "create_payment",
	}
}

// big is a decision whose record has about 60,000 bytes.
func big(id string) audit.Record {
	r := decision(id)
	r.Explanation = strings.Repeat("x", 60_000)
	return r
}

func mustOpenWith(t testing.TB, cfg audit.Config, wrap func(audit.Device) audit.Device) *audit.Log {
	t.Helper()
	l, err := audit.OpenWith(cfg, wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func mustOpen(t testing.TB, cfg audit.Config) *audit.Log {
	t.Helper()
	return mustOpenWith(t, cfg, func(d audit.Device) audit.Device { return d })
}

func mustAppend(t testing.TB, l *audit.Log, r audit.Record, durable bool) {
	t.Helper()
	if err := l.Append(t.Context(), r, durable); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t testing.TB, l *audit.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// until waits for what must come true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// faulty stands between a log and its files. Its funcs, where set, see each
// operation first. It is safe for concurrent use.
type faulty struct {
	audit.Device

	mu sync.Mutex // guards the fields below
	// before is told of operations: write, sync, truncate, stat, open, create,
	// place, names, flush, replace. Its error is the operation's.
	before func(op, name string) error
	// write writes in place of the file.
	write func(f audit.File, b []byte) (int, error)
}

func (d *faulty) set(before func(op, name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = before
}

func (d *faulty) fault(op, name string) error {
	d.mu.Lock()
	before := d.before
	d.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(op, name)
}

func (d *faulty) over(under audit.Device) audit.Device {
	d.Device = under
	return d
}

func (d *faulty) Segment(name string, create bool) (audit.File, error) {
	op := "open"
	if create {
		op = "create"
	}
	if err := d.fault(op, name); err != nil {
		return nil, err
	}
	f, err := d.Device.Segment(name, create)
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, d, name}, nil
}

func (d *faulty) InPlace(name string, open fs.FileInfo) error {
	if err := d.fault("place", name); err != nil {
		return err
	}
	return d.Device.InPlace(name, open)
}

func (d *faulty) SyncSegments() error {
	if err := d.fault("names", "segments"); err != nil {
		return err
	}
	return d.Device.SyncSegments()
}

func (d *faulty) Flush(write func() error) error {
	if err := d.fault("flush", "tile"); err != nil {
		return err
	}
	return d.Device.Flush(write)
}

func (d *faulty) Replace(name string, data []byte) error {
	if err := d.fault("replace", name); err != nil {
		return err
	}
	return d.Device.Replace(name, data)
}

type faultyFile struct {
	audit.File
	device *faulty
	name   string
}

func (f *faultyFile) Write(b []byte) (int, error) {
	if err := f.device.fault("write", f.name); err != nil {
		return 0, err
	}
	f.device.mu.Lock()
	write := f.device.write
	f.device.mu.Unlock()
	if write != nil {
		return write(f.File, b)
	}
	return f.File.Write(b)
}

func (f *faultyFile) Sync() error {
	if err := f.device.fault("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.device.fault("truncate", f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Stat() (fs.FileInfo, error) {
	if err := f.device.fault("stat", f.name); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

// rounds returns how many rounds a test of chance has: a few, or as many as
// the environment variable WRIT_KILL_ROUNDS says.
func rounds(t testing.TB, few int) int {
	t.Helper()
	text := os.Getenv("WRIT_KILL_ROUNDS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("WRIT_KILL_ROUNDS: %v", err)
	}
	return n
}
