package canon

import "strconv"

// Reasons for which [Parse] refuses a text. The set is closed; none holds
// anything of the text.
const (
	ReasonSize      = "larger than 262144 bytes"
	ReasonDepth     = "nested deeper than 64 arrays and objects"
	ReasonUTF8      = "not UTF-8"
	ReasonSurrogate = "a lone surrogate, which is no character"
	ReasonDuplicate = "the same name twice in one object"
	ReasonLookAlike = "two names in one object that differ only in case or in Unicode form"
	ReasonNumber    = "a number that an IEEE 754 double does not hold exactly as it is written (send it as a string, or with fewer digits)"
	ReasonSyntax    = "not JSON (RFC 8259)"
	ReasonEmpty     = "no JSON value"
	ReasonTrailing  = "something after the JSON value"
	ReasonObject    = "not a JSON object"
)

// maxPointer bounds Error.Pointer: names come from whoever wrote the text.
const maxPointer = 512

// Error says why and where [Parse] refused a text. Its message names members
// by their pointer and shows no values.
type Error struct {
	// Offset is a byte offset into the text: where the fault is, or the end of
	// what could still be read before it.
	Offset int
	// Pointer is the JSON Pointer (RFC 6901) of the fault: "" is the whole
	// text. One longer than 512 bytes is cut to an ancestor.
	Pointer string
	// Reason is one of the Reason constants.
	Reason string
}

// Error returns the reason and where it applies, in one line.
func (e *Error) Error() string {
	b := append([]byte("JSON: "), e.Reason...)
	if e.Pointer != "" {
		b = strconv.AppendQuoteToASCII(append(b, ", at "...), e.Pointer)
	}
	b = strconv.AppendInt(append(b, ", byte "...), int64(e.Offset), 10)
	return string(b)
}

// cutPointer returns p, or its nearest ancestor that is not too long.
func cutPointer(p string) string {
	if len(p) <= maxPointer {
		return p
	}
	for i := maxPointer; i >= 0; i-- {
		if p[i] == '/' {
			return p[:i]
		}
	}
	return ""
}

// AppendPointer appends one reference token to a JSON Pointer: a slash, then
// the token with ~ as ~0 and / as ~1 (RFC 6901, section 4).
func AppendPointer(dst []byte, token string) []byte {
	dst = append(dst, '/')
	for i := 0; i < len(token); i++ {
		switch c := token[i]; c {
		case '~':
			dst = append(dst, "~0"...)
		case '/':
			dst = append(dst, "~1"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
