package policy_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"github.com/writ-pdp/writ/policy"
)

// FuzzMessages compiles texts that are nearly policies. Whatever is wrong with
// them is said somewhere in the text, and in words.
func FuzzMessages(f *testing.F) {
	for _, name := range []string{"payments", "github", "files", "closed", "contradictions"} {
		a, err := txtar.ParseFile(filepath.Join("testdata", "messages", name+".txtar"))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, ".cedar") {
				f.Add(file.Data)
			}
		}
	}
	f.Add([]byte("@id(\"p\")\npermit (principal, action, resource)\nwhen { context has arguments.repo && \"a\" like \"\\*\" };"))
	var s *policy.Schema
	var held listed
	f.Fuzz(func(t *testing.T, text []byte) {
		if s == nil {
			a, err := txtar.ParseFile("testdata/messages/payments.txtar")
			if err != nil {
				t.Fatal(err)
			}
			s, held = messageBundle(t, a)
		}
		set, faults := policy.Compile(s, held, []policy.Source{{File: "p.cedar", Text: text}})
		if (set == nil) != (len(faults.Errors()) > 0) {
			t.Errorf("%q: set %v, faults %v", text, set, faults)
		}
		lines := bytes.Split(text, []byte("\n"))
		for _, f := range faults {
			switch {
			case f.File != "p.cedar" || f.Message == "" || strings.Contains(f.Message, "%!") || !utf8.ValidString(f.Message):
				t.Errorf("%q: %+v", text, f)
			case f.Line < 0 || f.Line > len(lines) || f.Line > 0 && f.Column > utf8.RuneCount(lines[f.Line-1])+1:
				t.Errorf("%q: there is no such place: %v", text, f)
			}
		}
	})
}
