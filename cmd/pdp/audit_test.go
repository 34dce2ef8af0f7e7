package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/writ-pdp/writ/audit/segment"
)

// TestRecordsIn: the end is found in the newest segment, whatever its size, and
// without an unfinished record.
func TestRecordsIn(t *testing.T) {
	if _, err := recordsIn(filepath.Join(t.TempDir(), "nowhere")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--data") {
		t.Errorf("without a log: %v", err)
	}
	for _, tc := range []struct {
		first, lines uint64 // of the newest segment; the one before is not looked at
		torn         string
	}{{0, 0, ""}, {0, 1, ""}, {0, 0, `{"v":1,"ind`}, {7, 0, ""}, {7, 3, `{"v":1,"index":10,"x":1}`}, {12_345, 60_000, ""}, {12_345, 60_000, `{"v":1`}} {
		dir := t.TempDir()
		var b []byte
		for i := range tc.lines {
			b = fmt.Appendf(b, "{\"v\":1,\"index\":%d,%s}\n", tc.first+i, strings.Repeat("x", int(i%97)))
		}
		for _, file := range []struct {
			name string
			data []byte
		}{{segment.Name(0), nil}, {segment.Name(tc.first), append(b, tc.torn...)}} { // they may be one
			if err := os.WriteFile(filepath.Join(dir, file.name), file.data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := recordsIn(dir); err != nil || n != tc.first+tc.lines {
			t.Errorf("%+v: %d records, %v", tc, n, err)
		}
	}
}

// TestLogLine: what people wrote can't move the cursor of who reads it, and
// can't hide.
func TestLogLine(t *testing.T) {
	r := logLine{Kind: "decision", Outcome: "DENY", Code: "C", Server: "s", Tool: "t", Subject: "a\x1b[2K\nb\u009b\u202ec\u200bd é☂", ID: "d", Caller: "h"}
	if line := r.String(); !strings.Contains(line, "DENY C  s/t for a\uFFFD[2K\uFFFDb\uFFFD\uFFFDc\uFFFDd é☂  d by h") {
		t.Errorf("%q", line)
	}
}

// capture sets a variable to what a pattern's group matches in a file: capture
// NAME PATTERN FILE.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: capture NAME PATTERN FILE")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	text := ts.ReadFile(args[2])
	found := pattern.FindStringSubmatch(text)
	if len(found) != 2 {
		ts.Fatalf("%s does not match one group of %s:\n%s", args[2], args[1], text)
	}
	ts.Setenv(args[0], found[1])
}

// flip changes a bit of the last character of a text that a file has once: flip
// TEXT FILE.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip TEXT FILE")
	}
	file := ts.MkAbs(args[1])
	data, err := os.ReadFile(file)
	ts.Check(err)
	if n := bytes.Count(data, []byte(args[0])); n != 1 {
		ts.Fatalf("%s has %q %d times", file, args[0], n)
	}
	data[bytes.Index(data, []byte(args[0]))+len(args[0])-1] ^= 1
	ts.Check(os.WriteFile(file, data, 0o600))
}
