package contract

import (
	"strconv"
	"strings"
)

// At follows a JSON Pointer (RFC 6901, section 4) into a tree of canon.Parse.
// An index is digits without a leading zero. It reports false where the
// pointer leads to nothing, or is none.
func At(v any, pointer string) (any, bool) {
	for pointer != "" {
		var token string
		var ok bool
		if token, pointer, ok = cutPointer(pointer); !ok {
			return nil, false
		}
		switch x := v.(type) {
		case map[string]any:
			if v, ok = x[token]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(x) || strconv.Itoa(i) != token {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// cutPointer splits a JSON Pointer after its first token.
func cutPointer(pointer string) (token, rest string, ok bool) {
	if pointer[0] != '/' {
		return "", "", false
	}
	token = pointer[1:]
	if i := strings.IndexByte(token, '/'); i >= 0 {
		token, rest = token[:i], token[i:]
	}
	if strings.IndexByte(token, '~') >= 0 {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return token, rest, true
}

// Value returns what a call with args means by what pointer (RFC 6901) leads
// to: the value, or what the contract says that its absence means. It reports
// false where there is neither.
func (c *Contract) Value(args map[string]any, pointer string) (any, bool) {
	if v, ok := At(args, pointer); ok {
		return v, true
	}
	return c.Meant(args, pointer)
}

// Meant returns what the contract says that the absence of what pointer leads
// to means (when_absent). It reports false where it says nothing, and where
// the arguments hold something there.
func (c *Contract) Meant(args map[string]any, pointer string) (any, bool) {
	record, v := c.Arguments, any(args)
	for pointer != "" {
		if record == nil || record.Kind != Record {
			return nil, false
		}
		token, rest, ok := cutPointer(pointer)
		if !ok {
			return nil, false
		}
		field := record.Field(token)
		if field == nil {
			return nil, false
		}
		object, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		next, there := object[token]
		if !there {
			if field.Default == nil {
				return nil, false
			}
			return At(field.Default, rest)
		}
		record, v, pointer = field.Type, next, rest
	}
	return nil, false
}
