package bundle

import (
	"fmt"
	"strings"

	"buf.build/go/protoyaml"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// shortForm is a message that is written as its one interesting field.
type shortForm struct {
	field    string // what a scalar or a list stands for
	scalar   bool   // one scalar may be written
	list     bool   // a list may be written
	repeated bool   // field is a list: a scalar is its only element
	long     bool   // the message may be written in full, too
	say      string // how to write it
}

// shortForms are the messages that are written shorter than they are.
var shortForms = map[protoreflect.FullName]shortForm{
	"writ.bundle.v1.Names":       {field: "names", scalar: true, list: true, repeated: true, say: "a name or a list of names"},
	"writ.bundle.v1.Sources":     {field: "sources", list: true, repeated: true, say: "a list of sources: [{kind: user, ref: ...}]"},
	"writ.bundle.v1.Expectation": {field: "code", scalar: true, long: true, say: "a code, or {code, policies, control}"},
}

// expand returns the long form of a value in short form, or nil where it
// isn't one.
func (s shortForm) expand(n *yaml.Node) *yaml.Node {
	value := n
	switch {
	case n.Kind == yaml.SequenceNode && s.list:
	case n.Kind == yaml.ScalarNode && s.scalar && s.repeated:
		value = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{n}, Line: n.Line, Column: n.Column}
	case n.Kind == yaml.ScalarNode && s.scalar:
	default:
		return nil
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s.field, Line: n.Line, Column: n.Column}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{key, value}, Line: n.Line, Column: n.Column}
}

// decode reads a file into a message, as far as it can be read, and reports
// whether it could. What could not is among the document's faults; from here
// on it says nothing more of what may follow from that.
func decode(d *document, m proto.Message) bool {
	if d.root == nil {
		return false
	}
	read := d.checkMessage(d.root, m.ProtoReflect().Descriptor(), "")
	if read == nil || !d.unmarshal(m, &rewriter{root: copyNode(read)}) {
		return false
	}
	d.decoded = true
	return true
}

// unmarshal has protoyaml read what has been checked. It quotes the line of a
// node that it refuses, and takes only LF for the end of one: checkText and
// the refusal of null keep every such node on a line that it finds.
func (d *document) unmarshal(m proto.Message, r *rewriter) bool {
	before := len(d.faults)
	err := protoyaml.UnmarshalOptions{CustomUnmarshaler: r}.Unmarshal(d.data, m)
	if err == nil {
		return true
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	for _, err := range errs {
		// protoyaml's errors read ":line:column message", then the line itself.
		first, _, _ := strings.Cut(err.Error(), "\n")
		var line, column int
		if n, _ := fmt.Sscanf(first, ":%d:%d ", &line, &column); n == 2 {
			_, first, _ = strings.Cut(first, " ")
		}
		d.addAt(line, column, "", first)
	}
	return len(d.faults) == before
}

// place is where a node stands in its file.
type place struct{ line, column int }

// rewriter gives protoyaml the long form of what is written short. Its nodes
// are changed on the way.
type rewriter struct {
	root *yaml.Node // read in place of the file's value; nil: the file's
	// merged holds the scenarios to read in place of those that stand there.
	merged map[place]*yaml.Node
}

// Unmarshal changes the node in place and leaves the reading to protoyaml.
func (r *rewriter) Unmarshal(n *yaml.Node, m proto.Message) (bool, error) {
	if r.root != nil { // the first node is the file's value
		*n, r.root = *r.root, nil
	}
	name := m.ProtoReflect().Descriptor().FullName()
	if name == "writ.bundle.v1.Scenario" {
		if other := r.merged[place{n.Line, n.Column}]; other != nil {
			*n = *other
		}
		return false, nil
	}
	short, ok := shortForms[name]
	if !ok {
		return false, nil
	}
	if long := short.expand(n); long != nil {
		if long.Content[1] == n { // the node moves into its own long form
			inner := *n
			long.Content[1] = &inner
		} else if seq := long.Content[1]; len(seq.Content) == 1 && seq.Content[0] == n {
			inner := *n
			seq.Content[0] = &inner
		}
		*n = *long
	}
	return false, nil
}
