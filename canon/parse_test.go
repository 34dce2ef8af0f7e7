package canon_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/writ-pdp/writ/canon"
)

func TestTree(t *testing.T) {
	data := []byte(` {"s":"a\u00e9b","p":"plain","n":[1.50,-0,1e3,12],"o":{},"e":[],"t":true,"f":false,"z":null} `)
	got, err := canon.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	clear(data) // the tree must not notice
	want := map[string]any{
		"s": "aéb", "p": "plain",
		"n": []any{json.Number("1.5"), json.Number("0"), json.Number("1000"), json.Number("12")},
		"o": map[string]any{}, "e": []any{}, "t": true, "f": false, "z": nil,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestErrorPlaces(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, c := range []struct {
		name, text string
		offset     int
		pointer    string
		reason     string
	}{
		{"number", `{"a":1,"b":[1,{"c":1e400}]}`, 19, "/b/1/c", canon.ReasonNumber},
		{"number at the top", ` 1e400`, 1, "", canon.ReasonNumber},
		{"look-alike", `{"a":{"x":1,"X":2}}`, 12, "/a/X", canon.ReasonLookAlike},
		{"look-alike, escaped in the pointer", `{"a/~":[{"ß":1,"SS":2}]}`, 16, "/a~1~0/0/SS", canon.ReasonLookAlike},
		{"surrogate", `{"a":"\ud800"}`, 6, "/a", canon.ReasonSurrogate},
		{"UTF-8", "{\"a\":[1,\"\xff\"]}", 9, "/a/1", canon.ReasonUTF8},
		{"duplicate", `{"a":1,"a":2}`, 7, "/a", canon.ReasonDuplicate},
		{"depth, first element", strings.Repeat("[", 65), 64, strings.Repeat("/0", 64), canon.ReasonDepth},
		{"depth, third element", "[1,2," + strings.Repeat("[", 64) + strings.Repeat("]", 65), 5 + 63, "/2" + strings.Repeat("/0", 63), canon.ReasonDepth},
		{"depth, member", strings.Repeat(`{"a":`, 65), 64 * 5, strings.Repeat("/a", 64), canon.ReasonDepth},
		{"trailing", `{} x`, 2, "", canon.ReasonTrailing},
		{"size", `"` + strings.Repeat("a", canon.MaxSize), canon.MaxSize, "", canon.ReasonSize},
		{"an ancestor instead of a long pointer", `{"a":{"` + long + `":1e400}}`, 610, "/a", canon.ReasonNumber},
		{"the root instead of a long pointer", `{"` + long + `":1e400}`, 605, "", canon.ReasonNumber},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := canon.Parse([]byte(c.text))
			e, ok := errors.AsType[*canon.Error](err)
			if !ok {
				t.Fatalf("got %v, want a *canon.Error", err)
			}
			// The end of what could be read may stand before a separator.
			if near := c.offset - e.Offset; near < 0 || near > 1 || e.Pointer != c.pointer || e.Reason != c.reason {
				t.Errorf("got byte %d, %q, %q\nwant byte %d, %q, %q", e.Offset, e.Pointer, e.Reason, c.offset, c.pointer, c.reason)
			}
		})
	}
}

func TestErrorMessage(t *testing.T) {
	_, err := canon.Parse([]byte("{\"pin\\n\":{\"number\":123456789012345678901}}"))
	want := `JSON: ` + canon.ReasonNumber + `, at "/pin\n/number", byte 19`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	// Neither values nor what stands in the place of one come out again.
	for _, text := range []string{`{"pin":4711471147114711471}`, `{"pin":"4711`, `{"pin":4711 4711}`, `{"pin":"4711\q"}`, `{"pin":[4711e4711]}`, `4711x`, `{"pin":"4711\ud800"}`} {
		if _, err := canon.Parse([]byte(text)); err == nil || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: the error %v must not show the value", text, err)
		}
	}
}

