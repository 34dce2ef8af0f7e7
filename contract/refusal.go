package contract

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/writ-pdp/writ/canon"
)

// Bounds of what a message shows of a schema, or of a name that a call brings
// along. Neither is a value of an argument: those are never shown.
const (
	maxShown       = 64 // bytes of one text
	maxShownValues = 10 // of a list
)

// refusal says what the schema wants where it refuses a value.
func refusal(leaf *jsonschema.ValidationError) string {
	switch k := leaf.ErrorKind.(type) {
	case *kind.Format:
		if by, ok := errors.AsType[*refused](k.Err); ok {
			return by.want
		}
	case *kind.Type:
		words := make([]string, len(k.Want))
		for i, word := range k.Want {
			words[i] = typeWords[word]
		}
		if !slices.Contains(words, "") {
			return "must be " + strings.Join(words, " or ")
		}
	case *kind.Required:
		return missing(k.Missing)
	case *kind.DependentRequired:
		return missing(k.Missing) + ": " + strconv.Quote(clip(k.Prop)) + " needs it"
	case *kind.Dependency:
		return missing(k.Missing) + ": " + strconv.Quote(clip(k.Prop)) + " needs it"
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %s", plural(k.Want, "character"))
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %s", plural(k.Want, "character"))
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %s", plural(k.Want, "element"))
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %s", plural(k.Want, "element"))
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %s", plural(k.Want, "member"))
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %s", plural(k.Want, "member"))
	case *kind.MultipleOf:
		return "must be a multiple of " + ratText(k.Want)
	case *kind.Pattern:
		return "must match the pattern " + shown(k.Want)
	case *kind.AdditionalProperties:
		return "holds a member that the tool's schema does not declare"
	}
	return "the tool's schema refuses it: " + keywordOf(leaf)
}

// typeWords are the types of JSON Schema in messages.
var typeWords = map[string]string{
	"string": "a string", "number": "a number", "integer": "a whole number", "boolean": "true or false",
	"object": "an object", "array": "an array", "null": "null",
}

// missing names the members that are required and absent. They are the
// schema's names.
func missing(names []string) string {
	names = slices.Sorted(slices.Values(names))
	verb := " is missing"
	if len(names) > 1 {
		verb = " are missing"
	}
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = strconv.Quote(clip(name))
	}
	return enumerate(list) + verb
}

// mustBeOneOf lists the values that a schema allows.
func mustBeOneOf(values []any) string {
	list := make([]string, len(values))
	for i, v := range values {
		if text, ok := v.(string); ok {
			list[i] = shown(text)
		} else {
			list[i] = clip(string(canon.Append(nil, v)))
		}
	}
	if len(list) == 1 {
		return "must be " + list[0]
	}
	return "must be one of " + enumerate(list)
}

// enumerate joins what a message lists, and counts what is too much of it.
func enumerate(list []string) string {
	if more := len(list) - maxShownValues; more > 0 {
		return strings.Join(list[:maxShownValues], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ratText writes a number of a schema as JSON does (RFC 8785).
func ratText(r *big.Rat) string {
	f, _ := r.Float64()
	if math.IsInf(f, 0) {
		return clip(r.RatString()) // of a schema that canon did not read
	}
	return string(canon.AppendFloat(nil, f))
}

// shown returns text for a message: as it is where it reads as one word, else
// quoted, with whatever is not graphic escaped.
func shown(s string) string {
	short := clip(s)
	if short != "" && plainText(short) && !strings.ContainsFunc(short, func(c rune) bool {
		return unicode.IsSpace(c) || c == ',' || c == '"' || c == '\\'
	}) {
		return short
	}
	return strconv.Quote(short)
}

// clip cuts text after maxShown bytes, between characters.
func clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
