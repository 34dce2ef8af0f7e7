// Package bundle makes a [snapshot.Snapshot] of the files that people write,
// from whatever source they come: [Build] validates them whole, and says
// everything that is wrong with them at once, each fault with its file, line
// and column.
//
// # Files
//
//	servers/ID.yaml        what a reviewer declares about one MCP server
//	servers/ID.tools.json  its answer to tools/list, verbatim
//	policies/**.cedar      policies
//	schema.cedarschema     the bundle's own entity types
//	entities/**.json       entities, with validity windows
//	issuers.yaml           whose tokens count and which entities they make
//	jwks/NAME.json         signing keys of an issuer, where it names the file
//	callers.yaml           who may speak to the decision point
//	revocations.yaml       what no longer counts
//	scenarios/**.yaml      calls and the answers that they must get
//	bundle.yaml            name and time_zone, and what mutation tests may leave
//
// Only a server and a policy are needed. README.md, LICENSE files and hidden
// files are left alone; any other file is a fault, since a misspelt name must
// not mean that a rule is missing.
//
// # YAML
//
// Each YAML file is one Protobuf message of writ.bundle.v1, whose comments
// say what its fields mean. It must be readable in exactly one way: names in
// the spelling of the .proto file (snake_case), no repeated keys, no null
// where a value is meant, no aliases, anchors, tags or merge keys, one
// document, at most 1 MiB and 64 levels of UTF-8 without a byte order mark.
// Numbers inside arguments, when_absent and observed values count as they are
// written: 125.00 is never made a binary number on its way.
//
// What has the wrong form hides nothing else: it is left out, the rest is
// checked, and nothing is said that may only follow from what was left out.
//
// # Defaults
//
// Without issuers.yaml there is the issuer local, with User::"{sub}" and
// Agent::"{client_id}". Without a local host or operator in callers.yaml
// there are host (role host) and operator (roles operator and approver);
// neither vouches for anything. Times of day are UTC.
//
// # Scenarios
//
// A case is merged over its file's defaults as a JSON merge patch (RFC 7396):
// null removes. The defaults' arguments stay behind where a case names its
// own tool. What a case doesn't say is valid: the token is the principal's,
// for the server, with the scopes of the contract; the intent has the case's
// purpose; evidence was observed just now with the argument's own value. A
// case without now is decided at the time of the run.
package bundle
