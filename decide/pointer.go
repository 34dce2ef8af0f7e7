package decide

import (
	"strconv"
	"strings"
)

// at follows a JSON Pointer into the arguments (RFC 6901, section 4).
func at(v any, pointer string) (any, bool) {
	for pointer != "" {
		token := pointer[1:]
		if i := strings.IndexByte(token, '/'); i >= 0 {
			pointer, token = token[i:], token[:i]
		} else {
			pointer = ""
		}
		if strings.IndexByte(token, '~') >= 0 {
			token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		}
		switch x := v.(type) {
		case map[string]any:
			var ok bool
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
