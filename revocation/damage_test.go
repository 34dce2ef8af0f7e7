package revocation_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/revocation"
)

// sample makes a closed log of five lines and returns its bytes.
func sample(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	j := mustOpen(t, dir)
	mustAppend(t, j, server("one"))
	mustAppend(t, j, server("two"), revocation.Entry{Kind: revocation.Principal, Issuer: iss, ID: "ann", Until: at(5), Reason: "é"})
	for _, file := range [][]revocation.Entry{{server("three"), server("four")}, {server("four")}} {
		if _, err := j.Import(file); err != nil {
			t.Fatal(err)
		}
	}
	mustAppend(t, j, revocation.Entry{Kind: revocation.Server, ID: "one", Lift: true})
	mustClose(t, j)
	data, err := os.ReadFile(journalFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sealed is a line with the right sum.
func sealed(rest string) string {
	return fmt.Sprintf(`{"sum":"%08x",%s`, crc32.Checksum([]byte(rest), crc32.MakeTable(crc32.Castagnoli)), rest) + "\n"
}

func TestJournalSum(t *testing.T) {
	// The check value of CRC-32C: RFC 3720, appendix B.4 (32 bytes of zeros, least significant byte first: aa 36 91 8a).
	if got := crc32.Checksum(make([]byte, 32), crc32.MakeTable(crc32.Castagnoli)); got != 0x8a9136aa {
		t.Errorf("%08x", got)
	}
	line := revocation.AppendLine(nil, []revocation.Entry{{Sequence: 1, Kind: revocation.Token, Issuer: iss, ID: "j", Reason: "r", RecordedAt: at(1)}}, nil)
	if want := sealed(`"entries":[{"sequence":1,"kind":"token","issuer":"https://login.acme.example","id":"j","reason":"r","recorded_at":"2026-01-01T00:00:01Z"}]}`); string(line) != want {
		t.Errorf("got  %swant %s", line, want)
	}
}

func TestJournalDamageIsRefused(t *testing.T) {
	data := sample(t)
	lines := slices.Collect(bytes.Lines(data))
	if len(lines) != 5 {
		t.Fatalf("%d lines", len(lines))
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	text := func(s string) []byte { return []byte(s) }
	first := `"entries":[{"sequence":1,"kind":"server","id":"a"}]}`
	damaged := map[string]struct {
		data []byte
		line int
	}{
		"first line missing":      {join(lines[1:]...), 1},
		"middle line missing":     {join(lines[0], lines[2], lines[3], lines[4]), 2},
		"line repeated":           {join(lines[0], lines[1], lines[1], lines[2], lines[3], lines[4]), 3},
		"last line repeated":      {join(data, lines[4]), 6},
		"lines swapped":           {join(lines[0], lines[2], lines[1], lines[3], lines[4]), 2},
		"empty line":              {join(lines[0], text("\n"), lines[1], lines[2], lines[3], lines[4]), 2},
		"empty line at the end":   {join(data, text("\n")), 6},
		"carriage returns":        {bytes.ReplaceAll(data, text("\n"), text("\r\n")), 1},
		"line in the middle torn": {join(lines[0], lines[1][:50], lines[2], lines[3], lines[4]), 2},
		"zeros in the middle":     {join(lines[0], make([]byte, 100), text("\n"), lines[1], lines[2], lines[3], lines[4]), 2},
		"something before it":     {join(text("x\n"), data), 1},
		"byte order mark":         {join(text("\ufeff"), data), 1},
		"gone twice":              {join(data, text(sealed(`"gone":[4]}`))), 6},
		"gone, but not imported":  {join(data, text(sealed(`"gone":[1]}`))), 6},
		"gone, but not there":     {join(data, text(sealed(`"gone":[99]}`))), 6},
		"gone nothing":            {join(data, text(sealed(`"gone":[0]}`))), 6},
		"nothing":                 {text(sealed(`}`)), 1},
		"unknown member":          {text(sealed(`"entries":[{"sequence":1,"kind":"server","id":"a","more":1}]}`)), 1},
		"unknown member outside":  {text(sealed(`"entries":[{"sequence":1,"kind":"server","id":"a"}],"more":1}`)), 1},
		"duplicate member":        {text(sealed(`"entries":[{"sequence":1,"kind":"server","id":"a","id":"b"}]}`)), 1},
		"member in capitals":      {text(sealed(`"entries":[{"sequence":1,"Kind":"server","id":"a"}]}`)), 1},
		"a space":                 {text(sealed(`"entries": [{"sequence":1,"kind":"server","id":"a"}]}`)), 1},
		"null":                    {text(sealed(`"entries":[{"sequence":1,"kind":"server","issuer":null,"id":"a"}]}`)), 1},
		"another order":           {text(sealed(`"entries":[{"kind":"server","sequence":1,"id":"a"}]}`)), 1},
		"another spelling":        {text(sealed(`"entries":[{"sequence":1,"kind":"server","id":"\u0061"}]}`)), 1},
		"a time not in UTC":       {text(sealed(`"entries":[{"sequence":1,"kind":"server","id":"a","until":"2026-01-01T01:00:00+01:00"}]}`)), 1},
		"unknown kind":            {text(sealed(`"entries":[{"sequence":1,"kind":"serfer","id":"a"}]}`)), 1},
		"no id":                   {text(sealed(`"entries":[{"sequence":1,"kind":"server","id":""}]}`)), 1},
		"sequence 0":              {text(sealed(`"entries":[{"sequence":0,"kind":"server","id":"a"}]}`)), 1},
		"sequence 2 first":        {text(sealed(`"entries":[{"sequence":2,"kind":"server","id":"a"}]}`)), 1},
		"a gap within a line":     {text(sealed(`"entries":[{"sequence":1,"kind":"server","id":"a"},{"sequence":3,"kind":"server","id":"a"}]}`)), 1},
		"something after it":      {text(sealed(first + "x")), 1},
		"two on a line":           {text(sealed(first + first)), 1},
		"not JSON":                {text(sealed(`"entries":[{"sequence":1,"kind":"server"`)), 1},
	}
	for i := 0; i < len(data)-1; i += 7 {
		changed := bytes.Clone(data)
		changed[i] ^= 0x04
		damaged[fmt.Sprintf("byte %d changed", i)] = struct {
			data []byte
			line int
		}{changed, 0}
	}
	for name, c := range damaged {
		dir := t.TempDir()
		if err := os.WriteFile(journalFile(dir), c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := revocation.OpenJournal(dir)
		if err == nil {
			mustClose(t, j)
			t.Errorf("%s: was opened with %d entries", name, j.View().Len())
			continue
		}
		where := fmt.Sprintf("line %d ", c.line)
		if c.line == 0 {
			where = "line "
		}
		if !strings.Contains(err.Error(), journalFile(dir)) || !strings.Contains(err.Error(), where) {
			t.Errorf("%s: the error does not say where (%s): %v", name, where, err)
		}
		if after, err := os.ReadFile(journalFile(dir)); err != nil || !bytes.Equal(after, c.data) {
			t.Errorf("%s: a refused log was changed", name)
		}
	}
	// What the sealed lines deviate from is accepted.
	dir := t.TempDir()
	if err := os.WriteFile(journalFile(dir), text(sealed(first)), 0o600); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, dir))
}

// A torn last line, wherever it is torn, is cut and reported, and the log goes
// on in its place.
func TestJournalTorn(t *testing.T) {
	data := sample(t)
	lines := slices.Collect(bytes.Lines(data))
	whole := data[:len(data)-len(lines[4])]
	for n := range len(lines[4]) {
		dir := t.TempDir()
		if err := os.WriteFile(journalFile(dir), append(bytes.Clone(whole), lines[4][:n]...), 0o600); err != nil {
			t.Fatal(err)
		}
		j := mustOpen(t, dir)
		if j.Recovered() != int64(n) || j.View().Sequence() != 5 || !revoked(j.View(), "one") {
			t.Fatalf("torn after %d bytes: %d cut, sequence %d", n, j.Recovered(), j.View().Sequence())
		}
		if n%10 == 0 {
			mustAppend(t, j, server("next"))
		}
		mustClose(t, j)
		j = mustOpen(t, dir)
		if j.Recovered() != 0 || (j.View().Sequence() == 6) != (n%10 == 0) {
			t.Fatalf("torn after %d bytes: on the next start %d cut, sequence %d", n, j.Recovered(), j.View().Sequence())
		}
		mustClose(t, j)
	}
}

// FuzzJournal holds the reader to this: what it accepts is exactly what the
// writer writes, and is a log.
func FuzzJournal(f *testing.F) {
	f.Add(sample(f), false)
	f.Add([]byte{}, false)
	f.Add([]byte(`"entries":[{"sequence":1,"kind":"server","id":"a"}]}`), true)
	f.Add([]byte(`"entries":[{"sequence":1,"kind":"token","issuer":"i","id":"a","issued_before":"2026-01-01T00:00:00.5Z","imported":true}]}`+"\n"+`"gone":[1]}`), true)
	f.Add([]byte(`"entries":[{"sequence":1,"kind":"server","id":"a","lift":true,"reason":"\"\n\\"}]}`), true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal { // get past the sum
			var lines []byte
			for line := range bytes.SplitSeq(data, []byte("\n")) {
				lines = append(lines, sealed(string(line))...)
			}
			data = lines
		}
		entries, left, size, err := revocation.ReadJournal(data)
		if err != nil {
			if entries != nil || left != nil || !strings.HasPrefix(err.Error(), "line ") {
				t.Fatalf("%d entries and %v", len(entries), err)
			}
			return
		}
		if int(size) > len(data) || size > 0 && data[size-1] != '\n' || bytes.ContainsRune(data[size:], '\n') {
			t.Fatalf("%d of %d bytes are whole", size, len(data))
		}
		if _, err := revocation.New(entries); err != nil {
			t.Fatalf("entries that are no log: %v", err)
		}
		// Written again line by line, it is the same file.
		var again []byte
		for line := range bytes.Lines(data[:size]) {
			one, gone := lineOf(t, line)
			again = revocation.AppendLine(again, one, gone)
		}
		if !bytes.Equal(again, data[:size]) {
			t.Fatalf("got  %s\nwant %s", again, data[:size])
		}
		for n := range left {
			if n == 0 || n > uint64(len(entries)) || !entries[n-1].Imported {
				t.Fatalf("%d has gone", n)
			}
		}
	})
}
