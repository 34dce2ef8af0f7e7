package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The YAML reader says what it did not find, not where: often it names the
// line at which the structure began that it was reading, and never a column.
// So the place is looked for. A text that can be continued to a document that
// the reader takes is sound as far as it goes; where the longest such
// beginning of a file ends is the character that broke it.

// maxSyntax is how much text is read to find a place, in bytes.
const maxSyntax = 3 << 20

// syntaxError is how the YAML reader reports an error.
var syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// addSyntax reports that the file is no YAML.
func (d *document) addSyntax(err error) {
	s := &syntaxSearch{data: string(d.data), budget: maxSyntax}
	m := syntaxError.FindStringSubmatch(strings.SplitN(err.Error(), "\n", 2)[0])
	if m == nil {
		d.addAt(0, 0, "", "this is not YAML: "+err.Error())
		return
	}
	line, _ := strconv.Atoi(m[1])
	if at, tab := s.tab(max(line, 1)); tab {
		d.reportSyntax(at, "a tab indents this line: indent with spaces")
		return
	}
	at, found := s.find(line)
	if open := scanOpenings(s.data); !found && open.quote != 0 {
		at, found, s.open = len(s.data), true, open
	}
	if !found {
		d.addAt(min(max(line, 1), d.lines), 0, "", "this is not YAML: "+m[2])
		return
	}
	if tab, ok := s.tab(strings.Count(s.data[:at], "\n") + 1); ok {
		d.reportSyntax(tab, "a tab indents this line: indent with spaces")
		return
	}
	at, message := s.explain(at, m[2])
	d.reportSyntax(at, message)
}

func (d *document) reportSyntax(at int, message string) {
	line, column := lineOf(d.data, at)
	d.addAt(line, column, "", message)
}

// syntaxSearch looks for the place where a text stops being YAML.
type syntaxSearch struct {
	data   string
	budget int // bytes that may still be read
	colon  bool
	open   openings // at the end of the longest sound beginning
}

// tab returns the offset of a tab in the indentation of a line, or of one of
// the two after it: the reader may have counted from 0.
func (s *syntaxSearch) tab(line int) (at int, found bool) {
	start := lineStart(s.data, line)
	for range 3 {
		rest := s.data[start:]
		text, _, more := strings.Cut(rest, "\n")
		indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 && strings.TrimSpace(text) != "" {
			return start + tab, true
		}
		if !more {
			break
		}
		start += len(text) + 1
	}
	return 0, false
}

// lineStart returns the offset of a line, counted from 1.
func lineStart(text string, line int) int {
	at := 0
	for ; line > 1; line-- {
		n := strings.IndexByte(text[at:], '\n')
		if n < 0 {
			break
		}
		at += n + 1
	}
	return at
}

