package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/writ-pdp/writ"
)

// What a YAML file may hold at most.
const (
	maxYAML   = 1 << 20 // bytes
	maxDepth  = 64      // nested mappings and sequences
	maxFaults = 100     // reported of one file
)

// document is one YAML file that can be read in exactly one way: one
// document, without aliases, tags and repeated keys. It collects the faults
// of its file.
type document struct {
	file   string
	data   []byte
	lines  int
	root   *yaml.Node // the document's one value; nil when it could not be read
	faults writ.Faults
	found  int // faults, also those that are reported already or too many

	unread  []fieldPath // what is written and left out
	decoded bool        // the rest has been read: see moot
}

// parseYAML reads a file. When the document's root is nil, its faults say why.
func parseYAML(file string, data []byte) *document {
	d := &document{file: file, data: data, lines: bytes.Count(data, []byte("\n")) + 1}
	if !d.checkText() {
		return d
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var node yaml.Node
	switch err := dec.Decode(&node); {
	case errors.Is(err, io.EOF):
		d.addAt(1, 1, "", "the file is empty: write its fields or remove it")
		return d
	case err != nil:
		d.addSyntax(err)
		return d
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.addSyntax(err)
		return d
	default:
		d.addAt(second.Line, second.Column, "", "a second document starts here: a file holds one")
		return d
	}
	if node.Kind != yaml.DocumentNode || len(node.Content) != 1 {
		d.addAt(1, 1, "", "the file holds no value")
		return d
	}
	if d.checkNode(node.Content[0], 1) {
		d.root = node.Content[0]
	}
	return d
}

// checkText refuses what YAML's own reader would guess at: other encodings,
// and line breaks other than LF and CRLF, on which readers disagree.
func (d *document) checkText() bool {
	if len(d.data) > maxYAML {
		d.addAt(0, 0, "", fmt.Sprintf("the file has %d bytes: at most %d are read, so split it", len(d.data), maxYAML))
		return false
	}
	if bytes.HasPrefix(d.data, []byte("\ufeff")) {
		d.addAt(1, 1, "", "the file begins with a byte order mark (U+FEFF): save it as UTF-8 without one")
		return false
	}
	line, column := 1, 1
	for i := 0; i < len(d.data); {
		r, size := utf8.DecodeRune(d.data[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			d.addAt(line, column, "", "the file is not valid UTF-8 here: save it as UTF-8")
			return false
		case r == '\n':
			line, column = line+1, 0
		case r == '\r' && (i+1 == len(d.data) || d.data[i+1] != '\n'), r == '\u0085', r == '\u2028', r == '\u2029':
			d.addAt(line, column, "", fmt.Sprintf("a line break of the kind U+%04X stands here: lines end in LF or CRLF", r))
			return false
		}
		i += size
		column++
	}
	return true
}

// checkNode refuses, at any depth, what would make a file mean something
// else to another reader.
func (d *document) checkNode(n *yaml.Node, depth int) bool {
	if depth > maxDepth {
		d.add(n, "", fmt.Sprintf("this is nested more than %d deep", maxDepth))
		return false
	}
	ok := true
	refuse := func(n *yaml.Node, message string) {
		d.add(n, "", message)
		ok = false
	}
	switch {
	case n.Kind == yaml.AliasNode:
		refuse(n, "aliases (*name) are not read: write the value out")
	case n.Anchor != "":
		refuse(n, "anchors (&name) are not read: write the value out where it is needed")
	case n.Style&yaml.TaggedStyle != 0:
		refuse(n, "tags (!name) are not read: quote the value if it is text")
	}
	if n.Kind != yaml.MappingNode {
		for _, child := range n.Content {
			ok = d.checkNode(child, depth+1) && ok
		}
		return ok
	}
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch first, twice := seen[key.Value], seen[key.Value] != nil; {
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge":
			refuse(key, "merge keys (<<) are not read: write the fields out")
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!null":
			refuse(key, "a key is missing here: quote it if it is text")
		case key.Kind != yaml.ScalarNode && key.Kind != yaml.AliasNode:
			refuse(key, "a key is text, not a list or a mapping: quote it")
		case twice:
			refuse(key, fmt.Sprintf("%q is already written in line %d: one of the two must go", key.Value, first.Line))
		default:
			seen[key.Value] = key
		}
		ok = d.checkNode(key, depth+1) && ok
		ok = d.checkNode(n.Content[i+1], depth+1) && ok
	}
	return ok
}

// add reports a fault at a node.
func (d *document) add(n *yaml.Node, field, message string) {
	if d.decoded && d.moot(field) {
		return
	}
	line, column := 1, 1
	if n != nil && n.Line > 0 {
		line, column = n.Line, n.Column
	}
	// The reader puts a value that is missing at the end one line too far.
	if line > d.lines {
		line, column = d.lines, 1
	}
	d.addAt(line, column, field, message)
}

// addAt reports a fault at a place. What many cases inherit from one place
// is reported once.
func (d *document) addAt(line, column int, field, message string) {
	d.found++
	if len(d.faults) > maxFaults {
		return
	}
	for _, f := range d.faults {
		if f.Line == line && f.Column == column && f.Message == message {
			return
		}
	}
	switch n := len(d.faults); {
	case n < maxFaults:
		d.faults = append(d.faults, writ.Fault{File: d.file, Line: line, Column: column, Field: field, Message: message})
	case n == maxFaults:
		d.faults = append(d.faults, writ.Fault{File: d.file, Message: "there are more faults in this file"})
	}
}
