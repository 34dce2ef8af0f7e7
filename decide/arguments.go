package decide

import (
	"fmt"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/contract"
	"github.com/writ-pdp/writ/policy"
)

// maxQuestions is how many pairs of target and party one proposal may put to
// the policies.
const maxQuestions = 512

// checkArguments holds the arguments against the reviewed schema and turns
// them into what policies see. Anything present that policies could not see
// exactly is refused. Targets are read here, too, so that arguments that are
// invalid as such answer before any target does.
func (c *call) checkArguments() failure {
	if f := c.contract.Validate(c.arguments); f != nil {
		return argument(f)
	}
	var f *contract.Failure
	if c.projection, f = policy.Project(c.contract.Arguments, c.arguments); f != nil {
		return argument(f)
	}
	if c.targets, f = c.contract.Targets(c.arguments, c.projection.Made...); f != nil {
		if f.Code == writ.CodeInvalidArguments {
			return argument(f)
		}
		c.outOfBound = f
	} else {
		c.outOfBound = c.projection.Target
	}
	if len(c.targets)*(1+len(c.actors)) > maxQuestions {
		return failure{writ.CodeInvalidArguments, fmt.Sprintf("There are too many targets for so many actors: at most %d questions to the policies.", maxQuestions), ""}
	}
	p := c.proposal
	d := &c.decision
	d.CallDigest = writ.CallDigest(d.ContractDigest, p.Principal, p.Tool, c.arguments, c.extra)
	d.ProposalDigest = writ.ProposalDigest(d.CallDigest, p.RequestID, p.Intent, c.chain, p.Evidence, p.Retries)
	return passed
}

func argument(f *contract.Failure) failure { return failure{f.Code, f.Message, f.Pointer} }
