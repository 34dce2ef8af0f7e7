package canon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Explain says for the author of a file where its text stops being JSON (RFC
// 8259) and what to do: at a byte offset, or "" when its first value is JSON.
// Unlike the reasons of [Error] it may show a character or a bare word of the
// text, so it is not for texts of strangers. Repeated names and bad UTF-8 are
// [Parse]'s to refuse.
func Explain(data []byte) (offset int, reason string) {
	d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err := d.SkipValue()
	if err == nil {
		return 0, ""
	}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		return 0, "a byte order mark (U+FEFF) stands here: save the file as UTF-8 without one"
	}
	at := len(data)
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = min(max(int(e.ByteOffset), 0), len(data))
		err = e.Err
	}
	e := explainer{data: data, at: at, message: fmt.Sprint(err)}
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return e.at, e.cutOff()
	}
	e.look()
	if reason := e.comma(); reason != "" {
		return e.at, reason
	}
	return e.at, e.reason()
}

// explainer looks at the character that the decoder refused.
type explainer struct {
	data    []byte
	at      int    // its offset
	message string // the decoder's
	char    rune
	before  byte // what stands before it, white space aside; 0: nothing
	open    byte // the innermost open bracket before it; 0: none
	line    int  // of that bracket
	quoted  bool // the text ends within a string
}

// look fills in what stands around the character.
func (e *explainer) look() {
	e.char, _ = utf8.DecodeRune(e.data[e.at:])
	if rest := bytes.TrimRight(e.data[:e.at], " \t\r\n"); len(rest) > 0 {
		e.before = rest[len(rest)-1]
	}
	e.brackets()
}

// brackets finds the innermost bracket that is open before the character.
func (e *explainer) brackets() {
	type bracket struct {
		char byte
		line int
	}
	var stack []bracket
	line := 1
	for i := 0; i < e.at; i++ {
		switch c := e.data[i]; {
		case c == '\n':
			line++
		case e.quoted && c == '\\':
			i++
		case c == '"':
			e.quoted = !e.quoted
		case e.quoted:
		case c == '{' || c == '[':
			stack = append(stack, bracket{c, line})
		case (c == '}' || c == ']') && len(stack) > 0:
			stack = stack[:len(stack)-1]
		}
	}
	if len(stack) > 0 {
		e.open, e.line = stack[len(stack)-1].char, stack[len(stack)-1].line
	}
}

// cutOff is about a text that ends too early.
func (e *explainer) cutOff() string {
	e.brackets()
	switch {
	case e.quoted:
		return `the text ends inside a string: close it with "`
	case e.open != 0:
		return fmt.Sprintf("the text ends, and the %c of line %d is not closed", e.open, e.line)
	case len(bytes.TrimSpace(e.data)) == 0:
		return "there is no JSON value"
	}
	return "the text ends in the middle of a value"
}

// comma is about commas that separate nothing. The decoder refuses some of
// them, and some only by what follows: the comma is what has to go.
func (e *explainer) comma() string {
	closing := e.char == '}' || e.char == ']'
	next := bytes.TrimLeft(e.data[min(e.at+1, len(e.data)):], " \t\r\n")
	switch {
	case closing && e.before == ',':
		e.at = bytes.LastIndexByte(e.data[:e.at], ',')
		return fmt.Sprintf("a comma stands before %c: remove it", e.char)
	case e.char == ',' && len(next) > 0 && (next[0] == '}' || next[0] == ']') && e.open != 0 && strings.IndexByte(",[{:", e.before) < 0:
		return fmt.Sprintf("a comma stands before %c: remove it", next[0])
	case e.char == ',' && strings.IndexByte(",[{:", e.before) >= 0 && e.before != 0:
		if e.before == ':' {
			return "a value is missing before this comma"
		}
		return "a comma stands here that separates nothing: remove it"
	}
	return ""
}

