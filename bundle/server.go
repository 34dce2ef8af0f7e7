package bundle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"go.yaml.in/yaml/v3"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/definition"
	bundlev1 "github.com/writ-pdp/writ/gen/writ/bundle/v1"
)

// server is one servers/ID.yaml with its servers/ID.tools.json.
type server struct {
	*document
	id         string
	redeemedBy string // as written; empty: the caller with the server's id
	contracts  []*contract.Contract
}

// readServers reads each server and its tools.
func (b *builder) readServers() {
	before := map[string]*server{}
	if b.before != nil {
		for _, s := range b.before.servers {
			before[s.id] = s
		}
	}
	b.sameServers = b.before != nil && len(before) == len(b.layout.servers)
	for _, id := range slices.Sorted(maps.Keys(b.layout.servers)) {
		f := b.layout.servers[id]
		if s := before[id]; s != nil && f.review != nil && f.tools != nil && b.same(f.review, f.review.Name) && b.same(f.tools, f.tools.Name) {
			b.faults = append(b.faults, s.faults...)
			b.servers = append(b.servers, s)
			continue
		}
		b.sameServers = false
		tools := b.readTools(id, f)
		if f.review == nil {
			b.fault(f.tools.Name, 0, 0, fmt.Sprintf("nobody has reviewed these tools: write servers/%s.yaml, or remove this file", id))
			continue
		}
		s := &server{document: parseYAML(f.review.Name, f.review.Data), id: id}
		var file bundlev1.ServerFile
		read := decode(s.document, &file)
		if read {
			if file.GetId() != id && file.GetId() != "" {
				s.add(s.at("id"), "id", fmt.Sprintf("the id is %q and the file is named %s.yaml: make them equal", file.GetId(), id))
			}
			s.redeemedBy = file.GetRedeemedBy()
			s.refuseEmpty(s.root, "")
			declaration := s.declaration(&file)
			if tools != nil {
				b.faults = append(b.faults, s.review(declaration, tools, f.tools)...)
			}
		}
		if !read || tools == nil {
			b.unchecked = append(b.unchecked, "the tools of "+id)
		}
		b.faults = append(b.faults, s.faults...)
		b.servers = append(b.servers, s)
	}
}

// bounds are the lists that bound what a server or a tool may do. Written but
// empty they would bound nothing, and look as if they did.
var bounds = []string{"within", "purposes", "classifications"}

// refuseEmpty reports bounds that hold nothing, anywhere below n.
func (s *server) refuseEmpty(n *yaml.Node, field string) {
	switch n.Kind {
	case yaml.DocumentNode:
		for _, child := range n.Content {
			s.refuseEmpty(child, field)
		}
	case yaml.SequenceNode:
		for i, child := range n.Content {
			s.refuseEmpty(child, item(field, i))
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := n.Content[i].Value, n.Content[i+1]
			at := member(field, name)
			if value.Kind == yaml.SequenceNode && len(value.Content) == 0 && slices.Contains(bounds, name) {
				s.add(value, at, "the list is empty, so it bounds nothing: fill it, or leave "+name+" out")
			}
			s.refuseEmpty(value, at)
		}
	case yaml.ScalarNode, yaml.AliasNode:
	}
}

// readTools reads a server's definitions; nil when there are none to use.
func (b *builder) readTools(id string, f *serverFiles) []*definition.Tool {
	if f.tools == nil {
		b.fault(f.review.Name, 1, 1, fmt.Sprintf("servers/%s.tools.json is missing: write the server's answer to tools/list there", id))
		return nil
	}
	m := b.files[f.tools.Name]
	if m.tools != nil {
		return m.tools
	}
	tools, err := definition.ParseList(f.tools.Data)
	if err != nil {
		line, column := 0, 0
		if e, ok := errors.AsType[*definition.Error](err); ok {
			line, column = lineOf(f.tools.Data, e.Offset)
		}
		b.fault(f.tools.Name, line, column, err.Error())
		return nil
	}
	if tools == nil {
		tools = []*definition.Tool{}
	}
	m.tools = tools
	return tools
}

