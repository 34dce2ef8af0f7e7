package audit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-pdp/writ/audit"
)

// losing is a disk of a machine that loses its power: what was not synced is
// gone then, all or in part.
type losing struct {
	audit.Device
	dir string

	mu    sync.Mutex       // guards the fields below
	left  int              // operations until the machine goes off; 0: more than one sees
	off   bool             // it is off
	gone  chan struct{}    // closed then
	files map[string]int64 // by name, of segments: how much is synced
	names map[string]bool  // made, and the directory not synced since
}

var errOff = errors.New("the machine is off")

func (d *losing) over(under audit.Device) audit.Device {
	d.Device, d.files, d.names, d.gone = under, map[string]int64{}, map[string]bool{}, make(chan struct{})
	return d
}

// do does an operation, all of it before the machine is off or nothing.
func (d *losing) do(operation func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left > 0 {
		if d.left--; d.left == 0 {
			d.off = true
			close(d.gone)
		}
	}
	if d.off {
		return errOff
	}
	return operation()
}

func (d *losing) Segment(name string, create bool) (f audit.File, err error) {
	err = d.do(func() error {
		if f, err = d.Device.Segment(name, create); err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if _, known := d.files[name]; !known {
			d.files[name] = info.Size()
			if create {
				d.names[name] = true
			}
		}
		f = &losingFile{f, d, name}
		return nil
	})
	return f, err
}

func (d *losing) SyncSegments() error {
	return d.do(func() error {
		clear(d.names)
		return d.Device.SyncSegments()
	})
}

func (d *losing) Flush(write func() error) error {
	return d.do(func() error { return d.Device.Flush(write) })
}

func (d *losing) Replace(name string, data []byte) error {
	return d.do(func() error { return d.Device.Replace(name, data) })
}

type losingFile struct {
	audit.File
	device *losing
	name   string
}

func (f *losingFile) Write(b []byte) (n int, err error) {
	err = f.device.do(func() error { n, err = f.File.Write(b); return err })
	return n, err
}

func (f *losingFile) Sync() error {
	return f.device.do(func() error {
		info, err := f.File.Stat()
		if err != nil {
			return err
		}
		f.device.files[f.name] = info.Size()
		return f.File.Sync()
	})
}

func (f *losingFile) Truncate(size int64) error {
	return f.device.do(func() error { return f.File.Truncate(size) })
}

func (f *losingFile) Stat() (info fs.FileInfo, err error) {
	err = f.device.do(func() error { info, err = f.File.Stat(); return err })
	return info, err
}

// crash turns the machine off after so many operations.
func (d *losing) crash(after int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = after
}

// lose makes the directory what may be found when the machine is on again: of
// what was not synced some blocks came through, and the length or not.
func (d *losing) lose(t *testing.T, rng *rand.Rand) {
	t.Helper()
	const block = 512
	for name, synced := range d.files {
		path := filepath.Join(d.dir, name)
		if d.names[name] && rng.IntN(2) == 0 {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		end := int(synced) + rng.IntN(len(data)-int(synced)+1)
		data = data[:end]
		if rng.IntN(2) == 0 {
			for b := (int(synced) + block - 1) / block * block; b < end; b += block {
				if rng.IntN(3) == 0 {
					clear(data[b:min(b+block, end)])
				}
			}
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// load appends from several goroutines, some of it durable, until the log takes
// no more, and returns the ids of what was confirmed.
func load(t *testing.T, l *audit.Log, prefix string, enough int, then func()) map[string]bool {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	confirmed := map[string]bool{}
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				r := decision(fmt.Sprintf("%s-%d-%d", prefix, g, i))
				r.Explanation = strings.Repeat("x", 1+i*37%4000)
				durable := i%3 == 0
				if l.Append(t.Context(), r, durable) != nil {
					return
				}
				if !durable {
					continue
				}
				mu.Lock()
				confirmed[r.ID] = true
				stop := len(confirmed) == enough
				mu.Unlock()
				if stop {
					then()
				}
			}
		})
	}
	wg.Wait()
	return confirmed
}

// checkConfirmed makes sure that all that was confirmed is in the log, and
// nothing twice.
func checkConfirmed(t *testing.T, dir string, confirmed map[string]bool) int {
	t.Helper()
	present := map[string]bool{}
	for _, l := range readLog(t, dir) {
		if present[l.ID] {
			t.Errorf("%s is there twice", l.ID)
		}
		present[l.ID] = true
	}
	for id := range confirmed {
		if !present[id] {
			t.Errorf("%s was confirmed and is not in the log", id)
		}
	}
	return len(present)
}

