package definition

import (
	"errors"
	"strconv"
	"strings"

	"github.com/writ-pdp/writ/canon"
)

// Error says what is wrong with a definition, where, and what to do.
type Error struct {
	// Tool is the name of the tool at fault; empty where that is unknown.
	Tool string
	// Offset is a byte offset into the text, at or before the fault: where
	// the text is a list, the start of the tool at least.
	Offset int
	// Pointer is the JSON Pointer (RFC 6901) of the value at fault in the
	// text, or of one that holds it; "" is the whole text.
	Pointer string
	// Reason is what is wrong there and what to do, without values: where the
	// text is not JSON, it may show the character or the bare word at fault.
	Reason string
	// Cause is a [*canon.Error] with the same Offset and Pointer, if the text
	// cannot be read in exactly one way, else nil.
	Cause error
}

// Error returns the tool, the pointer and the reason, in one line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Tool != "" {
		b.WriteString("tool " + strconv.QuoteToASCII(e.Tool) + ": ")
	}
	if e.Pointer != "" {
		b.WriteString(strconv.QuoteToASCII(e.Pointer) + ": ")
	}
	b.WriteString(e.Reason)
	return b.String()
}

// Unwrap returns Cause.
func (e *Error) Unwrap() error { return e.Cause }

// refused turns what canon says of a part of a text, which starts at offset
// and has the pointer, into an Error of the whole text.
func refused(err error, part []byte, offset int, pointer string) *Error {
	inner, ok := errors.AsType[*canon.Error](err)
	if !ok {
		return &Error{Offset: offset, Pointer: pointer, Reason: "the JSON cannot be read", Cause: err}
	}
	if inner.Reason == canon.ReasonSyntax {
		return noJSON(part, offset, pointer+inner.Pointer)
	}
	return unreadable(offset+inner.Offset, pointer+inner.Pointer, inner.Reason)
}

// unreadable is an Error for one of canon's reasons.
func unreadable(offset int, pointer, reason string) *Error {
	pointer = cut(pointer)
	return &Error{
		Offset: offset, Pointer: pointer, Reason: "the JSON cannot be read in exactly one way: " + reason,
		Cause: &canon.Error{Offset: offset, Pointer: pointer, Reason: reason},
	}
}

// noJSON is an Error for a part of a text that is not JSON.
func noJSON(part []byte, offset int, pointer string) *Error {
	at, why := canon.Explain(part)
	e := unreadable(offset+at, pointer, canon.ReasonSyntax)
	if why != "" {
		e.Reason = "this is not JSON: " + why
	}
	return e
}

// at returns the pointer of a member of what pointer stands for.
func at(pointer, name string) string {
	return string(canon.AppendPointer([]byte(pointer), name))
}

// maxPointer bounds pointers in messages: names come from anybody.
const maxPointer = 512

// cut returns pointer, or its nearest ancestor that is not too long.
func cut(pointer string) string {
	if len(pointer) <= maxPointer {
		return pointer
	}
	return pointer[:max(0, strings.LastIndexByte(pointer[:maxPointer+1], '/'))]
}