// review makes the contracts and puts what is wrong with them in its place. It
// returns what is wrong in the file of the definitions.
func (s *server) review(d contract.Declaration, tools []*definition.Tool, file *File) writ.Faults {
	contracts, faults, warnings := contract.New(d, tools)
	var definitions writ.Faults
	for _, f := range faults {
		switch {
		case f.Pointer != "":
			if len(definitions) < maxFaults {
				definitions = append(definitions, definitionFault(f, tools, file))
			}
		case f.Message != contract.ReasonPartial:
			s.add(s.at(f.Field), f.Field, f.Message)
		}
	}
	first := len(s.faults)
	for _, w := range warnings {
		s.add(s.at(w.Field), w.Field, w.Message)
	}
	for i := first; i < len(s.faults); i++ {
		s.faults[i].Severity = writ.Warning
	}
	if len(s.faults.Errors()) == 0 {
		s.contracts = contracts
	}
	return definitions
}

// definitionFault puts what is wrong with a tool's definition where it stands.
func definitionFault(f contract.FieldError, tools []*definition.Tool, file *File) writ.Fault {
	out := writ.Fault{File: file.Name, Field: f.Field, Message: f.Message}
	at := splitPath(f.Field)
	i := slices.IndexFunc(tools, func(t *definition.Tool) bool { return t.Name == at[len(at)-1] })
	if i < 0 {
		return out
	}
	text := file.Data[tools[i].Offset:]
	name, value := canon.Locate(text, f.Pointer)
	if value < len(text) && (text[value] == '{' || text[value] == '[') {
		value = name
	}
	out.Line, out.Column = lineOf(file.Data, tools[i].Offset+value)
	return out
}

// declaration is the Go form of the file.
func (s *server) declaration(f *bundlev1.ServerFile) contract.Declaration {
	d := contract.Declaration{
		ID: f.GetId(), Endpoint: f.GetEndpoint(), Package: f.GetPackage(), PackageHash: f.GetPackageHash(),
		Audience: f.GetAudience(), Version: f.GetVersion(), Owner: f.GetOwner(), Provenance: f.GetProvenance(),
		Token: f.GetToken(), ProofOfPossession: f.GetProofOfPossession(), RedeemedBy: f.GetRedeemedBy(), Command: f.GetCommand(),
		Classifications: f.GetClassifications(), Purposes: f.GetPurposes(), Valid: windowOf(f.GetValid()),
		Tools: make(map[string]contract.Review, len(f.GetTools())),
	}
	for i, r := range f.GetResources() {
		d.Resources = append(d.Resources, s.resource(r, item("resources", i)))
	}
	if f.GetDefaults() != nil {
		d.Defaults = s.reviewOf(f.GetDefaults(), "defaults")
	}
	d.Defaults.Partial = s.partly("defaults") || s.misspelt(f, "defaults")
	for _, name := range slices.Sorted(maps.Keys(f.GetTools())) {
		d.Tools[name] = s.reviewOf(f.GetTools()[name], "tools", name)
	}
	return d
}

