// Package decide answers one proposal from one snapshot: (snapshot, caller,
// proposal, now) -> decision. It is pure: no clock, no file, no network, no
// log, and nothing in it knows how a proposal arrived.
//
// A decision is an ordered list of controls. The first that fails answers,
// with a code that no other control uses. Each control is one file:
//
//	PROPOSAL      proposal.go      can it be read in exactly one way; is the intent alive
//	REGISTRATION  registration.go  is this the reviewed server and the reviewed tool
//	TOKEN         token.go         whose authority is it, for this service, now
//	REVOCATION    revocation.go    has any of it been withdrawn
//	ARGUMENTS     arguments.go     do the arguments fit, exactly
//	TARGET        target.go        what is the call about, and is it known
//	DATA_FLOW     dataflow.go      may this data go there, and who vouches for the values
//	POLICY        verdict.go       do the bundle's policies permit it, for everybody who acts
//	APPROVAL      approval.go      have enough other people agreed
//
// Everything fails closed: a zero Decision denies, and a control that cannot
// tell says no.
package decide

import (
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
	"github.com/writ-pdp/writ/snapshot"
)

// Observer sees each control as it ends: failed is empty where it passed. A
// nil Observer costs nothing.
type Observer interface {
	Control(c writ.Control, failed writ.Code)
}

// Decide answers p, brought by caller, from world at the instant now. Neither
// world nor p is changed. A nil world, caller or proposal is denied.
func Decide(world *snapshot.Snapshot, caller *writ.Caller, p *writ.Proposal, now time.Time, o Observer) writ.Decision {
	if world == nil || caller == nil || p == nil {
		return writ.Decision{
			Code: writ.CodeMalformedProposal, Control: writ.ControlProposal, Explanation: "There is no proposal, no caller or no snapshot.",
		}
	}
	c := newCall(world, caller, p, now)
	return c.run(o)
}

// run applies the controls in order. The first that fails answers.
func (c *call) run(o Observer) writ.Decision {
	for i := range controls {
		failed := controls[i].run(c)
		if o != nil {
			o.Control(controls[i].name, failed.code)
		}
		if failed.code != "" {
			return c.fail(failed)
		}
	}
	c.decision.Outcome, c.decision.Code = writ.Allow, writ.CodeAllow
	c.decision.Explanation = "Every control passed."
	return c.decision
}

// controls is the decision. Its order is the order of writ.Controls.
var controls = [...]struct {
	name writ.Control
	run  func(*call) failure
}{
	{writ.ControlProposal, (*call).checkProposal},
	{writ.ControlRegistration, (*call).checkRegistration},
	{writ.ControlToken, (*call).checkToken},
	{writ.ControlRevocation, (*call).checkRevocation},
	{writ.ControlArguments, (*call).checkArguments},
	{writ.ControlTarget, (*call).checkTarget},
	{writ.ControlDataFlow, (*call).checkDataFlow},
	{writ.ControlPolicy, (*call).checkPolicy},
	{writ.ControlApproval, (*call).checkApproval},
}

// failure is why a control said no; an empty code means that it passed.
type failure struct {
	code  writ.Code
	why   string // one sentence, without argument values
	field string // of the proposal, or a JSON Pointer into the arguments
}

var passed = failure{}

// call is one decision under way. Each control fills in what it learns; later
// controls rely on what earlier ones established.
type call struct {
	world    *snapshot.Snapshot
	caller   *writ.Caller
	proposal *writ.Proposal
	now      time.Time
	decision writ.Decision

	// PROPOSAL
	arguments  map[string]any
	extra      map[string]any
	observed   []any // the value of each evidence, parsed
	definition canon.Digest

	// REGISTRATION
	contract *contract.Contract
	action   types.EntityUID
	rule     contract.MethodRule

	// TOKEN
	principal types.EntityUID
	member    *types.Entity     // the principal with its token's groups; nil: it names none
	chain     []writ.Actor      // the token's actors, then the proposal's
	actors    []types.EntityUID // of chain

	// ARGUMENTS and TARGET
	projection policy.Projection
	targets    []contract.Target
	outOfBound *contract.Failure
	view       view
	lifted     bool                     // the call itself places somebody who acts: see ask
	put        map[types.EntityUID]bool // of targets, what puts has found; nil: it was not asked
	unknown    []string                 // pointers of entity arguments that the snapshot doesn't hold

	// DATA_FLOW
	evidence []policy.EvidenceSeen
	groups   []int    // what sources has found; nil: not asked yet
	lacking  []string // what unsupported has found; nil: not asked yet

	// POLICY
	verdicts []targetVerdict // one a target

	// APPROVAL
	approvers []types.EntityUID // of the proposal's approvals; zero: nobody
}

func newCall(world *snapshot.Snapshot, caller *writ.Caller, p *writ.Proposal, now time.Time) call {
	c := call{world: world, caller: caller, proposal: p, now: now}
	c.decision.Revision = world.Revision
	c.decision.Server, c.decision.Tool = p.Server.ID, p.Tool
	return c
}

// fail completes the decision with what a control said. An own code has its
// one outcome; a bundle's code is a denial.
func (c *call) fail(f failure) writ.Decision {
	d := c.decision
	d.Outcome = writ.Deny
	if info, ok := f.code.Info(); ok && info.Outcome == writ.ReviewRequired {
		d.Outcome = writ.ReviewRequired
	}
	d.Code, d.Control, d.Explanation = f.code, f.code.Control(), f.why
	if f.field != "" {
		d.Field = f.field
	}
	return d
}
