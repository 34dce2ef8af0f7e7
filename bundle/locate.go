package bundle

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// child returns the key and the value of a member of a mapping, or nils.
func child(n *yaml.Node, name string) (key, value *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// find follows the names of members from n; nil when one is missing.
func find(n *yaml.Node, names ...string) *yaml.Node {
	for _, name := range names {
		if _, n = child(n, name); n == nil {
			return nil
		}
	}
	return n
}

// member returns the field path of a named member. A name that is not of
// letters, digits, _ and - is quoted: tools["a.b"].
func member(parent, name string) string {
	plain := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	switch {
	case !plain:
		return parent + "[" + strconv.Quote(name) + "]"
	case parent == "":
		return name
	}
	return parent + "." + name
}

// item returns the field path of an element of a list.
func item(parent string, i int) string { return parent + "[" + strconv.Itoa(i) + "]" }

// at returns the node to point at for a field path such as
// tools.create_payment.opaque[0] or tools["a.b"].effect: the value where it
// is a scalar or an element of a list, the key where it is more, and the
// nearest thing around it where it isn't written.
func (d *document) at(field string) *yaml.Node { return nodeAt(d.root, field) }

func nodeAt(root *yaml.Node, field string) *yaml.Node {
	point, n := root, root
	for rest := field; rest != "" && n != nil; {
		name, index, after, ok := nextStep(rest)
		if !ok {
			return point
		}
		rest = after
		if index >= 0 {
			// A list of one may be written as its element.
			if n.Kind == yaml.ScalarNode && index == 0 {
				continue
			}
			if n.Kind != yaml.SequenceNode || index >= len(n.Content) {
				return point
			}
			n = n.Content[index]
			point = n
			continue
		}
		key, value := child(n, name)
		if key == nil {
			return point
		}
		point, n = key, value
		if n.Kind == yaml.ScalarNode && n.Value != "" {
			point = n
		}
	}
	return point
}

// nextStep cuts the first step off a field path: a name, or else an index.
func nextStep(path string) (name string, index int, rest string, ok bool) {
	path = strings.TrimPrefix(path, ".")
	if inside, ok := strings.CutPrefix(path, "["); ok {
		if quoted, err := strconv.QuotedPrefix(inside); err == nil {
			name, _ = strconv.Unquote(quoted)
			rest, ok = strings.CutPrefix(inside[len(quoted):], "]")
			return name, -1, rest, ok
		}
		number, rest, _ := strings.Cut(inside, "]")
		index, err := strconv.Atoi(number)
		return "", index, rest, err == nil && index >= 0
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		end = len(path)
	}
	return path[:end], -1, path[end:], end > 0
}
