package contract

import (
	"time"

	"github.com/writ-pdp/writ"
)

// Declaration is what a reviewer declares about one MCP server and its tools:
// the Go form of servers/ID.yaml. Members spell as in that file, in snake case.
type Declaration struct {
	// ID names the server in actions and policies. Required; no "/", ":", "#",
	// spaces or control characters, and none of the names of action groups.
	ID string
	// Endpoint is the canonical URL of a remote server: absolute https, or http
	// on loopback. Exactly one of Endpoint and PackageHash is required, because
	// it is what a proposal's server is recognised by.
	Endpoint string
	// PackageHash identifies a local server: sha256:<hex>, or an npm integrity
	// such as sha512-<base64>.
	PackageHash string
	// Package and Command say where a local server comes from and how it is
	// started: for people and tools, not for decisions.
	Package string
	Command []string
	// Audience is what a token's aud must hold. Empty: Endpoint.
	Audience string
	// Version is the server's version as reviewed. Optional.
	Version string
	// Owner and Provenance are for people. Optional.
	Owner, Provenance string
	// Token is "required" (also when empty) or "none", for a server whose calls
	// carry no access token.
	Token string
	// ProofOfPossession asks for tokens that are bound to their sender's key or
	// certificate.
	ProofOfPossession bool
	// RedeemedBy names the caller that redeems grants for this server. Empty:
	// the caller named like the server.
	RedeemedBy string
	// Valid is when the server is a registered one; nil: always.
	Valid *Window
	// Classifications and Purposes are those that the server is entitled to.
	Classifications, Purposes []string

	// Resources say what a call is about. The first line all of whose arguments
	// a tool declares applies to it; without one the Tool itself is the resource.
	Resources []Resource
	// Defaults lie under each tool's review.
	Defaults Review
	// Tools holds the reviewed tools by name. A tool that is not here has no
	// contract.
	Tools map[string]Review
}

// Resource says which arguments name the target of a call, and as what.
// Exactly one of Entity, Path, Host, URL and Email is set.
type Resource struct {
	// Entity is a Cedar entity type of the bundle. ID is a template for its id:
	// text in which {name} stands for an argument.
	Entity string
	ID     string
	// In holds templates of parents, by entity type.
	In map[string]string
	// Fold is empty, or "ascii": ASCII letters of ID and In become lower case.
	Fold string
	// MayBeNew says that the target need not be held by the bundle.
	MayBeNew bool

	// Path, Host, URL and Email name arguments that are targets of that kind.
	Path, Host, URL, Email []string

	// Within bounds paths: each must be one of these directories or below one.
	// Empty: no bound here.
	Within []string
	// Base is the absolute directory to which relative paths belong. Empty:
	// relative paths are refused.
	Base string
	// Case says how the server compares names in paths: "sensitive" (also when
	// empty) or "insensitive".
	Case string

	// Partial says that more is written than could be read; see [Review].
	Partial bool
}

// Window is a span of time. A zero bound is open; one of them is set.
type Window struct {
	From  time.Time // included
	Until time.Time // excluded
}

// Holds reports whether now is within w. A nil Window holds always.
func (w *Window) Holds(now time.Time) bool {
	return w == nil || !now.Before(w.From) && (w.Until.IsZero() || now.Before(w.Until))
}

// Review is what a reviewer declares about one tool.
type Review struct {
	// Valid is when the review counts: outside of it the tool is one that nobody
	// has reviewed. Nil: always.
	Valid *Window
	// Effect is pure, read or write. Required, here or in the defaults.
	Effect string
	// Reversible says that the effect can be undone. Nil: a write cannot.
	Reversible *bool
	// Scope is the one token scope that a call needs (RFC 6749, section 3.3).
	// Nil or empty: none.
	Scope *string
	// Intent is empty, or "required".
	Intent string
	// MethodArgument names the argument that makes one tool several: a required
	// string with an enum, each value of which becomes an action of its own.
	// Empty: "method" when Methods is set, else the tool is one.
	MethodArgument string
	// Methods says what differs for single values of MethodArgument.
	Methods map[string]Method
	// Resource replaces the server's resource lines. Not in defaults.
	Resource *Resource
	// Opaque names arguments that policies don't see.
	Opaque []string
	// Arguments says how policies see single arguments.
	Arguments map[string]Argument
	// WhenAbsent says what an absent optional argument means. Values are as
	// [canon.Parse] returns them.
	WhenAbsent map[string]any
	// Evidence says who must vouch for the values of which arguments.
	Evidence map[string]EvidenceLine
	// NoEvidence is the reason why there are no evidence lines.
	NoEvidence string
	// ReviewShows names the arguments to show to whoever is asked to approve.
	ReviewShows []string
	// Loggable names the arguments whose values records of calls may hold.
	// Nobody's else are.
	Loggable []string
	// Secret names the arguments whose values no record may hold in any form
	// that they could be guessed from: also not as the target of the call. No
	// argument is, is part of, or holds both a loggable and a secret one.
	Secret []string
	// Postconditions are checked after the call.
	Postconditions *Postconditions
	// OnChange says what a changed definition means: "strict" (also when
	// empty), every change denies.
	OnChange string
	// DecideAt is "pdp" (also when empty) or "server", for a tool whose server
	// decides by itself and redeems no grant.
	DecideAt string
	// Grant is empty, or "always": what the tool reads needs a grant, too, and
	// not only what it writes.
	Grant string
	// Undeclared says what becomes of arguments that the schema does not
	// declare: "refuse" (also when empty) or "allow", then opaque.
	Undeclared string

	// Partial says that more is written than could be read. [New] makes no
	// contract then, and reports what is wrong whatever the rest may say.
	Partial bool
}

// Method is what differs for one value of the method argument. What is unset is
// the tool's.
type Method struct {
	Effect     string
	Reversible *bool
	Scope      *string
}

// Argument says how policies see one argument.
type Argument struct {
	// Entity is the Cedar type that the argument's text names an entity of: one
	// of the bundle's, or Path, Host, Url or Email.
	Entity string
	// MayBeNew says that the entity need not be held by the bundle.
	MayBeNew bool
	// Long says that a JSON Schema number holds integers only.
	Long bool
	// Opaque says that policies don't see the argument.
	Opaque bool
	// BoundTo names the attribute of the entity that says whose it is: the
	// principal's entity, or a set that holds it. Empty: it is nobody's own.
	BoundTo string
}

// EvidenceLine says which sources must support a value.
type EvidenceLine struct {
	// From lists the kinds of source that count. Required.
	From []writ.SourceKind
	// Fresh is how old an observation may be. Zero: any age.
	Fresh time.Duration
	// Independent is how many sources without a common origin are needed. Zero: 1.
	Independent int
}

// Postconditions say what must hold after a call, and who observes it.
type Postconditions struct {
	Observer string        // id of the registered server that observes
	Tool     string        // the observer's tool that reads the outcome back
	Within   time.Duration // how long after the call; more than zero
	Checks   []Check       // at least one
}

// Check is one condition on what the observer sees. Exactly one of Equals, In
// and Present is set.
type Check struct {
	At        string // JSON Pointer into the observation (RFC 6901)
	Equals    string // JSON Pointer to the value it must equal: /arguments/...
	In        []any  // the scalars it may be
	Tolerance string // with Equals: by how much numbers may differ, a decimal
	Present   *bool  // whether it must be there at all
}