// reason is about everything else.
func (e *explainer) reason() string {
	rest := e.data[e.at:]
	word := bareWord(rest)
	says := func(words string) bool { return strings.Contains(e.message, words) }
	switch {
	case bytes.HasPrefix(rest, []byte("//")), bytes.HasPrefix(rest, []byte("/*")), e.char == '#' && !says("in string"):
		return "JSON has no comments: remove it"
	case says("in string"):
		return e.inString()
	case says("in literal"), says("in number"):
		return e.broken()
	case says("after object name ("):
		return "a colon is missing after the name"
	case says("after object value"), says("after array element"):
		return e.afterValue()
	case e.open == '{' && (e.before == '{' || e.before == ','):
		return "a name stands here in double quotes, as in \"name\": …"
	case e.char == '}' || e.char == ']':
		if e.open == 0 {
			return fmt.Sprintf("this %c closes nothing: remove it", e.char)
		}
		if (e.open == '[') != (e.char == ']') {
			return e.unclosed()
		}
		return fmt.Sprintf("a value is missing before this %c", e.char)
	case e.char == '\'' || e.char == '“' || e.char == '”' || e.char == '‘' || e.char == '’' || e.char == '`':
		return `strings stand in double quotes (")`
	case e.char == '+' || e.char == '.':
		return "a number begins with a digit or with -"
	case word != "":
		return bare(word)
	}
	return e.message
}

// afterValue is about what stands where a comma or a closing bracket must.
func (e *explainer) afterValue() string {
	digit := '0' <= e.char && e.char <= '9'
	adjoins := e.at > 0 && '0' <= e.data[e.at-1] && e.data[e.at-1] <= '9'
	switch {
	case adjoins && digit:
		return "a number has no leading zeros"
	case adjoins && (e.char == '.' || unicode.IsLetter(e.char) || e.char == '_'):
		return "this is no number as JSON writes it"
	case e.char == '"' || e.char == '{' || e.char == '[' || e.char == '-' || digit || unicode.IsLetter(e.char):
		return "a comma is missing before this"
	}
	return e.unclosed()
}

// unclosed is about a bracket that must be closed, or go on.
func (e *explainer) unclosed() string {
	end := ']'
	if e.open == '{' {
		end = '}'
	}
	return fmt.Sprintf("expected a comma, or %c for the %c of line %d; found %s", end, e.open, e.line, quoteRune(e.char))
}

// inString is about characters that strings can't hold as they are.
func (e *explainer) inString() string {
	switch {
	case strings.Contains(e.message, "escape"):
		_, size := utf8.DecodeRune(e.data[min(e.at+1, len(e.data)):])
		return fmt.Sprintf(`%s is no escape: write \\ for a backslash`, e.data[e.at:min(e.at+1+size, len(e.data))])
	case e.char == '\n' || e.char == '\r':
		return `a line ends inside a string: close the string with ", or write \n`
	case e.char == '\t':
		return `a tab stands inside a string: write \t`
	}
	return fmt.Sprintf(`the character U+%04X stands inside a string: write \u%04x`, e.char, e.char)
}

// broken is about true, false, null and numbers that break off.
func (e *explainer) broken() string {
	start := e.at
	for start > 0 && isWordByte(e.data[start-1]) {
		start--
	}
	word := bareWord(e.data[start:])
	if strings.Contains(e.message, "in number") {
		return "this is no number as JSON writes it: a digit is missing here"
	}
	e.at = start
	return bare(word)
}

// bare is about a word without quotes.
func bare(word string) string {
	switch lower := strings.ToLower(word); lower {
	case "true", "false", "null":
		return fmt.Sprintf("JSON writes it in small letters: %s", lower)
	case "none", "nil", "undefined":
		return "JSON writes null for nothing"
	case "nan", "infinity", "inf":
		return fmt.Sprintf("JSON has no number %s", word)
	}
	return fmt.Sprintf("%s is no JSON value: strings stand in double quotes", word)
}

// bareWord returns the letters, digits and _ that text begins with, cut where
// they are many.
func bareWord(text []byte) string {
	n := 0
	for n < len(text) && n < 32 && isWordByte(text[n]) {
		n++
	}
	return string(text[:n])
}

func isWordByte(b byte) bool {
	return b == '_' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}

func quoteRune(r rune) string {
	if unicode.IsGraphic(r) && r != ' ' && r != utf8.RuneError {
		return string(r)
	}
	return fmt.Sprintf("U+%04X", r)
}
