package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxSize is the largest text that Parse reads, in bytes.
	MaxSize = 256 << 10
	// MaxDepth is how deep arrays and objects may nest: [] has depth 1.
	MaxDepth = 64
)

// Parse reads one JSON text; the package comment says what it refuses. An
// error is an [*Error]. The tree shares no memory with data.
func Parse(data []byte) (any, error) {
	if len(data) > MaxSize {
		return nil, &Error{Offset: MaxSize, Reason: ReasonSize}
	}
	p := parsers.Get().(*parser)
	defer p.release()
	p.reset(data)
	v, fault := p.value(1)
	if fault == nil {
		fault = p.end()
	}
	if fault != nil {
		return nil, fault
	}
	return v, nil
}

// ParseObject is Parse for a text that must be an object. Empty data means an
// absent one, which reads as an object without members.
func ParseObject(data []byte) (map[string]any, error) {
	if len(data) == 0 {
		return map[string]any{}, nil
	}
	v, err := Parse(data)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, &Error{Reason: ReasonObject}
	}
	return m, nil
}

// parser is the state of one Parse. The grammar, UTF-8, surrogates and
// duplicate names are the decoder's to judge.
type parser struct {
	input   bytes.Buffer
	decoder *jsontext.Decoder
	data    []byte
	// text is data once more: strings without escapes are parts of it, so that
	// they need no memory of their own.
	text string
	// members is a stack: what has been read of each object and array that is
	// still open. A map or slice is made when its size is known.
	members []member
}

type member struct {
	name   string // unused for the elements of an array
	offset int    // where the name starts
	value  any
}

// parsers keeps decoders, whose buffers are worth more than the parse of a
// small text. It holds nothing of what was parsed.
var parsers = sync.Pool{New: func() any {
	return &parser{decoder: jsontext.NewDecoder(bytes.NewBuffer(nil))}
}}

func (p *parser) reset(data []byte) {
	p.data, p.text = data, string(data)
	p.input = *bytes.NewBuffer(data)
	p.decoder.Reset(&p.input) // without options: I-JSON, which is the strictest
}

func (p *parser) release() {
	const keep = 256 // members, so that one large text does not stay for ever
	members := p.members[:0]
	if cap(members) > keep {
		members = nil
	}
	clear(members[:cap(members)])
	p.members = members
	p.data, p.text = nil, ""
	p.input = bytes.Buffer{}
	p.decoder.Reset(&p.input)
	parsers.Put(p)
}

// value reads the next value, which has the given depth if it is an array or
// an object.
func (p *parser) value(depth int) (any, *Error) {
	switch kind := p.decoder.PeekKind(); kind {
	case '{', '[':
		if depth > MaxDepth {
			return nil, p.fault(p.offset(), p.next(), ReasonDepth)
		}
		if _, err := p.decoder.ReadToken(); err != nil {
			return nil, p.refused(err)
		}
		if kind == '[' {
			return p.array(depth)
		}
		return p.object(depth)
	case '"':
		return p.str()
	case '0':
		return p.number()
	}
	token, err := p.decoder.ReadToken()
	if err != nil {
		return nil, p.refused(err)
	}
	switch token.Kind() {
	case 't':
		return true, nil
	case 'f':
		return false, nil
	case 'n':
		return nil, nil
	}
	return nil, p.fault(p.offset(), p.pointer(), ReasonSyntax)
}

func (p *parser) array(depth int) (any, *Error) {
	base := len(p.members)
	for p.more(']') {
		v, fault := p.value(depth + 1)
		if fault != nil {
			return nil, fault
		}
		p.members = append(p.members, member{value: v})
	}
	if _, err := p.decoder.ReadToken(); err != nil {
		return nil, p.refused(err)
	}
	elements := make([]any, len(p.members)-base)
	for i, m := range p.members[base:] {
		elements[i] = m.value
	}
	p.members = p.members[:base]
	return elements, nil
}

func (p *parser) object(depth int) (any, *Error) {
	base := len(p.members)
	for p.more('}') {
		name, offset, fault := p.raw()
		if fault != nil {
			return nil, fault
		}
		v, fault := p.value(depth + 1)
		if fault != nil {
			return nil, fault
		}
		p.members = append(p.members, member{name, offset, v})
	}
	if _, err := p.decoder.ReadToken(); err != nil {
		return nil, p.refused(err)
	}
	members := p.members[base:]
	if i := lookAlike(members); i >= 0 {
		at := AppendPointer([]byte(p.pointer()), members[i].name)
		return nil, p.fault(members[i].offset, string(at), ReasonLookAlike)
	}
	m := make(map[string]any, len(members))
	for i := range members {
		m[members[i].name] = members[i].value
	}
	p.members = p.members[:base]
	return m, nil
}

