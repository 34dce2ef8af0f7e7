package contract

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/writ-pdp/writ/canon"
)

// schemaError says for the reviewer why an input schema cannot be enforced.
type schemaError struct {
	pointer string // JSON Pointer into the input schema: the place, or one that holds it
	why     string
}

func (e *schemaError) Error() string { return "inputSchema" + e.pointer + ": " + e.why }

// explain says why schema does not compile, and where.
func explain(schema map[string]any, err error) *schemaError {
	if e, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		dialect, _ := schema["$schema"].(string)
		if d, _, _ := strings.Cut(dialect, "#"); d == e.URL {
			return &schemaError{"/$schema", fmt.Sprintf("%q is a dialect that is not known here: use JSON Schema 2020-12 or a draft before it", dialect)}
		}
		at, ref := findRef(schema, strings.TrimPrefix(e.URL, "https://schema.invalid/"), nil)
		if ref == "" {
			ref = e.URL
		}
		return &schemaError{at, fmt.Sprintf("$ref %q leads out of the schema, and nothing is ever loaded: copy what it names into $defs", ref)}
	}
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if broken, ok := errors.AsType[*jsonschema.ValidationError](e.Err); ok {
			leaf := deepest(broken)
			why := "it is no JSON Schema"
			if k, ok := leaf.ErrorKind.(*kind.Format); ok && k.Want == "regex" {
				why = badPattern(fmt.Sprint(k.Got), k.Err)
			} else if leaf.ErrorKind != nil {
				why = leaf.ErrorKind.LocalizedString(message.NewPrinter(language.English))
			}
			return &schemaError{pointerOf(leaf.InstanceLocation), why}
		}
	}
	if e, ok := errors.AsType[*keywordError](err); ok {
		return &schemaError{string(canon.AppendPointer([]byte(fragmentOf(e.location)), e.keyword)), e.why}
	}
	if e, ok := errors.AsType[*jsonschema.InvalidRegexError](err); ok {
		return &schemaError{fragmentOf(e.URL), badPattern(e.Regex, e.Err)}
	}
	text := strings.ReplaceAll(err.Error(), schemaURL+"#", "inputSchema")
	text = strings.ReplaceAll(text, schemaURL, "inputSchema")
	if e, ok := errors.AsType[*jsonschema.DuplicateIDError](err); ok {
		return &schemaError{max(e.Ptr1, e.Ptr2), text}
	}
	return &schemaError{"", text}
}

func badPattern(text string, err error) string {
	return fmt.Sprintf("the pattern %s is refused: %v", shown(text), err)
}

// fragmentOf returns the JSON Pointer in the fragment of a place in the
// schema.
func fragmentOf(location string) string {
	_, fragment, _ := strings.Cut(location, "#")
	if pointer, err := url.PathUnescape(fragment); err == nil {
		return pointer
	}
	return ""
}

// findRef looks for the first reference in v whose text, its fragment aside,
// ends in url, and returns where it is and what it says.
func findRef(v any, url string, at []byte) (pointer, ref string) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range [...]string{"$ref", "$dynamicRef", "$recursiveRef"} {
			if text, ok := v[k].(string); ok && text != "" {
				if base, _, _ := strings.Cut(text, "#"); base != "" && (strings.HasSuffix(base, url) || strings.HasSuffix(url, base)) {
					return string(at), text
				}
			}
		}
		for _, name := range sortedKeys(v) {
			if pointer, ref = findRef(v[name], url, canon.AppendPointer(slices.Clone(at), name)); ref != "" {
				return pointer, ref
			}
		}
	case []any:
		for i, e := range v {
			if pointer, ref = findRef(e, url, canon.AppendPointer(slices.Clone(at), fmt.Sprint(i))); ref != "" {
				return pointer, ref
			}
		}
	}
	return "", ""
}

// deepest follows the first cause, in the order of place and keyword, down to
// a failure without causes.
func deepest(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	for len(e.Causes) > 0 {
		e = firstCause(e.Causes)
	}
	return e
}

// blame returns the one failure to report. It is the same for equal arguments,
// although the library goes through objects in random order.
func blame(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	for len(e.Causes) > 0 {
		switch e.ErrorKind.(type) {
		case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
			e = firstCause(e.Causes) // these only collect
		default:
			return e
		}
	}
	return e
}

func firstCause(causes []*jsonschema.ValidationError) *jsonschema.ValidationError {
	return slices.MinFunc(causes, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(slices.Compare(a.InstanceLocation, b.InstanceLocation), cmp.Compare(keywordOf(a), keywordOf(b)))
	})
}

// keywordOf returns the keyword that e breaks.
func keywordOf(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case nil:
		return "schema"
	case *kind.Format:
		if by, ok := errors.AsType[*refused](k.Err); ok {
			return by.keyword
		}
		return "format"
	case *kind.Not:
		return "not"
	case *kind.FalseSchema:
		return "a schema that is false"
	case *kind.RefCycle:
		return "$ref"
	default:
		if path := k.KeywordPath(); len(path) > 0 {
			return path[0]
		}
		return "schema"
	}
}

func pointerOf(tokens []string) string {
	var p []byte
	for _, t := range tokens {
		p = canon.AppendPointer(p, t)
	}
	return string(p)
}
