package definition

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/writ-pdp/writ/canon"
)

// Limits of a list. Each tool in it is held to [canon.MaxSize] and
// [canon.MaxDepth] by itself.
const (
	MaxListSize = 16 << 20 // bytes of the whole text
	MaxTools    = 10_000
)

// listMembers are what MCP (2026-07-28, ListToolsResult) gives a meaning.
var listMembers = [...]string{"tools", "nextCursor", "resultType", "ttlMs", "cacheScope", "_meta"}

// ParseList reads the result of tools/list, {"tools":[…]}, or the bare array,
// of at most [MaxListSize] bytes and [MaxTools] tools. The tools come in the
// order of the text, each as [Parse] reads it; an empty list is not nil.
//
// The list must be whole: a nextCursor that is not "" and a resultType that is
// not "complete" are refused. Two tools of one name are refused. Other members
// of the result, which MCP leaves open, must be JSON that can be read in
// exactly one way, and are not kept. An error is an [*Error].
func ParseList(data []byte) ([]*Tool, error) {
	if len(data) > MaxListSize {
		return nil, &Error{Offset: MaxListSize, Reason: "the list is larger than 16 MiB"}
	}
	l := lister{data: data, tools: []*Tool{}, first: map[string]int{}}
	// This decoder only finds where values start and end. Whatever it reads
	// goes through canon.Parse, which is strict and says why it refuses; the
	// names of the result, which no single value holds, are checked in result.
	l.decoder = jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := l.list(); err != nil {
		return nil, err
	}
	return l.tools, nil
}

// lister splits a list into its tools without parsing them, so that the caps
// of canon hold for each tool and not for the list.
type lister struct {
	data    []byte
	decoder *jsontext.Decoder
	tools   []*Tool
	first   map[string]int // index of the tool of this name
}

func (l *lister) list() error {
	switch l.decoder.PeekKind() {
	case '[':
		if fault := l.array(""); fault != nil {
			return fault
		}
	case '{':
		if fault := l.result(); fault != nil {
			return fault
		}
	default:
		if _, err := l.decoder.ReadValue(); err != nil {
			return l.broken(err)
		}
		return &Error{Reason: `a list of tools is the result of tools/list, {"tools":[…]}, or an array of Tool objects`}
	}
	l.decoder.PeekKind()
	if _, err := l.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return unreadable(int(l.decoder.InputOffset()), "", canon.ReasonTrailing)
	}
	return nil
}

// result reads the object {"tools":[…], …}.
func (l *lister) result() *Error {
	if _, err := l.decoder.ReadToken(); err != nil {
		return l.broken(err)
	}
	seen := map[string]string{} // folded name: name
	for l.decoder.PeekKind() != '}' {
		name, offset, fault := l.name()
		if fault != nil {
			return fault
		}
		pointer := at("", name)
		folded := canon.Fold(name)
		switch other, dup := seen[folded]; {
		case dup && other == name:
			return unreadable(offset, pointer, canon.ReasonDuplicate)
		case dup:
			return unreadable(offset, pointer, canon.ReasonLookAlike)
		case looksLike(name, listMembers[:]):
			return &Error{Offset: offset, Pointer: pointer, Reason: reasonLookAlike}
		}
		seen[folded] = name
		if fault := l.member(name, pointer); fault != nil {
			return fault
		}
	}
	if _, err := l.decoder.ReadToken(); err != nil {
		return l.broken(err)
	}
	return missingTools(seen)
}

// name reads the name of a member.
func (l *lister) name() (name string, offset int, fault *Error) {
	text, offset, fault := l.value()
	if fault != nil {
		return "", 0, fault
	}
	v, err := canon.Parse(text)
	if err != nil {
		return "", 0, refused(err, text, offset, "")
	}
	name, ok := v.(string)
	if !ok {
		return "", 0, unreadable(offset, "", canon.ReasonSyntax)
	}
	return name, offset, nil
}

// member reads the value of one member of the result.
func (l *lister) member(name, pointer string) *Error {
	if name == "tools" {
		if l.decoder.PeekKind() == '[' {
			return l.array(pointer)
		}
		_, offset, fault := l.value()
		if fault != nil {
			return fault
		}
		return &Error{Offset: offset, Pointer: pointer, Reason: "tools is not an array of Tool objects"}
	}
	text, offset, fault := l.value()
	if fault != nil {
		return fault
	}
	v, err := canon.Parse(text)
	if err != nil {
		return refused(err, text, offset, pointer)
	}
	switch {
	case name == "nextCursor" && v != "":
		return &Error{Offset: offset, Pointer: pointer,
			Reason: "nextCursor says that this is only one page of the list: fetch all pages and put their tools into one array, without nextCursor"}
	case name == "resultType" && v != "complete":
		return &Error{Offset: offset, Pointer: pointer, Reason: `resultType is not "complete": the server has not given its list of tools yet`}
	}
	return nil
}

// missingTools says what a result without tools may be instead.
func missingTools(seen map[string]string) *Error {
	has := func(name string) bool { return seen[canon.Fold(name)] == name }
	switch {
	case has("tools"):
		return nil
	case has("result"):
		return &Error{Reason: "this is a JSON-RPC response: give its result only"}
	case has("inputSchema"):
		return &Error{Reason: "this is a single Tool object: put it into an array"}
	}
	return &Error{Reason: `tools is missing: a list of tools is the result of tools/list, {"tools":[…]}`}
}

// array reads the Tool objects.
func (l *lister) array(pointer string) *Error {
	if _, err := l.decoder.ReadToken(); err != nil {
		return l.broken(err)
	}
	for i := 0; l.decoder.PeekKind() != ']'; i++ {
		text, offset, fault := l.value()
		if fault != nil {
			return fault
		}
		at := pointer + "/" + strconv.Itoa(i)
		if i == MaxTools {
			return &Error{Offset: offset, Pointer: at, Reason: "the list has more than 10,000 tools"}
		}
		tool, fault := parse(text, offset, at)
		if fault != nil {
			return fault
		}
		if j, dup := l.first[tool.Name]; dup {
			return &Error{Tool: tool.Name, Offset: offset, Pointer: at + "/name",
				Reason: "two tools have this name, the other at " + pointer + "/" + strconv.Itoa(j) + ": a name must be unique within a server"}
		}
		l.first[tool.Name] = i
		l.tools = append(l.tools, tool)
	}
	if _, err := l.decoder.ReadToken(); err != nil {
		return l.broken(err)
	}
	return nil
}

// value reads the next value as text and says where it starts. The text is
// good until the decoder is used again.
func (l *lister) value() (text []byte, offset int, fault *Error) {
	v, err := l.decoder.ReadValue()
	if err != nil {
		return nil, 0, l.broken(err)
	}
	return v, int(l.decoder.InputOffset()) - len(v), nil
}

// broken says where the decoder could not go on.
func (l *lister) broken(err error) *Error {
	if errors.Is(err, io.EOF) {
		return unreadable(len(l.data), "", canon.ReasonEmpty)
	}
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return unreadable(int(l.decoder.InputOffset()), "", canon.ReasonSyntax)
	}
	return noJSON(l.data, 0, string(syntactic.JSONPointer))
}