// TestPowerLoss: whatever was confirmed before the machine went off is in the
// log after it.
func TestPowerLoss(t *testing.T) {
	dir := t.TempDir()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	confirmed := map[string]bool{}
	var cut int64
	total := rounds(t, 20)
	for round := range total {
		d := &losing{dir: dir}
		cfg := audit.Config{Dir: dir, SegmentBytes: 200_000, Checkpoint: time.Duration(1+rng.IntN(50)) * time.Millisecond}
		l, err := audit.OpenWith(cfg, d.over)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		cut += l.Recovered().Cut
		down := make(chan struct{})
		after := 1 + rng.IntN(30)
		off := func() {
			d.crash(after)
			go func() {
				<-d.gone
				l.Kill()
				close(down)
			}()
		}
		for id := range load(t, l, fmt.Sprint(round), 1+rng.IntN(100), off) {
			confirmed[id] = true
		}
		<-down
		d.lose(t, rng)
	}
	l := mustOpen(t, audit.Config{Dir: dir})
	mustClose(t, l)
	n := checkConfirmed(t, dir, confirmed)
	t.Logf("%d rounds (seed %d): %d confirmed, %d in the log, %d bytes cut off", total, seed, len(confirmed), n, cut)
}

// The test binary is its own second process: with this variable set it opens
// the log in the directory that it names, and appends until it is killed.
const childVariable = "WRIT_AUDIT_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child appends durable records from several goroutines, others between them,
// and prints the id of each durable one once it is confirmed.
func child(dir string) error {
	l, err := audit.Open(audit.Config{Dir: dir, SegmentBytes: 300_000, Checkpoint: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				r := decision(fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i))
				r.Explanation = strings.Repeat("x", 1+i%4000)
				durable := i%3 != 0
				if err := l.Append(context.Background(), r, durable); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				if durable {
					if _, err := fmt.Println(r.ID); err != nil {
						os.Exit(1)
					}
				}
			}
		})
	}
	wg.Wait()
	return nil
}

func childCommand(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	return cmd
}

// TestKilled: whatever was confirmed before a kill -9 is in the log after it,
// once, and the log verifies. WRIT_KILL_ROUNDS=500 makes it a long one.
func TestKilled(t *testing.T) {
	var confirmed, present int
	var cut int64
	remade, total := 0, rounds(t, 15)
	for done := 0; done < total; {
		dir := t.TempDir()
		ids := map[string]bool{}
		for ; done < total && len(ids) < 20_000; done++ { // so that reading it all stays quick
			for _, id := range killed(t, dir) {
				ids[id] = true
			}
			l := mustOpen(t, audit.Config{Dir: dir})
			cut += l.Recovered().Cut
			remade += len(l.Recovered().Leftovers)
			mustClose(t, l)
		}
		present += checkConfirmed(t, dir, ids)
		confirmed += len(ids)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rounds: %d confirmed, %d in the logs, %d bytes of unfinished records cut off, %d leftovers", total, confirmed, present, cut, remade)
}

// killed runs a child until it is killed some time after its first record, and
// returns the ids that it printed.
func killed(t *testing.T, dir string) []string {
	t.Helper()
	cmd := childCommand(t, dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	lines := bufio.NewReader(out)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			if err != io.EOF {
				t.Fatal(err)
			}
			break
		}
		if ids = append(ids, strings.TrimSuffix(text, "\n")); len(ids) == 1 {
			time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); len(ids) == 0 || err == nil || stderr.Len() > 0 {
		t.Fatalf("%d records, %v: %s", len(ids), err, stderr.String())
	}
	return ids
}

func TestOneProcessOnly(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, audit.Config{Dir: dir})
	const say = "another process has this log open"
	if second, err := audit.Open(audit.Config{Dir: dir}); err == nil {
		mustClose(t, second)
		t.Error("the log was opened twice")
	} else if !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), dir) {
		t.Errorf("the error is not clear: %v", err)
	}
	out, err := childCommand(t, dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), say) {
		t.Errorf("another process opened it: %v: %s", err, out)
	}
	mustAppend(t, l, decision("still mine"), true)
	mustClose(t, l)
	mustClose(t, mustOpen(t, audit.Config{Dir: dir}))
}
