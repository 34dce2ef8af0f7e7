package audit_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ/audit"
)

// closedLog makes a closed log of so many records, of which each segment has
// ten.
func closedLog(t *testing.T, records int) string {
	t.Helper()
	dir := t.TempDir()
	l := mustOpen(t, audit.Config{Dir: dir, SegmentBytes: 10 * lineBytes, Origin: "example.com/log"})
	for i := range records {
		mustAppend(t, l, decision(fmt.Sprintf("d-%06d", i)), false)
	}
	mustClose(t, l)
	return dir
}

// lineBytes is more than each line of closedLog has, by less than a tenth.
const lineBytes = 180

// crashedLog makes a log of so many records that are on the disk, and under no
// checkpoint, as after a crash.
func crashedLog(t *testing.T, records int) string {
	t.Helper()
	dir := t.TempDir()
	d := &faulty{}
	l := mustOpenWith(t, audit.Config{Dir: dir, Checkpoint: time.Hour}, d.over)
	d.set(func(op, _ string) error {
		if op == "flush" {
			return errOff
		}
		return nil
	})
	for i := range records - 1 {
		mustAppend(t, l, decision(fmt.Sprintf("d-%06d", i)), false)
	}
	mustAppend(t, l, audit.Record{Time: time.Unix(0, 0), Kind: audit.KindStop}, true) // a short one
	l.Kill()
	return dir
}

