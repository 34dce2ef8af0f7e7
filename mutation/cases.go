package mutation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"go.yaml.in/yaml/v3"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// Bounds of the search for cases that would notice a survivor.
const (
	maxNeighbours = 8_000 // of all scenarios
	maxPerCase    = 300   // of one scenario
	maxAlike      = 2     // scenarios with one tool, answer and reason
	maxChoices    = 40    // values of one argument
)

// neighbour is a scenario that differs from one of the bundle's in one or two
// things.
type neighbour struct {
	bundle.Scenario // at its time
	file            string
	node            *yaml.Node // the case as written
	original        writ.Decision
}

// proposed is a case to add.
type proposed struct{ file, name, text string }

// propose finds, for each survivor, a neighbour of some scenario that the
// policies as they are and the mutant answer differently; nil: none was found.
func (r *runner) propose(survivors []*trial) []*proposed {
	out := make([]*proposed, len(survivors))
	near := r.neighbours()
	if len(near) == 0 {
		return out
	}
	r.each(len(near), func(i int) {
		near[i].original = near[i].Run(r.world, r.Clock, r.decide)
	})
	r.each(len(survivors), func(i int) {
		t := survivors[i]
		world := r.in(t.set)
		decide := r.Decide(world)
		for k := range near {
			n := &near[k]
			if r.ctx.Err() != nil {
				return
			}
			if n.original.Code == "" || !r.concerns(t.set, &n.original) {
				continue
			}
			d := n.Run(world, r.Clock, decide)
			switch {
			case d.Code != n.original.Code:
				out[i] = &proposed{n.file, n.Name, n.write()}
				return
			case out[i] == nil && t.of.Effect == types.Forbid && mentions(n.original.Policies, t.of.ID) && !mentions(d.Policies, t.of.ID):
				// Only the determining policies differ: a case can name them.
				out[i] = &proposed{n.file, n.Name, n.writeNaming(t.of.ID)}
			}
		}
	})
	return out
}

// write is the case with the answer that it gets today, in one line.
func (n *neighbour) write() string {
	return n.line(&yaml.Node{Kind: yaml.ScalarNode, Value: string(n.original.Code)})
}

func (n *neighbour) writeNaming(id string) string {
	return n.line(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		text("code"), text(string(n.original.Code)),
		text("policies"), {Kind: yaml.SequenceNode, Content: []*yaml.Node{text(id)}},
	}})
}

func (n *neighbour) line(expect *yaml.Node) string {
	c := clone(n.node)
	set(c, "expect", expect)
	flow(c)
	list := &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{c}}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(list); err != nil {
		return ""
	}
	return strings.TrimSpace(b.String())
}

// scenarioDoc is one scenario file.
type scenarioDoc struct {
	root     *yaml.Node // the mapping
	defaults *yaml.Node
	cases    map[int]*yaml.Node // by line
	made     []*yaml.Node
}

// neighbours makes cases near those of the bundle, has the bundle built with
// them, and returns what it made of them. A case that it refuses would refuse
// all: only what is known to be fine is written.
func (r *runner) neighbours() []neighbour {
	docs := map[string]*scenarioDoc{}
	for _, f := range r.Files {
		if d := readScenarios(f); d != nil {
			docs[f.Name] = d
		}
	}
	choose := r.choices()
	nodes := map[string]*yaml.Node{} // by file and name
	alike := map[string]int{}
	total := 0
	for i := range r.cases {
		c := &r.cases[i]
		d := docs[c.File]
		if d == nil || d.cases[c.Line] == nil || !slices.Contains(judged[:], c.baseline.Control) && c.baseline.Code != writ.CodeAllow {
			continue
		}
		kind := fmt.Sprint(c.baseline.Action, c.baseline.Code, c.baseline.Resources, ids(c.baseline.Policies))
		if alike[kind]++; alike[kind] > maxAlike {
			continue
		}
		made := 0
		v := variation{runner: r, doc: d, of: c, node: d.cases[c.Line], choices: choose}
		v.each(func(node *yaml.Node) {
			if made++; made > maxPerCase || total >= maxNeighbours {
				return
			}
			name := find(node, "name")
			key := c.File + "\x00" + name.Value
			if nodes[key] != nil {
				return
			}
			nodes[key] = node
			d.made = append(d.made, node)
			total++
		})
	}
	files := make([]bundle.File, 0, len(r.Files))
	for _, f := range r.Files {
		switch d := docs[f.Name]; {
		case d != nil && len(d.made) > 0:
			files = append(files, d.chunks(f.Name)...)
		case strings.HasPrefix(f.Name, "scenarios/"):
		default:
			files = append(files, f)
		}
	}
	b, _ := bundle.Build(files, nil)
	if b == nil {
		return nil
	}
	var out []neighbour
	for _, s := range b.Scenarios {
		file := original(s.File)
		node := nodes[file+"\x00"+s.Name]
		if node == nil {
			continue
		}
		// The name says which case it is; to the reader, what changed.
		out = append(out, neighbour{Scenario: s.At(r.Clock), file: file, node: node})
	}
	return out
}

