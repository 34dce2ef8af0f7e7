package policy

import (
	"bytes"
	"unicode/utf8"

	"github.com/writ-pdp/writ"
)

// tokenKind says what a token is.
type tokenKind uint8

const (
	tokenWord     tokenKind = iota + 1 // identifiers and reserved words
	tokenInt                           // digits
	tokenString                        // with its quotes
	tokenOperator                      // brackets and punctuation too
	tokenOther                         // a character that means nothing
)

// token is one token of a Cedar text, by its byte offsets.
type token struct {
	kind       tokenKind
	start, end int32
}

// text returns the token as it stands in the text that it was scanned from.
func (t token) text(src []byte) string { return string(src[t.start:t.end]) }

// language is which of Cedar's two languages a text is in. They have the same
// strings and comments, and group other characters differently.
type language uint8

const (
	policyLanguage language = iota
	schemaLanguage
)

// scanError says where a text stops being a sequence of tokens.
type scanError struct {
	offset  int
	message string
}

// scan splits a text into tokens, leaving out white space and comments. At
// something that Cedar's own scanners refuse it stops, and returns the tokens
// before it: those are all that a parser may still see.
func scan(src []byte, lang language) ([]token, *scanError) {
	var out []token
	for i := 0; i < len(src); {
		start, b := i, src[i]
		kind := tokenWord
		switch {
		case b == ' ' || b == '\t' || b == '\r' || b == '\n':
			i++
			continue
		case b == '/' && i+1 < len(src) && src[i+1] == '/':
			for i < len(src) && src[i] != '\n' {
				i++
			}
			continue
		case b == '/' && i+1 < len(src) && src[i+1] == '*':
			end := commentEnd(src, i)
			if end < 0 {
				return out, &scanError{start, "this comment has no end: close it with */"}
			}
			i = end
			continue
		case isWordByte(b) && !isDigitByte(b):
			for i < len(src) && isWordByte(src[i]) {
				i++
			}
		case isDigitByte(b):
			kind = tokenInt
			for i < len(src) && isDigitByte(src[i]) {
				i++
			}
		case b == '"':
			kind = tokenString
			if i = stringEnd(src, i); i < 0 {
				return out, &scanError{start, "this string has no end: close it with \" on the same line"}
			}
		default:
			kind, i = scanOperator(src, i, lang)
		}
		out = append(out, token{kind, int32(start), int32(i)})
	}
	return out, nil
}

// commentEnd returns the offset behind the block comment at i, or -1.
func commentEnd(src []byte, i int) int {
	for i += 2; i+1 < len(src); i++ {
		if src[i] == '*' && src[i+1] == '/' {
			return i + 2
		}
	}
	return -1
}

// stringEnd returns the offset behind the string at i, or -1. A string ends
// on its line.
func stringEnd(src []byte, i int) int {
	for i++; i < len(src); i++ {
		switch src[i] {
		case '"':
			return i + 1
		case '\n':
			return -1
		case '\\':
			if i++; i < len(src) && src[i] == '\n' {
				return -1
			}
		}
	}
	return -1
}

// scanOperator reads an operator, a bracket or a meaningless character at i
// and returns the offset behind it.
func scanOperator(src []byte, i int, lang language) (tokenKind, int) {
	var next byte
	if i+1 < len(src) {
		next = src[i+1]
	}
	switch b := src[i]; {
	case b == ':' && next == ':':
		return tokenOperator, i + 2
	case lang == policyLanguage && (b == '!' || b == '<' || b == '>' || b == '=') && next == '=':
		return tokenOperator, i + 2
	case lang == policyLanguage && (b == '|' || b == '&') && next == b:
		return tokenOperator, i + 2
	case b == '=' || b == '?':
		if lang == schemaLanguage {
			return tokenOperator, i + 1
		}
		return tokenOther, i + 1
	case b < utf8.RuneSelf && isPunctuation(b):
		return tokenOperator, i + 1
	}
	_, size := utf8.DecodeRune(src[i:])
	return tokenOther, i + size
}

func isPunctuation(b byte) bool {
	switch b {
	case '@', '.', ',', ';', ':', '(', ')', '{', '}', '[', ']', '<', '>', '+', '-', '*', '!':
		return true
	}
	return false
}

func isDigitByte(b byte) bool { return '0' <= b && b <= '9' }

func isWordByte(b byte) bool {
	return b == '_' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || isDigitByte(b)
}

// place returns the line and the column, in characters, of a byte offset,
// both counted from 1.
func place(src []byte, offset int) (line, column int) {
	offset = min(max(offset, 0), len(src))
	start := 1 + bytes.LastIndexByte(src[:offset], '\n')
	return 1 + bytes.Count(src[:offset], []byte("\n")), 1 + utf8.RuneCount(src[start:offset])
}

// offsetOf is the inverse of place; -1 if there is no such place.
func offsetOf(src []byte, line, column int) int {
	i := 0
	for ; line > 1; line-- {
		for i < len(src) && src[i] != '\n' {
			i++
		}
		if i == len(src) {
			return -1
		}
		i++
	}
	for ; column > 1; column-- {
		if i == len(src) || src[i] == '\n' {
			return -1
		}
		_, size := utf8.DecodeRune(src[i:])
		i += size
	}
	return i
}

// faultAt returns an error at a byte offset of src.
func faultAt(src Source, offset int, message string) writ.Fault {
	line, column := place(src.Text, offset)
	return writ.Fault{File: src.File, Line: line, Column: column, Message: message}
}
