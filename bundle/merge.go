package bundle

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	bundlev1 "github.com/writ-pdp/writ/gen/writ/bundle/v1"
)

// maxMerged is how many values the cases of one file may have together, with
// what they take from the defaults.
const maxMerged = 1_000_000

// scenarioFile is a scenario file with its cases merged over its defaults.
type scenarioFile struct {
	*document
	cases    []scenarioCase
	guessing bool // the defaults have faults, so nobody knows what they meant
}

// scenarioCase is one case, as text in its place and as a message.
type scenarioCase struct {
	line   int
	merged *yaml.Node
	*bundlev1.Scenario
}

// readScenarios reads the files and merges their cases. Whether they speak of
// this bundle is for later: see makeScenarios. A file with faults has no cases.
func (b *builder) readScenarios() []*scenarioFile {
	var out []*scenarioFile
	for _, f := range b.layout.scenarios {
		m := b.files[f.Name]
		if m.scenarios == nil {
			s := &scenarioFile{document: parseYAML(f.Name, f.Data)}
			s.read()
			m.scenarios = s
		}
		// More may be found in it later: not in what is kept.
		s := *m.scenarios
		s.document = s.document.copy()
		out = append(out, &s)
	}
	return out
}

func (s *scenarioFile) read() {
	if s.root == nil {
		return
	}
	before := len(s.faults)
	scenario := (&bundlev1.Scenario{}).ProtoReflect().Descriptor()
	// The cases' nulls remove, so only what is left after merging is held
	// against the message. The rest of the file is checked as it stands.
	outline := *s.root
	outline.Content = nil
	for i := 0; s.root.Kind == yaml.MappingNode && i+1 < len(s.root.Content); i += 2 {
		if s.root.Content[i].Value != "cases" {
			outline.Content = append(outline.Content, s.root.Content[i], s.root.Content[i+1])
		}
	}
	s.checkMessage(&outline, (&bundlev1.ScenarioFile{}).ProtoReflect().Descriptor(), "")
	defaults, cases := find(s.root, "defaults"), find(s.root, "cases")
	s.guessing = len(s.faults) > before
	switch {
	case s.root.Kind != yaml.MappingNode:
		return
	case cases == nil && len(s.unread) > 0:
		return // it may be misspelt
	case cases == nil:
		s.add(s.root, "cases", "there are no cases: write cases: and a list of calls")
		return
	case cases.Kind != yaml.SequenceNode:
		s.add(cases, "cases", "write a list of cases here, not "+kindOf(cases))
		return
	}
	total := 0
	merged := make(map[place]*yaml.Node, len(cases.Content))
	nodes := make([]*yaml.Node, len(cases.Content))
	for i, c := range cases.Content {
		at := item("cases", i)
		if c.Kind != yaml.MappingNode {
			s.add(c, at, "write a case here: {name: ..., tool: server/tool, expect: ALLOW}")
			continue
		}
		nodes[i] = s.merge(without(defaults, c), c, defaults, at)
		s.checkMessage(nodes[i], scenario, at)
		if total += count(nodes[i]); total > maxMerged {
			s.add(c, at, "the cases take too much from the defaults: split the file")
			return
		}
		merged[place{c.Line, c.Column}] = copyNode(nodes[i])
	}
	var file bundlev1.ScenarioFile
	if len(s.faults) > before || !s.unmarshal(&file, &rewriter{merged: merged}) {
		return
	}
	for i, c := range file.GetCases() {
		s.cases = append(s.cases, scenarioCase{cases.Content[i].Line, nodes[i], c})
	}
}

// without returns the defaults that a case starts from: their arguments are
// not for a case that names its own tool or writes arguments the other way.
func without(defaults, c *yaml.Node) *yaml.Node {
	if defaults == nil || defaults.Kind != yaml.MappingNode {
		return nil
	}
	tool, text, args := find(c, "tool") != nil, find(c, "arguments_json") != nil, find(c, "arguments") != nil
	out := *defaults
	out.Content = nil
	for i := 0; i+1 < len(defaults.Content); i += 2 {
		name := defaults.Content[i].Value
		if name == "arguments" && (tool || text) || name == "arguments_json" && (tool || args) {
			continue
		}
		out.Content = append(out.Content, defaults.Content[i], defaults.Content[i+1])
	}
	return &out
}

// merge applies a JSON merge patch (RFC 7396, section 2). Nodes keep their
// places, so that a fault in the defaults is shown there. A null that removes
// nothing is a fault: it would be a misspelt name, or a null that was meant
// to be sent. Written are the defaults before without, for this check.
func (s *scenarioFile) merge(target, patch, written *yaml.Node, field string) *yaml.Node {
	if patch.Kind != yaml.MappingNode {
		return patch
	}
	out := *patch
	out.Content = nil
	if target != nil && target.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(target.Content); i += 2 {
			if _, own := child(patch, target.Content[i].Value); own == nil {
				out.Content = append(out.Content, target.Content[i], target.Content[i+1])
			}
		}
	}
	for i := 0; i+1 < len(patch.Content); i += 2 {
		key, value := patch.Content[i], patch.Content[i+1]
		at := member(field, key.Value)
		if isNull(value) {
			if find(written, key.Value) == nil && !s.guessing {
				s.add(key, at, fmt.Sprintf("null removes %s from the defaults, and it is not there: to send a null, write arguments_json", key.Value))
			}
			continue
		}
		old := find(target, key.Value)
		out.Content = append(out.Content, key, s.merge(old, value, old, at))
	}
	return &out
}

// count counts the nodes of a tree.
func count(n *yaml.Node) int {
	total := 1
	for _, c := range n.Content {
		total += count(c)
	}
	return total
}

// copyNode copies a tree.
func copyNode(n *yaml.Node) *yaml.Node {
	out := *n
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		out.Content[i] = copyNode(c)
	}
	return &out
}
