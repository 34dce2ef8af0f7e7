package bundle

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A file is read as far as it can be, so that its author sees all faults at
// once: what has the wrong form, or no field to go to, is reported and left
// out, and the constructors see the rest. Then what they miss may only be what
// was left out. Of each such place the document remembers the path, and keeps
// quiet about what may follow from it. A file with a fault never becomes
// anything; this is about messages alone.

// fieldPath is a field path, one element for each name and index.
type fieldPath []string

// splitPath is the path of a field such as tools["a.b"].opaque[0].
func splitPath(field string) fieldPath {
	var out fieldPath
	for field != "" {
		name, index, rest, ok := nextStep(field)
		if !ok {
			break
		}
		if index >= 0 {
			name = "[" + strconv.Itoa(index) + "]"
		}
		out, field = append(out, name), rest
	}
	return out
}

// within reports whether p is q or below it.
func (p fieldPath) within(q fieldPath) bool { return len(p) >= len(q) && slices.Equal(p[:len(q)], q) }

// unreadable notes that what stands at a field is left out.
func (d *document) unreadable(field string) { d.unread = append(d.unread, splitPath(field)) }

// partly reports whether something at or below a field is left out.
func (d *document) partly(field string) bool {
	at := splitPath(field)
	return slices.ContainsFunc(d.unread, func(p fieldPath) bool { return p.within(at) })
}

// moot reports whether a fault at a field may only be that something was left
// out: the value itself or a part of it; or, where the field isn't written,
// something beside it that may be the field misspelt.
func (d *document) moot(field string) bool {
	if len(d.unread) == 0 {
		return false
	}
	at := splitPath(field)
	written := d.written(at)
	for _, p := range d.unread {
		switch {
		case at.within(p):
			return true
		case p.within(at) && (len(p) == len(at) || !d.judged(at) && (len(at) > 1 || len(p) <= len(at)+1)):
			// What is said of a whole section, such as tools, concerns what
			// stands in it, not what stands in that.
			return true
		case written < len(at) && len(p) == written+1 && p.within(at[:written]):
			return true
		}
	}
	return false
}

// misspelt reports whether a name at the top that has no field was probably
// meant to be this one.
func (d *document) misspelt(m proto.Message, field string) bool {
	desc := m.ProtoReflect().Descriptor()
	return slices.ContainsFunc(d.unread, func(p fieldPath) bool {
		return len(p) == 1 && desc.Fields().ByName(protoreflect.Name(p[0])) == nil && nearest(p[0], fieldNames(desc)) == field
	})
}

// judged reports whether what is said of a whole field is said knowing that
// parts of it are left out: package contract does, of tools and defaults.
func (d *document) judged(at fieldPath) bool {
	return strings.HasPrefix(d.file, "servers/") && (len(at) == 2 && at[0] == "tools" || len(at) == 1 && at[0] == "defaults")
}

// written returns how many steps of a path the file has.
func (d *document) written(at fieldPath) int {
	n := d.root
	for i, step := range at {
		if n = stepTo(n, step); n == nil {
			return i
		}
	}
	return len(at)
}

// stepTo follows one step of a path.
func stepTo(n *yaml.Node, step string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		_, value := child(n, step)
		return value
	case yaml.SequenceNode:
		for i, element := range n.Content {
			if step == "["+strconv.Itoa(i)+"]" {
				return element
			}
		}
	case yaml.ScalarNode:
		if step == "[0]" { // a list of one may be written as its element
			return n
		}
	}
	return nil
}
