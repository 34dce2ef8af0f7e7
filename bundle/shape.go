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

// checkMessage holds a YAML value against the message that it is to become.
// It is stricter than protoyaml: names in their one spelling, no null, no
// number where a word is meant, and all faults at once, each in its place.
func (d *document) checkMessage(n *yaml.Node, desc protoreflect.MessageDescriptor, field string) {
	switch desc.FullName() {
	case "google.protobuf.Struct":
		if n.Kind != yaml.MappingNode {
			d.add(n, field, "write names and values here, such as {private: false}")
			return
		}
		d.appendJSON(nil, n, field)
		return
	case "google.protobuf.Value":
		d.appendJSON(nil, n, field)
		return
	case "google.protobuf.Duration":
		if v, err := protoyaml.ParseDuration(n.Value); n.Kind != yaml.ScalarNode || err != nil || v.CheckValid() != nil && v != nil {
			d.add(n, field, "write a duration in hours, minutes and seconds, such as 24h, 15m or 1m30s")
		}
		return
	case "google.protobuf.Timestamp":
		if _, err := time.Parse(time.RFC3339Nano, n.Value); n.Kind != yaml.ScalarNode || err != nil {
			d.add(n, field, "write a time as in RFC 3339, such as 2026-11-30T10:00:00Z")
		}
		return
	}
	if short, ok := shortForms[desc.FullName()]; ok {
		if n.Kind == yaml.MappingNode && !short.long {
			d.add(n, field, "write "+short.say)
			return
		}
		if long := short.expand(n); long != nil {
			d.checkField(long.Content[1], n, desc.Fields().ByName(protoreflect.Name(short.field)), field)
			return
		}
	}
	if n.Kind != yaml.MappingNode {
		d.add(n, field, fmt.Sprintf("write fields here (%s), not %s", names(desc), kindOf(n)))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		fd := desc.Fields().ByName(protoreflect.Name(key.Value))
		if fd == nil {
			d.add(key, field, unknownField(desc, key.Value))
			continue
		}
		d.checkField(value, key, fd, member(field, key.Value))
	}
}

func (d *document) checkField(n, key *yaml.Node, fd protoreflect.FieldDescriptor, field string) {
	if isNull(n) && !acceptsNull(fd) {
		d.add(key, field, "there is no value: write one or leave the name out")
		return
	}
	switch {
	case fd.IsMap():
		if n.Kind != yaml.MappingNode {
			d.add(n, field, "write names and values here, not "+kindOf(n))
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i]
			if name.Value == "" {
				d.add(name, field, "the name is empty")
				continue
			}
			d.checkField(n.Content[i+1], name, fd.MapValue(), member(field, name.Value))
		}
	case fd.IsList():
		if n.Kind != yaml.SequenceNode {
			d.add(n, field, "write a list here: ["+strings.Trim(example(n), "[]")+"]")
			return
		}
		for i, element := range n.Content {
			at := item(field, i)
			if isNull(element) && !acceptsNull(fd) {
				d.add(element, at, "there is no value: write one or remove the line")
				continue
			}
			d.checkOne(element, fd, at)
		}
	default:
		d.checkOne(n, fd, field)
	}
}

// checkOne checks a value that is neither a list nor a map.
func (d *document) checkOne(n *yaml.Node, fd protoreflect.FieldDescriptor, field string) {
	if fd.Message() != nil {
		d.checkMessage(n, fd.Message(), field)
		return
	}
	if n.Kind != yaml.ScalarNode {
		d.add(n, field, "write one value here, not "+kindOf(n))
		return
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		if n.ShortTag() != "!!bool" || n.Value != "true" && n.Value != "false" {
			d.add(n, field, "write true or false")
		}
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		if n.ShortTag() != "!!int" || !wholeNumber.MatchString(n.Value) {
			d.add(n, field, "write a whole number")
		}
	case protoreflect.StringKind:
		if strings.ContainsRune(n.Value, 0) {
			d.add(n, field, "the text holds a NUL character")
		}
	default:
		d.add(n, field, "this field cannot be written in YAML")
	}
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
	var out []string
	for i := range desc.Fields().Len() {
		out = append(out, string(desc.Fields().Get(i).Name()))
	}
	return strings.Join(out, ", ")
}

func unknownField(desc protoreflect.MessageDescriptor, name string) string {
	if fd := desc.Fields().ByJSONName(name); fd != nil {
		return fmt.Sprintf("%q is written %s here", name, fd.Name())
	}
	var known []string
	for i := range desc.Fields().Len() {
		known = append(known, string(desc.Fields().Get(i).Name()))
	}
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
