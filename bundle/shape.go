package bundle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"buf.build/go/protoyaml"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// wholeNumber is how an integer is written in a file.
var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})$`)

// checkMessage holds a YAML value against the message that it is to become,
// and returns what can be read of it: n itself, a copy without what can't, or
// nil for nothing. It is stricter than protoyaml: names in their one spelling,
// no null, no number where a word is meant, and all faults at once, each in
// its place.
func (d *document) checkMessage(n *yaml.Node, desc protoreflect.MessageDescriptor, field string) *yaml.Node {
	switch desc.FullName() {
	case "google.protobuf.Struct":
		if n.Kind != yaml.MappingNode {
			return d.refuse(n, field, "write names and values here, such as {private: false}")
		}
		return d.checkJSON(n, field)
	case "google.protobuf.Value":
		return d.checkJSON(n, field)
	case "google.protobuf.Duration":
		if v, err := protoyaml.ParseDuration(n.Value); n.Kind != yaml.ScalarNode || err != nil || v.CheckValid() != nil && v != nil {
			return d.refuse(n, field, "write a duration in hours, minutes and seconds, such as 24h, 15m or 1m30s")
		}
		return n
	case "google.protobuf.Timestamp":
		if _, err := time.Parse(time.RFC3339Nano, n.Value); n.Kind != yaml.ScalarNode || err != nil {
			return d.refuse(n, field, "write a time as in RFC 3339, such as 2026-11-30T10:00:00Z")
		}
		return n
	}
	if short, ok := shortForms[desc.FullName()]; ok {
		if n.Kind == yaml.MappingNode && !short.long {
			return d.refuse(n, field, "write "+short.say)
		}
		if long := short.expand(n); long != nil {
			read := d.checkField(long.Content[1], n, desc.Fields().ByName(protoreflect.Name(short.field)), field)
			if read == long.Content[1] {
				return n
			}
			return read // shorter, and still in short form
		}
	}
	if n.Kind != yaml.MappingNode {
		return d.refuse(n, field, fmt.Sprintf("write fields here (%s), not %s", names(desc), kindOf(n)))
	}
	out := copied{of: n}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := member(field, key.Value)
		fd := desc.Fields().ByName(protoreflect.Name(key.Value))
		if fd == nil {
			d.add(key, field, unknownField(desc, key.Value))
			d.unreadable(at)
			out.drop(i)
			continue
		}
		out.keep(i, key, value, d.checkField(value, key, fd, at))
	}
	return out.node()
}

// refuse reports a value that cannot be read.
func (d *document) refuse(n *yaml.Node, field, message string) *yaml.Node {
	d.add(n, field, message)
	d.unreadable(field)
	return nil
}

// checkJSON checks a value that stands for JSON.
func (d *document) checkJSON(n *yaml.Node, field string) *yaml.Node {
	before := d.found
	d.appendJSON(nil, n, field)
	if d.found > before {
		d.unreadable(field)
		return nil
	}
	return n
}

// copied is a mapping of which parts may be left out. It is copied when one is.
type copied struct {
	of  *yaml.Node
	out *yaml.Node // nil: nothing is left out so far
}

// drop leaves out the member at i.
func (c *copied) drop(i int) {
	if c.out == nil {
		copy := *c.of
		c.out = &copy
		c.out.Content = append([]*yaml.Node(nil), c.of.Content[:i]...)
	}
}

// keep takes the member at i with what could be read of its value; nil leaves
// it out.
func (c *copied) keep(i int, key, value, read *yaml.Node) {
	if read != value {
		c.drop(i)
	}
	if c.out != nil && read != nil {
		c.out.Content = append(c.out.Content, key, read)
	}
}

func (c *copied) node() *yaml.Node {
	if c.out != nil {
		return c.out
	}
	return c.of
}

// checkField is checkMessage for the value of a field.
func (d *document) checkField(n, key *yaml.Node, fd protoreflect.FieldDescriptor, field string) *yaml.Node {
	if isNull(n) && !acceptsNull(fd) {
		return d.refuse(key, field, "there is no value: write one or leave the name out")
	}
	switch {
	case fd.IsMap():
		if n.Kind != yaml.MappingNode {
			return d.refuse(n, field, "write names and values here, not "+kindOf(n))
		}
		out := copied{of: n}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			if name.Value == "" {
				d.add(name, field, "the name is empty")
				d.unreadable(member(field, ""))
				out.drop(i)
				continue
			}
			out.keep(i, name, value, d.checkField(value, name, fd.MapValue(), member(field, name.Value)))
		}
		return out.node()
	case fd.IsList():
		return d.checkList(n, fd, field)
	}
	return d.checkOne(n, fd, field)
}

// checkList is checkMessage for a list. Indexes count in faults, so an
// element that can't be read leaves an empty one behind, or takes the list
// with it where an element has no fields.
func (d *document) checkList(n *yaml.Node, fd protoreflect.FieldDescriptor, field string) *yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return d.refuse(n, field, "write a list here: ["+strings.Trim(example(n), "[]")+"]")
	}
	out := n
	whole := true
	for i, element := range n.Content {
		at := item(field, i)
		var read *yaml.Node
		if isNull(element) && !acceptsNull(fd) {
			d.refuse(element, at, "there is no value: write one or remove the line")
		} else {
			read = d.checkOne(element, fd, at)
		}
		switch {
		case read == element:
			continue
		case read == nil && (fd.Message() == nil || acceptsNull(fd)):
			whole = false
			continue
		case read == nil:
			read = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: element.Line, Column: element.Column}
		}
		if out == n {
			copy := *n
			out = &copy
			out.Content = slices.Clone(n.Content)
		}
		out.Content[i] = read
	}
	if !whole {
		d.unreadable(field)
		return nil
	}
	return out
}

// checkOne is checkMessage for a value that is neither a list nor a map.
func (d *document) checkOne(n *yaml.Node, fd protoreflect.FieldDescriptor, field string) *yaml.Node {
	if fd.Message() != nil {
		return d.checkMessage(n, fd.Message(), field)
	}
	if n.Kind != yaml.ScalarNode {
		return d.refuse(n, field, "write one value here, not "+kindOf(n))
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		if n.ShortTag() != "!!bool" || n.Value != "true" && n.Value != "false" {
			return d.refuse(n, field, "write true or false")
		}
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		if n.ShortTag() != "!!int" || !wholeNumber.MatchString(n.Value) {
			return d.refuse(n, field, "write a whole number")
		}
	case protoreflect.StringKind:
		if strings.ContainsRune(n.Value, 0) {
			return d.refuse(n, field, "the text holds a NUL character")
		}
	default:
		return d.refuse(n, field, "this field cannot be written in YAML")
	}
	return n
}

// isNull reports whether nothing, ~ or null is written.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// acceptsNull reports whether null is a value like any other in a field.
func acceptsNull(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value"
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "names and values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	case n.ShortTag() == "!!int", n.ShortTag() == "!!float":
		return "a number"
	case n.ShortTag() == "!!bool":
		return "true or false"
	}
	return "text"
}

// example shows n as an element of a list, if it is short.
func example(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && len(n.Value) <= 40 && n.Value != "" {
		return n.Value
	}
	return "..."
}

// names lists the fields of a message as they are written.
func names(desc protoreflect.MessageDescriptor) string {
	return strings.Join(fieldNames(desc), ", ")
}

func fieldNames(desc protoreflect.MessageDescriptor) []string {
	var out []string
	for i := range desc.Fields().Len() {
		out = append(out, string(desc.Fields().Get(i).Name()))
	}
	return out
}

func unknownField(desc protoreflect.MessageDescriptor, name string) string {
	if fd := desc.Fields().ByJSONName(name); fd != nil {
		return fmt.Sprintf("%q is written %s here", name, fd.Name())
	}
	known := fieldNames(desc)
	if near := nearest(name, known); near != "" {
		return fmt.Sprintf("there is no field %q: did you mean %s?", name, near)
	}
	return fmt.Sprintf("there is no field %q: the fields here are %s", name, strings.Join(known, ", "))
}

// nearest returns the known word that name was most likely meant to be, or "".
func nearest(name string, known []string) string {
	best, at := "", max(2, (len(name)+2)/3)+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if len(k)-len(name) >= at || len(name)-len(k) >= at {
			continue
		}
		if n := distance(name, k); n < at && n < len(k) {
			best, at = k, n
		}
	}
	return best
}

// distance counts the bytes to insert, drop or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
