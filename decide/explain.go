package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/snapshot"
)

// maxExplained is how many policies that apply, and how many that don't, an
// explanation lists for one question; maxParties how many questions it explains.
const (
	maxExplained = 32
	maxParties   = 64
)

// Explain decides like [Decide] and says what each control saw, what each
// policy said, and what would have to change. It costs far more.
func Explain(world *snapshot.Snapshot, caller *writ.Caller, p *writ.Proposal, now time.Time) writ.Explanation {
	if world == nil || caller == nil || p == nil {
		return writ.Explanation{Decision: Decide(world, caller, p, now, nil)}
	}
	c := newCall(world, caller, p, now)
	e := explainer{call: &c}
	e.out.Decision = c.run(&e)
	e.parties()
	e.out.ToAllow = e.toAllow()
	return e.out
}

// explainer watches one decision. It implements Observer.
type explainer struct {
	call *call
	out  writ.Explanation
}

// Control notes what a control saw.
func (e *explainer) Control(name writ.Control, failed writ.Code) {
	e.out.Controls = append(e.out.Controls, writ.ControlExplained{Control: name, Code: failed, Saw: e.saw(name)})
}

// saw lists the facts that a control rests on, as far as it came.
func (e *explainer) saw(name writ.Control) []string {
	c, p := e.call, e.call.proposal
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch name {
	case writ.ControlProposal:
		say("%d arguments, %d extra parameters, %d pieces of evidence, %d approvals", len(c.arguments), len(c.extra), len(p.Evidence), len(p.Approvals))
		if p.Intent != nil {
			say("intent until %s", p.Intent.ExpiresAt.UTC().Format(time.RFC3339))
		}
	case writ.ControlRegistration:
		if server := c.world.Servers[p.Server.ID]; server != nil {
			say("server %s is registered at %s", server.ID, server.Endpoint+server.PackageHash)
		}
		if c.contract != nil {
			say("the reviewed definition is %s, the proposal's %s", c.contract.Tool.Digest, c.definition)
			say("effect %s, reversible %t", c.rule.Effect, c.rule.Reversible)
		}
	case writ.ControlToken:
		switch {
		case p.Token == nil && c.contract.Server.TokenRequired:
			say("no token")
		case p.Token == nil:
			say("the server takes no token: the caller names the user")
		default:
			say("token for %s until %s", strings.Join(p.Token.Audience, ", "), p.Token.ExpiresAt.UTC().Format(time.RFC3339))
			say("scope needed: %s; scopes: %s", orNone(c.rule.Scope), orNone(strings.Join(p.Token.Scopes, " ")))
			if c.member != nil {
				say("groups of the token: %s", strings.Join(p.Token.Groups, ", "))
			}
		}
		if c.decision.Principal != "" {
			say("for %s", c.decision.Principal)
		}
		for _, actor := range c.decision.Actors {
			say("acted for by %s", actor)
		}
	case writ.ControlRevocation:
		say("revocations up to %d", c.world.Revocations.Sequence())
	case writ.ControlArguments:
		say("arguments: %s", orNone(strings.Join(slices.Sorted(maps.Keys(c.arguments)), ", ")))
		if len(c.contract.Opaque) > 0 {
			say("not seen by policies: %s", strings.Join(c.contract.Opaque, ", "))
		}
	case writ.ControlTarget:
		for _, resource := range c.decision.Resources {
			say("about %s", resource)
		}
		for _, pointer := range c.unknown {
			say("%s is new to the bundle", pointer)
		}
	case writ.ControlDataFlow:
		for _, pointer := range c.contract.EvidencePointers() {
			line := c.contract.Evidence[pointer]
			trusted := 0
			for i := range c.evidence {
				if c.evidence[i].Trusted && c.evidence[i].Argument == pointer && slices.Contains(line.From, p.Evidence[i].Kind) {
					trusted++
				}
			}
			say("%s: %d independent of %v needed, %d trusted given", pointer, max(1, line.Independent), line.From, trusted)
		}
	case writ.ControlPolicy:
		say("%s on %s", c.decision.Action, strings.Join(c.decision.Resources, ", "))
	case writ.ControlApproval:
		for i := range c.verdicts {
			for _, review := range c.verdicts[i].reviews {
				n := c.worth(&c.verdicts[i], review)
				state := "not approved"
				if n.lifted() {
					state = "approved"
				}
				say("%s needs %d: %s", review.ID, review.Review, state)
			}
		}
	case writ.ControlFreshness, writ.ControlAudit: // not decide's
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// parties explains each question that was put to the policies.
func (e *explainer) parties() {
	c := e.call
	for i := range c.verdicts {
		v := &c.verdicts[i]
		if v.target == nil {
			break // an earlier target answered
		}
		for who := range 1 + len(c.actors) {
			if len(e.out.Parties) == maxParties {
				return
			}
			q := c.query(who, v)
			party := writ.PartyExplained{Who: q.Principal.String(), Actor: who > 0, Resource: q.Resource.String()}
			listed := map[writ.PolicyVerdict]int{}
			for _, seen := range c.consider(q) {
				x := explained(&seen)
				if listed[x.Verdict]++; listed[x.Verdict] > maxExplained {
					party.Others++
					continue
				}
				party.Policies = append(party.Policies, x)
			}
			e.out.Parties = append(e.out.Parties, party)
		}
	}
}

func explained(seen *policy.Considered) writ.PolicyExplained {
	x := writ.PolicyExplained{
		PolicyRef: seen.Policy.PolicyRef, Permit: seen.Policy.Effect == types.Permit, Verdict: writ.PolicyNot,
		Principal: seen.Principal, Resource: seen.Resource, Condition: seen.Condition,
	}
	switch {
	case seen.Failed():
		x.Verdict = writ.PolicyFailed
	case seen.Satisfied():
		x.Verdict = writ.PolicySatisfied
	}
	principal, resource := seen.Policy.Wants()
	if !seen.Principal {
		x.WantsPrincipal = principal
	}
	if !seen.Resource {
		x.WantsResource = resource
	}
	return x
}

// toAllow says what would have to change.
func (e *explainer) toAllow() []string {
	d := e.out.Decision
	switch d.Code {
	case writ.CodeAllow:
		return nil
	case writ.CodeScopeMissing:
		return []string{"Get a token with the scope " + d.MissingScope + "."}
	case writ.CodeNoPermit:
		return e.toPermit()
	case writ.CodePolicyError:
		return []string{"Mend the forbid " + d.Errors[0].ID + " so that it can be evaluated."}
	}
	if d.Control == writ.ControlApproval {
		var out []string
		for _, p := range d.Policies {
			out = append(out, fmt.Sprintf("Let people approve who may: %s needs %d.", p.ID, p.Review))
		}
		return out
	}
	if d.Control == writ.ControlPolicy {
		var out []string
		for _, p := range d.Policies {
			out = append(out, fmt.Sprintf("Make a call to which the forbid %s does not apply (%s:%d).", p.ID, p.File, p.Line))
		}
		return out
	}
	return []string{d.Explanation}
}

// toPermit says what the nearest permits lack, for the first who has none.
func (e *explainer) toPermit() []string {
	var out []string
	for _, uid := range append([]types.EntityUID{e.call.principal}, e.call.actors...) {
		if e.call.lapsed(uid) {
			return []string{"Wait for the validity window of " + uid.String() + ", or give it another."}
		}
	}
	for _, party := range e.out.Parties {
		if slices.ContainsFunc(party.Policies, func(p writ.PolicyExplained) bool { return p.Permit && p.Verdict == writ.PolicySatisfied }) {
			continue
		}
		for _, p := range party.Policies {
			ref := e.call.world.Policies.Policy(p.ID)
			if !p.Permit || ref == nil {
				continue
			}
			group, set := ref.WantsIn()
			switch {
			case p.Principal && p.Condition && !p.Resource && !set.IsZero():
				out = append(out, fmt.Sprintf("%s: put %s in %s.", p.ID, party.Resource, set))
			case p.Resource && p.Condition && !p.Principal && !group.IsZero():
				out = append(out, fmt.Sprintf("%s: put %s in %s.", p.ID, party.Who, group))
			case p.Principal && p.Resource && !p.Condition:
				out = append(out, fmt.Sprintf("%s: meet its condition (%s:%d).", p.ID, p.File, p.Line))
			}
		}
		if len(out) == 0 {
			out = append(out, "Write a permit for "+party.Who+" and "+e.out.Decision.Action+".")
		}
		return out
	}
	return out
}