func ids(refs []writ.PolicyRef) []string {
	out := make([]string, len(refs))
	for i, p := range refs {
		out[i] = p.ID
	}
	return out
}

// chunks writes the made cases with the file's defaults, in files that are
// small enough.
func (d *scenarioDoc) chunks(name string) []bundle.File {
	const perFile = 500
	var out []bundle.File
	for part := range slices.Chunk(d.made, perFile) {
		root := &yaml.Node{Kind: yaml.MappingNode}
		if d.defaults != nil {
			root.Content = append(root.Content, text("defaults"), d.defaults)
		}
		root.Content = append(root.Content, text("cases"), &yaml.Node{Kind: yaml.SequenceNode, Content: part})
		data, err := yaml.Marshal(root)
		if err != nil {
			continue
		}
		base := strings.TrimSuffix(name, path.Ext(name))
		out = append(out, bundle.File{Name: fmt.Sprintf("%s.near%04d.yaml", base, len(out)), Data: data})
	}
	return out
}

// original is the name of the file whose chunk this is.
func original(name string) string {
	base := strings.TrimSuffix(name, path.Ext(name))
	return strings.TrimSuffix(base, path.Ext(base)) + ".yaml"
}

func readScenarios(f bundle.File) *scenarioDoc {
	if !strings.HasPrefix(f.Name, "scenarios/") {
		return nil
	}
	var doc yaml.Node
	if yaml.Unmarshal(f.Data, &doc) != nil || len(doc.Content) != 1 {
		return nil
	}
	root := doc.Content[0]
	strip(root)
	d := &scenarioDoc{root: root, defaults: find(root, "defaults"), cases: map[int]*yaml.Node{}}
	list := find(root, "cases")
	if list == nil {
		return nil
	}
	for _, c := range list.Content {
		d.cases[c.Line] = c
	}
	return d
}

// variation makes the neighbours of one scenario.
type variation struct {
	*runner
	doc     *scenarioDoc
	of      *baseCase
	node    *yaml.Node
	choices *choices
}

func (v *variation) each(yield func(*yaml.Node)) {
	emit := func(what string, change func(*yaml.Node)) *yaml.Node {
		n := clone(v.node)
		change(n)
		set(n, "name", text(abridged(v.of.Name+", "+what)))
		yield(n)
		return n
	}
	agreed := v.choices.agreed(v.of.baseline.Server + "/" + v.of.baseline.Tool)
	edit := func(what string, change func(*yaml.Node)) {
		emit(what, change)
		for _, people := range agreed {
			emit(what+", agreed by "+strings.Join(people, " and "), func(n *yaml.Node) {
				change(n)
				set(n, "approvals", texts(people))
			})
		}
	}
	for _, people := range agreed {
		emit("agreed by "+strings.Join(people, " and "), func(n *yaml.Node) { set(n, "approvals", texts(people)) })
	}
	for _, who := range v.choices.people {
		edit("for "+who, func(n *yaml.Node) { set(n, "principal", text(who)) })
	}
	for _, who := range v.choices.agents {
		edit("through "+who, func(n *yaml.Node) { set(n, "actors", texts([]string{who})) })
	}
	if len(v.of.Proposal.Actors) > 0 {
		edit("without an agent", func(n *yaml.Node) { set(n, "actors", texts(nil)) })
	}
	if c := v.world.Contract(v.of.Proposal.Server.ID, v.of.Proposal.Tool); c != nil {
		v.arguments(c, edit)
	}
	for _, purpose := range v.choices.strings {
		edit("to "+purpose, func(n *yaml.Node) { set(n, "purpose", text(purpose)) })
	}
	for _, hour := range v.choices.hours {
		at := v.of.Now.In(v.world.Zone)
		at = at.Add(-(at.Sub(at.Truncate(60 * 60 * 1e9))))
		for _, h := range []int{hour, hour - 1} {
			moved := at.AddDate(0, 0, 0)
			for moved.Hour() != (h+24)%24 {
				moved = moved.Add(60 * 60 * 1e9)
			}
			edit(fmt.Sprintf("at %d h", moved.Hour()), func(n *yaml.Node) { set(n, "now", quoted(moved.UTC().Format("2006-01-02T15:04:05Z"))) })
		}
	}
	for day := 1; day < 7 && v.choices.weekdays; day++ {
		moved := v.of.Now.AddDate(0, 0, day)
		edit("on "+strings.ToLower(moved.Weekday().String()), func(n *yaml.Node) { set(n, "now", quoted(moved.UTC().Format("2006-01-02T15:04:05Z"))) })
	}
}