// find returns the offset of the character that broke the text, from the line
// that the reader names. It is the text's end where only something is missing
// there.
func (s *syntaxSearch) find(line int) (at int, found bool) {
	var ends []int // of lines, without their line feeds
	for i := range len(s.data) {
		if s.data[i] == '\n' {
			ends = append(ends, i)
		}
	}
	ends = append(ends, len(s.data))
	// The first line whose end is no sound beginning. (A line within a scalar
	// of several lines may look like one: then what comes after is sound again,
	// and the search may go astray and find nothing.)
	low, high := 0, len(ends)
	near := min(max(line-2, 0), len(ends)-1)
	if s.sound(ends[near]) {
		low = near + 1
		for step := 1; low+step < high; step *= 2 {
			if !s.sound(ends[low+step]) {
				high = low + step
				break
			}
			low += step + 1
		}
	} else {
		high = near
		for step := 1; high-step >= low; step *= 2 {
			if s.sound(ends[high-step]) {
				low = high - step + 1
				break
			}
			high -= step
		}
	}
	for low < high {
		if middle := (low + high) / 2; s.sound(ends[middle]) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == len(ends) {
		s.sound(len(s.data))
		return len(s.data), s.budget > 0
	}
	start := 0
	if low > 0 {
		start = ends[low-1] + 1
	}
	if !s.sound(start) {
		// Already the line's beginning breaks it: what is wrong is the line before.
		s.sound(max(start-1, 0))
		return start, s.budget > 0
	}
	at = s.lastSound(start, ends[low])
	s.sound(at)
	return at, s.budget > 0
}

// lastSound returns the end of the longest sound beginning that ends in a
// line, of which the one at sound is sound and the one at unsound isn't. In the
// middle of an escape or of an indicator there may seem to be none: so it also
// looks a few characters on.
func (s *syntaxSearch) lastSound(sound, unsound int) int {
	const ahead = 6
	end := unsound
	for {
		middle := (sound + unsound) / 2
		for middle > sound && !utf8.RuneStart(s.data[middle]) {
			middle--
		}
		if middle == sound {
			break
		}
		if s.sound(middle) {
			sound = middle
		} else {
			unsound = middle
		}
	}
	for at := min(sound+ahead, end-1); at > sound; at-- {
		if utf8.RuneStart(s.data[at]) && s.sound(at) {
			return s.lastSound(at, end)
		}
	}
	return sound
}

// sound reports whether the text's beginning can be continued to a document.
func (s *syntaxSearch) sound(end int) bool {
	text := s.data[:end]
	s.open = scanOpenings(text)
	s.colon = false
	for _, more := range [...]string{"", "x", ": x", " x", "n"} {
		if s.open.quote != 0 {
			if more == ": x" {
				more = string(s.open.quote) + more
			} else {
				more += string(s.open.quote)
			}
		}
		if s.budget -= end + 64; s.budget < 0 {
			return false
		}
		if readable(text + more + s.open.closers()) {
			s.colon = strings.HasSuffix(more, ": x")
			return true
		}
	}
	return false
}

func readable(text string) bool {
	d := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	for {
		var n yaml.Node
		if err := d.Decode(&n); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// explain says what is wrong at the character that broke the text, or nearby.
func (s *syntaxSearch) explain(at int, reason string) (place int, message string) {
	start := strings.LastIndexByte(s.data[:at], '\n') + 1
	switch {
	case at == start:
	case s.data[at-1] == ':', s.data[at-1] == '\\', s.data[at-1] == '-' && strings.TrimLeft(s.data[start:at], " ") == "-":
		at-- // it is only by what follows that it means something
	}
	line, _, _ := strings.Cut(s.data[start:], "\n")
	before := strings.TrimLeft(s.data[start:at], " ")
	char, _ := utf8.DecodeRuneInString(s.data[at:])
	switch {
	case at == len(s.data) && s.open.quote != 0:
		return s.open.quoteAt, fmt.Sprintf("this quotation mark is not closed: write %c at the end of the text, or quote the whole value", s.open.quote)
	case len(s.open.brackets) > 0:
		last := s.open.brackets[len(s.open.brackets)-1]
		// The next line's name, taken for more of a value.
		again := char == ':' && last.at < start && !strings.ContainsAny(before, " ,[{\"'")
		if at == len(s.data) || before == "" || again {
			return last.at, fmt.Sprintf("this %c is not closed: write %c where it ends", last.char, last.closer())
		}
		if char == ':' {
			return at, "a colon stands inside a value: quote the value"
		}
		return at, fmt.Sprintf("a comma, or the %c of this %c, is missing before this", last.closer(), last.char)
	case before == "" && char == '-':
		return at, "this item belongs to no list: align it with the item before, or put it below a name"
	case s.colon && (at == len(s.data) || before == ""):
		return s.nameWithoutColon(at)
	case before == "" || char == ':' && !strings.Contains(before, ": ") && !strings.HasPrefix(before, "- "):
		return s.indentation(start, line)
	case char == ':':
		return at, "a colon stands inside a value: quote the value, as in about: \"note: to self\""
	case char == '}' || char == ']':
		return at, fmt.Sprintf("this %c closes nothing: remove it, or quote the value", char)
	case strings.HasSuffix(strings.TrimRight(before, " "), "'"):
		return at, "the quoted text ends before this: write '' for ' inside it, or put double quotes around it"
	case strings.HasSuffix(strings.TrimRight(before, " "), `"`):
		return at, `the quoted text ends before this: write \" for " inside it, or quote the whole value with '`
	case char == '\\' || strings.Contains(reason, "escape"):
		return at, `this is no escape: write \\ for a backslash, or put single quotes around the text`
	case strings.ContainsRune("@`%&*!|>", char):
		return at, fmt.Sprintf("a value does not begin with %c: quote it", char)
	case char == '\t':
		return at, "a tab stands here: write spaces"
	}
	return at, "this is not YAML: " + reason
}

// nameWithoutColon is about a line that is only a name.
func (s *syntaxSearch) nameWithoutColon(at int) (int, string) {
	text := strings.TrimRight(s.data[:at], " \r\n")
	start := strings.LastIndexByte(text, '\n') + 1
	start += len(text[start:]) - len(strings.TrimLeft(text[start:], " "))
	return start, "a colon is missing in this line: write name: value"
}

// indentation is about a line that is indented as nothing around it is.
func (s *syntaxSearch) indentation(start int, line string) (int, string) {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	above := strings.TrimRight(s.data[:start], " \r\n")
	if i := strings.LastIndexByte(above, '\n'); i >= 0 {
		above = above[i+1:]
	}
	trimmed := strings.TrimLeft(above, " -")
	deeper := indent > len(above)-len(strings.TrimLeft(above, " "))
	switch {
	case !strings.Contains(trimmed, ":") && trimmed != "" && !strings.HasPrefix(trimmed, "#"):
		at := strings.LastIndex(s.data[:start], above)
		return at + len(above) - len(strings.TrimLeft(above, " ")), "a colon is missing in this line: write name: value"
	case deeper:
		return start + indent, "this line is indented deeper than the one above it, which has its value already: align it with that line"
	}
	return start + indent, "the indentation of this line fits none of those above it: align it with the line that it belongs beside"
}
