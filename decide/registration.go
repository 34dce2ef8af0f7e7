package decide

import (
	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
)

// checkRegistration binds the proposal to a reviewed server and a reviewed
// tool. Names alone are claims: the endpoint or package hash and the digest
// of the current definition must be the reviewed ones.
func (c *call) checkRegistration() failure {
	p := c.proposal
	server := c.world.Servers[p.Server.ID]
	if server == nil {
		return failure{writ.CodeServerIdentity, "No server of this id is registered.", "server.id"}
	}
	if p.Server.Endpoint != server.Endpoint {
		return failure{writ.CodeServerIdentity, "The server is registered at another endpoint.", "server.endpoint"}
	}
	if p.Server.PackageHash != server.PackageHash {
		return failure{writ.CodeServerIdentity, "The server is registered with another package hash.", "server.package_hash"}
	}
	if !server.Valid.Holds(c.now) {
		return failure{writ.CodeServerIdentity, "The server's registration is not valid now.", "server.id"}
	}
	c.contract = c.world.Contract(p.Server.ID, p.Tool)
	if c.contract == nil {
		return failure{writ.CodeToolUnregistered, "Nobody has reviewed this tool of this server.", "tool"}
	}
	if !c.contract.Valid.Holds(c.now) {
		return failure{writ.CodeToolUnregistered, "The review of this tool is not valid now.", "tool"}
	}
	if c.definition != c.contract.Tool.Digest {
		return failure{writ.CodeDefinitionChanged, "The tool's current definition differs from the reviewed one.", "definition_digest"}
	}
	action, rule := c.contract.Action(c.arguments)
	c.rule = rule
	c.action = types.NewEntityUID("Action", types.String(action))
	c.decision.Action = action
	c.decision.Effect = rule.Effect
	c.decision.ContractDigest = c.contract.Digest
	return passed
}
