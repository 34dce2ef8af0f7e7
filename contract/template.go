package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// piece is one part of a template: literal text, or an argument's name.
type piece struct {
	literal  string
	argument string
}

// parseTemplate splits a template such as {owner}/{repo}.
func parseTemplate(text string) ([]piece, error) {
	if text == "" {
		return nil, errors.New(`it is empty: write a template such as "{owner}/{repo}"`)
	}
	var pieces []piece
	for text != "" {
		open := strings.IndexAny(text, "{}")
		switch {
		case open < 0:
			return append(pieces, piece{literal: text}), nil
		case text[open] == '}':
			return nil, errors.New(`there is a "}" without its "{"`)
		case open > 0:
			pieces = append(pieces, piece{literal: text[:open]})
		case len(pieces) > 0 && pieces[len(pieces)-1].argument != "":
			return nil, errors.New("two arguments stand side by side: two calls could name one target; put text between them")
		}
		end := strings.IndexAny(text[open+1:], "{}")
		if end < 0 || text[open+1+end] == '{' {
			return nil, errors.New(`there is a "{" without its "}"`)
		}
		name := text[open+1 : open+1+end]
		if name == "" {
			return nil, errors.New(`"{}" names no argument`)
		}
		pieces = append(pieces, piece{argument: name})
		text = text[open+1+end+1:]
	}
	return pieces, nil
}

// argumentsOf returns the arguments that a template names.
func argumentsOf(pieces []piece) []string {
	var names []string
	for _, p := range pieces {
		if p.argument != "" && !slices.Contains(names, p.argument) {
			names = append(names, p.argument)
		}
	}
	return names
}

// separators returns the characters between a template's arguments. An argument
// may hold none of them, or two calls could name one target.
func separators(pieces []piece) string {
	var b strings.Builder
	for i, p := range pieces {
		if p.literal != "" && i > 0 && i < len(pieces)-1 {
			b.WriteString(p.literal)
		}
	}
	return b.String()
}

// badPart says why text cannot stand for an argument in a template, or
// nothing. A part that is "." or ".." would take a server that makes a path of
// it somewhere else; so would an encoded separator, or what ends a URL's path,
// where open says that the target need not be held by the bundle.
func badPart(text, separators string, open bool) string {
	switch {
	case text == "":
		return "it is empty, and a target is made of it"
	case strings.Contains(text, "/"):
		return `it holds a "/", and a target is made of it`
	case text == "." || text == "..":
		return `it is "." or "..", and a target is made of it`
	case open && leads(text):
		return "it holds what a server could read as a way to another target: a backslash, ?, #, a control character, or an encoded separator"
	case strings.ContainsAny(text, separators):
		return fmt.Sprintf("it holds one of %q, which separate the parts of its target", separators)
	}
	return ""
}

// leads reports whether a server that builds a path or a URL of text could end
// up elsewhere.
func leads(text string) bool {
	if strings.ContainsAny(text, `\?#`) || strings.ContainsFunc(text, unicode.IsControl) {
		return true
	}
	if before, _, ok := strings.Cut(text, ";"); ok && (before == "." || before == "..") {
		return true // some servers drop what follows a semicolon
	}
	for lower := strings.ToLower(text); ; {
		i := strings.IndexByte(lower, '%')
		if i < 0 {
			return false
		}
		lower = lower[i+1:]
		for _, hex := range [...]string{"2e", "2f", "5c", "00", "25", "3f", "23"} {
			if strings.HasPrefix(lower, hex) {
				return true
			}
		}
	}
}
