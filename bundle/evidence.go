package bundle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// evidence says where the values of the call were observed: with the
// argument's own value and just now, unless the case says otherwise.
func (p *proposer) evidence(out *writ.Proposal) {
	for _, name := range keys(p.in.GetEvidence()) {
		pointer := name
		if !strings.HasPrefix(name, "/") {
			pointer = string(canon.AppendPointer(nil, name))
		}
		list := find(p.in.merged, "evidence", name)
		for i, src := range p.in.GetEvidence()[name].GetSources() {
			field := item(member("evidence", name), i)
			e := writ.Evidence{
				Argument: pointer, Kind: writ.SourceKind(src.GetKind()), Reference: src.GetRef(),
				Classification: src.GetClassification(), ObservedAt: timeOf(src.GetObservedAt()), DerivedFrom: src.GetDerivedFrom(),
			}
			if !slices.Contains(writ.SourceKinds[:], e.Kind) {
				p.fail(field+".kind", fmt.Sprintf("%q is not a source kind: the kinds are %s", src.GetKind(), sourceKinds()))
			}
			if e.Reference == "" {
				p.fail(field+".ref", "the source has no ref: write its URI or its record's name")
			}
			if value := find(list.Content[i], "value"); value != nil {
				e.ValueJSON = p.appendJSON(nil, value, p.at+"."+field+".value")
			} else if e.ValueJSON = p.argument(out, pointer); e.ValueJSON == nil {
				p.fail(field, fmt.Sprintf("the call has no argument %s: write the value that was observed, or remove the source", pointer))
			}
			out.Evidence = append(out.Evidence, e)
		}
	}
}

// argument returns the JSON of one argument as the case writes it, or nil.
func (p *proposer) argument(out *writ.Proposal, pointer string) []byte {
	if n := find(p.in.merged, "arguments"); n != nil {
		for token := range strings.SplitSeq(pointer[1:], "/") {
			if n = step(n, unescape(token)); n == nil {
				return nil
			}
		}
		return p.appendJSON(nil, n, p.at+".arguments")
	}
	// What arguments_json holds may be what no reader takes: then no value is right.
	args, err := canon.ParseObject(out.ArgumentsJSON)
	if err != nil {
		return []byte("null")
	}
	var v any = args
	for token := range strings.SplitSeq(pointer[1:], "/") {
		switch at := v.(type) {
		case map[string]any:
			v = at[unescape(token)]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	if v == nil {
		return nil
	}
	return canon.Append(nil, v)
}

// step follows one token of a JSON Pointer (RFC 6901, section 4).
func step(n *yaml.Node, token string) *yaml.Node {
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
		return nil
	}
	return find(n, token)
}

func unescape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}
