package canon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Append appends the RFC 8785 form of v to dst. A tree may hold what [Parse]
// returns (numbers in canonical form already), int within ±2^53, and
// []string; a nil map or slice is an empty one. Anything else is a mistake of
// the program, and Append panics.
func Append(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return AppendString(dst, v)
	case json.Number:
		return append(dst, v...)
	case int:
		if v < -1<<53 || v > 1<<53 {
			panic("canon: Append of an int that a double does not hold exactly")
		}
		return strconv.AppendInt(dst, int64(v), 10)
	case map[string]any:
		return appendObject(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = Append(dst, e)
		}
		return append(dst, ']')
	case []string:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendString(dst, e)
		}
		return append(dst, ']')
	}
	panic(fmt.Sprintf("canon: Append of a %T", v))
}

func appendObject(dst []byte, m map[string]any) []byte {
	var few [16]string // so that sorting a usual object allocates nothing
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, compareUTF16)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, name)
		dst = append(dst, ':')
		dst = Append(dst, m[name])
	}
	return append(dst, '}')
}

// compareUTF16 orders UTF-8 strings by their UTF-16 code units (RFC 8785,
// section 3.2.3). This is the order of their bytes, except that characters
// above U+FFFF, whose first code unit is a surrogate (D800 to DFFF), come
// before those from U+E000 to U+FFFF.
func compareUTF16(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		// Both are first bytes of a character here, if either is one of these:
		// EE and EF lead U+E000 to U+FFFF, F0 and higher what lies above.
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			x, y = y, x
		}
		if x < y {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string with the escapes of RFC 8785,
// section 3.2.2.2, and no others. Bytes that are not UTF-8 are written as they
// are: then the result is no JSON text, and its digest that of none.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[done:i]...)
		done = i + 1
		if k := strings.IndexByte("\"\\\b\t\n\f\r", c); k >= 0 {
			dst = append(dst, '\\', `"\btnfr`[k])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[done:]...)
	return append(dst, '"')
}
