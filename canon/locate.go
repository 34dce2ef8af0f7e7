package canon

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Locate finds in text, a JSON value, what pointer (RFC 6901) leads to, or the
// nearest thing on the way there: the byte offset of its value, and that of
// its name. Where it has none, as an element or the whole, name is value. It
// is for showing people a place, and reads text anew each time.
func Locate(text []byte, pointer string) (name, value int) {
	l := &locator{text: text, decoder: jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	kind := l.decoder.PeekKind()
	value = l.next()
	name = value
	if pointer == "" {
		return name, value
	}
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		at, ok := l.step(kind, strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"))
		if !ok {
			break
		}
		kind = l.decoder.PeekKind()
		value = l.next()
		if name = at; at < 0 {
			name = value
		}
	}
	return name, value
}

type locator struct {
	text    []byte
	decoder *jsontext.Decoder
}

// next returns the offset of the next token.
func (l *locator) next() int {
	at := int(l.decoder.InputOffset())
	for at < len(l.text) && strings.IndexByte(" \t\r\n,:", l.text[at]) >= 0 {
		at++
	}
	return at
}

// step goes to a member or an element of the value that comes next, and
// returns the offset of its name, -1 for an element.
func (l *locator) step(kind jsontext.Kind, token string) (name int, ok bool) {
	if kind != '{' && kind != '[' {
		return 0, false
	}
	if _, err := l.decoder.ReadToken(); err != nil {
		return 0, false
	}
	for i := 0; ; i++ {
		switch l.decoder.PeekKind() {
		case jsontext.KindInvalid, '}', ']':
			return 0, false
		}
		if kind == '[' {
			if strconv.Itoa(i) == token {
				return -1, true
			}
		} else {
			at := l.next()
			text, err := l.decoder.ReadToken()
			if err != nil {
				return 0, false
			}
			if text.String() == token {
				return at, true
			}
		}
		if err := l.decoder.SkipValue(); err != nil {
			return 0, false
		}
	}
}