// arguments changes each top-level argument to each value that could matter.
func (v *variation) arguments(c *contract.Contract, edit func(string, func(*yaml.Node))) {
	if find(v.node, "arguments_json") != nil || find(v.doc.defaults, "arguments_json") != nil {
		return
	}
	args, err := canon.ParseObject(v.of.Proposal.ArgumentsJSON)
	if err != nil {
		return
	}
	for i := range c.Arguments.Fields {
		f := &c.Arguments.Fields[i]
		now, present := args[f.Name]
		for _, value := range v.choices.values(v.runner, f.Type) {
			if present && canonical(now) == canonical(value) {
				continue
			}
			changed := canon.Append(nil, value)
			edit(fmt.Sprintf("%s %s", f.Name, changed), func(n *yaml.Node) { set(member(n, "arguments"), f.Name, jsonNode(changed)) })
		}
		_, evidence := v.of.evidenceFor(f.Name)
		if present && (f.Optional || f.Default != nil) && !evidence {
			edit("without "+f.Name, func(n *yaml.Node) {
				args := member(n, "arguments")
				drop(args, f.Name)
				if find(n, "tool") == nil && find(v.doc.defaults, "arguments", f.Name) != nil {
					set(args, f.Name, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"})
				}
			})
		}
	}
}

// evidenceFor finds the evidence of a top-level argument.
func (c *baseCase) evidenceFor(name string) (int, bool) {
	pointer := string(canon.AppendPointer(nil, name))
	for i, e := range c.Proposal.Evidence {
		if e.Argument == pointer {
			return i, true
		}
	}
	return 0, false
}

func canonical(v any) string { return string(canon.Append(nil, v)) }

// choices are values that could matter, from all over the bundle.
type choices struct {
	strings   []string // literals of policies
	decimals  []int64  // in ten-thousandths: literals and attributes, and one step beside them
	longs     []int64
	uids      []types.EntityUID // literals
	hours     []int
	weekdays  bool
	people    []string
	agents    []string
	approvers map[string][][]string // by tool: lists of people who agreed in some scenario
	anybody   [][]string            // who agrees where nobody did yet
}

// anybody is one person, and another, whom some issuer could name, and both.
func (r *runner) anybody() [][]string {
	var people []string
	for _, name := range slices.Sorted(maps.Keys(r.world.Issuers)) {
		t := r.world.Issuers[name].Principal
		for _, who := range []string{"somebody-else", "and-another"} {
			uid := types.NewEntityUID(t.Type(), types.String(t.Prefix()+who))
			if _, _, ok := r.world.PrincipalOf(uid); ok && len(people) < 2 {
				people = append(people, uid.String())
			}
		}
	}
	var out [][]string
	for i := range people {
		out = append(out, people[i:i+1])
	}
	if len(people) > 1 {
		out = append(out, people)
	}
	return out
}

// agreed returns lists of people who may agree to a call of the tool.
func (c *choices) agreed(tool string) [][]string {
	if list := c.approvers[tool]; len(list) > 0 {
		return list
	}
	return c.anybody
}

func (r *runner) choices() *choices {
	out := &choices{approvers: map[string][][]string{}}
	if slices.ContainsFunc(r.world.Policies.Policies(), func(p *policy.Policy) bool { return p.Review > 0 }) {
		out.anybody = r.anybody()
	}
	long := func(n int64) { out.longs = append(out.longs, n-1, n, n+1) }
	dec := func(n int64) { out.decimals = append(out.decimals, n, n+decimalStep, n-decimalStep) }
	for _, p := range r.world.Policies.Policies() {
		parsed, err := parse(p.Text)
		if err != nil {
			continue
		}
		for _, c := range parsed.Conditions {
			ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
				switch n := n.(type) {
				case ast.NodeTypeAccess:
					out.weekdays = out.weekdays || n.Value == "weekday" || n.Value == "toDate" || n.Value == "now"
				case ast.NodeTypeExtensionCall:
					if n.Name == "decimal" && len(n.Args) == 1 {
						if v, ok := n.Args[0].(ast.NodeValue); ok {
							if d, ok := tenThousandths(string(v.Value.(types.String))); ok {
								dec(d)
							}
						}
						return false
					}
				case ast.NodeValue:
					switch v := n.Value.(type) {
					case types.Long:
						long(int64(v))
						if 0 <= v && v <= 24 {
							out.hours = append(out.hours, int(v))
						}
					case types.String:
						out.strings = append(out.strings, string(v))
					case types.EntityUID:
						out.uids = append(out.uids, v)
					}
				}
				return true
			})
		}
		for _, s := range []ast.IsScopeNode{parsed.Principal, parsed.Resource} {
			switch s := s.(type) {
			case ast.ScopeTypeEq:
				out.uids = append(out.uids, s.Entity)
			case ast.ScopeTypeIn:
				out.uids = append(out.uids, s.Entity)
			case ast.ScopeTypeIsIn:
				out.uids = append(out.uids, s.Entity)
			}
		}
	}
	people, agents := map[string]bool{}, map[string]bool{}
	for held := range r.world.Entities.All() {
		for _, v := range held.Attributes.All() {
			switch v := v.(type) {
			case types.Decimal:
				if d, ok := tenThousandths(v.String()); ok {
					dec(d)
				}
			case types.Long:
				long(int64(v))
			}
		}
		if _, _, ok := r.world.PrincipalOf(held.UID); ok {
			people[held.UID.String()] = true
		}
		if _, ok := r.world.ActorOf(held.UID); ok {
			agents[held.UID.String()] = true
		}
	}
	seen := map[string]bool{}
	for i := range r.cases {
		c := &r.cases[i]
		if c.baseline.Principal != "" {
			people[c.baseline.Principal] = true
		}
		tool := c.Proposal.Server.ID + "/" + c.Proposal.Tool
		var list []string
		for _, who := range c.Approvers {
			list = append(list, who.String())
		}
		if key := tool + " " + strings.Join(list, " "); len(list) > 0 && !seen[key] && len(out.approvers[tool]) < 4 {
			seen[key] = true
			out.approvers[tool] = append(out.approvers[tool], list)
		}
	}
	out.people, out.agents = few(people), few(agents)
	out.decimals, out.longs, out.hours = sorted(out.decimals), sorted(out.longs), sorted(out.hours)
	out.strings = sorted(out.strings)
	return out
}

