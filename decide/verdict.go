package decide

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// targetVerdict is what policies say of one target, for everybody who acts.
type targetVerdict struct {
	target  *contract.Target
	context types.Record
	element *types.Record // what context.element is; nil: there is none
	permits []*policy.Policy
	reviews []*policy.Policy // satisfied forbids that approvals may lift
}

// checkPolicy asks the bundle's policies about each target, for the principal
// and then for each actor: effective authority is the intersection. Several
// targets must all pass, and the first that is denied answers.
//
// For one target, in this order:
//  1. a forbid that cannot be evaluated denies;
//  2. a satisfied forbid without @review denies, with its code;
//  3. somebody without a permit is denied: nobody is asked to approve what
//     could never be allowed;
//  4. satisfied forbids with @review are left to APPROVAL;
//  5. otherwise the target passes.
func (c *call) checkPolicy() failure {
	c.decision.PolicyDigest = c.world.Policies.Digest(c.action)
	c.verdicts = make([]targetVerdict, len(c.targets))
	context := c.context(nil)
	for i := range c.targets {
		t := &c.targets[i]
		v := &c.verdicts[i]
		v.target, v.context = t, context
		if t.Element != nil {
			element, f := policy.Project(c.contract.Element, t.Element)
			if f != nil {
				return argument(f)
			}
			v.element = &element.Record
			v.context = c.context(v.element)
		}
		if f := c.judge(v); f.code != "" {
			return f
		}
	}
	for i := range c.verdicts {
		c.decision.Policies = merge(c.decision.Policies, c.verdicts[i].permits)
	}
	return passed
}

// judge applies steps 1 to 5 to one target.
func (c *call) judge(v *targetVerdict) failure {
	var failed, forbids []*policy.Policy
	lacking, erring, forbidden := -1, -1, -1 // the first party of each
	for i := range 1 + len(c.actors) {
		q := c.query(i, v)
		verdict := c.ask(q)
		for _, e := range verdict.ForbidErrors {
			failed = append(failed, e.Policy)
		}
		for _, e := range verdict.PermitErrors {
			c.decision.Errors = merge(c.decision.Errors, []*policy.Policy{e.Policy})
		}
		if erring < 0 && len(verdict.ForbidErrors) > 0 {
			erring = i
		}
		if forbidden < 0 && len(verdict.Forbids) > 0 {
			forbidden = i
		}
		forbids = union(forbids, verdict.Forbids)
		v.reviews = union(v.reviews, verdict.Reviews)
		v.permits = union(v.permits, verdict.Permits)
		if lacking < 0 && (len(verdict.Permits) == 0 || c.lapsed(q.Principal)) {
			lacking = i
		}
	}
	switch {
	case len(failed) > 0:
		slices.SortFunc(failed, policy.Compare)
		c.decision.Errors = merge(c.decision.Errors, failed)
		c.decision.Party = c.party(erring)
		return failure{writ.CodePolicyError, "The forbid " + failed[0].ID + " could not be evaluated.", v.target.Pointer}
	case len(forbids) > 0:
		c.decision.Policies = merge(nil, forbids)
		c.decision.Party = c.party(forbidden)
		why := forbids[0].Explain
		if why == "" {
			why = "The policy " + forbids[0].ID + " forbids it."
		}
		return failure{forbids[0].Code, why, v.target.Pointer}
	case lacking >= 0:
		q := c.query(lacking, v)
		c.decision.Party = c.party(lacking)
		acting := ""
		if lacking > 0 {
			acting = ", who acts for " + c.decision.Principal
		}
		if c.lapsed(q.Principal) {
			if lacking > 0 {
				acting += ","
			}
			return failure{writ.CodeNoPermit, q.Principal.String() + acting + " is not valid at this time.", v.target.Pointer}
		}
		for _, near := range c.world.Policies.Nearest(q) {
			c.decision.Nearest = merge(c.decision.Nearest, []*policy.Policy{near.Policy})
		}
		return failure{writ.CodeNoPermit, "No policy permits " + c.decision.Action + " for " + q.Principal.String() + acting + ".", v.target.Pointer}
	}
	return passed
}

// party is the text of party i: the principal, then the actors in turn.
func (c *call) party(i int) string {
	if i == 0 {
		return c.decision.Principal
	}
	return c.decision.Actors[i-1]
}

// lapsed reports whether the snapshot holds an entity that is outside of its
// validity window. Then it has no attributes and no parents, and a forbid
// about these could not stop it: so nothing permits it either.
func (c *call) lapsed(uid types.EntityUID) bool {
	if _, valid := c.world.Entities.Get(uid, c.now); valid {
		return false
	}
	return c.world.Entities.Has(uid)
}

// query asks about party i: the principal, then the actors in turn.
func (c *call) query(i int, v *targetVerdict) policy.Query {
	who := c.principal
	if i > 0 {
		who = c.actors[i-1]
	}
	return policy.Query{Principal: who, Action: c.action, Resource: v.target.Entity.UID, Context: v.context, Entities: &c.view}
}

// context is what policies see beside principal, action and resource. It is
// one for all who act.
func (c *call) context(element *types.Record) types.Record {
	return c.world.Policies.Context(c.action, c.contextInput(element))
}

func (c *call) contextInput(element *types.Record) policy.ContextInput {
	in := policy.ContextInput{
		Now: c.now, Zone: c.world.Zone, Intent: c.proposal.Intent, Principal: c.principal, Actors: c.actors, Tool: c.tool(),
		Arguments: c.projection.Record, Element: element, Evidence: c.evidence, Unsupported: c.unsupported,
		Classifications: c.classifications(), Unknown: c.unknown,
	}
	if c.contract.Server.TokenRequired {
		in.Token = c.proposal.Token
	}
	return in
}

// classifications lists those of the evidence, each once, in order.
func (c *call) classifications() []string {
	var out []string
	for i := range c.proposal.Evidence {
		if k := c.proposal.Evidence[i].Classification; k != "" && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// union adds the policies of b to a, in order of file and position, each once.
func union(a, b []*policy.Policy) []*policy.Policy {
	if len(b) == 0 {
		return a
	}
	if len(a) == 0 {
		return b
	}
	out := slices.Concat(a, b)
	slices.SortFunc(out, policy.Compare)
	return slices.Compact(out)
}

// merge adds references to policies to a list, each once.
func merge(refs []writ.PolicyRef, policies []*policy.Policy) []writ.PolicyRef {
	for _, p := range policies {
		if !slices.ContainsFunc(refs, func(r writ.PolicyRef) bool { return r.ID == p.ID }) {
			refs = append(refs, p.PolicyRef)
		}
	}
	return refs
}
