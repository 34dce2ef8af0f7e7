package entities_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/entities"
)

// decodeCase is one case of testdata/decode.txtar.
type decodeCase struct {
	name string
	json []byte
	want []string
}

func decodeCases(t testing.TB) []decodeCase {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/decode.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var cases []decodeCase
	for i := 0; i+1 < len(archive.Files); i += 2 {
		in, want := archive.Files[i], archive.Files[i+1]
		name, isJSON := strings.CutSuffix(in.Name, ".json")
		if !isJSON || want.Name != name+".want" {
			t.Fatalf("testdata/decode.txtar: %s is followed by %s", in.Name, want.Name)
		}
		c := decodeCase{name: name, json: in.Data}
		for line := range strings.Lines(string(want.Data)) {
			if line = strings.TrimSpace(line); line != "" {
				c.want = append(c.want, line)
			}
		}
		cases = append(cases, c)
	}
	if len(archive.Files)%2 != 0 || len(cases) == 0 {
		t.Fatal("testdata/decode.txtar: want pairs of files")
	}
	return cases
}

func TestDecode(t *testing.T) {
	wantFault := regexp.MustCompile(`^! (\d+:\d+) (.+) \| (.+)$`)
	for _, c := range decodeCases(t) {
		t.Run(c.name, func(t *testing.T) {
			held, faults := entities.Decode("f.json", c.json)
			if len(c.want) == 0 || !strings.HasPrefix(c.want[0], "!") {
				if faults != nil {
					t.Fatalf("faults of a sound file:\n%v", faults)
				}
				var got []string
				for _, h := range held {
					got = append(got, describe(&h))
				}
				if g, w := strings.Join(got, "\n"), strings.Join(c.want, "\n"); g != w {
					t.Errorf("got\n%s\nwant\n%s", g, w)
				}
				return
			}
			if held != nil {
				t.Errorf("a faulty file yields %d entities", len(held))
			}
			for i := range max(len(faults), len(c.want)) {
				switch {
				case i >= len(faults):
					t.Errorf("missing: %s", c.want[i])
				case i >= len(c.want):
					t.Errorf("unexpected: %v", faults[i])
				default:
					m := wantFault.FindStringSubmatch(c.want[i])
					if m == nil {
						t.Fatalf("no fault: %q", c.want[i])
					}
					f := faults[i]
					field := strings.Replace(m[2], "-", "", 1)
					if f.File != "f.json" || fmt.Sprintf("%d:%d", f.Line, f.Column) != m[1] || f.Field != field ||
						f.Severity != writ.Error || !strings.Contains(f.Message, m[3]) {
						t.Errorf("got  %v\nwant %s", f, c.want[i])
					}
				}
			}
		})
	}
}