func TestParseObject(t *testing.T) {
	for _, c := range []struct {
		text, reason string
		members      int
	}{
		{"", "", 0},
		{"{}", "", 0},
		{` {"a":1,"b":2}`, "", 2},
		{" ", canon.ReasonEmpty, 0},
		{"[]", canon.ReasonObject, 0},
		{"null", canon.ReasonObject, 0},
		{`"{}"`, canon.ReasonObject, 0},
		{"{", canon.ReasonSyntax, 0},
		{"{}{}", canon.ReasonTrailing, 0},
	} {
		m, err := canon.ParseObject([]byte(c.text))
		if c.reason == "" {
			if err != nil || m == nil || len(m) != c.members {
				t.Errorf("%q: got %v, %v; want %d members", c.text, m, err, c.members)
			}
			continue
		}
		if e, ok := errors.AsType[*canon.Error](err); !ok || e.Reason != c.reason || m != nil {
			t.Errorf("%q: got %v, %v; want %q", c.text, m, err, c.reason)
		}
	}
}

// What one parse leaves behind must not show in the next one.
func TestParsersAreReused(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				n := strconv.Itoa(1000*g + i)
				text := `{"a":[` + n + `,{"b":"` + n + `"}],"c":"\u0041` + n + `"}`
				v, err := canon.Parse([]byte(text))
				if err != nil {
					t.Errorf("%s: %v", text, err)
					return
				}
				want := `{"a":[` + n + `,{"b":"` + n + `"}],"c":"A` + n + `"}`
				if got := string(canon.Append(nil, v)); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				for _, broken := range []string{`[[[1,2,{"a":1,"b":[`, `{"a":[1,2,{"b":1e400}]}`, `{"a":1,"A":2}`, "{}}", "[1,\"\xff\"]"} {
					if v, err := canon.Parse([]byte(broken)); err == nil {
						t.Errorf("%s was read as %v", broken, v)
					}
				}
			}
		})
	}
	wg.Wait()
}

// Objects with many members go other ways than those with few.
func TestWideObjects(t *testing.T) {
	for _, n := range []int{1, 2, 16, 17, 100, 5000} {
		for _, name := range []string{"member", "Member", "mémber"} {
			var b strings.Builder
			b.WriteByte('{')
			for i := range n {
				b.WriteString(`"` + name + strconv.Itoa(i) + `":` + strconv.Itoa(i) + `,`)
			}
			text := b.String()
			v, err := canon.Parse([]byte(text + `"last":0}`))
			if err != nil {
				t.Fatalf("%d %s: %v", n, name, err)
			}
			if got := len(v.(map[string]any)); got != n+1 {
				t.Errorf("%d %s: %d members", n, name, got)
			}
			_, err = canon.Parse([]byte(text + `"` + strings.ToUpper(name) + `0":0}`))
			if e, ok := errors.AsType[*canon.Error](err); !ok || e.Reason != canon.ReasonLookAlike || e.Pointer != "/"+strings.ToUpper(name)+"0" {
				t.Errorf("%d %s: got %v, want a look-alike", n, name, err)
			}
		}
	}
}

const payment = `{"supplier":"acme-gmbh","amount":1250.5,"currency":"EUR","account":"DE89370400440532013000",` +
	`"invoice":"INV-2031-00117","reference":"March consulting, second half","due":"2031-04-30","urgent":false}`

func TestAllocations(t *testing.T) {
	data := []byte(payment)
	v, err := canon.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	// One for the text, one for each value, and the map; the race detector adds
	// some, since it drops pooled decoders at random.
	if n := testing.AllocsPerRun(200, func() { _, _ = canon.Parse(data) }); n > 20 {
		t.Errorf("Parse of a payment's arguments makes %v allocations", n)
	}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(200, func() { canon.Append(buf, v) }); n > 0 {
		t.Errorf("Append into a buffer makes %v allocations", n)
	}
}

func BenchmarkParse(b *testing.B) {
	data := []byte(payment)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canon.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	v, err := canon.Parse([]byte(payment))
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		canon.Append(buf, v)
	}
}