func few(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for name := range set {
		out = append(out, name)
	}
	sort.Strings(out)
	return out[:min(len(out), 12)]
}

func sorted[T int | int64 | string](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// values are those that an argument of type t could have.
func (c *choices) values(r *runner, t *contract.Type) []any {
	var out []any
	switch t.Kind {
	case contract.Bool:
		out = []any{true, false}
	case contract.Decimal:
		for _, n := range c.decimals {
			if v, err := canon.Parse([]byte(decimalText(n))); err == nil {
				out = append(out, v)
			}
		}
	case contract.Long:
		for _, n := range c.longs {
			out = append(out, json.Number(fmt.Sprint(n)))
		}
	case contract.String:
		list := t.Enum
		if list == nil {
			list = append(slices.Clone(c.strings), "something else")
		}
		for _, s := range list {
			out = append(out, s)
		}
	case contract.Entity:
		if t.Role == nil {
			for _, id := range r.world.Entities.IDs(t.Entity) {
				out = append(out, id)
			}
			break
		}
		for _, uid := range c.uids {
			if uid.Type == t.Entity {
				out = append(out, string(uid.ID))
				if t.Entity == contract.PathType {
					out = append(out, strings.TrimSuffix(string(uid.ID), "/")+"/x")
				}
			}
		}
		if t.Entity == contract.PathType {
			for _, dir := range t.Role.Within {
				out = append(out, strings.TrimSuffix(dir, "/")+"/x")
			}
		}
	}
	return out[:min(len(out), maxChoices)]
}

// YAML nodes.

func text(s string) *yaml.Node   { n := &yaml.Node{}; n.SetString(s); return n }
func quoted(s string) *yaml.Node { n := text(s); n.Style = yaml.DoubleQuotedStyle; return n }

func texts(list []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, s := range list {
		n.Content = append(n.Content, text(s))
	}
	return n
}

// jsonNode is a JSON value as YAML, numbers in the same text.
func jsonNode(data []byte) *yaml.Node {
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) != nil || len(doc.Content) != 1 {
		return text(string(data))
	}
	return doc.Content[0]
}

func find(n *yaml.Node, names ...string) *yaml.Node {
	for _, name := range names {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		var next *yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				next = n.Content[i+1]
			}
		}
		n = next
	}
	return n
}

func set(n *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, text(name), value)
}

func drop(n *yaml.Node, name string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

// member returns the mapping under a name, made where it isn't there.
func member(n *yaml.Node, name string) *yaml.Node {
	if m := find(n, name); m != nil && m.Kind == yaml.MappingNode {
		return m
	}
	m := &yaml.Node{Kind: yaml.MappingNode}
	set(n, name, m)
	return m
}

func clone(n *yaml.Node) *yaml.Node {
	out := *n
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		out.Content[i] = clone(c)
	}
	return &out
}

// strip removes comments.
func strip(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	for _, c := range n.Content {
		strip(c)
	}
}

// flow writes everything in one line.
func flow(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		n.Style &^= yaml.LiteralStyle | yaml.FoldedStyle
	} else {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		flow(c)
	}
}
