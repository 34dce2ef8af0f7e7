package canon_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/writ-pdp/writ/canon"
)

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("did not panic")
		}
	}()
	f()
}

func TestAppend(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "null"},
		{true, "true"},
		{false, "false"},
		{"a", `"a"`},
		{json.Number("1.5"), "1.5"},
		{7, "7"},
		{-(1 << 53), "-9007199254740992"},
		{[]string{"b", "a"}, `["b","a"]`},
		{[]string(nil), "[]"},
		{[]any(nil), "[]"},
		{map[string]any(nil), "{}"},
		{map[string]any{"b": []any{1, nil}, "a": map[string]any{"y": "", "x": []string{"q"}}}, `{"a":{"x":["q"],"y":""},"b":[1,null]}`},
	} {
		if got := string(canon.Append([]byte("x"), c.v)); got != "x"+c.want {
			t.Errorf("%#v: got %s, want x%s", c.v, got, c.want)
		}
	}
	for _, v := range []any{1.5, int64(1), []int{1}, map[string]string{}, struct{}{}, []byte("x"), math.MaxInt, math.MinInt, 1<<53 + 1} {
		mustPanic(t, func() { canon.Append(nil, v) })
	}
}

func TestAppendString(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r < 0x300; r++ {
		all.WriteRune(r)
	}
	for _, s := range []string{"", "plain", all.String(), "\u2028\u2029\ufeff\U0010ffff", `"\`, "\x7f", "tail\n", "\x00"} {
		want, err := jsontext.AppendQuote(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		if got := canon.AppendString(nil, s); string(got) != string(want) {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
	// Different bytes never come out the same, and what is not UTF-8 comes
	// out as no JSON.
	seen := map[string]bool{}
	for _, s := range []string{"a\xff", "a\xfe", "a\ufffd", "a\xed\xa0\x80", `a\ufffd`} {
		out := string(canon.AppendString(nil, s))
		if seen[out] {
			t.Errorf("%q comes out like another", s)
		}
		seen[out] = true
		if got := jsontext.Value(out).IsValid(); got != (s == "a\ufffd" || s == `a\ufffd`) {
			t.Errorf("%q: valid JSON: %v", s, got)
		}
	}
}

// RFC 8785, section 3.2.3: names sort by UTF-16 code units.
func TestOrder(t *testing.T) {
	names := []string{"", "a", "A", "ab", "a\x00", "é", "e", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\ufb33", "\uffff", "\U00010000", "\U0001f600", "\U0010ffff",
		"a\uffff", "a\U00010000", "a\ue000b", "a\U00010000b", "\U00010000\uffff", "\U00010000\U00010000", "zz", "z\u00e9", "€", "\r", "1", "10", "2"}
	m := map[string]any{}
	for _, n := range names {
		m[n] = nil
	}
	slices.SortFunc(names, func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	want := []byte{'{'}
	for i, n := range names {
		if i > 0 {
			want = append(want, ',')
		}
		want, _ = jsontext.AppendQuote(want, n)
		want = append(want, ":null"...)
	}
	want = append(want, '}')
	if got := canon.Append(nil, m); string(got) != string(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAppendPointer(t *testing.T) {
	// RFC 6901, section 5.
	for token, want := range map[string]string{"foo": "/foo", "": "/", "a/b": "/a~1b", "m~n": "/m~0n", "~1": "/~01", "c%d": "/c%d", " ": "/ "} {
		if got := string(canon.AppendPointer(nil, token)); got != want {
			t.Errorf("%q: got %s, want %s", token, got, want)
		}
	}
	if got := string(canon.AppendPointer([]byte("/a"), "b")); got != "/a/b" {
		t.Errorf("got %s", got)
	}
}
