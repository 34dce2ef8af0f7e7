package contract

import (
	"encoding/json"
	"fmt"

	"github.com/writ-pdp/writ/canon"
)

// canonicalNumber reports whether n is written as RFC 8785 writes numbers.
func canonicalNumber(n json.Number) bool {
	v, err := canon.Parse([]byte(n))
	return err == nil && v == n
}

// notCanonical says why v is not a tree as canon.Parse returns them, or
// nothing. Whatever is declared as a JSON value is digested, and compared with
// arguments, as such a tree.
func notCanonical(v any) string {
	switch v := v.(type) {
	case nil, bool, string:
		return ""
	case json.Number:
		if !canonicalNumber(v) {
			return fmt.Sprintf("the number %s is not exact as an IEEE 754 double", v)
		}
		return ""
	case []any:
		for _, e := range v {
			if why := notCanonical(e); why != "" {
				return why
			}
		}
		return ""
	case map[string]any:
		for _, e := range v {
			if why := notCanonical(e); why != "" {
				return why
			}
		}
		return ""
	}
	return fmt.Sprintf("a %T is no JSON value", v)
}
