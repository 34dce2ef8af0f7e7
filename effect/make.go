package effect

import (
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/contract"
)

// MakePlan says what is to be verified of one call of c's tool: the contract's
// postconditions, with the values that the call's arguments have. arguments
// are a tree of [canon.Parse] that the contract has validated; redeemed is
// when the call was let go. Without postconditions, or for a method that only
// reads, there is nothing to verify: Observer is empty.
//
// An argument that the call leaves out is what the contract says that its
// absence means (when_absent). Where the contract says nothing, nothing may
// have come of it: the expectation is Absent.
//
// ProposalDigest and IdempotencyKey are the caller's to set.
func MakePlan(c *contract.Contract, arguments map[string]any, redeemed time.Time) Plan {
	plan := Plan{Server: c.Server.ID, Tool: c.Tool.Name}
	post := c.Postconditions
	if _, rule := c.Action(arguments); post == nil || rule.Effect == writ.Read || rule.Effect == writ.Pure {
		return plan
	}
	plan.Observer, plan.ObserverTool, plan.Until = post.Observer, post.Tool, redeemed.Add(post.Within)
	plan.Checks = make([]Expectation, len(post.Checks))
	for i := range post.Checks {
		plan.Checks[i] = expect(c, &post.Checks[i], arguments)
	}
	return plan
}

func expect(c *contract.Contract, check *contract.Check, arguments map[string]any) Expectation {
	e := Expectation{At: check.At, Tolerance: check.Tolerance, Present: check.Present}
	for _, v := range check.In {
		e.In = append(e.In, string(canon.Append(nil, v)))
	}
	if check.Equals == "" {
		return e
	}
	v, ok := c.Value(arguments, check.Equals[len("/arguments"):])
	if !ok || v == nil {
		e.Absent, e.Tolerance = true, ""
		return e
	}
	e.Equals = string(canon.Append(nil, v))
	if len(e.Equals) > maxEquals {
		e.Equals = canon.Sum([]byte(e.Equals)).String()
	}
	return e
}

// maxEquals is the longest value of a call that is kept as it is, in bytes: the
// plans of many calls are remembered, and whoever proposes chooses the values.
// No number is longer.
const maxEquals = 128
