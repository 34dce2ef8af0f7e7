package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writ-pdp/writ"
	bundlev1 "github.com/writ-pdp/writ/gen/writ/bundle/v1"
	"github.com/writ-pdp/writ/snapshot"
)

// NotDecisionBearing is a field of a tool's calls that decides nothing, on
// purpose, as bundle.yaml declares.
type NotDecisionBearing struct {
	Field  string // arguments.NAME, or one of [FreeFields]
	Tool   string // server/tool
	Reason string
	Line   int // in bundle.yaml
}

// FreeFields are the fields beside arguments that a bundle may declare not to
// be decision-bearing.
var FreeFields = [...]string{"principal", "actors", "purpose"}

// AcceptedMutant is a change of a policy that no scenario needs to notice, as
// bundle.yaml declares.
type AcceptedMutant struct {
	Policy, Mutation, Reason string
	Line                     int // in bundle.yaml
}

// readMutants reads what bundle.yaml says about mutants. What they name is
// checked once it is known: see checkMutants.
func (b *builder) readMutants(d *document, file *bundlev1.BundleFile) {
	b.bundle = d
	reason := func(field, text string) {
		if strings.TrimSpace(text) == "" {
			d.add(d.at(field), field+".reason", "say why: the next reader must be able to judge it")
		}
	}
	for i, n := range file.GetNotDecisionBearing() {
		field := item("not_decision_bearing", i)
		reason(field, n.GetReason())
		b.free = append(b.free, NotDecisionBearing{n.GetField(), n.GetTool(), n.GetReason(), d.at(field).Line})
	}
	for i, a := range file.GetAcceptedMutants() {
		field := item("accepted_mutants", i)
		reason(field, a.GetReason())
		if a.GetMutation() == "" {
			d.add(d.at(field), field+".mutation", "name the mutation as `pdp check --mutate` prints it")
		}
		b.accepted = append(b.accepted, AcceptedMutant{a.GetPolicy(), a.GetMutation(), a.GetReason(), d.at(field).Line})
	}
}

// checkMutants holds the names in bundle.yaml against the bundle.
func (b *builder) checkMutants(world *snapshot.Snapshot) {
	if b.bundle == nil {
		return
	}
	d := b.bundle.copy()
	first := len(d.faults)
	fail := func(field, message string) { d.add(d.at(field), field, message) }
	for i, n := range b.free {
		at := item("not_decision_bearing", i)
		c := world.Contracts[n.Tool]
		if c == nil {
			fail(at+".tool", didYouMean(fmt.Sprintf("nobody has reviewed %q", n.Tool), n.Tool, keys(world.Contracts)))
			continue
		}
		known := slices.Clone(FreeFields[:])
		for _, f := range c.Arguments.Fields {
			known = append(known, "arguments."+f.Name)
		}
		if !slices.Contains(known, n.Field) {
			fail(at+".field", didYouMean(fmt.Sprintf("calls of %s have no field %q: the fields are %s", n.Tool, n.Field, strings.Join(known, ", ")), n.Field, known))
		}
		if slices.ContainsFunc(b.free[:i], func(o NotDecisionBearing) bool { return o.Tool == n.Tool && o.Field == n.Field }) {
			fail(at, "this is declared twice: one of the two must go")
		}
	}
	ids := []string{}
	for _, p := range b.policies.Policies() {
		ids = append(ids, p.ID)
	}
	for i, a := range b.accepted {
		at := item("accepted_mutants", i)
		if b.policies.Policy(a.Policy) == nil {
			fail(at+".policy", didYouMean(fmt.Sprintf("there is no policy %q", a.Policy), a.Policy, ids))
		}
		if slices.ContainsFunc(b.accepted[:i], func(o AcceptedMutant) bool { return o.Policy == a.Policy && o.Mutation == a.Mutation }) {
			fail(at, "this is accepted twice: one of the two must go")
		}
	}
	b.faults = append(b.faults, d.faults[first:]...)
}

// ceremony warns of what a bundle demands of calls that compute and touch
// nothing: minimum sufficient authority means none for them.
func (b *builder) ceremony() {
	for _, s := range b.servers {
		for _, c := range s.contracts {
			if c.Effect != writ.Pure {
				continue
			}
			warn := func(field, message string) {
				n := s.document.at(member("tools", c.Tool.Name) + field)
				b.faults = append(b.faults, writ.Fault{
					File: s.file, Line: n.Line, Column: n.Column, Field: member("tools", c.Tool.Name) + field, Severity: writ.Warning,
					Message: message + ": the tool is pure, it reads nothing and changes nothing, so this is ceremony that protects nothing",
				})
			}
			if len(c.Evidence) > 0 {
				warn(".evidence", "somebody must vouch for an argument")
			}
			if c.IntentRequired {
				warn(".intent", "a call needs the user's intent")
			}
			if c.DecideAt == "server" {
				warn(".decide_at", "the server decides by itself, and there is nothing to decide")
			}
			for _, p := range b.policies.Policies() {
				if p.Review == 0 || p.AboutApproval() {
					continue
				}
				for _, action := range b.policies.Covers(p) {
					if slices.Contains(c.Actions(), string(action.ID)) {
						b.faults = append(b.faults, writ.Fault{
							File: p.File, Line: p.Line, Column: p.Column, Severity: writ.Warning,
							Message: fmt.Sprintf("the review %q covers %s, which is pure: nobody needs to agree to a computation; narrow the action scope", p.ID, action.ID),
						})
						break
					}
				}
			}
		}
	}
}