// describe writes an entity as testdata/decode.txtar does.
func describe(h *entities.Held) string {
	window := func(w entities.Window) string {
		bound := func(t time.Time) string {
			if t.IsZero() {
				return "-"
			}
			return t.Format(time.RFC3339Nano)
		}
		return fmt.Sprintf("[%s %s)", bound(w.From), bound(w.Until))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d:%d %s %s", h.Line, h.Column, h.UID, h.Attributes)
	if h.Tags.Len() > 0 {
		fmt.Fprintf(&b, " tags %s", h.Tags)
	}
	if !h.Window.IsZero() {
		fmt.Fprintf(&b, " valid %s", window(h.Window))
	}
	for i, p := range h.Parents {
		b.WriteString([]string{" in ", ", "}[min(i, 1)])
		b.WriteString(p.UID.String())
		if !p.Window.IsZero() {
			b.WriteString(" " + window(p.Window))
		}
	}
	return b.String()
}

const plain = `{"uid": {"type": "T", "id": "i"}, "attrs": {}, "parents": []}`

// wantOne fails the test unless there is exactly this one fault.
func wantOne(t *testing.T, faults writ.Faults, place, fragment string) {
	t.Helper()
	if len(faults) != 1 {
		t.Fatalf("%d faults, want one with %q:\n%v", len(faults), fragment, faults)
	}
	f := faults[0]
	if got := fmt.Sprintf("%d:%d", f.Line, f.Column); got != place || !strings.Contains(f.Message, fragment) {
		t.Errorf("got %v\nwant it at %s with %q", f, place, fragment)
	}
}

func TestDecodeBytes(t *testing.T) {
	for _, c := range []struct{ name, json, place, want string }{
		{"byte order mark", "\xef\xbb\xbf[]", "1:1", "byte order mark"},
		{"invalid UTF-8 in an id", "[\n{\"attrs\": {}, \"parents\": [], \"uid\": {\"type\": \"T\", \"id\": \"a\xff\"}}]", "2:57", "UTF-8"},
		{"overlong UTF-8 in a value", "[\n{\"attrs\": {\"a\": \"\xc0\xaf\"}, \"parents\": [], \"uid\": {\"type\": \"T\", \"id\": \"a\"}}]", "2:17", "UTF-8"},
		{"surrogate in UTF-8 in a name", "[\n{\"attrs\": {\"\xed\xa0\x80\": 1}, \"parents\": [], \"uid\": {\"type\": \"T\", \"id\": \"a\"}}]", "2:12", "UTF-8"},
		{"invalid UTF-8 beside an escape", "[\n{\"attrs\": {\"a\": \"\\n\xff\"}, \"parents\": [], \"uid\": {\"type\": \"T\", \"id\": \"a\"}}]", "2:17", "UTF-8"},
		{"invalid UTF-8 between tokens", "[\n\xff" + plain + "]", "2:1", "this is not JSON"},
		{"control character in a string", "[\n{\"attrs\": {\"a\": \"\x01\"}}]", "2:18", "this is not JSON"},
		{"NUL after the array", "[]\n\x00", "2:1", "a file is one array"},
		{"carriage returns", "[\r\n" + plain + ",\r\n  7\r\n]", "3:3", "wrong type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			held, faults := entities.Decode("f.json", []byte(c.json))
			if held != nil {
				t.Errorf("%d entities", len(held))
			}
			wantOne(t, faults, c.place, c.want)
		})
	}
}

func entity(attrs, parents string) []byte {
	return []byte(`[{"uid": {"type": "T", "id": "i"}, "attrs": ` + attrs + `, "parents": ` + parents + `}]`)
}

func list(n int, element func(i int) string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(element(i))
	}
	b.WriteByte(']')
	return b.String()
}

func TestDecodeLimits(t *testing.T) {
	number := func(i int) string { return fmt.Sprint(i) }
	parent := func(i int) string { return fmt.Sprintf(`{"type":"G","id":"%d"}`, i) }
	// The file's array is level 1, the entity 2, attrs 3.
	nested := func(levels int) string {
		return strings.Repeat(`{"a":`, levels-3) + "1" + strings.Repeat("}", levels-3)
	}
	for _, c := range []struct {
		name string
		json []byte
		want string // "" for none
	}{
		{"depth 64", entity(`{"a":`+nested(64)+`}`, "[]"), ""},
		{"depth 65", entity(`{"a":`+nested(65)+`}`, "[]"), "nested deeper than 64 levels"},
		{"depth 65 by a set", entity(`{"a":`+strings.Replace(nested(64), "1", "[]", 1)+`}`, "[]"), "nested deeper than 64 levels"},
		{"depth 65 by a reference", entity(`{"a":`+strings.Replace(nested(63), "1", `{"__entity":{"type":"T","id":"i"}}`, 1)+`}`, "[]"), "nested deeper than 64 levels"},
		{"depth 5000", entity(`{"a":`+nested(5000)+`}`, "[]"), "nested deeper than 64 levels"},
		{"1,024 elements", entity(`{"a":`+list(1024, number)+`}`, "[]"), ""},
		{"1,025 elements", entity(`{"a":`+list(1025, number)+`}`, "[]"), "more than 1024 elements"},
		{"5,000 elements", entity(`{"a":`+list(5000, number)+`}`, "[]"), "more than 1024 elements"},
		{"1,024 parents", entity(`{}`, list(1024, parent)), ""},
		{"1,025 parents", entity(`{}`, list(1025, parent)), "more than 1024 parents"},
		{"id of 1,024 bytes", bytes.Replace(entity("{}", "[]"), []byte(`"i"`), []byte(`"`+strings.Repeat("é", 512)+`"`), 1), ""},
		{"id of 1,025 bytes", bytes.Replace(entity("{}", "[]"), []byte(`"i"`), []byte(`"`+strings.Repeat("é", 512)+`e"`), 1), "the id is 1025 bytes long"},
		{"type of 1,025 bytes", bytes.Replace(entity("{}", "[]"), []byte(`"T"`), []byte(`"`+strings.Repeat("T", 1025)+`"`), 1), "the entity type is 1025 bytes long"},
		{"name of 1,024 bytes", entity(`{"`+strings.Repeat("a", 1024)+`": 1}`, "[]"), ""},
		{"name of 1,025 bytes", entity(`{"`+strings.Repeat("a", 1025)+`": 1}`, "[]"), "the attribute's name is 1025 bytes long"},
		// What is read is found to be no JSON; what is too long isn't read.
		{"64 MiB", make([]byte, 64<<20), "this is not JSON"},
		{"a byte over 64 MiB", make([]byte, 64<<20+1), "at most 67108864 (64 MiB) are read. Split it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			held, faults := entities.Decode("f.json", c.json)
			switch {
			case c.want == "" && (faults != nil || len(held) != 1):
				t.Errorf("%d entities, faults:\n%v", len(held), faults)
			case c.want != "" && (len(faults) != 1 || held != nil || !strings.Contains(faults[0].Message, c.want)):
				t.Errorf("%d entities, want one fault with %q, got:\n%v", len(held), c.want, faults)
			}
		})
	}
}

