// Package policy is Cedar as Writ uses it: the schema that a bundle's
// contracts imply, what policies see of a call, the compiled policies, and
// their verdict.
//
// # The schema
//
// [NewSchema] makes it from contracts and from the entity types that the
// bundle declares. For a tool T of server S there is an action
//
//	Action::"S/T" in Action::"S", Action::"S:<effect>" and Action::"<effect>"
//
// and, where the tool has methods, one such action for each:
// Action::"S/T#method", which is also in Action::"S/T". Whoever approves a call
// has Action::"approve:S/T", in Action::"approve". A call's resource is its
// target, or the Tool where it has none; its context is typed by the tool's
// input schema. Tool, Server, Path, Host, Url, Email, Caller, Role, Service, Policy
// and Source are Writ's entity types; User, Group and Agent are there unless the bundle
// declares its own.
//
// [Project] makes context.arguments from the contract's types, and
// [Schema.Context] the rest of the context. The schema's types and these
// values come from the same tables, so that a value that the schema doesn't
// allow can't arise. What Cedar can't represent exactly is INVALID_ARGUMENTS.
//
// # Callers
//
// What callers may do at the PDP is said by policies of their own, whose action
// scope names a method ([Methods]), all of them, or vouching:
//
//	Action::"pdp:METHOD" in Action::"pdp"    Caller does it to Service, or Server
//	Action::"vouch"                          Caller does it to Source
//
// An open action scope never covers these. Their context is empty: [Set.Entitles]
// answers once for each bundle. Writ's own, in rights.cedar, give the roles their
// rights; those of a bundle add permits and forbids.
//
// # Loading
//
// [Compile] loads policies. Each has an @id, unique in the bundle. A forbid has
// a @code of its own, or @review("n") if n people can lift it; @explain says
// to people what it is for. An open action scope covers calls, never
// approvals; but that of a forbid without @review covers both.
//
// A text is measured before Cedar's parser sees it, which recurses without
// bound. A file that it can't read is read again policy by policy, so that all
// faults show at once; no part of such a file is ever in force. Then Cedar's
// strict validator checks each policy against a cut of the schema, and a pass of
// our own refuses rules that could never fire: literals outside the values that
// an argument, or Writ itself, can give, paths outside the bounds of contracts,
// conditions that exclude each other, names that nothing has.
//
// # Judging
//
// [Set.Judge] evaluates forbids and permits apart. Cedar skips a policy that
// errs; here a forbid that errs is reported, so that the caller can deny. Only
// policies that an index finds by action, principal and resource are evaluated:
// the time doesn't grow with policies about other calls.
package policy
