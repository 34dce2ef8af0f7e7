package main

import (
	"bytes"
	"os"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

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
