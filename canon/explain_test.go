package canon_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/writ-pdp/writ/canon"
)

// faulty are texts that are no JSON. § stands before what must be named, and
// is taken out.
var faulty = []struct{ text, reason string }{
	{`{"a":1§,}`, "a comma stands before }: remove it"},
	{`{"a":1 §, }`, "a comma stands before }: remove it"},
	{"[1§,\n  ]", "a comma stands before ]: remove it"},
	{`{"a":{"b":[1,2§,]}}`, "a comma stands before ]: remove it"},
	{`[1,§,2]`, "a comma stands here that separates nothing: remove it"},
	{`[§,1]`, "a comma stands here that separates nothing: remove it"},
	{`{§,"a":1}`, "a comma stands here that separates nothing: remove it"},
	{`{"a":§,"b":1}`, "a value is missing before this comma"},
	{`{"a":§}`, "a value is missing before this }"},
	{`{"a" §1}`, "a colon is missing after the name"},
	{`{"a"§=1}`, "a colon is missing after the name"},
	{`{"a"§}`, "a colon is missing after the name"},
	{`{"a":1 §"b":2}`, "a comma is missing before this"},
	{`[{} §{}]`, "a comma is missing before this"},
	{`[1 §2]`, "a comma is missing before this"},
	{`[1 §true]`, "a comma is missing before this"},
	{"{\n\"a\":[\n1§}", "expected a comma, or ] for the [ of line 2; found }"},
	{`{"a":1§]`, "expected a comma, or } for the { of line 1; found ]"},
	{`{"a":1§;"b":2}`, "expected a comma, or } for the { of line 1; found ;"},
	{`[§}`, "expected a comma, or ] for the [ of line 1; found }"},
	{`{"a":§]`, "expected a comma, or } for the { of line 1; found ]"},
	{`§}`, "this } closes nothing: remove it"},
	{`{§'a':1}`, `a name stands here in double quotes, as in "name": …`},
	{`{§a:1}`, `a name stands here in double quotes, as in "name": …`},
	{`{"b":2,§a:1}`, `a name stands here in double quotes, as in "name": …`},
	{`{§1:1}`, `a name stands here in double quotes, as in "name": …`},
	{`{§“a”:1}`, `a name stands here in double quotes, as in "name": …`},
	{`{"a":§'x'}`, `strings stand in double quotes (")`},
	{`{"a":§“x”}`, `strings stand in double quotes (")`},
	{`{"a":§True}`, "JSON writes it in small letters: true"},
	{`{"a":§FALSE}`, "JSON writes it in small letters: false"},
	{`{"a":§None}`, "JSON writes null for nothing"},
	{`{"a":§nil}`, "JSON writes null for nothing"},
	{`{"a":§NaN}`, "JSON has no number NaN"},
	{`{"a":§nul}`, "nul is no JSON value: strings stand in double quotes"},
	{`{"a":§yes}`, "yes is no JSON value: strings stand in double quotes"},
	{"{\"a\":\"x§\ny\"}", `a line ends inside a string: close the string with ", or write \n`},
	{"{\"a\":\"x§\ty\"}", `a tab stands inside a string: write \t`},
	{"{\"a\":\"x§\x01y\"}", `the character U+0001 stands inside a string: write \u0001`},
	{`{"a":"x§\q"}`, `\q is no escape: write \\ for a backslash`},
	{`{"a":"C:§\dir"}`, `\d is no escape: write \\ for a backslash`},
	{`{"a":0§1}`, "a number has no leading zeros"},
	{`{"a":0§x1}`, "this is no number as JSON writes it"},
	{`[1.5§.2]`, "this is no number as JSON writes it"},
	{`[1.§]`, "this is no number as JSON writes it: a digit is missing here"},
	{`[§+1]`, "a number begins with a digit or with -"},
	{`[§.5]`, "a number begins with a digit or with -"},
	{"[1, §// one\n2]", "JSON has no comments: remove it"},
	{"[1 §/* one */]", "JSON has no comments: remove it"},
	{"§# comment\n{}", "JSON has no comments: remove it"},
	{"[\n{\"a\":1\n§", "the text ends, and the { of line 2 is not closed"},
	{`["a", "b§`, `the text ends inside a string: close it with "`},
	{`tru§`, "the text ends in the middle of a value"},
	{" §", "there is no JSON value"},
	{"§\ufeff{}", "a byte order mark (U+FEFF) stands here: save the file as UTF-8 without one"},
}

func TestExplain(t *testing.T) {
	for _, tt := range faulty {
		at := strings.Index(tt.text, "§")
		text := strings.Replace(tt.text, "§", "", 1)
		offset, reason := canon.Explain([]byte(text))
		if offset != at || reason != tt.reason {
			t.Errorf("%q\n got %d %q\nwant %d %q", text, offset, reason, at, tt.reason)
		}
	}
	for _, text := range []string{`{}`, ` [1, "a", {"b": null}] `, `"x"`, `{"a":1,"a":2}`, "\"\xff\"", `{} {}`} {
		if offset, reason := canon.Explain([]byte(text)); reason != "" || offset != 0 {
			t.Errorf("%q: got %d %q", text, offset, reason)
		}
	}
}

// FuzzExplain: there is a reason exactly for what is no JSON, at a place in
// the text.
func FuzzExplain(f *testing.F) {
	for _, tt := range faulty {
		f.Add([]byte(strings.Replace(tt.text, "§", "", 1)))
	}
	f.Add([]byte(payment))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		_, err := d.ReadValue()
		offset, reason := canon.Explain(data)
		if (reason == "") != (err == nil) {
			t.Errorf("%q: %q, but %v", data, reason, err)
		}
		if offset < 0 || offset > len(data) || len(reason) > 300 {
			t.Errorf("%q: %d %q", data, offset, reason)
		}
	})
}
