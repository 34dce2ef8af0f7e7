package bundle

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/writ-pdp/writ/canon"
)

// jsonNumber is a number as JSON writes it (RFC 8259, section 6).
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// appendJSON appends the JSON of a YAML value, its numbers in the very text
// in which they are written: YAML readers make a binary number of 125.00 or
// 9007199254740993 and lose what was meant. It reports, and leaves out, what
// JSON cannot say.
func (d *document) appendJSON(dst []byte, n *yaml.Node, field string) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = canon.AppendString(dst, n.Content[i].Value)
			dst = append(dst, ':')
			dst = d.appendJSON(dst, n.Content[i+1], member(field, n.Content[i].Value))
		}
		return append(dst, '}')
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, element := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = d.appendJSON(dst, element, item(field, i))
		}
		return append(dst, ']')
	case yaml.ScalarNode:
	default:
		d.add(n, field, "this is not a value")
		return append(dst, "null"...)
	}
	switch n.ShortTag() {
	case "!!null":
		return append(dst, "null"...)
	case "!!bool":
		if n.Value == "true" || n.Value == "false" {
			return append(dst, n.Value...)
		}
		d.add(n, field, fmt.Sprintf("write %s, or quote it if it is text", strings.ToLower(n.Value)))
		return append(dst, "null"...)
	case "!!int", "!!float":
		if jsonNumber.MatchString(n.Value) {
			return append(dst, n.Value...)
		}
		d.add(n, field, "a number is written as in JSON (12, -0.5, 1e3): quote it if it is text")
		return append(dst, "null"...)
	}
	return canon.AppendString(dst, n.Value)
}

// tree reads a YAML value as a tree of canon, in which every number is exact.
func (d *document) tree(n *yaml.Node, field string) (any, bool) {
	before := d.found
	text := d.appendJSON(nil, n, field)
	if d.found > before {
		return nil, false
	}
	v, err := canon.Parse(text)
	if err != nil {
		d.add(n, field, err.Error())
		d.unreadable(field)
		return nil, false
	}
	return v, true
}
