package contract

import (
	"github.com/cedar-policy/cedar-go/types"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/definition"
)

// Server is a registered MCP server, with every default filled in.
type Server struct {
	ID          string
	Endpoint    string // empty for a local server
	PackageHash string // empty for a remote server
	Package     string
	Audience    string // empty where no token is required
	Version     string
	Owner       string
	Provenance  string
	// RedeemedBy names the caller that redeems grants for the server.
	RedeemedBy string
	// TokenRequired says that every call needs an access token.
	TokenRequired bool
	// ProofOfPossession says that the token must be bound to a key or a
	// certificate that its sender proves to hold.
	ProofOfPossession bool
	Valid             *Window // when it is a registered one; nil: always
	// Classifications and Purposes are those that the server is entitled to,
	// sorted.
	Classifications, Purposes []string
}

// Contract is one reviewed tool: its definition, and everything that was
// declared about it, with every default filled in. It never changes and is
// safe for concurrent use. The zero Contract refuses every call.
type Contract struct {
	Server *Server
	Tool   *definition.Tool
	Valid  *Window // when the review counts; nil: always

	Effect         writ.Effect
	Reversible     bool
	Scope          string // empty: none needed
	IntentRequired bool

	// MethodArgument is the argument that chooses the action; empty: none.
	MethodArgument string
	// Methods holds the rule of every value of MethodArgument.
	Methods map[string]MethodRule

	// Arguments is the record of all arguments.
	Arguments *Type
	// Element is the type of context.element: the elements of the array that
	// the resource takes its targets from, where they are objects. Nil: none.
	Element *Type
	// Resource says what a call is about; nil: the Tool itself.
	Resource *Resource
	// Opaque lists the arguments that policies don't see, as reviews name
	// them, sorted.
	Opaque []string

	// Evidence holds the evidence lines by JSON Pointer: /supplier.
	Evidence map[string]EvidenceLine
	// NoEvidence is the reason why there are none, if one was given.
	NoEvidence string
	// ReviewShows are JSON Pointers of what to show to approvers, in order.
	ReviewShows []string
	// Loggable are JSON Pointers of the arguments whose values records may hold,
	// sorted.
	Loggable []string
	// Secret lists the arguments whose values no record may hold, as reviews
	// name them, sorted.
	Secret         []string
	Postconditions *Postconditions

	OnChange string // strict
	DecideAt string // pdp or server
	// Grant is "always" where what only reads needs a grant, too; see
	// [Contract.GrantRequired].
	Grant string
	// UndeclaredAllowed says that arguments beyond the schema are let through,
	// unseen by policies.
	UndeclaredAllowed bool

	Digest canon.Digest

	supported []string // the keys of Evidence, sorted

	secrets       [][]step // the places of Secret
	secretTargets bool     // one of them is part of Resource

	resourceField string // of the declaration; empty where Resource is nil

	action  string // S/T
	actions []string
	methods map[string]method
	target  *targetPlan
	schema  *validators
	// allow holds the declared top-level names by their folded form; nil unless
	// UndeclaredAllowed.
	allow map[string]string
}

// MethodRule is what one action of a tool does and needs.
type MethodRule struct {
	Effect     writ.Effect
	Reversible bool
	Scope      string
}

// GrantRequired reports whether a call under rule, which is c's, needs a grant
// at an enforcement point: a write does, unless its server decides by itself;
// what reads does where the contract says so; what is pure never does.
func (c *Contract) GrantRequired(rule MethodRule) bool {
	switch rule.Effect {
	case writ.Pure:
		return false
	case writ.Read:
		return c.Grant == "always"
	case writ.Write:
	}
	return c.DecideAt != "server"
}

type method struct {
	action string // S/T#m
	rule   MethodRule
}

// Action returns the id of the Cedar action that a call with args is, and its
// rule. A tool whose method argument holds none of its methods has no action:
// then id is empty, which no policy permits, and the rule is that of an
// irreversible write. [Contract.Validate] refuses such calls.
func (c *Contract) Action(args map[string]any) (id string, rule MethodRule) {
	if c.MethodArgument == "" {
		return c.action, MethodRule{c.Effect, c.Reversible, c.Scope}
	}
	if value, ok := args[c.MethodArgument].(string); ok {
		if m, ok := c.methods[value]; ok {
			return m.action, m.rule
		}
	}
	return "", MethodRule{Effect: writ.Write}
}

// Actions returns the ids of every action that a call can be, sorted: one, or
// one for each method.
func (c *Contract) Actions() []string { return append([]string(nil), c.actions...) }

// ID returns the tool's id, which is also that of the action group of its
// methods: S/T.
func (c *Contract) ID() string { return c.action }

// ResourceField returns the field of the declaration that Resource comes from:
// resources[0], or tools.T.resource; empty where Resource is nil.
func (c *Contract) ResourceField() string { return c.resourceField }

// EvidencePointers returns the JSON Pointers that have an evidence line,
// sorted. The caller doesn't change them.
func (c *Contract) EvidencePointers() []string { return c.supported }

// TargetType returns the Cedar type of the call's targets, and whether a call
// may have none, so that the Tool itself is the resource. The type is empty
// when every call is about the Tool itself.
func (c *Contract) TargetType() (t types.EntityType, optional bool) {
	if c.target == nil {
		return "", true
	}
	return c.target.entity, c.target.optional
}

// Failure says why arguments are refused.
type Failure struct {
	Code writ.Code // INVALID_ARGUMENTS or TARGET_OUT_OF_BOUNDS
	// Pointer is a JSON Pointer into the arguments (RFC 6901), for people: of a
	// name that nobody declared, what is not graphic is escaped, and one of more
	// than 64 bytes is left out.
	Pointer string
	// Message is for people. It shows what the schema says, and never the value
	// of an argument.
	Message string
}

// String returns "pointer: message". A Failure is deliberately no error: a nil
// *Failure means success.
func (f *Failure) String() string {
	if f.Pointer == "" {
		return f.Message
	}
	return f.Pointer + ": " + f.Message
}