// clone copies a log's directory.
func clone(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"key", "hmac.key"} {
		if err := os.Chmod(filepath.Join(to, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// contents returns all files below a directory, but for the lock.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == "lock" {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// mustRefuse opens a damaged log, which must fail with an error that says all
// of this, and leave it as it is.
func mustRefuse(t *testing.T, name, dir string, says ...string) {
	t.Helper()
	before := contents(t, dir)
	l, err := audit.Open(audit.Config{Dir: dir})
	if err == nil {
		mustClose(t, l)
		t.Errorf("%s: was opened", name)
		return
	}
	if !regexp.MustCompile("put (it |them )?back|move it away").MatchString(err.Error()) {
		t.Errorf("%s: the error doesn't say what to do: %v", name, err)
	}
	for _, say := range append(says, dir) {
		if !strings.Contains(err.Error(), say) {
			t.Errorf("%s: the error doesn't say %q: %v", name, say, err)
		}
	}
	after := contents(t, dir)
	for path, data := range before {
		if after[path] != data {
			t.Errorf("%s: a refused log was changed: %s", name, path)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%s: a refused log has %d files, and had %d", name, len(after), len(before))
	}
}

func remove(names ...string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		for _, name := range names {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDamageIsRefused(t *testing.T) {
	const (
		second = "segments/00000000000000000010.jsonl"
		third  = "segments/00000000000000000020.jsonl"
	)
	whole := closedLog(t, 25)
	if len(segments(t, whole)) != 3 {
		t.Fatalf("the log has the segments %v", segments(t, whole))
	}
	other := closedLog(t, 25) // of the same name, too
	longer := closedLog(t, 30)
	in := func(name string, change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) { edit(t, filepath.Join(dir, name), change) }
	}
	from := func(log, name string) func(*testing.T, string) {
		return in(name, func([]byte) []byte {
			data, err := os.ReadFile(filepath.Join(log, name))
			if err != nil {
				t.Fatal(err)
			}
			return data
		})
	}
	cutLines := func(n int) func([]byte) []byte {
		return func(data []byte) []byte {
			lines := slices.Collect(bytes.Lines(data))
			return bytes.Join(lines[:len(lines)-n], nil)
		}
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		says   []string
	}{
		"first segment missing":              {remove("segments/00000000000000000000.jsonl"), []string{second, "before 10"}},
		"middle segment missing":             {remove(second), []string{"00000000000000000000.jsonl", "record 19"}},
		"last segment missing":               {remove(third), []string{"record 20 ", "25 records"}},
		"all segments missing":               {remove("segments"), []string{"segments", "25 records"}},
		"first segment cut":                  {in("segments/00000000000000000000.jsonl", cutLines(1)), []string{"00000000000000000000.jsonl", "record 9"}},
		"middle segment cut":                 {in(second, cutLines(2)), []string{second, "record 19"}},
		"middle segment cut in a record":     {in(second, func(b []byte) []byte { return b[:len(b)-1] }), []string{second, "record 19"}},
		"middle segment longer":              {in(second, func(b []byte) []byte { return append(b, b[:10]...) }), []string{second, "record 19"}},
		"middle segment emptied":             {in(second, func([]byte) []byte { return nil }), []string{second, "record"}},
		"shorter than its checkpoint":        {in(third, cutLines(1)), []string{"record 24 ", "25 records"}},
		"torn within its checkpoint":         {in(third, func(b []byte) []byte { return b[:len(b)-1] }), []string{"record 24 ", "25 records"}},
		"zeros within its checkpoint":        {in(third, func(b []byte) []byte { clear(b[len(b)-100:]); return b }), []string{"record 24 ", "25 records"}},
		"a record changed":                   {in(third, func(b []byte) []byte { return bytes.Replace(b, []byte("d-000022"), []byte("d-000099"), 1) }), []string{third, "record 22"}},
		"a record changed, two segments ago": {in("segments/00000000000000000000.jsonl", func(b []byte) []byte { return bytes.Replace(b, []byte("ALLOW"), []byte("allow"), 1) }), []string{"00000000000000000000.jsonl", "record 0"}},
		"a record missing":                   {in(third, func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] }), []string{third, "record 20"}},
		"a record twice": {in(third, func(b []byte) []byte {
			return append(bytes.Clone(b[:bytes.IndexByte(b, '\n')+1]), b...)
		}), []string{third, "record 21"}},
		"carriage returns":          {in(third, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) }), []string{third, "record 20"}},
		"something else behind":     {in(third, func(b []byte) []byte { return append(b, "hello\n"...) }), []string{third, "record 25"}},
		"the first record again":    {in(third, func(b []byte) []byte { return append(b, b[:bytes.IndexByte(b, '\n')+1]...) }), []string{third, "record 25"}},
		"an endless line behind":    {in(third, func(b []byte) []byte { return append(b, bytes.Repeat([]byte("x"), 100_000)...) }), []string{third, "record 25"}},
		"no JSON behind":            {in(third, func(b []byte) []byte { return append(b, "{\"v\":1,\"index\":25,\"time\"}\n"...) }), []string{third, "record 25"}},
		"a foreign file":            {func(t *testing.T, dir string) { writeFile(t, dir, "segments/notes.txt") }, []string{"notes.txt"}},
		"checkpoint missing":        {remove("checkpoint"), []string{"checkpoint", "missing"}},
		"checkpoint of another log": {from(other, "checkpoint"), []string{"checkpoint"}},
		"checkpoint of a longer":    {from(longer, "checkpoint"), []string{"checkpoint"}},
		"checkpoint changed":        {in("checkpoint", func(b []byte) []byte { return bytes.Replace(b, []byte("\n25\n"), []byte("\n24\n"), 1) }), []string{"checkpoint"}},
		"checkpoint empty":          {in("checkpoint", func([]byte) []byte { return nil }), []string{"checkpoint"}},
		"key missing":               {remove("key"), []string{"key"}},
		"verifier missing":          {remove("verifier"), []string{"verifier"}},
		"hmac.key missing":          {remove("hmac.key"), []string{"hmac.key"}},
		"hmac.key cut":              {in("hmac.key", func(b []byte) []byte { return b[:31] }), []string{"hmac.key"}},
		"all keys of another log": {func(t *testing.T, dir string) {
			from(other, "key")(t, dir)
			from(other, "verifier")(t, dir)
		}, []string{"checkpoint"}},
		"tile changed": {in("tile/0/000.p/25", func(b []byte) []byte { b[40] ^= 1; return b }), []string{"tile", "root"}},
		"tile cut":     {in("tile/0/000.p/25", func(b []byte) []byte { return b[:100] }), []string{"tile/0/000.p/25"}},
		"tile missing": {remove("tile/0/000.p/25"), []string{"tile/0/000.p/25"}},
		"tiles missing, a record changed": {func(t *testing.T, dir string) {
			remove("tile")(t, dir)
			in(second, func(b []byte) []byte { return bytes.Replace(b, []byte("d-000012"), []byte("d-000099"), 1) })(t, dir)
		}, []string{"root"}},
	} {
		dir := clone(t, whole)
		c.damage(t, dir)
		mustRefuse(t, name, dir, c.says...)
	}
	// As it was, it is opened.
	mustClose(t, mustOpen(t, audit.Config{Dir: clone(t, whole)}))
	if _, err := audit.Open(audit.Config{Dir: clone(t, whole), Origin: "example.com/other"}); err == nil || !strings.Contains(err.Error(), "example.com/other") {
		t.Errorf("a log was opened under another name: %v", err)
	}
	dir := clone(t, whole)
	from(other, "key")(t, dir)
	if _, err := audit.Open(audit.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "belongs to another log") {
		t.Errorf("a log was opened with another key: %v", err)
	}
}

func writeFile(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Wherever a crash cut the log off behind its checkpoint, it goes on behind the
// last whole record.
func TestTornTailIsCut(t *testing.T) {
	whole := crashedLog(t, 5)
	data, err := os.ReadFile(firstSegment(whole))
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(bytes.Lines(data))
	type torn struct {
		data  []byte
		whole int // records that stay
	}
	zeroed := func(from, to int) []byte {
		changed := bytes.Clone(data)
		clear(changed[from:min(to, len(changed))])
		return changed
	}
	four := len(data) - len(lines[4])
	cases := map[string]torn{
		"zeros at the end":              {append(bytes.Clone(data), make([]byte, 5000)...), 5},
		"many zeros at the end":         {append(bytes.Clone(data), make([]byte, 500_000)...), 5},
		"zeros in place of a record":    {zeroed(four, len(data)), 4},
		"zeros within a record":         {zeroed(four+50, four+60), 4},
		"zeros, and whole records then": {zeroed(len(lines[0])+20, len(lines[0])+40), 1},
		"zeros over several records":    {zeroed(10, four), 0},
		"nothing":                       {nil, 0},
	}
	for i := range len(data) {
		n := bytes.Count(data[:i], []byte("\n"))
		if n == 4 || n == 3 && i%10 == 0 { // each byte of the last record
			cases[fmt.Sprint("cut at byte ", i)] = torn{data[:i], n}
		}
	}
	for name, c := range cases {
		dir := clone(t, whole)
		edit(t, firstSegment(dir), func([]byte) []byte { return c.data })
		l := mustOpen(t, audit.Config{Dir: dir})
		kept := bytes.Join(lines[:c.whole], nil)
		r := l.Recovered()
		if want := int64(len(c.data) - len(kept)); r.Cut != want || (r.File != "") != (want > 0) {
			t.Errorf("%s: recovered %+v, want %d bytes", name, r, want)
		}
		mustAppend(t, l, decision("next"), true)
		mustClose(t, l)
		if got := readLog(t, dir); len(got) != c.whole+1 || got[c.whole].ID != "next" {
			t.Errorf("%s: got %v", name, ids(got))
		}
		again := mustOpen(t, audit.Config{Dir: dir})
		if again.Recovered().Cut != 0 {
			t.Errorf("%s: the cut was not for good", name)
		}
		mustClose(t, again)
	}
}

// What a crash leaves in the middle of a step is cleared away, and told.
func TestLeftovers(t *testing.T) {
	whole := closedLog(t, 300)
	for name, c := range map[string]struct {
		leave string
		want  []string
	}{
		"a checkpoint that was not in place": {"checkpoint.new", []string{"checkpoint.new"}},
		"a segment without a record":         {"segments/00000000000000000300.jsonl", []string{"segments/00000000000000000300.jsonl"}},
		"a tile that was not in place":       {"tile/0/001.p/50.new", []string{"tile/0/001.p/50.new"}},
		"a full tile that was not":           {"tile/0/001.new", []string{"tile/0/001.new"}},
	} {
		dir := clone(t, whole)
		writeFile(t, dir, c.leave)
		l := mustOpen(t, audit.Config{Dir: dir, SegmentBytes: 10 * lineBytes})
		if r := l.Recovered(); !slices.Equal(r.Leftovers, c.want) || r.Cut != 0 {
			t.Errorf("%s: recovered %+v, want %v", name, r, c.want)
		}
		mustAppend(t, l, decision("next"), true)
		mustClose(t, l)
		if n := len(readLog(t, dir)); n != 301 {
			t.Errorf("%s: %d records", name, n)
		}
	}
}

// An empty segment of another place than the end is no leftover.
func TestEmptySegmentElsewhere(t *testing.T) {
	dir := closedLog(t, 25)
	writeFile(t, dir, "segments/00000000000000000030.jsonl")
	mustRefuse(t, "a segment five records on", dir, "00000000000000000020.jsonl", "record 29")
}

// Tiles are derived: without one of them they are made again, if the records
// are those of the checkpoint.
func TestTilesAreMadeAgain(t *testing.T) {
	dir := closedLog(t, 700)
	before := contents(t, dir)
	remove("tile")(t, dir)
	l := mustOpen(t, audit.Config{Dir: dir})
	if !l.Recovered().Tiles {
		t.Error("it isn't told")
	}
	mustAppend(t, l, decision("next"), true)
	mustClose(t, l)
	readLog(t, dir)
	after := contents(t, dir)
	for _, full := range []string{"tile/0/000", "tile/0/001"} {
		if after[full] == "" || after[full] != before[full] {
			t.Errorf("%s is another one", full)
		}
	}
}

// A log that was never begun in full begins anew.
func TestUnfinishedBeginning(t *testing.T) {
	whole := t.TempDir()
	mustClose(t, mustOpen(t, audit.Config{Dir: whole}))
	for name, missing := range map[string][]string{
		"only keys":          {"checkpoint", "segments"},
		"no checkpoint":      {"checkpoint"},
		"only the signing":   {"checkpoint", "segments", "hmac.key"},
		"no verifier":        {"checkpoint", "segments", "hmac.key", "verifier"},
		"nothing":            {"checkpoint", "segments", "hmac.key", "verifier", "key", "lock", "tile"},
		"no segment as yet":  {"segments"},
		"directory, no more": {"checkpoint", "hmac.key", "verifier", "key", "lock", "tile"},
	} {
		dir := clone(t, whole)
		remove(missing...)(t, dir)
		l := mustOpen(t, audit.Config{Dir: dir})
		mustAppend(t, l, decision(name), true)
		mustClose(t, l)
		if got := readLog(t, dir); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRotationBySize(t *testing.T) {
	dir := t.TempDir()
	const limit = 50_000
	for session := range 3 {
		l := mustOpen(t, audit.Config{Dir: dir, SegmentBytes: limit})
		for i := range 200 {
			r := decision(fmt.Sprint(session, "-", i))
			r.Explanation = strings.Repeat("x", i*13%3000)
			mustAppend(t, l, r, i%10 == 0)
		}
		// A record larger than a segment is to be has one of its own.
		mustAppend(t, l, big("big"), false)
		mustClose(t, l)
	}
	readLog(t, dir)
	list := segments(t, dir)
	for i, path := range list {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > limit && bytes.Count(data, []byte("\n")) > 1 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %d bytes and mode %o", path, info.Size(), info.Mode().Perm())
		}
		if info.Size() < limit/2 && i < len(list)-1 && !bytes.Contains(data, []byte(`"big"`)) {
			next, err := os.ReadFile(list[i+1])
			if err != nil || !bytes.Contains(next[:200], []byte(`"big"`)) {
				t.Errorf("%s has %d bytes only", path, info.Size())
			}
		}
	}
}

// By age, whatever the times of the records are.
func TestRotationByAge(t *testing.T) {
	dir := t.TempDir()
	want := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		cfg := audit.Config{Dir: dir, SegmentAge: time.Hour}
		l := mustOpen(t, cfg)
		add := func(segment int, at time.Time) {
			r := decision(fmt.Sprint(len(want)))
			r.Time = at
			mustAppend(t, l, r, true)
			want[r.ID] = segment
		}
		start := time.Now()
		add(0, start)
		time.Sleep(59 * time.Minute)
		add(0, start.Add(-time.Hour))
		time.Sleep(2 * time.Minute)
		add(1, start.Add(-24*time.Hour)) // a clock that was set back
		time.Sleep(50 * time.Minute)
		add(1, start.Add(24*time.Hour))
		time.Sleep(11 * time.Minute)
		add(2, time.Now().Add(24*time.Hour)) // one that runs ahead
		mustClose(t, l)
		// The next process goes by the time of the segment's first record. One in
		// the future is as old as if it were of now.
		l = mustOpen(t, cfg)
		add(2, time.Now())
		time.Sleep(61 * time.Minute)
		add(3, time.Now())
		mustClose(t, l)
		time.Sleep(50 * time.Minute)
		l = mustOpen(t, cfg)
		add(3, time.Now())
		mustClose(t, l)
		time.Sleep(11 * time.Minute)
		l = mustOpen(t, cfg)
		add(4, time.Now())
		mustClose(t, l)
	})
	names := segments(t, dir)
	if len(names) != 5 {
		t.Fatalf("segments %v", names)
	}
	for _, l := range readLog(t, dir) {
		if got := slices.IndexFunc(names, func(s string) bool { return filepath.Base(s) == l.segment }); got != want[l.ID] {
			t.Errorf("record %s is in segment %d, want %d", l.ID, got, want[l.ID])
		}
	}
}

func TestModesAndPlaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "log")
	l := mustOpen(t, audit.Config{Dir: dir})
	mustAppend(t, l, decision("d"), true)
	mustClose(t, l)
	for path, want := range map[string]os.FileMode{
		dir: 0o700, filepath.Dir(dir): 0o700, filepath.Join(dir, "segments"): 0o700, firstSegment(dir): 0o600,
		filepath.Join(dir, "key"): 0o600, filepath.Join(dir, "hmac.key"): 0o600, filepath.Join(dir, "verifier"): 0o644,
		filepath.Join(dir, "checkpoint"): 0o600, filepath.Join(dir, "lock"): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
	}

	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	segment := "segments/00000000000000000000.jsonl"
	replace := func(name string, with func(path string) error) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return with(path)
		}
	}
	for name, prepare := range map[string]func(dir string) error{
		"symbolic link":        replace(segment, func(path string) error { return os.Symlink(elsewhere, path) }),
		"symbolic link inside": replace(segment, func(path string) error { return os.Symlink("other.jsonl", path) }),
		"named pipe":           replace(segment, func(path string) error { return syscall.Mkfifo(path, 0o600) }),
		"directory":            replace(segment, func(path string) error { return os.Mkdir(path, 0o700) }),
		"lock is a link":       replace("lock", func(path string) error { return os.Symlink(elsewhere, path) }),
		"lock is a pipe":       replace("lock", func(path string) error { return syscall.Mkfifo(path, 0o600) }),
		"segments is a file":   replace("segments", func(path string) error { return os.WriteFile(path, nil, 0o600) }),
		"the directory is a file": replace("", func(path string) error {
			return os.WriteFile(path, nil, 0o600)
		}),
		"a key for everybody":       func(dir string) error { return os.Chmod(filepath.Join(dir, "key"), 0o644) },
		"an HMAC key for everybody": func(dir string) error { return os.Chmod(filepath.Join(dir, "hmac.key"), 0o644) },
		"an HMAC key for the group": func(dir string) error { return os.Chmod(filepath.Join(dir, "hmac.key"), 0o640) },
	} {
		dir := t.TempDir()
		mustClose(t, mustOpen(t, audit.Config{Dir: dir}))
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		if l, err := audit.Open(audit.Config{Dir: dir}); err == nil {
			mustClose(t, l)
			t.Errorf("%s: was opened", name)
		}
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a symbolic link out of the directory was followed")
	}
	for _, cfg := range []audit.Config{{}, {Dir: t.TempDir(), SegmentBytes: -1}, {Dir: t.TempDir(), SegmentAge: -1}, {Dir: t.TempDir(), Checkpoint: -1}, {Dir: t.TempDir(), Origin: "two words"}} {
		if l, err := audit.Open(cfg); err == nil {
			mustClose(t, l)
			t.Errorf("%+v: was opened", cfg)
		}
	}
}

