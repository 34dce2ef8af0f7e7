package decide

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// warnings says what a person should look at twice in the texts of a value, in
// a fixed order, each once.
func warnings(v any) []string {
	var f findings
	f.value(v)
	var out []string
	for _, w := range [...]struct {
		found bool
		text  string
	}{
		{f.bidi, "It holds characters that change the direction of writing."},
		{f.invisible, "It holds invisible characters."},
		{f.control, "It holds control characters."},
		{f.spaces, "It begins or ends with white space."},
		{f.blank, "It is text without a visible character."},
		{f.mixed, "It mixes letters of different scripts in one word."},
		{f.lookAlike, "Every letter of it looks like a Latin one and is of another script."},
	} {
		if w.found {
			out = append(out, w.text)
		}
	}
	return out
}

type findings struct {
	bidi, invisible, control, spaces, blank, mixed, lookAlike bool
}

// value looks at every text in v, names included.
func (f *findings) value(v any) {
	switch v := v.(type) {
	case string:
		f.text(v)
	case []any:
		for _, e := range v {
			f.value(e)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			f.text(name)
			f.value(v[name])
		}
	}
}

func (f *findings) text(s string) {
	f.spaces = f.spaces || s != strings.TrimSpace(s)
	var word scripts
	visible, latin, alike := false, false, 0
	foreign := 0 // letters of another script
	for _, r := range s {
		switch {
		case r < 0x20 && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0:
			f.control = true
		case r < utf8.RuneSelf:
		case unicode.Is(unicode.Bidi_Control, r):
			f.bidi = true
		case Invisible(r):
			f.invisible = true
		}
		visible = visible || r > ' ' && !unicode.IsSpace(r) && !Invisible(r)
		switch {
		case unicode.IsLetter(r) || unicode.IsMark(r):
			script := scriptOf(r)
			word.add(script)
			switch {
			case script == "Latin":
				latin = true
			case unicode.IsLetter(r):
				foreign++
				if strings.ContainsRune(likeLatin, r) {
					alike++
				}
			}
		case !unicode.IsDigit(r) && !Invisible(r): // invisible characters don't part words for the eye
			f.mixed = f.mixed || word.mixed()
			word = scripts{}
		}
	}
	f.mixed = f.mixed || word.mixed()
	f.blank = f.blank || s != "" && !visible
	f.lookAlike = f.lookAlike || !latin && foreign > 1 && foreign == alike
}

// Invisible reports whether r is shown as nothing, or changes how others are
// shown: format characters, bidirectional controls, variation selectors,
// fillers, tags.
func Invisible(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// likeLatin holds the letters of Cyrillic, Greek and Armenian that look like
// one of Latin in most fonts (Unicode's confusables, UTS #39).
const likeLatin = "аеорсухіјѕһԁԛԝ" + "АВЕЅІЈКМНОРСТХУԚԜ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "ανορυχι" + "օոսհ" + "ՕՍ"

// scripts are those of one word. A word is mixed where no level of UTS #39 up
// to "highly restrictive" allows it: more than one script, other than Latin
// with the scripts of Japanese, of Korean, or of Chinese with Bopomofo.
type scripts struct{ names []string }

func (s *scripts) add(name string) {
	if name != "" && name != "Common" && name != "Inherited" && !slices.Contains(s.names, name) && len(s.names) < 8 {
		s.names = append(s.names, name)
	}
}

func (s *scripts) mixed() bool {
	if len(s.names) < 2 {
		return false
	}
	for _, allowed := range [...][]string{
		{"Latin", "Han", "Hiragana", "Katakana"}, {"Latin", "Han", "Bopomofo"}, {"Latin", "Han", "Hangul"},
	} {
		if !slices.ContainsFunc(s.names, func(name string) bool { return !slices.Contains(allowed, name) }) {
			return false
		}
	}
	return true
}

// scriptSpan is a run of characters of one script.
type scriptSpan struct {
	low, high rune
	script    string
}

// scriptSpans are Unicode's scripts in order of their characters, so that a
// text is read in time that depends on its length alone.
var scriptSpans = func() []scriptSpan {
	var spans []scriptSpan
	for name, table := range unicode.Scripts {
		add := func(low, high, stride rune) {
			if stride == 1 {
				spans = append(spans, scriptSpan{low, high, name})
				return
			}
			for r := low; r <= high; r += stride {
				spans = append(spans, scriptSpan{r, r, name})
			}
		}
		for _, r := range table.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range table.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	slices.SortFunc(spans, func(a, b scriptSpan) int { return cmp.Compare(a.low, b.low) })
	return spans
}()

// scriptOf returns the script of r; empty: none that is known.
func scriptOf(r rune) string {
	i, found := slices.BinarySearchFunc(scriptSpans, r, func(s scriptSpan, r rune) int { return cmp.Compare(s.low, r) })
	if !found {
		i--
	}
	if i < 0 || r > scriptSpans[i].high {
		return ""
	}
	return scriptSpans[i].script
}