// Every fault is reported, until there are a hundred.
func TestDecodeManyFaults(t *testing.T) {
	faulty := func(int) string { return "\n7" }
	_, faults := entities.Decode("f.json", []byte(list(100, faulty)))
	if len(faults) != 100 {
		t.Errorf("100 faults are reported as %d", len(faults))
	}
	for i, f := range faults {
		if f.Line != i+2 || f.Column != 1 || f.Field != fmt.Sprintf("[%d]", i) {
			t.Errorf("fault %d is at %d:%d %s", i, f.Line, f.Column, f.Field)
		}
	}
	_, faults = entities.Decode("f.json", []byte(list(5000, faulty)))
	if len(faults) != 101 || !strings.Contains(faults[100].Message, "more than 100 faults") {
		t.Errorf("5000 faults are reported as %d, the last: %v", len(faults), faults[len(faults)-1])
	}
}

// The positions in a file without line breaks must not take quadratic time:
// sixteen times as many entities take about sixteen times as long, not 256.
func TestDecodeOneLine(t *testing.T) {
	const element = `{"uid":{"type":"T","id":"%06d"},"attrs":{},"parents":[]}`
	fastest := func(n int) time.Duration {
		data := []byte(list(n, func(i int) string { return fmt.Sprintf(element, i) }))
		best := time.Duration(1<<63 - 1)
		for range 3 {
			begun := time.Now()
			held, faults := entities.Decode("f.json", data)
			best = min(best, time.Since(begun))
			if faults != nil || len(held) != n {
				t.Fatalf("%d entities, %v", len(held), faults)
			}
			if last := held[n-1]; last.Line != 1 || last.Column != 2+(n-1)*len(fmt.Sprintf(element+",", 0)) {
				t.Errorf("the last is at %d:%d", last.Line, last.Column)
			}
		}
		return best
	}
	few, many := fastest(2_000), fastest(32_000)
	if many > 100*few {
		t.Errorf("2,000 entities take %v, 32,000 take %v", few, many)
	}
}

// What Decode returns doesn't change with the bytes that it read.
func TestDecodeCopies(t *testing.T) {
	data := []byte(`[{"uid": {"type": "User", "id": "ann"}, "attrs": {"a": "b", "c": {"d": ["e"]}}, "tags": {"f": "g"},
		"parents": [{"type": "Group", "id": "h"}]}]`)
	held, faults := entities.Decode("f.json", data)
	if faults != nil {
		t.Fatal(faults)
	}
	before := describe(&held[0])
	for i := range data {
		data[i] = '#'
	}
	if after := describe(&held[0]); after != before {
		t.Errorf("became %s", after)
	}
}

func TestDecodeExampleOfTheDocumentation(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(doc, []byte("//\t[\n"))
	body, _, ok := bytes.Cut(rest, []byte("//\t]\n"))
	if !ok {
		t.Fatal("doc.go shows no file")
	}
	file := "[\n" + strings.ReplaceAll(string(body), "//\t", "") + "]\n"
	held, faults := entities.Decode("people.json", []byte(file))
	if faults != nil || len(held) != 2 {
		t.Fatalf("%d entities, %v", len(held), faults)
	}
}
