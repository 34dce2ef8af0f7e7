package bundle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/bundle"
)

// TestSyntax: where a file stops being YAML, and what to do. § stands before
// the place that must be named, and is taken out.
func TestSyntax(t *testing.T) {
	const (
		align   = "the indentation of this line fits none of those above it: align it with the line that it belongs beside"
		deeper  = "this line is indented deeper than the one above it, which has its value already: align it with that line"
		noColon = "a colon is missing in this line: write name: value"
		inside  = `a colon stands inside a value: quote the value, as in about: "note: to self"`
	)
	for _, tt := range []struct{ text, want string }{
		{"name: x§: y\n", inside},
		{"id: notes\nabout: note§: the thing\nx: y\n", inside},
		{"id: notes\nabout: \n  note: of§: the thing\nx: y\n", inside},
		{"cases:\n- name: a§: b\n  expect: ALLOW\n", inside},
		{"id: notes\nprincipal: User::\"dana\"§: x\n", inside},
		{"cases:\n- {name: a§: b, expect: ALLOW}\n", "a colon stands inside a value: quote the value"},

		{"issuers:\n- issuer: a\n  principal: 'x'\n §actor: y\n", align},
		{"id: notes\ntools:\n  a: {effect: read}\n §b: {effect: read}\n", align},
		{"id: notes\ntools:\n  a:\n    effect: read\n   §scope: x\nmore: y\n", align},
		{"id: notes\nendpoint: x\n  §audience: y\n", deeper},
		{"id: notes\ntools:\n  a:\n    effect: read\n     §scope: x\n", deeper},
		{"a: b\n\n\n   §c: d\n", deeper},
		{"id: notes\n§- x\n", "this item belongs to no list: align it with the item before, or put it below a name"},
		{"a:\n  - b\n §- c\n", "this item belongs to no list: align it with the item before, or put it below a name"},
		{"id: notes\ntools:\n§\ta: b\n", "a tab indents this line: indent with spaces"},
		{"id: notes\ntools:\n  a: b\n§\tc: d\n", "a tab indents this line: indent with spaces"},
		{"id: notes\ntools:\n  a:\n  §\teffect: read\n", "a tab indents this line: indent with spaces"},

		{"id: notes\n§endpoint\ntools:\n  a: b\n", noColon},
		{"§id notes\ntools: x\n", noColon},
		{"id: notes\ntools:\n  §a\n  b: {effect: read}\n", noColon},
		{"id: notes\n§endpoint", noColon},

		{"id: notes\ntools: §{read_note: {effect: read}\n", "this { is not closed: write } where it ends"},
		{"id: notes\ntools: §{read_note: {effect: read}\nother: x\n", "this { is not closed: write } where it ends"},
		{"id: notes\nlist: §[a, b\nother: c\n", "this [ is not closed: write ] where it ends"},
		{"x: {a: b}\ny: §{a: {b: c}, d: {e: f}\nz: 1\nw: 2\n", "this { is not closed: write } where it ends"},
		{"id: notes\nlist: {a: 1 b§: 2}\nx: y\n", "a colon stands inside a value: quote the value"},
		{"id: notes\nlist: {a: \"1\" §b: 2}\nx: y\n", "a comma, or the } of this {, is missing before this"},
		{"id: notes\nlist: [a, {b: c} §d]\nx: y\n", "a comma, or the ] of this [, is missing before this"},
		{"id: notes\nlist: {a: 1, b: 2}§}\nx: y\n", "this } closes nothing: remove it, or quote the value"},

		{"callers:\n- {name: a, role: §\"host}\n", "this quotation mark is not closed: write \" at the end of the text, or quote the whole value"},
		{"a: §'b\nc: d\ne: f\n", "this quotation mark is not closed: write ' at the end of the text, or quote the whole value"},
		{"id: \"x\" # y \" z\nz: §\"unterminated\nw: 1\n", "this quotation mark is not closed: write \" at the end of the text, or quote the whole value"},
		{"id: 'it'§s'\n", `the quoted text ends before this: write '' for ' inside it, or put double quotes around it`},
		{"id: notes\nabout: \"x\" §y\nz: 1\n", `the quoted text ends before this: write \" for " inside it, or quote the whole value with '`},
		{"id: \"a§\\qb\"\nx: y\n", `this is no escape: write \\ for a backslash, or put single quotes around the text`},
		{"path: \"C:§\\dir\"\n", `this is no escape: write \\ for a backslash, or put single quotes around the text`},

		{"id: §@x\n", "a value does not begin with @: quote it"},
		{"id: §`x`\n", "a value does not begin with `: quote it"},
		{"id: x\nowner: §%x\n", "a value does not begin with %: quote it"},

		// Multi-line text before it leads nobody astray.
		{"about: |\n  it's [open: {\n  \"so\ncases: §[a, b\n", "this [ is not closed: write ] where it ends"},
		{"about: \"two\n  lines\"\nnote: >-\n  a: b: c\nname: x§: y\n", inside},
		{"a: b # it's\nlist: [a, # [{\n  b]\nname: x§: y\n", inside},
		{"name: ä🙂§: y\n", inside},
		{"a: b\r\nname: x§: y\r\nc: d\r\n", inside},
	} {
		at := strings.Index(tt.text, "§")
		text := strings.Replace(tt.text, "§", "", 1)
		line := 1 + strings.Count(text[:at], "\n")
		column := 1 + len([]rune(text[strings.LastIndexByte(text[:at], '\n')+1:at]))
		files := base(t)
		files["bundle.yaml"] = []byte(text)
		_, faults := bundle.Build(list(files), nil)
		want := fmt.Sprintf("bundle.yaml:%d:%d: %s", line, column, tt.want)
		if len(faults) == 0 || faults[0].File != "bundle.yaml" && faults[len(faults)-1].File != "bundle.yaml" && !strings.HasPrefix(faults[0].Error(), want) {
			t.Errorf("%q\n got %v\nwant %s", text, faults, want)
			continue
		}
		for _, f := range faults {
			if f.File == "bundle.yaml" && f.Error() != want {
				t.Errorf("%q\n got %v\nwant %s", text, f, want)
			}
		}
	}
}

// TestSyntaxIsQuick: the search for the place ends soon whatever the file holds.
func TestSyntaxIsQuick(t *testing.T) {
	for name, text := range map[string]string{
		"long and flat":     strings.Repeat("a: b\n", 1<<20/5-4) + "x: y: z\n",
		"one line":          "x: [" + strings.Repeat("a, ", 1<<20/3-10) + "b: c: d]",
		"many brackets":     strings.Repeat("[", 9_000) + "\n" + strings.Repeat("{", 900) + "}]",
		"broken early":      "x: y: z\n" + strings.Repeat("a: b\n", 1<<20/5-10),
		"an open quote":     "x: \"" + strings.Repeat("a\n", 1<<19-10),
		"many open mapping": strings.Repeat("a:\n", 5_000) + "\t",
	} {
		files := base(t)
		files["bundle.yaml"] = []byte(text)
		start := time.Now()
		_, faults := bundle.Build(list(files), nil)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: took %v", name, took)
		} else {
			t.Logf("%s: %v: %.150v", name, took, faults)
		}
		if faults.Errors() == nil {
			t.Errorf("%s: no fault", name)
		}
	}
}
