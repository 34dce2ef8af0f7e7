package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRatios(t *testing.T) {
	r := newResult(Load{}, []Round{{10, 15, 30, 10, 18}, {10, 17, 20, 17, 17}, {20, 90, 42, 75, 99}})
	if r.Read != (Ratio{1.7, 1.5, 4.5}) || r.Write != (Ratio{2.1, 2, 3}) || r.Log != (Ratio{1.2, 1, 1.5}) || r.Token != (Ratio{1.1, 1, 1.2}) {
		t.Errorf("read %v, write %v, log %v, token %v", r.Read, r.Write, r.Log, r.Token)
	}
	if r := newResult(Load{}, []Round{{10, 15, 30, 0, 0}, {10, 17, 20, 0, 0}}); r.Read.Median != 1.6 || r.Write.Median != 2.5 || r.Log != (Ratio{}) || r.Token != (Ratio{}) {
		t.Errorf("of two rounds, without a server that has no log: read %v, write %v, log %v", r.Read, r.Write, r.Log)
	}
}

func TestWorse(t *testing.T) {
	committed := &Result{Read: Ratio{Median: 1.5}, Write: Ratio{Median: 2}}
	for _, c := range []struct {
		read, write float64
		faults      []string
	}{
		{1.5, 2, nil},
		{1, 1, nil},
		{1.79, 2.39, nil},
		{1.81, 2, []string{"read"}},
		{1.5, 2.41, []string{"write"}},
		{3, 3, []string{"read", "write"}},
	} {
		err := (&Result{Read: Ratio{Median: c.read}, Write: Ratio{Median: c.write}}).worseThan(committed)
		if (err != nil) != (c.faults != nil) {
			t.Errorf("%v, %v: %v", c.read, c.write, err)
		}
		for _, fault := range c.faults {
			if !strings.Contains(err.Error(), "a "+fault) {
				t.Errorf("%v, %v: %v", c.read, c.write, err)
			}
		}
	}
}

// What CI compares with is there, and what is no such thing is refused.
func TestCommitted(t *testing.T) {
	if _, err := readResult("../cpu.json"); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "{}", `{"read":{"median":1.5}}`} {
		file := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readResult(file); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