// more reports whether a member follows. It is true when the text is broken,
// too: then reading the member says how.
func (p *parser) more(end jsontext.Kind) bool { return p.decoder.PeekKind() != end }

func (p *parser) str() (any, *Error) {
	s, _, fault := p.raw()
	if fault != nil {
		return nil, fault
	}
	return s, nil
}

// raw reads a string, which may be a name, and says where it starts.
func (p *parser) raw() (string, int, *Error) {
	v, err := p.decoder.ReadValue()
	if err != nil {
		return "", 0, p.refused(err)
	}
	end := int(p.decoder.InputOffset())
	start := end - len(v)
	if v.Kind() != '"' {
		return "", 0, p.fault(start, p.pointer(), ReasonSyntax)
	}
	inside := p.text[start+1 : end-1]
	if strings.IndexByte(inside, '\\') < 0 {
		return inside, start, nil
	}
	s, err := jsontext.AppendUnquote(nil, []byte(v))
	if err != nil {
		return "", 0, p.fault(start, p.pointer(), ReasonSyntax)
	}
	return string(s), start, nil
}

func (p *parser) number() (any, *Error) {
	v, err := p.decoder.ReadValue()
	if err != nil {
		return nil, p.refused(err)
	}
	end := int(p.decoder.InputOffset())
	start := end - len(v)
	n, ok := canonicalNumber(p.text[start:end])
	if !ok {
		return nil, p.fault(start, p.pointer(), ReasonNumber)
	}
	return json.Number(n), nil
}

// end makes sure that nothing but white space follows the value.
func (p *parser) end() *Error {
	p.decoder.PeekKind()
	if _, err := p.decoder.ReadToken(); err != io.EOF {
		return p.fault(p.offset(), "", ReasonTrailing)
	}
	return nil
}

// next points to the value that has not been read yet.
func (p *parser) next() string {
	pointer := p.decoder.StackPointer()
	kind, n := p.decoder.StackIndex(p.decoder.StackDepth())
	if kind != '[' {
		return string(pointer) // the name has been read
	}
	if n > 0 {
		pointer = pointer.Parent() // of the element before
	}
	return string(pointer) + "/" + strconv.FormatInt(n, 10)
}

// pointer points to what was read last.
func (p *parser) pointer() string { return string(p.decoder.StackPointer()) }

// offset is the end of what was read last.
func (p *parser) offset() int { return int(p.decoder.InputOffset()) }

func (p *parser) fault(offset int, pointer, reason string) *Error {
	return &Error{Offset: offset, Pointer: cutPointer(pointer), Reason: reason}
}

// refused says in our words why the decoder refused.
func (p *parser) refused(err error) *Error {
	if err == io.EOF {
		return &Error{Offset: len(p.data), Reason: ReasonEmpty}
	}
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return p.fault(p.offset(), p.pointer(), ReasonSyntax)
	}
	offset := min(max(int(syntactic.ByteOffset), 0), len(p.data))
	reason := ReasonSyntax
	switch rest := p.data[offset:]; {
	case errors.Is(err, jsontext.ErrDuplicateName):
		reason = ReasonDuplicate
	case errors.Is(err, io.ErrUnexpectedEOF):
	case startsSurrogate(rest):
		reason = ReasonSurrogate
	case !startsUTF8(rest):
		reason = ReasonUTF8
	}
	return &Error{Offset: offset, Pointer: cutPointer(string(syntactic.JSONPointer)), Reason: reason}
}

// startsUTF8 reports whether b begins with a character, or is empty.
func startsUTF8(b []byte) bool {
	r, n := utf8.DecodeRune(b)
	return r != utf8.RuneError || n != 1
}

// startsSurrogate reports whether b begins with the escape of a surrogate.
func startsSurrogate(b []byte) bool {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return false
	}
	switch b[3] | 0x20 {
	case '8', '9', 'a', 'b', 'c', 'd', 'e', 'f':
		return true
	}
	return false
}
