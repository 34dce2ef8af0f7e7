package entities

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// reader walks the tokens of one file and collects its faults. Whoever reads
// a value consumes exactly that value, also when it is faulty, so that the
// next one is still found in its place. Once done is set, peek says
// KindInvalid and every loop ends.
type reader struct {
	file   string
	data   []byte
	tokens *jsontext.Decoder
	here   mark   // start of the entity being read; never moves back
	path   []step // from the file's array to the value being read
	faults writ.Faults
	done   bool
	buf    []byte // for text with escapes
}

// step is one part of a path: a member's name or, where name is empty, an index.
type step struct {
	name  string
	index int
}

// newReader doesn't copy data: the decoder reads a bytes.Buffer in place.
// Repeated names and invalid UTF-8 are let through here and refused by the
// reader's own methods, because the decoder would stop at the first.
func newReader(file string, data []byte) *reader {
	return &reader{
		file: file,
		data: data,
		here: mark{line: 1, column: 1},
		tokens: jsontext.NewDecoder(bytes.NewBuffer(data),
			jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)),
	}
}

// peek returns the kind of the next token, or KindInvalid when reading is over.
func (r *reader) peek() jsontext.Kind {
	if r.done {
		return jsontext.KindInvalid
	}
	kind := r.tokens.PeekKind()
	if kind == jsontext.KindInvalid {
		_, err := r.tokens.ReadToken()
		r.syntax(err)
	}
	return kind
}

// start returns the offset of the next token.
func (r *reader) start() int {
	at := int(r.tokens.InputOffset())
	for at < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[at]) >= 0 {
		at++
	}
	return at
}

// token consumes the next token; it is for delimiters.
func (r *reader) token() {
	if r.done {
		return
	}
	if _, err := r.tokens.ReadToken(); err != nil {
		r.syntax(err)
	}
}

// raw consumes the next value and returns its bytes, which are valid until
// the next call, and its offset.
func (r *reader) raw() ([]byte, int) {
	v, err := r.tokens.ReadValue()
	if err != nil {
		r.syntax(err)
		return nil, 0
	}
	return v, int(r.tokens.InputOffset()) - len(v)
}

// skip consumes the next value.
func (r *reader) skip() {
	if r.done {
		return
	}
	if err := r.tokens.SkipValue(); err != nil {
		r.syntax(err)
	}
}

// text consumes the next value, a string, and returns it unquoted; the bytes
// are valid until the next call. ok is false, and a fault noted, where it
// isn't Unicode text.
func (r *reader) text() (text []byte, at int, ok bool) {
	raw, at := r.raw()
	if r.done {
		return nil, at, false
	}
	body := raw[1 : len(raw)-1]
	if bytes.IndexByte(body, '\\') >= 0 {
		var err error
		if r.buf, err = jsontext.AppendUnquote(r.buf[:0], raw); err != nil {
			r.fault(at, "not Unicode text: invalid UTF-8, or a \\u escape for half of a surrogate pair. Save the file as UTF-8 and write the character itself")
			return nil, at, false
		}
		return r.buf, at, true
	}
	if !utf8.Valid(body) {
		r.fault(at, "not valid UTF-8: save the file as UTF-8")
		return nil, at, false
	}
	return body, at, true
}

// checkName refuses text that can't name anything: empty, longer than
// [MaxID], or with a control character. what says what is named.
func (r *reader) checkName(text []byte, at int, what string) bool {
	switch {
	case len(text) == 0:
		r.fault(at, "%s is empty: give it a name", what)
		return false
	case len(text) > MaxID:
		r.fault(at, "%s is %d bytes long: at most %d are allowed", what, len(text), MaxID)
		return false
	}
	for i := 0; i < len(text); {
		c, n := utf8.DecodeRune(text[i:])
		if unicode.IsControl(c) {
			r.fault(at, "%s holds the control character U+%04X: remove it", what, c)
			return false
		}
		i += n
	}
	return true
}

// wrong notes that the next value is not of the wanted kind, and consumes it.
func (r *reader) wrong(want string) {
	kind, at := r.peek(), r.start()
	switch kind {
	case jsontext.KindInvalid:
		return
	case jsontext.KindEndArray, jsontext.KindEndObject:
		r.token() // no value at all: a syntax error
		return
	case jsontext.KindNull:
		r.fault(at, "null is no value here: want %s", want)
	default:
		r.fault(at, "%s is the wrong type here: want %s", kindName(kind), want)
	}
	r.skip()
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindString:
		return "text"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	case jsontext.KindBeginArray:
		return "an array"
	case jsontext.KindBeginObject:
		return "an object"
	}
	return k.String()
}

// tooDeep reports whether the next array or object would be nested deeper
// than [MaxDepth]; then it is noted and consumed.
func (r *reader) tooDeep() bool {
	if r.tokens.StackDepth() < MaxDepth {
		return false
	}
	r.fault(r.start(), "nested deeper than %d levels: flatten it", MaxDepth)
	r.skip()
	return true
}

// syntax notes that the text is no JSON from here on, and ends the reading:
// whatever came after would be a guess.
func (r *reader) syntax(err error) {
	if r.done {
		return
	}
	at, reason := canon.Explain(r.data)
	if reason == "" { // beyond the file's value
		at, reason = int(r.tokens.InputOffset()), fmt.Sprint(err)
	}
	r.fault(at, "this is not JSON: %s. Mend this first: nothing after it was read", reason)
	r.done = true
}

// fault notes a fault of the value being read, at a byte offset. After
// [MaxFaults] of them it says so and ends the reading.
func (r *reader) fault(at int, format string, args ...any) {
	if r.done {
		return
	}
	m := r.here
	if at < m.offset {
		m = mark{line: 1, column: 1}
	}
	m.advance(r.data, at)
	f := writ.Fault{
		File: r.file, Line: m.line, Column: m.column, Field: r.field(), Message: fmt.Sprintf(format, args...),
	}
	if len(r.faults) == MaxFaults {
		f.Field, f.Message = "", fmt.Sprintf("more than %d faults: mend those first, the rest of the file was not read", MaxFaults)
		r.done = true
	}
	r.faults = append(r.faults, f)
}

// field writes the path as [2].attrs.limit, with names that aren't
// identifiers as ["a b"].
func (r *reader) field() string {
	var b strings.Builder
	for _, s := range r.path {
		switch {
		case s.name == "":
			fmt.Fprintf(&b, "[%d]", s.index)
		case isIdentifier(s.name):
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(clip(s.name))
		default:
			b.WriteByte('[')
			b.WriteString(show(s.name))
			b.WriteByte(']')
		}
	}
	return b.String()
}

func isIdentifier(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// show quotes text for a message: escapes what can't be seen, cuts what is long.
func show[T ~string | ~[]byte](text T) string { return strconv.Quote(clip(string(text))) }

// clip cuts text after 64 characters.
func clip(s string) string {
	n := 0
	for i := range s {
		if n == 64 {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// mark is a place in a file, by offset and as people count it.
type mark struct {
	offset       int
	line, column int // from 1; column in characters
}

// advance moves the mark forward to offset to. The cost is that of the bytes
// between, so that positions of a file without line breaks stay linear too.
func (m *mark) advance(data []byte, to int) {
	to = min(to, len(data))
	between := data[m.offset:to]
	if n := bytes.Count(between, []byte{'\n'}); n > 0 {
		m.line += n
		m.column = 1
		between = between[bytes.LastIndexByte(between, '\n')+1:]
	}
	m.column += utf8.RuneCount(between)
	m.offset = to
}