// Hands off: while anything else touches the segment, nothing is confirmed, and
// so nothing is answered.
func TestMeddling(t *testing.T) {
	rename := func(path string) error { return os.Rename(path, path+".1") }
	for name, c := range map[string]struct {
		meddle, mend func(path string) error // mend nil: beyond help
	}{
		"moved away": {rename, func(path string) error { return os.Rename(path+".1", path) }},
		"removed":    {os.Remove, nil},
		"replaced": {func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.WriteFile(path, data, 0o600)
		}, nil},
		"emptied": {func(path string) error { return os.Truncate(path, 0) }, nil},
		"written to": {func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString("x")
			return err
		}, func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()-1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				l := mustOpen(t, audit.Config{Dir: dir})
				mustAppend(t, l, decision("before"), true)
				if err := c.meddle(firstSegment(dir)); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := timeout(t, time.Second)
				defer cancel()
				if err := l.Append(ctx, decision("after"), true); err == nil {
					t.Error("a record was confirmed that is not in the log")
				}
				if s := l.State(); s.Condition != audit.Failed || !strings.Contains(s.Err.Error(), firstSegment(dir)) {
					t.Errorf("the state is %+v", s)
				}
				if c.mend == nil {
					if err := l.Close(); err == nil {
						t.Error("Close doesn't say what is lost")
					}
					return
				}
				if err := c.mend(firstSegment(dir)); err != nil {
					t.Fatal(err)
				}
				mustAppend(t, l, decision("mended"), true)
				mustClose(t, l)
				if got := ids(readLog(t, dir)); !slices.Equal(got, []string{"before", "after", "mended"}) {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}
