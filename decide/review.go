package decide

import (
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// render makes what people are asked to agree to: everything of the proposal
// that decides, and every attribute, tag and parent that the snapshot holds of
// the targets and of the other entities that arguments name. Its digest binds
// an approval to it: when any of it changes, the approval is stale. Nothing in
// it depends on the time, or on who has agreed.
func (c *call) render() *writ.Review {
	p, d := c.proposal, &c.decision
	r := &writ.Review{
		ProposalDigest: d.ProposalDigest, RequestID: p.RequestID, Caller: c.caller.Name,
		Principal: p.Principal, PrincipalEntity: d.Principal, Actors: d.Actors,
		Server: p.Server.ID, Tool: p.Tool, Action: d.Action, Effect: d.Effect, Reversible: c.rule.Reversible,
		ContractDigest: d.ContractDigest, Retries: p.Retries,
		Entities: c.shownEntities(), Arguments: c.shownArguments(), Policies: c.asked(), Revision: d.Revision,
	}
	if p.Intent != nil {
		intent := *p.Intent
		r.Intent = &intent
	}
	if len(c.extra) > 0 {
		r.ExtraParamsJSON = string(canon.Append(nil, c.extra))
	}
	r.Digest = writ.ReviewDigest(r)
	return r
}

// asked lists the policies that ask for people, each once, with what it asks
// about.
func (c *call) asked() []writ.ReviewPolicy {
	var policies []*policy.Policy
	for i := range c.verdicts {
		policies = union(policies, c.verdicts[i].reviews)
	}
	out := make([]writ.ReviewPolicy, len(policies))
	for i, p := range policies {
		out[i] = writ.ReviewPolicy{ID: p.ID, Code: p.Code, Explain: p.Explain, People: p.Review}
		for k := range c.verdicts {
			if v := &c.verdicts[k]; slices.Contains(v.reviews, p) {
				out[i].Targets = append(out[i].Targets, entityText(v.target.Entity.UID))
			}
		}
	}
	return out
}

// shownEntities are the targets, and the other entities that arguments name.
func (c *call) shownEntities() []writ.ReviewEntity {
	var out []writ.ReviewEntity
	for i := range c.targets {
		t := &c.targets[i]
		e := c.shownEntity(t.Entity.UID, t.Pointer, !t.BuiltIn)
		e.Target = true
		out = append(out, e)
	}
	for _, a := range c.projection.Entities {
		if e := c.shownEntity(a.UID, a.Pointer, true); !slices.ContainsFunc(out, func(o writ.ReviewEntity) bool {
			return o.Entity == e.Entity && o.Argument == e.Argument
		}) {
			out = append(out, e)
		}
	}
	return out
}

// shownEntity is one entity as the policies of this call see it. What is made
// of the arguments alone says no more than they do.
func (c *call) shownEntity(uid types.EntityUID, pointer string, kept bool) writ.ReviewEntity {
	out := writ.ReviewEntity{Entity: entityText(uid), Argument: pointer, Held: true}
	if !kept {
		return out
	}
	if _, out.Held = c.held(uid); !out.Held {
		_, out.Held = c.world.Policies.Static(uid)
	}
	e, _ := c.view.Get(uid)
	out.Attributes, out.Tags = cedarTexts(e.Attributes), cedarTexts(e.Tags)
	for p := range e.Parents.All() {
		out.Parents = append(out.Parents, entityText(p))
	}
	slices.Sort(out.Parents)
	return out
}

func cedarTexts(r types.Record) map[string]string {
	if r.Len() == 0 {
		return nil
	}
	out := make(map[string]string, r.Len())
	for name, v := range r.All() {
		out[string(name)] = string(v.MarshalCedar())
	}
	return out
}

// shownArguments are the values that the contract wants shown, or all but
// secret ones, and always those that nobody declared.
func (c *call) shownArguments() []writ.ReviewArgument {
	var out []writ.ReviewArgument
	for _, pointer := range c.contract.ReviewShows {
		out = append(out, c.shownArgument(pointer, false))
	}
	all := len(out) == 0
	for _, name := range slices.Sorted(maps.Keys(c.arguments)) {
		declared := c.contract.Arguments.Field(name) != nil
		if pointer := string(canon.AppendPointer(nil, name)); all || !declared {
			out = append(out, c.shownArgument(pointer, declared && c.contract.IsSecret(pointer)))
		}
	}
	if !all {
		return out
	}
	for _, pointer := range c.contract.EvidencePointers() { // those inside of what is shown already
		if _, ok := contract.At(c.arguments, pointer); ok && strings.Contains(pointer[1:], "/") {
			out = append(out, c.shownArgument(pointer, c.contract.IsSecret(pointer)))
		}
	}
	return out
}

func (c *call) shownArgument(pointer string, withheld bool) writ.ReviewArgument {
	out := writ.ReviewArgument{Pointer: pointer}
	line, needs := c.contract.Evidence[pointer]
	out.NeedsSupport = needs
	for i := range c.proposal.Evidence {
		e := &c.proposal.Evidence[i]
		if e.Argument != pointer {
			continue
		}
		s := writ.ReviewSource{
			Kind: e.Kind, Reference: e.Reference, Classification: e.Classification, ObservedAt: e.ObservedAt,
			Trusted: c.caller.VouchesFor(e.Kind), Agrees: c.matches(i),
		}
		out.Sources = append(out.Sources, s)
		if s.Trusted && s.Agrees && (!needs || slices.Contains(line.From, e.Kind)) {
			out.Supported = true
		}
	}
	v, ok := contract.At(c.arguments, pointer)
	switch {
	case !ok:
		out.Warnings = []string{"It is absent, and the contract does not say what that means."}
		if meant, ok := c.contract.Meant(c.arguments, pointer); ok {
			out.Warnings = []string{"It is absent, which the contract takes as " + string(canon.Append(nil, meant)) + "."}
		}
	case withheld:
		out.Warnings = []string{"It is secret, and is shown only where the contract's review_shows names it."}
	default:
		out.ValueJSON = string(canon.Append(nil, v))
		out.Warnings = warnings(v)
	}
	return out
}