// reviewOf converts one tool's review, or the defaults, that stands at a path
// of names in the file.
func (s *server) reviewOf(r *bundlev1.Review, at ...string) contract.Review {
	field, node := "", find(s.root, at...)
	for _, name := range at {
		field = member(field, name)
	}
	out := contract.Review{
		Valid: windowOf(r.GetValid()), Effect: r.GetEffect(), Reversible: r.Reversible, Scope: r.Scope, Intent: r.GetIntent(),
		MethodArgument: r.GetMethodArgument(), Opaque: r.GetOpaque(), NoEvidence: r.GetNoEvidence(),
		ReviewShows: r.GetReviewShows(), OnChange: r.GetOnChange(), DecideAt: r.GetDecideAt(), Grant: r.GetGrant(), Undeclared: r.GetUndeclared(),
		Loggable: r.GetLoggable(), Secret: r.GetSecret(),
	}
	if r.GetResource() != nil {
		one := s.resource(r.GetResource(), field+".resource")
		out.Resource = &one
	}
	if len(r.GetMethods()) > 0 {
		out.Methods = make(map[string]contract.Method, len(r.GetMethods()))
		for name, m := range r.GetMethods() {
			out.Methods[name] = contract.Method{Effect: m.GetEffect(), Reversible: m.Reversible, Scope: m.Scope}
		}
	}
	if len(r.GetArguments()) > 0 {
		out.Arguments = make(map[string]contract.Argument, len(r.GetArguments()))
		for name, a := range r.GetArguments() {
			out.Arguments[name] = contract.Argument{Entity: a.GetEntity(), MayBeNew: a.GetMayBeNew(), Long: a.GetLong(), Opaque: a.GetOpaque(), BoundTo: a.GetBoundTo()}
		}
	}
	if r.GetWhenAbsent() != nil {
		v, _ := s.tree(find(node, "when_absent"), field+".when_absent")
		out.WhenAbsent, _ = v.(map[string]any)
	}
	if len(r.GetEvidence()) > 0 {
		out.Evidence = make(map[string]contract.EvidenceLine, len(r.GetEvidence()))
		for name, e := range r.GetEvidence() {
			line := contract.EvidenceLine{Independent: int(e.GetIndependent())}
			for _, kind := range e.GetFrom() {
				line.From = append(line.From, writ.SourceKind(kind))
			}
			fresh := member(field+".evidence", name) + ".fresh"
			if line.Fresh = s.duration(e.GetFresh(), fresh); e.GetFresh() != nil && line.Fresh == 0 {
				s.add(s.at(fresh), fresh, "0s would mean any age: say how old the evidence may be, or leave fresh out")
			}
			out.Evidence[name] = line
		}
	}
	if p := r.GetPostconditions(); p != nil {
		out.Postconditions = &contract.Postconditions{
			Observer: p.GetObserver(), Tool: p.GetTool(), Within: s.duration(p.GetWithin(), field+".postconditions.within"),
		}
		for i, c := range p.GetChecks() {
			check := contract.Check{At: c.GetAt(), Equals: c.GetEquals(), Tolerance: c.GetTolerance(), Present: c.Present}
			if len(c.GetIn()) > 0 {
				at := item(field+".postconditions.checks", i) + ".in"
				v, _ := s.tree(find(find(node, "postconditions", "checks").Content[i], "in"), at)
				check.In, _ = v.([]any)
			}
			out.Postconditions.Checks = append(out.Postconditions.Checks, check)
		}
	}
	out.Partial = s.partly(field)
	return out
}

// windowOf converts a window; nil stays nil.
func windowOf(w *bundlev1.Window) *contract.Window {
	if w == nil {
		return nil
	}
	return &contract.Window{From: timeOf(w.GetFrom()), Until: timeOf(w.GetUntil())}
}

// duration converts a duration that has been read, and bounds it to what Go
// can count: 292 years.
func (s *server) duration(d *durationpb.Duration, field string) time.Duration {
	out := d.AsDuration()
	if d != nil && (out == 1<<63-1 || out == -1<<63) {
		s.add(s.at(field), field, "this is longer than anything lasts")
	}
	return out
}

// resource converts a resource line.
func (s *server) resource(r *bundlev1.Resource, field string) contract.Resource {
	return contract.Resource{
		Entity: r.GetEntity(), ID: r.GetId(), In: r.GetIn(), Fold: r.GetFold(), MayBeNew: r.GetMayBeNew(),
		Path: r.GetPath().GetNames(), Host: r.GetHost().GetNames(), URL: r.GetUrl().GetNames(), Email: r.GetEmail().GetNames(),
		Within: r.GetWithin(), Base: r.GetBase(), Case: r.GetCase(),
		Partial: s.partly(field),
	}
}

// checkObservers holds each postcondition against the servers and tools of
// the bundle: nobody else's word on an effect counts.
func (b *builder) checkObservers() {
	known := map[string]bool{}
	for _, s := range b.servers {
		known[s.id] = true
		for _, c := range s.contracts {
			known[s.id+"/"+c.Tool.Name] = true
		}
	}
	for _, s := range b.servers {
		for _, c := range s.contracts {
			p := c.Postconditions
			field := member("tools", c.Tool.Name) + ".postconditions"
			switch {
			case p == nil:
			case !known[p.Observer]:
				b.faultAt(s.document, field+".observer", didYouMean(fmt.Sprintf("there is no server %q", p.Observer), p.Observer, keys(b.layout.servers)))
			case !known[p.Observer+"/"+p.Tool]:
				b.faultAt(s.document, field+".tool", fmt.Sprintf("nobody has reviewed the tool %q of %s", p.Tool, p.Observer))
			}
		}
	}
}
